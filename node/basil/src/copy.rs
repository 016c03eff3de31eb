//! Copies the state of a shard for a replica that lost its disk, or was away for longer than the others remember (A6). Without I/O.
//!
//! Such a replica may have signed votes that it does not know. All of them are for transactions below its clock plus δ (K1), if its clock did not
//! go back. So it chooses a time
//! above that, and stays silent until the other replicas have a complete prefix up to there: then all these transactions are decided, and nothing
//! that it signed matters any more. Meanwhile it counts as one of the f faulty ones.
//!
//! It takes the committed transactions below that time from f + 1 others. Each transaction has its certificate, and one of these replicas is
//! correct, so the newest version of every key is among them. Older ones from liars are harmless.

use crate::certificate::Decided;
use crate::config::Config;
use crate::message::{Message, Peer};
use crate::record::Record;
use crate::shards::{ReplicaId, Shards};
use crate::shared::Shared;
use crate::transaction::TransactionId;
use crate::verify::Checked;
use corniche_types::TimestampMs;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A copy in progress.
pub struct StateCopy {
    config: Config,
    shards: Arc<Shards>,
    own: ReplicaId,
    /// The copied state is that below this time, µs.
    below_us: u64,
    sources: BTreeMap<ReplicaId, Source>,
    /// Replicas that forgot the state at that time, because the copy took too long.
    forgotten_by: BTreeSet<ReplicaId>,
    found: BTreeMap<TransactionId, Shared<Decided>>,
    outputs: VecDeque<(Peer, Arc<Message>)>,
    resend_at: TimestampMs,
}

/// Progress with one other replica.
#[derive(Clone, Copy, Debug, Default)]
struct Source {
    after: Option<TransactionId>,
    is_done: bool,
}

impl StateCopy {
    /// Starts a copy for a replica that signed nothing since `now`.
    pub fn new(now: TimestampMs, config: &Config, shards: Arc<Shards>, own: ReplicaId) -> Self {
        let interval = config.close_ms.max(1);
        let signed_ms = now.0.saturating_add(config.delta_ms);
        let below_us = (signed_ms / interval + 1).saturating_mul(interval).saturating_mul(1_000);
        let sources = shards.replicas(own.shard).filter(|replica| *replica != own);
        let mut copy = Self {
            sources: sources.map(|replica| (replica, Source::default())).collect(),
            config: config.clone(),
            shards,
            own,
            below_us,
            forgotten_by: BTreeSet::new(),
            found: BTreeMap::new(),
            outputs: VecDeque::new(),
            resend_at: now,
        };
        copy.tick(now);
        copy
    }

    /// Applies a message of another replica.
    pub fn handle(&mut self, now: TimestampMs, message: Checked) {
        let Checked { from: Peer::Replica(from), message, .. } = message else { return };
        let (below_us, after, transactions, is_last) = match message {
            Message::State { below_us, after, transactions, is_last } => (below_us, after, transactions, is_last),
            Message::Pruned { below_us } if below_us > self.below_us && self.sources.contains_key(&from) => {
                self.forgotten_by.insert(from);
                if self.forgotten_by.len() >= self.shards.validity() {
                    *self = Self::new(now, &self.config, Arc::clone(&self.shards), self.own);
                }
                return;
            }
            _ => return,
        };
        let Some(source) = self.sources.get_mut(&from) else { return };
        if below_us != self.below_us || after != source.after || source.is_done {
            return;
        }
        source.is_done = is_last;
        for decided in transactions {
            let id = decided.transaction.id(&self.shards);
            source.after = Some(id);
            if decided.transaction.involved(&self.shards).contains(&self.own.shard) {
                self.found.entry(id).or_insert(decided);
            }
        }
        self.ask(from);
    }

    fn ask(&mut self, replica: ReplicaId) {
        if let Some(source) = self.sources.get(&replica).filter(|source| !source.is_done) {
            let message = Message::AskState { below_us: self.below_us, after: source.after };
            self.outputs.push_back((Peer::Replica(replica), Arc::new(message)));
        }
    }

    /// Asks again. The others respond as soon as their prefix is complete.
    pub fn tick(&mut self, now: TimestampMs) {
        if self.resend_at <= now {
            self.resend_at = TimestampMs(now.0 + self.config.resend_ms.max(1));
            let sources: Vec<_> = self.sources.keys().copied().collect();
            sources.into_iter().for_each(|replica| self.ask(replica));
        }
    }

    /// Time of the next [`Self::tick`].
    pub fn deadline(&self) -> TimestampMs {
        self.resend_at
    }

    /// Returns the next message to send.
    pub fn poll(&mut self) -> Option<(Peer, Arc<Message>)> {
        self.outputs.pop_front()
    }

    /// Records from which the replica starts, once f + 1 others sent everything. They replace all that it had.
    pub fn records(&self) -> Option<Vec<Record>> {
        let done = self.sources.values().filter(|source| source.is_done).count();
        if done < self.shards.validity() {
            return None;
        }
        let below_us = self.below_us;
        let decided = self.found.values().cloned().map(Record::Decided);
        let marks = [Record::Closed { below_us }, Record::Complete { below_us }, Record::Pruned { below_us }];
        Some(decided.chain(marks).collect())
    }
}
