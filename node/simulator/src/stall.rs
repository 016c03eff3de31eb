//! Measures how long a network stalled that could have progressed.

use crate::{checks::Checks, network::Network, node::NodeProcess};
use corniche_testkit::{Micros, Simulation};
use std::{collections::BTreeSet, rc::Rc};

/// Longest time without a commit while a quorum was up and connected and transactions were waiting.
pub struct Stall {
    network: Rc<Network>,
    /// Time since when a quorum is up and transactions wait; `None` otherwise.
    since: Option<Micros>,
    longest: Micros,
}

impl Stall {
    pub fn new(network: Rc<Network>) -> Self {
        Self { network, since: None, longest: Micros::ZERO }
    }

    /// Must be called at every change and often in between.
    pub fn observe(&mut self, simulation: &Simulation<NodeProcess>, checks: &Checks) {
        if let Some(since) = self.since {
            // The network made progress until the last commit; earlier stalls are already counted.
            let last = checks.last_commit().max(since);
            self.longest = self.longest.max(simulation.now() - last);
        }
        let able = !checks.all_committed() && self.has_quorum(simulation, checks);
        self.since = able.then(|| self.since.unwrap_or(simulation.now()));
    }

    pub fn longest(&self) -> Micros {
        self.longest
    }

    /// Returns true if a quorum of honest nodes is up and connected.
    fn has_quorum(&self, simulation: &Simulation<NodeProcess>, checks: &Checks) -> bool {
        let upright: Vec<usize> =
            (0..simulation.size()).filter(|process| simulation.is_up(*process) && checks.is_honest_process(*process)).collect();
        let (committee, names) = (self.network.checker.newest(), &self.network.secrets.names);
        let company = |one: usize| {
            let others = upright.iter().filter(|other| **other == one || simulation.is_connected(one, **other));
            let indices = others.filter_map(|process| names.index(&committee, simulation.identity(*process)));
            committee.weigh(indices.collect::<BTreeSet<_>>())
        };
        upright.iter().any(|process| company(*process) >= committee.quorum())
    }
}
