//! Latency of the other validators' clients while f validators are crashed (connections end) or silent (connections stay up).

use crate::{
    common::Effort,
    setting::{BOTH, Engine, Setting},
};
use corniche_simulator::{
    Spread,
    scenario::{Behaviour, Fault},
};

/// Committee sizes n, each with its f.
const SIZES: [(usize, usize); 3] = [(4, 1), (7, 2), (10, 3)];
const AWAY_FROM_US: u64 = 3_000_000;
/// Transactions submitted from this time on are measured. By then all validators distrust the absent ones.
const FROM_US: u64 = 20_000_000;

#[derive(Clone, Copy)]
enum State {
    Present,
    Crashed,
    Silent,
}

/// Name, and setting of a committee's size.
type Network = (&'static str, fn(Engine, usize) -> Setting);

const STATES: [State; 3] = [State::Present, State::Crashed, State::Silent];

pub fn table(effort: &Effort) {
    println!("| p50 / p99, ms, of the others' clients | n | away | all present | f crashed | f silent |");
    println!("|---|---|---|---|---|---|");
    let networks: [Network; 2] = [("links of 2 ms", Setting::local), ("five regions", Setting::five_regions)];
    for (name, network) in networks {
        for engine in BOTH {
            for (nodes, faulty) in SIZES {
                let [present, crashed, silent] = STATES.map(|state| run(network(engine, nodes), faulty, state, effort));
                println!("| {}, {name} | {nodes} | {faulty} | {present} | {crashed} | {silent} |", engine.title());
            }
        }
    }
    println!();
}

/// The absent validators are consecutive, so the leaders of the next views are absent, too.
fn run(setting: Setting, faulty: usize, state: State, effort: &Effort) -> String {
    let (at_us, nodes) = (AWAY_FROM_US, (0..faulty).collect::<Vec<_>>());
    let setting = setting.rate(500.0).seconds(effort.seconds(30, 60));
    let setting = match state {
        State::Present => setting,
        State::Crashed => setting.fault(Fault::Crash { at_us, nodes, restart_at_us: None }),
        State::Silent => setting.fault(Fault::Byzantine { at_us, nodes, behaviour: Behaviour::Silent }),
    };
    let report = setting.run(1);
    let counts = report.transactions.iter().filter(|it| it.client >= faulty && it.submitted_us >= FROM_US);
    match Spread::of(&mut counts.map(|it| it.latency_us).collect::<Vec<_>>()) {
        Some(spread) => format!("{:.0} / {:.0}", spread.p50 as f64 / 1_000.0, spread.p99 as f64 / 1_000.0),
        None => "nothing".to_owned(),
    }
}
