//! Counters that are changed without being read (D8): no conflict far from their bounds, exact results near them.

use crate::support::program::Op::*;
use crate::support::test_chain::*;
use crate::support::*;

#[test]
fn counter_additions_do_not_conflict() {
    let mut chain = TestChain::new();
    let mint = [Count(0, 1, 200)];
    // Measure an existing counter: a transaction that finds zero pays for a new slot.
    let first = chain.serial(&calls(&[&mint]));
    chain.append(&first.changes);
    // One transaction per sender. The other authors' fees would go to accounts that these transactions read.
    let raws: Vec<_> = (1..KEYS).map(|who| key(who).sign(call(0, 0, &mint))).collect();
    let (_, statistics) = chain.check(&by_one_author(block(&raws)), 0..10);
    assert_eq!(statistics.invalidations + statistics.suspensions + statistics.bounds_violated, 0, "{statistics:?}");
    assert_eq!(statistics.executions, statistics.transactions);
}

#[test]
fn counter_limit_is_exact() {
    let chain = TestChain::new();
    let mint = [Count(0, 3, 40), Log];
    let burn = [CountDown(0, 2, 1), Log];
    let look = [Load(0), Log];
    let set = [Set(38), Store(0)];
    for kinds in 2..=4 {
        let programs: Vec<&[_]> =
            (0..60usize).map(|index| [&mint[..], &burn[..], &look[..], &set[..]][(index * 7 + index / 5) % kinds]).collect();
        let (output, _) = chain.check(&calls(&programs), 0..10);
        let refused = output.receipts.iter().flat_map(|receipt| &receipt.logs).filter(|log| log.data[28..] == [1, 0, 0, 0]);
        assert!(kinds > 2 || refused.count() > 0);
    }
    // Only transactions that reach the limit: the answer changes in mid-block. No transaction reads the account that
    // gets the fees, so answers are guessed.
    let programs: Vec<&[_]> = (0..30).map(|_| &mint[..]).collect();
    let (output, statistics) = chain.check(&by_one_author(calls(&programs)), 0..10);
    assert_eq!(output.receipts.iter().filter(|receipt| receipt.output[0] == 0).count(), 13);
    assert!(statistics.bounds_violated > 0, "guesses were wrong somewhere: {statistics:?}");
}
