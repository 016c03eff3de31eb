//! Formats that clients and proofs rely on: the interface and the storage. Changing one is a new protocol version.

mod support;

use alloy_primitives::{B256, Bytes, U256, hex, keccak256};
use corniche_staking::interface::Staking::{StakingCalls, StakingErrors, StakingEvents, setEndpointsCall, unbondCall};
use support::{Chain, Secrets, account, short_epochs, votes};

fn lines(kind: &str, selectors: &[impl AsRef<[u8]>], signatures: &[&str]) -> Vec<String> {
    assert_eq!(selectors.len(), signatures.len());
    let mut named: Vec<_> = signatures.iter().zip(selectors).collect();
    named.sort_by_key(|(signature, _)| **signature);
    named.iter().map(|(signature, selector)| format!("{kind} {} {signature}", hex::encode(selector))).collect()
}

#[test]
fn interface_is_frozen() {
    let functions = lines("function", StakingCalls::SELECTORS, StakingCalls::SIGNATURES);
    let events = lines("event", StakingEvents::SELECTORS, StakingEvents::SIGNATURES);
    let errors = lines("error", StakingErrors::SELECTORS, StakingErrors::SIGNATURES);
    let found = [functions, events, errors].concat().join("\n") + "\n";
    assert_eq!(found, include_str!("fixtures/interface.txt"), "found:\n{found}");
}

/// Other software signs registrations too.
#[test]
fn proofs_are_frozen() {
    let keys = Secrets::new(9).sign(account(9));
    let proofs = [("consensus", keys.consensusProof), ("bls", keys.blsProof), ("network", keys.networkProof)];
    let found: String = proofs.iter().map(|(key, proof)| format!("{key} {}\n", hex::encode(proof))).collect();
    assert_eq!(found, include_str!("fixtures/proofs.txt"), "found:\n{found}");
}

/// Hash of all slots in order.
fn storage(chain: &Chain) -> B256 {
    keccak256(chain.memory.slots.iter().flat_map(|(slot, value)| [*slot, *value]).collect::<Vec<_>>().concat())
}

#[test]
fn storage_is_frozen() {
    let mut chain = Chain::new(short_epochs(), &[2, 1, 2, 2]);
    let genesis = storage(&chain);
    let owner = account(9);
    let id = chain.send(owner, votes(2), &Secrets::new(9).register(owner)).unwrap();
    let endpoints = Bytes::from_static(b"/ip4/192.0.2.1/tcp/4001");
    chain.send(owner, U256::ZERO, &setEndpointsCall { id, endpoints }).unwrap();
    chain.send(owner, U256::ZERO, &unbondCall { id, amount: votes(1) }).unwrap();
    chain.next_epoch();
    let found = format!("{} slots {genesis}\n{} slots {}\n", genesis_slots(), chain.memory.slots.len(), storage(&chain));
    assert_eq!(found, include_str!("fixtures/storage.txt"), "found:\n{found}");
}

fn genesis_slots() -> usize {
    Chain::new(short_epochs(), &[2, 1, 2, 2]).memory.slots.len()
}
