//! All senders pay one shop, with two tokens of `contracts/`: one reads balances, the other uses counters (D8).

use crate::support::test_chain::*;
use crate::support::*;
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, keccak256};
use corniche_executor::Statistics;
use corniche_state::Changes;
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
