//! How long a network that could have gone on stood still.

use crate::{checks::Checks, node::NodeProcess};
use corniche_testkit::{Micros, World};

/// Longest time without a commit while a quorum was up and connected and something was to be committed.
pub struct Stall {
    quorum: usize,
    /// Since when a quorum is up and something waits; `None` while that is not so.
    since: Option<Micros>,
    longest: Micros,
}

impl Stall {
    pub fn new(quorum: usize) -> Self {
        Self { quorum, since: None, longest: Micros::ZERO }
    }

    /// To be called at every change and often in between.
    pub fn observe(&mut self, world: &World<NodeProcess>, checks: &Checks) {
        if let Some(since) = self.since {
            // Up to the last commit it moved; what was before is known already.
            let last = checks.last_commit().max(since);
            self.longest = self.longest.max(world.now() - last);
        }
        let able = !checks.all_committed() && self.has_quorum(world, checks);
        self.since = able.then(|| self.since.unwrap_or(world.now()));
    }

    pub fn longest(&self) -> Micros {
        self.longest
    }

    /// Whether honest nodes enough for a quorum are up and hear each other.
    fn has_quorum(&self, world: &World<NodeProcess>, checks: &Checks) -> bool {
        let upright: Vec<usize> =
            (0..world.size()).filter(|process| world.is_up(*process) && checks.is_honest_process(*process)).collect();
        let company = |one: usize| upright.iter().filter(|other| **other == one || world.is_connected(one, **other)).count();
        upright.iter().any(|process| company(*process) >= self.quorum)
    }
}
