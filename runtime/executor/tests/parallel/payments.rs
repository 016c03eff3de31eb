//! All senders pay one shop, with two tokens of `contracts/`: one reads balances, the other uses counters (D8).

use crate::support::test_chain::*;
use crate::support::*;
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use corniche_executor::Statistics;
use corniche_state::{Changes, StateView};
use corniche_types::Account;
use std::path::{Path, PathBuf};

const SHOP: Address = Address::repeat_byte(0x5a);
const TOKEN: Address = Address::repeat_byte(0x70);

#[allow(clippy::disallowed_methods)] // tests are configured by their environment
fn module(name: &str) -> Bytes {
    let modules = std::env::var_os("CONTRACTS_WASM_DIR")
        .map(PathBuf::from)
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/contracts/wasm32-unknown-unknown/release"));
    let path = modules.join(name).with_extension("wasm");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `make contracts`", path.display())).into()
}

/// Runs a block of payments from twelve customers to one shop; all of them have a balance. The mapping of balances is
/// in slot `balances`.
fn pay(token: &str, balances: u8) -> Statistics {
    let mut chain = TestChain::new();
    let code = module(token);
    let hash = keccak256(&code);
    let account = Account { nonce: 1, code_hash: hash, abi_version: 1, gas_version: 1, ..Account::default() };
    let slot = |owner: Address| {
        let key = [owner.into_word(), B256::with_last_byte(balances)].concat();
        ((TOKEN, keccak256(key)), B256::with_last_byte(100))
    };
    let owners = (0..KEYS).map(|who| key(who).address()).chain([SHOP]);
    chain.append(&Changes {
        accounts: [(TOKEN, Some(account))].into(),
        storage: owners.map(slot).collect(),
        code: [(hash, code)].into(),
    });
    // transfer(address,uint256)
    let input: Bytes = [&[0xa9, 0x05, 0x9c, 0xbb][..], &SHOP.into_word()[..], &B256::with_last_byte(3)[..]].concat().into();
    let payments: Vec<_> = (1..KEYS).map(|who| key(who).sign(TxEip1559 { input: input.clone(), ..draft(0, TOKEN) })).collect();
    let (output, statistics) = chain.check(&by_one_author(block(&payments)), 0..10);
    assert!(output.receipts.iter().all(|receipt| receipt.success && receipt.logs.len() == 1), "{:?}", output.receipts);
    let owned = output.changes.storage[&slot(SHOP).0];
    assert_eq!(owned, B256::with_last_byte(100 + 3 * (KEYS - 1)), "{token}");
    statistics
}

#[test]
fn payments_to_one_account_do_not_conflict() {
    let read = pay("erc20", 4);
    assert!(
        read.invalidations + read.suspensions + read.predicted_conflicts > 0,
        "each payment reads what the one before wrote: {read:?}"
    );
    let counted = pay("token", 3);
    assert_eq!(
        counted.invalidations + counted.suspensions + counted.bounds_violated + counted.predicted_conflicts,
        0,
        "{counted:?}"
    );
    assert_eq!(counted.executions, counted.transactions);
}

/// A payment reads the recipient's code only and adds to its balance: to an account, to a contract, and to the account
/// that gets the block's fees.
#[test]
fn native_payments_to_one_account_do_not_conflict() {
    let chain = TestChain::new();
    for to in [SHOP, contracts()[1], chain.fees()[0]] {
        let pay = |who| TxEip1559 { value: U256::from(who), ..call_or_payment(to) };
        let payments: Vec<_> = (1..KEYS).map(|who| key(who).sign(pay(who))).collect();
        let candidates = by_one_author(block(&payments));
        let (output, statistics) = chain.check(&candidates, 0..10);
        assert!(output.receipts.iter().all(|receipt| receipt.success), "{:?}", output.receipts);
        let paid: u64 = (1..u64::from(KEYS)).sum();
        let before = StateView::account(&chain.snapshot(), &to).unwrap_or_default().balance;
        let balance = output.changes.accounts[&to].as_ref().map(|account| account.balance).unwrap();
        assert!(balance >= before + U256::from(paid) && (to == chain.fees()[0] || balance == before + U256::from(paid)));
        let conflicts = statistics.invalidations + statistics.suspensions + statistics.predicted_conflicts;
        assert_eq!((conflicts, statistics.executions), (0, statistics.transactions), "{to}: {statistics:?}");
    }
}

fn call_or_payment(to: Address) -> TxEip1559 {
    if to == contracts()[1] { call(0, 1, &[]) } else { draft(0, to) }
}

/// Payments to an address before and after a contract is created there: those after it run the contract.
#[test]
fn payments_see_contract_created_in_block() {
    let chain = TestChain::new();
    let created = key(5).address().create(0);
    let payment = |nonce| {
        let run = program::input(created, contracts()[0], &[program::Op::Add(1), program::Op::Log]);
        TxEip1559 { value: U256::from(2), input: run, gas_limit: 400_000, ..draft(nonce, created) }
    };
    let creation = TxEip1559 { input: program::module(0), gas_limit: 6_000_000, ..draft(0, TxKind::Create) };
    for position in [0, 3, 9] {
        let mut raws: Vec<_> = (0..10).map(|who| key(who + u8::from(who > 4)).sign(payment(0))).collect();
        raws.insert(position, key(5).sign(creation.clone()));
        let (output, _) = chain.check(&by_one_author(block(&raws)), 0..20);
        let ran = output.receipts.iter().filter(|receipt| !receipt.logs.is_empty()).count();
        assert_eq!(ran, 10 - position, "{:?}", output.receipts);
    }
}
