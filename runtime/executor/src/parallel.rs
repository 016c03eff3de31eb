//! Parallel execution of blocks on a pool's threads, with the result that [`serial`](crate::serial) gives.
//!
//! Multi-version timestamp ordering in the manner of Basil, inside an order that is already fixed: a transaction's
//! timestamp is its position. All transactions run concurrently on a [multi-version store](crate::mvstore). A write
//! finds exactly the later readers that it invalidates, and these run again. Results become final in order. The crate's
//! README maps each rule to its code.
//!
//! The [schedule](crate::schedule) and the [workers](crate::worker) start no threads and read no clock.
//! [`execute_block`] runs them on a pool. [`execute_block_stepped`] runs them on one thread, where a seed determines
//! the order of the steps.

use crate::attempt::Attempt;
use crate::commit::OutputBuilder;
use crate::core::{Core, PendingResult};
use crate::runs::runs;
use crate::schedule::Schedule;
use crate::seed::Seed;
use crate::worker::{RunOutcome, Step, Worker};
use crate::{BlockOutput, Candidate, Recorded, Runs, SingleThread, Statistics, WorkerPool};
use corniche_state::StateView;
use corniche_types::Address;
use corniche_vm::{BlockEnv, Vm};
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use std::sync::OnceLock;

/// Smaller blocks run on the caller's thread: waking others costs more than it saves.
const MIN_PARALLEL_TRANSACTIONS: usize = 4;

/// Executes the candidates with exactly the output of [`serial::execute_block`](crate::serial::execute_block).
/// `recorded` holds results of earlier runs by position, to be adopted if they still hold. It may be shorter than the
/// block.
///
/// # Panics
/// Under the same conditions as [`serial::execute_block`](crate::serial::execute_block).
pub fn execute_block(
    vm: &Vm,
    view: &dyn StateView,
    env: &BlockEnv,
    candidates: &[Candidate],
    fee_addresses: &[Address],
    pool: &dyn WorkerPool,
    recorded: Vec<Option<Recorded>>,
) -> (BlockOutput, Runs) {
    let pool = if candidates.len() < MIN_PARALLEL_TRANSACTIONS { &SingleThread } else { pool };
    let block = Block { vm, env, candidates, fee_addresses, offers: !recorded.is_empty() };
    let (core, mut statistics) = block.core(view, recorded, pool.threads());
    let workers: Vec<_> = (0..pool.threads()).map(|_| OnceLock::new()).collect();
    let assembly = OutputBuilder::new(candidates);
    pool.run(&|index| {
        let _guard = CloseOnPanic(&core.schedule);
        // The other workers start meanwhile. A single worker executes in order and never meets a conflict.
        if index == 0 && pool.threads() > 1 {
            core.predict_conflicts(candidates);
        }
        let mut worker = Worker::new();
        let mut run = |attempt: &Attempt<'_>| Some(block.run(&core, attempt));
        while worker.step(&core, &mut run) == Step::Progressed || core.schedule.sleep() {}
        let _ = workers[index].set((worker.statistics, worker.taken));
        if core.is_complete() {
            assembly.work(&core);
        }
    });
    let workers: Vec<_> = workers.into_iter().filter_map(OnceLock::into_inner).collect();
    workers.iter().for_each(|(of_worker, _)| statistics += *of_worker);
    block.stop_at_fault(&core);
    let output = assembly.output();
    let runs = runs(candidates.len(), &output.skipped, statistics, workers.iter().map(|(_, ended)| ended));
    (output, runs)
}

/// Like [`execute_block`], on the calling thread. `workers` workers take turns in an order that `seed` determines, so
/// runs with equal seeds are identical.
#[allow(clippy::too_many_arguments)] // the arguments of `execute_block`, with a seed in place of the pool
pub fn execute_block_stepped(
    vm: &Vm,
    view: &dyn StateView,
    env: &BlockEnv,
    candidates: &[Candidate],
    fee_addresses: &[Address],
    workers: usize,
    seed: u64,
    recorded: Vec<Option<Recorded>>,
) -> (BlockOutput, Runs) {
    let block = Block { vm, env, candidates, fee_addresses, offers: !recorded.is_empty() };
    let (core, mut statistics) = block.core(view, recorded, workers);
    if workers > 1 {
        core.predict_conflicts(candidates);
    }
    let mut workers: Vec<Worker<'_>> = (0..workers.max(1)).map(|_| Worker::new()).collect();
    let mut run = |attempt: &Attempt<'_>| Some(block.run(&core, attempt));
    let mut random = SplitMix64::seed_from_u64(seed);
    // The first worker, in a random order, that has work takes a step.
    while workers.iter_mut().any(|worker| worker.step(&core, &mut run) == Step::Progressed) {
        let count = workers.len() as u64;
        workers.swap(0, (random.next_u64() % count) as usize);
    }
    assert!(
        core.schedule.closed(),
        "every worker waits for another: position {} will never be final",
        core.schedule.frontier()
    );
    workers.iter().for_each(|worker| statistics += worker.statistics);
    block.stop_at_fault(&core);
    let assembly = OutputBuilder::new(candidates);
    assembly.work(&core);
    let output = assembly.output();
    let runs = runs(candidates.len(), &output.skipped, statistics, workers.iter().map(|worker| &worker.taken));
    (output, runs)
}

/// A block's inputs, and how one of its transactions is run.
struct Block<'b> {
    vm: &'b Vm,
    env: &'b BlockEnv,
    candidates: &'b [Candidate],
    fee_addresses: &'b [Address],
    /// True if recorded results were offered.
    offers: bool,
}

impl Block<'_> {
    fn core<'c>(&self, view: &'c dyn StateView, recorded: Vec<Option<Recorded>>, threads: usize) -> (Core<'c>, Statistics) {
        let [randomness, ..] = self.env.randomness.0.as_chunks::<8>().0 else { unreachable!("32 bytes") };
        let seed = Seed::new(self.vm.table_secret(), u64::from_le_bytes(*randomness) ^ self.env.number);
        let transactions = self.candidates.iter().filter(|candidate| candidate.verified.is_ok()).count() as u64;
        let offered = recorded.iter().flatten().count() as u64;
        let statistics = Statistics { transactions, offered, ..Statistics::default() };
        let mut recorded = recorded.into_iter();
        let work = |_| PendingResult { recorded: recorded.next().flatten().map(Box::new), ..PendingResult::default() };
        let works = self.candidates.iter().map(work);
        // Only addresses that are paid in this block: reading any other account needs no wait for the frontier.
        let mut paid = vec![false; self.fee_addresses.len() + 1];
        self.candidates.iter().for_each(|candidate| paid[candidate.author.as_usize().min(self.fee_addresses.len())] = true);
        let recipients = self.fee_addresses.iter().copied().chain([self.env.coinbase]).zip(paid);
        let recipients = recipients.filter_map(|(address, paid)| paid.then_some(address)).collect();
        (Core::new(view, works, recipients, threads, &seed), statistics)
    }

    fn run(&self, core: &Core<'_>, attempt: &Attempt<'_>) -> RunOutcome {
        let position = attempt.reader.position;
        let candidate = &self.candidates[position as usize];
        let transaction = match &candidate.verified {
            Ok(transaction) => transaction,
            Err(reason) => return RunOutcome::Invalid(*reason),
        };
        let tip_to = self.fee_addresses.get(candidate.author.as_usize()).copied().unwrap_or(self.env.coinbase);
        if self.offers
            && let Some(recorded) = core.schedule.with_result(position, |work| work.recorded.take())
        {
            if recorded.is_for(transaction, &tip_to, self.env) && attempt.holds(&recorded) {
                return RunOutcome::Adopted(recorded.outcome);
            }
            if attempt.halt().is_some() {
                core.schedule.with_result(position, |work| work.recorded = Some(recorded));
                return RunOutcome::Undecided;
            }
        }
        RunOutcome::Ran(self.vm.transact(attempt, self.env, transaction, tip_to))
    }

    fn stop_at_fault(&self, core: &Core<'_>) {
        if let Some((position, fault)) = core.fault() {
            panic!("block {}, transaction {position}: {fault}", self.env.number);
        }
    }
}

/// Wakes the workers that would otherwise wait forever for one that panicked.
struct CloseOnPanic<'s, T>(&'s Schedule<T>);

impl<T> Drop for CloseOnPanic<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_state::EmptyState;
    use corniche_types::B256;
    use corniche_vm::{NoCache, VmConfig};
    use std::sync::Arc;

    /// The position of a key in the tables follows from the node's secret, not only from public values.
    #[test]
    fn table_secret_seeds_hash_tables() {
        let hashes = [1, 2].map(|table_secret| {
            let vm = Vm::new(&VmConfig { executors: 1, callers: 0, table_secret, ..VmConfig::default() }, Arc::new(NoCache));
            let env = BlockEnv {
                rules: corniche_types::ProtocolRules::LATEST,
                chain_id: 7,
                number: 1,
                timestamp: 1,
                base_fee: 1,
                coinbase: Address::ZERO,
                gas_limit: 1,
                randomness: B256::ZERO,
            };
            let vm = vm.expect("an engine");
            let block = Block { vm: &vm, env: &env, candidates: &[], fee_addresses: &[], offers: false };
            let (core, _) = block.core(&EmptyState, Vec::new(), 2);
            (core.accounts.hash(&Address::ZERO), core.storage.hash(&(Address::ZERO, B256::ZERO)))
        });
        assert!(hashes[0].0 != hashes[1].0 && hashes[0].1 != hashes[1].1);
    }
}
