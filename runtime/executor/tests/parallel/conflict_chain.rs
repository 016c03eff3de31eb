//! Every transaction reads what its predecessor wrote.

use crate::support::judge::*;
use crate::support::program::Op::*;
use crate::support::*;

#[test]
fn everybody_increments_one_slot() {
    let court = Court::new();
    let raws: Vec<_> = (0..40)
        .map(|index| key(index % KEYS).sign(call(u64::from(index / KEYS), 0, &[Load(1), Add(1), Store(1), Log])))
        .collect();
    let (output, _) = court.judge(&block(&raws), 0..10);
    assert!(output.receipts.iter().all(|receipt| receipt.success));
    assert_eq!(output.receipts[39].output[..], [40, 0, 0, 0]);
}

/// A predicted chain causes no wasted runs: after some conflicts each transaction waits for its predecessor.
#[test]
fn a_chain_runs_hardly_more_often_than_serially() {
    let court = Court::new();
    let raws: Vec<_> = (0..200u64)
        .map(|index| {
            let who = (index % u64::from(KEYS)) as u8;
            key(who).sign(call(index / u64::from(KEYS), 0, &[Load(1), Add(1), Store(1)]))
        })
        .collect();
    for seed in 0..10 {
        let (_, statistics) = court.stepped(&by_one_author(block(&raws)), 4, seed, Vec::new());
        assert!(statistics.executions < 240, "{statistics:?}");
    }
}

#[test]
fn one_sender_with_many_nonces_never_runs_in_vain() {
    let court = Court::new();
    let raws: Vec<_> = (0..50).map(|nonce| key(2).sign(call(nonce, 0, &[Load(1), Add(3), Store(1)]))).collect();
    for seed in 0..10 {
        let (_, statistics) = court.stepped(&block(&raws), 4, seed, Vec::new());
        assert_eq!((statistics.executions, statistics.invalidations), (50, 0), "{statistics:?}");
    }
    court.judge(&block(&raws), 0..10);
}
