//! Exports a prefix of the serial order (A5).
//!
//! A transaction that can still commit below a closed watermark has the Commit votes, or will have, of 2f + 1 correct replicas. Among any
//! 4f + 1 replicas that closed it, f + 1 correct ones list it. So a transaction that fewer list never commits, and liars alone list
//! nothing. Every exporter gets the same result.

use super::{Client, Output};
use crate::attestation::Decision;
use crate::certificate::Decided;
use crate::closed::candidates;
use crate::message::{MAX_FETCHED, Message};
use crate::shards::{ReplicaId, ShardId, Shards};
use crate::shared::Shared;
use crate::transaction::TransactionId;
use corniche_types::TimestampMs;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of exports at once.
const MAX_EXPORTS: usize = 16;

/// A range of the serial order that is being collected.
pub(super) struct Export {
    from_us: u64,
    /// Lists of the replicas of each shard.
    lists: BTreeMap<ShardId, BTreeMap<ReplicaId, Vec<TransactionId>>>,
    /// Candidates; `None` while undecided.
    candidates: BTreeMap<TransactionId, Option<Shared<Decided>>>,
    /// Shards whose candidates are known.
    settled: BTreeSet<ShardId>,
    pub(super) resend_at: TimestampMs,
}

impl Export {
    /// The candidates of a shard with enough lists.
    fn settle(&mut self, shard: ShardId, shards: &Shards) -> BTreeSet<TransactionId> {
        let Some(found) = self.lists.get(&shard).and_then(|lists| candidates(lists, shards)) else { return BTreeSet::new() };
        self.settled.insert(shard);
        self.lists.remove(&shard);
        found
    }
}

impl Client {
    /// Collects all committed transactions with timestamps from `from_us` to below `below_us`, which must be a closed watermark or
    /// become one. The result is [`Output::Exported`]. Returns false if there are too many exports, or one up to `below_us` is in
    /// progress.
    pub fn export(&mut self, now: TimestampMs, from_us: u64, below_us: u64) -> bool {
        if self.exports.len() >= MAX_EXPORTS || self.exports.contains_key(&below_us) {
            return false;
        }
        let (lists, candidates, settled) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        self.exports.insert(below_us, Export { from_us, lists, candidates, settled, resend_at: now });
        self.repeat_exports(now);
        true
    }

    /// Asks the shards that did not respond, and about transactions that are not decided.
    pub(super) fn repeat_exports(&mut self, now: TimestampMs) {
        let due: Vec<_> =
            self.exports.iter().filter(|(_, export)| export.resend_at <= now).map(|(below_us, _)| *below_us).collect();
        for below_us in due {
            let Some(export) = self.exports.get_mut(&below_us) else { continue };
            export.resend_at = TimestampMs(now.0.saturating_add(self.config.resend_ms.max(1)));
            let from_us = export.from_us;
            let missing: BTreeSet<_> = self.shards.ids().filter(|shard| !export.settled.contains(shard)).collect();
            let undecided: Vec<_> =
                export.candidates.iter().filter(|(_, decided)| decided.is_none()).map(|(id, _)| *id).collect();
            self.broadcast(&missing, Message::AskClosed { from_us, below_us });
            self.resolve(&undecided);
        }
    }

    /// Gives up an export.
    pub fn cancel_export(&mut self, below_us: u64) {
        self.exports.remove(&below_us);
    }

    /// Any shard may know them.
    fn resolve(&mut self, ids: &[TransactionId]) {
        let all: BTreeSet<_> = self.shards.ids().collect();
        for ids in ids.chunks(MAX_FETCHED) {
            self.broadcast(&all, Message::Fetch(ids.to_vec()));
        }
    }

    /// True if an export waits for this transaction's decision.
    pub(super) fn is_candidate(&self, id: &TransactionId) -> bool {
        self.exports.values().any(|export| matches!(export.candidates.get(id), Some(None)))
    }

    pub(super) fn receive_closed(&mut self, replica: ReplicaId, from_us: u64, below_us: u64, transactions: Vec<TransactionId>) {
        let shards = Arc::clone(&self.shards);
        let Some(export) = self.exports.get_mut(&below_us).filter(|export| export.from_us == from_us) else { return };
        if export.settled.contains(&replica.shard) {
            return;
        }
        let distinct: BTreeSet<_> = transactions.into_iter().collect();
        export.lists.entry(replica.shard).or_default().insert(replica, distinct.into_iter().collect());
        let found = export.settle(replica.shard, &shards);
        let new: Vec<_> = found.into_iter().filter(|id| export.candidates.insert(*id, None).is_none()).collect();
        self.resolve(&new);
        self.finish_export(below_us);
    }

    /// A transaction is decided; exports may wait for it.
    pub(super) fn note_decided(&mut self, id: TransactionId, decided: &Shared<Decided>) {
        let wanted: Vec<_> =
            self.exports.iter().filter(|(_, export)| export.candidates.contains_key(&id)).map(|(below, _)| *below).collect();
        for below_us in wanted {
            if let Some(export) = self.exports.get_mut(&below_us) {
                export.candidates.insert(id, Some(Shared::clone(decided)));
            }
            self.finish_export(below_us);
        }
    }

    fn finish_export(&mut self, below_us: u64) {
        let Some(export) = self.exports.get(&below_us) else { return };
        let is_complete = export.settled.len() == self.shards.count() && export.candidates.values().all(Option::is_some);
        if !is_complete {
            return;
        }
        let Some(Export { from_us, candidates, .. }) = self.exports.remove(&below_us) else { return };
        let is_inside = |decided: &Shared<Decided>| {
            (from_us..below_us).contains(&decided.transaction.timestamp.time_us) && decided.decision() == Decision::Commit
        };
        let mut transactions: Vec<_> =
            candidates.into_iter().filter_map(|(id, decided)| Some((decided?, id))).filter(|(one, _)| is_inside(one)).collect();
        transactions.sort_by_key(|(decided, id)| (decided.transaction.timestamp, *id));
        let transactions = transactions.into_iter().map(|(decided, _)| decided).collect();
        self.outputs.push_back(Output::Exported { from_us, below_us, transactions });
    }
}
