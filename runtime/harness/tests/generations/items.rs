//! OpenZeppelin's ERC-1155: batches, and calls of receivers.

use super::contract;
use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::sol;
use corniche_harness::Chain;

sol! {
    function mint(address to, uint256 id, uint256 value, bytes data);
    function mintBatch(address to, uint256[] ids, uint256[] values, bytes data);
    function balanceOf(address account, uint256 id) returns (uint256);
    function balanceOfBatch(address[] accounts, uint256[] ids) returns (uint256[] memory);
    function setApprovalForAll(address operator, bool approved);
    function safeTransferFrom(address from, address to, uint256 id, uint256 value, bytes data);
    function safeBatchTransferFrom(address from, address to, uint256[] ids, uint256[] values, bytes data);
    function burn(address account, uint256 tokenId, uint256 value);
    function burnBatch(address account, uint256[] tokenIds, uint256[] values);

    event TransferSingle(address indexed operator, address indexed from, address indexed to, uint256 id, uint256 value);
    event TransferBatch(address indexed operator, address indexed from, address indexed to, uint256[] ids, uint256[] values);

    error ERC1155InsufficientBalance(address sender, uint256 balance, uint256 needed, uint256 tokenId);
    error ERC1155MissingApprovalForAll(address operator, address owner);
    error ERC1155InvalidArrayLength(uint256 idsLength, uint256 valuesLength);
    error ERC1155InvalidReceiver(address receiver);
}

fn numbers<const N: usize>(values: [u64; N]) -> Vec<U256> {
    values.map(U256::from).to_vec()
}

/// Alice has 10 of item 1, 20 of item 2 and 30 of item 3.
fn items() -> (Chain, Address, [Address; 2]) {
    let mut chain = Chain::new();
    let people = ["alice", "bob"].map(|name| chain.account(name));
    let items = chain.by(people[0]).deploy(&contract("oz_erc1155"), ()).unwrap();
    let batch = mintBatchCall { to: people[0], ids: numbers([1, 2, 3]), values: numbers([10, 20, 30]), data: Bytes::new() };
    let minted = chain.by(people[0]).send(items, batch).unwrap();
    assert_eq!(minted.events::<TransferBatch>()[0].values, numbers([10, 20, 30]));
    (chain, items, people)
}

fn batch(from: Address, to: Address, values: Vec<U256>) -> safeBatchTransferFromCall {
    safeBatchTransferFromCall { from, to, ids: numbers([1, 3]), values, data: Bytes::from(b"with love") }
}

#[test]
fn batch_transfer_is_atomic() {
    let (mut chain, items, [alice, bob]) = items();
    let moved = chain.by(alice).send(items, batch(alice, bob, numbers([4, 5]))).unwrap();
    let told = &moved.events::<TransferBatch>()[0];
    assert_eq!((told.operator, told.from, told.to, &told.ids), (alice, alice, bob, &numbers([1, 3])));
    let of = |accounts: [Address; 4]| balanceOfBatchCall { accounts: accounts.to_vec(), ids: numbers([1, 3, 1, 3]) };
    assert_eq!(chain.view(items, of([alice, alice, bob, bob])), numbers([6, 25, 4, 5]));

    let refused = chain.by(alice).send(items, batch(alice, bob, numbers([6, 26]))).err().unwrap();
    let error: ERC1155InsufficientBalance = refused.error().unwrap();
    assert_eq!((error.balance, error.needed, error.tokenId), (U256::from(25), U256::from(26), U256::from(3)));
    let refused = chain.by(alice).send(items, batch(alice, bob, numbers([1]))).err().unwrap();
    assert!(refused.error::<ERC1155InvalidArrayLength>().is_some(), "{refused:?}");
    let refused = chain.by(bob).send(items, batch(alice, bob, numbers([1, 1]))).err().unwrap();
    assert_eq!(refused.error::<ERC1155MissingApprovalForAll>().unwrap().operator, bob);
    assert_eq!(chain.view(items, of([alice, alice, bob, bob])), numbers([6, 25, 4, 5]), "nothing of these moved");

    chain.by(alice).send(items, setApprovalForAllCall { operator: bob, approved: true }).unwrap();
    chain.by(bob).send(items, burnBatchCall { account: alice, tokenIds: numbers([1, 3]), values: numbers([6, 25]) }).unwrap();
    chain.by(bob).send(items, burnCall { account: bob, tokenId: U256::from(1), value: U256::from(4) }).unwrap();
    assert_eq!(chain.view(items, of([alice, alice, bob, bob])), numbers([0, 0, 0, 5]));
}

#[test]
fn single_and_batch_receivers_are_called() {
    let (mut chain, items, [alice, _]) = items();
    let holder = chain.by(alice).deploy(&contract("oz_holder"), ()).unwrap();
    chain.by(alice).send(items, batch(alice, holder, numbers([1, 1]))).unwrap();
    let one = |to| safeTransferFromCall { from: alice, to, id: U256::from(2), value: U256::from(7), data: Bytes::new() };
    let sent = chain.by(alice).send(items, one(holder)).unwrap();
    assert_eq!(sent.events::<TransferSingle>()[0].value, U256::from(7));
    assert_eq!(chain.view(items, balanceOfCall { account: holder, id: U256::from(2) }), U256::from(7));
    // A contract without the receiver function gets no items, by transfer or by mint.
    let deaf = chain.by(alice).deploy(&contract("oz_erc721"), (alice,)).unwrap();
    let minted = mintCall { to: deaf, id: U256::from(9), value: U256::from(1), data: Bytes::new() };
    for refused in [
        chain.by(alice).send(items, one(deaf)).err().unwrap(),
        chain.by(alice).send(items, batch(alice, deaf, numbers([1, 1]))).err().unwrap(),
        chain.by(alice).send(items, minted).err().unwrap(),
    ] {
        assert_eq!(refused.error::<ERC1155InvalidReceiver>().unwrap().receiver, deaf, "{refused:?}");
    }
}
