//! `corniche bench order`: the ordering alone, as public prototypes of the engines measure it.
//!
//! Real processes with real connections, signatures, coins and durable records order opaque transactions that each validator
//! makes itself. Nothing is admitted, executed or certified. One process runs [`node`] for each validator; this module starts them,
//! starts their clocks together, and adds up what they report.

pub mod generator;
pub mod node;
mod report;

use anyhow::{Context, ensure};
use corniche_console::exit;
use corniche_processes::{ThreadTimes, thread_times};
use report::Row;
use serde::{Deserialize, Serialize};
use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

/// Bytes of a transaction, as in the prototypes' papers.
pub const TRANSACTION_BYTES: usize = 512;

/// Measure ordering alone: opaque transactions of 512 bytes that the validators make themselves
///
/// Connections, signatures, coins and durable records are those of a real network. Nothing is executed.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Ordering engine; default: that of `corniche testnet up`
    #[arg(long, value_name = "NAME")]
    pub engine: Option<String>,
    /// Number of validators
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub validators: usize,
    /// Offered transactions per second of all validators together; each rate is a run on a new network
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "10000,20000,40000,80000")]
    rate: Vec<u64>,
    /// Seconds before the measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    warm_up: u64,
    /// Duration of the measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    seconds: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of one validator's process, which `corniche bench order` starts.
#[derive(clap::Args, Debug)]
pub struct NodeArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Data directory
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    #[command(flatten)]
    pub timing: Timing,
}

/// What one validator offers, and for how long.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Timing {
    /// Transactions per second of this validator
    #[arg(long, value_name = "N")]
    pub rate: f64,
    /// Seconds before the measurement
    #[arg(long, value_name = "SECONDS")]
    pub warm_up: u64,
    /// Duration of the measurement
    #[arg(long, value_name = "SECONDS")]
    pub seconds: u64,
}

/// A validator's files.
pub struct Validator {
    pub config: PathBuf,
    pub data: PathBuf,
    pub log: PathBuf,
}

/// What one validator counted during the measurement.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Counted {
    /// Transactions of all validators that were ordered.
    pub ordered: u64,
    /// Own transactions that found no room, because too many waited.
    pub refused: u64,
    /// Own proposals, and those of them with transactions.
    pub proposals: u64,
    pub batches: u64,
    pub messages: u64,
    pub bytes: u64,
    /// Latencies of own transactions in µs from their creation to their order here: evenly spaced quantiles, sorted.
    pub latencies: Vec<u64>,
}

/// Runs `corniche bench order`. `make` creates the files of a new network in a directory.
pub fn run(args: &Args, make: impl Fn(&Path) -> anyhow::Result<Vec<Validator>>) -> anyhow::Result<()> {
    ensure!(args.validators > 0 && args.seconds > 0, "--validators and --seconds are at least 1");
    ensure!(args.rate.iter().all(|rate| *rate > 0), "--rate is above 0");
    let mut rows = Vec::new();
    for rate in &args.rate {
        exit::note(format_args!("{} validators, {rate} transactions/s offered", args.validators));
        let directory = tempfile::Builder::new().prefix("corniche-order-").tempdir()?;
        let validators = make(directory.path())?;
        rows.push(measure(args, *rate, &validators)?);
    }
    exit::result(if args.json { report::json(args, &rows) } else { report::text(args, &rows) });
    Ok(())
}

fn measure(args: &Args, rate: u64, validators: &[Validator]) -> anyhow::Result<Row> {
    let timing = Timing { rate: rate as f64 / args.validators as f64, warm_up: args.warm_up, seconds: args.seconds };
    let mut running =
        validators.iter().map(|validator| Running::start(validator, timing)).collect::<anyhow::Result<Vec<_>>>()?;
    running.iter_mut().try_for_each(Running::wait_until_connected)?;
    running.iter_mut().try_for_each(Running::begin)?;
    std::thread::sleep(Duration::from_secs(args.warm_up));
    let before = processor_time(&running)?;
    std::thread::sleep(Duration::from_secs(args.seconds));
    let after = processor_time(&running)?;
    let counted = running.iter_mut().map(Running::counted).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Row { offered: rate, seconds: args.seconds, counted, threads: after.since(&before) })
}

fn processor_time(running: &[Running]) -> anyhow::Result<ThreadTimes> {
    let mut sum = ThreadTimes::default();
    for validator in running {
        let times = thread_times(validator.child.id());
        sum.add(&times.with_context(|| format!("a validator has ended; see {}", validator.log.display()))?);
    }
    Ok(sum)
}

/// Process of one validator; killed on drop.
struct Running {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    log: PathBuf,
}

impl Running {
    fn start(validator: &Validator, timing: Timing) -> anyhow::Result<Self> {
        let Timing { rate, warm_up, seconds } = timing;
        let log = std::fs::File::options().append(true).create(true).open(&validator.log)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "order-node", "--config"]).arg(&validator.config).arg("--data").arg(&validator.data);
        command.args(["--rate", &rate.to_string(), "--warm-up", &warm_up.to_string(), "--seconds", &seconds.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn()?;
        let to = child.stdin.take().context("standard input is piped")?;
        let from = BufReader::new(child.stdout.take().context("standard output is piped")?);
        Ok(Self { child, to, from, log: validator.log.clone() })
    }

    fn wait_until_connected(&mut self) -> anyhow::Result<()> {
        self.line().map(drop)
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        Ok(writeln!(self.to, "begin")?)
    }

    fn counted(&mut self) -> anyhow::Result<Counted> {
        Ok(serde_json::from_str(&self.line()?)?)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(self.from.read_line(&mut line)? > 0, "a validator has ended; see {}", self.log.display());
        Ok(line)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
