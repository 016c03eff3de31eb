//! What came of a run, and its JSON.

use serde::Serialize;

/// What came of a run. Times are µs; the JSON's fractions are rounded to thousandths from these integers, so the same run gives
/// the same text on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub engine: String,
    pub nodes: usize,
    pub seed: u64,
    /// Virtual time that passed, µs.
    pub virtual_us: u64,
    /// Transactions that a node accepted.
    pub submitted: u64,
    /// Of these, those that are committed at the node they were submitted to.
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
    /// One entry for each second of the run, the last may be a part.
    pub timeline: Vec<Second>,
    pub verdict: Verdict,
    /// Every broken promise, one sentence each. The JSON has their number.
    pub violations: Vec<String>,
    /// Longest time without a commit while a quorum was up and connected, µs.
    pub stalled_us: u64,
    /// SHA-256 over the transaction hashes in committed order, shortest honest prefix.
    pub digest: [u8; 32],
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No promise was broken and everything accepted was committed.
    Pass,
    /// No promise was broken, but the network stood still or left accepted transactions uncommitted.
    NoProgress,
    /// A safety promise was broken.
    Diverged,
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

/// One second of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Second {
    /// Counted from 0.
    pub second: u64,
    /// Transactions committed at their submitter's node in this second.
    pub committed: u64,
    /// Of their latencies, µs.
    pub p50_us: Option<u64>,
    pub max_us: Option<u64>,
}
