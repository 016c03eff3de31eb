//! NeoBFT beside the other engines in one data centre, and the experiments of its paper (§6): lost packets, number of replicas,
//! failover of the sequencer.

use crate::{
    common::{Effort, measured},
    setting::{Engine, Setting},
};
use corniche_engine::TraceEvent;
use corniche_simulator::{
    Micros, Probe, Report, Sample, Spread, scenario::Fault, scenario::Sequencer, scenario::SequencerFault,
};
use std::{cell::RefCell, rc::Rc};

/// Submissions from this time on are measured.
const FROM_US: u64 = 1_000_000;
const HM: u8 = 1;
const PK: u8 = 5;

/// Name of a variant, its suite, whether its sequencer is on a host, and whether the network may equivocate.
type Variant = (&'static str, u8, bool, bool);

const IN_PATH: Variant = ("tags, in the path", HM, false, false);
const VARIANTS: [Variant; 5] = [
    IN_PATH,
    ("tags, on a host", HM, true, false),
    ("signatures, in the path", PK, false, false),
    ("signatures, on a host", PK, true, false),
    ("tags, in the path, Byzantine network", HM, false, true),
];

/// Name, and the timers of a failover.
type Timers = (&'static str, fn(Setting) -> Setting);

fn neobft((_, suite, is_on_host, is_byzantine): Variant, nodes: usize) -> Setting {
    let mut setting = Setting::data_centre(Engine::Neobft, nodes).parameter("byzantine_network", u64::from(is_byzantine));
    setting.0.sequencer = Sequencer { suite, is_on_host, ..setting.0.sequencer };
    setting
}

/// Latency of the transactions that were submitted after the start.
fn latency(report: &Report) -> Option<Spread> {
    let counts = |it: &&Sample| it.submitted_us >= FROM_US;
    Spread::of(&mut report.transactions.iter().filter(counts).map(|it| it.latency_us).collect::<Vec<_>>())
}

/// Median and 99th percentile, ms.
fn milliseconds(spread: Option<Spread>) -> String {
    spread.map_or("nothing".into(), |it| format!("{:.2} / {:.2}", it.p50 as f64 / 1_000.0, it.p99 as f64 / 1_000.0))
}

/// Transactions committed per second from `FROM_US` to the end of the load.
fn throughput(report: &Report, end_us: u64) -> f64 {
    let committed = report.transactions.iter().map(|it| it.submitted_us + it.latency_us);
    committed.filter(|at| (FROM_US..end_us).contains(at)).count() as f64 * 1e6 / (end_us - FROM_US) as f64
}

/// Throughput against latency.
pub fn load(effort: &Effort) {
    let rates: &[f64] = if effort.full { &[1_000.0, 5_000.0, 10_000.0, 20_000.0] } else { &[1_000.0, 5_000.0] };
    let seconds = effort.seconds(2, 3);
    let others =
        [Engine::MahiMahi, Engine::Autobahn].map(|engine| (engine.title().to_owned(), Setting::data_centre(engine, 4)));
    let variants = VARIANTS.map(|variant| (format!("NeoBFT, {}", variant.0), neobft(variant, 4)));
    let headings: Vec<_> = rates.iter().map(|rate| format!("{rate:.0} tx/s")).collect();
    println!("| n = 4, one data centre: committed per second; p50 / p99, ms | {} |", headings.join(" | "));
    println!("|---{}|", "|---".repeat(rates.len()));
    for (name, setting) in others.into_iter().chain(variants) {
        let cell = |rate: &f64| {
            let report = setting.clone().rate(*rate).seconds(seconds).run(1);
            format!("{:.0}; {}", throughput(&report, seconds * 1_000_000), milliseconds(latency(&report)))
        };
        println!("| {name} | {} |", rates.iter().map(cell).collect::<Vec<_>>().join(" | "));
    }
    println!();
}

/// Fig. 9: datagrams lost at each receiver.
pub fn drops(effort: &Effort) {
    const RATE: f64 = 10_000.0;
    let seconds = effort.seconds(2, 3);
    let losses = [(0, "none"), (10, "0.001 %"), (100, "0.01 %"), (1_000, "0.1 %"), (10_000, "1 %")];
    println!(
        "| n = 4, {RATE:.0} tx/s: committed per second; p50 / p99, ms | {} |",
        losses.map(|(_, name)| format!("lost: {name}")).join(" | ")
    );
    println!("|---|---|---|---|---|---|");
    for variant in VARIANTS.into_iter().filter(|(_, _, is_on_host, _)| !is_on_host) {
        let cell = |(loss_ppm, _): (u32, &str)| {
            let mut setting = neobft(variant, 4);
            setting.0.sequencer.loss_ppm = loss_ppm;
            let report = setting.rate(RATE).seconds(seconds).run(1);
            format!("{:.0}; {}", throughput(&report, seconds * 1_000_000), milliseconds(latency(&report)))
        };
        println!("| {} | {} |", variant.0, losses.map(cell).join(" | "));
    }
    println!();
}

/// Fig. 8: messages and bytes at a replica by their number. One transaction per request.
pub fn scale(effort: &Effort) {
    let sizes: &[usize] = if effort.full { &[4, 7, 10, 16, 32, 64] } else { &[4, 10] };
    println!(
        "| one transaction of 512 B per request: at each replica | n | datagrams in | bytes in | messages out | bytes out | processor µs | p50 / p99, ms |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for variant in VARIANTS.into_iter().filter(|(_, _, is_on_host, _)| !is_on_host) {
        for nodes in sizes {
            let seconds = effort.seconds(2, 4);
            // Few enough that no request has two transactions, and nothing else is sent.
            let mut setting = neobft(variant, *nodes).parameter("clock_ms", 3_600_000).parameter("query_ms", 3_600_000);
            setting.0.block_ms = 0;
            let report = setting.rate(100.0).seconds(seconds).run(1);
            let share = |total: u64| total as f64 / (report.committed * *nodes as u64) as f64;
            let (datagrams, bytes) = report.received;
            println!(
                "| {} | {nodes} | {:.2} | {:.0} | {:.2} | {:.0} | {:.1} | {} |",
                variant.0,
                share(datagrams),
                share(bytes),
                share(report.ordering.messages),
                share(report.ordering.bytes),
                share(report.ordering.work.micros),
                milliseconds(latency(&report)),
            );
        }
    }
    println!();
}

/// §6.4: the sequencer falls silent under load. Time of each step after that.
pub fn failover(effort: &Effort) {
    const AT_US: u64 = 3_000_000;
    let timers: [Timers; 2] = [
        ("default timers", |it| it.parameter("reorder_ms", 2).parameter("request_interval_ms", 5)),
        ("`request_ms` 5, `aom_ms` 20, `query_ms` 5", |it| {
            it.parameter("request_ms", 5).parameter("aom_ms", 20).parameter("query_ms", 5)
        }),
    ];
    println!(
        "| n = 4, 5,000 tx/s, the sequencer is silent from t on; the service installs another one in 50 ms | last commit before | sequencer suspected | VIEW-CHANGE sent | view entered | first commit after | epochs | committed per second before / after |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let seconds = effort.seconds(7, 10);
    for (name, tune) in timers {
        let setting = tune(neobft(IN_PATH, 4)).rate(5_000.0).seconds(seconds);
        let setting = setting.fault(Fault::Sequencer { at_us: AT_US, fault: SequencerFault::Silent });
        let notes: Rc<RefCell<Vec<(String, u64)>>> = Rc::default();
        let seen = notes.clone();
        let observer = Box::new(move |now: Micros, _: usize, event: &TraceEvent| {
            if let TraceEvent::Note { name, .. } = event {
                seen.borrow_mut().push((name.clone(), (now - Micros::START).0));
            }
        });
        let report = measured(&setting.0, 1, Probe { observer: Some(observer), tune: None });
        assert!(report.failovers > 0, "{}", report.text());
        let since =
            |at: Option<u64>| at.map_or("never".into(), |at| format!("t + {:.1} ms", (at as f64 - AT_US as f64) / 1_000.0));
        let note = |of: &str| notes.borrow().iter().find(|(name, at)| name == of && *at >= AT_US).map(|(_, at)| *at);
        let mut commits: Vec<_> = report.transactions.iter().map(|it| it.submitted_us + it.latency_us).collect();
        commits.sort_unstable();
        let (last, first) = commits
            .windows(2)
            .filter(|pair| (AT_US..AT_US + 4_000_000).contains(&pair[1]))
            .map(|pair| (pair[0], pair[1]))
            .max_by_key(|(from, to)| to - from)
            .expect("something was committed");
        let within =
            |from: u64, to: u64| commits.iter().filter(|at| (from..to).contains(*at)).count() as f64 * 1e6 / (to - from) as f64;
        println!(
            "| {name} | {} | {} | {} | {} | {} | {} | {:.0} / {:.0} |",
            since(Some(last)),
            since(note("suspect")),
            since(note("view-change")),
            since(note("view")),
            since(Some(first)),
            report.failovers,
            within(FROM_US, AT_US),
            within((seconds - 2) * 1_000_000, seconds * 1_000_000),
        );
    }
    println!();
}

/// All tables of NeoBFT.
pub fn tables(effort: &Effort) {
    load(effort);
    drops(effort);
    scale(effort);
    failover(effort);
}
