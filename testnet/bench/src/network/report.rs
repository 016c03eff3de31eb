//! Report of a run, as text and as JSON.

use corniche_processes::{LoadReport, Metrics, ThreadTimes};
use serde_json::{Value, json};
use std::{fmt::Write, time::Duration};

/// Measured sums of one run. All counts are of all validators together.
pub struct Report {
    pub engine: String,
    pub load: LoadReport,
    /// Time of one public-key recovery.
    pub recovery: Duration,
    pub validators: usize,
    pub threads: ThreadTimes,
    pub metrics: Metrics,
    /// Time that this machine's processors ran other machines.
    pub steal: Duration,
    /// Peak memory of the largest validator.
    pub peak_mib: u64,
}

/// Threads by what they do. A name that is not here is a stage of its own.
const STAGES: &[(&str, &[&str])] = &[
    ("ordering: pool, engine, certificates", &["pipeline"]),
    ("sockets: RPC, peers, users' signatures", &["socket", "tokio-rt-worker", "tokio-runtime-w"]),
    ("checks of peers' messages", &["verify", "verify-shared", "verify-guests", "verify-certific"]),
    ("execution", &["execution", "execute"]),
    ("hashing of blocks", &["sealing"]),
    ("disk", &["writer", "store-trace", "store-checkpoin", "journal"]),
];

impl Report {
    fn per_transfer(&self, amount: f64) -> f64 {
        amount / self.load.executed.max(1) as f64
    }

    fn microseconds(&self, time: Duration) -> f64 {
        self.per_transfer(time.as_secs_f64() * 1e6)
    }

    /// Per validator and second.
    fn per_second(&self, metric: &str) -> f64 {
        self.metrics.get(metric) / self.validators as f64 / self.load.seconds.max(f64::EPSILON)
    }

    /// Processor time of all validators per transfer, in public-key recoveries.
    fn recoveries(&self) -> f64 {
        self.microseconds(self.threads.all) / (self.recovery.as_secs_f64() * 1e6)
    }

    /// Transactions in the proposals that have any.
    fn transfers_per_batch(&self) -> f64 {
        self.load.executed as f64 / self.metrics.get("corniche_proposed_batches_total").max(1.0)
    }

    /// Name and microseconds per transfer, the largest first.
    fn stages(&self) -> Vec<(&str, f64)> {
        let stage = |name: &str| STAGES.iter().find(|(_, threads)| threads.contains(&name)).map(|(stage, _)| *stage);
        let mut stages: Vec<(&str, f64)> = Vec::new();
        for (name, time) in &self.threads.by_name {
            let stage = stage(name).unwrap_or(name);
            match stages.iter_mut().find(|(known, _)| *known == stage) {
                Some((_, sum)) => *sum += self.microseconds(*time),
                None => stages.push((stage, self.microseconds(*time))),
            }
        }
        stages.sort_by(|a, b| b.1.total_cmp(&a.1));
        stages
    }

    /// Time of threads that started or ended during the run is only in the sum.
    fn threads(&self) -> Vec<(&str, f64)> {
        let mut threads: Vec<_> =
            self.threads.by_name.iter().map(|(name, time)| (name.as_str(), self.microseconds(*time))).collect();
        threads.sort_by(|a, b| b.1.total_cmp(&a.1));
        threads
    }

    /// The figures that two binaries are compared by.
    fn figures(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("transfersPerSecond", self.load.transfers_per_second),
            ("p50Ms", self.load.latency_ms.p50),
            ("p99Ms", self.load.latency_ms.p99),
            ("p99.9Ms", self.load.latency_ms.p999),
            ("microsecondsPerTransfer", self.microseconds(self.threads.all)),
            ("U", self.recoveries()),
            ("proposalsPerSecond", self.per_second("corniche_proposals_total")),
            ("blocksPerSecond", self.per_second("corniche_head_height")),
            ("transfersPerBatch", self.transfers_per_batch()),
            ("messagesPerTransfer", self.per_transfer(self.metrics.get("corniche_peer_messages_sent_total"))),
            ("bytesPerTransfer", self.per_transfer(self.metrics.get("corniche_peer_bytes_sent_total"))),
            ("recoveriesPerTransfer", self.per_transfer(self.metrics.get("corniche_signatures_recovered_total"))),
            ("peakMebibytes", self.peak_mib as f64),
        ]
    }

    pub fn json(&self) -> Value {
        let figures: Value = self.figures().into_iter().map(|(name, value)| (name, json!(value))).collect();
        let table = |rows: Vec<(&str, f64)>| -> Value { rows.into_iter().map(|(name, time)| (name, json!(time))).collect() };
        json!({
            "engine": self.engine,
            "figures": figures,
            "stages": table(self.stages()),
            "threads": table(self.threads()),
            "load": self.load,
            "recoveryMicroseconds": self.recovery.as_secs_f64() * 1e6,
            "stealSeconds": self.steal.as_secs_f64(),
            "build": build(),
        })
    }

    pub fn text(&self) -> String {
        let mut text = format!("engine                        {}", self.engine);
        let _ = write!(text, "\nexecuted                      {} of {}", self.load.executed, self.load.count);
        for (name, value) in self.figures() {
            let _ = write!(text, "\n{name:<28}  {}", number(value));
        }
        let _ = write!(text, "\none public-key recovery       {:.1} us", self.recovery.as_secs_f64() * 1e6);
        let _ = write!(
            text,
            "\nload generator                {:.0} us per transfer",
            self.load.generator_microseconds_per_transfer
        );
        let _ = write!(text, "\nsteal time                    {:.1} s", self.steal.as_secs_f64());
        let _ = write!(text, "\nbuild of this program         {}", build());
        text.push_str("\n\nus per transfer, all validators together, by stage:");
        self.stages().iter().for_each(|(name, time)| _ = write!(text, "\n{time:>9.1}  {name}"));
        text.push_str("\nby thread:");
        self.threads().iter().for_each(|(name, time)| _ = write!(text, "\n{time:>9.1}  {name}"));
        text
    }
}

fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn build() -> &'static str {
    if cfg!(debug_assertions) { "development" } else { "release" }
}

/// Each figure's mean over `new`, divided by that over `old`.
pub fn ratios(new: &[Report], old: &[Report]) -> Vec<(&'static str, f64)> {
    let mean = |reports: &[Report], index: usize| {
        reports.iter().map(|report| report.figures()[index].1).sum::<f64>() / reports.len().max(1) as f64
    };
    let names = new.first().map(Report::figures).unwrap_or_default();
    names.iter().enumerate().map(|(index, (name, _))| (*name, mean(new, index) / mean(old, index))).collect()
}
