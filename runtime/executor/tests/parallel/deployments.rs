//! Contracts deployed, funded and called in one block.

use crate::support::program::{self, Op::*};
use crate::support::test_chain::*;
use crate::support::*;
use alloy_consensus::TxEip1559;
use alloy_primitives::{Bytes, TxKind, U256};

#[test]
fn call_in_deploying_block() {
    let chain = TestChain::new();
    let new = key(0).address().create(0);
    let deploy =
        TxEip1559 { input: program::module(9), gas_limit: 6_000_000, value: U256::from(3), ..draft(0, TxKind::Create) };
    let mut raws: Vec<Bytes> = vec![key(1).sign(TxEip1559 { input: b"early".into(), ..draft(0, new) }), key(0).sign(deploy)];
    for who in 2..10 {
        let input = program::input(new, contracts()[0], &[Load(0), Add(1), Store(0), Call(vec![Load(1), Add(1), Store(1)])]);
        raws.push(key(who).sign(TxEip1559 { input, gas_limit: 400_000, ..draft(0, new) }));
    }
    // Deploys the same code at another address.
    raws.push(key(0).sign(TxEip1559 { input: program::module(9), gas_limit: 6_000_000, ..draft(1, TxKind::Create) }));
    let (output, _) = chain.check(&block(&raws), 0..20);
    assert!(output.receipts.iter().all(|receipt| receipt.success), "{:?}", output.receipts);
    assert!(output.receipts[0].gas_used < 23_000, "nobody was at home yet");
    assert_eq!(output.changes.code.len(), 1);
}
