//! Tests of the deployable module on the virtual machine of the nodes.

use alloy_sol_types::sol;
use corniche_harness::{Address, Chain, Contract, U256};

sol! {
    function transfer(address to, uint256 value) returns (bool);
    function balanceOf(address account) returns (uint256);
    event Transfer(address indexed from, address indexed to, uint256 value);
    error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
}

fn gold(chain: &mut Chain, owner: Address) -> Address {
    let supply = U256::from(1_000);
    chain.by(owner).deploy(&Contract::in_this_crate(), ("Gold".to_owned(), "GLD".to_owned(), supply)).unwrap()
}

#[test]
fn transfer_moves_tokens_and_emits_event() {
    let mut chain = Chain::new();
    let [alice, bob] = ["alice", "bob"].map(|name| chain.account(name));
    let token = gold(&mut chain, alice);
    let sent = chain.by(alice).send(token, transferCall { to: bob, value: U256::from(10) }).unwrap();
    assert!(sent.output);
    assert_eq!(sent.events::<Transfer>()[0].to, bob);
    assert_eq!(chain.view(token, balanceOfCall { account: alice }), U256::from(990));
}

#[test]
fn overdraft_reverts_with_its_error() {
    let mut chain = Chain::new();
    let [alice, bob] = ["alice", "bob"].map(|name| chain.account(name));
    let token = gold(&mut chain, alice);
    let refused = chain.by(bob).send(token, transferCall { to: alice, value: U256::from(11) }).unwrap_err();
    assert_eq!(refused.error::<ERC20InsufficientBalance>().unwrap().needed, U256::from(11));
}
