//! `corniche bench exec`: blocks of real contracts, executed serially and in parallel.

use super::{
    chain::{Accounts, Chain},
    measure::{Measured, Plan, measure},
    random::Random,
    report::Report,
    vm_only,
    wasm::Wasm,
    workloads::{Sizes, WORKLOADS, Workload},
};
use crate::{exit, threads::Threads};
use anyhow::{Context, ensure};
use corniche_vm::THREAD_STACK_BYTES;
use std::{path::PathBuf, thread, time::Instant};

/// Execute blocks of WebAssembly contracts, serially and in parallel, and compare
///
/// Each block is executed in every way on the same state, serial and parallel in turns, and whatever comes of it (receipts, gas, logs,
/// changes, roots) has to be equal: otherwise the exit code is 9. Transactions are signed and their signatures checked before the
/// clock starts. Medians are over all pairs of a serial run and the parallel run beside it. The contracts are those of `make contracts`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Workload to run, by name; may be repeated; all when absent
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(WORKLOADS.iter().map(|workload| workload.name)))]
    workload: Vec<String>,
    /// Numbers of threads to execute on in parallel. Above this machine's cores only results and re-executions mean anything
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Transactions in a block
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    block: usize,
    /// Blocks measured, after one that is not
    #[arg(long, value_name = "N", default_value_t = 5)]
    blocks: usize,
    /// How often each block is executed in each way
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeats: usize,
    /// Seed of everything that is drawn by chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    sizes: Sizes,
    /// Folder of the built contracts
    #[arg(long, value_name = "DIRECTORY", env = "CONTRACTS_WASM_DIR")]
    wasm_dir: Option<PathBuf>,
    /// Measure calls of the workloads' contracts alone, without transactions and without a state, beside the same modules on bare wasmtime
    ///
    /// One call of each workload, drawn by the seed, is made again and again, each time on the same few words of storage, by all subjects
    /// in turns. Microseconds of thread CPU time.
    #[arg(long, conflicts_with_all = ["threads", "block", "blocks", "repeats"])]
    vm_only: bool,
    #[command(flatten)]
    calls: vm_only::Calls,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `corniche bench exec`, on a thread with the stack size of a node's execution threads.
pub fn run(args: Args) -> anyhow::Result<()> {
    let builder = thread::Builder::new().name("bench".into()).stack_size(THREAD_STACK_BYTES);
    let bench = builder.spawn(move || run_here(&args)).context("cannot start a thread")?;
    bench.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn run_here(args: &Args) -> anyhow::Result<()> {
    let wasm = Wasm::new(args.wasm_dir.as_deref());
    let chosen = |workload: &&Workload| args.workload.is_empty() || args.workload.iter().any(|name| name == workload.name);
    let workloads = WORKLOADS.iter().filter(chosen);
    if args.vm_only {
        let report = vm_only::run(&args.calls, workloads, &wasm, args.seed)?;
        exit::result(if args.json { report.json() } else { report.text() });
        return Ok(());
    }
    ensure!(args.block > 0 && args.blocks > 0 && args.repeats > 0, "--block, --blocks and --repeats are at least 1");
    ensure!(args.threads.iter().all(|threads| (1..=256).contains(threads)), "--threads are 1 to 256");
    ensure!(args.sizes.accounts >= 2, "--accounts is at least 2");
    let pools = args.threads.iter().map(|count| Threads::start(*count)).collect::<Result<Vec<_>, _>>();
    let pools = pools.context("cannot start the threads of a pool")?;
    // Two threads on one processor would measure nothing useful.
    let pair = match thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
        true => Some(Threads::start(2).context("cannot start two threads")?),
        false => None,
    };
    let accounts = Accounts::new(args.sizes.accounts);
    let plan = Plan { block: args.block, blocks: args.blocks, repeats: args.repeats, pools: &pools, pair: pair.as_ref() };
    let mut report = Report::new(args.seed, &plan, &args.sizes);
    for workload in workloads {
        let started = Instant::now();
        let measured = run_workload(workload, args, &accounts, &wasm, &plan)?;
        report.add(workload, measured);
        exit::note(format_args!("{}: {:.1} s", workload.name, started.elapsed().as_secs_f64()));
    }
    exit::result(if args.json { report.json() } else { report.text() });
    Ok(())
}

fn run_workload(
    workload: &Workload,
    args: &Args,
    accounts: &Accounts,
    wasm: &Wasm,
    plan: &Plan<'_>,
) -> anyhow::Result<Measured> {
    let mut chain = Chain::new(accounts, wasm)?;
    let mut generate = (workload.set_up)(&mut chain, &args.sizes).with_context(|| format!("workload {}", workload.name))?;
    let mut random = Random::new(args.seed, workload.name);
    let mut senders = (0..accounts.len()).cycle();
    let blocks =
        std::iter::repeat_with(move || senders.by_ref().take(plan.block).map(|sender| generate(&mut random, sender)).collect());
    measure(workload.name, chain, blocks, plan)
}
