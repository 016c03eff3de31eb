//! Contract creations, by transactions and by contracts.

use super::scripts::*;
use crate::host::CallKind;
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use corniche_state::Account;

fn creation(chain: &Chain, data: &[u8]) -> TxEip1559 {
    TxEip1559 { input: Bytes::copy_from_slice(data), ..chain.draft(TxKind::Create) }
}

fn intrinsic(data: &[u8]) -> u64 {
    21_000 + 32_000 + 16 * data.len() as u64 + 2 * data.len().div_ceil(32) as u64
}

#[test]
fn code_deposit_is_paid_per_byte() {
    let mut chain = Chain::new();
    chain.script("token", |_| out(1));
    let mut draft = creation(&chain, b"token");
    draft.value = U256::from(5);
    let receipt = chain.send(draft).receipt;
    let address = chain.sender().create(0);
    assert!(receipt.success);
    assert_eq!((receipt.contract_address, receipt.to), (Some(address), None));
    assert_eq!(receipt.gas_used, intrinsic(b"token") + PREPARE_GAS + 60 * 5);
    let expected = Account { nonce: 1, balance: U256::from(5), code_hash: keccak256("token"), abi_version: 1, gas_version: 1 };
    assert_eq!(chain.account(address), expected);
    assert_eq!(chain.state.code[&keccak256("token")], Bytes::from_static(b"token"));
    assert_eq!(read(&chain.send_to(address).receipt.output), 1, "it runs");
}

#[test]
fn constructor_runs_in_same_transaction() {
    let mut chain = Chain::new();
    chain.script("token", |guest| {
        assert_eq!(guest.host.context().value, U256::from(5));
        assert_eq!(guest.input, Bytes::from_static(b"1000"));
        guest.log(1)?;
        guest.store(1, 1_000).and(Ok(Bytes::new()))
    });
    let mut draft = creation(&chain, b"token|1000");
    draft.value = U256::from(5);
    let receipt = chain.send(draft).receipt;
    let address = receipt.contract_address.unwrap();
    assert!(receipt.success);
    assert_eq!((chain.slot(address, 1), chain.balance(address)), (1_000, 5));
    assert_eq!(receipt.logs[0].address, address);
    let constructor = 22_100 + 375 + 375 + 32;
    assert_eq!(receipt.gas_used, intrinsic(b"token|1000") + PREPARE_GAS + 60 * 5 + constructor);
}

#[test]
fn reverting_constructor_undoes_creation() {
    let mut chain = Chain::new();
    chain.script("token", |guest| {
        guest.store(1, 1)?;
        Err(Stop::Revert(Bytes::from_static(b"no supply")))
    });
    let mut draft = creation(&chain, b"token|");
    draft.value = U256::from(5);
    let executed = chain.send(draft);
    let address = chain.sender().create(0);
    assert!(!executed.receipt.success);
    assert_eq!(executed.receipt.output, Bytes::from_static(b"no supply"));
    assert_eq!(executed.receipt.contract_address, Some(address), "also failed creations name it");
    assert_eq!(chain.account(address), Account::default());
    assert!(executed.changes.code.is_empty() && executed.changes.storage.is_empty());
    assert!(executed.receipt.gas_used < 1_000_000, "unused gas comes back");
}

#[test]
fn invalid_contract_has_reason() {
    let mut chain = Chain::new();
    let receipt = chain.send(creation(&chain, &[0x60, 0x80])).receipt;
    assert!(!receipt.success);
    assert_eq!(receipt.output, Bytes::from_static(b"not a script"));
    assert_eq!(receipt.gas_used, intrinsic(&[1, 1]) + PREPARE_GAS, "what reading it cost, and no more");
}

#[test]
fn gas_of_validation_and_deposit() {
    let mut chain = Chain::new();
    chain.script("token", |_| out(1));
    let base = intrinsic(b"token");
    for (gas, success) in [(base + 10, false), (base + PREPARE_GAS + 299, false), (base + PREPARE_GAS + 300, true)] {
        let mut draft = creation(&chain, b"token");
        draft.gas_limit = gas;
        let receipt = chain.send(draft).receipt;
        assert_eq!((receipt.success, receipt.gas_used), (success, gas), "with {gas} gas");
    }
}

#[test]
fn address_collision_fails() {
    let mut chain = Chain::new();
    chain.script("token", |_| out(1));
    let address = chain.sender().create(0);
    chain.state.accounts.insert(address, Some(Account { nonce: 1, ..Account::default() }));
    let receipt = chain.send(creation(&chain, b"token")).receipt;
    assert_eq!((receipt.success, receipt.gas_used), (false, 1_000_000), "EIP-684: all gas is gone");
    assert!(!chain.account(address).has_code());

    // Wei sent in advance does not block the address.
    let next = chain.sender().create(1);
    chain.set_balance(next, 7);
    assert!(chain.send(creation(&chain, b"token")).receipt.success);
    assert_eq!(chain.balance(next), 7);
}

#[test]
fn contracts_create_by_nonce_and_by_salt() {
    let mut chain = Chain::new();
    chain.script("token", |guest| out(guest.host.context().caller.0[0].into()));
    let factory = chain.contract("factory", |guest| {
        let gas = guest.gas;
        let first = guest.create(b"token", 1, None)?;
        assert_eq!(first.gas, 32_000 + 2 + PREPARE_GAS + 300);
        assert_eq!(first.gas, gas - guest.gas);
        let second = guest.create(b"token", 0, None)?;
        let salted = guest.create(b"token", 0, Some(B256::repeat_byte(3)))?;
        assert_eq!(salted.gas, 32_000 + 2 + 6 + PREPARE_GAS + 300);
        let again = guest.create(b"token", 0, Some(B256::repeat_byte(3)))?;
        assert_eq!(again.address, None, "taken");
        assert_eq!(guest.gas, {
            // The collision used all but 1/64 of the remaining gas.
            let before = guest.gas + again.gas;
            (before - 32_008) / 64
        });
        let found = [first, second, salted].map(|created| created.address.unwrap());
        Ok(found.concat().into())
    });
    chain.set_balance(factory, 1);
    let receipt = chain.send_to(factory).receipt;
    assert!(receipt.success, "{receipt:?}");
    let expected = [factory.create(1), factory.create(2), factory.create2(B256::repeat_byte(3), keccak256(b"token"))];
    assert_eq!(receipt.output, Bytes::from(expected.concat()));
    assert_eq!(chain.account(factory).nonce, 5, "also the failed one moved the nonce");
    assert_eq!(chain.balance(expected[0]), 1);
}

#[test]
fn failed_inner_creation_keeps_outer() {
    let mut chain = Chain::new();
    chain.script("bad", |_| Err(Stop::Revert(Bytes::from_static(b"why"))));
    let factory = chain.contract("factory", |guest| {
        let failed = guest.create(b"bad|x", 0, None)?;
        assert_eq!((failed.address, failed.output), (None, Bytes::from_static(b"why")));
        let refused = guest.create(b"unknown", 0, None)?;
        assert_eq!((refused.address, refused.output.len()), (None, 0));
        let unaffordable = guest.create(b"bad", 1, None)?;
        assert_eq!((unaffordable.address, unaffordable.gas), (None, 32_002));
        guest.store(1, 1).and(out(0))
    });
    let executed = chain.send_to(factory);
    assert!(executed.receipt.success);
    assert_eq!(chain.slot(factory, 1), 1);
    assert_eq!(chain.account(factory).nonce, 3, "a creation that could not start does not move the nonce");
    assert!(executed.changes.code.is_empty());
}

#[test]
fn failed_creation_address_stays_warm() {
    let mut chain = Chain::new();
    let factory = chain.contract("factory", |guest| {
        guest.create(b"unknown", 0, None)?;
        let address = contract("factory").create(1);
        let balance = guest.host.balance(&address, guest.gas)?;
        assert_eq!(balance.gas, 100);
        out(0)
    });
    assert!(chain.send_to(factory).receipt.success);
}

#[test]
fn creation_data_size_is_limited() {
    let mut chain = Chain::new();
    let factory = chain.contract("factory", |guest| {
        let size = corniche_types::intrinsic::MAX_INIT_CODE_BYTES;
        assert!(guest.create(&vec![1; size], 0, None)?.address.is_none());
        guest.create(&vec![1; size + 1], 0, None)?;
        unreachable!("EIP-3860: the creating frame ends")
    });
    let receipt = chain.send_to(factory).receipt;
    assert_eq!((receipt.success, receipt.gas_used), (false, 1_000_000));
}

/// A contract deployed in a transaction is called in the same one.
#[test]
fn create_then_call() {
    let mut chain = Chain::new();
    chain.script("token", |guest| guest.store(1, 5).and(out(5)));
    let factory = chain.contract("factory", |guest| {
        let address: Address = guest.create(b"token", 0, None)?.address.unwrap();
        let returned = guest.call(CallKind::Call, address, 0, u64::MAX, &[])?;
        Ok(returned.output)
    });
    assert_eq!(read(&chain.send_to(factory).receipt.output), 5);
    assert_eq!(chain.slot(factory.create(1), 1), 5);
}
