//! Precompiles read and write no state, but their input and output may be stale, and wei sent to one meets other wei.

use crate::support::program::Op::*;
use crate::support::test_chain::*;
use crate::support::*;
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, Bytes, U256};

const SHA256: u8 = 2;
const IDENTITY: u8 = 4;
const PAIRING: u8 = 8;

/// Each transaction hashes its predecessor's hash, so a stale input changes all later ones.
#[test]
fn chained_hash_precompile_calls() {
    let chain = TestChain::new();
    let hash = [Load(0), Precompile(SHA256, 0), Store(0), Log];
    let (output, _) = chain.check(&calls(&[&hash[..]; 24]), 0..10);
    let values: Vec<_> = output.receipts.iter().map(|receipt| receipt.logs[0].data.clone()).collect();
    assert!(values.windows(2).all(|two| two[0] != two[1]), "{values:?}");
}

/// Other transactions' writes determine whether a call fails, and so how much gas is left.
#[test]
fn precompile_failure_under_stale_read() {
    let chain = TestChain::new();
    let turn = [Load(0), Add(1), Store(0)];
    // A pairing of 32 bytes fails and uses all of its gas.
    let call = [Load(0), SkipIfZero(1), Precompile(PAIRING, 0), Precompile(IDENTITY, 1), Store(1), Log];
    let programs: Vec<&[_]> = (0..24).map(|index| if index % 5 == 3 { &turn[..] } else { &call[..] }).collect();
    let (output, _) = chain.check(&calls(&programs), 0..10);
    assert!(output.receipts.iter().all(|receipt| receipt.success));
    let gas: std::collections::BTreeSet<_> = output.receipts.iter().map(|receipt| receipt.gas_used).collect();
    assert!(gas.len() > 2, "{gas:?}");
}

/// Payments to precompiles by transactions and by contracts, next to readers of their balances.
#[test]
fn wei_for_precompiles() {
    let chain = TestChain::new();
    let sha = Address::with_last_byte(SHA256);
    let raws: Vec<Bytes> = (0..24u8)
        .map(|index| {
            let (who, nonce) = (key(index % KEYS), u64::from(index / KEYS));
            match index % 3 {
                0 => who.sign(TxEip1559 { value: U256::from(index), input: b"abc"[..].into(), ..draft(nonce, sha) }),
                1 => who.sign(call(nonce, 0, &[Set(index), Precompile(SHA256, 1), Store(1)])),
                // Enough gas for the transfer, but not for the hash: the wei stay with the sender.
                _ => who.sign(TxEip1559 { value: U256::from(1), gas_limit: 21_059, ..draft(nonce, sha) }),
            }
        })
        .collect();
    let (output, _) = chain.check(&block(&raws), 0..10);
    let succeeded = output.receipts.iter().filter(|receipt| receipt.success).count();
    assert_eq!(succeeded, 16);
    let paid: u64 = (0..24).filter(|index| index % 3 == 0).sum::<u64>() + 8;
    assert_eq!(output.changes.accounts[&sha].as_ref().unwrap().balance, U256::from(paid));
}
