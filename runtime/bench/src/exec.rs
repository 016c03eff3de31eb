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
use anyhow::{Context, ensure};
use corniche_console::exit;
use corniche_threads::Threads;
use corniche_vm::THREAD_STACK_BYTES;
use std::{path::PathBuf, thread, time::Instant};

/// Execute blocks of WebAssembly contracts serially and in parallel, and compare results and times
///
/// Each block is executed in every mode on the same state, alternating between serial and parallel. If the results (receipts, gas, logs,
/// changes, roots) differ, the exit code is 9. Transactions are signed and their signatures checked before the measurement. Medians are
/// over all pairs of a serial run and the adjacent parallel run. `make contracts` builds the contracts.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Name of a workload to run; may be repeated; default: all
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(WORKLOADS.iter().map(|workload| workload.name)))]
    workload: Vec<String>,
    /// Numbers of threads for parallel execution. Above the number of cores, only results and re-executions are meaningful, not times
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Number of transactions per block
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    block: usize,
    /// Number of measured blocks, after one warm-up block
    #[arg(long, value_name = "N", default_value_t = 5)]
    blocks: usize,
    /// Number of executions of each block in each mode
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeats: usize,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    sizes: Sizes,
    /// Folder of the built contracts
    #[arg(long, value_name = "DIRECTORY", env = "CONTRACTS_WASM_DIR")]
    wasm_dir: Option<PathBuf>,
    /// Measure only contract calls, without transactions and state, in comparison with the same modules on bare wasmtime
    ///
    /// One call of each workload, selected by the seed, is repeated on the same few storage slots. All subjects take turns. Times are
    /// microseconds of thread CPU time.
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
