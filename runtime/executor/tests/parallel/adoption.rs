//! S2, S3: a recorded result is adopted exactly when all its reads have equal values.

use crate::support::program::Op::*;
use crate::support::test_chain::*;
use crate::support::*;
use alloy_primitives::{Address, B256};
use corniche_executor::{Candidate, Recorded, Recorder};
use corniche_state::{Changes, Overlay};
use corniche_types::{Height, certified};
use corniche_vm::BlockEnv;

/// Runs each transaction on the results of those before it, as speculation does; in block order unless `shuffled`.
fn speculate(chain: &TestChain, candidates: &[Candidate], env: &BlockEnv, order: &[usize]) -> Vec<Option<Recorded>> {
    let base = chain.snapshot();
    let mut changes = Changes::default();
    let mut recorded: Vec<Option<Recorded>> = candidates.iter().map(|_| None).collect();
    for position in order {
        let candidate = &candidates[*position];
        let Ok(transaction) = &candidate.verified else { continue };
        let tip_to = chain.fees()[candidate.author.as_usize()];
        let now = Overlay { base: &base, changes: &changes };
        let Some(result) = Recorded::run(&chain.vm, &Recorder::new(&now), env, transaction, tip_to) else { continue };
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
fn matching_order_needs_no_reruns() {
    let chain = TestChain::new();
    let program = [Load(1), Add(1), Store(1), Count(0, 1, 200)];
    let candidates = calls(&vec![&program[..]; 30]);
    let env = BlockEnv { number: 77, timestamp: 99, coinbase: Address::repeat_byte(1), ..chain.env() };
    let order: Vec<usize> = (0..30).collect();
    let recorded = speculate(&chain, &candidates, &env, &order);
    let expected = chain.serial(&candidates);
    for seed in 0..10 {
        let (output, statistics) = chain.stepped(&candidates, 4, seed, recorded.clone());
        assert_same(&output, &expected, &format!("seed {seed}"));
        // A transaction that reads before the one below it was adopted sees another value, and runs.
        assert!(statistics.adopted >= 20 && statistics.executions <= 20, "seed {seed}: {statistics:?}");
    }
    let (output, statistics) = chain.threads(&candidates, 1, recorded);
    assert_same(&output, &expected, "one thread");
    assert_eq!((statistics.adopted, statistics.executions, statistics.offered), (30, 0, 30), "{statistics:?}");
}

/// S3: a transaction that read the block's number runs again in another block.
#[test]
fn adoption_checks_block_fields() {
    let chain = TestChain::new();
    let (looks, does_not) = ([Number, Store(0)], [Load(1), Store(2)]);
    let candidates = calls(&[&looks, &does_not]);
    let other = BlockEnv { number: 77, ..chain.env() };
    let recorded = speculate(&chain, &candidates, &other, &[0, 1]);
    let (output, statistics) = chain.threads(&candidates, 1, recorded);
    assert_same(&output, &chain.serial(&candidates), "another number");
    assert_eq!((statistics.adopted, statistics.executions), (1, 1));
    let other = BlockEnv { base_fee: 11, ..chain.env() };
    let recorded = speculate(&chain, &candidates, &other, &[0, 1]);
    let (output, statistics) = chain.threads(&candidates, 1, recorded);
    assert_same(&output, &chain.serial(&candidates), "another base fee");
    assert_eq!(statistics.adopted, 0, "everybody pays it");
}

/// A transaction that read a certified header runs again in another block, and on another hash.
#[test]
fn adoption_checks_certified_headers() {
    let chain = TestChain::new();
    let candidates = calls(&[&[Certified(2), Store(0)], &[Load(1), Store(2)]]);
    let expected = chain.serial(&candidates);
    let stored = expected.changes.storage.get(&(contracts()[0], B256::ZERO)).copied().unwrap_or_default();
    assert!(stored[30] == stored[31] && ![0, 0xff].contains(&stored[31]), "a hash was found: {stored}");
    let recorded = speculate(&chain, &candidates, &chain.env(), &[0, 1]);
    let (output, statistics) = chain.threads(&candidates, 1, recorded);
    assert_same(&output, &expected, "the same block");
    assert_eq!(statistics.adopted, 2);

    let other = BlockEnv { number: chain.env().number - 1, ..chain.env() };
    let recorded = speculate(&chain, &candidates, &other, &[0, 1]);
    let (output, statistics) = chain.threads(&candidates, 1, recorded);
    assert_same(&output, &expected, "another number");
    assert_eq!((statistics.adopted, statistics.executions), (1, 1));

    let recorded = speculate(&chain, &candidates, &chain.env(), &[0, 1]);
    let slot = certified::slot(chain.env().number - 67);
    let changes = Changes { storage: [((certified::ADDRESS, slot), B256::repeat_byte(0x77))].into(), ..Changes::default() };
    let env = chain.env();
    chain.state.apply(Height(chain.height + 1), &changes);
    assert_eq!(chain.env(), env);
    let (output, statistics) = chain.threads(&candidates, 1, recorded);
    assert_same(&output, &chain.serial(&candidates), "another hash");
    assert_eq!((statistics.adopted, statistics.executions), (1, 1));
}

/// A failed look-up is recorded too: a header that is too new for one block is available in a later one. Nothing else
/// was read.
#[test]
fn missing_certified_header_is_rechecked() {
    let chain = TestChain::new();
    // The newest header whose hash is stored.
    let number = (chain.env().number - 66) as u8;
    let candidates = calls(&[&[CertifiedAt(number), Store(0)], &[Load(1), Store(2)]]);
    let expected = chain.serial(&candidates);
    let stored = |changes: &Changes| changes.storage.get(&(contracts()[0], B256::ZERO)).copied().unwrap_or_default();
    assert_eq!(stored(&expected.changes)[30..], [number; 2]);
    let before = BlockEnv { number: chain.env().number - 2, ..chain.env() };
    let recorded = speculate(&chain, &candidates, &before, &[0, 1]);
    let early = recorded[0].as_ref().unwrap().outcome.as_ref().unwrap();
    assert_eq!(stored(&early.changes)[30..], [0xff; 2], "64 blocks below");
    let (output, statistics) = chain.threads(&candidates, 1, recorded);
    assert_same(&output, &expected, "66 blocks below");
    assert_eq!((statistics.adopted, statistics.executions), (1, 1));
}

/// Recorded in another order, with another recipient of the tip, or from another transaction: only results that hold
/// are adopted.
#[test]
fn stale_result_is_not_adopted() {
    let chain = TestChain::new();
    let (mut adopted, mut executed) = (0, 0);
    for case in 0..cases(1_000) / 10 {
        let mut random = Random::new(case ^ 0xad0b7);
        let raws = super::random_blocks::random_block(&mut random, 16, 6);
        let candidates = block(&raws);
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        for _ in 0..random.below(4) {
            let (one, other) = (random.below(order.len() as u64) as usize, random.below(order.len() as u64) as usize);
            order.swap(one, other);
        }
        let mut recorded = speculate(&chain, &candidates, &chain.env(), &order);
        if case % 5 == 0 {
            recorded.rotate_left(1);
        }
        let expected = chain.serial(&candidates);
        let (output, statistics) = chain.stepped(&candidates, 1 + random.below(5) as usize, case, recorded.clone());
        assert_same(&output, &expected, &format!("case {case}"));
        adopted += statistics.adopted;
        executed += statistics.executions;
        let (output, _) = chain.threads(&candidates, 4, recorded);
        assert_same(&output, &expected, &format!("case {case}, threads"));
    }
    assert!(adopted > 100 && executed > 100, "{adopted} {executed}");
}
