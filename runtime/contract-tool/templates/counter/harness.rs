//! Tests of the deployable module on the virtual machine of the nodes.

use alloy_sol_types::sol;
use corniche_harness::{Chain, Contract, U256};

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
    chain.by(alice).send(counter, incrementCall {}).unwrap();
    let sent = chain.by(bob).send(counter, addCall { added: U256::from(41) }).unwrap();
    let [told] = &sent.events::<Incremented>()[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.by, told.number), (bob, U256::from(42)));
    assert_eq!(chain.view(counter, numberCall {}), U256::from(42));
}

#[test]
fn overflow_reverts_with_its_error() {
    let mut chain = Chain::new();
    let alice = chain.account("alice");
    let counter = chain.by(alice).deploy(&Contract::in_this_crate(), ()).unwrap();
    chain.by(alice).send(counter, addCall { added: U256::MAX }).unwrap();
    let refused = chain.by(alice).send(counter, incrementCall {}).unwrap_err();
    assert_eq!(refused.error::<CounterOverflow>().unwrap().number, U256::MAX);
}
