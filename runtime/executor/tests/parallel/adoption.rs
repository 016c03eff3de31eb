//! S2, S3: a recorded result is adopted exactly when all its reads have equal values.

use crate::support::judge::*;
use crate::support::program::Op::*;
use crate::support::*;
use alloy_primitives::{Address, B256};
use corniche_executor::{Candidate, Recorded, Recorder};
use corniche_state::{Changes, Overlay};
use corniche_types::{Height, certified};
use corniche_vm::BlockEnv;

/// Runs each transaction on the results of those before it, as speculation does; in block order unless `shuffled`.
fn speculate(court: &Court, candidates: &[Candidate], env: &BlockEnv, order: &[usize]) -> Vec<Option<Recorded>> {
    let base = court.snapshot();
    let mut changes = Changes::default();
    let mut recorded: Vec<Option<Recorded>> = candidates.iter().map(|_| None).collect();
    for position in order {
        let candidate = &candidates[*position];
        let Ok(transaction) = &candidate.verified else { continue };
        let tip_to = court.fees()[candidate.author.as_usize()];
        let now = Overlay { base: &base, changes: &changes };
        let Some(result) = Recorded::run(&court.vm, &Recorder::new(&now), env, transaction, tip_to) else { continue };
        if let Ok(executed) = &result.outcome {
            let added = executed.additions.resolve(&now);
            changes.merge(executed.changes.clone());
            changes.merge(added);
        }
        recorded[*position] = Some(result);
    }
    recorded
}

#[test]
fn in_the_right_order_nothing_runs_again() {
    let court = Court::new();
    let chain = [Load(1), Add(1), Store(1), Count(0, 1, 200)];
    let candidates = calls(&vec![&chain[..]; 30]);
    let env = BlockEnv { number: 77, timestamp: 99, coinbase: Address::repeat_byte(1), ..court.env() };
    let order: Vec<usize> = (0..30).collect();
    let recorded = speculate(&court, &candidates, &env, &order);
    let expected = court.serial(&candidates);
    for seed in 0..10 {
        let (output, statistics) = court.stepped(&candidates, 4, seed, recorded.clone());
        assert_same(&output, &expected, &format!("seed {seed}"));
        // A transaction that reads before the one below it was adopted sees another value, and runs.
        assert!(statistics.adopted >= 20 && statistics.executions <= 20, "seed {seed}: {statistics:?}");
    }
    let (output, statistics) = court.threads(&candidates, 1, recorded);
    assert_same(&output, &expected, "one thread");
    assert_eq!((statistics.adopted, statistics.executions, statistics.offered), (30, 0, 30), "{statistics:?}");
}

/// S3: a transaction that read the block's number runs again in another block.
#[test]
fn the_block_is_part_of_what_was_read() {
    let court = Court::new();
    let (looks, does_not) = ([Number, Store(0)], [Load(1), Store(2)]);
    let candidates = calls(&[&looks, &does_not]);
    let other = BlockEnv { number: 77, ..court.env() };
    let recorded = speculate(&court, &candidates, &other, &[0, 1]);
    let (output, statistics) = court.threads(&candidates, 1, recorded);
    assert_same(&output, &court.serial(&candidates), "another number");
    assert_eq!((statistics.adopted, statistics.executions), (1, 1));
    let other = BlockEnv { base_fee: 11, ..court.env() };
    let recorded = speculate(&court, &candidates, &other, &[0, 1]);
    let (output, statistics) = court.threads(&candidates, 1, recorded);
    assert_same(&output, &court.serial(&candidates), "another base fee");
    assert_eq!(statistics.adopted, 0, "everybody pays it");
}

/// A transaction that read a certified header runs again in another block, and on another hash.
#[test]
fn a_certified_header_is_part_of_what_was_read() {
    let court = Court::new();
    let candidates = calls(&[&[Certified(2), Store(0)], &[Load(1), Store(2)]]);
    let expected = court.serial(&candidates);
    let stored = expected.changes.storage.get(&(contracts()[0], B256::ZERO)).copied().unwrap_or_default();
    assert!(stored[30] == stored[31] && ![0, 0xff].contains(&stored[31]), "a hash was found: {stored}");
    let recorded = speculate(&court, &candidates, &court.env(), &[0, 1]);
    let (output, statistics) = court.threads(&candidates, 1, recorded);
    assert_same(&output, &expected, "the same block");
    assert_eq!(statistics.adopted, 2);

    let other = BlockEnv { number: court.env().number - 1, ..court.env() };
    let recorded = speculate(&court, &candidates, &other, &[0, 1]);
    let (output, statistics) = court.threads(&candidates, 1, recorded);
    assert_same(&output, &expected, "another number");
    assert_eq!((statistics.adopted, statistics.executions), (1, 1));

    let recorded = speculate(&court, &candidates, &court.env(), &[0, 1]);
    let slot = certified::slot(court.env().number - 67);
    let changes = Changes { storage: [((certified::ADDRESS, slot), B256::repeat_byte(0x77))].into(), ..Changes::default() };
    let env = court.env();
    court.state.apply(Height(court.height + 1), &changes);
    assert_eq!(court.env(), env);
    let (output, statistics) = court.threads(&candidates, 1, recorded);
    assert_same(&output, &court.serial(&candidates), "another hash");
    assert_eq!((statistics.adopted, statistics.executions), (1, 1));
}

/// A failed look-up is recorded too: a header that is too new for one block is available in a later one. Nothing else
/// was read.
#[test]
fn a_header_that_could_not_be_had_yet_is_asked_for_again() {
    let court = Court::new();
    // The newest header whose hash is stored.
    let number = (court.env().number - 66) as u8;
    let candidates = calls(&[&[CertifiedAt(number), Store(0)], &[Load(1), Store(2)]]);
    let expected = court.serial(&candidates);
    let stored = |changes: &Changes| changes.storage.get(&(contracts()[0], B256::ZERO)).copied().unwrap_or_default();
    assert_eq!(stored(&expected.changes)[30..], [number; 2]);
    let before = BlockEnv { number: court.env().number - 2, ..court.env() };
    let recorded = speculate(&court, &candidates, &before, &[0, 1]);
    let early = recorded[0].as_ref().unwrap().outcome.as_ref().unwrap();
    assert_eq!(stored(&early.changes)[30..], [0xff; 2], "64 blocks below");
    let (output, statistics) = court.threads(&candidates, 1, recorded);
    assert_same(&output, &expected, "66 blocks below");
    assert_eq!((statistics.adopted, statistics.executions), (1, 1));
}

/// Recorded in another order, with another recipient of the tip, or from another transaction: only results that hold
/// are adopted.
#[test]
fn a_stale_result_is_not_adopted() {
    let court = Court::new();
    let (mut adopted, mut executed) = (0, 0);
    for case in 0..cases(1_000) / 10 {
        let mut random = Random(case ^ 0xad0b7);
        let raws = super::random_blocks::random_block(&mut random, 16, 6);
        let candidates = block(&raws);
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        for _ in 0..random.below(4) {
            let (one, other) = (random.below(order.len() as u64) as usize, random.below(order.len() as u64) as usize);
            order.swap(one, other);
        }
        let mut recorded = speculate(&court, &candidates, &court.env(), &order);
        if case % 5 == 0 {
            recorded.rotate_left(1);
        }
        let expected = court.serial(&candidates);
        let (output, statistics) = court.stepped(&candidates, 1 + random.below(5) as usize, case, recorded.clone());
        assert_same(&output, &expected, &format!("case {case}"));
        adopted += statistics.adopted;
        executed += statistics.executions;
        let (output, _) = court.threads(&candidates, 4, recorded);
        assert_same(&output, &expected, &format!("case {case}, threads"));
    }
    assert!(adopted > 100 && executed > 100, "{adopted} {executed}");
}
