//! Compares message delays with the specification.

use super::{passes, run, scenario};
use crate::Report;

/// Links of one delay; nothing else costs time.
const LOCK_STEP: &str = include_str!("../../tests/fixtures/lock-step.toml");
const LOAD: &str = "[load]\nrate = 500\ntx_bytes = 128\n";

/// C(n, k)
fn choose(n: u64, k: u64) -> f64 {
    (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
}

/// §9.3 of the specification: mean block-to-commit delay of ten validators, `crashed` of them crashed.
fn expected_delays(w: u64, leaders: u64, crashed: u64) -> f64 {
    let (w, share) = (w as f64, leaders as f64 / 10.0);
    if crashed == 0 {
        return w + 1.0 - share;
    }
    let all_crashed = choose(crashed, leaders) / choose(10, leaders);
    share * w + (1.0 - share) * (w + 1.0 / (1.0 - all_crashed))
}

fn lock_step(w: u64, leaders: u64, crashed: u64, seconds: u64) -> Report {
    // All messages of a round arrive at one instant; if only a quorum is up, its last message is also the last of the
    // round.
    let grace = if crashed == 0 { 5 } else { 0 };
    let dead = if crashed == 0 { "" } else { "[[fault]]\nkind = \"crash\"\nat = \"0s\"\nnodes = [2, 5, 8]\n" };
    let config =
        format!("[engine_config]\nwave_length = {w}\nleaders = {leaders}\nmin_round_ms = 0\nparent_grace_ms = {grace}\n");
    run(&scenario(10, &format!("duration = \"{seconds}s\"\n{config}{LOCK_STEP}{LOAD}{dead}")), 7)
}

#[test]
fn lock_step_delays_match_specification() {
    for (w, leaders, crashed, seconds) in [(4, 2, 0, 10), (5, 1, 0, 10), (4, 3, 3, 20), (5, 2, 3, 20)] {
        within_the_bars(w, leaders, crashed, seconds);
    }
}

#[test]
#[ignore = "minutes; part of make soak"]
fn lock_step_delays_match_in_every_case() {
    for (w, leaders) in [4, 5].into_iter().flat_map(|w| [1, 2, 3].map(|leaders| (w, leaders))) {
        within_the_bars(w, leaders, 0, 30);
        within_the_bars(w, leaders, 3, 180);
    }
}

fn within_the_bars(w: u64, leaders: u64, crashed: u64, seconds: u64) {
    let report = lock_step(w, leaders, crashed, seconds);
    passes(&report);
    let mean = report.commit.expect("something was committed").mean as f64 / 50_000.0;
    let expected = expected_delays(w, leaders, crashed);
    println!("w = {w}, {leaders} leaders, {crashed} crashed: {mean:.3} delays, expected {expected:.3}");
    assert!(
        (mean - expected).abs() <= 0.05,
        "w = {w}, {leaders} leaders, {crashed} crashed: {mean:.3} delays, expected {expected:.3}"
    );
}
