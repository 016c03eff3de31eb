//! Runs the real WebAssembly on the nodes' virtual machine, with headers of its own chain.

use alloy_primitives::keccak256;
use alloy_sol_types::sol;
use corniche_harness::{Address, Bytes, Chain, Contract, B256, U256};

sol! {
    function witness(bytes header) returns (uint256);
    function header(uint256 number) returns (bytes32 hash, uint256 timestamp, bytes32 randomness, bytes32 stateRoot);
    event Witnessed(uint256 indexed number, bytes32 hash, bytes32 randomness, bytes32 stateRoot);
    error Malformed();
    error OutOfReach(uint256 number);
    error Another(uint256 number);
}

fn witness() -> (Chain, Address, Address) {
    let mut chain = Chain::new();
    let alice = chain.account("alice");
    let witness = chain.by(alice).deploy(&Contract::in_this_crate(), ()).unwrap();
    (chain, alice, witness)
}

fn call(header: &Bytes) -> witnessCall {
    witnessCall { header: header.clone() }
}

#[test]
fn stores_certified_header() {
    let (mut chain, alice, witness) = witness();
    let (number, time, randomness) = (chain.height(), chain.time(), chain.randomness());
    chain.mine(1);
    let header = chain.header(number).unwrap();
    let early: OutOfReach = chain.by(alice).send(witness, call(&header)).unwrap_err().error().unwrap();
    assert_eq!(early.number, U256::from(number));
    chain.mine(number + 64 - chain.height());
    assert!(chain.by(alice).send(witness, call(&header)).is_err(), "64 blocks below");
    let sent = chain.by(alice).send(witness, call(&header)).unwrap();
    assert_eq!(sent.output, U256::from(number), "65 blocks below");
    let [told] = &sent.events::<Witnessed>()[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.number, told.hash, told.randomness), (U256::from(number), keccak256(&header), randomness));

    // The contract still has it after the chain has overwritten the hash.
    chain.mine(8_300);
    assert!(chain.by(alice).send(witness, call(&header)).unwrap_err().error::<OutOfReach>().is_some());
    let kept = chain.view(witness, headerCall { number: U256::from(number) });
    assert_eq!((kept.hash, kept.timestamp, kept.randomness), (keccak256(&header), U256::from(time), randomness));
    assert_eq!(chain.view(witness, headerCall { number: U256::from(number + 1) }).hash, B256::ZERO);
    chain.gas().assert_matches_file("gas.txt");
}

#[test]
fn rejects_header_with_changed_byte() {
    let (mut chain, alice, witness) = witness();
    chain.mine(100);
    let header = chain.header(5).unwrap();
    let mut refused = [0, 0];
    for at in (0..header.len()).step_by(7) {
        let mut other = header.to_vec();
        other[at] ^= 1;
        let failed = chain.by(alice).call(witness, call(&other.into())).unwrap_err();
        let why = [
            failed.error::<Malformed>().is_some(),
            failed.error::<Another>().is_some() || failed.error::<OutOfReach>().is_some(),
        ];
        assert!(why[0] != why[1], "byte {at}: {failed:?}");
        refused[usize::from(why[1])] += 1;
    }
    assert!(refused[1] > 50, "{refused:?}");
    assert_eq!(chain.by(alice).call(witness, call(&header)).unwrap(), U256::from(5));
    // A test chain's headers have no roots, so the test sets the hash of a header with roots.
    chain.set_certified_hash(5, keccak256("another chain's"));
    assert!(chain.by(alice).call(witness, call(&header)).unwrap_err().error::<Another>().is_some());
}
