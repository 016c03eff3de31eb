//! Autobahn's paper (§6.1): what the fast path and optimistic tips are worth (E2, E3), and that committees may grow (E4).

use crate::{
    common::{Effort, verdict},
    setting::{Engine, Setting, mean_ms},
};

/// What is on.
#[derive(Clone, Copy)]
struct Mode {
    name: &'static str,
    fast: bool,
    optimistic: bool,
    all_to_all: bool,
    /// The specification's §5.2, ms, as far as it has it.
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
/// Enough that no lane of twenty ever waits for a transaction: a car leaves whenever the one before is certified.
const E4_RATE: f64 = 3_000.0;

impl Mode {
    fn apply(self, setting: Setting) -> Setting {
        setting
            .parameter("fast_path", self.fast.into())
            .parameter("optimistic_tips", self.optimistic.into())
            .parameter("leader_tips", self.optimistic.into())
            .parameter("all_to_all", self.all_to_all.into())
    }

    /// Each transaction alone in the network, once for every origin and leader: no waiting for anything but messages. Mean, ms.
    fn alone(self, nodes: usize) -> f64 {
        let runs = (0..nodes).map(|first_node| {
            let setting = self.apply(Setting::four_regions(Engine::Autobahn, nodes)).frictionless();
            let setting = setting.parameter("coverage", 1).parameter("availability_wait_ms", 0);
            let mut setting = setting.rate(0.2).seconds(5 * nodes as u64);
            // Transaction i is of client i + first_node, and slot i + 1 orders it.
            setting.0.load.first_node = first_node;
            setting.run(1)
        });
        mean_ms(&runs.collect::<Vec<_>>())
    }

    /// Under load, as the engine comes. Mean, ms.
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
        let found = [4, 12, 20].map(|nodes| MODES[0].loaded(effort, nodes, E4_RATE, setting));
        let ratio = found.iter().copied().fold(0.0, f64::max) / found.iter().copied().fold(f64::MAX, f64::min);
        let [four, twelve, twenty] = found;
        println!("| {name} | {four:.1} | {twelve:.1} | {twenty:.1} | {ratio:.3} | {} |", verdict(ratio <= 1.02));
    }
    println!();
}

fn print_row(name: &str, [model, alone, frictionless, loaded]: [f64; 4], has_bar: bool) {
    let ratio = alone / model;
    let remark = if has_bar { verdict((ratio - 1.0).abs() <= BAR) } else { "" };
    println!("| {name} | {model:.1} | {alone:.1} | {ratio:.3} {remark} | {frictionless:.1} | {loaded:.1} |");
}

/// From arrival at a validator to its commit there: the mean over origins and leaders, one validator in each region, when nothing takes
/// time but messages. §5.2 of the specification.
fn model_ms(mode: Mode) -> f64 {
    let network = Setting::four_regions(Engine::Autobahn, 4).0.network;
    let one_way = |from: usize, to: usize| if from == to { 0.0 } else { network.one_way_us(from, to) as f64 / 1_000.0 };
    // The k-th smallest.
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
            // When the votes of k reach a validator.
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
