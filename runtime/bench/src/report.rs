//! Report of the measurements, as text and as JSON.

use super::{
    measure::{Measured, Parallel, Plan, Took},
    workloads::{Sizes, Workload},
};
use serde_json::{Value, json};
use std::{num::NonZero, thread, time::Duration};

/// All workloads of one run.
pub struct Report {
    parameters: Value,
    cores: usize,
    rows: Vec<(&'static Workload, Measured)>,
}

impl Report {
    pub fn new(seed: u64, plan: &Plan<'_>, sizes: &Sizes) -> Self {
        let parameters = json!({
            "seed": seed,
            "blockTransactions": plan.block,
            "blocks": plan.blocks,
            "repeats": plan.repeats,
            "sizes": sizes,
        });
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Self { parameters, cores, rows: Vec::new() }
    }

    pub fn add(&mut self, workload: &'static Workload, measured: Measured) {
        self.rows.push((workload, measured));
    }

    pub fn json(&self) -> String {
        let workloads: Vec<_> = self.rows.iter().map(|(workload, measured)| self.row_json(workload, measured)).collect();
        let report = json!({ "parameters": self.parameters, "cores": self.cores, "workloads": workloads });
        format!("{report:#}")
    }

    fn row_json(&self, workload: &Workload, measured: &Measured) -> Value {
        let per_block = measured.per_run();
        let executed = (measured.transactions - measured.skipped).max(1);
        let parallel: Vec<_> = measured.parallel.iter().map(|parallel| self.parallel_json(measured, parallel)).collect();
        json!({
            "name": workload.name,
            "about": workload.about,
            "transactions": measured.transactions,
            "reverted": measured.reverted,
            "skipped": measured.skipped,
            "gasPerTransaction": measured.gas / executed as u64,
            "serial": {
                "transactionsPerSecond": per_second(per_block, median_of(&measured.serial, |took| seconds(took.wall))),
                "cpuMicrosecondsPerTransaction": 1e6 * median_of(&measured.serial, |took| seconds(took.cpu)) / per_block,
            },
            "ceiling": measured.ceiling(),
            "parallel": parallel,
            // If one differs, the run ends without a report.
            "equal": true,
            "root": measured.root,
        })
    }

    fn parallel_json(&self, measured: &Measured, parallel: &Parallel) -> Value {
        let figures = Figures::new(measured, parallel);
        // With more threads than cores, times are meaningless.
        let timed = |figure: f64| (parallel.threads <= self.cores).then_some(figure);
        json!({
            "threads": parallel.threads,
            "transactionsPerSecond": timed(figures.per_second),
            "speedup": timed(figures.speedup),
            "cpuAgainstSerial": timed(figures.cpu),
            "reexecutionsPerTransaction": figures.re_executions,
            "suspensionsPerTransaction": figures.suspensions,
            "serialFallbacksPerTransaction": figures.fallbacks,
            "speculationHitRate": figures.hit_rate,
        })
    }

    pub fn text(&self) -> String {
        let head = "workload          gas/tx   reverted   serial tx/s  ceiling";
        let of_pool = "       tx/s  speedup    CPU  re-exec  suspend";
        let pools: Vec<_> = self
            .rows
            .first()
            .map(|(_, measured)| measured.parallel.iter().map(|pool| pool.threads).collect())
            .unwrap_or_default();
        let mut above = " ".repeat(head.len());
        pools.iter().for_each(|threads| {
            above += &format!(
                "  | {:<width$}",
                format!("{threads} thread{}", if *threads == 1 { "" } else { "s" }),
                width = of_pool.len() - 1
            )
        });
        let mut lines =
            vec![above.trim_end().to_owned(), format!("{head}{}      hits", format!("  |{of_pool}").repeat(pools.len()))];
        lines.extend(self.rows.iter().map(|(workload, measured)| self.row_text(workload, measured)));
        lines.push(format!(
            "speedup and CPU: medians of pairs with the serial run beside it, over {} runs; re-exec and suspend: per transaction",
            self.rows.first().map_or(0, |(_, measured)| measured.serial.len())
        ));
        lines.push(
            "ceiling: two independent serial runs at once against one alone, what two threads could be worth at that moment"
                .to_owned(),
        );
        lines.push("hits: share adopted of results recorded on the state before the block".to_owned());
        lines.push("receipts, changes and roots of all runs are equal".to_owned());
        lines.join("\n")
    }

    fn row_text(&self, workload: &Workload, measured: &Measured) -> String {
        let executed = (measured.transactions - measured.skipped).max(1);
        let mut line = format!(
            "{:<16} {:>7} {:>10} {:>13.0}",
            workload.name,
            measured.gas / executed as u64,
            measured.reverted,
            per_second(measured.per_run(), median_of(&measured.serial, |took| seconds(took.wall))),
        );
        line += &measured.ceiling().map_or(format!(" {:>8}", "-"), |ceiling| format!(" {ceiling:>7.2}x"));
        for parallel in &measured.parallel {
            let figures = Figures::new(measured, parallel);
            line += &match parallel.threads <= self.cores {
                true => format!("  | {:>10.0} {:>7.2}x {:>5.2}x", figures.per_second, figures.speedup, figures.cpu),
                false => format!("  | {:>10} {:>8} {:>6}", "-", "-", "-"),
            };
            line += &format!(" {:>8.3} {:>8.3}", figures.re_executions, figures.suspensions);
        }
        let hits = measured.parallel.iter().rev().find_map(|parallel| Figures::new(measured, parallel).hit_rate);
        line += &hits.map_or("         -".to_owned(), |rate| format!(" {:>8.1}%", 100.0 * rate));
        line
    }
}

/// Figures of the runs on one pool.
struct Figures {
    per_second: f64,
    /// Serial time divided by parallel time, median of the pairs.
    speedup: f64,
    /// Parallel CPU time divided by serial CPU time, median of the pairs.
    cpu: f64,
    re_executions: f64,
    suspensions: f64,
    fallbacks: f64,
    /// Share of offered results that were adopted; `None` if none were offered.
    hit_rate: Option<f64>,
}

impl Figures {
    fn new(measured: &Measured, parallel: &Parallel) -> Self {
        let pairs = |of: fn(&Took) -> Duration| {
            let pairs = measured.serial.iter().zip(&parallel.runs);
            median(pairs.map(|(serial, beside)| seconds(of(serial)) / seconds(of(beside)).max(f64::MIN_POSITIVE)).collect())
        };
        let statistics = &parallel.statistics;
        let each = |count: u64| count as f64 / statistics.transactions.max(1) as f64;
        let speculated = &parallel.speculated;
        Self {
            per_second: per_second(measured.per_run(), median_of(&parallel.runs, |took| seconds(took.wall))),
            speedup: pairs(|took| took.wall),
            cpu: 1.0 / pairs(|took| took.cpu),
            re_executions: each(statistics.re_executions),
            suspensions: each(statistics.suspensions),
            fallbacks: each(statistics.serial_fallbacks),
            hit_rate: (speculated.offered > 0).then(|| speculated.adopted as f64 / speculated.offered as f64),
        }
    }
}

impl Measured {
    /// Transactions per run, average over the blocks.
    fn per_run(&self) -> f64 {
        self.transactions as f64 / self.blocks.max(1) as f64
    }

    /// Number of blocks that two concurrent serial runs complete in the time of one alone, median of the
    /// pairs; `None` with one processor.
    fn ceiling(&self) -> Option<f64> {
        let pairs = self.serial.iter().zip(&self.twice);
        let figures = pairs.map(|(alone, both)| 2.0 * seconds(alone.wall) / seconds(both.wall).max(f64::MIN_POSITIVE));
        (!self.twice.is_empty()).then(|| median(figures.collect()))
    }
}

fn per_second(transactions: f64, seconds: f64) -> f64 {
    transactions / seconds.max(f64::MIN_POSITIVE)
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn median_of(runs: &[Took], figure: impl Fn(&Took) -> f64) -> f64 {
    median(runs.iter().map(figure).collect())
}

/// Median; 0 for an empty list, and the mean of the two middle values for an even count.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    match (figures.len(), figures.len() / 2) {
        (0, _) => 0.0,
        (count, middle) if count % 2 == 1 => figures[middle],
        (_, middle) => (figures[middle - 1] + figures[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(wall: u64, cpu: u64) -> Took {
        Took { wall: Duration::from_millis(wall), cpu: Duration::from_millis(cpu) }
    }

    #[test]
    fn median_is_the_middle_value() {
        assert_eq!(median(vec![]), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn ratios_compare_paired_runs() {
        let parallel = Parallel { threads: 2, runs: vec![took(50, 110), took(100, 210), took(50, 120)], ..Parallel::default() };
        let measured = Measured {
            serial: vec![took(100, 100), took(200, 200), took(90, 100)],
            twice: vec![took(100, 200), took(250, 400), took(90, 180)],
            transactions: 30,
            blocks: 3,
            ..Measured::default()
        };
        let figures = Figures::new(&measured, &parallel);
        assert_eq!((figures.speedup, figures.per_second), (2.0, 200.0));
        assert!((figures.cpu - 1.1).abs() < 1e-9, "{}", figures.cpu);
        assert_eq!(figures.hit_rate, None);
        assert_eq!(measured.ceiling(), Some(2.0));
        assert_eq!(Measured::default().ceiling(), None, "nothing ran beside the serial runs");
    }
}
