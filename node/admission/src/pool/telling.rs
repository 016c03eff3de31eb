//! Whose turn it is: what this node may propose when the owner did not, and whom it tells meanwhile.

use super::Pool;
use crate::{MIN_TURN_MS, Standing, TURN_MS};
use corniche_crypto::VerifiedTransaction;
use corniche_types::{Address, B256, TimestampMs, ValidatorIndex};

/// How long a transaction has waited for a proposer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited {
    /// Since when it could have been proposed: it was here and the sender's next one.
    pub since: TimestampMs,
    pub came_at: TimestampMs,
    /// Validators that this node sent it to when it came.
    pub asked: Vec<ValidatorIndex>,
}

impl Pool {
    /// The clock of turns; a pool that is not told of it goes by admissions.
    pub fn tick(&mut self, now: TimestampMs) {
        self.now = self.now.max(now);
        while let Some((_, sender)) = self.held.first().copied().filter(|(due, _)| *due <= self.now) {
            self.reindex(sender);
        }
    }

    /// Sets the length of a turn, within bounds.
    pub fn set_turn(&mut self, ms: u64) {
        let ms = ms.clamp(MIN_TURN_MS, TURN_MS);
        if ms != self.turn_ms {
            self.turn_ms = ms;
            let senders: Vec<Address> = self.senders.keys().copied().collect();
            senders.into_iter().for_each(|sender| self.reindex(sender));
        }
    }

    /// Length of a turn, ms.
    pub fn turn(&self) -> u64 {
        self.turn_ms
    }

    /// This node sent a transaction to these validators when it came.
    pub fn set_asked(&mut self, hash: &B256, asked: Vec<ValidatorIndex>) {
        if let Some((sender, nonce)) = self.by_hash.get(hash)
            && let Some(queue) = self.senders.get_mut(sender)
        {
            queue.set_asked(*nonce, asked);
        }
    }

    /// How long a transaction has waited; `None` where it is not the next one of its sender.
    pub fn waited(&self, hash: &B256) -> Option<Waited> {
        let (sender, nonce) = self.by_hash.get(hash)?;
        let (first, since) = self.senders.get(sender)?.first_since()?;
        let is_first = first.transaction.nonce() == *nonce;
        is_first.then(|| Waited { since, came_at: first.arrived_at, asked: first.asked.clone() })
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
    /// been proposed; each sender's in nonce order, whose turn ended first before the others, and at a time so many, with at
    /// most so many bytes after the first one.
    pub fn take_turns(&mut self, most: usize, most_bytes: usize) -> Vec<(u32, VerifiedTransaction)> {
        let mut told = Vec::new();
        let mut bytes = 0;
        while let Some((_, sender)) = self.turns.first().copied().filter(|(ends, _)| *ends <= self.now) {
            let queue = self.senders.get_mut(&sender).expect("invariant: only pooled senders have turns");
            let before = told.len();
            let turns = queue.turns_by(self.now, self.turn_ms);
            for entry in queue.overdue(self.now, self.turn_ms) {
                let length = entry.transaction.transaction().raw().len();
                if told.len() == most || (!told.is_empty() && bytes + length > most_bytes) {
                    break;
                }
                bytes += length;
                told.push((turns, entry.transaction.clone()));
            }
            // What is left of a sender has its turn when these were executed.
            if told.len() == before && queue.overdue(self.now, self.turn_ms).next().is_some() {
                break;
            }
            queue.turns = turns;
            self.reindex(sender);
        }
        told
    }

    /// A rotation begins, by which this node `owns` some senders. A node whose clock is ahead may have sent it their transactions
    /// that came since then. Those stay with the old owner that it may also have from being told as second
    /// ([`Standing::at_edge`]), so that nothing is proposed twice for the sake of a rotation.
    pub fn rotate(&mut self, since: TimestampMs, owns: impl Fn(&Address) -> bool) {
        let recent = |sender: &Address| self.senders[sender].entries().values().any(|entry| entry.arrived_at >= since);
        let senders: Vec<Address> = self.senders.keys().copied().filter(|sender| recent(sender) && owns(sender)).collect();
        for sender in senders {
            self.senders.get_mut(&sender).expect("listed above").own_since(since);
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
