//! The engines in the same scenarios: latency and cost of a transaction.

use crate::{
    common::Effort,
    setting::{ALL, Engine, Setting, alone, mean_ms},
};
use corniche_simulator::{
    Report, Sample, Spent, Spread,
    scenario::{Adversary, Fault, Links},
};

const NODES: usize = 10;
/// f of ten, each in its own region.
const CRASHED: [usize; 3] = [2, 5, 8];
/// Node with the slow link.
const SLOW: usize = 3;
const SLOW_US: u64 = 250_000;
/// Time for which the asynchronous adversary holds messages back, µs: longer than a first view of Autobahn.
const HELD_US: u64 = 2_000_000;
/// Only later submissions are measured, because the first seconds are a start-up phase.
const FROM_US: u64 = 4_000_000;
const SPLIT_AT_US: u64 = 5_000_000;
const HEALED_US: u64 = 15_000_000;
/// One-way delay of all links, µs.
const DELAY_US: f64 = 50_000.0;

/// One fault scenario.
struct Case {
    name: &'static str,
    harm: fn(Setting) -> Setting,
    /// Nodes whose clients do not count.
    without: &'static [usize],
    /// Only transactions submitted in this time count, µs.
    window: (u64, u64),
}

const ANY: (u64, u64) = (FROM_US, u64::MAX);

const CASES: [Case; 7] = [
    Case { name: "good interval", harm: |it| it, without: &[], window: ANY },
    Case { name: "one crashed", harm: |it| crash(it, &CRASHED[..1]), without: &CRASHED, window: ANY },
    Case { name: "f = 3 crashed", harm: |it| crash(it, &CRASHED), without: &CRASHED, window: ANY },
    Case {
        name: "asynchronous: every leader is delayed by 2 s",
        harm: |it| it.adversary(Adversary::Leaders, HELD_US),
        without: &[],
        window: ANY,
    },
    Case {
        name: "asynchronous: proposals of f are held back for up to 2 s",
        harm: |it| it.adversary(Adversary::Worst, HELD_US),
        without: &[],
        window: ANY,
    },
    Case { name: "one link 250 ms slower, clients of the others", harm: slow_link, without: &[SLOW], window: ANY },
    Case {
        name: "partition 5 + 5 of 10 s: submitted in the second after",
        harm: split,
        without: &[],
        window: (HEALED_US, HEALED_US + 1_000_000),
    },
];

fn crash(setting: Setting, nodes: &[usize]) -> Setting {
    setting.fault(Fault::Crash { at_us: 0, nodes: nodes.to_vec(), restart_at_us: None })
}

fn slow_link(setting: Setting) -> Setting {
    let until_us = setting.0.duration_us;
    setting.fault(Fault::Delay { at_us: 0, until_us, links: Links::AttachedTo(vec![SLOW]), extra_us: SLOW_US })
}

fn split(setting: Setting) -> Setting {
    // Groups by parity: half of each region.
    let groups = vec![(0..NODES).filter(|node| node % 2 == 0).collect(), (0..NODES).filter(|node| node % 2 == 1).collect()];
    setting.loyal().fault(Fault::Partition { at_us: SPLIT_AT_US, until_us: HEALED_US, groups })
}

impl Case {
    fn latency(&self, report: &Report) -> Option<Spread> {
        let (from, until) = self.window;
        let counts = |it: &&Sample| !self.without.contains(&it.client) && (from..until).contains(&it.submitted_us);
        Spread::of(&mut report.transactions.iter().filter(counts).map(|it| it.latency_us).collect::<Vec<_>>())
    }

    fn run(&self, setting: Setting, effort: &Effort) -> Report {
        let seconds = if self.window == ANY { effort.seconds(12, 40) } else { 20 };
        (self.harm)(setting.seconds(seconds)).run_any(1)
    }
}

/// Delays of equal links, then milliseconds between five regions.
pub fn latencies(effort: &Effort) {
    let one = |engine| format!("{:.2}", alone(&Setting::lock_step(engine, NODES), NODES) * 1_000.0 / DELAY_US);
    header("message delays");
    row("one transaction at a time", ALL.map(one));
    let lock_step = |engine| Setting::lock_step(engine, NODES).rate(200.0);
    cases(effort, lock_step, DELAY_US, 1);
    header("ms");
    cases(effort, |engine| Setting::five_regions(engine, NODES).rate(1_000.0), 1_000.0, 0);
}

fn header(unit: &str) {
    row(&format!("n = 10: mean / p99, {unit}"), ALL.map(|engine| engine.title().to_owned()));
    row("---", ALL.map(|_| "---".to_owned()));
}

fn row(name: &str, cells: [String; ALL.len()]) {
    println!("| {name} | {} |", cells.join(" | "));
}

fn cases(effort: &Effort, setting: impl Fn(Engine) -> Setting, unit_us: f64, digits: usize) {
    for case in &CASES {
        let reports = ALL.map(|engine| case.run(setting(engine), effort));
        let lost = |report: &Report| if report.lost > 0 { format!(", {} not committed", report.lost) } else { String::new() };
        let cell = |report: &Report| spread(case.latency(report), unit_us, digits) + &lost(report);
        row(case.name, reports.each_ref().map(cell));
        if case.window != ANY {
            let recovery = |report: &Report| format!("{:.digits$}", recovery_us(report) / unit_us);
            row("the same: all from before committed after", reports.each_ref().map(recovery));
        }
    }
    println!();
}

/// Time from the healing of the network to the last commit of transactions submitted before, µs.
fn recovery_us(report: &Report) -> f64 {
    let before = report.transactions.iter().filter(|it| it.submitted_us < HEALED_US).map(|it| it.submitted_us + it.latency_us);
    before.max().unwrap_or(0).saturating_sub(HEALED_US) as f64
}

fn spread(spread: Option<Spread>, unit_us: f64, digits: usize) -> String {
    let Some(spread) = spread else { return "nothing".to_owned() };
    let [mean, p99] = [spread.mean, spread.p99].map(|us| us as f64 / unit_us);
    format!("{mean:.digits$} / {p99:.digits$}")
}

pub fn costs(effort: &Effort) {
    println!(
        "| five regions, 1,000 tx/s of 512 B, no faults; all validators together | n | ordering, a transaction: messages | kB | signed | checked | processor µs | certificates: messages | kB | signed | checked | processor µs | latency, ms |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for nodes in [4, 10, 50] {
        let seconds = if nodes == 50 { effort.seconds(3, 10) } else { effort.seconds(5, 30) };
        let bls = Setting::five_regions(Engine::Autobahn, nodes).parameter("bls", 1);
        for (name, setting) in
            ALL.map(|engine| (engine.title(), Setting::five_regions(engine, nodes))).into_iter().chain([("Autobahn, BLS", bls)])
        {
            let report = setting.rate(1_000.0).seconds(seconds).run(1);
            let share = |spent: &Spent| spent_per(report.committed, spent);
            println!(
                "| {name} | {nodes} | {} | {} | {:.0} |",
                share(&report.ordering),
                share(&report.certificates),
                mean_ms(std::slice::from_ref(&report)),
            );
        }
    }
    println!();
}

fn spent_per(transactions: u64, spent: &Spent) -> String {
    let of = |total: u64| total as f64 / transactions as f64;
    let (messages, kilobytes) = (of(spent.messages), of(spent.bytes) / 1_000.0);
    let (signed, checked, micros) = (of(spent.work.signed), of(spent.work.checked), of(spent.work.micros));
    format!("{messages:.2} | {kilobytes:.2} | {signed:.2} | {checked:.2} | {micros:.0}")
}
