//! Closed watermarks (A5): below one, this replica votes Abort for every transaction that it does not know. So a prefix of the
//! serial order becomes final, and can be exported as a ledger.

use super::{Entry, Replica};
use crate::attestation::{Decision, Statement};
use crate::closed::{MAX_LISTED, list_hash};
use crate::message::{Message, Peer};
use crate::record::Record;
use crate::replica::prefix::position;
use crate::replica::prepare::Phase;
use crate::transaction::{Timestamp, TransactionId};
use corniche_types::TimestampMs;

impl Replica {
    /// Closes the newest multiple of the interval that is old enough.
    pub(super) fn close(&mut self, now: TimestampMs) {
        if self.config.close_ms == 0 {
            return;
        }
        let newest = now.0.saturating_sub(self.config.close_after_ms) / self.config.close_ms * self.config.close_ms;
        let below_us = newest.saturating_mul(1_000);
        if below_us > self.closed_us {
            self.closed_us = below_us;
            self.replies.record(now, &self.config, Record::Closed { below_us });
        }
    }

    pub(super) fn close_deadline(&self) -> Option<TimestampMs> {
        let next = (self.closed_us / 1_000).saturating_add(self.config.close_ms).saturating_add(self.config.close_after_ms);
        (self.config.close_ms > 0).then_some(TimestampMs(next))
    }

    /// True if this replica votes Abort for a transaction that it did not check before.
    pub(super) fn is_closed(&self, timestamp: Timestamp) -> bool {
        timestamp.time_us < self.closed_us
    }

    /// Lists what may be, or become, committed in a range: committed transactions, and those with a Commit vote or a prepared
    /// record here. Later lists of a range differ by decisions only, so nothing about them is stored.
    pub(super) fn report_closed(&mut self, now: TimestampMs, to: Peer, from_us: u64, below_us: u64) {
        if below_us > self.closed_us || from_us >= below_us {
            return;
        }
        if from_us.max(self.genesis_us) < self.prefix.pruned_us {
            return self.send(to, Message::Pruned { below_us: self.prefix.pruned_us });
        }
        let transactions = self.may_commit(from_us, below_us);
        if transactions.len() > MAX_LISTED {
            return;
        }
        let list = list_hash(&self.shards, &transactions);
        self.reply_listed(now, to, Statement::Closed { from_us, below_us, list }, transactions);
    }

    /// Transactions of a range that are committed, or may become so.
    pub(super) fn may_commit(&self, from_us: u64, below_us: u64) -> Vec<TransactionId> {
        let complete_us = self.prefix.complete_us;
        let is_complete =
            |entry: &Entry| entry.transaction.as_ref().is_some_and(|transaction| transaction.timestamp.time_us < complete_us);
        let may_commit = |entry: &Entry| match &entry.decided {
            Some(decided) => decided.decision() == Decision::Commit,
            // Everything that can commit below a complete prefix is decided.
            None if is_complete(entry) => false,
            None => matches!(entry.phase, Phase::Waiting(_) | Phase::Voted { vote: Decision::Commit, .. }),
        };
        let range = self.timeline.range(position(from_us)..position(below_us.max(from_us)));
        range.map(|(_, id)| *id).filter(|id| self.transactions.get(id).is_some_and(may_commit)).collect()
    }
}
