//! Fees: additions to accounts that are rarely read. One of the three authors is paid to a sender, another to a
//! contract.

use crate::support::program::Op::*;
use crate::support::test_chain::*;
use crate::support::*;
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, U256};

#[test]
fn fee_recipient_sends_and_receives() {
    let chain = TestChain::new();
    let mut nonces = [0u64; KEYS as usize];
    let raws: Vec<_> = (0..48u8)
        .map(|index| {
            // Key 1 receives fees and sends every fourth transaction.
            let who = if index % 4 == 0 { 1 } else { index % KEYS };
            nonces[who as usize] += 1;
            let nonce = nonces[who as usize] - 1;
            let mut draft = match index % 3 {
                0 => TxEip1559 { value: U256::from(7), ..draft(nonce, key(1).address()) },
                1 => call(nonce, 1, &[Balance, Store(2), Send(1)]),
                _ => call(nonce, 0, &[Load(0), Add(1), Store(0)]),
            };
            draft.max_priority_fee_per_gas = u128::from(index % 5);
            key(who).sign(draft)
        })
        .collect();
    let (output, _) = chain.check(&block(&raws), 0..20);
    assert!(output.receipts.iter().all(|receipt| receipt.success));
}

/// Fees that no transaction reads cause no waiting.
#[test]
fn fees_do_not_conflict() {
    let chain = TestChain::new();
    let raws: Vec<_> =
        (2..KEYS).map(|who| key(who).sign(TxEip1559 { value: U256::ONE, ..draft(0, Address::repeat_byte(who)) })).collect();
    let candidates = by_one_author(block(&raws));
    let (output, statistics) = chain.check(&candidates, 0..10);
    assert_eq!(statistics.re_executions + statistics.suspensions + statistics.invalidations, 0, "{statistics:?}");
    assert_eq!(output.receipts.len(), candidates.len());
}

/// A sender that can pay only with fees it earned in the same block.
#[test]
fn fees_can_be_spent_in_same_block() {
    let chain = TestChain::new();
    let whole = chain.snapshot();
    let rich = corniche_state::StateView::account(&whole, &key(1).address()).unwrap().balance;
    let all = |nonce, more: u64| TxEip1559 {
        value: rich + U256::from(more) - U256::from(21_000 * 12),
        gas_limit: 21_000,
        max_fee_per_gas: 12,
        ..draft(nonce, Address::repeat_byte(9))
    };
    // The second author's fees go to key 1.
    let raws = vec![
        key(1).sign(all(0, 1)),
        key(2).sign(draft(0, Address::repeat_byte(8))),
        key(1).sign(all(0, 42_000)),
        key(3).sign(draft(0, Address::repeat_byte(8))),
        key(1).sign(all(1, 0)),
    ];
    let (output, _) = chain.check(&block(&raws), 0..50);
    assert_eq!(output.skipped.len(), 2, "{:?}", output.skipped);
}
