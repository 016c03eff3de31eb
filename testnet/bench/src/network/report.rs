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

/// Thread names by stage. Another name is a stage of its own.
const STAGES: &[(&str, &[&str])] = &[
    ("ordering: pool, engine, certificates", &["pipeline"]),
    ("sockets: RPC, peers, users' signatures", &["socket"]),
    ("checks of peers' messages", &["verify", "verify-shared", "verify-guests", "verify-certific"]),
    ("execution", &["execution", "execute"]),
    ("hashing of blocks", &["sealing"]),
    ("disk", &["writer", "store-trace", "store-checkpoin"]),
];

impl Report {
    fn per_transfer(&self, amount: f64) -> f64 {
        amount / self.load.executed.max(1) as f64
    }

    fn microseconds(&self, time: Duration) -> f64 {
        self.per_transfer(time.as_secs_f64() * 1e6)
    }

    /// Increase of a metric of all validators. `None`: the binary has no such metric.
    fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.get(&format!("corniche_{name}"))
    }

    /// Per validator and second.
    fn per_second(&self, metric: &str) -> Option<f64> {
        Some(self.metric(metric)? / self.validators as f64 / self.load.seconds.max(f64::EPSILON))
    }

    /// Processor time of all validators per transfer, in public-key recoveries.
    fn recoveries(&self) -> f64 {
        self.microseconds(self.threads.all) / (self.recovery.as_secs_f64() * 1e6)
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
        let listed: f64 = stages.iter().map(|(_, time)| time).sum();
        stages.push(("threads that ended", (self.microseconds(self.threads.all) - listed).max(0.0)));
        stages.sort_by(|a, b| b.1.total_cmp(&a.1));
        stages
    }

    /// By name. A thread that has ended counts only in the total.
    fn threads(&self) -> Vec<(&str, f64)> {
        let mut threads: Vec<_> =
            self.threads.by_name.iter().map(|(name, time)| (name.as_str(), self.microseconds(*time))).collect();
        threads.sort_by(|a, b| b.1.total_cmp(&a.1));
        threads
    }

    /// Figures that two binaries are compared by. Those that the binary does not count are missing.
    fn figures(&self) -> Vec<(&'static str, f64)> {
        let per_transfer = |metric| self.metric(metric).map(|amount| self.per_transfer(amount));
        let batches = self.metric("proposed_batches_total");
        let figures = [
            ("transfersPerSecond", Some(self.load.transfers_per_second)),
            ("p50Ms", Some(self.load.latency_ms.p50)),
            ("p99Ms", Some(self.load.latency_ms.p99)),
            ("p99.9Ms", Some(self.load.latency_ms.p999)),
            ("microsecondsPerTransfer", Some(self.microseconds(self.threads.all))),
            ("U", Some(self.recoveries())),
            ("proposalsPerSecond", self.per_second("proposals_total")),
            ("blocksPerSecond", self.per_second("head_height")),
            ("transfersPerBatch", batches.map(|batches| self.load.executed as f64 / batches.max(1.0))),
            ("messagesPerTransfer", per_transfer("peer_messages_sent_total")),
            ("bytesPerTransfer", per_transfer("peer_bytes_sent_total")),
            ("recoveriesPerTransfer", per_transfer("signatures_recovered_total")),
            ("peakMebibytes", Some(self.peak_mib as f64)),
        ];
        figures.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
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

/// Each figure's mean over `new`, divided by that over `old`. Figures that one of them does not count are missing.
pub fn ratios(new: &[Report], old: &[Report]) -> Vec<(&'static str, f64)> {
    let mean = |reports: &[Report], name: &str| {
        let figures = |report: &Report| report.figures().into_iter().find(|(figure, _)| *figure == name);
        let values: Option<Vec<_>> = reports.iter().map(|report| Some(figures(report)?.1)).collect();
        values.map(|values| values.iter().sum::<f64>() / values.len().max(1) as f64)
    };
    let names = new.first().map(Report::figures).unwrap_or_default();
    names.into_iter().filter_map(|(name, _)| Some((name, mean(new, name)? / mean(old, name)?))).collect()
}
