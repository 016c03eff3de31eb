//! A client: a state machine without I/O that drives its own transactions, and finishes those of others that it depends on.
//! A gateway is a client for many wallets.
//!
//! ```text
//!   Begin ──▶ Read* ──▶ Commit ──▶ votes ──▶ fast: decided
//!                                    └─────▶ slow: one shard logs it ──▶ decided
//! ```
//!
//! Writes are buffered by the program that makes them; replicas see them with ST1.

mod certify;
mod effort;
mod export;
mod reads;

use crate::attestation::{Attestation, Signer, Statement};
use crate::certificate::Decided;
use crate::config::Config;
use crate::message::{Conflict, Message, Peer};
use crate::shards::{ClientId, Key, ReplicaId, ShardId, Shards};
use crate::shared::Shared;
use crate::transaction::{Read, SignedTransaction, Timestamp, Transaction, TransactionError, TransactionId, Value, Write};
use crate::verify::Checked;
use certify::Certifying;
use corniche_types::{Bytes, TimestampMs};
use effort::Effort;
use export::Export;
use reads::Reading;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Maximum number of other clients' transactions that a client finishes at once.
const MAX_RECOVERIES: usize = 1_024;
/// Number of decided transactions that are remembered, for those that missed their certificates.
const MAX_FINISHED: usize = 4_096;
/// Number of times that a client asks about a transaction in the way, before its efforts must want it again.
const MAX_ASKED: u32 = 4;
/// Number of writers that one transaction's effort asks about at once.
const MAX_HELPED: usize = 8;

/// Results of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Send {
        to: Peer,
        message: Arc<Message>,
    },
    /// A value for a read.
    Value {
        timestamp: Timestamp,
        key: Key,
        value: Value,
    },
    /// An own transaction is decided. The application may hear it now; replicas hear it meanwhile (P4).
    Finished {
        id: TransactionId,
        decided: Shared<Decided>,
    },
    /// Another client's transaction is decided, after this client took part in it or asked for it.
    Recovered {
        id: TransactionId,
        decided: Shared<Decided>,
        /// True if this client took part, so that the transaction did not wait for its own client.
        took_part: bool,
    },
    /// f + 1 replicas of a shard forgot everything below this time, and this client asked about an earlier one: its clock is late, or it was
    /// away for too long.
    Late {
        below_us: u64,
    },
    /// Result of [`Client::certify`]: see [`check_closed`](crate::closed::check_closed).
    Certified {
        from_us: u64,
        below_us: u64,
        certificate: Vec<Attestation>,
    },
    /// Result of [`Client::export`]: all committed transactions of the range, in the serial order.
    Exported {
        from_us: u64,
        below_us: u64,
        transactions: Vec<Shared<Decided>>,
    },
}

/// A client.
pub struct Client {
    config: Config,
    shards: Arc<Shards>,
    id: ClientId,
    signer: Arc<dyn Signer>,
    /// The newest timestamp used.
    last: u64,
    executing: BTreeMap<Timestamp, Executing>,
    efforts: BTreeMap<TransactionId, Effort>,
    /// Transactions that may need help, with the time to offer it.
    watched: BTreeMap<TransactionId, Watched>,
    /// Exports by their upper end.
    exports: BTreeMap<u64, Export>,
    certifying: Option<Certifying>,
    /// Time below which each replica forgot everything, since the last [`Output::Late`].
    pruned: BTreeMap<ReplicaId, u64>,
    finished: BTreeMap<TransactionId, Shared<Decided>>,
    finished_order: VecDeque<TransactionId>,
    outputs: VecDeque<Output>,
}

/// A transaction before its commit.
#[derive(Default)]
struct Executing {
    done: BTreeMap<Key, Read>,
    /// Writers of values that no certificate proved: they may need help.
    prepared: BTreeSet<TransactionId>,
    reading: BTreeMap<Key, Reading>,
}

/// A transaction of another client that is in the way.
struct Watched {
    /// `None` if only the id is known.
    transaction: Option<Shared<SignedTransaction>>,
    shard: ShardId,
    at: TimestampMs,
    asked: u32,
}

impl Client {
    /// `floor_us` is a time above every timestamp of earlier runs (X1).
    pub fn new(config: Config, shards: Arc<Shards>, id: ClientId, signer: Arc<dyn Signer>, floor_us: u64) -> Self {
        Self {
            config,
            shards,
            id,
            signer,
            last: floor_us,
            executing: BTreeMap::new(),
            efforts: BTreeMap::new(),
            watched: BTreeMap::new(),
            exports: BTreeMap::new(),
            certifying: None,
            pruned: BTreeMap::new(),
            finished: BTreeMap::new(),
            finished_order: VecDeque::new(),
            outputs: VecDeque::new(),
        }
    }

    /// X1: starts a transaction at a timestamp that was never used.
    pub fn begin(&mut self, now: TimestampMs) -> Timestamp {
        self.last = (now.0 * 1_000).max(self.last + 1);
        let timestamp = Timestamp { time_us: self.last, client: self.id };
        self.executing.insert(timestamp, Executing::default());
        timestamp
    }

    /// X3: the response is [`Output::Value`]. A repeated read has the same result.
    pub fn read(&mut self, now: TimestampMs, timestamp: Timestamp, key: Key) {
        let Some(executing) = self.executing.get_mut(&timestamp) else { return };
        if let Some(read) = executing.done.get(&key) {
            let value = read.value.clone();
            self.outputs.push_back(Output::Value { timestamp, key, value });
            return;
        }
        if executing.reading.contains_key(&key) {
            return;
        }
        let reading = Reading::new(now, &self.config);
        executing.reading.insert(key.clone(), reading);
        self.send_read(timestamp, &key, self.shards.read_fanout());
    }

    /// The transaction does not depend on this read, which is of a constant: it will not contain it.
    pub fn leave_out(&mut self, timestamp: Timestamp, key: &Key) {
        if let Some(executing) = self.executing.get_mut(&timestamp) {
            executing.done.remove(key);
        }
    }

    /// Number of values that a transaction read.
    pub fn read_count(&self, timestamp: Timestamp) -> usize {
        self.executing.get(&timestamp).map_or(0, |executing| executing.done.len())
    }

    /// True while reads of a transaction have no value.
    pub fn is_reading(&self, timestamp: Timestamp) -> bool {
        self.executing.get(&timestamp).is_some_and(|executing| !executing.reading.is_empty())
    }

    /// Asks `count` replicas; which ones depends on the timestamp, so that load spreads.
    fn send_read(&mut self, timestamp: Timestamp, key: &Key, count: usize) {
        let shard = self.shards.shard_of(key);
        let spread = timestamp.time_us / 1_000 + timestamp.time_us % 1_000;
        let first = usize::try_from(spread % self.shards.all() as u64).expect("fewer than n");
        let replicas: Vec<_> = self.shards.replicas(shard).collect();
        for replica in replicas.iter().cycle().skip(first).take(count) {
            let message = Message::Read { timestamp, key: key.clone() };
            self.send(Peer::Replica(*replica), message);
        }
    }

    /// X5: the transaction ends without an effect.
    pub fn abandon(&mut self, timestamp: Timestamp) {
        let Some(executing) = self.executing.remove(&timestamp) else { return };
        let keys = executing.done.keys().chain(executing.reading.keys());
        let shards: BTreeSet<_> = keys.map(|key| self.shards.shard_of(key)).collect();
        self.broadcast(&shards, Message::Abandon { timestamp });
    }

    /// Gives up own proposals below a time up to which everything is exported and none of them is contained: they can never commit.
    /// Returns their ids.
    pub fn give_up_below(&mut self, below_us: u64) -> Vec<TransactionId> {
        let is_over = |effort: &Effort| effort.is_own && effort.transaction.timestamp.time_us < below_us;
        let ids: Vec<_> = self.efforts.iter().filter(|(_, effort)| is_over(effort)).map(|(id, _)| *id).collect();
        ids.iter().for_each(|id| _ = self.efforts.remove(id));
        ids
    }

    /// Finishes the transactions that wrote the values read so far, if they are not decided. The results are
    /// [`Output::Recovered`].
    pub fn finish_writers(&mut self, now: TimestampMs, timestamp: Timestamp) {
        for read in self.reads(timestamp).iter().filter(|read| !read.version.is_genesis()) {
            self.help_writer(now, read);
        }
    }

    /// Finishes the transaction that wrote a value, if it is not decided.
    fn help_writer(&mut self, now: TimestampMs, read: &Read) {
        let shard = self.shards.shard_of(&read.key);
        self.watch(now, read.version.writer, None, shard);
        self.help(now, read.version.writer);
    }

    /// The values read so far, in the order of their keys.
    pub fn reads(&self, timestamp: Timestamp) -> Vec<Read> {
        self.executing.get(&timestamp).map(|executing| executing.done.values().cloned().collect()).unwrap_or_default()
    }

    /// P1: proposes the transaction with everything that it read.
    ///
    /// # Errors
    /// The transaction would never be valid. It is abandoned.
    pub fn commit(
        &mut self,
        now: TimestampMs,
        timestamp: Timestamp,
        writes: Vec<Write>,
        call: Bytes,
    ) -> Result<TransactionId, TransactionError> {
        let reads = self.reads(timestamp);
        let transaction = Transaction { timestamp, reads, writes, call };
        if let Err(error) = transaction.check() {
            self.abandon(timestamp);
            return Err(error);
        }
        let prepared = self.executing.remove(&timestamp).map(|executing| executing.prepared);
        let id = transaction.id(&self.shards);
        let signature = self.signer.sign(&id);
        let transaction = Shared::new(SignedTransaction { transaction, signature });
        let mut effort = Effort::new(now, id, Shared::clone(&transaction), &self.shards, &self.config, true);
        effort.prepared = prepared;
        self.efforts.insert(id, effort);
        self.broadcast(&transaction.involved(&self.shards), Message::Prepare(transaction));
        Ok(id)
    }

    /// Finishes a transaction of anybody (F1), for instance one of a gateway that stopped. Returns false if this client finished it
    /// before, or is at it, or has too many.
    pub fn recover(&mut self, now: TimestampMs, transaction: Shared<SignedTransaction>) -> bool {
        let id = transaction.id(&self.shards);
        if self.efforts.contains_key(&id) || self.finished.contains_key(&id) || self.recoveries() >= MAX_RECOVERIES {
            return false;
        }
        self.efforts.insert(id, Effort::new(now, id, Shared::clone(&transaction), &self.shards, &self.config, false));
        self.broadcast(&transaction.involved(&self.shards), Message::Recover(transaction));
        true
    }

    fn recoveries(&self) -> usize {
        self.efforts.values().filter(|effort| !effort.is_own).count()
    }

    /// Applies a message of a replica.
    pub fn handle(&mut self, now: TimestampMs, message: Checked) {
        let Checked { from, message, .. } = message;
        match message {
            Message::ReadReply { timestamp, key, committed, prepared } => {
                self.receive_read_reply(from, timestamp, key, committed, prepared);
            }
            Message::Vote { vote, conflict } => {
                let Some(id) = vote.statement.id() else { return };
                if let Some(effort) = self.efforts.get_mut(&id) {
                    // A replica names a conflict once.
                    if effort.tally.insert(vote) {
                        self.receive_conflict(now, id, conflict);
                    }
                    self.advance(now, id);
                }
            }
            Message::Logged(attestation) => {
                let Some(id) = attestation.statement.id() else { return };
                if let Some(effort) = self.efforts.get_mut(&id) {
                    effort.insert_logged(attestation);
                    self.advance(now, id);
                }
            }
            Message::Writeback(decided) => {
                let id = decided.transaction.id(&self.shards);
                let was_watched = self.watched.remove(&id).is_some();
                let is_own = self.efforts.get(&id).map(|effort| effort.is_own);
                // Its client may have stopped between two replicas: those that wait for it must hear it too.
                if was_watched || is_own == Some(false) {
                    let involved = decided.transaction.involved(&self.shards);
                    self.broadcast(&involved, Message::Writeback(Shared::clone(&decided)));
                }
                if is_own.is_some() {
                    return self.finish(id, decided, false);
                }
                self.note_decided(id, &decided);
                if was_watched {
                    self.outputs.push_back(Output::Recovered { id, decided, took_part: false });
                }
            }
            Message::Known(transaction) => {
                let id = transaction.id(&self.shards);
                let is_wanted = self.watched.remove(&id).is_some() || self.is_candidate(&id);
                if is_wanted && !self.repeat_writeback(id) {
                    self.recover(now, transaction);
                }
            }
            Message::Closed { closed, transactions } => {
                if let Statement::Closed { from_us, below_us, .. } = closed.statement {
                    self.note_closed(now, &closed, &transactions);
                    self.receive_closed(closed.replica, from_us, below_us, transactions);
                }
            }
            Message::Pruned { below_us } => self.receive_pruned(from, below_us),
            // A replica asks for a transaction that a read depends on.
            Message::Fetch(ids) => ids.into_iter().for_each(|id| self.respond_to_fetch(from, id)),
            _ => {}
        }
    }

    fn receive_pruned(&mut self, from: Peer, below_us: u64) {
        let Peer::Replica(replica) = from else { return };
        self.pruned.insert(replica, below_us);
        let of_shard = self.pruned.iter().filter(|(other, _)| other.shard == replica.shard);
        let mut forgotten: Vec<_> = of_shard.map(|(_, below_us)| *below_us).collect();
        forgotten.sort_unstable();
        // One of f + 1 is correct, so the lowest claim is not above that of a correct one.
        let enough = self.shards.validity();
        if forgotten.len() >= enough {
            let below_us = forgotten[forgotten.len() - enough];
            self.pruned.clear();
            self.outputs.push_back(Output::Late { below_us });
        }
    }

    fn respond_to_fetch(&mut self, from: Peer, id: TransactionId) {
        let known = self.efforts.get(&id).map(|effort| Message::Known(effort.transaction.clone()));
        let decided = self.finished.get(&id).map(|decided| Message::Writeback(decided.clone()));
        if let Some(message) = decided.or(known) {
            self.send(from, message);
        }
    }

    /// Replicas that wait for a finished transaction missed its certificate. Returns false if it is not known here.
    fn repeat_writeback(&mut self, id: TransactionId) -> bool {
        let Some(decided) = self.finished.get(&id).cloned() else { return false };
        let involved = decided.transaction.involved(&self.shards);
        self.broadcast(&involved, Message::Writeback(decided));
        true
    }

    /// An abort with a reason. A committed one is proof; a prepared one is watched, because it might never finish.
    fn receive_conflict(&mut self, now: TimestampMs, id: TransactionId, conflict: Option<Conflict>) {
        let Some(effort) = self.efforts.get_mut(&id) else { return };
        match conflict {
            Some(Conflict::Committed(other)) if other.transaction.forbids(&effort.transaction) => {
                effort.tally.insert_conflict(other);
            }
            Some(Conflict::Prepared(other))
                if other.forbids(&effort.transaction) || effort.has_read_from(&other.id(&self.shards)) =>
            {
                let id = other.id(&self.shards);
                let shard = other.logging_shard(&id, &self.shards);
                self.watch(now, id, Some(other), shard);
            }
            _ => {}
        }
    }

    fn watch(&mut self, now: TimestampMs, id: TransactionId, transaction: Option<Shared<SignedTransaction>>, shard: ShardId) {
        if self.efforts.contains_key(&id) || self.watched.len() >= MAX_RECOVERIES {
            return;
        }
        let at = TimestampMs(now.0 + self.config.recover_ms);
        self.watched.entry(id).or_insert(Watched { transaction, shard, at, asked: 0 });
    }

    /// Runs timers.
    pub fn tick(&mut self, now: TimestampMs) {
        self.repeat_reads(now);
        self.repeat_exports(now);
        self.repeat_certifying(now);
        let efforts: Vec<_> = self.efforts.keys().copied().collect();
        for id in efforts {
            self.advance(now, id);
            self.repeat(now, id);
        }
        let is_due = |(id, watched): (&TransactionId, &Watched)| (watched.at <= now).then_some(*id);
        let due: Vec<_> = self.watched.iter().filter_map(is_due).collect();
        for id in due {
            self.help(now, id);
        }
    }

    /// Recovers a watched transaction, or asks for it and its certificate first.
    fn help(&mut self, now: TimestampMs, id: TransactionId) {
        if self.repeat_writeback(id) {
            self.watched.remove(&id);
            return;
        }
        let Some(watched) = self.watched.get_mut(&id) else { return };
        watched.at = TimestampMs(now.0 + self.config.resend_ms.max(1));
        watched.asked += 1;
        let (shard, is_last) = (watched.shard, watched.asked > MAX_ASKED);
        if let Some(transaction) = watched.transaction.take()
            && self.recover(now, transaction)
        {
            self.watched.remove(&id);
            return;
        }
        if is_last {
            self.watched.remove(&id);
            return;
        }
        self.broadcast(&BTreeSet::from([shard]), Message::Fetch(vec![id]));
    }

    /// Time of the next [`Self::tick`].
    pub fn deadline(&self) -> Option<TimestampMs> {
        let reading = self.executing.values().flat_map(|executing| executing.reading.values()).map(|reading| reading.resend_at);
        let efforts = self.efforts.values().filter_map(Effort::deadline);
        let watched = self.watched.values().map(|watched| watched.at);
        let exports = self.exports.values().map(|export| export.resend_at);
        let certifying = self.certifying.iter().filter_map(Certifying::deadline);
        reading.chain(efforts).chain(watched).chain(exports).chain(certifying).min()
    }

    /// Returns the next output.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn send(&mut self, to: Peer, message: Message) {
        self.outputs.push_back(Output::Send { to, message: Arc::new(message) });
    }

    fn broadcast(&mut self, to: &BTreeSet<ShardId>, message: Message) {
        let message = Arc::new(message);
        for replica in to.iter().flat_map(|shard| self.shards.replicas(*shard)) {
            self.outputs.push_back(Output::Send { to: Peer::Replica(replica), message: Arc::clone(&message) });
        }
    }

    /// Number of transactions in progress, own and others'.
    pub fn open(&self) -> usize {
        self.executing.len() + self.efforts.len()
    }
}

/// Maximum wait before the next attempt of a transaction after `attempts` aborts, ms (P4). The caller chooses a random time
/// below it.
pub fn backoff_ms(attempts: u32) -> u64 {
    (2u64 << attempts.min(7)).min(250)
}
