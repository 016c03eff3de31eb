//! The complete prefix of a replica, and what may be forgotten below it (pitfall 17).
//!
//! Votes and certificates may be lost on the way to a replica. Below a closed watermark the replica asks the others of its shard for
//! their lists, and for the certificates that it lacks. As soon as it has all of them, its prefix is complete: nothing else can
//! commit there ([`Client::export`](crate::client::Client::export) has the proof). After a while it keeps the newest committed version of
//! each key below it only.

use super::{Entry, Output, Replica};
use crate::attestation::{Decision, Statement};
use crate::certificate::Decided;
use crate::closed::candidates;
use crate::message::{MAX_FETCHED, MAX_STATE_TRANSACTIONS, Message, Peer};
use crate::record::Record;
use crate::shards::ReplicaId;
use crate::shared::Shared;
use crate::transaction::{Timestamp, TransactionId};
use corniche_types::{B256, TimestampMs};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

/// Bytes after which a part of the state ends.
const STATE_BYTES: usize = 512 << 10;

/// Knowledge of a replica about its complete prefix, and about the range above it.
pub(super) struct Prefix {
    /// Everything below is decided, and known here; µs.
    pub(super) complete_us: u64,
    /// Below, only the newest committed versions are kept; µs.
    pub(super) pruned_us: u64,
    /// Complete prefixes, with the times at which they may be pruned. Time that this replica was stopped does not count: after a stop of
    /// all members, each must find what it misses.
    prune_at: VecDeque<(TimestampMs, u64)>,
    collecting: Option<Collecting>,
    /// Replicas that forgot a part of what is missing here.
    forgotten_by: BTreeSet<ReplicaId>,
    /// Number of keys of which each transaction below `pruned_us` wrote the newest version.
    pinned: BTreeMap<TransactionId, usize>,
}

impl Prefix {
    /// Before the genesis there is nothing.
    pub(super) fn new(genesis_us: u64) -> Self {
        Self {
            complete_us: genesis_us,
            pruned_us: genesis_us,
            prune_at: VecDeque::new(),
            collecting: None,
            forgotten_by: BTreeSet::new(),
            pinned: BTreeMap::new(),
        }
    }
}

struct Collecting {
    below_us: u64,
    lists: BTreeMap<ReplicaId, Vec<TransactionId>>,
    /// Transactions that may have committed, and whose certificates are missing here. `None` before enough lists came.
    missing: Option<BTreeSet<TransactionId>>,
    ask_at: TimestampMs,
}

/// The first position at or after a time.
pub(super) fn position(time_us: u64) -> (Timestamp, TransactionId) {
    (Timestamp { time_us, client: B256::ZERO }, TransactionId::ZERO)
}

impl Replica {
    pub(super) fn prefix_deadline(&self) -> Option<TimestampMs> {
        self.prefix.collecting.as_ref().map(|collecting| collecting.ask_at)
    }

    /// Starts the next range, and asks for what is missing.
    pub(super) fn advance_prefix(&mut self, now: TimestampMs) {
        if self.prefix.collecting.is_none() && self.closed_us > self.prefix.complete_us {
            let (lists, missing) = (BTreeMap::new(), None);
            self.prefix.collecting = Some(Collecting { below_us: self.closed_us, lists, missing, ask_at: now });
        }
        let from_us = self.prefix.complete_us;
        let next = TimestampMs(now.0 + self.config.audit_ms.max(1));
        let Some(collecting) = self.prefix.collecting.as_mut().filter(|collecting| collecting.ask_at <= now) else { return };
        collecting.ask_at = next;
        match &collecting.missing {
            None => {
                let message = Message::AskClosed { from_us, below_us: collecting.below_us };
                let heard: BTreeSet<_> = collecting.lists.keys().copied().collect();
                let silent: Vec<_> = self.peers().filter(|peer| !heard.contains(peer)).collect();
                for peer in silent {
                    self.send(Peer::Replica(peer), message.clone());
                }
            }
            Some(missing) => {
                let ids = missing.iter().take(MAX_FETCHED).copied().collect();
                self.fetch(None, ids);
            }
        }
    }

    /// A list of another replica of the shard.
    pub(super) fn receive_closed(
        &mut self,
        now: TimestampMs,
        replica: ReplicaId,
        statement: &Statement,
        ids: Vec<TransactionId>,
    ) {
        let Statement::Closed { from_us, below_us, .. } = *statement else { return };
        let is_wanted = |collecting: &Collecting| collecting.below_us == below_us && collecting.missing.is_none();
        let is_expected = replica.shard == self.id.shard
            && from_us == self.prefix.complete_us
            && self.prefix.collecting.as_ref().is_some_and(is_wanted);
        if !is_expected {
            return;
        }
        let own = self.may_commit(from_us, below_us);
        let Some(collecting) = &mut self.prefix.collecting else { return };
        let distinct: BTreeSet<_> = ids.into_iter().collect();
        collecting.lists.insert(replica, distinct.into_iter().collect());
        collecting.lists.insert(self.id, own);
        let Some(candidates) = candidates(&collecting.lists, &self.shards) else { return };
        let is_decided = |id: &TransactionId| self.transactions.get(id).is_some_and(|entry| entry.decided.is_some());
        let missing = candidates.into_iter().filter(|id| !is_decided(id)).collect();
        (collecting.missing, collecting.ask_at) = (Some(missing), now);
        self.finish_prefix(now);
    }

    /// Another replica forgot what this one asked for. One of f + 1 is correct.
    pub(super) fn receive_pruned(&mut self, from: Peer, below_us: u64) {
        let Peer::Replica(replica) = from else { return };
        if replica.shard != self.id.shard || replica == self.id || below_us <= self.prefix.complete_us {
            return;
        }
        let is_new = self.prefix.forgotten_by.insert(replica);
        if is_new && self.prefix.forgotten_by.len() == self.shards.validity() {
            self.outputs.push_back(Output::Behind);
        }
    }

    /// A transaction is decided here.
    pub(super) fn note_decided(&mut self, now: TimestampMs, id: TransactionId) {
        if let Some(Collecting { missing: Some(missing), .. }) = &mut self.prefix.collecting
            && missing.remove(&id)
        {
            self.finish_prefix(now);
        }
    }

    fn finish_prefix(&mut self, now: TimestampMs) {
        let is_complete = |collecting: &mut Collecting| collecting.missing.as_ref().is_some_and(BTreeSet::is_empty);
        let Some(Collecting { below_us, .. }) = self.prefix.collecting.take_if(is_complete) else { return };
        self.prefix.complete_us = below_us;
        self.prefix.forgotten_by.clear();
        self.replies.record(now, &self.config, Record::Complete { below_us });
        self.prune_later(now, below_us);
    }

    /// Prunes a complete prefix after `keep_ms`.
    pub(super) fn prune_later(&mut self, now: TimestampMs, below_us: u64) {
        self.prefix.prune_at.push_back((TimestampMs(now.0.saturating_add(self.config.keep_ms)), below_us));
    }

    /// Prunes what is due.
    pub(super) fn run_pruning(&mut self, now: TimestampMs) {
        let mut due = None;
        while let Some((_, below_us)) = self.prefix.prune_at.pop_front_if(|(at, _)| *at <= now) {
            due = Some(below_us);
        }
        if let Some(below_us) = due.filter(|below_us| *below_us > self.prefix.pruned_us) {
            self.replies.record(now, &self.config, Record::Pruned { below_us });
            self.prune(below_us);
        }
    }

    /// Sends the next committed transactions that make the state at a time, to a replica that lost its own.
    pub(super) fn report_state(&mut self, to: Peer, below_us: u64, after: Option<TransactionId>) {
        // Above the complete prefix something may be missing, and below the pruned one the state is lost.
        if !matches!(to, Peer::Replica(_)) || below_us > self.prefix.complete_us {
            return;
        }
        if below_us < self.prefix.pruned_us {
            return self.send(to, Message::Pruned { below_us: self.prefix.pruned_us });
        }
        let is_part = |decided: &&Shared<Decided>| {
            decided.decision() == Decision::Commit && decided.transaction.timestamp.time_us < below_us
        };
        let later = (after.map_or(Unbounded, Excluded), Unbounded);
        let mut found = self.transactions.range(later).filter_map(|(_, entry)| entry.decided.as_ref()).filter(is_part);
        let (mut transactions, mut bytes) = (Vec::new(), 0);
        while bytes < STATE_BYTES
            && transactions.len() < MAX_STATE_TRANSACTIONS
            && let Some(decided) = found.next()
        {
            bytes += borsh::object_length(&**decided).unwrap_or(STATE_BYTES);
            transactions.push(Shared::clone(decided));
        }
        let is_last = found.next().is_none();
        self.send(to, Message::State { below_us, after, transactions, is_last });
    }

    /// True for a transaction about which everything is forgotten: a second vote could differ from the first.
    pub(super) fn is_pruned(&self, timestamp: Timestamp) -> bool {
        timestamp.time_us < self.prefix.pruned_us
    }

    /// Forgets what is below a time, except the newest committed version of each key.
    pub(super) fn prune(&mut self, below_us: u64) {
        if below_us <= self.prefix.pruned_us {
            return;
        }
        self.prefix.pruned_us = below_us;
        let old: Vec<_> = self.timeline.range(..position(below_us)).copied().collect();
        for (timestamp, id) in old {
            self.timeline.remove(&(timestamp, id));
            self.by_timestamp.remove(&timestamp);
            let Some(Entry { transaction: Some(transaction), decided, .. }) = self.transactions.get(&id) else { continue };
            let (transaction, decided) = (transaction.clone(), decided.clone());
            if decided.is_none_or(|decided| decided.decision() == Decision::Abort) {
                // Below a complete prefix, what is not committed here cannot commit.
                self.drop_dead(id, &transaction);
                continue;
            }
            self.versions.forget_reads(id, &transaction);
            let mut keys = 0;
            for write in transaction.writes.iter().filter(|write| self.owns(&write.key)).collect::<Vec<_>>() {
                keys += 1;
                for writer in self.versions.supersede(&write.key, timestamp) {
                    self.unpin(writer);
                }
            }
            if keys == 0 {
                self.transactions.remove(&id);
            } else {
                self.prefix.pinned.insert(id, keys);
            }
        }
    }

    fn unpin(&mut self, writer: TransactionId) {
        let Some(keys) = self.prefix.pinned.get_mut(&writer) else { return };
        *keys -= 1;
        if *keys == 0 {
            self.prefix.pinned.remove(&writer);
            self.transactions.remove(&writer);
        }
    }
}
