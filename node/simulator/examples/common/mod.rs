//! What the programs that measure share: how much to run, runs that must pass, words for results.

#![allow(dead_code)] // Each program uses its part.

use corniche_simulator::{Probe, Report, Scenario, Verdict, simulate_with};
use std::time::Instant;

/// Nothing takes time but a message: one of 50 ms.
pub const LOCK_STEP: &str = include_str!("../../tests/fixtures/lock-step.toml");
/// The Mahi-Mahi thesis' five regions.
pub const FIVE_REGIONS: &str = include_str!("../../../../testnet/scenarios/wan.toml");

/// A section's name and what prints it.
pub type Section = (&'static str, fn(&Effort));

/// How much to run.
pub struct Effort {
    pub full: bool,
    pub seeds: u64,
}

impl Effort {
    /// Virtual seconds of a run, or another amount.
    pub fn seconds(&self, quick: u64, full: u64) -> u64 {
        if self.full { full } else { quick }
    }
}

/// Runs the sections that the command line names, or the first `usual` of them. Words: `quick`, `full`, `seeds=N`, sections.
pub fn run_sections(sections: &[Section], usual: usize) {
    let mut effort = Effort { full: true, seeds: 1 };
    let mut chosen = Vec::new();
    for word in std::env::args().skip(1) {
        let seeds = word.strip_prefix("seeds=").and_then(|seeds| seeds.parse().ok()).filter(|seeds| *seeds > 0);
        match (word.as_str(), seeds) {
            ("quick", _) => effort.full = false,
            ("full", _) => effort.full = true,
            (_, Some(seeds)) => effort.seeds = seeds,
            (name, None) => match sections.iter().find(|(section, _)| *section == name) {
                Some(section) => chosen.push(*section),
                None => {
                    let names: Vec<_> = sections.iter().map(|(name, _)| *name).collect();
                    eprintln!("{word}? known: quick, full, seeds=N, {}", names.join(", "));
                    std::process::exit(2);
                }
            },
        }
    }
    if chosen.is_empty() {
        chosen.extend_from_slice(&sections[..usual]);
    }
    for (name, section) in chosen {
        let started = Instant::now();
        section(&effort);
        eprintln!("{name}: {:.0} s", started.elapsed().as_secs_f64());
    }
}

/// Runs a scenario. A run that broke a promise or lost a transaction is no measurement, and panics.
pub fn measured(scenario: &Scenario, seed: u64, probe: Probe) -> Report {
    let report = simulate_with(scenario, seed, None, probe).expect("the scenario is complete");
    assert_eq!(report.verdict, Verdict::Pass, "{}\n{:#?}", report.text(), report.violations);
    report
}

/// Whether a measurement is where it should be, in a word.
pub fn verdict(holds: bool) -> &'static str {
    if holds { "holds" } else { "**missed**" }
}
