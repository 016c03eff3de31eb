//! Whose turn it is: what this node may propose when the owner did not, and whom it tells meanwhile.

use super::Pool;
use crate::{Standing, buckets::TURN_MS};
use corniche_crypto::VerifiedTransaction;
use corniche_types::{Address, TimestampMs};

impl Pool {
    /// The clock of turns; a pool that is not told of it goes by admissions.
    pub fn tick(&mut self, now: TimestampMs) {
        self.now = self.now.max(now);
        while let Some((_, sender)) = self.held.first().copied().filter(|(due, _)| *due <= self.now) {
            self.reindex(sender);
        }
    }

    /// When something may be proposed here that may not be yet.
    pub fn next_due(&self) -> Option<TimestampMs> {
        self.held.first().map(|(due, _)| *due)
    }

    /// When [`Self::take_turns`] will have something.
    pub fn next_turn(&self) -> Option<TimestampMs> {
        self.turns.first().map(|(ends, _)| *ends)
    }

    /// What this node sees to and was not executed in a turn or more, with the count of turns that ended since it could have
    /// been proposed; each sender's in nonce order, whose turn ended first before the others, and `most` at a time.
    pub fn take_turns(&mut self, most: usize) -> Vec<(u32, VerifiedTransaction)> {
        let mut told = Vec::new();
        let before = TimestampMs(self.now.0.saturating_sub(TURN_MS));
        while told.len() < most {
            let Some((_, sender)) = self.turns.first().copied().filter(|(ends, _)| *ends <= self.now) else { break };
            let queue = self.senders.get_mut(&sender).expect("invariant: only pooled senders have turns");
            let since = queue.proposable_since.expect("invariant: only what could be proposed has turns");
            queue.turns = u32::try_from((self.now.0 - since.0) / TURN_MS).unwrap_or(u32::MAX - 1);
            let (turns, room) = (queue.turns, most - told.len());
            told.extend(queue.ours(before).take(room).map(|entry| (turns, entry.transaction.clone())));
            self.reindex(sender);
        }
        told
    }

    /// The order changed: what came since then may have been sent here by somebody who knew. The others stay with those who
    /// owned them when they came, so that nothing is proposed twice for the sake of a rotation.
    pub fn rotate(&mut self, since: TimestampMs, place: impl Fn(&Address) -> Option<u32>) {
        let recent = |sender: &Address| self.senders[sender].entries().values().any(|entry| entry.arrived_at >= since);
        let senders: Vec<Address> = self.senders.keys().copied().filter(recent).collect();
        for sender in senders {
            let standing = Standing { place: place(&sender), ours: false };
            let queue = self.senders.get_mut(&sender).expect("listed above");
            queue.learn_since(since, standing);
            self.reindex(sender);
        }
    }

    /// One that is here came again, with this standing.
    pub(super) fn learn(&mut self, sender: Address, nonce: u64, standing: Standing) {
        if let Some(queue) = self.senders.get_mut(&sender) {
            queue.learn(nonce, standing);
            self.reindex(sender);
        }
    }
}
