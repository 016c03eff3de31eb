//! What a blip leaves behind: E6, a leader fails; E7, the network falls in two. Both engines in the same scenario, and a plot of each.

use crate::{
    common::{Effort, measured, verdict},
    plot::{Curve, Plot},
    setting::{BOTH, Engine, Setting},
};
use corniche_engine::TraceEvent;
use corniche_simulator::{Micros, Probe, Report, Sample, scenario::Fault};
use std::{cell::Cell, path::Path, rc::Rc};

/// Where plots go.
const IMAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/images");
/// The fault begins here, ms. What came before is normal, after the first seconds.
const AT_MS: u64 = 10_000;
const NORMAL_FROM_MS: u64 = 4_000;
/// A latency that is so much above the slowest normal one is not normal any more.
const TOLERANCE: f64 = 1.25;

struct Case {
    file: &'static str,
    title: &'static str,
    nodes: usize,
    /// Transactions per second, quick and full.
    rates: [f64; 2],
    fault: What,
    /// Of Autobahn.
    view_timeout_ms: u64,
    seconds: u64,
    /// Of the plot, seconds.
    window: (f64, f64),
}

enum What {
    /// These fail, and start again after so many ms.
    Fail { nodes: &'static [usize], for_ms: u64 },
    /// Nobody is a quorum for so many ms.
    Split { for_ms: u64 },
}

const CASES: [Case; 4] = [
    Case {
        file: "leader-failure-1s",
        title: "E6: a leader fails, view timer 1 s; n = 4, four regions",
        nodes: 4,
        rates: [500.0, 2_000.0],
        fault: What::Fail { nodes: &[2], for_ms: 1_000 },
        view_timeout_ms: 1_000,
        seconds: 20,
        window: (8.0, 16.0),
    },
    Case {
        file: "leader-failure-5s",
        title: "E6: a leader fails, view timer 5 s; n = 4, four regions",
        nodes: 4,
        rates: [500.0, 2_000.0],
        fault: What::Fail { nodes: &[2], for_ms: 5_000 },
        view_timeout_ms: 5_000,
        seconds: 25,
        window: (8.0, 24.0),
    },
    Case {
        file: "two-leaders-fail",
        title: "E6: two leaders in a row fail, view timers 1 s and 2 s; n = 7, four regions",
        nodes: 7,
        rates: [500.0, 2_000.0],
        fault: What::Fail { nodes: &[2, 3], for_ms: 3_000 },
        view_timeout_ms: 1_000,
        seconds: 25,
        window: (8.0, 20.0),
    },
    Case {
        file: "partition",
        title: "E7: 2 + 2 of four validators do not hear each other for 20 s; 15,000 transactions/s",
        nodes: 4,
        rates: [1_000.0, 15_000.0],
        fault: What::Split { for_ms: 20_000 },
        view_timeout_ms: 1_000,
        seconds: 40,
        window: (5.0, 40.0),
    },
];

pub fn tables(effort: &Effort) {
    println!(
        "| blip | engine | slowest before, ms | slowest of all, ms | the blip's end, s | backlog committed after, ms | submissions not normal until after, ms | one slot and transfer, ms | |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for case in &CASES {
        let runs = BOTH.map(|engine| case.run(engine, effort));
        for run in &runs {
            run.print(case, effort);
        }
        if effort.full {
            case.draw(&runs);
        }
    }
    println!();
}

/// What one engine did.
struct Run {
    engine: Engine,
    report: Report,
    /// When a correct leader proposed after the views that failed, or the network was whole again, ms.
    over_ms: u64,
}

impl Case {
    fn rate(&self, effort: &Effort) -> f64 {
        self.rates[usize::from(effort.full)]
    }

    fn run(&self, engine: Engine, effort: &Effort) -> Run {
        let mut setting = Setting::four_regions(engine, self.nodes).rate(self.rate(effort)).seconds(self.seconds);
        if engine == Engine::Autobahn {
            setting = setting.parameter("view_timeout_ms", self.view_timeout_ms);
        }
        let at_us = AT_MS * 1_000;
        let end_ms = match self.fault {
            What::Fail { nodes, for_ms } => {
                let restart_at_us = Some(at_us + for_ms * 1_000);
                setting = setting.fault(Fault::Crash { at_us, nodes: nodes.to_vec(), restart_at_us });
                // What died with the node is submitted again only after everything that is looked at.
                setting.0.load.patience_us = 15_000_000;
                AT_MS
            }
            What::Split { for_ms } => {
                let until_us = at_us + for_ms * 1_000;
                let groups = vec![vec![0, 1], vec![2, 3]];
                setting = setting.fault(Fault::Partition { at_us, until_us, groups });
                // Clients trust their validator: no transaction is in two lanes.
                setting.0.load.patience_us = 60_000_000;
                AT_MS + for_ms
            }
        };
        let over_ms = Rc::new(Cell::new(end_ms));
        let heard = over_ms.clone();
        let is_failure = matches!(self.fault, What::Fail { .. });
        let observer = Box::new(move |now: Micros, _: usize, event: &TraceEvent| {
            if let TraceEvent::Note { name, detail } = event
                && is_failure
                && name == "prepare"
                && !detail.ends_with("view 0")
            {
                heard.set((now - Micros::START).0 / 1_000);
            }
        });
        let report = measured(&setting.0, 1, Probe { observer: Some(observer), tune: None });
        Run { engine, report, over_ms: over_ms.get() }
    }

    /// Whether this client's validator was up all the time.
    fn counts(&self, sample: &Sample) -> bool {
        !matches!(self.fault, What::Fail { nodes, .. } if nodes.contains(&sample.client))
    }

    fn draw(&self, runs: &[Run]) {
        let curve = |run: &Run| {
            let mut slowest = std::collections::BTreeMap::<u64, u64>::new();
            for sample in run.report.transactions.iter().filter(|sample| self.counts(sample)) {
                let slot = slowest.entry(sample.submitted_us / 100_000).or_default();
                *slot = (*slot).max(sample.latency_us);
            }
            let point = |(tenth, us): (u64, u64)| ((tenth as f64 + 0.5) / 10.0, us as f64 / 1_000.0);
            let colour = if run.engine == Engine::Autobahn { "#0072b2" } else { "#d55e00" };
            Curve { name: run.engine.name(), colour, points: slowest.into_iter().map(point).collect() }
        };
        let (name, for_ms) = match self.fault {
            What::Fail { for_ms, .. } => ("down", for_ms),
            What::Split { for_ms } => ("partition", for_ms),
        };
        let from = AT_MS as f64 / 1_000.0;
        let plot = Plot {
            title: self.title,
            blip: (name, from, from + for_ms as f64 / 1_000.0),
            window: self.window,
            range: (100.0, if matches!(self.fault, What::Split { .. }) { 50_000.0 } else { 10_000.0 }),
            curves: runs.iter().map(curve).collect(),
        };
        let path = Path::new(IMAGES).join(format!("{}.svg", self.file));
        std::fs::create_dir_all(IMAGES).and_then(|()| std::fs::write(&path, plot.svg())).expect("docs/images can be written");
        eprintln!("wrote {}", path.display());
    }
}

impl Run {
    fn print(&self, case: &Case, effort: &Effort) {
        let samples = || self.report.transactions.iter().filter(|sample| case.counts(sample));
        let slowest = |from_ms: u64, until_ms: u64| {
            let within = samples().filter(|it| (from_ms * 1_000..until_ms * 1_000).contains(&it.submitted_us));
            within.map(|it| it.latency_us).max().unwrap_or(0) as f64 / 1_000.0
        };
        // Those of the last second before the fault are caught by it.
        let (normal, worst) = (slowest(NORMAL_FROM_MS, AT_MS - 1_000), slowest(0, u64::MAX / 1_000));
        let over_us = self.over_ms * 1_000;
        let before = samples().filter(|it| it.submitted_us < over_us).map(|it| it.submitted_us + it.latency_us);
        let backlog = before.max().unwrap_or(0).saturating_sub(over_us) as f64 / 1_000.0;
        let strange = samples().filter(|it| it.submitted_us >= over_us && it.latency_us as f64 > 1_000.0 * normal * TOLERANCE);
        let hangover = strange.map(|it| it.submitted_us - over_us).max().unwrap_or(0) as f64 / 1_000.0;
        let bar = self.bar_ms(case, effort);
        println!(
            "| {} | {} | {normal:.0} | {worst:.0} | {:.2} | {backlog:.0} | {hangover:.0} | {bar:.0} | {} |",
            case.title,
            self.engine.name(),
            self.over_ms as f64 / 1_000.0,
            verdict(backlog.max(hangover) <= bar),
        );
    }

    /// One slot on the slow path, after a view change where there is one: TIMEOUT, PREPARE, PREP-VOTE, CONFIRM, CONFIRM-ACK, COMMIT over the
    /// longest link; and what the other half has to be told, over one validator's line.
    fn bar_ms(&self, case: &Case, effort: &Effort) -> f64 {
        let longest_ms = 32.0 * 1.05;
        let transfer_ms = match case.fault {
            What::Fail { .. } => 0.0,
            What::Split { for_ms } => case.rate(effort) * for_ms as f64 * 512.0 / 1.25e9,
        };
        6.0 * longest_ms + transfer_ms
    }
}
