//! The result of a run, and its JSON.

use serde::Serialize;
use std::{collections::BTreeSet, fmt::Write, ops::AddAssign};

/// The result of a run. Times are in µs. Fractions in the JSON are rounded to thousandths from these integers, so equal
/// runs give equal text on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub engine: String,
    pub nodes: usize,
    pub seed: u64,
    /// Virtual time of the run, µs.
    pub virtual_us: u64,
    /// Transactions that a node accepted.
    pub submitted: u64,
    /// Number of these that are committed at the node of their submission.
    pub committed: u64,
    /// Accepted by a node that is honest and up at the end, and not committed by then.
    pub lost: u64,
    /// Transactions that appear more than once in the committed order.
    pub duplicated: u64,
    /// Mean base delay of a link, µs: the unit of `latency_delays` and `commit_delays`. See `Scenario::delay_us`.
    pub delay_us: u64,
    /// Submission to commit at the submitter's node, µs.
    pub latency: Option<Spread>,
    /// Proposal of a block to its commit at its proposer, µs.
    pub commit: Option<Spread>,
    /// Messages that all nodes sent.
    pub messages: u64,
    /// Bytes that all nodes sent.
    pub bytes: u64,
    /// Share of ordering.
    pub ordering: Spent,
    /// Share of certificates.
    pub certificates: Spent,
    /// Datagrams of the multicast group that arrived at all validators, and their bytes. Not in the JSON.
    pub received: (u64, u64),
    /// Epoch of the group's sequencer at the end. Not in the JSON.
    pub failovers: u32,
    /// Every committed transaction, in the order of commits. Not in the JSON.
    pub transactions: Vec<Sample>,
    /// One entry for each second of the run, the last may be a part.
    pub timeline: Vec<Second>,
    pub verdict: Verdict,
    /// Number of violated guarantees.
    pub violation_count: u64,
    /// The first hundred of them, one sentence each.
    pub violations: Vec<String>,
    /// Number of epochs that ended.
    pub epochs_ended: u64,
    /// Number of these after which the old committee stayed, because no new one was ready.
    pub epochs_kept: u64,
    /// From the last block of an epoch to the first one of the next, at each member, under load, µs.
    pub epoch_gap: Option<Spread>,
    /// Commits in the second around each end of an epoch, as thousandths of those in a second far from all ends: mean and
    /// minimum.
    pub epoch_throughput: Option<(u64, u64)>,
    /// From a freeze until all members of the next committee have acknowledged their shares of a new coin, µs.
    pub coin_dealing: Option<Spread>,
    /// Members of the committee that each epoch's end decided. Not in the JSON.
    pub committees: Vec<Vec<usize>>,
    /// Nodes that have not caught up or changed their role at the end, one sentence each. Not in the JSON.
    pub unfinished: Vec<String>,
    /// Validators that the staking contract convicted. Not in the JSON.
    pub convicted: BTreeSet<u32>,
    /// Longest time without a commit while a quorum was up and connected, µs.
    pub stalled_us: u64,
    /// SHA-256 over the transaction hashes in committed order, shortest honest prefix.
    pub digest: [u8; 32],
}

impl Report {
    /// The result for machines: one object with the documented keys, in their order.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(&Json::new(self)).expect("numbers, words and lists are JSON")
    }

    /// The result for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| {
            // Writes to a string cannot fail.
            let _ = writeln!(text, "{name:<16}{value}");
        };
        line("verdict", format!("{}, {} safety violations", self.verdict.id(), self.violation_count));
        line("network", format!("{}, {} nodes, seed {}", self.engine, self.nodes, self.seed));
        line("virtual time", format!("{} s", decimal(thousandths(self.virtual_us, 1_000_000))));
        line(
            "transactions",
            format!(
                "{} submitted, {} committed, {} lost, {} duplicated",
                self.submitted, self.committed, self.lost, self.duplicated
            ),
        );
        let spreads = [
            ("latency, ms", self.latency, 1_000),
            ("latency, delays", self.latency, self.delay_us),
            ("commit, delays", self.commit, self.delay_us),
        ];
        for (name, spread, unit_us) in spreads {
            let Some(spread) = spread else {
                line(name, "nothing was committed".to_owned());
                continue;
            };
            let [mean, p50, p90, p99, max] = spread.values().map(|us| decimal(thousandths(us, unit_us)));
            line(name, format!("mean {mean}, p50 {p50}, p90 {p90}, p99 {p99}, max {max}"));
        }
        let (messages, bytes) = (thousandths(self.messages, self.committed), thousandths(self.bytes, self.committed));
        line("per transaction", format!("{} messages, {} bytes", decimal(messages), decimal(bytes)));
        for (name, spent) in [("  ordering", self.ordering), ("  certificates", self.certificates)] {
            let Spent { messages, bytes, work: Work { signed, checked, micros } } = spent;
            let [messages, bytes, signed, checked, micros] =
                [messages, bytes, signed, checked, micros].map(|total| decimal(thousandths(total, self.committed)));
            line(name, format!("{messages} messages, {bytes} bytes, {signed} signed, {checked} checked, {micros} us"));
        }
        if self.epochs_ended > 0 {
            line("epochs", format!("{} ended, {} with the old committee kept", self.epochs_ended, self.epochs_kept));
            for (name, spread) in [("epoch gap, ms", self.epoch_gap), ("coin dealt, ms", self.coin_dealing)] {
                let Some(spread) = spread else { continue };
                let [mean, p50, p90, p99, max] = spread.values().map(|us| decimal(thousandths(us, 1_000)));
                line(name, format!("mean {mean}, p50 {p50}, p90 {p90}, p99 {p99}, max {max}"));
            }
            if let Some((mean, min)) = self.epoch_throughput {
                line("epoch ends", format!("{} of the steady throughput, at least {}", decimal(mean), decimal(min)));
            }
        }
        line("stalled", format!("{} ms at most", decimal(self.stalled_us)));
        line("digest", hex(&self.digest));
        text.truncate(text.trim_end().len());
        text
    }
}

/// Total cost of one purpose at all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Sent messages, once per recipient.
    pub messages: u64,
    pub bytes: u64,
    pub work: Work,
}

/// Work of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Signatures and shares made.
    pub signed: u64,
    /// Signatures, shares and sums checked.
    pub checked: u64,
    /// Processor time for it, µs.
    pub micros: u64,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.signed += other.signed;
        self.checked += other.checked;
        self.micros += other.micros;
    }
}

/// One committed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The node of its client.
    pub client: usize,
    /// Since the start of the run, µs.
    pub submitted_us: u64,
    /// From submission to commit where it was submitted, µs.
    pub latency_us: u64,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No guarantee was violated and everything accepted was committed.
    Pass,
    /// No guarantee was violated, but the network stalled or left accepted transactions uncommitted.
    NoProgress,
    /// A safety guarantee was violated.
    Diverged,
}

impl Verdict {
    /// Word in the JSON.
    pub fn id(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::NoProgress => "no_progress",
            Self::Diverged => "diverged",
        }
    }
}

/// Mean and percentiles of samples, in the samples' unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    pub mean: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub max: u64,
}

impl Spread {
    /// Computes the spread of these samples, which it sorts; `None` if there are no samples. A percentile is the
    /// smallest sample that at least that share of the samples does not exceed. The mean is rounded to the nearest
    /// integer.
    pub fn of(samples: &mut [u64]) -> Option<Self> {
        samples.sort_unstable();
        let max = *samples.last()?;
        let percentile = |percent: usize| samples[(samples.len() * percent).div_ceil(100) - 1];
        let (sum, count) = (samples.iter().map(|&sample| u128::from(sample)).sum::<u128>(), samples.len() as u128);
        let mean = u64::try_from((sum + count / 2) / count).expect("a mean is not above the maximum");
        Some(Self { mean, p50: percentile(50), p90: percentile(90), p99: percentile(99), max })
    }

    fn values(self) -> [u64; 5] {
        [self.mean, self.p50, self.p90, self.p99, self.max]
    }
}

/// One second of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Second {
    /// Counted from 0.
    pub second: u64,
    /// Transactions committed at their submitter's node in this second.
    pub committed: u64,
    /// Median latency of these transactions, µs.
    pub p50_us: Option<u64>,
    pub max_us: Option<u64>,
}

/// The keys of the result, in their order. Public and stable.
#[derive(Serialize)]
struct Json<'r> {
    engine: &'r str,
    nodes: usize,
    seed: u64,
    virtual_seconds: f64,
    submitted: u64,
    committed: u64,
    lost: u64,
    duplicated: u64,
    latency_ms: JsonSpread,
    latency_delays: JsonSpread,
    commit_delays: JsonSpread,
    messages_per_tx: f64,
    bytes_per_tx: f64,
    ordering_per_tx: JsonSpent,
    certificates_per_tx: JsonSpent,
    timeline: Vec<JsonSecond>,
    verdict: &'static str,
    safety_violations: u64,
    stalled_ms: f64,
    epochs_ended: u64,
    epochs_kept: u64,
    epoch_gap_ms: JsonSpread,
    epoch_throughput: JsonThroughput,
    coin_dealing_ms: JsonSpread,
    digest: String,
}

/// All `null` if nothing was committed.
#[derive(Serialize)]
struct JsonSpread {
    mean: Option<f64>,
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

/// `null` if no epoch ended far from the start and the end of the load.
#[derive(Serialize)]
struct JsonThroughput {
    mean: Option<f64>,
    min: Option<f64>,
}

#[derive(Serialize)]
struct JsonSpent {
    messages: f64,
    bytes: f64,
    signed: f64,
    checked: f64,
    processor_us: f64,
}

#[derive(Serialize)]
struct JsonSecond {
    second: u64,
    committed: u64,
    p50_ms: Option<f64>,
    max_ms: Option<f64>,
}

impl<'r> Json<'r> {
    fn new(report: &'r Report) -> Self {
        let per_transaction = |total| number(thousandths(total, report.committed));
        Self {
            engine: &report.engine,
            nodes: report.nodes,
            seed: report.seed,
            virtual_seconds: number(thousandths(report.virtual_us, 1_000_000)),
            submitted: report.submitted,
            committed: report.committed,
            lost: report.lost,
            duplicated: report.duplicated,
            latency_ms: JsonSpread::new(report.latency, 1_000),
            latency_delays: JsonSpread::new(report.latency, report.delay_us),
            commit_delays: JsonSpread::new(report.commit, report.delay_us),
            messages_per_tx: per_transaction(report.messages),
            bytes_per_tx: per_transaction(report.bytes),
            ordering_per_tx: JsonSpent::new(&report.ordering, per_transaction),
            certificates_per_tx: JsonSpent::new(&report.certificates, per_transaction),
            timeline: report.timeline.iter().map(JsonSecond::new).collect(),
            verdict: report.verdict.id(),
            safety_violations: report.violation_count,
            stalled_ms: number(report.stalled_us),
            epochs_ended: report.epochs_ended,
            epochs_kept: report.epochs_kept,
            epoch_gap_ms: JsonSpread::new(report.epoch_gap, 1_000),
            epoch_throughput: JsonThroughput {
                mean: report.epoch_throughput.map(|(mean, _)| number(mean)),
                min: report.epoch_throughput.map(|(_, min)| number(min)),
            },
            coin_dealing_ms: JsonSpread::new(report.coin_dealing, 1_000),
            digest: hex(&report.digest),
        }
    }
}

impl JsonSpent {
    fn new(spent: &Spent, share: impl Fn(u64) -> f64) -> Self {
        let Spent { messages, bytes, work: Work { signed, checked, micros } } = *spent;
        let [messages, bytes, signed, checked, processor_us] = [messages, bytes, signed, checked, micros].map(share);
        Self { messages, bytes, signed, checked, processor_us }
    }
}

impl JsonSpread {
    fn new(spread: Option<Spread>, unit_us: u64) -> Self {
        let [mean, p50, p90, p99, max] = match spread {
            Some(spread) => spread.values().map(|us| Some(number(thousandths(us, unit_us)))),
            None => [None; 5],
        };
        Self { mean, p50, p90, p99, max }
    }
}

impl JsonSecond {
    fn new(second: &Second) -> Self {
        let [p50_ms, max_ms] = [second.p50_us, second.max_us].map(|us| us.map(number));
        Self { second: second.second, committed: second.committed, p50_ms, max_ms }
    }
}

/// `total` per `count` in thousandths, rounded to the nearest; 0 if `count` is 0.
fn thousandths(total: u64, count: u64) -> u64 {
    let scaled = u128::from(total) * 1_000 + u128::from(count) / 2;
    u64::try_from(scaled.checked_div(u128::from(count)).unwrap_or(0)).unwrap_or(u64::MAX)
}

/// Thousandths as a JSON number. The nearest double of a decimal prints as that decimal on every machine.
fn number(thousandths: u64) -> f64 {
    thousandths as f64 / 1_000.0
}

/// Thousandths for people.
fn decimal(thousandths: u64) -> String {
    format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
