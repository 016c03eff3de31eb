//! The figures of the Mahi-Mahi thesis' evaluation (§6.5), measured here: Markdown for `docs/performance.md` on standard output.
//!
//! ```text
//! cargo run -p corniche-simulator --example thesis -- [quick|full] [lock-step|regions|adversaries|defaults]… [seeds=N]
//! ```
//! `quick` takes a minute and is rough; `full`, the default, makes the tables of the documentation. Without a section it runs the first
//! three, which the thesis has figures or bounds for. Everything runs through `simulate`: whole pipelines with admission, execution,
//! certificates and disks. Sections `lock-step` and `adversaries` give these no time of their own, since they ask for message
//! delays and probabilities.

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
    /// One run for each seed.
    fn run(&self, experiment: &Experiment) -> Vec<Outcome> {
        (1..=self.seeds).map(|seed| experiment.clone().run(seed)).collect()
    }
}

/// The mean over runs.
fn mean(outcomes: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    outcomes.iter().map(of).sum::<f64>() / outcomes.len() as f64
}
