//! Autobahn's paper (§6.1): the value of the fast path and of optimistic tips (E2, E3), and growing committees (E4).

use crate::{
    common::{Effort, verdict},
    setting::{Engine, Setting, alone, mean_ms},
};

/// Enabled features.
#[derive(Clone, Copy)]
struct Mode {
    name: &'static str,
    fast: bool,
    optimistic: bool,
    all_to_all: bool,
    /// Value in §5.2 of the specification, ms, if it has one.
    written_ms: f64,
}

const MODES: [Mode; 6] = [
    Mode { name: "optimistic tips, fast path", fast: true, optimistic: true, all_to_all: false, written_ms: 94.6 },
    Mode { name: "optimistic tips, slow path", fast: false, optimistic: true, all_to_all: false, written_ms: 139.1 },
    Mode { name: "certified tips, fast path", fast: true, optimistic: false, all_to_all: false, written_ms: 118.1 },
    Mode { name: "certified tips, slow path", fast: false, optimistic: false, all_to_all: false, written_ms: 162.6 },
    Mode { name: "all to all, optimistic, fast", fast: true, optimistic: true, all_to_all: true, written_ms: 67.9 },
    Mode { name: "all to all, optimistic, slow", fast: false, optimistic: true, all_to_all: true, written_ms: 89.5 },
];

const BAR: f64 = 0.10;
/// High enough that no lane of twenty ever waits for a transaction: a car is sent whenever the previous one is
/// certified.
const E4_RATE: f64 = 3_000.0;

const E4_NODES: [usize; 3] = [4, 12, 20];
const E4_BAR: f64 = 1.02;

impl Mode {
    fn apply(self, setting: Setting) -> Setting {
        setting
            .parameter("fast_path", self.fast.into())
            .parameter("optimistic_tips", self.optimistic.into())
            .parameter("leader_tips", self.optimistic.into())
            .parameter("all_to_all", self.all_to_all.into())
            // The time between cars depends on the load of each lane, and so on the number of lanes.
            .parameter("max_stretch", 1)
    }

    /// Mean latency if each transaction is alone in the network, ms.
    fn alone(self, nodes: usize) -> f64 {
        alone(&self.apply(Setting::four_regions(Engine::Autobahn, nodes)).frictionless(), nodes)
    }

    /// Mean latency under load with the engine's defaults, except for `max_stretch`, ms.
    fn loaded(self, effort: &Effort, nodes: usize, rate: f64, setting: fn(Setting) -> Setting) -> f64 {
        let seconds = effort.seconds(5, 30);
        let setting = setting(self.apply(Setting::four_regions(Engine::Autobahn, nodes))).rate(rate).seconds(seconds);
        mean_ms(&(1..=effort.seeds).map(|seed| setting.run(seed)).collect::<Vec<_>>())
    }
}

pub fn table(effort: &Effort) {
    println!(
        "| E2, E3: four regions, n = 4, ms | model | each transaction alone | ratio | 1,000 tx/s, frictionless | 1,000 tx/s |"
    );
    println!("|---|---|---|---|---|---|");
    let mut rows = Vec::new();
    for mode in MODES {
        let model = model_ms(mode);
        assert!((model - mode.written_ms).abs() < 0.1, "{}: {model} is not what the specification derives", mode.name);
        let row = [
            model,
            mode.alone(4),
            mode.loaded(effort, 4, 1_000.0, Setting::frictionless),
            mode.loaded(effort, 4, 1_000.0, |it| it),
        ];
        print_row(mode.name, row, false);
        rows.push(row);
    }
    let less = |one: usize, other: usize| [0, 1, 2, 3].map(|place| rows[one][place] - rows[other][place]);
    print_row("E2: slow less fast (paper: 40)", less(1, 0), true);
    print_row("E3: certified less optimistic (paper: 33)", less(2, 0), true);
    println!();
    println!("| E4: mean ms of 3,000 tx/s over n validators | n = 4 | n = 12 | n = 20 | largest / smallest | |");
    println!("|---|---|---|---|---|---|");
    for (name, setting) in
        [("frictionless", Setting::frictionless as fn(Setting) -> Setting), ("with processors, disks and jitter", |it| it)]
    {
        let found = E4_NODES.map(|nodes| MODES[0].loaded(effort, nodes, E4_RATE, setting));
        let ratio = spread(found);
        let [four, twelve, twenty] = found;
        println!("| {name} | {four:.1} | {twelve:.1} | {twenty:.1} | {ratio:.3} | {} |", verdict(ratio <= E4_BAR));
    }
    println!();
}

/// Ratio of the largest to the smallest value.
fn spread(values: [f64; 3]) -> f64 {
    values.into_iter().fold(0.0, f64::max) / values.into_iter().fold(f64::MAX, f64::min)
}

fn print_row(name: &str, [model, alone, frictionless, loaded]: [f64; 4], has_bar: bool) {
    let ratio = alone / model;
    let remark = if has_bar { verdict((ratio - 1.0).abs() <= BAR) } else { "" };
    println!("| {name} | {model:.1} | {alone:.1} | {ratio:.3} {remark} | {frictionless:.1} | {loaded:.1} |");
}

/// Time from arrival at a validator to its commit there: the mean over origins and leaders, one validator per region,
/// if only messages take time. Source: §5.2 of the specification.
fn model_ms(mode: Mode) -> f64 {
    let network = Setting::four_regions(Engine::Autobahn, 4).0.network;
    let one_way = |from: usize, to: usize| if from == to { 0.0 } else { network.one_way_us(from, to) as f64 / 1_000.0 };
    // The k-th smallest value.
    let nth = |mut times: [f64; 4], k: usize| {
        times.sort_by(f64::total_cmp);
        times[k - 1]
    };
    let all = [0, 1, 2, 3];
    let (quorum, everybody, validity) = (3, 4, 2);
    let mut sum = 0.0;
    for (origin, leader) in all.into_iter().flat_map(|origin| all.map(|leader| (origin, leader))) {
        let round_trip = |of: usize, k: usize| nth(all.map(|other| one_way(of, other) + one_way(other, of)), k);
        let certified = if mode.optimistic { 0.0 } else { round_trip(origin, validity) };
        let agreement = if mode.all_to_all {
            // Time at which the votes of k validators reach a validator.
            let votes = |at: usize, k| nth(all.map(|voter| one_way(leader, voter) + one_way(voter, at)), k);
            if mode.fast {
                votes(origin, everybody)
            } else {
                nth(all.map(|voter| votes(voter, quorum) + one_way(voter, origin)), quorum)
            }
        } else {
            let votes = if mode.fast { round_trip(leader, everybody) } else { 2.0 * round_trip(leader, quorum) };
            votes + one_way(leader, origin)
        };
        sum += certified + one_way(origin, leader) + agreement;
    }
    sum / 16.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_transaction_latency_matches_paper() {
        let alone = MODES.map(|mode| mode.alone(4));
        for (mode, found) in MODES.into_iter().zip(alone) {
            println!("{}: {found:.1} ms, {:.1} expected", mode.name, mode.written_ms);
            assert!((model_ms(mode) - mode.written_ms).abs() < 0.1, "{}: the model is not the specification's", mode.name);
            assert!((found / mode.written_ms - 1.0).abs() <= BAR, "{}: {found:.1} ms", mode.name);
        }
        for (name, [one, other]) in [("E2", [1, 0]), ("E3", [2, 0])] {
            let expected = MODES[one].written_ms - MODES[other].written_ms;
            let found = alone[one] - alone[other];
            println!("{name}: {found:.1} ms, {expected:.1} expected");
            assert!((found / expected - 1.0).abs() <= BAR, "{name}: {found:.1} ms, {expected:.1} expected");
        }
    }

    /// §5.2 of the specification: to the leader, and back to the origin. A leader's own transaction skips the way to
    /// the leader, and is committed one delay before all other validators learn of it.
    #[test]
    fn message_delays_match_table() {
        let delays = [[4, 2], [6, 4], [6, 4], [8, 6], [3, 2], [4, 3]];
        for (mode, [others, own]) in MODES.into_iter().zip(delays) {
            let expected_ms = f64::from(3 * others + own) / 4.0 * 50.0;
            let found = alone(&mode.apply(Setting::lock_step(Engine::Autobahn, 4)), 4);
            println!("{}: {found:.3} ms, {expected_ms:.3} expected", mode.name);
            // The remainder is the transmission time of the bytes.
            assert!((found - expected_ms).abs() < 0.1, "{}: {found} ms, {expected_ms} expected", mode.name);
        }
    }

    #[test]
    fn latency_is_independent_of_committee_size() {
        let effort = Effort { full: false, seeds: 1 };
        let found = E4_NODES.map(|nodes| MODES[0].loaded(&effort, nodes, E4_RATE, Setting::frictionless));
        println!("E4: {found:.1?} ms of n = {E4_NODES:?}");
        assert!(spread(found) <= E4_BAR, "E4: {found:.1?} ms");
    }
}
