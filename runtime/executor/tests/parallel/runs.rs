//! Counters of a block's execution. Every checked block also checks that they add up.

use crate::support::program::Op::*;
use crate::support::test_chain::*;
use crate::support::*;
use corniche_executor::{Candidate, Recorded, Recorder, Run, Runs, SingleThread, parallel};

fn run(chain: &TestChain, candidates: &[Candidate], recorded: Vec<Option<Recorded>>) -> Runs {
    parallel::execute_block(&chain.vm, &chain.snapshot(), &chain.env(), candidates, &chain.fees(), &SingleThread, recorded).1
}

/// Each transaction reads what its predecessor wrote; the fourth has a wrong nonce.
fn dependent_calls() -> Vec<Candidate> {
    let raws: Vec<_> =
        (0..8).map(|index: u8| key(index).sign(call(u64::from(index == 3), 0, &[Load(1), Add(1), Store(1)]))).collect();
    block(&raws)
}

#[test]
fn single_thread_runs_each_once() {
    let chain = TestChain::new();
    let runs = run(&chain, &dependent_calls(), Vec::new());
    assert_eq!(runs.threads, 1);
    assert_eq!((runs.statistics.executions, runs.statistics.re_executions), (8, 0));
    assert_eq!(runs.transactions, [Run { lane: 0, runs: 1 }; 7], "the skipped one is none of them");
}

/// The first one reads equal values and is adopted; those after it are not.
#[test]
fn adopted_result_counts_no_run() {
    let chain = TestChain::new();
    let (candidates, state) = (dependent_calls(), chain.snapshot());
    let record = |candidate: &Candidate| {
        let transaction = candidate.verified.as_ref().ok()?;
        let tip_to = chain.fees()[candidate.author.as_usize()];
        Recorded::run(&chain.vm, &Recorder::new(&state), &chain.env(), transaction, tip_to)
    };
    let runs = run(&chain, &candidates, candidates.iter().map(record).collect());
    assert_eq!(runs.transactions[0], Run { lane: 0, runs: 0 });
    assert!(runs.transactions[1..].iter().all(|run| run.runs == 1), "{runs:?}");
}

/// Several workers conflict: repeated runs count for their transaction, and equal seeds give equal counts.
#[test]
fn reruns_are_reported() {
    let chain = TestChain::new();
    let raws: Vec<_> =
        (0..40u8).map(|index| key(index % KEYS).sign(call(u64::from(index / KEYS), 0, &[Load(1), Add(1), Store(1)]))).collect();
    let candidates = by_one_author(block(&raws));
    let stepped = |seed| {
        let (view, env, fees) = (chain.snapshot(), chain.env(), chain.fees());
        parallel::execute_block_stepped(&chain.vm, &view, &env, &candidates, &fees, 4, seed, Vec::new()).1
    };
    let mut lanes = std::collections::BTreeSet::new();
    let mut again = 0;
    for seed in 0..10 {
        let runs = stepped(seed);
        assert_eq!(runs, stepped(seed), "seed {seed}");
        assert_eq!(runs.threads, 4);
        let told: u64 = runs.transactions.iter().map(|run| u64::from(run.runs) - 1).sum();
        assert_eq!(told, runs.statistics.re_executions, "{runs:?}");
        again += told;
        lanes.extend(runs.transactions.iter().map(|run| run.lane));
    }
    assert!(again > 0, "nobody ran again");
    assert!(lanes.len() > 1, "all on one lane");
}
