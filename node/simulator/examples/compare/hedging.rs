//! QuePaxa's hedging delay beside Autobahn's view timer: throughput and latency for any setting, with and without an attack. The
//! thesis' claim: a hedging delay that is too short or too long costs messages or time, but never progress.

use crate::{
    common::Effort,
    setting::{Engine, Setting, throughput, write_plot},
};
use corniche_simulator::{
    Report,
    plot::{COLOURS, Curve, Plot, Scale},
    scenario::Adversary,
};

const NODES: usize = 5;
const RATE: f64 = 2_000.0;
/// Settings of the delay or of the timer, ms. One-way delays of the regions are 2 to 137 ms.
const SETTINGS_MS: [u64; 9] = [1, 10, 25, 50, 100, 200, 500, 1_000, 2_000];
/// Time for which the attacker holds the messages of a leader back, µs.
const HELD_US: u64 = 1_000_000;

/// Engine, its parameter, and the colour of its curves.
const ENGINES: [(Engine, &str, &str); 2] =
    [(Engine::QuePaxa, "hedge_ms", COLOURS[0]), (Engine::Autobahn, "view_timeout_ms", COLOURS[1])];

fn run(engine: Engine, parameter: &str, ms: u64, is_attacked: bool, effort: &Effort) -> Report {
    let mut setting = Setting::five_regions(engine, NODES).rate(RATE).seconds(effort.seconds(10, 30)).parameter(parameter, ms);
    if is_attacked {
        setting = setting.adversary(Adversary::Leaders, HELD_US);
    }
    // A setting may be so bad that not everything is committed in time.
    setting.run_any(1)
}

pub fn table(effort: &Effort) {
    println!(
        "| n = 5, five regions, 2,000 tx/s: tx/s, p50 / p99 in ms | QuePaxa, `hedge_ms` | Autobahn, `view_timeout_ms` | QuePaxa, attacked | Autobahn, attacked |"
    );
    println!("|---|---|---|---|---|");
    let seconds = effort.seconds(10, 30);
    let mut curves: Vec<Vec<(f64, f64)>> = vec![Vec::new(); 4];
    for ms in SETTINGS_MS {
        let mut cells = Vec::new();
        for is_attacked in [false, true] {
            for (engine, parameter, _) in ENGINES {
                let report = run(engine, parameter, ms, is_attacked, effort);
                let rate = throughput(&report, 0..seconds);
                curves[cells.len()].push((ms as f64 / 1_000.0, rate));
                let latency = report.latency.map_or("-".to_owned(), |it| format!("{} / {}", it.p50 / 1_000, it.p99 / 1_000));
                cells.push(format!("{rate:.0}, {latency}"));
            }
        }
        println!("| {ms} ms | {} |", cells.join(" | "));
    }
    println!();
    let [calm, calm_other, attacked, attacked_other] = <[_; 4]>::try_from(curves).expect("four curves");
    draw("hedging", "Throughput without an attack", [calm, calm_other], effort);
    draw("hedging-attacked", "Throughput while each leader is delayed by 1 s", [attacked, attacked_other], effort);
}

fn draw(file: &str, title: &str, points: [Vec<(f64, f64)>; 2], effort: &Effort) {
    if !effort.full {
        return;
    }
    let mut curves = Vec::new();
    for ((engine, _, colour), points) in ENGINES.into_iter().zip(points) {
        curves.push(Curve { name: engine.title(), colour, points });
    }
    let plot = Plot {
        title,
        remark: "transactions per second, of 2,000 submitted",
        axis: "hedging delay, or view timer",
        blip: None,
        window: (0.0, 2.0),
        scale: Scale::Count(RATE),
        curves,
    };
    write_plot(file, &plot);
}
