//! Execution and sealing threads. The first executes ordered blocks and, while none waits, proposed
//! transactions speculatively. The second hashes executed blocks.

use crate::{clock, shared::Shared};
use corniche_api::Execution;
use corniche_crypto::VerifiedTransaction;
use corniche_executor::{Runs, SingleThread, WorkerPool, verify_ordered_cached};
use corniche_pipeline::{Input, Plan, Runner, Sealer, UnsealedBlock};
use corniche_types::{Bytes, OrderedTransaction, SkipReason, ValidatorIndex, keccak256};
use std::{
    collections::VecDeque,
    sync::{OnceLock, atomic::Ordering, mpsc},
    time::{Duration, Instant},
};

/// Task of the execution thread.
pub enum Task {
    /// Execute this block.
    Execute(Plan),
    /// Transactions that will probably be ordered soon.
    Speculate { author: ValidatorIndex, transactions: Vec<Bytes> },
}

/// Maximum number of queued proposals. More are dropped: speculation is optional.
pub const MAX_QUEUED_PROPOSALS: usize = 64;

/// Memory of native stacks returns to the system this often. After each release contracts can cause page faults that gas does not pay
/// for: 0.1 s for the 256 MiB of a thread, and seconds for the stack that threads share, where old code may fill the machine's memory.
const RELEASE_INTERVAL: Duration = Duration::from_secs(3_600);

/// Tasks of the execution thread. Blocks have priority.
pub struct Tasks {
    incoming: mpsc::Receiver<Task>,
    plans: VecDeque<Plan>,
    /// At most [`MAX_QUEUED_PROPOSALS`], together with those in `incoming`.
    proposals: VecDeque<(ValidatorIndex, Vec<Bytes>)>,
}

impl Tasks {
    pub fn new(incoming: mpsc::Receiver<Task>) -> Self {
        Self { incoming, plans: VecDeque::new(), proposals: VecDeque::new() }
    }

    /// Next task by priority; `Ok(None)` if none waits. `Err`: the queue is empty and closed, because the
    /// node is stopping.
    fn try_next(&mut self) -> Result<Option<Task>, mpsc::RecvError> {
        let ended = loop {
            match self.incoming.try_recv() {
                Ok(task) => self.add(task),
                Err(error) => break error == mpsc::TryRecvError::Disconnected,
            }
        };
        let task = self.plans.pop_front().map(Task::Execute);
        let task =
            task.or_else(|| self.proposals.pop_front().map(|(author, transactions)| Task::Speculate { author, transactions }));
        if task.is_none() && ended { Err(mpsc::RecvError) } else { Ok(task) }
    }

    /// Waits until there is a task.
    fn wait(&mut self) -> Result<(), mpsc::RecvError> {
        let task = self.incoming.recv()?;
        self.add(task);
        Ok(())
    }

    fn add(&mut self, task: Task) {
        match task {
            Task::Execute(plan) => self.plans.push_back(plan),
            Task::Speculate { author, transactions } => self.proposals.push_back((author, transactions)),
        }
    }
}

/// Executes ordered blocks first; when there are none, one proposed transaction at a time.
pub fn run_execution(
    mut runner: Runner,
    threads: &dyn WorkerPool,
    mut tasks: Tasks,
    sealing: mpsc::SyncSender<UnsealedBlock>,
    shared: &Shared,
) {
    let mut may_speculate = true;
    let mut released = Instant::now();
    loop {
        let Ok(task) = tasks.try_next() else { return };
        let Some(task) = task else {
            if may_speculate {
                may_speculate = runner.speculate(clock::now().0 / 1000, |raw, chain_id| verify_early(shared, raw, chain_id));
            } else if tasks.wait().is_err() {
                return;
            }
            continue;
        };
        match task {
            Task::Speculate { author, transactions } => {
                shared.queued_proposals.fetch_sub(1, Ordering::Relaxed);
                runner.offer(author, transactions);
            }
            Task::Execute(plan) => {
                let verify = |ordered: &[_], chain_id| {
                    let verify_one = |raw: &Bytes| shared.verify_once(|known| verify_ordered_cached(raw, chain_id, known));
                    verify_in_parallel(threads, &verify_one, ordered)
                };
                let started = Instant::now();
                let unsealed = runner.run(plan.block, verify);
                shared.executions.put(unsealed.height(), block_statistics(unsealed.runs(), started.elapsed()));
                shared.next_base_fee.store(runner.base_fee_at(clock::now().0 / 1000), Ordering::Relaxed);
                let statistics = runner.statistics();
                shared.counters.transactions_run.store(statistics.executions, Ordering::Relaxed);
                shared.counters.transactions_run_again.store(statistics.re_executions, Ordering::Relaxed);
                shared.counters.transactions_adopted.store(statistics.adopted, Ordering::Relaxed);
                let speculation = runner.speculation();
                shared.counters.early_runs.store(speculation.runs, Ordering::Relaxed);
                shared.counters.early_without_result.store(speculation.without_result, Ordering::Relaxed);
                shared.counters.early_passed_over.store(speculation.passed_over, Ordering::Relaxed);
                if sealing.send(unsealed).is_err() {
                    return;
                }
                if released.elapsed() >= RELEASE_INTERVAL {
                    runner.release_stacks();
                    released = Instant::now();
                }
            }
        }
        may_speculate = true;
    }
}

/// Execution statistics of one block, for clients. Sums cover only the transactions in the block, without
/// aborted attempts and skipped transactions.
fn block_statistics(Runs { threads, statistics, transactions }: &Runs, elapsed: Duration) -> Execution {
    let sum = |of: fn(u64) -> u64| transactions.iter().map(|run| of(run.runs.into())).sum();
    Execution {
        threads: *threads as u64,
        runs: sum(|runs| runs),
        runs_again: sum(|runs| runs.saturating_sub(1)),
        waits: statistics.suspensions + statistics.predicted_conflicts,
        adopted: sum(|runs| u64::from(runs == 0)),
        duration_us: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
        lane_of: transactions.iter().map(|run| run.lane).collect(),
        runs_of: transactions.iter().map(|run| run.runs).collect(),
        // Filled in from the copy of the pool when a client requests it.
        received_of: Bytes::new(),
    }
}

/// Hashes executed blocks. The next block runs meanwhile (design §3).
pub fn run_sealing(mut sealer: Sealer, blocks: &mpsc::Receiver<UnsealedBlock>, shared: &Shared) {
    while let Ok(unsealed) = blocks.recv() {
        shared.inbox.push_response(Input::Executed(Box::new(sealer.seal(unsealed))).into());
    }
}

/// Verifies a transaction that is not ordered yet. Skips it if its sender may still be attested.
fn verify_early(shared: &Shared, raw: &Bytes, chain_id: u64) -> Result<VerifiedTransaction, SkipReason> {
    if shared.awaits_attestations() {
        let known = shared.known(&keccak256(raw)).ok_or(SkipReason::BadSignature)?;
        return verify_ordered_cached(raw, chain_id, |_| Some(known));
    }
    shared.verify_once(|known| verify_ordered_cached(raw, chain_id, known))
}

/// Verifies the signatures of one block, on all threads if there are enough signatures to be worth waking
/// them.
fn verify_in_parallel(
    threads: &dyn WorkerPool,
    verify_one: &(dyn Fn(&Bytes) -> Result<VerifiedTransaction, SkipReason> + Sync),
    ordered: &[OrderedTransaction],
) -> Vec<Result<VerifiedTransaction, SkipReason>> {
    const MIN_PER_THREAD: usize = 16;
    let threads = if ordered.len() < 2 * MIN_PER_THREAD { &SingleThread } else { threads };
    let parts: Vec<_> = ordered.chunks(ordered.len().div_ceil(threads.threads()).max(1)).collect();
    let verdicts: Vec<OnceLock<Vec<_>>> = parts.iter().map(|_| OnceLock::new()).collect();
    threads.run(&|thread| {
        if let (Some(part), Some(verdicts)) = (parts.get(thread), verdicts.get(thread)) {
            verdicts.get_or_init(|| part.iter().map(|transaction| verify_one(&transaction.raw)).collect());
        }
    });
    verdicts.into_iter().flat_map(|part| part.into_inner().expect("invariant: each thread had its turn")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{genesis, transfer};
    use crate::{pool_view::PoolView, recovered::RecoveredSenders};
    use corniche_crypto::Known;
    use corniche_threads::Threads;
    use corniche_types::{B256, Height};

    /// Each proposal takes a millisecond to prepare, and dozens may wait. A block must not wait for them.
    #[test]
    fn blocks_do_not_wait_for_proposals() {
        let (sender, incoming) = mpsc::channel();
        let mut tasks = Tasks::new(incoming);
        let proposal = |number| Task::Speculate { author: ValidatorIndex(number), transactions: Vec::new() };
        let block = |height: u64| {
            let committed = corniche_store::genesis_block(&genesis());
            let block = corniche_pipeline::BlockPlan::from_block(&committed.block, committed.resume.clone());
            Task::Execute(Plan { height: Height(height), block })
        };
        let mut next = || match tasks.try_next() {
            Ok(Some(Task::Execute(plan))) => format!("block {}", plan.height.0),
            Ok(Some(Task::Speculate { author, .. })) => format!("proposal {}", author.0),
            Ok(None) => "none".into(),
            Err(_) => "end".into(),
        };
        let send = |task| sender.send(task).unwrap();
        (0..3).map(proposal).for_each(send);
        assert_eq!(next(), "proposal 0");
        send(block(1));
        send(proposal(3));
        send(block(2));
        assert_eq!([(); 6].map(|()| next()), ["block 1", "block 2", "proposal 1", "proposal 2", "proposal 3", "none"]);
        send(block(3));
        drop(sender);
        assert_eq!([(); 2].map(|()| next()), ["block 3", "end"], "what was ordered is run before the end");
    }

    /// The copy of the pool only saves verifications: a block's transactions get the same verdicts without
    /// it.
    #[test]
    fn pool_knowledge_does_not_change_results() {
        let pool = PoolView::default();
        let known: Vec<_> = (0..20).map(|nonce| transfer(nonce, 1)).collect();
        known.iter().for_each(|transaction| pool.pending(transaction.clone(), clock::now()));
        let raw = |transaction: &VerifiedTransaction| transaction.transaction().raw().clone();
        let tampered = |transaction: &VerifiedTransaction| {
            let mut bytes = raw(transaction).to_vec();
            let last = bytes.len() - 1;
            bytes[last - 40] ^= 1;
            Bytes::from(bytes)
        };
        let bytes = known.iter().flat_map(|transaction| [raw(transaction), tampered(transaction), Bytes::from_static(b"junk")]);
        let ordered: Vec<_> = bytes.map(|raw| OrderedTransaction { author: ValidatorIndex(0), raw }).collect();
        let verdict_of = |verdict: &Result<VerifiedTransaction, SkipReason>| {
            verdict.as_ref().map(|verified| (verified.hash(), verified.sender())).map_err(Clone::clone)
        };
        let three = Threads::start(3).unwrap();
        let threads: [&dyn WorkerPool; 2] = [&SingleThread, &three];
        for (chain_id, threads) in [7, 8].into_iter().flat_map(|chain_id| threads.map(|threads| (chain_id, threads))) {
            let pooled = |hash: &B256| pool.transaction(hash).map(Known::Verified);
            let recovered = RecoveredSenders::default();
            known.iter().for_each(|transaction| recovered.record(transaction));
            let remembered = |hash: &B256| recovered.sender(hash).map(Known::Attested);
            let verify = |known: &(dyn Fn(&B256) -> Option<Known> + Sync)| {
                verify_in_parallel(threads, &|raw| verify_ordered_cached(raw, chain_id, known), &ordered)
            };
            let (with, without) = (verify(&pooled), verify(&|_| None));
            assert_eq!(
                verify(&remembered).iter().map(verdict_of).collect::<Vec<_>>(),
                with.iter().map(verdict_of).collect::<Vec<_>>()
            );
            let plain = corniche_pipeline::verify_all(&ordered, chain_id);
            assert_eq!(with.iter().map(verdict_of).collect::<Vec<_>>(), plain.iter().map(verdict_of).collect::<Vec<_>>());
            assert_eq!(without.iter().map(verdict_of).collect::<Vec<_>>(), plain.iter().map(verdict_of).collect::<Vec<_>>());
            let valid = with.iter().filter(|verdict| matches!(verdict, Ok(valid) if known.contains(valid))).count();
            assert_eq!(valid, if chain_id == 7 { known.len() } else { 0 });
        }
        assert!(verify_in_parallel(&three, &|_| Err(SkipReason::Undecodable), &[]).is_empty());
    }
}
