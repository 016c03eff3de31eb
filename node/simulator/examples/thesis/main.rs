//! Measures the figures of the Mahi-Mahi thesis' evaluation (§6.5). Prints Markdown for `docs/performance.md`.
//!
//! ```text
//! cargo run -p corniche-simulator --example thesis -- [quick|full] [lock-step|regions|adversaries|defaults]… [seeds=N]
//! ```
//! `quick` takes a minute and is rough; `full`, the default, makes the tables of the documentation. By default it runs
//! the first three sections, for which the thesis has figures or bounds. All runs use `simulate`: whole pipelines with
//! admission, execution, certificates and disks. In the sections `lock-step` and `adversaries` these take no time,
//! because the sections measure message delays and probabilities.

#![allow(clippy::print_stdout)] // The tables are the result.

mod adversaries;
#[path = "../common/mod.rs"]
mod common;
mod defaults;
mod experiment;
mod lock_step;
mod regions;

use common::{Effort, Section, verdict};
use experiment::{Experiment, Outcome};

const SECTIONS: [Section; 4] = [
    ("lock-step", lock_step::table),
    ("regions", regions::tables),
    ("adversaries", adversaries::tables),
    ("defaults", defaults::tables),
];

fn main() {
    common::run_sections(&SECTIONS, 3);
}

impl Effort {
    /// One run per seed.
    fn run(&self, experiment: &Experiment) -> Vec<Outcome> {
        (1..=self.seeds).map(|seed| experiment.clone().run(seed)).collect()
    }
}

/// Mean over runs.
fn mean(outcomes: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    outcomes.iter().map(of).sum::<f64>() / outcomes.len() as f64
}
