//! Report of `corniche bench order`: a row for each offered rate.

use super::{Args, Counted};
use corniche_processes::ThreadTimes;
use serde_json::{Value, json};
use std::fmt::Write;

/// Results at one offered rate.
pub struct Row {
    /// Transactions per second of all validators.
    pub offered: u64,
    pub seconds: f64,
    /// By validator.
    pub counted: Vec<Counted>,
    /// Sum over all validators.
    pub threads: ThreadTimes,
}

impl Row {
    /// Mean over validators, each of which counts all transactions.
    fn ordered(&self) -> f64 {
        self.counted.iter().map(|counted| counted.ordered as f64).sum::<f64>() / self.counted.len().max(1) as f64
    }

    fn per_second(&self) -> f64 {
        self.ordered() / self.seconds
    }

    fn sum(&self, value: impl Fn(&Counted) -> u64) -> f64 {
        self.counted.iter().map(value).sum::<u64>() as f64
    }

    fn microseconds(&self) -> f64 {
        self.threads.all.as_secs_f64() * 1e6 / self.ordered().max(1.0)
    }

    /// In ms, over the quantiles of all validators; `share` in tenths of a percent.
    fn latency(&self, share: usize) -> f64 {
        let mut all: Vec<_> = self.counted.iter().flat_map(|counted| &counted.latencies).copied().collect();
        all.sort_unstable();
        let rank = (all.len() * share).div_ceil(1000).max(1) - 1;
        all.get(rank).map_or(0.0, |latency| *latency as f64 / 1e3)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        let (ordered, seconds) = (self.ordered().max(1.0), self.seconds);
        let validators = self.counted.len().max(1) as f64;
        let proposals = self.sum(|counted| counted.proposals);
        vec![
            ("offeredPerSecond", self.offered as f64),
            ("orderedPerSecond", self.per_second()),
            ("refusedPerSecond", self.sum(|counted| counted.refused) / seconds),
            ("p50Ms", self.latency(500)),
            ("p99Ms", self.latency(990)),
            ("microsecondsPerTransaction", self.microseconds()),
            ("coresUsed", self.threads.all.as_secs_f64() / seconds),
            ("proposalsPerSecond", proposals / validators / seconds),
            ("transactionsPerBatch", ordered / self.sum(|counted| counted.batches).max(1.0)),
            ("messagesPerTransaction", self.sum(|counted| counted.messages) / ordered),
            ("bytesPerTransaction", self.sum(|counted| counted.bytes) / ordered),
        ]
    }
}

pub fn json(args: &Args, rows: &[Row]) -> String {
    let table =
        |figures: Vec<(&str, f64)>| -> Value { figures.into_iter().map(|(name, value)| (name, json!(value))).collect() };
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let threads = row.threads.by_name.iter().map(|(name, time)| (name.as_str(), time.as_secs_f64())).collect();
            json!({ "figures": table(row.figures()), "threadSeconds": table(threads) })
        })
        .collect();
    let report = json!({ "engine": args.engine, "validators": args.validators, "seconds": args.seconds, "rows": rows });
    format!("{report:#}")
}

pub fn text(args: &Args, rows: &[Row]) -> String {
    let mut text = format!(
        "{} validators, {} s for each rate; us: processor time of all validators per transaction\n",
        args.validators, args.seconds
    );
    let _ = write!(
        text,
        "\n{:>9} {:>9} {:>9} {:>8} {:>8} {:>7} {:>6} {:>10} {:>9}",
        "offered/s", "ordered/s", "refused/s", "p50 ms", "p99 ms", "us", "cores", "proposals/s", "per batch"
    );
    for row in rows {
        let figures: std::collections::BTreeMap<_, _> = row.figures().into_iter().collect();
        let _ = write!(
            text,
            "\n{:>9.0} {:>9.0} {:>9.0} {:>8.1} {:>8.1} {:>7.1} {:>6.2} {:>10.1} {:>9.0}",
            figures["offeredPerSecond"],
            figures["orderedPerSecond"],
            figures["refusedPerSecond"],
            figures["p50Ms"],
            figures["p99Ms"],
            figures["microsecondsPerTransaction"],
            figures["coresUsed"],
            figures["proposalsPerSecond"],
            figures["transactionsPerBatch"]
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn figures_are_over_all_validators() {
        let counted =
            |ordered, latencies: &[u64]| Counted { ordered, latencies: latencies.to_vec(), batches: 5, ..Counted::default() };
        let row = Row {
            offered: 30,
            seconds: 10.0,
            counted: vec![counted(100, &[1_000, 2_000]), counted(300, &[3_000, 4_000])],
            threads: ThreadTimes { all: Duration::from_millis(2), ..ThreadTimes::default() },
        };
        assert_eq!((row.per_second(), row.microseconds()), (20.0, 10.0));
        assert_eq!([row.latency(500), row.latency(1000)], [2.0, 4.0]);
        assert!(row.figures().contains(&("transactionsPerBatch", 20.0)));
    }
}
