//! The schedule of a scenario's faults.

use crate::{
    node::Role,
    scenario::{Behaviour, Fault, Scenario, SequencerFault},
};
use corniche_testkit::{Links, Micros};
use std::collections::VecDeque;

/// A change of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Crash(usize),
    LoseDisk(usize),
    Restart(usize),
    Partition(Vec<Vec<usize>>),
    Heal,
    /// Delays and losses of links begin or end: all links are set again.
    Links,
    /// Nodes become slow or fast: all speeds are set again.
    Speeds,
    /// A node registers with stake.
    Join(usize),
    /// A validator withdraws its stake.
    Leave(usize),
    /// A validator replaces its keys.
    Rotate(usize),
    /// Validators begin or stop to make no or wrong notices: all are set again.
    Notices,
    /// The sequencer of the multicast group becomes faulty.
    Sequencer(SequencerFault),
}

/// The future changes.
pub struct Schedule(VecDeque<(Micros, Change)>);

impl Schedule {
    pub fn new(scenario: &Scenario, roles: &[Role]) -> Self {
        let mut changes: Vec<(u64, Change)> = scenario.faults.iter().flat_map(|fault| changes(fault, roles)).collect();
        // Within one instant, changes that end a fault come first, then file order.
        changes.sort_by_key(|(at, change)| (*at, !matches!(change, Change::Heal | Change::Restart(_))));
        Self(changes.into_iter().map(|(at, change)| (Micros::START + Micros(at), change)).collect())
    }

    pub fn next_at(&self) -> Micros {
        self.0.front().map_or(Micros::NEVER, |(at, _)| *at)
    }

    /// Returns the next change that is due.
    pub fn take(&mut self, now: Micros) -> Option<Change> {
        self.0.pop_front_if(|(at, _)| *at <= now).map(|(_, change)| change)
    }

    /// Puts a change off.
    pub fn retry(&mut self, at: Micros, change: Change) {
        let place = self.0.partition_point(|(other, _)| *other <= at);
        self.0.insert(place, (at, change));
    }

    /// True if changes are left that a run waits for.
    pub fn has_changes_of_committee(&self) -> bool {
        self.0.iter().any(|(_, change)| matches!(change, Change::Join(_) | Change::Leave(_) | Change::Rotate(_)))
    }

    /// True if a node makes no notices at `now`, and true if its dealings are wrong.
    pub fn conduct(&self, scenario: &Scenario, now: Micros, node: usize) -> (bool, bool) {
        let now = (now - Micros::START).0;
        let active = || scenario.faults.iter().filter(|fault| is_active(fault, now));
        let is_silent = active().any(|fault| matches!(fault, Fault::NoNotices { nodes, .. } if nodes.contains(&node)));
        let deals_badly = active().any(|fault| matches!(fault, Fault::BadDealer { nodes, .. } if nodes.contains(&node)));
        (is_silent, deals_badly)
    }

    /// Additional time that `node` needs at `now` to execute a block, and to make a write durable.
    pub fn slowness(&self, scenario: &Scenario, now: Micros, node: usize) -> (Micros, Micros) {
        let now = (now - Micros::START).0;
        let slow = scenario.faults.iter().filter(|fault| is_active(fault, now)).filter_map(|fault| match fault {
            Fault::Slow { nodes, execute_us, write_us, .. } if nodes.contains(&node) => Some((*execute_us, *write_us)),
            _ => None,
        });
        let (execute, write) = slow.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        (Micros(execute), Micros(write))
    }

    /// Sets every link as the scenario defines it at `now`.
    pub fn set_links(&self, scenario: &Scenario, now: Micros, links: &mut Links) {
        let now = (now - Micros::START).0;
        for fault in scenario.faults.iter().filter(|fault| is_active(fault, now)) {
            if let Fault::Byzantine { nodes, .. } = fault {
                nodes.iter().for_each(|node| links.port(*node).delay = Micros(scenario.network.adversary_delay_us));
            }
        }
        let active: Vec<&Fault> = scenario.faults.iter().filter(|fault| is_active(fault, now)).collect();
        for from in 0..scenario.nodes {
            for to in (0..scenario.nodes).filter(|to| *to != from) {
                let (mut delay, mut kept) = (scenario.network.one_way_us(from, to), 1_000_000u64);
                for fault in &active {
                    match fault {
                        Fault::Delay { links, extra_us, .. } if links.contain(from, to) => delay += extra_us,
                        Fault::Loss { links, fraction_ppm, .. } if links.contain(from, to) => {
                            kept = kept * (1_000_000 - u64::from(*fraction_ppm)) / 1_000_000;
                        }
                        _ => {}
                    }
                }
                links.set_delay(from, to, Micros(delay));
                links.set_loss(from, to, (1_000_000 - kept) as u32);
            }
        }
    }
}

fn is_active(fault: &Fault, now: u64) -> bool {
    match fault {
        Fault::Delay { at_us, until_us, .. }
        | Fault::Loss { at_us, until_us, .. }
        | Fault::Slow { at_us, until_us, .. }
        | Fault::NoNotices { at_us, until_us, .. }
        | Fault::BadDealer { at_us, until_us, .. } => (*at_us..*until_us).contains(&now),
        Fault::Byzantine { at_us, behaviour: Behaviour::Late, .. } => *at_us <= now,
        _ => false,
    }
}

fn changes(fault: &Fault, roles: &[Role]) -> Vec<(u64, Change)> {
    let restart = |nodes: &[usize], at: Option<u64>| -> Vec<_> {
        at.into_iter().flat_map(|at| nodes.iter().map(move |node| (at, Change::Restart(*node))).collect::<Vec<_>>()).collect()
    };
    match fault {
        Fault::Crash { at_us, nodes, restart_at_us } => {
            let crashes = nodes.iter().map(|node| (*at_us, Change::Crash(*node)));
            crashes.chain(restart(nodes, *restart_at_us)).collect()
        }
        Fault::DiskLoss { at_us, nodes, restart_at_us } => {
            let losses = nodes.iter().map(|node| (*at_us, Change::LoseDisk(*node)));
            losses.chain(restart(nodes, *restart_at_us)).collect()
        }
        Fault::Partition { at_us, until_us, groups } => {
            vec![(*at_us, Change::Partition(with_copies(groups, roles))), (*until_us, Change::Heal)]
        }
        Fault::Delay { at_us, until_us, .. } | Fault::Loss { at_us, until_us, .. } => {
            vec![(*at_us, Change::Links), (*until_us, Change::Links)]
        }
        Fault::Sequencer { at_us, fault } => vec![(*at_us, Change::Sequencer(fault.clone()))],
        Fault::Slow { at_us, until_us, .. } => vec![(*at_us, Change::Speeds), (*until_us, Change::Speeds)],
        Fault::Join { at_us, nodes } => nodes.iter().map(|node| (*at_us, Change::Join(*node))).collect(),
        Fault::Leave { at_us, nodes } => nodes.iter().map(|node| (*at_us, Change::Leave(*node))).collect(),
        Fault::Rotate { at_us, nodes } => nodes.iter().map(|node| (*at_us, Change::Rotate(*node))).collect(),
        Fault::NoNotices { at_us, until_us, .. } | Fault::BadDealer { at_us, until_us, .. } => {
            vec![(*at_us, Change::Notices), (*until_us, Change::Notices)]
        }
        Fault::Byzantine { at_us, behaviour: Behaviour::Late, .. } => vec![(*at_us, Change::Links)],
        Fault::Byzantine { at_us, nodes, .. } => {
            let copies = roles.iter().filter(|role| role.process != role.identity && nodes.contains(&role.identity));
            copies.map(|copy| (*at_us, Change::Restart(copy.process))).collect()
        }
    }
}

/// The copy of a Byzantine validator joins the group after the original's, so that a pair with one key gets the most
/// from a partition.
fn with_copies(groups: &[Vec<usize>], roles: &[Role]) -> Vec<Vec<usize>> {
    let mut all = groups.to_vec();
    for copy in roles.iter().filter(|role| role.process != role.identity) {
        let of_original = groups.iter().position(|group| group.contains(&copy.identity)).unwrap_or(0);
        all[(of_original + 1) % groups.len()].push(copy.process);
    }
    all
}
