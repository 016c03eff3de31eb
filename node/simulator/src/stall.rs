//! Measures how long a network stalled that could have progressed.

use crate::{checks::Checks, node::NodeProcess};
use corniche_testkit::{Micros, Simulation};

/// Longest time without a commit while a quorum was up and connected and transactions were waiting.
pub struct Stall {
    quorum: usize,
    /// Time since when a quorum is up and transactions wait; `None` otherwise.
    since: Option<Micros>,
    longest: Micros,
}

impl Stall {
    pub fn new(quorum: usize) -> Self {
        Self { quorum, since: None, longest: Micros::ZERO }
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
        let company =
            |one: usize| upright.iter().filter(|other| **other == one || simulation.is_connected(one, **other)).count();
        upright.iter().any(|process| company(*process) >= self.quorum)
    }
}
