//! Transactions that are skipped or executed depending on earlier ones.

use crate::support::test_chain::*;
use crate::support::*;
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, U256};

#[test]
fn nonce_valid_only_after_predecessor() {
    let chain = TestChain::new();
    let poor = key(KEYS + 1);
    let money = |nonce, wei: u64| TxEip1559 { value: U256::from(wei), ..draft(nonce, poor.address()) };
    let spend = |nonce| TxEip1559 { gas_limit: 21_000, ..draft(nonce, Address::repeat_byte(5)) };
    let raws = vec![
        poor.sign(spend(0)),
        key(0).sign(money(0, 500_000)),
        poor.sign(spend(1)),
        poor.sign(spend(0)),
        poor.sign(spend(1)),
        poor.sign(spend(1)),
        key(0).sign(money(1, 420_000)),
        poor.sign(spend(2)),
        key(0).sign(money(0, 1)),
        key(0).sign(money(3, 1)),
        key(0).sign(money(2, 1)),
        key(0).sign(money(3, 1)),
    ];
    let (output, _) = chain.check(&block(&raws), 0..100);
    assert!(output.skipped.len() >= 4 && output.receipts.len() >= 5, "{:?}", output.skipped);
}
