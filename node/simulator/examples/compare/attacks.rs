//! Attacks on the network in the papers of SADL-RACS (figure 4.7) and QuePaxa (figure 5.8): all that a minority sends takes 500 ms
//! longer, and the minority changes every 5 s. And an attacker that knows the leaders. See also [`view_changes`].

use crate::{
    common::Effort,
    contention,
    setting::{ALL, Engine, Setting, Sites, plot_medians, throughput},
    view_changes,
};
use corniche_simulator::{Report, Spread, scenario::Adversary};
use corniche_testkit::Random;

const NODES: usize = 5;
/// Additional time of the attacked validators' messages, µs.
const EXTRA_US: u64 = 500_000;
/// Time after which other validators are attacked, µs.
const EPOCH_US: u64 = 5_000_000;
/// Few enough transactions per second that batches are never full.
const LIGHT: f64 = 200.0;
/// More transactions per second than any engine orders with batches of `SMALL_BATCH`.
const HEAVY: f64 = 2_000.0;
/// Maximum bytes of a batch under `HEAVY`, so that message delays limit the throughput, and no processor.
const SMALL_BATCH: u64 = 8 << 10;

/// SADL-RACS: the thesis has no times. Those of 2017 by acomputerscientistlearnsaws.blogspot.com; Osaka is Tokyo + 10 ms.
const SADL_SITES: Sites = Sites {
    names: ["Sydney", "Tokyo", "Seoul", "Osaka", "Singapore"],
    rtt_ms: [[1, 104, 134, 114, 175], [104, 1, 31, 10, 74], [134, 31, 1, 41, 72], [114, 10, 41, 1, 84], [175, 74, 72, 84, 1]],
};

/// QuePaxa: the thesis has only the mean, 180 ms. Approximate times of today.
const QUEPAXA_SITES: Sites = Sites {
    names: ["Tokyo", "Mumbai", "Singapore", "Ireland", "São Paulo"],
    rtt_ms: [
        [1, 125, 70, 210, 257],
        [125, 1, 60, 122, 305],
        [70, 60, 1, 175, 325],
        [210, 122, 175, 1, 180],
        [257, 305, 325, 180, 1],
    ],
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Attack {
    None,
    /// This many validators, drawn again every `EPOCH_US`.
    Random(usize),
    /// The last proposer, or the validators that a coin elected.
    Leaders,
}

const ATTACKS: [Attack; 4] = [Attack::None, Attack::Random(1), Attack::Random(2), Attack::Leaders];
/// The attack of the papers.
const PAPER: Attack = Attack::Random(2);

impl Attack {
    fn name(self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Random(count) => format!("{count} random of 5"),
            Self::Leaders => "leaders".to_owned(),
        }
    }

    fn apply(self, setting: Setting) -> Setting {
        match self {
            Self::None => setting,
            Self::Random(count) => redraw(setting, count),
            Self::Leaders => setting.adversary(Adversary::Leaders, EXTRA_US),
        }
    }
}

fn seconds(effort: &Effort) -> u64 {
    effort.seconds(10, 20)
}

/// In each epoch, other validators are attacked.
fn redraw(setting: Setting, count: usize) -> Setting {
    let mut random = Random::new(1).fork("attacked");
    let end_us = setting.0.duration_us;
    let epochs = (0..end_us.div_ceil(EPOCH_US)).map(|epoch| (epoch * EPOCH_US, ((epoch + 1) * EPOCH_US).min(end_us)));
    epochs
        .fold(setting, |setting, (at_us, until_us)| setting.slow_egress(random.subset(NODES, count), at_us, until_us, EXTRA_US))
}

/// One engine under an attack, with few transactions and with more than it can order.
struct Row {
    engine: Engine,
    attack: Attack,
    light: Report,
    heavy: Report,
    seconds: u64,
}

impl Row {
    fn run(sites: &Sites, engine: Engine, attack: Attack, effort: &Effort) -> Self {
        let seconds = seconds(effort);
        let setting = attack.apply(Setting::sites(sites, engine).seconds(seconds).loyal());
        let light = setting.clone().rate(LIGHT).run_any(1);
        let heavy = setting.rate(HEAVY).parameter("batch_bytes", SMALL_BATCH).run_any(1);
        Self { engine, attack, light, heavy, seconds }
    }

    /// Transactions per second with full batches.
    fn capacity(&self) -> f64 {
        throughput(&self.heavy, 0..self.seconds)
    }

    /// Committed before the end of the run, of all that were submitted.
    fn share(&self) -> f64 {
        throughput(&self.light, 0..self.seconds) / LIGHT
    }

    fn print(&self, calm: f64) {
        let Report { ordering, committed, latency, .. } = &self.light;
        let each = |total: u64| total as f64 / *committed as f64;
        println!(
            "| {} | {} | {} | {:.1} % | {:.1} | {:.1} | {:.0} | {:.0} % |",
            self.engine.title(),
            self.attack.name(),
            milliseconds(*latency),
            100.0 * self.share(),
            each(ordering.messages),
            each(ordering.bytes) / 1_000.0,
            self.capacity(),
            100.0 * self.capacity() / calm,
        );
    }
}

/// Mean, median and 99th percentile, ms.
pub fn milliseconds(spread: Option<Spread>) -> String {
    let Some(spread) = spread else { return "nothing".to_owned() };
    let [mean, p50, p99] = [spread.mean, spread.p50, spread.p99].map(|us| us as f64 / 1_000.0);
    format!("{mean:.0} / {p50:.0} / {p99:.0}")
}

/// Prints the rows of a network, and returns those of the papers' attack.
fn rows(sites: &Sites, engines: &[Engine], effort: &Effort) -> Vec<Row> {
    println!(
        "| engine | attacked | {LIGHT:.0} tx/s: mean / p50 / p99, ms | committed meanwhile | messages | kB | {HEAVY:.0} tx/s, small batches: tx/s | of those without attack |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut attacked = Vec::new();
    for engine in engines {
        let rows = ATTACKS.map(|attack| Row::run(sites, *engine, attack, effort));
        let calm = rows[0].capacity();
        rows.iter().for_each(|row| row.print(calm));
        attacked.extend(rows.into_iter().filter(|row| row.attack == PAPER));
    }
    println!();
    attacked
}

/// Both networks.
pub fn minority(effort: &Effort) {
    let attacked = rows(&SADL_SITES, &ALL, effort);
    if effort.full {
        let names = ("attack-minority", "Two random validators are 500 ms late");
        let runs = attacked.iter().map(|row| (row.engine.title(), &row.light));
        plot_medians(names, (seconds(effort), 10_000.0), None, runs);
    }
    rows(&QUEPAXA_SITES, &[Engine::QuePaxa, Engine::Racs, Engine::Autobahn], effort);
}

pub fn tables(effort: &Effort) {
    minority(effort);
    view_changes::table(effort);
    contention::table(effort);
}
