//! Experiments of Mir-BFT's paper: growing committees with a limited uplink (figures 4 and 6), a crashed leader (figure 10) and a
//! straggler (§9.5).

use crate::{
    common::Effort,
    setting::{ALL, Engine, Setting, plot_throughput, throughput},
};
use corniche_engine::TraceEvent;
use corniche_simulator::{Micros, Probe, Report, scenario::Fault};
use std::{cell::RefCell, fs, rc::Rc};

/// Bytes per second that a validator can send: 100 Mbit/s, a tenth of the paper's.
const UPLINK: u64 = 12_500_000;
/// The paper's larger transactions.
const TX_BYTES: u32 = 3_500;
/// Transactions per second: 70 % of what all uplinks together can copy to all validators.
const RATE: f64 = 2_500.0;
/// Numbers of validators.
const SIZES: [usize; 4] = [4, 10, 16, 31];
/// Time between two batches of Mir-BFT, ms, as in the paper for less than 49 validators.
const BATCH_MS: u64 = 500;
/// The paper's maximum of a batch, bytes: an interval of Mir-BFT exceeds the default.
const BATCH_BYTES: u64 = 2 << 20;
/// Commits of the first seconds do not count.
const FROM: u64 = 4;

/// Numbers of validators that only Mir-BFT is measured with.
const MIR_SIZES: [usize; 7] = [4, 10, 16, 31, 49, 64, 100];

/// Time between two batches of Mir-BFT, ms, as in the paper: it grows with the committee.
fn batch_ms(nodes: usize) -> u64 {
    match nodes {
        ..49 => BATCH_MS,
        49..100 => 1_000,
        _ => 2_000,
    }
}

fn limited(engine: Engine, nodes: usize) -> Setting {
    let mut setting = Setting::five_regions(engine, nodes).rate(RATE).loyal();
    setting.0.network.bytes_per_second = UPLINK;
    setting.0.load.tx_bytes = TX_BYTES;
    match engine {
        Engine::Mir => setting
            .parameter("batch_bytes", BATCH_BYTES)
            .parameter("batch_interval_ms", batch_ms(nodes))
            .parameter("resend_ms", batch_ms(nodes) / 2)
            .parameter("max_stretch", 1)
            .parameter("idle_ms", 2_000)
            .parameter("timeout_ms", 20_000),
        _ => setting,
    }
}

/// Transactions per second of a leader that sends all batches to all others.
fn single_leader(nodes: usize) -> f64 {
    UPLINK as f64 / ((nodes - 1) as f64 * f64::from(TX_BYTES))
}

/// Throughput, median latency, and bytes that a validator sends for each committed byte.
fn measure(engine: Engine, nodes: usize) -> String {
    let (from, seconds) = period(nodes);
    let report = limited(engine, nodes).seconds(seconds).run_any(1);
    let p50 = report.latency.map_or(0, |it| it.p50 / 1_000);
    format!("{:.0}, {p50}, {:.2}", throughput(&report, from..seconds), sent_per_byte(&report))
}

/// The second from which commits count, and that in which the load ends: whole intervals of Mir-BFT.
fn period(nodes: usize) -> (u64, u64) {
    let seconds = match nodes {
        ..=16 => 10,
        17..49 => 7,
        _ => 8,
    };
    (FROM, seconds)
}

/// Bytes that a validator sends for each committed byte.
fn sent_per_byte(report: &Report) -> f64 {
    report.bytes as f64 / report.nodes as f64 / (report.committed * u64::from(TX_BYTES)) as f64
}

pub fn uplink(effort: &Effort) {
    let sizes = if effort.full { &SIZES[..] } else { &SIZES[..2] };
    let row = |name: &str, cell: &dyn Fn(usize) -> String| {
        println!("| {name} | {} |", sizes.iter().map(|size| cell(*size)).collect::<Vec<_>>().join(" | "));
    };
    let title = format!("{RATE:.0} tx/s of {TX_BYTES} B: tx/s, p50 in ms, bytes sent by a validator per byte");
    row(&title, &|nodes| format!("n = {nodes}"));
    row("---", &|_| "---".to_owned());
    row("one leader sends all, at most (calculated)", &|nodes| format!("{:.0}", single_leader(nodes)));
    for engine in ALL {
        row(engine.title(), &|nodes| measure(engine, nodes));
    }
    println!();
}

/// Mir-BFT alone, in committees of up to the paper's largest.
pub fn sizes(effort: &Effort) {
    println!(
        "| n | batches every | tx/s | p50, ms | bytes sent by a validator per byte | messages | processor | peak memory |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let sizes = if effort.full { &MIR_SIZES[..] } else { &MIR_SIZES[..3] };
    for nodes in sizes.iter().copied() {
        let (from, seconds) = period(nodes);
        let before = processor_seconds();
        let report = limited(Engine::Mir, nodes).seconds(seconds).run_any(1);
        let spent = processor_seconds() - before;
        println!(
            "| {nodes} | {} ms | {:.0} | {} | {:.2} | {:.1} million | {spent:.0} s | {} MB |",
            batch_ms(nodes),
            throughput(&report, from..seconds),
            report.latency.map_or(0, |it| it.p50 / 1_000),
            sent_per_byte(&report),
            report.messages as f64 / 1e6,
            peak_megabytes(),
        );
    }
    println!();
}

/// Processor time of this process, as Linux counts it.
fn processor_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, which is in parentheses, may contain spaces.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Most memory that this process had since its start, as Linux counts it.
fn peak_megabytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
    peak.and_then(|kilobytes| kilobytes.parse::<u64>().ok()).unwrap_or(0) / 1_000
}

const NODES: usize = 16;
const VICTIM: usize = 3;
const FAULT_AT: u64 = 10;
/// Time from which on the fault is no news, s.
const LATER: u64 = 30;
const LIGHT: f64 = 500.0;

/// A fault of a leader of sixteen.
struct Case {
    name: &'static str,
    timeout_ms: u64,
    seconds: u64,
    harm: fn(Setting) -> Setting,
}

fn crash(setting: Setting) -> Setting {
    setting.fault(Fault::Crash { at_us: FAULT_AT * 1_000_000, nodes: vec![VICTIM], restart_at_us: None })
}

/// Three quarters of the timeout, as in the paper.
fn straggle(setting: Setting) -> Setting {
    let until_us = setting.0.duration_us;
    let timeout_us = setting.0.engine_config["timeout_ms"] * 1_000;
    setting.slow_egress(vec![VICTIM], FAULT_AT * 1_000_000, until_us, timeout_us * 3 / 4)
}

const CASES: [Case; 4] = [
    Case { name: "crash, timeout 4 s", timeout_ms: 4_000, seconds: 50, harm: crash },
    Case { name: "crash, timeout 8 s", timeout_ms: 8_000, seconds: 50, harm: crash },
    Case { name: "straggler, 3 s late, timeout 4 s", timeout_ms: 4_000, seconds: 50, harm: straggle },
    Case { name: "straggler, 15 s late, timeout 20 s", timeout_ms: 20_000, seconds: 90, harm: straggle },
];

/// A run, and the times at which a validator entered an epoch after the fault, ms.
struct Run {
    report: Report,
    entered: Vec<u64>,
}

impl Case {
    fn run(&self) -> Run {
        let setting = Setting::five_regions(Engine::Mir, NODES).rate(LIGHT).seconds(self.seconds);
        let setting = (self.harm)(setting.loyal().parameter("timeout_ms", self.timeout_ms));
        let entered: Rc<RefCell<Vec<u64>>> = Rc::default();
        let seen = entered.clone();
        let observer = Box::new(move |now: Micros, node: usize, event: &TraceEvent| {
            let ms = (now - Micros::START).0 / 1_000;
            if let TraceEvent::Note { name, .. } = event
                && (node, name.as_str()) == (0, "epoch-entered")
                && ms >= FAULT_AT * 1_000
            {
                seen.borrow_mut().push(ms - FAULT_AT * 1_000);
            }
        });
        let report = setting.run_probed(1, Probe { observer: Some(observer), tune: None });
        Run { report, entered: entered.take() }
    }

    fn print(&self, Run { report, entered }: &Run) {
        let tx_s = |from: u64, until: u64| throughput(report, from..until);
        println!(
            "| {} | {:.0} | {:.2} | {:.0} | {:.0} | {} | {} |",
            self.name,
            tx_s(5, FAULT_AT),
            report.stalled_us as f64 / 1_000_000.0,
            tx_s(FAULT_AT, LATER),
            tx_s(LATER, self.seconds),
            entered.first().map_or("never".to_owned(), |ms| format!("{:.2} s", *ms as f64 / 1_000.0)),
            entered.len(),
        );
    }
}

pub fn faults(effort: &Effort) {
    println!(
        "| Mir-BFT, n = 16, {LIGHT:.0} tx/s: validator {VICTIM} from 10 s on | tx/s before | longest stall, s | tx/s of the 20 s after | of the rest | next epoch after | epochs |"
    );
    println!("|---|---|---|---|---|---|---|");
    let cases = if effort.full { &CASES[..] } else { &CASES[..1] };
    let runs: Vec<_> = cases.iter().map(|case| (case, case.run())).collect();
    runs.iter().for_each(|(case, run)| case.print(run));
    println!();
    if effort.full {
        let short = runs.iter().filter(|(case, _)| case.timeout_ms == 4_000);
        let shown = ["crash", "straggler"].into_iter().zip(short.map(|(_, run)| &run.report));
        plot_throughput("mir-leader-fails", "Mir-BFT: one leader of sixteen fails at 10 s", 50, shown);
    }
}

pub fn tables(effort: &Effort) {
    uplink(effort);
    faults(effort);
}
