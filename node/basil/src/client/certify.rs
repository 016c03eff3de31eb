//! Collects the certificate of an exported range (A5): equal signed lists of 4f + 1 replicas of each shard.
//!
//! A replica signs the list of what may commit in the range. As soon as its prefix is complete, this is the list of what is
//! committed there. By the rule of [`candidates`](crate::replica::candidates), as many equal lists leave room for nothing else.

use super::Client;
use super::Output;
use crate::attestation::{Attestation, Statement};
use crate::message::Message;
use crate::shards::{ReplicaId, ShardId};
use corniche_types::{B256, TimestampMs};
use std::collections::{BTreeMap, BTreeSet};

/// A range whose certificate is being collected.
pub(super) struct Certifying {
    from_us: u64,
    below_us: u64,
    /// Hash of each shard's list.
    lists: BTreeMap<ShardId, B256>,
    collected: BTreeMap<ShardId, BTreeMap<ReplicaId, Attestation>>,
    pub(super) resend_at: TimestampMs,
}

impl Client {
    /// Collects the certificate of a range that was exported. `lists` has the hash of each shard's list
    /// ([`list_hash`](crate::replica::list_hash)). The result is [`Output::Certified`]. Returns false if another range is in progress.
    pub fn certify(&mut self, now: TimestampMs, from_us: u64, below_us: u64, lists: BTreeMap<ShardId, B256>) -> bool {
        if self.certifying.is_some() {
            return false;
        }
        self.certifying = Some(Certifying { from_us, below_us, lists, collected: BTreeMap::new(), resend_at: now });
        self.repeat_certifying(now);
        true
    }

    /// Asks the shards without enough equal lists.
    pub(super) fn repeat_certifying(&mut self, now: TimestampMs) {
        let enough = self.shards.reachable();
        let next = TimestampMs(now.0.saturating_add(self.config.resend_ms.max(1)));
        let Some(certifying) = self.certifying.as_mut().filter(|certifying| certifying.resend_at <= now) else { return };
        certifying.resend_at = next;
        let (from_us, below_us) = (certifying.from_us, certifying.below_us);
        let is_missing = |shard: &&ShardId| certifying.collected.get(shard).is_none_or(|collected| collected.len() < enough);
        let missing: BTreeSet<_> = certifying.lists.keys().filter(is_missing).copied().collect();
        self.broadcast(&missing, Message::AskClosed { from_us, below_us });
    }

    pub(super) fn note_closed(&mut self, closed: &Attestation) {
        let enough = self.shards.reachable();
        let Statement::Closed { from_us, below_us, list } = closed.statement else { return };
        let shard = closed.replica.shard;
        let is_equal = |certifying: &&mut Certifying| {
            (certifying.from_us, certifying.below_us) == (from_us, below_us) && certifying.lists.get(&shard) == Some(&list)
        };
        let Some(certifying) = self.certifying.as_mut().filter(is_equal) else { return };
        let collected = certifying.collected.entry(shard).or_default();
        if collected.len() < enough {
            collected.insert(closed.replica, closed.clone());
        }
        let is_whole = |shard: &ShardId| certifying.collected.get(shard).is_some_and(|collected| collected.len() >= enough);
        if !certifying.lists.keys().all(is_whole) {
            return;
        }
        let collected = self.certifying.take().map(|certifying| certifying.collected).unwrap_or_default();
        let certificate = collected.into_values().flat_map(BTreeMap::into_values).collect();
        self.outputs.push_back(Output::Certified { from_us, below_us, certificate });
    }
}
