//! Runs the real WebAssembly on the nodes' virtual machine.

use alloy_sol_types::sol;
use corniche_harness::{Chain, Contract, U256};
use proptest::prelude::*;

sol! {
    function number() returns (uint256);
    function increment();
    function add(uint256 added);
    event Incremented(address indexed by, uint256 number);
    error CounterOverflow(uint256 number, uint256 added);
}

#[test]
fn counts_and_emits_caller() {
    let mut chain = Chain::new();
    let [alice, bob] = ["alice", "bob"].map(|name| chain.account(name));
    let counter = chain.by(alice).deploy(&Contract::in_this_crate(), ()).unwrap();
    assert_eq!(chain.view(counter, numberCall {}), U256::ZERO);

    chain.by(alice).send(counter, incrementCall {}).unwrap();
    let sent = chain.by(bob).send(counter, addCall { added: U256::from(41) }).unwrap();
    let [told] = &sent.events::<Incremented>()[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.by, told.number), (bob, U256::from(42)));
    assert_eq!(chain.view(counter, numberCall {}), U256::from(42));

    chain.gas().assert_matches_file("gas.txt");
}

#[test]
fn overflow_reverts_with_named_error() {
    let mut chain = Chain::new();
    let alice = chain.account("alice");
    let counter = chain.by(alice).deploy(&Contract::in_this_crate(), ()).unwrap();
    chain.by(alice).send(counter, addCall { added: U256::MAX }).unwrap();
    let refused = chain.by(alice).send(counter, incrementCall {}).unwrap_err();
    let error: CounterOverflow = refused.error().unwrap();
    assert_eq!((error.number, error.added), (U256::MAX, U256::from(1)));
    assert_eq!(chain.view(counter, numberCall {}), U256::MAX);
}

#[test]
fn module_embeds_abi() {
    let contract = Contract::in_this_crate();
    assert_eq!(contract.interface(), Some(&include_bytes!("../abi.json")[..]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// For any additions in any order, the number is the sum of those that did not revert.
    #[test]
    fn number_is_sum_of_additions(added in prop::collection::vec(prop_oneof![
        any::<u64>().prop_map(U256::from),
        any::<[u64; 4]>().prop_map(U256::from_limbs),
        Just(U256::MAX),
    ], 0..8)) {
        let mut chain = Chain::new();
        let alice = chain.account("alice");
        let counter = chain.by(alice).deploy(&Contract::in_this_crate(), ()).unwrap();
        let mut sum = U256::ZERO;
        for added in added {
            let next = sum.checked_add(added);
            prop_assert_eq!(chain.by(alice).send(counter, addCall { added }).is_ok(), next.is_some());
            sum = next.unwrap_or(sum);
            prop_assert_eq!(chain.view(counter, numberCall {}), sum);
        }
    }
}
