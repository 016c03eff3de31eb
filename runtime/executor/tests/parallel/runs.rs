//! Counters of a block's execution. Every judged block also checks that they add up.

use crate::support::judge::*;
use crate::support::program::Op::*;
use crate::support::*;
use corniche_executor::{Alone, Candidate, Recorded, Recorder, Run, Runs, parallel};

fn run(court: &Court, candidates: &[Candidate], recorded: Vec<Option<Recorded>>) -> Runs {
    parallel::execute_block(&court.vm, &court.snapshot(), &court.env(), candidates, &court.fees(), &Alone, recorded).1
}

/// Each transaction reads what its predecessor wrote; the fourth has a wrong nonce.
fn chain() -> Vec<Candidate> {
    let raws: Vec<_> =
        (0..8).map(|index: u8| key(index).sign(call(u64::from(index == 3), 0, &[Load(1), Add(1), Store(1)]))).collect();
    block(&raws)
}

#[test]
fn one_thread_runs_each_transaction_once() {
    let court = Court::new();
    let runs = run(&court, &chain(), Vec::new());
    assert_eq!(runs.threads, 1);
    assert_eq!((runs.statistics.executions, runs.statistics.re_executions), (8, 0));
    assert_eq!(runs.transactions, [Run { lane: 0, runs: 1 }; 7], "the skipped one is none of them");
}

/// The first one reads equal values and is adopted; those after it are not.
#[test]
fn an_adopted_result_is_no_run() {
    let court = Court::new();
    let (candidates, state) = (chain(), court.snapshot());
    let record = |candidate: &Candidate| {
        let transaction = candidate.verified.as_ref().ok()?;
        let tip_to = court.fees()[candidate.author.as_usize()];
        Recorded::run(&court.vm, &Recorder::new(&state), &court.env(), transaction, tip_to)
    };
    let runs = run(&court, &candidates, candidates.iter().map(record).collect());
    assert_eq!(runs.transactions[0], Run { lane: 0, runs: 0 });
    assert!(runs.transactions[1..].iter().all(|run| run.runs == 1), "{runs:?}");
}

/// Several workers conflict: repeated runs count for their transaction, and equal seeds give equal counts.
#[test]
fn what_ran_again_is_told() {
    let court = Court::new();
    let raws: Vec<_> =
        (0..40u8).map(|index| key(index % KEYS).sign(call(u64::from(index / KEYS), 0, &[Load(1), Add(1), Store(1)]))).collect();
    let candidates = by_one_author(block(&raws));
    let stepped = |seed| {
        let (view, env, fees) = (court.snapshot(), court.env(), court.fees());
        parallel::execute_block_stepped(&court.vm, &view, &env, &candidates, &fees, 4, seed, Vec::new()).1
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
