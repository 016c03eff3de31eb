//! One network with one protocol, and the results of its run.

use crate::common::{FIVE_REGIONS, LOCK_STEP, measured};
use corniche_engine::TraceEvent;
use corniche_mahi_mahi::Config;
use corniche_mahi_mahi_testing::cordial_miners;
use corniche_simulator::{
    Probe, Report, Scenario, Tune,
    scenario::{Fault, parse},
};
use corniche_testkit::Micros;
use std::{cell::RefCell, collections::BTreeMap, fmt, rc::Rc};

const LOAD: &str = "[load]\nrate = 200\ntx_bytes = 128\n";
/// Rounds excluded at both ends of a run: the first have no history, and of the last only the quick ones are decided.
const EDGE: u64 = 12;

/// Protocol that orders the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    MahiMahi {
        w: u64,
        leaders: u64,
    },
    /// On the same DAG and with equal pacing: `cordial_miners`.
    CordialMiners,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MahiMahi { w, leaders } => write!(f, "MM-{w}, ℓ = {leaders}"),
            Self::CordialMiners => write!(f, "Cordial Miners"),
        }
    }
}

/// A network with a protocol.
#[derive(Clone)]
pub struct Experiment {
    pub scenario: Scenario,
    pub protocol: Protocol,
}

/// Results of a run.
pub struct Outcome {
    pub report: Report,
    /// Mean time between two proposals of one node, µs.
    pub round_us: f64,
    /// Outcome of each leader slot by round and rank, without the ends of the run.
    slots: BTreeMap<(u64, u16), Decided>,
}

impl Experiment {
    /// n = 10 in lock-step.
    pub fn lock_step(protocol: Protocol, crashed: &[usize], seconds: u64) -> Self {
        // All messages of a round arrive at one instant: no validator proposes before the last of them, and none waits
        // for the crashed.
        let grace = if crashed.is_empty() { 5 } else { 0 };
        Self::new(protocol, 10, &format!("{LOCK_STEP}{LOAD}")).seconds(seconds).pace(0, grace).crash(crashed)
    }

    /// The five regions at 200 transactions per second, with the engine's own pacing.
    pub fn regions(protocol: Protocol, nodes: usize, crashed: &[usize], seconds: u64) -> Self {
        let mut scenario = parse(FIVE_REGIONS).expect("the scenario is part of the repository");
        scenario.nodes = nodes;
        // So little load does not affect the latency, and the runs take less time.
        scenario.load.millirate = 200_000;
        Self { scenario, protocol }.seconds(seconds).crash(crashed)
    }

    /// Validators in one room: round trips of 0.5 ms.
    pub fn room(protocol: Protocol, seconds: u64) -> Self {
        let text = "[network]\ndelay_ms = 0.25\njitter = 0.05\n[load]\nrate = 200\ntx_bytes = 512\n";
        Self::new(protocol, 10, text).seconds(seconds)
    }

    /// Links of 20 ms with an adversary that may hold a message for 500 ms.
    pub fn under(adversary: &str, protocol: Protocol, nodes: usize, seconds: u64) -> Self {
        let network =
            format!("[network]\ndelay_ms = 20\njitter = 0.2\nadversary = \"{adversary}\"\nadversary_delay_ms = 500\n");
        Self::new(protocol, nodes, &format!("{network}[load]\nrate = 100\ntx_bytes = 200\n")).seconds(seconds).pace(0, 0)
    }

    fn new(protocol: Protocol, nodes: usize, rest: &str) -> Self {
        let text = format!("engine = \"mahi-mahi\"\nnodes = {nodes}\nduration = \"1s\"\n{rest}");
        Self { scenario: parse(&text).expect("the scenario is written here"), protocol }
    }

    pub fn seconds(mut self, seconds: u64) -> Self {
        self.scenario.duration_us = seconds * 1_000_000;
        self.scenario.load.stop_us = self.scenario.duration_us;
        self
    }

    pub fn pace(self, min_round_ms: u64, parent_grace_ms: u64) -> Self {
        self.parameter("min_round_ms", min_round_ms).parameter("parent_grace_ms", parent_grace_ms)
    }

    pub fn parameter(mut self, name: &str, value: u64) -> Self {
        self.scenario.engine_config.insert(name.to_owned(), value);
        self
    }

    /// These nodes are down from the beginning.
    fn crash(mut self, nodes: &[usize]) -> Self {
        if !nodes.is_empty() {
            self.scenario.faults.push(Fault::Crash { at_us: 0, nodes: nodes.to_vec(), restart_at_us: None });
        }
        self
    }

    pub fn run(mut self, seed: u64) -> Outcome {
        let tune: Option<Tune> = match self.protocol {
            Protocol::MahiMahi { w, leaders } => {
                self = self.parameter("wave_length", w).parameter("leaders", leaders);
                None
            }
            Protocol::CordialMiners => Some(Tune::MahiMahi(|config| {
                let Config { wave_length, leaders, baseline, .. } = cordial_miners();
                (config.wave_length, config.leaders, config.baseline) = (wave_length, leaders, baseline);
            })),
        };
        let crashed = |node: &usize| matches!(&self.scenario.faults[..], [Fault::Crash { nodes, .. }] if nodes.contains(node));
        let witness = (0..self.scenario.nodes).find(|node| !crashed(node)).expect("not all are crashed");
        let log = Rc::new(RefCell::new(Log { witness, end_us: self.scenario.duration_us, ..Log::default() }));
        let heard = log.clone();
        let trace = Box::new(move |now: Micros, node: usize, event: &TraceEvent| heard.borrow_mut().hear(now.0, node, event));
        let report = measured(&self.scenario, seed, Probe { tune, observer: Some(trace) });
        let Log { proposals, mut decided, .. } = log.take();
        let (first, last) = (proposals[0], proposals[proposals.len() - 1]);
        let round_us = (last.1 - first.1) as f64 / (last.0 - first.0) as f64;
        decided.retain(|(round, _), _| *round > EDGE && *round + EDGE < last.0);
        Outcome { report, round_us, slots: decided }
    }
}

/// Outcome of a leader slot.
#[derive(Clone, Copy)]
struct Decided {
    leader: usize,
    rule: Rule,
}

/// The rule that decided a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// D3.
    Commit,
    /// D4.
    Skip,
    /// D5, commit or skip.
    Anchor,
}

/// Trace of one node's engine.
#[derive(Default)]
struct Log {
    witness: usize,
    end_us: u64,
    /// Rounds and times of its proposals, until the load ended.
    proposals: Vec<(u64, u64)>,
    decided: BTreeMap<(u64, u16), Decided>,
}

impl Log {
    fn hear(&mut self, now: u64, node: usize, event: &TraceEvent) {
        match event {
            _ if node != self.witness => {}
            TraceEvent::Proposed(vertex) if now < self.end_us => self.proposals.push((vertex.id.round, now)),
            TraceEvent::Decided { round, rank, leader, why, .. } => {
                let rule = match why.as_str() {
                    why if why.starts_with("direct:") => Rule::Commit,
                    why if why.contains("anchor") => Rule::Anchor,
                    _ => Rule::Skip,
                };
                self.decided.insert((*round, *rank), Decided { leader: leader.as_usize(), rule });
            }
            _ => {}
        }
    }
}

impl Outcome {
    /// Mean, p50 and p99 of the time from a submission to its commit at the same node, ms.
    pub fn latency_ms(&self) -> [f64; 3] {
        let latency = self.report.latency.expect("something was committed");
        [latency.mean, latency.p50, latency.p99].map(|us| us as f64 / 1_000.0)
    }

    /// Mean latency, in mean delays between two nodes.
    pub fn latency_delays(&self) -> f64 {
        self.latency_ms()[0] * 1_000.0 / self.report.delay_us as f64
    }

    /// Mean time from a block's proposal to its commit at its author, µs.
    pub fn commit_us(&self) -> f64 {
        self.report.commit.expect("something was committed").mean as f64
    }

    /// `commit_us` in mean delays between two nodes.
    pub fn commit_delays(&self) -> f64 {
        self.commit_us() / self.report.delay_us as f64
    }

    /// `commit_us` in rounds.
    pub fn commit_rounds(&self) -> f64 {
        self.commit_us() / self.round_us
    }

    /// Number of leader slots in the evaluation.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Share of the slots that this rule decided.
    pub fn decided_by(&self, rule: Rule) -> f64 {
        self.slots.values().filter(|slot| slot.rule == rule).count() as f64 / self.slots.len() as f64
    }

    /// Share among the slots of leaders for which `of` is true.
    pub fn decided_by_of(&self, rule: Rule, of: impl Fn(usize) -> bool) -> f64 {
        let slots = || self.slots.values().filter(|slot| of(slot.leader));
        slots().filter(|slot| slot.rule == rule).count() as f64 / slots().count() as f64
    }

    /// Share of the rounds in which the direct rule committed at least one leader.
    pub fn direct_rounds(&self) -> f64 {
        let mut rounds = BTreeMap::new();
        for ((round, _), slot) in &self.slots {
            *rounds.entry(round).or_insert(false) |= slot.rule == Rule::Commit;
        }
        rounds.values().filter(|direct| **direct).count() as f64 / rounds.len() as f64
    }
}

/// C(n, k)
pub fn choose(n: u64, k: u64) -> f64 {
    (0..k).map(|i| n.saturating_sub(i) as f64 / (i + 1) as f64).product()
}

/// §9.3 of the specification: mean delays from a block's proposal to its commit, in lock-step with ten validators.
pub fn formula(protocol: Protocol, crashed: u64) -> f64 {
    let Protocol::MahiMahi { w, leaders } = protocol else {
        return cordial_miners_formula(crashed);
    };
    let (w, share) = (w as f64, leaders as f64 / 10.0);
    let all_crashed = choose(crashed, leaders) / choose(10, leaders);
    share * w + (1.0 - share) * (w + 1.0 / (1.0 - all_crashed))
}

/// Waves of five rounds do not overlap. Each has one leader in its first round, which commits 5 delays after its
/// proposal. Blocks of the previous round are then 6 delays old, and so on up to 10 for the other blocks of the
/// previous leader's round: 8 on average. A wave with a crashed leader costs 5 more.
fn cordial_miners_formula(crashed: u64) -> f64 {
    let dead = crashed as f64 / 10.0;
    let dead_waves = 5.0 * dead / (1.0 - dead);
    // One of the blocks of five rounds is a leader, if that validator is up; it does not wait for the next one.
    let leaders = (1.0 - dead) / (5.0 * (10.0 - crashed as f64));
    8.0 + dead_waves - leaders * (5.0 + dead_waves)
}
