//! Networks in which the engines run.

use crate::common::{FIVE_REGIONS, LOCK_STEP, measured};
use corniche_simulator::{
    Probe, Report, Sample, Scenario, Spread, Verdict,
    plot::{COLOURS, Curve, Plot, Scale},
    scenario::{Adversary, Cost, Disk, Fault, Links, parse},
    simulate_with,
};
use std::{ops::Range, path::Path};

pub use corniche_simulator::scenario::EngineName as Engine;

/// The four regions of Autobahn's paper.
const FOUR_REGIONS: &str = include_str!("../../../../testnet/scenarios/four-regions.toml");

/// Directory of the plots.
const IMAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/images");

/// Engines that the papers' blips are about.
pub const BOTH: [Engine; 2] = [Engine::MahiMahi, Engine::Autobahn];
/// Engines that need nothing but validators.
pub const ALL: [Engine; 6] = [Engine::MahiMahi, Engine::Autobahn, Engine::Mir, Engine::QuePaxa, Engine::Racs, Engine::Baxos];

/// Five sites, with one validator each.
pub struct Sites {
    pub names: [&'static str; 5],
    /// Round trips between them, ms.
    pub rtt_ms: [[u32; 5]; 5],
}

/// A network with an engine.
#[derive(Clone)]
pub struct Setting(pub Scenario);

impl Setting {
    /// The regions of Autobahn's paper.
    pub fn four_regions(engine: Engine, nodes: usize) -> Self {
        Self::of(FOUR_REGIONS, engine, nodes)
    }

    /// The regions of Mahi-Mahi's thesis.
    pub fn five_regions(engine: Engine, nodes: usize) -> Self {
        Self::of(FIVE_REGIONS, engine, nodes)
    }

    /// Links of 50 ms; nothing else takes time. Mahi-Mahi's rounds follow as soon as the messages arrive.
    pub fn lock_step(engine: Engine, nodes: usize) -> Self {
        let head = format!("engine = \"{}\"\nnodes = {nodes}\nduration = \"60s\"\n", engine.id());
        let setting = Self::of(&format!("{head}{LOCK_STEP}[load]\nrate = 200\n"), engine, nodes);
        match engine {
            // All messages of a round arrive at one instant: no validator proposes before the last of them.
            Engine::MahiMahi => setting.parameter("min_round_ms", 0).parameter("parent_grace_ms", 5),
            Engine::Autobahn => setting.parameter("car_interval_ms", 0),
            Engine::Neobft => setting.parameter("request_interval_ms", 0),
            Engine::Mir => setting.parameter("batch_interval_ms", 1).parameter("fill_ms", 0),
            Engine::QuePaxa | Engine::Racs | Engine::Baxos => setting.parameter("batch_interval_ms", 0),
        }
    }

    /// One data centre with links of 50 µs and disks of 100 µs, and the default costs of processors. No engine waits for more
    /// news than it needs. A block takes 20 ms, so that certificates of blocks do not decide.
    pub fn data_centre(engine: Engine, nodes: usize) -> Self {
        let head = format!("engine = \"{}\"\nnodes = {nodes}\nblock_ms = 20\nduration = \"60s\"\n", engine.id());
        let network = "[network]\ndelay_ms = 0.05\njitter = 0.2\n[disk]\nlatency_ms = 0.1\n[load]\nrate = 200\n";
        let setting = Self::of(&format!("{head}{network}"), engine, nodes);
        match engine {
            Engine::MahiMahi => setting.parameter("min_round_ms", 1).parameter("parent_grace_ms", 1),
            Engine::Autobahn => {
                setting.parameter("car_interval_ms", 1).parameter("fast_wait_ms", 1).parameter("coverage_wait_ms", 1)
            }
            Engine::Neobft => setting.parameter("request_interval_ms", 1).parameter("max_stretch", 1),
            Engine::Mir => setting.parameter("batch_interval_ms", 1).parameter("max_stretch", 1),
            Engine::QuePaxa | Engine::Racs | Engine::Baxos => {
                setting.parameter("batch_interval_ms", 1).parameter("max_stretch", 1)
            }
        }
    }

    /// One site with links of 2 ms, and the default costs of processors and disks.
    pub fn local(engine: Engine, nodes: usize) -> Self {
        let head = format!("engine = \"{}\"\nnodes = {nodes}\nduration = \"60s\"\n", engine.id());
        Self::of(&format!("{head}[network]\ndelay_ms = 2\njitter = 0.2\n[load]\nrate = 200\n"), engine, nodes)
    }

    /// One validator at each site, and transactions of 512 B. Links vary by 5 %.
    pub fn sites(sites: &Sites, engine: Engine) -> Self {
        let Sites { names, rtt_ms } = sites;
        let head = format!("engine = \"{}\"\nnodes = {}\nduration = \"60s\"\n", engine.id(), names.len());
        let network = format!("[network]\nregions = {names:?}\nrtt_ms = {rtt_ms:?}\njitter = 0.05\n");
        Self::of(&format!("{head}{network}[load]\nrate = 200\ntx_bytes = 512\n"), engine, names.len())
    }

    /// The network and the load of a scenario file.
    fn of(text: &str, engine: Engine, nodes: usize) -> Self {
        let mut scenario = parse(text).expect("the scenario is part of the repository");
        scenario.engine = engine.id().to_owned();
        scenario.nodes = nodes;
        scenario.faults.clear();
        Self(scenario)
    }

    /// Processors and disks take no time, and links do not vary, as in a model.
    pub fn frictionless(mut self) -> Self {
        self.0.network.jitter_ppm = 0;
        self.0.network.bytes_per_second = 1_250_000_000_000;
        self.0.disk = Disk { latency_us: 0, bytes_per_second: 1_250_000_000_000 };
        self.0.cost = Cost { sign_us: 0, verify_us: 0, recover_us: 0, share_us: 0, combine_us: 0 };
        self
    }

    pub fn seconds(mut self, seconds: u64) -> Self {
        self.0.duration_us = seconds * 1_000_000;
        self.0.load.stop_us = self.0.duration_us;
        self
    }

    /// Transactions per second of all clients together.
    pub fn rate(mut self, rate: f64) -> Self {
        self.0.load.millirate = (rate * 1_000.0) as u64;
        self
    }

    /// Clients do not turn to another validator.
    pub fn loyal(mut self) -> Self {
        self.0.load.patience_us = 600_000_000;
        self
    }

    pub fn parameter(mut self, name: &str, value: u64) -> Self {
        self.0.engine_config.insert(name.to_owned(), value);
        self
    }

    pub fn fault(mut self, fault: Fault) -> Self {
        self.0.faults.push(fault);
        self
    }

    /// From `at_us` to `until_us`, all that these nodes send takes longer.
    pub fn slow_egress(self, nodes: Vec<usize>, at_us: u64, until_us: u64, extra_us: u64) -> Self {
        let links = Links::Between { from: nodes, to: (0..self.0.nodes).collect() };
        self.fault(Fault::Delay { at_us, until_us, links, extra_us })
    }

    /// An adversary that holds messages back for at most `held_us`.
    pub fn adversary(mut self, adversary: Adversary, held_us: u64) -> Self {
        self.0.network.adversary = adversary;
        self.0.network.adversary_delay_us = held_us;
        self
    }

    pub fn run(&self, seed: u64) -> Report {
        measured(&self.0, seed, Probe::default())
    }
}

impl Setting {
    /// Like [`Self::run`], but an engine may leave transactions uncommitted at the end.
    pub fn run_any(&self, seed: u64) -> Report {
        self.run_probed(seed, Probe::default())
    }

    /// Like [`Self::run_any`], with an observer.
    pub fn run_probed(&self, seed: u64, probe: Probe) -> Report {
        let report = simulate_with(&self.0, seed, None, probe).expect("the scenario is complete");
        assert_ne!(report.verdict, Verdict::Diverged, "{}", report.text());
        report
    }
}

/// Transactions that were committed in these seconds of the run, per second.
pub fn throughput(report: &Report, seconds: Range<u64>) -> f64 {
    let length = seconds.end - seconds.start;
    let inside = report.timeline.iter().filter(|second| seconds.contains(&second.second));
    inside.map(|second| second.committed as f64).sum::<f64>() / length as f64
}

/// Plots the transactions that runs committed in each second.
pub fn plot_throughput<'a>(file: &str, title: &str, seconds: u64, runs: impl IntoIterator<Item = (&'static str, &'a Report)>) {
    let points = |report: &Report| report.timeline.iter().map(|it| (it.second as f64 + 0.5, it.committed as f64)).collect();
    let curve =
        |((name, report), colour): ((&'static str, &Report), &&'static str)| Curve { name, colour, points: points(report) };
    let curves: Vec<_> = runs.into_iter().zip(&COLOURS).map(curve).collect();
    let most = curves.iter().flat_map(|curve| &curve.points).map(|(_, count)| *count).fold(1.0, f64::max);
    let (remark, window) = ("transactions committed in each second", (0.0, seconds as f64));
    write_plot(file, &Plot { title, remark, axis: "time", blip: None, window, scale: Scale::Count(most), curves });
}

/// Median latency of the transactions of each second of submission, ms.
fn medians(report: &Report, seconds: u64) -> Vec<(f64, f64)> {
    let median = |second: u64| {
        let spread = Spread::of(&mut latencies(report, second..second + 1))?;
        Some((second as f64 + 0.5, spread.p50 as f64 / 1_000.0))
    };
    (0..seconds).filter_map(median).collect()
}

/// Latencies of the transactions that were submitted in these seconds, µs.
pub fn latencies(report: &Report, seconds: Range<u64>) -> Vec<u64> {
    let submitted = seconds.start * 1_000_000..seconds.end * 1_000_000;
    let counts = |sample: &&Sample| submitted.contains(&sample.submitted_us);
    report.transactions.iter().filter(counts).map(|sample| sample.latency_us).collect()
}

/// Plots the median latency of runs, up to `most_ms`, a power of ten. `blip` is the period of a fault.
pub fn plot_medians<'a>(
    (file, title): (&str, &str),
    (seconds, most_ms): (u64, f64),
    blip: Option<(&str, f64, f64)>,
    runs: impl IntoIterator<Item = (&'static str, &'a Report)>,
) {
    let curve = |((name, report), colour): ((&'static str, &Report), &&'static str)| Curve {
        name,
        colour,
        points: medians(report, seconds),
    };
    let plot = Plot {
        title,
        remark: "median of each second, submission to commit",
        axis: "submitted at",
        blip,
        window: (0.0, seconds as f64),
        scale: Scale::Milliseconds(100.0, most_ms),
        curves: runs.into_iter().zip(&COLOURS).map(curve).collect(),
    };
    write_plot(file, &plot);
}

/// Writes a plot for the documentation.
pub fn write_plot(file: &str, plot: &Plot<'_>) {
    let path = Path::new(IMAGES).join(format!("{file}.svg"));
    std::fs::create_dir_all(IMAGES).and_then(|()| std::fs::write(&path, plot.svg())).expect("docs/images can be written");
    eprintln!("wrote {}", path.display());
}

/// Mean of all latencies, ms.
pub fn mean_ms(reports: &[Report]) -> f64 {
    let all = || reports.iter().flat_map(|report| &report.transactions);
    all().map(|sample| sample.latency_us as f64).sum::<f64>() / all().count() as f64 / 1_000.0
}

/// Mean latency if each transaction is alone in the network, ms: one of each client at each position in the order. Only
/// messages take time.
pub fn alone(setting: &Setting, nodes: usize) -> f64 {
    let mut setting = setting.clone();
    if setting.0.engine == Engine::Autobahn.id() {
        // No waiting for further news either.
        setting = setting.parameter("coverage", 1).parameter("availability_wait_ms", 0);
    }
    let runs = (0..nodes).map(|first_node| {
        let mut setting = setting.clone().rate(0.2).seconds(5 * nodes as u64 + 1);
        // All validators are connected by then.
        setting.0.load.start_us = 1_000_000;
        // Transaction i belongs to client i + first_node. Autobahn orders it in slot i + 1, so every origin meets every
        // leader.
        setting.0.load.first_node = first_node;
        setting.run(1)
    });
    mean_ms(&runs.collect::<Vec<_>>())
}
