//! Executes blocks in every way, in turns, and compares the results.

use super::chain::{Chain, Draft, fee_addresses};
use corniche_console::{
    exit::{Exit, Failed},
    processor::process_cpu,
};
use corniche_executor::{BlockOutput, Candidate, Recorded, Recorder, Statistics, WorkerPool, parallel, serial};
use corniche_state::{Snapshot, Tree};
use corniche_threads::Threads;
use corniche_types::{Address, B256};
use corniche_vm::{BlockEnv, Vm};
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Parameters for every workload.
pub struct Plan<'a> {
    /// Transactions per block.
    pub block: usize,
    /// Number of measured blocks.
    pub blocks: usize,
    /// Number of executions of each block in each way.
    pub repeats: usize,
    pub pools: &'a [Threads],
    /// Two threads on a machine with at least two processors, to measure how much two are worth compared with
    /// one.
    pub pair: Option<&'a Threads>,
}

/// Results of one workload.
#[derive(Default)]
pub struct Measured {
    /// Number of measured blocks; each counts once here and below.
    pub blocks: usize,
    pub transactions: usize,
    pub reverted: usize,
    pub skipped: usize,
    pub gas: u64,
    /// Serial runs, in order.
    pub serial: Vec<Took>,
    /// Two independent serial runs, executed concurrently, until both have ended; run i was paired with
    /// serial run i.
    pub twice: Vec<Took>,
    /// One entry per pool.
    pub parallel: Vec<Parallel>,
    /// Root of the authenticated tree over all changes of the blocks.
    pub root: B256,
}

/// Runs on one pool; run i was paired with serial run i.
#[derive(Default)]
pub struct Parallel {
    pub threads: usize,
    pub runs: Vec<Took>,
    /// Sums over all runs.
    pub statistics: Statistics,
    /// From one more, untimed run per block, with recorded results from the state before the block available.
    pub speculated: Statistics,
}

/// Cost of one run of a block.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    pub wall: Duration,
    /// CPU time of all threads of this process.
    pub cpu: Duration,
}

/// Executes one warm-up block, then the measured ones, each on the state after the one before.
pub fn measure(
    name: &str,
    mut chain: Chain<'_>,
    blocks: impl Iterator<Item = Vec<Draft>>,
    plan: &Plan<'_>,
) -> anyhow::Result<Measured> {
    let nothing = || {
        let parallel = plan.pools.iter().map(|pool| Parallel { threads: pool.threads(), ..Parallel::default() });
        Measured { parallel: parallel.collect(), ..Measured::default() }
    };
    let (mut measured, mut warm_up) = (nothing(), nothing());
    let mut tree = Tree::default();
    for (number, drafts) in blocks.take(plan.blocks + 1).enumerate() {
        let candidates = chain.sign(drafts);
        let into = if number == 0 { &mut warm_up } else { &mut measured };
        let output = measure_block(name, &chain, &candidates, plan, into)?;
        chain.append(&output.changes);
        let root = tree.apply(&output.changes);
        into.count(&output, root);
    }
    Ok(measured)
}

/// Executes one block as often as planned: serially and on each pool in turns, in reverse order every other
/// time.
fn measure_block(
    name: &str,
    chain: &Chain<'_>,
    candidates: &[Candidate],
    plan: &Plan<'_>,
    into: &mut Measured,
) -> anyhow::Result<BlockOutput> {
    let block =
        Block { name, vm: &chain.vm, view: chain.latest(), env: chain.env(), candidates, fee_addresses: fee_addresses() };
    let judge = block.serial();
    for repeat in 0..plan.repeats {
        let mut ways = vec![Way::Serial];
        ways.extend(plan.pair.map(Way::Twice));
        ways.extend(plan.pools.iter().zip(&mut into.parallel).map(|(pool, runs)| Way::Parallel(pool, runs)));
        if repeat % 2 == 1 {
            ways.reverse();
        }
        for way in ways {
            match way {
                Way::Serial => {
                    let (output, took) = timed(|| block.serial());
                    into.serial.push(took);
                    block.compare(&judge, &output, 1)?;
                }
                Way::Twice(pair) => {
                    let (outputs, took) = timed(|| block.twice(pair));
                    into.twice.push(took);
                    outputs.iter().try_for_each(|output| block.compare(&judge, output, 1))?;
                }
                Way::Parallel(pool, parallel) => {
                    let ((output, statistics), took) = timed(|| block.parallel(pool, Vec::new()));
                    parallel.runs.push(took);
                    parallel.statistics += statistics;
                    block.compare(&judge, &output, pool.threads())?;
                }
            }
        }
    }
    for (pool, parallel) in plan.pools.iter().zip(&mut into.parallel) {
        let (output, statistics) = block.parallel(pool, block.speculate());
        parallel.speculated += statistics;
        block.compare(&judge, &output, pool.threads())?;
    }
    Ok(judge)
}

/// Method of executing a block.
enum Way<'a> {
    Serial,
    Twice(&'a Threads),
    Parallel(&'a Threads, &'a mut Parallel),
}

/// Block and the state that it runs on.
struct Block<'a> {
    name: &'a str,
    vm: &'a Vm,
    view: Snapshot,
    env: BlockEnv,
    candidates: &'a [Candidate],
    fee_addresses: Vec<Address>,
}

impl Block<'_> {
    fn serial(&self) -> BlockOutput {
        serial::execute_block(self.vm, &self.view, &self.env, self.candidates, &self.fee_addresses)
    }

    /// Executes the block on each thread of the pool independently.
    fn twice(&self, pair: &Threads) -> Vec<BlockOutput> {
        let outputs = Mutex::new(Vec::new());
        pair.run(&|_| {
            let output = self.serial();
            outputs.lock().unwrap_or_else(PoisonError::into_inner).push(output);
        });
        outputs.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn parallel(&self, pool: &Threads, recorded: Vec<Option<Recorded>>) -> (BlockOutput, Statistics) {
        let (view, fees) = (&self.view, &self.fee_addresses);
        let (output, runs) = parallel::execute_block(self.vm, view, &self.env, self.candidates, fees, pool, recorded);
        (output, runs.statistics)
    }

    /// Runs every transaction alone on the state before the block: the results that speculation has when the
    /// block arrives.
    fn speculate(&self) -> Vec<Option<Recorded>> {
        let run = |candidate: &Candidate| {
            let transaction = candidate.verified.as_ref().ok()?;
            let tip_to = self.fee_addresses[candidate.author.as_usize()];
            Recorded::run(self.vm, &Recorder::new(&self.view), &self.env, transaction, tip_to)
        };
        self.candidates.iter().map(run).collect()
    }

    /// Compares receipts, changes and their roots; the state root follows from the changes.
    fn compare(&self, judge: &BlockOutput, output: &BlockOutput, threads: usize) -> anyhow::Result<()> {
        if judge == output {
            return Ok(());
        }
        let (name, number) = (self.name, self.env.number);
        let message = format!("{name}: block {number} on {threads} threads: result differs from serial execution");
        Err(Failed::new(Exit::Diverged, message).into())
    }
}

impl Measured {
    fn count(&mut self, output: &BlockOutput, root: B256) {
        self.blocks += 1;
        self.transactions += output.receipts.len() + output.skipped.len();
        self.reverted += output.receipts.iter().filter(|receipt| !receipt.success).count();
        self.skipped += output.skipped.len();
        self.gas += output.gas_used;
        self.root = root;
    }
}

fn timed<T>(run: impl FnOnce() -> T) -> (T, Took) {
    let (wall, cpu) = (Instant::now(), process_cpu());
    let result = run();
    let took = Took { wall: wall.elapsed(), cpu: process_cpu().saturating_sub(cpu) };
    (result, took)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{chain::Accounts, wasm::Wasm};
    use alloy_primitives::TxKind;
    use corniche_types::Bytes;

    #[test]
    fn wrong_result_has_its_own_exit_code() {
        let (accounts, wasm) = (Accounts::new(2), Wasm::new(None));
        let mut chain = Chain::new(&accounts, &wasm).unwrap();
        let to = TxKind::Call(Address::repeat_byte(1));
        let candidates = chain.sign(vec![Draft { sender: 1, to, value: 3, input: Bytes::new(), gas_limit: 21_000 }]);
        let block = Block {
            name: "test",
            vm: &chain.vm,
            view: chain.latest(),
            env: chain.env(),
            candidates: &candidates,
            fee_addresses: fee_addresses(),
        };
        let judge = block.serial();
        assert_eq!((judge.receipts.len(), judge.skipped.len()), (1, 0));
        assert!(block.compare(&judge, &judge.clone(), 2).is_ok());
        let mut other = judge.clone();
        other.changes.accounts.pop_last();
        let error = block.compare(&judge, &other, 2).unwrap_err();
        assert_eq!(error.downcast::<Failed>().unwrap().exit, Exit::Diverged);
    }

    #[test]
    fn processor_time_counts_all_threads() {
        let spin = || (0..3_000_000u64).fold(1u64, |sum, number| std::hint::black_box(sum.wrapping_mul(number | 1)));
        let before = process_cpu();
        std::thread::scope(|scope| {
            scope.spawn(spin);
        });
        assert!(process_cpu() > before);
    }
}
