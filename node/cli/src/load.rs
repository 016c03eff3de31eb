//! `corniche load`: transfers through a node's RPC, and how fast they came to be executed.
//!
//! Fresh accounts are funded and every transaction is signed before the clock starts, so that only the network is measured.
//! A transaction's latency runs from just before it is first submitted until a block that holds it can be read from the
//! node: that is when its receipt can be had. One thread reads the blocks, every few milliseconds, whatever the rate.
//!
//! The generator runs on the processors it measures, so it does as little as it can while the clock runs: requests are text
//! before it starts, each sender has one connection ([`wire`]), and the report says what the generator itself used.

mod wire;

use crate::{exit, genesis, keys, processor::process_cpu};
use anyhow::{Context, anyhow, bail, ensure};
use corniche_client::{Block, Client, Draft, Fees, Refusal, Wait};
use corniche_crypto::EthereumKey;
use corniche_types::{Address, B256, Bytes, U256, keccak256};
use serde::Deserialize;
use serde_json::json;
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use wire::Connection;

/// Gas of a plain transfer.
const TRANSFER_GAS: u64 = 21_000;
/// How often the watcher looks for the next block.
const LOOK: Duration = Duration::from_millis(2);
/// How long a sender pauses when the node pushes back.
const PUSHED_BACK: Duration = Duration::from_millis(10);

/// Load a running network with transfers and print the rate and the latency
///
/// The latency of a transfer runs from its submission until the block that holds it can be read.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// JSON-RPC URL to submit to; may be repeated, the senders are dealt round-robin and blocks are read from the first
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8545")]
    rpc: Vec<String>,
    /// Transfers in all
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    count: usize,
    /// Transfers per second over all senders; as fast as the node takes them when absent
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Accounts that send, each on a connection of its own
    #[arg(long, value_name = "N", default_value_t = 16)]
    senders: usize,
    /// Transfers in one request
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: usize,
    /// File with the key of the account that funds the senders; the first development account when absent
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Seconds to wait for what was submitted
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `corniche load`.
pub fn run(args: Args) -> anyhow::Result<()> {
    ensure!(args.count > 0 && args.senders > 0 && args.batch > 0, "--count, --senders and --batch are at least 1");
    ensure!(args.rate.is_none_or(|rate| rate > 0.0), "--rate is above 0");
    let first = &Client::new(args.rpc.first().context("a URL is needed")?);
    let senders = prepare(first, &args)?;
    exit::note(format_args!("{} transfers of {} senders are signed; sending", args.count, args.senders));
    let report = Run::new(&args, &senders).measure(first, &args.rpc, &senders)?;
    exit::result(if args.json { report.json() } else { report.text() });
    ensure!(
        report.executed == report.count,
        "{} of {} transfers were not executed in time",
        report.count - report.executed,
        report.count
    );
    Ok(())
}

/// One account's transfers, signed, in the order of their nonces.
struct Sender {
    hashes: Vec<B256>,
    /// The call that submits each.
    calls: Vec<String>,
}

impl Sender {
    fn new(raw: impl Iterator<Item = Bytes>) -> Self {
        let call = |(id, raw): (usize, Bytes)| {
            let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"eth_sendRawTransaction","params":["{raw}"]}}"#);
            (keccak256(&raw), call)
        };
        let (hashes, calls) = raw.enumerate().map(call).unzip();
        Self { hashes, calls }
    }

    /// The request that submits these.
    fn request(&self, range: std::ops::Range<usize>) -> String {
        match &self.calls[range] {
            [one] => one.clone(),
            many => format!("[{}]", many.join(",")),
        }
    }
}

/// What a node says to a submission.
#[derive(Deserialize)]
struct Answer {
    id: Option<usize>,
    #[serde(default)]
    error: Option<Refusal>,
}

/// The answers to one request, in whatever order; one alone when the node refuses the request as a whole.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answers {
    Many(Vec<Answer>),
    One(Answer),
}

/// Makes accounts, funds them and signs everything.
fn prepare(client: &Client, args: &Args) -> anyhow::Result<Vec<Sender>> {
    let funder = match &args.key_file {
        Some(path) => keys::read_secret(path, EthereumKey::from_hex)?,
        None => genesis::dev_accounts().swap_remove(0).key,
    };
    // Enough for fees that rise tenfold during the run.
    let suggested = client.fees()?;
    let fees = Fees { max_fee_per_gas: suggested.max_fee_per_gas.saturating_mul(10), ..suggested };
    let each = args.count.div_ceil(args.senders);
    let cost = U256::from(fees.max_fee_per_gas) * U256::from(TRANSFER_GAS) + U256::from(1);
    let accounts: Vec<_> = (0..args.senders).map(|_| fresh_key()).collect();
    fund(client, &funder, accounts.iter().map(EthereumKey::address), cost * U256::from(each), fees)?;
    let chain_id = client.chain_id()?;
    let share = |index: usize| each.min(args.count.saturating_sub(index * each));
    let sign =
        |(index, key): (usize, &EthereumKey)| Sender::new((0..share(index)).map(|nonce| transfer(key, chain_id, nonce, fees)));
    Ok(accounts.iter().enumerate().map(sign).collect())
}

fn fresh_key() -> EthereumKey {
    std::iter::repeat_with(|| EthereumKey::from_bytes(&B256::random().0))
        .find_map(Result::ok)
        .expect("almost every word is a key")
}

fn transfer(key: &EthereumKey, chain_id: u64, nonce: usize, fees: Fees) -> Bytes {
    key.sign(alloy_consensus::TxEip1559 {
        chain_id,
        nonce: nonce as u64,
        gas_limit: TRANSFER_GAS,
        max_fee_per_gas: fees.max_fee_per_gas,
        max_priority_fee_per_gas: fees.max_priority_fee_per_gas,
        // An account of the sender's own: strangers' payments have nothing to do with each other.
        to: key.address().create(0).into(),
        value: U256::from(1),
        ..Default::default()
    })
}

fn fund(
    client: &Client,
    funder: &EthereumKey,
    to: impl Iterator<Item = Address>,
    amount: U256,
    fees: Fees,
) -> anyhow::Result<()> {
    let first_nonce = client.nonce(funder.address())?;
    let mut sent = Vec::new();
    for (nonce, address) in (first_nonce..).zip(to) {
        let draft = Draft {
            nonce: Some(nonce),
            gas_limit: Some(TRANSFER_GAS),
            max_fee_per_gas: Some(fees.max_fee_per_gas),
            max_priority_fee_per_gas: Some(fees.max_priority_fee_per_gas),
            ..Draft::transfer(address, amount)
        };
        sent.push(client.send(funder, &draft).context("funding the senders")?);
    }
    for hash in sent {
        let receipt = client.wait(hash, Wait::default()).context("funding the senders")?;
        ensure!(receipt.status(), "{} cannot fund the senders", funder.address());
    }
    Ok(())
}

/// What the threads of one run share.
struct Run {
    started: Instant,
    deadline: Duration,
    batch: usize,
    /// Pause between two requests of one sender.
    pace: Option<Duration>,
    index_of: HashMap<B256, usize>,
    /// Microseconds after `started` when a transfer was first submitted; 0 before.
    submitted: Vec<AtomicU64>,
    /// How often a node asked to come back later.
    pushed_back: AtomicU64,
    /// The first refusal that ended a sender's run.
    refusal: Mutex<Option<anyhow::Error>>,
    stopped: AtomicBool,
}

impl Run {
    fn new(args: &Args, senders: &[Sender]) -> Self {
        let hashes = senders.iter().flat_map(|sender| &sender.hashes);
        let index_of: HashMap<_, _> = hashes.copied().zip(0..).collect();
        let request_rate = args.rate.map(|rate| rate / args.batch as f64 / args.senders as f64);
        Self {
            started: Instant::now(),
            deadline: Duration::from_secs(args.timeout),
            batch: args.batch,
            pace: request_rate.map(|rate| Duration::from_secs_f64(1.0 / rate)),
            submitted: (0..index_of.len()).map(|_| AtomicU64::new(0)).collect(),
            index_of,
            pushed_back: AtomicU64::new(0),
            refusal: Mutex::new(None),
            stopped: AtomicBool::new(false),
        }
    }

    fn measure(mut self, client: &Client, urls: &[String], senders: &[Sender]) -> anyhow::Result<Report> {
        let first_block = client.block_number()? + 1;
        let mut connections =
            senders.iter().zip(urls.iter().cycle()).map(|(_, url)| Connection::new(url)).collect::<Result<Vec<_>, _>>()?;
        let mut watching = Connection::new(&urls[0])?;
        let used = process_cpu();
        self.started = Instant::now();
        let run = &self;
        let seen = thread::scope(|scope| {
            let mut offset = 0;
            for (sender, connection) in senders.iter().zip(&mut connections) {
                let range = offset..offset + sender.calls.len();
                offset = range.end;
                scope.spawn(move || run.send(connection, sender, &run.submitted[range]));
            }
            run.watch(&mut watching, first_block)
        })?;
        let processor = process_cpu().saturating_sub(used);
        if let Some(error) = self.refusal.into_inner().ok().flatten() {
            bail!("a sender was stopped: {error:#}");
        }
        let submitted = self.submitted.iter().map(|at| at.load(Ordering::Relaxed)).collect::<Vec<_>>();
        Ok(Report { processor, ..Report::new(&submitted, &seen, self.pushed_back.into_inner()) })
    }

    /// Submits one account's transfers in order; what the node has no room for is submitted again.
    fn send(&self, connection: &mut Connection, sender: &Sender, submitted: &[AtomicU64]) {
        let mut next = 0;
        let mut request = 0u32;
        while next < submitted.len() && !self.stopped.load(Ordering::Relaxed) {
            let end = submitted.len().min(next + self.batch);
            let text = sender.request(next..end);
            if let Some(pace) = self.pace {
                thread::sleep((pace * request).saturating_sub(self.started.elapsed()));
            }
            request += 1;
            let now = self.microseconds();
            for at in &submitted[next..end] {
                let _ = at.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
            }
            match submit(connection, &text, next..end) {
                Ok(taken) if taken == end - next => next = end,
                Ok(taken) => {
                    next += taken;
                    self.pushed_back.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(PUSHED_BACK);
                }
                Err(error) => {
                    self.stopped.store(true, Ordering::Relaxed);
                    self.refusal.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
                }
            }
        }
    }

    /// When each transfer was first seen in a block, in microseconds after the start.
    fn watch(&self, connection: &mut Connection, first_block: u64) -> anyhow::Result<Vec<Option<u64>>> {
        let mut seen = vec![None; self.index_of.len()];
        let mut missing = seen.len();
        let mut next = first_block;
        while missing > 0 && self.started.elapsed() < self.deadline && !self.stopped.load(Ordering::Relaxed) {
            let Some(block) = block(connection, next).inspect_err(|_| self.stopped.store(true, Ordering::Relaxed))? else {
                thread::sleep(LOOK);
                continue;
            };
            let now = self.microseconds();
            for index in block.transactions.iter().filter_map(|hash| self.index_of.get(hash)) {
                missing -= usize::from(seen[*index].replace(now).is_none());
            }
            next += 1;
        }
        self.stopped.store(true, Ordering::Relaxed);
        Ok(seen)
    }

    fn microseconds(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }
}

/// How many of the submissions with these numbers, from the front, the node has now.
fn submit(connection: &mut Connection, request: &str, numbers: std::ops::Range<usize>) -> anyhow::Result<usize> {
    let answers = serde_json::from_slice(connection.post(request.as_bytes())?).context("the answer makes no sense")?;
    let mut answers = match answers {
        Answers::Many(answers) => answers,
        // The node refused all of it.
        Answers::One(Answer { id: None, error }) => vec![Answer { id: Some(numbers.start), error }],
        Answers::One(answer) => vec![answer],
    };
    answers.sort_unstable_by_key(|answer| answer.id);
    for (number, answer) in numbers.clone().zip(&answers) {
        ensure!(answer.id == Some(number), "submission {number} was not answered");
        match &answer.error {
            Some(refusal) if asks_to_wait(refusal) => return Ok(number - numbers.start),
            Some(refusal) if !has_it(refusal) => return Err(anyhow!("{refusal}")),
            _ => {}
        }
    }
    ensure!(answers.len() == numbers.len(), "{} answers to {} submissions", answers.len(), numbers.len());
    Ok(numbers.len())
}

/// `None` while there is no block of this number.
fn block(connection: &mut Connection, number: u64) -> anyhow::Result<Option<Block>> {
    #[derive(Deserialize)]
    struct Found {
        result: Option<Block>,
        error: Option<Refusal>,
    }
    let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["{number:#x}",false]}}"#);
    let found: Found = serde_json::from_slice(connection.post(request.as_bytes())?).context("the answer makes no sense")?;
    found.error.map_or(Ok(found.result), |refusal| Err(anyhow!("{refusal}")))
}

fn has_it(refusal: &Refusal) -> bool {
    ["already known", "nonce too low"].iter().any(|phrase| refusal.message.contains(phrase))
}

fn asks_to_wait(refusal: &Refusal) -> bool {
    let phrases = ["txpool is full", "account limit exceeded", "does not accept transactions now", "server busy"];
    phrases.iter().any(|phrase| refusal.message.contains(phrase))
}

/// What came of a run.
struct Report {
    count: usize,
    executed: usize,
    pushed_back: u64,
    /// From the first submission to the last block seen.
    seconds: f64,
    /// Microseconds, sorted.
    latencies: Vec<u64>,
    /// What the generator itself used while it measured.
    processor: Duration,
}

impl Report {
    fn new(submitted: &[u64], seen: &[Option<u64>], pushed_back: u64) -> Self {
        let pairs = submitted.iter().zip(seen).filter_map(|(&submitted, seen)| Some((submitted, (*seen)?)));
        let mut latencies: Vec<_> = pairs.map(|(submitted, seen)| seen.saturating_sub(submitted)).collect();
        latencies.sort_unstable();
        let first = submitted.iter().copied().filter(|&at| at > 0).min().unwrap_or_default();
        let last = seen.iter().flatten().copied().max().unwrap_or(first);
        Self {
            count: submitted.len(),
            executed: latencies.len(),
            pushed_back,
            seconds: last.saturating_sub(first) as f64 / 1e6,
            latencies,
            processor: Duration::ZERO,
        }
    }

    /// The generator's processor time, microseconds per transfer.
    fn own_cost(&self) -> f64 {
        self.processor.as_secs_f64() * 1e6 / self.executed.max(1) as f64
    }

    fn per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.executed as f64 / self.seconds } else { 0.0 }
    }

    /// Milliseconds; the smallest latency that at least this share of the transfers did not exceed.
    fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.latencies.len() * percent).div_ceil(100).max(1) - 1;
        self.latencies.get(rank).map_or(0.0, |&latency| latency as f64 / 1e3)
    }

    fn json(&self) -> String {
        let latency = json!({ "p50": self.percentile(50), "p90": self.percentile(90), "p99": self.percentile(99), "max": self.percentile(100) });
        let report = json!({
            "count": self.count,
            "executed": self.executed,
            "pushedBack": self.pushed_back,
            "seconds": self.seconds,
            "transfersPerSecond": self.per_second(),
            "latencyMs": latency,
            "generatorMicrosecondsPerTransfer": self.own_cost(),
        });
        format!("{report:#}")
    }

    fn text(&self) -> String {
        let own = format!("{:.0} us of processor time a transfer", self.own_cost());
        format!(
            "executed      {} of {}\ntransfers/s   {:.0}\nlatency ms    p50 {:.1}, p90 {:.1}, p99 {:.1}, max {:.1}\npushed back   {} times\ngenerator     {own}",
            self.executed,
            self.count,
            self.per_second(),
            self.percentile(50),
            self.percentile(90),
            self.percentile(99),
            self.percentile(100),
            self.pushed_back
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_latencies_that_occurred() {
        let submitted: Vec<u64> = (1..=100).collect();
        let seen: Vec<_> = (1..=100u64).map(|at| Some(at + at * 1_000)).collect();
        let report = Report::new(&submitted, &seen, 0);
        assert_eq!((report.percentile(50), report.percentile(99), report.percentile(100)), (50.0, 99.0, 100.0));
        assert_eq!(report.executed, 100);
    }

    #[test]
    fn what_was_never_seen_does_not_count_as_fast() {
        let report = Report::new(&[1, 1, 0], &[Some(2_000_001), None, None], 3);
        assert_eq!((report.count, report.executed), (3, 1));
        assert_eq!(report.per_second(), 0.5);
        let none = Report::new(&[0], &[None], 0);
        assert_eq!((none.per_second(), none.percentile(99)), (0.0, 0.0));
    }
}
