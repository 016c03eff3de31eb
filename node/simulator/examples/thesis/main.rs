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
mod defaults;
mod experiment;
mod lock_step;
mod regions;

use experiment::{Experiment, Outcome};
use std::time::Instant;

/// A section's name and what prints it.
type Section = (&'static str, fn(&Effort));

const SECTIONS: [Section; 4] = [
    ("lock-step", lock_step::table),
    ("regions", regions::tables),
    ("adversaries", adversaries::tables),
    ("defaults", defaults::tables),
];

/// How much to run.
struct Effort {
    full: bool,
    seeds: u64,
}

impl Effort {
    /// Virtual seconds of a run.
    fn seconds(&self, quick: u64, full: u64) -> u64 {
        if self.full { full } else { quick }
    }

    /// One run for each seed.
    fn run(&self, experiment: &Experiment) -> Vec<Outcome> {
        (1..=self.seeds).map(|seed| experiment.clone().run(seed)).collect()
    }
}

/// The mean over runs.
fn mean(outcomes: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    outcomes.iter().map(of).sum::<f64>() / outcomes.len() as f64
}

fn main() {
    let mut effort = Effort { full: true, seeds: 1 };
    let mut chosen = Vec::new();
    for word in std::env::args().skip(1) {
        let seeds = word.strip_prefix("seeds=").and_then(|seeds| seeds.parse().ok()).filter(|seeds| *seeds > 0);
        match (word.as_str(), seeds) {
            ("quick", _) => effort.full = false,
            ("full", _) => effort.full = true,
            (_, Some(seeds)) => effort.seeds = seeds,
            (name, None) => match SECTIONS.iter().find(|(section, _)| *section == name) {
                Some(section) => chosen.push(*section),
                None => {
                    eprintln!("{word}? known: quick, full, seeds=N, lock-step, regions, adversaries, defaults");
                    std::process::exit(2);
                }
            },
        }
    }
    if chosen.is_empty() {
        chosen.extend_from_slice(&SECTIONS[..3]);
    }
    for (name, section) in chosen {
        let started = Instant::now();
        section(&effort);
        eprintln!("{name}: {:.0} s", started.elapsed().as_secs_f64());
    }
}

/// Whether a measurement is where it should be, in a word.
fn verdict(holds: bool) -> &'static str {
    if holds { "holds" } else { "**missed**" }
}
