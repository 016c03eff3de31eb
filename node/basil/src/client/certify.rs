//! Collects the certificate of an exported range (A5): equal signed lists of 4f + 1 replicas of each shard.
//!
//! A replica signs the list of what may commit in the range. As soon as its prefix is complete, this is the list of what is
//! committed there. By the rule of [`candidates`](crate::replica::candidates), as many equal lists leave room for nothing else.

use super::Client;
use super::Output;
use crate::attestation::{Attestation, Statement};
use crate::closed::list_hash;
use crate::message::Message;
use crate::shards::{ReplicaId, ShardId};
use crate::transaction::TransactionId;
use corniche_types::{B256, TimestampMs};
use std::collections::{BTreeMap, BTreeSet};

/// A range whose certificate is being collected.
pub(super) struct Certifying {
    from_us: u64,
    below_us: u64,
    /// Committed transactions of each shard, in the serial order, and the hash of the list.
    lists: BTreeMap<ShardId, (BTreeSet<TransactionId>, B256)>,
    collected: BTreeMap<ShardId, BTreeMap<ReplicaId, Attestation>>,
    /// True after the result. Late lists of the range are still compared.
    is_done: bool,
    resend_at: TimestampMs,
}

impl Certifying {
    fn has(&self, shard: ShardId, enough: usize) -> bool {
        self.collected.get(&shard).is_some_and(|collected| collected.len() >= enough)
    }

    /// Time of the next question.
    pub(super) fn deadline(&self) -> Option<TimestampMs> {
        (!self.is_done).then_some(self.resend_at)
    }
}

impl Client {
    /// Collects the certificate of a range that was exported. `lists` has the committed transactions of each shard, in the serial order.
    /// The result is [`Output::Certified`]. Returns false if another range is in progress.
    pub fn certify(
        &mut self,
        now: TimestampMs,
        from_us: u64,
        below_us: u64,
        lists: BTreeMap<ShardId, Vec<TransactionId>>,
    ) -> bool {
        if self.certifying.as_ref().is_some_and(|certifying| !certifying.is_done) {
            return false;
        }
        let hashed = |(shard, list): (ShardId, Vec<TransactionId>)| {
            let hash = list_hash(&self.shards, &list);
            (shard, (list.into_iter().collect(), hash))
        };
        let lists = lists.into_iter().map(hashed).collect();
        self.certifying =
            Some(Certifying { from_us, below_us, lists, collected: BTreeMap::new(), is_done: false, resend_at: now });
        self.repeat_certifying(now);
        true
    }

    /// Gives up the range in progress.
    pub fn cancel_certify(&mut self) {
        self.certifying = None;
    }

    /// Asks the shards without enough equal lists.
    pub(super) fn repeat_certifying(&mut self, now: TimestampMs) {
        let enough = self.shards.reachable();
        let next = TimestampMs(now.0.saturating_add(self.config.resend_ms.max(1)));
        let is_due = |certifying: &&mut Certifying| certifying.deadline().is_some_and(|deadline| deadline <= now);
        let Some(certifying) = self.certifying.as_mut().filter(is_due) else { return };
        certifying.resend_at = next;
        let (from_us, below_us) = (certifying.from_us, certifying.below_us);
        let missing: BTreeSet<_> = certifying.lists.keys().filter(|shard| !certifying.has(**shard, enough)).copied().collect();
        self.broadcast(&missing, Message::AskClosed { from_us, below_us });
    }

    /// Counts an equal list. A list with other transactions is of a replica that waits for their decisions: this client finishes them.
    pub(super) fn note_closed(&mut self, now: TimestampMs, closed: &Attestation, transactions: &[TransactionId]) {
        let enough = self.shards.reachable();
        let Statement::Closed { from_us, below_us, list } = closed.statement else { return };
        let shard = closed.replica.shard;
        let is_same = |certifying: &&mut Certifying| (certifying.from_us, certifying.below_us) == (from_us, below_us);
        let Some(certifying) = self.certifying.as_mut().filter(is_same) else { return };
        let Some((expected, hash)) = certifying.lists.get(&shard) else { return };
        if *hash != list {
            let others: Vec<_> = transactions.iter().filter(|id| !expected.contains(*id)).copied().collect();
            return others.into_iter().for_each(|id| self.watch(now, id, None, shard));
        }
        let collected = certifying.collected.entry(shard).or_default();
        if collected.len() < enough {
            collected.insert(closed.replica, closed.clone());
        }
        if certifying.is_done || !certifying.lists.keys().all(|shard| certifying.has(*shard, enough)) {
            return;
        }
        certifying.is_done = true;
        let certificate = certifying.collected.values().flat_map(BTreeMap::values).cloned().collect();
        self.outputs.push_back(Output::Certified { from_us, below_us, certificate });
    }
}
