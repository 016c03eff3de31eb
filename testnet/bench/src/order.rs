//! `corniche bench order`: the ordering alone, as public prototypes of the engines measure it.
//!
//! Real processes with real connections, signatures, coins and durable records order opaque transactions that each validator
//! makes itself. Nothing is admitted, executed or certified. One process runs [`node`] for each validator; this module starts them,
//! tells them when the measurement begins and ends, and adds up their reports.

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
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Bytes of a transaction, as in the prototypes' papers.
pub const TRANSACTION_BYTES: usize = 512;
/// Timeout for a validator to connect with all others, and to report.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum offered rate.
const MAX_RATE: u64 = 10_000_000;

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
    /// Transactions per second of this validator
    #[arg(long, value_name = "N")]
    pub rate: f64,
}

/// Lines that a validator's process reads. It ends with its standard input.
mod command {
    /// Begins to make transactions.
    pub const START: &str = "start";
    /// Begins the measurement.
    pub const RESET: &str = "reset";
    /// Prints the counts since the last [`RESET`].
    pub const REPORT: &str = "report";
}

/// A validator's files.
pub struct Validator {
    pub config: PathBuf,
    pub data: PathBuf,
    pub log: PathBuf,
}

/// Counts of one validator during the measurement.
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
    ensure!(args.rate.iter().all(|rate| (1..=MAX_RATE).contains(rate)), "--rate is between 1 and {MAX_RATE}");
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
    let own_rate = rate as f64 / args.validators as f64;
    let start = |validator| ValidatorProcess::start(validator, own_rate);
    let mut processes = validators.iter().map(start).collect::<anyhow::Result<Vec<_>>>()?;
    processes.iter_mut().try_for_each(ValidatorProcess::wait_until_connected)?;
    processes.iter_mut().try_for_each(|process| process.command(command::START))?;
    thread::sleep(Duration::from_secs(args.warm_up));
    processes.iter_mut().try_for_each(|process| process.command(command::RESET))?;
    let (before, since) = (processor_time(&processes)?, Instant::now());
    thread::sleep(Duration::from_secs(args.seconds));
    let threads = processor_time(&processes)?.since(&before);
    processes.iter_mut().try_for_each(|process| process.command(command::REPORT))?;
    let seconds = since.elapsed().as_secs_f64();
    let counted = processes.iter_mut().map(ValidatorProcess::counted).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Row { offered: rate, seconds, counted, threads })
}

fn processor_time(processes: &[ValidatorProcess]) -> anyhow::Result<ThreadTimes> {
    let mut sum = ThreadTimes::default();
    for process in processes {
        let times = thread_times(process.child.id());
        sum.add(&times.with_context(|| process.has_ended())?);
    }
    Ok(sum)
}

/// Process of one validator; killed on drop.
struct ValidatorProcess {
    child: Child,
    stdin: ChildStdin,
    /// Lines of its standard output.
    lines: mpsc::Receiver<String>,
    log: PathBuf,
}

impl ValidatorProcess {
    fn start(validator: &Validator, rate: f64) -> anyhow::Result<Self> {
        let log = std::fs::File::options().append(true).create(true).open(&validator.log)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "order-node", "--rate", &rate.to_string()]);
        command.arg("--config").arg(&validator.config).arg("--data").arg(&validator.data);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn()?;
        let stdin = child.stdin.take().context("standard input is piped")?;
        let stdout = BufReader::new(child.stdout.take().context("standard output is piped")?);
        let (sender, lines) = mpsc::channel();
        // Ends with the process.
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Ok(Self { child, stdin, lines, log: validator.log.clone() })
    }

    fn wait_until_connected(&mut self) -> anyhow::Result<()> {
        self.line().map(drop)
    }

    fn command(&mut self, command: &str) -> anyhow::Result<()> {
        writeln!(self.stdin, "{command}").with_context(|| self.has_ended())
    }

    fn counted(&mut self) -> anyhow::Result<Counted> {
        Ok(serde_json::from_str(&self.line()?)?)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        self.lines.recv_timeout(RESPONSE_TIMEOUT).map_err(|_| anyhow::anyhow!(self.has_ended()))
    }

    /// Message for a process that ended or does not respond, with the end of its log.
    fn has_ended(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        format!("a validator does not respond: {}", log.lines().last().unwrap_or("its log is empty"))
    }
}

impl Drop for ValidatorProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
