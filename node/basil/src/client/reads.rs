//! Reads of a client (X3): f + 1 replies, of which the newest valid version counts.

use super::{Client, Executing, Output};
use crate::config::Config;
use crate::message::{Committed, Peer, Versioned};
use crate::shards::{Key, ReplicaId, Shards};
use crate::transaction::{Read, Timestamp, Value, Version};
use corniche_types::TimestampMs;
use std::collections::BTreeMap;

/// Longest wait before a read is repeated, ms.
const MAX_RESEND_MS: u64 = 10_000;

/// A read without a value yet.
pub(super) struct Reading {
    replies: BTreeMap<ReplicaId, (Committed, Option<Versioned>)>,
    pub(super) resend_at: TimestampMs,
    resend_ms: u64,
}

impl Reading {
    pub(super) fn new(now: TimestampMs, config: &Config) -> Self {
        let resend_ms = config.resend_ms.max(1);
        Self { replies: BTreeMap::new(), resend_at: TimestampMs(now.0 + resend_ms), resend_ms }
    }

    /// The newest valid version. A committed one is proven by its certificate; a prepared one, and the value of the genesis, by
    /// f + 1 identical replies, of which one is correct. The last field is true if it is proven.
    fn choose(&self, key: &Key, shards: &Shards) -> Option<(Version, Value, bool)> {
        let mut vouched: BTreeMap<(Version, &Value), usize> = BTreeMap::new();
        let mut newest: Option<(Version, Value, bool)> = None;
        let mut offer = |version: Version, value: &Value, is_proven: bool| {
            if newest.as_ref().is_none_or(|(best, ..)| best.timestamp < version.timestamp) {
                newest = Some((version, value.clone(), is_proven));
            }
        };
        for (committed, prepared) in self.replies.values() {
            match committed {
                Committed::Genesis(value) => *vouched.entry((Version::GENESIS, value)).or_default() += 1,
                Committed::Written(decided) => {
                    // The verifier checked the certificate, and that it writes the key.
                    let Some(value) = decided.transaction.written(key) else { continue };
                    let writer = decided.transaction.id(shards);
                    offer(Version { timestamp: decided.transaction.timestamp, writer }, value, true);
                }
            }
            if let Some(Versioned { version, value }) = prepared {
                *vouched.entry((*version, value)).or_default() += 1;
            }
        }
        for ((version, value), count) in vouched {
            if count >= shards.validity() {
                offer(version, value, version.is_genesis());
            }
        }
        newest
    }
}

impl Client {
    pub(super) fn receive_read_reply(
        &mut self,
        from: Peer,
        timestamp: Timestamp,
        key: Key,
        committed: Committed,
        prepared: Option<Versioned>,
    ) {
        let Peer::Replica(replica) = from else { return };
        if replica.shard != self.shards.shard_of(&key) {
            return;
        }
        let Some(executing) = self.executing.get_mut(&timestamp) else { return };
        let Some(reading) = executing.reading.get_mut(&key) else { return };
        reading.replies.insert(replica, (committed, prepared));
        if reading.replies.len() < self.shards.validity() {
            return;
        }
        let Some((version, value, is_proven)) = reading.choose(&key, &self.shards) else { return };
        executing.reading.remove(&key);
        executing.prepared.extend((!is_proven).then_some(version.writer));
        executing.done.insert(key.clone(), Read { key: key.clone(), version, value: value.clone() });
        self.outputs.push_back(Output::Value { timestamp, key, value });
    }

    /// Reads without enough replies go to all replicas.
    pub(super) fn repeat_reads(&mut self, now: TimestampMs) {
        let mut due = Vec::new();
        for (timestamp, Executing { reading, .. }) in &mut self.executing {
            for (key, reading) in reading.iter_mut().filter(|(_, reading)| reading.resend_at <= now) {
                reading.resend_ms = reading.resend_ms.saturating_mul(2).min(MAX_RESEND_MS);
                reading.resend_at = TimestampMs(now.0.saturating_add(reading.resend_ms));
                due.push((*timestamp, key.clone()));
            }
        }
        for (timestamp, key) in due {
            self.send_read(timestamp, &key, self.shards.all());
        }
    }
}
