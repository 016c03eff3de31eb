//! Turns: which transactions this node may propose in place of their owner, and which it forwards to others
//! meanwhile.

use super::Pool;
use crate::{MIN_TURN_MS, Responsibility, TURN_MS, sender::SenderQueue};
use corniche_crypto::VerifiedTransaction;
use corniche_types::{Address, B256, TimestampMs, ValidatorIndex};
use std::collections::BTreeSet;

/// Waiting time of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingTime {
    /// Time since when it could be proposed: it was here and its sender's next one.
    pub since: TimestampMs,
    pub arrived_at: TimestampMs,
    /// Validators to which this node sent it on arrival.
    pub recipients: Vec<ValidatorIndex>,
}

impl Pool {
    /// Sets the clock of the turns. Without it, the pool uses the times of admissions.
    pub fn tick(&mut self, now: TimestampMs) {
        self.now = self.now.max(now);
        while let Some((_, sender)) = self.held.first().copied().filter(|(due, _)| *due <= self.now) {
            self.reindex(sender);
        }
    }

    /// Sets the length of a turn in ms, within bounds. It matters only to senders with a transaction that may be
    /// proposed now, but not by this node as its owner, or for which this node is responsible.
    pub fn set_turn(&mut self, ms: u64) {
        let ms = ms.clamp(MIN_TURN_MS, TURN_MS);
        if ms != self.turn_ms {
            self.turn_ms = ms;
            let timed = self.held.iter().chain(&self.turns).map(|(_, sender)| *sender);
            let senders: BTreeSet<Address> = timed.chain(self.cut_order.taken_over()).collect();
            senders.into_iter().for_each(|sender| self.reindex(sender));
        }
    }

    /// Length of a turn in ms.
    pub fn turn(&self) -> u64 {
        self.turn_ms
    }

    /// Records the validators to which this node sent a transaction on arrival.
    pub fn set_recipients(&mut self, hash: &B256, recipients: Vec<ValidatorIndex>) {
        if let Some((sender, nonce)) = self.by_hash.get(hash)
            && let Some(queue) = self.senders.get_mut(sender)
        {
            queue.set_recipients(*nonce, recipients);
        }
    }

    /// Forgets the validators of all transactions: their indices mean others from now on.
    pub fn forget_recipients(&mut self) {
        self.senders.values_mut().for_each(SenderQueue::forget_recipients);
    }

    /// Waiting time of a transaction; `None` if it is not its sender's next one.
    pub fn waited(&self, hash: &B256) -> Option<WaitingTime> {
        let (sender, nonce) = self.by_hash.get(hash)?;
        let (first, since) = self.senders.get(sender)?.first_since()?;
        let is_first = first.transaction.nonce() == *nonce;
        is_first.then(|| WaitingTime { since, arrived_at: first.arrived_at, recipients: first.recipients.clone() })
    }

    /// Next time at which a held transaction may be proposed here.
    pub fn next_due(&self) -> Option<TimestampMs> {
        self.held.first().map(|(due, _)| *due)
    }

    /// Next time at which [`Self::take_overdue`] returns something.
    pub fn next_turn(&self) -> Option<TimestampMs> {
        self.turns.first().map(|(ends, _)| *ends)
    }

    /// Transactions for which this node is responsible and that were not executed for at least a turn, each
    /// with the number of turns that ended since it was proposable. Per sender in nonce order, and senders by
    /// the end of their turn. Returns at most `max` transactions, and at most `max_bytes` bytes after the
    /// first one.
    pub fn take_overdue(&mut self, max: usize, max_bytes: usize) -> Vec<(u32, VerifiedTransaction)> {
        let mut due = Vec::new();
        let mut bytes = 0;
        while let Some((_, sender)) = self.turns.first().copied().filter(|(ends, _)| *ends <= self.now) {
            let queue = self.senders.get_mut(&sender).expect("invariant: only pooled senders have turns");
            let before = due.len();
            let turns = queue.turns_by(self.now, self.turn_ms);
            for entry in queue.overdue(self.now, self.turn_ms) {
                let length = entry.transaction.transaction().raw().len();
                if due.len() == max || (!due.is_empty() && bytes + length > max_bytes) {
                    break;
                }
                bytes += length;
                due.push((turns, entry.transaction.clone()));
            }
            // The sender's remaining transactions get their turn when these are executed.
            if due.len() == before && queue.overdue(self.now, self.turn_ms).next().is_some() {
                break;
            }
            queue.turns = turns;
            self.reindex(sender);
        }
        due
    }

    /// Starts a rotation in which this node `owns` some senders. A node whose clock is ahead may have sent it
    /// their transactions already, since `since`. Transactions that it may also have as the second of the old
    /// order stay with the old owner ([`Responsibility::adjust_for_rotation`]), so that a rotation causes no duplicate
    /// proposals.
    pub fn rotate(&mut self, since: TimestampMs, owns: impl Fn(&Address) -> bool) {
        let recent = |sender: &Address| self.senders[sender].entries().values().any(|entry| entry.arrived_at >= since);
        let senders: Vec<Address> = self.senders.keys().copied().filter(|sender| recent(sender) && owns(sender)).collect();
        for sender in senders {
            self.senders.get_mut(&sender).expect("listed above").take_ownership_since(since);
            self.reindex(sender);
        }
    }

    /// This node proposes nothing for now. So it is responsible for what it would have proposed, also in place of others, as if users
    /// had submitted it here. Returns what it was not responsible for, per sender in nonce order, to be forwarded now.
    pub fn hand_over(&mut self) -> Vec<VerifiedTransaction> {
        let handed_over = self.senders.iter_mut().map(|(sender, queue)| (*sender, queue.hand_over()));
        let changed: Vec<_> = handed_over.filter(|(_, transactions)| !transactions.is_empty()).collect();
        changed.iter().for_each(|(sender, _)| self.reindex(*sender));
        changed.into_iter().flat_map(|(_, transactions)| transactions).collect()
    }

    /// Updates the standing of a pooled transaction that arrived again.
    pub(super) fn add_responsibility(&mut self, sender: Address, nonce: u64, responsibility: Responsibility) {
        if let Some(queue) = self.senders.get_mut(&sender) {
            queue.add_responsibility(nonce, responsibility);
            self.reindex(sender);
        }
    }
}
