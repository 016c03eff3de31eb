//! Every transaction reads what its predecessor wrote.

use crate::support::program::Op::*;
use crate::support::test_chain::*;
use crate::support::*;

#[test]
fn all_increment_one_slot() {
    let chain = TestChain::new();
    let raws: Vec<_> = (0..40)
        .map(|index| key(index % KEYS).sign(call(u64::from(index / KEYS), 0, &[Load(1), Add(1), Store(1), Log])))
        .collect();
    let (output, _) = chain.check(&block(&raws), 0..10);
    assert!(output.receipts.iter().all(|receipt| receipt.success));
    assert_eq!(output.receipts[39].output[..], [40, 0, 0, 0]);
}

/// A predicted chain causes no wasted runs: after some conflicts each transaction waits for its predecessor.
#[test]
fn conflict_chain_needs_few_reruns() {
    let chain = TestChain::new();
    let raws: Vec<_> = (0..200u64)
        .map(|index| {
            let who = (index % u64::from(KEYS)) as u8;
            key(who).sign(call(index / u64::from(KEYS), 0, &[Load(1), Add(1), Store(1)]))
        })
        .collect();
    for seed in 0..10 {
        let (_, statistics) = chain.stepped(&by_one_author(block(&raws)), 4, seed, Vec::new());
        assert!(statistics.executions < 240, "{statistics:?}");
    }
}

#[test]
fn one_sender_needs_no_reruns() {
    let chain = TestChain::new();
    let raws: Vec<_> = (0..50).map(|nonce| key(2).sign(call(nonce, 0, &[Load(1), Add(3), Store(1)]))).collect();
    for seed in 0..10 {
        let (_, statistics) = chain.stepped(&block(&raws), 4, seed, Vec::new());
        assert_eq!((statistics.executions, statistics.invalidations), (50, 0), "{statistics:?}");
    }
    chain.check(&block(&raws), 0..10);
}
