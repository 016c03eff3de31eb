//! The delayed view change of Baxos' paper (figure 3.3): the leader is slow for 4 s at a time, less than the others wait for it, and
//! the attacker follows the leader.

use crate::{
    attacks::milliseconds,
    common::Effort,
    setting::{ALL, Engine, Setting, Sites, latencies, plot_medians, throughput},
};
use corniche_engine::TraceEvent;
use corniche_simulator::{Micros, Probe, Report, Sample, Spread};
use std::{cell::RefCell, collections::BTreeMap, ops::Range, rc::Rc};

const RATE: f64 = 200.0;
/// Additional time of the leader's messages, µs.
const EXTRA_US: u64 = 4_000_000;
/// Each attack takes this long, s.
const LENGTH: u64 = 4;
/// Time from one attack to the next, s.
const PERIOD: u64 = 5;
const SECONDS: u64 = 60;
/// Submitted before, during and after all attacks, s. The first attack already delays the last second before it.
const BEFORE: Range<u64> = 4..9;
const DURING: Range<u64> = 10..40;
const AFTER: Range<u64> = 50..60;
/// A client gives up after this time, µs.
const CLIENT_TIMEOUT_US: u64 = 8_000_000;
/// The paper's timeout of a view, ms.
const PAPER_TIMEOUT_MS: u64 = 5_000;

/// The thesis has no times. Those of 2017 by acomputerscientistlearnsaws.blogspot.com; Hong Kong is Tokyo + 50 ms.
pub const BAXOS_SITES: Sites = Sites {
    names: ["N. Virginia", "Ireland", "N. California", "Tokyo", "Hong Kong"],
    rtt_ms: [
        [1, 80, 72, 145, 195],
        [80, 1, 153, 212, 262],
        [72, 153, 1, 102, 152],
        [145, 212, 102, 1, 50],
        [195, 262, 152, 50, 1],
    ],
};

/// The parameter with the time after which a validator gives up on a leader.
fn timer(engine: Engine) -> Option<&'static str> {
    match engine {
        Engine::Racs | Engine::Mir => Some("timeout_ms"),
        Engine::Autobahn => Some("view_timeout_ms"),
        _ => None,
    }
}

struct Run {
    engine: Engine,
    has_paper_timeout: bool,
    victims: Vec<usize>,
    report: Report,
}

impl Run {
    fn new(engine: Engine, timeout: Option<&str>) -> Self {
        let mut setting = Setting::sites(&BAXOS_SITES, engine).rate(RATE).seconds(SECONDS).loyal();
        if let Some(name) = timeout {
            setting = setting.parameter(name, PAPER_TIMEOUT_MS);
        }
        let (setting, victims) = attack(setting);
        Self { engine, has_paper_timeout: timeout.is_some(), victims, report: setting.run_any(1) }
    }

    fn latency(&self, seconds: Range<u64>) -> String {
        milliseconds(Spread::of(&mut latencies(&self.report, seconds)))
    }

    /// During the attacks, without the clients of the attacked validator.
    fn latency_of_others(&self) -> String {
        let is_other = |sample: &&Sample| {
            let second = sample.submitted_us / 1_000_000;
            DURING.contains(&second) && sample.client != self.victims[((second - DURING.start) / PERIOD) as usize]
        };
        let samples = self.report.transactions.iter().filter(is_other);
        milliseconds(Spread::of(&mut samples.map(|sample| sample.latency_us).collect::<Vec<_>>()))
    }

    /// Share of the transactions of the attack that were committed before their clients gave up.
    fn in_time(&self) -> f64 {
        let all = latencies(&self.report, DURING);
        all.iter().filter(|latency_us| **latency_us <= CLIENT_TIMEOUT_US).count() as f64 / all.len() as f64
    }

    fn print(&self) {
        let victims: Vec<_> = self.victims.iter().map(usize::to_string).collect();
        println!(
            "| {}{} | {} | {} | {} | {} | {} | {:.1} % | {:.1} % |",
            self.engine.title(),
            if self.has_paper_timeout { ", timer 5 s" } else { "" },
            victims.join(" "),
            self.latency(BEFORE),
            self.latency(DURING),
            self.latency_of_others(),
            self.latency(AFTER),
            100.0 * throughput(&self.report, DURING) / RATE,
            100.0 * self.in_time(),
        );
    }
}

/// Finds the leader at the start of each attack, and slows it down. Runs are functions of the scenario, so a run without the later
/// attacks shows the leader. Returns the attacked validators, too.
fn attack(setting: Setting) -> (Setting, Vec<usize>) {
    DURING.step_by(PERIOD as usize).fold((setting, Vec::new()), |(setting, mut victims), start| {
        let victim = leader(&setting, start);
        victims.push(victim);
        (setting.slow_egress(vec![victim], start * 1_000_000, (start + LENGTH) * 1_000_000, EXTRA_US), victims)
    })
}

/// The validator that led most decisions of the second before.
fn leader(setting: &Setting, at_s: u64) -> usize {
    let tally: Rc<RefCell<BTreeMap<usize, u64>>> = Rc::default();
    let (counted, last) = (tally.clone(), (at_s - 1) * 1_000_000..at_s * 1_000_000);
    let observer = Box::new(move |now: Micros, _: usize, event: &TraceEvent| {
        if let TraceEvent::Decided { leader, .. } = event
            && last.contains(&(now - Micros::START).0)
        {
            *counted.borrow_mut().entry(leader.as_usize()).or_default() += 1;
        }
    });
    setting.clone().seconds(at_s).run_probed(1, Probe { observer: Some(observer), tune: None });
    let tally = tally.borrow();
    tally.iter().max_by_key(|(_, count)| **count).map_or(0, |(leader, _)| *leader)
}

pub fn table(effort: &Effort) {
    println!(
        "| engine | attacked | submitted before: mean / p50 / p99, ms | during | during, clients of the others | after | committed during, of submitted | of those within 8 s |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    // The paper's timer, where there is one. Engines with a timer also run with their own.
    let paper = ALL.map(|engine| Run::new(engine, timer(engine)));
    paper.iter().for_each(Run::print);
    if effort.full {
        ALL.into_iter().filter(|engine| timer(*engine).is_some()).for_each(|engine| Run::new(engine, None).print());
        let names = ("attack-view-change", "The leader is 4 s late, for 4 s at a time");
        let blip = Some(("attack", DURING.start as f64, DURING.end as f64));
        plot_medians(names, (SECONDS, 100_000.0), blip, paper.iter().map(|run| (run.engine.title(), &run.report)));
    }
    println!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_simulator::scenario::Fault;

    /// The first leader of SADL-RACS is validator 0, and leaders change only when they fail.
    #[test]
    fn attacker_finds_the_leader() {
        let setting = Setting::sites(&BAXOS_SITES, Engine::Racs).rate(RATE);
        assert_eq!(leader(&setting, 4), 0);
        let crashed = Fault::Crash { at_us: 1_000_000, nodes: vec![0], restart_at_us: None };
        assert_eq!(leader(&setting.fault(crashed), 8), 1);
    }
}
