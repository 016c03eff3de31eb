//! Constants that the program needs: keys that can have one value only, as code by its hash. A transaction does not contain them.
//! Replicas of the shard that owns one have it from the transaction that wrote it. The others get it from them, and keep some.

use super::Replica;
use super::prepare::{Missing, Phase};
use crate::message::{Message, Peer};
use crate::shards::Key;
use crate::transaction::TransactionId;
use corniche_types::{Bytes, TimestampMs};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of constants that a transaction may use, each of at most [`MAX_VALUE_BYTES`](crate::transaction::MAX_VALUE_BYTES).
pub const MAX_CONSTANTS: usize = 64;
/// Number of constants of other shards that a replica keeps.
const MAX_KEPT: usize = 4 * MAX_CONSTANTS;
/// Number of constants that a replica gets for one transaction before it votes Abort. Those of other transactions may replace some.
pub(super) const MAX_RECEIVED: usize = 2 * MAX_CONSTANTS;

#[derive(Default)]
pub(super) struct ConstantStore {
    kept: BTreeMap<Key, Bytes>,
    /// The oldest first.
    order: VecDeque<Key>,
    /// Constants that others were asked for, with the transactions that wait for them.
    needed: BTreeMap<Key, BTreeSet<TransactionId>>,
}

impl ConstantStore {
    fn keep(&mut self, key: Key, value: Bytes) {
        if self.kept.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > MAX_KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.kept.remove(&oldest);
        }
    }

    pub(super) fn need(&mut self, key: Key, id: TransactionId) {
        self.needed.entry(key).or_default().insert(id);
    }

    pub(super) fn stop_needing(&mut self, key: &Key, id: &TransactionId) {
        if let Some(waiting) = self.needed.get_mut(key) {
            waiting.remove(id);
            if waiting.is_empty() {
                self.needed.remove(key);
            }
        }
    }

    pub(super) fn count(&self) -> usize {
        self.kept.len() + self.needed.len()
    }
}

impl Replica {
    /// A constant, if this replica has it.
    pub(super) fn constant(&self, key: &Key) -> Option<Bytes> {
        let own = || self.versions.any_value(key).cloned();
        self.constants.kept.get(key).cloned().or_else(|| own().filter(|value| self.program.is_constant(key, value)))
    }

    /// Asks the replicas of the shard that owns it.
    pub(super) fn fetch_constant(&mut self, key: &Key) {
        let replicas: Vec<_> = self.shards.replicas(self.shards.shard_of(key)).filter(|replica| *replica != self.id).collect();
        for replica in replicas {
            self.send(Peer::Replica(replica), Message::AskConstant(key.clone()));
        }
    }

    pub(super) fn respond_to_constant(&mut self, from: Peer, key: Key) {
        if let Some(value) = self.constant(&key) {
            self.send(from, Message::Constant { key, value });
        }
    }

    /// Transactions that waited for it are checked again.
    pub(super) fn receive_constant(&mut self, now: TimestampMs, key: Key, value: Bytes) {
        if !self.constants.needed.contains_key(&key) || !self.program.is_constant(&key, &value) {
            return;
        }
        let waiting = self.constants.needed.remove(&key).unwrap_or_default();
        self.constants.keep(key, value);
        for id in waiting {
            self.unpark(id);
            let entry = self.entry(id);
            if let (Phase::Parked { missing: Missing::Constant(_), .. }, Some(transaction)) =
                (&entry.phase, entry.transaction.clone())
            {
                entry.phase = Phase::Unknown;
                entry.constants += 1;
                self.check(now, id, &transaction);
            }
        }
    }
}
