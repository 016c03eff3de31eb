//! Reverts, out-of-gas errors and traps after writes: no write remains, and the fee is kept.

use crate::support::program::Op::*;
use crate::support::test_chain::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn failed_transaction_writes_nothing() {
    let chain = TestChain::new();
    let good = [Load(0), Add(1), Store(0), Log];
    let reverted = [Load(0), Add(9), Store(0), Store(1), Log, Revert];
    let exhausted = [Load(0), Add(9), Store(0), Store(1), Burn];
    let trapped = [Load(1), Store(0), Trap];
    let programs: Vec<&[_]> =
        (0..36).map(|index| [&good[..], &reverted[..], &exhausted[..], &trapped[..]][index % 4]).collect();
    let (output, _) = chain.check(&calls(&programs), 0..10);
    assert_eq!(output.receipts.iter().filter(|receipt| receipt.success).count(), 9);
    assert_eq!(output.receipts[32].output[..2], [9, 0], "the ninth good one");
}

/// A trap, an endless loop and a revert that only a stale read causes.
#[test]
fn failure_under_stale_read_is_discarded() {
    let chain = TestChain::new();
    let first = [Set(1), Store(0)];
    let trap = [Load(0), SkipIfZero(2), Log, Set(0), SkipIfZero(1), Trap];
    let guarded = [Load(0), SkipIfZero(1), Set(5), Store(1), Load(0), Add(255), SkipIfZero(1), Burn];
    let programs: Vec<&[_]> =
        (0..20).map(|index| if index == 0 { &first[..] } else { [&trap[..], &guarded[..]][index % 2] }).collect();
    chain.check(&calls(&programs), 0..20);
}

/// D5: calling an account whose code is missing is a fault of the node. A fault caused by a stale read is ignored; a
/// real one stops the block, as in serial execution.
#[test]
fn fault_counts_only_when_final() {
    let chain = TestChain::new();
    let set = [Set(1), Store(0)];
    let sink = |ops: &[_]| crate::support::program::input(contracts()[0], BROKEN, ops);
    let broken_unless_set = [Load(0), SkipIfZero(2), Set(0), SkipIfZero(1), Call(vec![])];
    let build = |first: &[_]| {
        let mut candidates = calls(&[first]);
        let raws: Vec<_> = (1..9)
            .map(|who| {
                let call = alloy_consensus::TxEip1559 { input: sink(&broken_unless_set), ..call(0, 0, &[]) };
                crate::support::key(who).sign(call)
            })
            .collect();
        candidates.extend(block(&raws));
        candidates
    };
    let candidates = build(&set);
    let expected = chain.serial(&candidates);
    assert_eq!(expected.receipts.len(), 9);
    let mut wasted = 0;
    for seed in 0..40 {
        let (output, statistics) = chain.stepped(&candidates, 4, seed, Vec::new());
        assert_same(&output, &expected, &format!("seed {seed}"));
        wasted += statistics.re_executions;
    }
    assert!(wasted > 0, "some have met the fault");

    let real = build(&[Set(0), Store(0)]);
    let message = |run: &dyn Fn()| {
        let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("a fault stops the block");
        panic.downcast_ref::<String>().expect("a message").clone()
    };
    let serially = message(&|| drop(chain.serial(&real)));
    assert!(serially.contains("transaction 1") && serially.contains("missing"), "{serially}");
    for seed in 0..5 {
        assert_eq!(message(&|| drop(chain.stepped(&real, 3, seed, Vec::new()))), serially);
    }
    for threads in [1, 2, 8] {
        assert_eq!(message(&|| drop(chain.threads(&real, threads, Vec::new()))), serially);
    }
}
