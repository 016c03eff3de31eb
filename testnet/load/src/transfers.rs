//! Transfers, and the speed of their execution.
//!
//! New accounts are funded and all transactions are signed before the clock starts, so that only the network
//! is measured. One thread polls for blocks every few milliseconds, at any rate. With a rate, each transfer
//! has a scheduled time, and its latency is measured from then.

use super::{Report, asset::Asset, latency::Latencies, progress::Line, progress::Progress, wire::Connection};
use anyhow::{Context, anyhow, bail, ensure};
use corniche_client::{Block, Client, Draft, Fees, Refusal, Wait};
use corniche_console::{dev_accounts::dev_accounts, exit, processor::process_cpu, secret};
use corniche_crypto::EthereumKey;
use corniche_types::{Address, B256, Bytes, U256, keccak256};
use serde::Deserialize;
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

/// Interval at which the watcher polls for the next block.
const LOOK: Duration = Duration::from_millis(2);
/// Pause of a sender after a "try again later" response.
const PUSHED_BACK: Duration = Duration::from_millis(10);

pub struct Plan<'a> {
    /// Senders are distributed over them; blocks are read from the first.
    pub urls: &'a [String],
    pub count: usize,
    pub senders: usize,
    /// Receiving accounts; `None`: one for each sender.
    pub recipients: Option<usize>,
    /// ERC-20 token to transfer, of which the funding account has some; `None`: the native currency.
    pub erc20: Option<Address>,
    /// Transfers per request.
    pub batch: usize,
    /// Transfers per second over all senders.
    pub rate: Option<f64>,
    /// Timeout for the execution of submitted transfers.
    pub patience: Duration,
    pub key_file: Option<&'a PathBuf>,
}

pub fn measure(plan: &Plan) -> anyhow::Result<Report> {
    let first = &Client::new(plan.urls.first().context("a URL is needed")?);
    let senders = prepare(first, plan)?;
    exit::note(format_args!("{} transfers of {} senders are signed; sending", plan.count, plan.senders));
    Run::new(plan, &senders).measure(first, plan.urls, &senders)
}

/// Signed transfers of one account, in nonce order.
struct Sender {
    hashes: Vec<B256>,
    /// JSON-RPC call that submits each.
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

    /// Request that submits these transfers.
    fn request(&self, range: std::ops::Range<usize>) -> String {
        match &self.calls[range] {
            [one] => one.clone(),
            many => format!("[{}]", many.join(",")),
        }
    }
}

/// Response to a submission.
#[derive(Deserialize)]
struct Answer {
    id: Option<usize>,
    #[serde(default)]
    error: Option<Refusal>,
}

/// Responses to one request, in any order; a single one if the node refuses the whole request.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answers {
    Many(Vec<Answer>),
    One(Answer),
}

/// Creates accounts, funds them, and signs all transfers.
fn prepare(client: &Client, plan: &Plan) -> anyhow::Result<Vec<Sender>> {
    let funder = match plan.key_file {
        Some(path) => secret::read(path, EthereumKey::from_hex)?,
        None => dev_accounts().swap_remove(0).key,
    };
    let asset = match plan.erc20 {
        None => Asset::native(),
        Some(token) => Asset::erc20(client, token, funder.address())?,
    };
    // Enough for fees that rise tenfold during the run.
    let suggested = client.fees()?;
    let fees = Fees { max_fee_per_gas: suggested.max_fee_per_gas.saturating_mul(10), ..suggested };
    let each = plan.count.div_ceil(plan.senders);
    let gas = U256::from(fees.max_fee_per_gas) * U256::from(asset.gas_limit);
    let accounts: Vec<_> = (0..plan.senders).map(|_| fresh_key()).collect();
    let addresses = || accounts.iter().map(EthereumKey::address);
    let native = Asset::native();
    // One wei for each transfer that is native.
    let mut drafts: Vec<_> =
        addresses().map(|address| native.transfer(address, (gas + U256::from(1)) * U256::from(each))).collect();
    if !asset.is_native() {
        drafts.extend(addresses().map(|address| asset.transfer(address, U256::from(each))));
    }
    let funded = fund(client, &funder, drafts, fees)?;
    // A node that is a block behind would reject the transfers of accounts that it does not know yet.
    for url in plan.urls {
        Client::new(url).wait(funded, Wait::default()).with_context(|| format!("{url} does not know the funded senders"))?;
    }
    let chain_id = client.chain_id()?;
    let share = |index: usize| each.min(plan.count.saturating_sub(index * each));
    let signed = |(index, key): (usize, &EthereumKey)| {
        let to = |nonce: usize| match plan.recipients {
            // A separate recipient, so that transfers of different senders are independent.
            None => key.address().create(0),
            Some(recipients) => recipient((nonce * plan.senders + index) % recipients),
        };
        Sender::new((0..share(index)).map(|nonce| sign(key, chain_id, nonce, asset.transfer(to(nonce), U256::from(1)), fees)))
    };
    Ok(accounts.iter().enumerate().map(signed).collect())
}

/// Account that every run with `--recipients` uses again.
fn recipient(number: usize) -> Address {
    Address::from_word(keccak256((number as u64).to_be_bytes()))
}

fn fresh_key() -> EthereumKey {
    std::iter::repeat_with(|| EthereumKey::from_bytes(&B256::random().0))
        .find_map(Result::ok)
        .expect("almost every word is a key")
}

fn sign(key: &EthereumKey, chain_id: u64, nonce: usize, draft: Draft, fees: Fees) -> Bytes {
    key.sign(alloy_consensus::TxEip1559 {
        chain_id,
        nonce: nonce as u64,
        gas_limit: draft.gas_limit.unwrap_or_default(),
        max_fee_per_gas: fees.max_fee_per_gas,
        max_priority_fee_per_gas: fees.max_priority_fee_per_gas,
        to: draft.to,
        value: draft.value,
        input: draft.input,
        ..Default::default()
    })
}

/// Sends these transfers from the funding account, and returns the last one's hash when all are executed.
fn fund(client: &Client, funder: &EthereumKey, drafts: Vec<Draft>, fees: Fees) -> anyhow::Result<B256> {
    let first_nonce = client.nonce(funder.address())?;
    let mut sent = Vec::new();
    for (nonce, draft) in (first_nonce..).zip(drafts) {
        let draft = Draft {
            nonce: Some(nonce),
            max_fee_per_gas: Some(fees.max_fee_per_gas),
            max_priority_fee_per_gas: Some(fees.max_priority_fee_per_gas),
            ..draft
        };
        sent.push(client.send(funder, &draft).context("funding the senders")?);
    }
    for hash in &sent {
        let receipt = client.wait(*hash, Wait::default()).context("funding the senders")?;
        ensure!(receipt.status(), "{} cannot fund the senders", funder.address());
    }
    sent.last().copied().context("there are no senders")
}

/// State shared by the threads of one run.
struct Run {
    started: Instant,
    deadline: Duration,
    batch: usize,
    /// Interval between two requests of one sender.
    pace: Option<Duration>,
    progress: Progress,
    index_of: HashMap<B256, usize>,
    /// Time of the first submission in microseconds after `started`; 0 before.
    submitted: Vec<AtomicU64>,
    /// Number of "try again later" responses.
    pushed_back: AtomicU64,
    /// First refusal that ended a sender's run.
    refusal: Mutex<Option<anyhow::Error>>,
    stopped: AtomicBool,
}

impl Run {
    fn new(plan: &Plan, senders: &[Sender]) -> Self {
        let hashes = senders.iter().flat_map(|sender| &sender.hashes);
        let index_of: HashMap<_, _> = hashes.copied().zip(0..).collect();
        let request_rate = plan.rate.map(|rate| rate / plan.batch as f64 / plan.senders as f64);
        Self {
            started: Instant::now(),
            deadline: plan.patience,
            batch: plan.batch,
            pace: request_rate.map(|rate| Duration::from_secs_f64(1.0 / rate)),
            progress: Progress::default(),
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
            let line = Line::new(&run.progress, "executed");
            scope.spawn(move || line.show_until(|| run.stopped.load(Ordering::Relaxed)));
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
        Ok(Report { processor, ..report(&submitted, &seen, self.pushed_back.into_inner()) })
    }

    /// Submits one account's transfers in order; repeats those that the node has no room for.
    fn send(&self, connection: &mut Connection, sender: &Sender, submitted: &[AtomicU64]) {
        let mut next = 0;
        let mut request = 0u32;
        while next < submitted.len() && !self.stopped.load(Ordering::Relaxed) {
            let end = submitted.len().min(next + self.batch);
            let text = sender.request(next..end);
            // The scheduled time, not the time at which a slow node allowed the request.
            let from = match self.pace.map(|pace| pace * request) {
                Some(due) => {
                    thread::sleep(due.saturating_sub(self.started.elapsed()));
                    microseconds(due)
                }
                None => microseconds(self.started.elapsed()),
            };
            request += 1;
            for at in &submitted[next..end] {
                let first = at.compare_exchange(0, from, Ordering::Relaxed, Ordering::Relaxed).is_ok();
                self.progress.sent.fetch_add(first.into(), Ordering::Relaxed);
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

    /// Time at which each transfer was first seen in a block, in microseconds after the start.
    fn watch(&self, connection: &mut Connection, first_block: u64) -> anyhow::Result<Vec<Option<u64>>> {
        let mut seen = vec![None; self.index_of.len()];
        let mut missing = seen.len();
        let mut next = first_block;
        while missing > 0 && self.started.elapsed() < self.deadline && !self.stopped.load(Ordering::Relaxed) {
            let Some(block) = block(connection, next).inspect_err(|_| self.stopped.store(true, Ordering::Relaxed))? else {
                thread::sleep(LOOK);
                continue;
            };
            let now = microseconds(self.started.elapsed());
            let before = missing;
            for index in block.transactions.iter().filter_map(|hash| self.index_of.get(hash)) {
                missing -= usize::from(seen[*index].replace(now).is_none());
            }
            self.progress.done.fetch_add(before - missing, Ordering::Relaxed);
            next += 1;
        }
        self.stopped.store(true, Ordering::Relaxed);
        Ok(seen)
    }
}

/// At least 1, because 0 means never.
fn microseconds(since: Duration) -> u64 {
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX).max(1)
}

/// Submits transfers; returns how many of them, from the front, the node has now.
fn submit(connection: &mut Connection, request: &str, numbers: std::ops::Range<usize>) -> anyhow::Result<usize> {
    let answers = serde_json::from_slice(&connection.post(request.as_bytes())?).context("invalid response")?;
    let mut answers = match answers {
        Answers::Many(answers) => answers,
        // The node refused the whole request.
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

/// `None` while the block does not exist.
fn block(connection: &mut Connection, number: u64) -> anyhow::Result<Option<Block>> {
    #[derive(Deserialize)]
    struct Found {
        result: Option<Block>,
        error: Option<Refusal>,
    }
    let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["{number:#x}",false]}}"#);
    let found: Found = serde_json::from_slice(&connection.post(request.as_bytes())?).context("invalid response")?;
    found.error.map_or(Ok(found.result), |refusal| Err(anyhow!("{refusal}")))
}

fn has_it(refusal: &Refusal) -> bool {
    ["already known", "nonce too low"].iter().any(|phrase| refusal.message.contains(phrase))
}

fn asks_to_wait(refusal: &Refusal) -> bool {
    let phrases = ["txpool is full", "account limit exceeded", "does not accept transactions now", "server busy"];
    phrases.iter().any(|phrase| refusal.message.contains(phrase))
}

/// Builds the report from times in microseconds after the start: submission (0: never) and sighting.
fn report(submitted: &[u64], seen: &[Option<u64>], pushed_back: u64) -> Report {
    let pairs = submitted.iter().zip(seen).filter_map(|(&submitted, seen)| Some((submitted, (*seen)?)));
    let latencies = Latencies::new(pairs.map(|(submitted, seen)| seen.saturating_sub(submitted)).collect());
    let first = submitted.iter().copied().filter(|&at| at > 0).min().unwrap_or_default();
    let last = seen.iter().flatten().copied().max().unwrap_or(first);
    Report {
        noun: "transfer",
        planned: submitted.len(),
        latencies,
        seconds: last.saturating_sub(first) as f64 / 1e6,
        processor: Duration::ZERO,
        pushed_back: Some(pushed_back),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_transfers_are_not_fast() {
        let half = report(&[1, 1, 0], &[Some(2_000_001), None, None], 3);
        assert_eq!((half.planned, half.latencies.count()), (3, 1));
        assert_eq!(half.per_second(), 0.5);
        let none = report(&[0], &[None], 0);
        assert_eq!((none.per_second(), none.latencies.per_mille(990)), (0.0, 0.0));
    }
}
