//! Baxos' back-off (equation 3.1): proposers that start at the same time.

use crate::{
    common::Effort,
    setting::{Engine, Setting},
    view_changes::BAXOS_SITES,
};
use corniche_simulator::{Report, Spread};

const NODES: usize = 5;
const PROPOSERS: [u64; 4] = [1, 2, 3, 5];
/// All proposers start within this time, µs. Times of round trips are known by then.
const START_US: u64 = 6_000_000;
const BURST_US: u64 = 1_000;
/// Longest round trip of the regions, ms: the engine's estimate before it measures.
const RTT_MAX_MS: u64 = 262;
/// Exponents from which a proposer is hardly ever refused.
const MAX_EXPONENT: i32 = 30;

/// One transaction at each of this many validators, at the same time. The seed also selects the first of them.
fn burst(proposers: u64, nack: u64, seed: u64) -> Report {
    let setting = Setting::sites(&BAXOS_SITES, Engine::Baxos).seconds(8);
    let mut setting = setting.parameter("rtt_ms", RTT_MAX_MS).parameter("nack", nack);
    let load = &mut setting.0.load;
    (load.start_us, load.stop_us) = (START_US, START_US + BURST_US);
    load.millirate = proposers * 1_000_000_000 / BURST_US;
    load.first_node = seed as usize % NODES;
    setting.run(seed)
}

/// Equation 3.1: the probability that a proposer with exponent l has a window for itself among p.
fn success(exponent: i32, proposers: u64) -> f64 {
    match (exponent, proposers) {
        (_, 1) => 1.0,
        (0, _) => 0.0,
        _ => (1.0 - 0.5f64.powi(exponent - 1)).powi(proposers as i32 - 1),
    }
}

/// Expected back-offs of a proposer whose exponent starts at 0, and their total length in RTT_max: k · 2^l · 2 with a mean k of 1/2.
fn expected(proposers: u64) -> (f64, f64) {
    let (mut still, mut backoffs, mut length) = (1.0, 0.0, 0.0);
    for exponent in 0..MAX_EXPONENT {
        still *= 1.0 - success(exponent, proposers);
        backoffs += still;
        length += still * 2f64.powi(exponent + 1);
    }
    (backoffs, length)
}

fn cell(reports: &[Report]) -> String {
    let mut all: Vec<_> = reports.iter().flat_map(|report| &report.transactions).map(|it| it.latency_us).collect();
    let spread = Spread::of(&mut all).expect("everything is committed");
    let last = |report: &Report| report.transactions.iter().map(|it| it.latency_us).max().unwrap_or(0) as f64;
    let last = reports.iter().map(last).sum::<f64>() / reports.len() as f64;
    let messages = reports.iter().map(|report| report.ordering.messages as f64).sum::<f64>() / reports.len() as f64;
    format!("{:.0} / {:.0} | {:.0} | {messages:.0}", spread.mean as f64 / 1_000.0, spread.p99 as f64 / 1_000.0, last / 1_000.0)
}

pub fn table(effort: &Effort) {
    println!(
        "| Baxos: proposers at the same time | equation 3.1: back-offs | their length, RTT_max | no refusals, as in the paper: mean / p99, ms | last of them | messages | refusals: mean / p99, ms | last of them | messages |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let seeds = effort.seconds(10, 20);
    for proposers in PROPOSERS {
        let (backoffs, length) = expected(proposers);
        let run = |nack| cell(&(1..=seeds).map(|seed| burst(proposers, nack, seed)).collect::<Vec<_>>());
        println!("| {proposers} | {backoffs:.2} | {length:.1} | {} | {} |", run(0), run(1));
    }
    println!();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the specification for five proposers.
    #[test]
    fn probabilities_are_those_of_the_thesis() {
        for (exponent, expected) in [(2, 0.06), (3, 0.32), (4, 0.59), (5, 0.77), (6, 0.88)] {
            let probability = success(exponent, 5);
            assert!((probability - expected).abs() < 0.005, "exponent {exponent}: {probability}");
        }
        assert_eq!(expected(1), (0.0, 0.0), "a proposer without others needs no back-off");
        assert!(expected(2).0 < expected(3).0 && expected(3).0 < expected(5).0);
    }

    #[test]
    fn all_proposers_of_a_burst_commit() {
        assert_eq!(burst(5, 0, 1).committed, 5);
    }
}
