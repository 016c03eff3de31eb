//! Shared parts of the measuring programs: amount of work, runs that must pass, wording of results.

#![allow(dead_code)] // Each program uses its part.

use corniche_simulator::{Probe, Report, Scenario, Verdict, simulate_with};
use std::time::Instant;

/// Only messages take time: 50 ms each.
pub const LOCK_STEP: &str = include_str!("../../tests/fixtures/lock-step.toml");
/// The five regions of the Mahi-Mahi thesis.
pub const FIVE_REGIONS: &str = include_str!("../../../../testnet/scenarios/wan.toml");

/// Name of a section, and the function that prints it.
pub type Section = (&'static str, fn(&Effort));

/// Amount of work.
pub struct Effort {
    pub full: bool,
    pub seeds: u64,
}

impl Effort {
    /// Virtual seconds of a run, or another amount: the quick or the full one.
    pub fn seconds(&self, quick: u64, full: u64) -> u64 {
        if self.full { full } else { quick }
    }
}

/// Runs the sections named on the command line, or by default the first `usual` of them. Arguments: `quick`, `full`,
/// `seeds=N`, sections.
pub fn run_sections(sections: &[Section], usual: usize) {
    let mut effort = Effort { full: true, seeds: 1 };
    let mut chosen = Vec::new();
    for argument in std::env::args().skip(1) {
        let seeds = argument.strip_prefix("seeds=").and_then(|seeds| seeds.parse().ok()).filter(|seeds| *seeds > 0);
        match (argument.as_str(), seeds) {
            ("quick", _) => effort.full = false,
            ("full", _) => effort.full = true,
            (_, Some(seeds)) => effort.seeds = seeds,
            (name, None) => match sections.iter().find(|(section, _)| *section == name) {
                Some(section) => chosen.push(*section),
                None => {
                    let names: Vec<_> = sections.iter().map(|(name, _)| *name).collect();
                    eprintln!("{argument}? known: quick, full, seeds=N, {}", names.join(", "));
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

/// Runs a scenario. Panics if the run violated a guarantee or lost a transaction: it is then no valid measurement.
pub fn measured(scenario: &Scenario, seed: u64, probe: Probe) -> Report {
    let report = simulate_with(scenario, seed, None, probe).expect("the scenario is complete");
    assert_eq!(report.verdict, Verdict::Pass, "{}\n{:#?}", report.text(), report.violations);
    report
}

/// Verdict on a measurement, as one word.
pub fn verdict(holds: bool) -> &'static str {
    if holds { "holds" } else { "**missed**" }
}
