//! Basis of the default parameters: each is varied alone around the defaults, over the five regions and within one
//! room.

use crate::{
    Effort,
    experiment::{Experiment, Outcome, Protocol},
    mean,
};

const DEFAULT: Protocol = Protocol::MahiMahi { w: 4, leaders: 2 };

pub fn tables(effort: &Effort) {
    println!(
        "| n = 10, 200 tx/s | regions: mean / p99, ms | rounds/s | bytes per tx | one room: mean / p99, ms | rounds/s | bytes per tx | keys, share of a core |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for w in [4, 5] {
        for leaders in [1, 2, 3, 5, 10] {
            let protocol = Protocol::MahiMahi { w, leaders };
            row(effort, &format!("w = {w}, ℓ = {leaders}"), protocol, &|experiment| experiment);
        }
    }
    let pauses = [(0, 10), (5, 10), (10, 10), (50, 10), (100, 10), (20, 0), (20, 5), (20, 8), (20, 15), (20, 20), (20, 50)];
    for (min_round_ms, parent_grace_ms) in pauses {
        let name = format!("min_round_ms = {min_round_ms}, parent_grace_ms = {parent_grace_ms}");
        row(effort, &name, DEFAULT, &|experiment| experiment.pace(min_round_ms, parent_grace_ms));
    }
    println!();
}

fn row(effort: &Effort, name: &str, protocol: Protocol, change: &dyn Fn(Experiment) -> Experiment) {
    let seconds = effort.seconds(3, 30);
    // Rounds of one length, so that the rows differ in one parameter only.
    let change = |experiment: Experiment| change(experiment.parameter("max_stretch", 1));
    let regions = effort.run(&change(Experiment::regions(protocol, 10, &[], seconds)));
    let room = effort.run(&change(Experiment::room(protocol, seconds.div_ceil(6))));
    println!("| {name} | {} | {} | {:.1} % |", cells(&regions), cells(&room), 100.0 * mean(&room, busy));
}

fn cells(runs: &[Outcome]) -> String {
    let [mean_ms, p99_ms] = [0, 2].map(|place| mean(runs, |run| run.latency_ms()[place]));
    let (rounds, bytes) =
        (mean(runs, |run| 1_000_000.0 / run.round_us), mean(runs, |run| run.report.bytes as f64 / run.report.committed as f64));
    format!("{mean_ms:.0} / {p99_ms:.0} | {rounds:.0} | {bytes:.0}")
}

/// Share of one node's processor that the ordering keys use. Per round: one signature, one coin share, one combination,
/// and a check of each other validator's signature, at the costs of a scenario's `[cost]`.
fn busy(run: &Outcome) -> f64 {
    let per_round_us = 20.0 + 160.0 + 1_400.0 + 40.0 * (run.report.nodes as f64 - 1.0);
    per_round_us / run.round_us
}
