//! Counts of the faults that a run of seeded schedules drew, as a table.

use crate::{
    Jitter, Micros,
    schedule::{Outcome, Schedule, Step},
};
use std::{collections::BTreeMap, fmt};

/// Rows by name. A row that was never drawn is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    rows: BTreeMap<String, u64>,
    longest: Micros,
}

impl FaultCounts {
    pub fn add(&mut self, schedule: &Schedule, outcome: &Outcome) {
        self.count(&format!("schedules of {} validators", schedule.size), 1);
        self.count("commits", outcome.commits);
        self.count("events", outcome.events);
        self.longest = self.longest.max(outcome.ended_at);
        for double in schedule.doubles.values() {
            self.count(&format!("Byzantine: {double:?}"), 1);
        }
        self.count("validators that stay off", schedule.dead.len() as u64);
        for step in schedule.steps.values() {
            self.count(name(step), 1);
        }
        let links = &schedule.links;
        let jitter = match links.jitter {
            Jitter::None => "links without jitter",
            Jitter::Uniform(_) => "links with uniform jitter",
            Jitter::Pareto(_) => "links with Pareto jitter",
        };
        self.count(jitter, 1);
        for (row, parts) in [
            ("links that lose", links.loss),
            ("links that duplicate", links.duplication),
            ("links that reorder", links.reordering),
        ] {
            self.count(row, u64::from(parts > 0));
        }
    }

    fn count(&mut self, row: &str, count: u64) {
        if count > 0 {
            *self.rows.entry(row.to_owned()).or_default() += count;
        }
    }
}

fn name(step: &Step) -> &'static str {
    match step {
        Step::Submit(_) => "transactions",
        Step::Crash(_) => "crashes",
        Step::Restart(_, 0) => "restarts with the latest state",
        Step::Restart(..) => "restarts with an older state",
        Step::LoseDisk(_) => "disks lost",
        Step::Partition(..) => "partitions",
        Step::Heal => "partitions healed",
        Step::Loss(0) => "ends of loss",
        Step::Loss(_) => "periods of loss",
        Step::Slow(..) => "slow validators",
    }
}

impl fmt::Display for FaultCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows.iter().try_for_each(|(row, count)| writeln!(f, "{row:32} {count:>12}"))?;
        write!(f, "{:32} {:>12}", "longest schedule, virtual", self.longest.to_string())
    }
}
