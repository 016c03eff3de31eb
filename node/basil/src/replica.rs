//! A replica: a state machine without I/O. It serves reads, votes once for each transaction, logs decisions, and applies
//! certificates.
//!
//! The caller applies one [`Input`], then takes every [`Output`] until `None`, then waits for the next input or for
//! [`Replica::deadline`]. Recovery is construction: a replica starts from the records that it persisted.
//!
//! **Durable before visible.** Signed replies leave in batches. Each batch waits until all records before it are durable.

mod closing;
mod constants;
mod fallback;
mod prefix;
mod prepare;
mod replies;

use crate::attestation::{Decision, Signer, View};
use crate::certificate::Decided;
use crate::config::Config;
use crate::message::{Committed, Message, Peer, Versioned};
use crate::record::Record;
use crate::shards::{Key, ReplicaId, Shards};
use crate::shared::Shared;
use crate::transaction::{SignedTransaction, Timestamp, Transaction, TransactionId, Value};
use crate::verify::Checked;
use crate::versions::Versions;
use constants::ConstantStore;
pub use constants::MAX_CONSTANTS;
use corniche_types::{Bytes, TimestampMs};
use fallback::Elections;
use prefix::Prefix;
pub use prepare::MAX_DEPTH;
use prepare::Phase;
use replies::Replies;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

/// The semantics of transactions (A1). Without it a client could write anything.
pub trait Program: Send + Sync {
    /// Runs the call over the values that the transaction claims to have read, and compares the writes. A pure function:
    /// all correct replicas get the same result. `constants` has those of [`Self::constants`].
    ///
    /// # Errors
    /// The call is not valid, reads another key, or writes other values.
    fn check(&self, transaction: &Transaction, constants: &BTreeMap<Key, Bytes>) -> Result<(), String>;

    /// Constants that the run needs: keys that can have one value only, as code by its hash. They are not among the reads.
    fn constants(&self, transaction: &Transaction) -> BTreeSet<Key> {
        let _ = transaction;
        BTreeSet::new()
    }

    /// True if `key` is a constant, and this is its value.
    fn is_constant(&self, key: &Key, value: &Bytes) -> bool {
        let _ = (key, value);
        false
    }
}

/// Number of undecided transactions that an audit asks about.
const MAX_AUDITED: usize = 16;

/// Identifies one append that the replica asked for in this run. Tickets ascend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Events for a replica.
#[derive(Clone, Debug)]
pub enum Input {
    Message(Box<Checked>),
    /// The append of this run with this ticket, and all before it, are on disk.
    Durable(Ticket),
    /// [`Replica::deadline`] passed.
    Deadline,
}

/// Requests of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Channels may lose, delay and reorder messages.
    Send { to: Peer, message: Arc<Message> },
    /// Append the records, sync, then respond with [`Input::Durable`].
    Persist(Ticket, Vec<Record>),
    /// The transaction is decided here. For the ledger, logs and tests.
    Decided(Shared<Decided>),
    /// The others forgot what this replica misses: it must copy the state ([`StateCopy`](crate::copy::StateCopy)).
    Behind,
}

/// Everything that a replica is built from.
#[derive(Clone)]
pub struct Setup {
    pub config: Config,
    pub shards: Arc<Shards>,
    pub id: ReplicaId,
    pub signer: Arc<dyn Signer>,
    pub program: Arc<dyn Program>,
    /// Values of this shard in the genesis.
    pub genesis: Vec<(Key, Value)>,
    /// Time of the genesis, µs: no transaction is before it.
    pub genesis_us: u64,
    /// Everything persisted before, in order.
    pub records: Vec<Record>,
}

/// A replica.
pub struct Replica {
    config: Config,
    shards: Arc<Shards>,
    id: ReplicaId,
    signer: Arc<dyn Signer>,
    program: Arc<dyn Program>,
    versions: Versions,
    transactions: BTreeMap<TransactionId, Entry>,
    /// The one transaction of each timestamp that this replica may vote for (pitfall 14).
    by_timestamp: BTreeMap<Timestamp, TransactionId>,
    /// All known transactions in the serial order.
    timeline: BTreeSet<(Timestamp, TransactionId)>,
    genesis_us: u64,
    /// The closed watermark, µs.
    closed_us: u64,
    /// Known transactions without a decision, in the same order.
    undecided: BTreeSet<(Timestamp, TransactionId)>,
    /// The transaction about which others were asked last.
    audited: Option<(Timestamp, TransactionId)>,
    audit_at: TimestampMs,
    prefix: Prefix,
    /// Number of undecided transactions that each peer brought.
    open: BTreeMap<Peer, usize>,
    /// Transactions in [`Phase::Parked`], by the time of their next fetch.
    parked: BTreeSet<(TimestampMs, TransactionId)>,
    /// Transactions to check again, with the one that they waited for.
    woken: VecDeque<(TransactionId, TransactionId)>,
    constants: ConstantStore,
    elections: Elections,
    replies: Replies,
    outputs: VecDeque<Output>,
    /// Time of the next search for ongoing reads that are over.
    expire_at: TimestampMs,
}

/// Everything about one transaction.
#[derive(Default)]
struct Entry {
    /// `None` while only its id is known.
    transaction: Option<Shared<SignedTransaction>>,
    /// The peer that brought it; `None` after a restart.
    introducer: Option<Peer>,
    /// Number of undecided transactions in a row that end with this one.
    depth: u16,
    phase: Phase,
    decided: Option<Shared<Decided>>,
    fallback: fallback::State,
    /// They hear about the vote and about decisions of the fallback.
    interested: BTreeSet<Peer>,
    /// Transactions that wait for this one.
    dependents: BTreeSet<TransactionId>,
}

impl Replica {
    /// Builds a replica from its records.
    pub fn new(now: TimestampMs, setup: Setup) -> Self {
        let Setup { config, shards, id, signer, program, genesis, genesis_us, records } = setup;
        let mut versions = Versions::default();
        for (key, value) in genesis {
            versions.insert_genesis(key, value);
        }
        let mut replica = Self {
            replies: Replies::default(),
            config,
            shards,
            id,
            signer,
            program,
            versions,
            transactions: BTreeMap::new(),
            by_timestamp: BTreeMap::new(),
            timeline: BTreeSet::new(),
            genesis_us,
            closed_us: genesis_us,
            prefix: Prefix::new(genesis_us),
            open: BTreeMap::new(),
            undecided: BTreeSet::new(),
            audited: None,
            audit_at: now,
            parked: BTreeSet::new(),
            woken: VecDeque::new(),
            constants: ConstantStore::default(),
            elections: Elections::default(),
            outputs: VecDeque::new(),
            expire_at: now,
        };
        records.into_iter().for_each(|record| replica.restore(record));
        replica.resume(now);
        replica
    }

    fn restore(&mut self, record: Record) {
        match record {
            Record::Prepared(transaction) => {
                let id = self.relearn(&transaction);
                self.prepare(id, &transaction);
                self.entry(id).phase = Phase::Waiting(BTreeSet::new());
            }
            Record::Voted { transaction, vote } => {
                let id = self.relearn(&transaction);
                if vote == Decision::Abort {
                    self.versions.abort(id, &transaction);
                } else {
                    self.prepare(id, &transaction);
                }
                self.entry(id).phase = Phase::Voted { vote, conflict: None };
            }
            Record::Logged { transaction, decision, decision_view, current_view } => {
                let id = self.relearn(&transaction);
                self.entry(id).fallback.restore(decision, decision_view, current_view);
            }
            Record::Decided(decided) => {
                let id = self.relearn(&decided.transaction);
                self.apply(id, decided);
            }
            Record::Closed { below_us } => self.closed_us = self.closed_us.max(below_us),
            Record::Pruned { below_us } => self.prune(below_us),
            Record::Complete { below_us } => {
                self.prefix.complete_us = self.prefix.complete_us.max(below_us);
            }
        }
    }

    /// Records from which a replica continues as this one would after a restart. They replace all earlier ones, so that the records on
    /// disk do not grow for ever (A7).
    pub fn snapshot(&self) -> Vec<Record> {
        let position = |(id, entry): &(&TransactionId, &Entry)| Some((entry.transaction.as_ref()?.timestamp, **id));
        let mut entries: Vec<_> = self.transactions.iter().collect();
        entries.sort_by_key(position);
        let mut records = Vec::new();
        for (_, entry) in entries {
            let Some(transaction) = &entry.transaction else { continue };
            if let Some(decided) = &entry.decided {
                records.push(Record::Decided(decided.clone()));
                continue;
            }
            match entry.phase {
                Phase::Waiting(_) => records.push(Record::Prepared(transaction.clone())),
                Phase::Voted { vote, .. } => records.push(Record::Voted { transaction: transaction.clone(), vote }),
                Phase::Unknown | Phase::Gathering { .. } | Phase::Parked { .. } => {}
            }
            records.extend(entry.fallback.record(transaction));
        }
        records.push(Record::Closed { below_us: self.closed_us });
        records.push(Record::Complete { below_us: self.prefix.complete_us });
        records.push(Record::Pruned { below_us: self.prefix.pruned_us });
        records
    }

    /// Continues transactions that were prepared without a vote.
    fn resume(&mut self, now: TimestampMs) {
        self.prune_later(now, self.prefix.complete_us);
        let is_waiting =
            |id: &TransactionId| self.transactions.get(id).is_some_and(|entry| matches!(entry.phase, Phase::Waiting(_)));
        // In the serial order, so that the depth of each writer is known before its readers'.
        let waiting: Vec<_> = self.undecided.iter().map(|(_, id)| *id).filter(is_waiting).collect();
        for id in waiting {
            self.wait_again(now, id);
        }
        self.run_woken(now);
        self.flush(now);
    }

    /// Applies one input.
    pub fn handle(&mut self, now: TimestampMs, input: Input) {
        match input {
            Input::Message(checked) => {
                let Checked { from, message, views } = *checked;
                self.receive(now, from, message, &views);
            }
            Input::Durable(ticket) => self.sign_durable(now, ticket),
            Input::Deadline => {}
        }
        self.run_timers(now);
        self.run_woken(now);
        self.flush(now);
    }

    /// Returns the next output.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Time of the next [`Input::Deadline`].
    pub fn deadline(&self) -> Option<TimestampMs> {
        let reading = (self.versions.reading_count() > 0).then_some(self.expire_at);
        [
            self.replies.deadline(),
            self.fetch_deadline(),
            self.close_deadline(),
            self.audit_deadline(),
            self.prefix_deadline(),
            reading,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn receive(&mut self, now: TimestampMs, from: Peer, message: Message, views: &BTreeMap<ReplicaId, View>) {
        match message {
            Message::Read { timestamp, key } => self.read(now, from, timestamp, key),
            Message::Abandon { timestamp } => self.versions.stop_reading(timestamp),
            Message::Prepare(transaction) => self.receive_prepare(now, from, &transaction),
            Message::Recover(transaction) => self.receive_recover(now, from, &transaction),
            Message::Known(transaction) => self.receive_known(now, from, &transaction),
            Message::Log(proposal) => self.receive_log(now, from, &proposal),
            Message::Writeback(decided) => self.receive_writeback(now, from, decided),
            Message::Fetch(ids) => ids.into_iter().for_each(|id| self.respond_to_fetch(from, id)),
            Message::InvokeFallback { proposal, views: _ } => self.invoke_fallback(now, from, &proposal, views),
            Message::Elect(attestation) => self.receive_election(now, attestation),
            Message::Decide { id, decision, view, elections: _ } => {
                // The elections are of the leader's shard.
                if matches!(from, Peer::Replica(leader) if leader.shard == self.id.shard) {
                    self.receive_decide(now, id, decision, view);
                }
            }
            Message::AskConstant(key) => self.respond_to_constant(from, key),
            Message::Constant { key, value } => self.receive_constant(now, key, value),
            Message::AskState { below_us, after } => self.report_state(from, below_us, after),
            Message::AskClosed { from_us, below_us } => self.report_closed(now, from, from_us, below_us),
            Message::Closed { closed, transactions } => {
                self.receive_closed(now, closed.replica, &closed.statement, transactions);
            }
            // Replies to clients.
            Message::ReadReply { .. } | Message::Vote { .. } | Message::Logged(_) => {}
            Message::Pruned { below_us } => self.receive_pruned(from, below_us),
            // A copy of the state is made before the replica starts.
            Message::State { .. } => {}
        }
    }

    /// Y1 to Y3.
    fn read(&mut self, now: TimestampMs, from: Peer, timestamp: Timestamp, key: Key) {
        if timestamp.is_ahead_of(now, self.config.delta_ms) || !self.owns(&key) {
            return;
        }
        if self.is_pruned(timestamp) {
            return self.send(from, Message::Pruned { below_us: self.prefix.pruned_us });
        }
        if self.config.protect_readers {
            let until = TimestampMs(now.0 + self.config.reading_ms);
            self.versions.start_reading(&key, timestamp, until, self.config.max_reading);
        }
        let newest = self.versions.newest(&key, timestamp);
        let decided = newest.committed.and_then(|id| self.transactions.get(&id)?.decided.clone());
        let committed = decided.map_or_else(|| Committed::Genesis(newest.genesis.clone()), Committed::Written);
        let prepared = newest.prepared.map(|(version, value)| Versioned { version, value: value.clone() });
        self.send(from, Message::ReadReply { timestamp, key, committed, prepared });
    }

    /// A certificate ends everything about its transaction (W2).
    fn receive_writeback(&mut self, now: TimestampMs, from: Peer, decided: Shared<Decided>) {
        let id = decided.transaction.id(&self.shards);
        let is_known = self.transactions.contains_key(&id);
        // A certificate of an abort may be a conflict only, which needs no vote of a replica: it must not be kept at any time ahead.
        let timestamp = decided.transaction.timestamp;
        let is_outside = self.is_pruned(timestamp) || timestamp.is_ahead_of(now, self.config.delta_ms);
        if is_outside && !is_known || !decided.transaction.involved(&self.shards).contains(&self.id.shard) {
            return;
        }
        self.learn_from(Some(from), id, &decided.transaction);
        if self.entry(id).decided.is_some() {
            return;
        }
        self.replies.record(now, &self.config, Record::Decided(decided.clone()));
        self.apply(id, decided.clone());
        self.outputs.push_back(Output::Decided(decided));
        self.note_decided(now, id);
    }

    /// Applies a decision to the versions, and wakes the transactions that waited for it.
    fn apply(&mut self, id: TransactionId, decided: Shared<Decided>) {
        let transaction = Shared::clone(&decided.transaction);
        match decided.decision() {
            Decision::Commit => {
                // Whatever else has this timestamp cannot commit here any more.
                self.by_timestamp.insert(transaction.timestamp, id);
                let owns = self.owner();
                self.versions.commit(id, &transaction, owns);
            }
            Decision::Abort => self.versions.abort(id, &transaction),
        }
        self.undecided.remove(&(transaction.timestamp, id));
        self.unpark(id);
        self.forget_unknown_writers(id, &transaction);
        let entry = self.entry(id);
        entry.decided = Some(decided);
        entry.interested.clear();
        entry.depth = 0;
        if !matches!(entry.phase, Phase::Voted { .. }) {
            // Without a vote before the decision there is none after it: everybody who asks gets the certificate.
            entry.phase = Phase::Unknown;
        }
        let introducer = entry.introducer.take();
        self.wake(id);
        self.entry(id).dependents.clear();
        self.release_quota(introducer);
    }

    fn release_quota(&mut self, introducer: Option<Peer>) {
        if let Some(peer) = introducer
            && let Some(count) = self.open.get_mut(&peer)
        {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&peer);
            }
        }
    }

    /// Forgets a transaction that cannot commit any more.
    fn drop_dead(&mut self, id: TransactionId, transaction: &SignedTransaction) {
        self.versions.abort(id, transaction);
        self.wake(id);
        self.undecided.remove(&(transaction.timestamp, id));
        self.unpark(id);
        self.forget_unknown_writers(id, transaction);
        let introducer = self.transactions.remove(&id).and_then(|entry| entry.introducer);
        self.release_quota(introducer);
    }

    fn respond_to_fetch(&mut self, from: Peer, id: TransactionId) {
        let Some(entry) = self.transactions.get(&id) else { return };
        let message = match (&entry.decided, &entry.transaction) {
            (Some(decided), _) => Message::Writeback(Shared::clone(decided)),
            (None, Some(transaction)) => Message::Known(Shared::clone(transaction)),
            (None, None) => return,
        };
        self.send(from, message);
    }

    /// Remembers the transaction, without a vote. Returns false for a new one that is of other shards, below the pruned prefix, ahead of
    /// this clock, or from a peer with too many. So nothing is signed for a time ahead, and a replica that lost its records knows above which
    /// time it signed nothing (A6). The owner's limit must not keep others from finishing it.
    fn learn(&mut self, now: TimestampMs, from: Peer, id: TransactionId, transaction: &Shared<SignedTransaction>) -> bool {
        let is_known = self.transactions.get(&id).is_some_and(|entry| entry.transaction.is_some());
        let open = self.open.get(&from).copied().unwrap_or(0);
        let is_acceptable = is_known
            || open < self.config.max_open
                && !self.is_pruned(transaction.timestamp)
                && !transaction.timestamp.is_ahead_of(now, self.config.delta_ms)
                && transaction.involved(&self.shards).contains(&self.id.shard);
        if is_acceptable {
            self.learn_from(Some(from), id, transaction);
        }
        is_acceptable
    }

    fn learn_from(&mut self, from: Option<Peer>, id: TransactionId, transaction: &Shared<SignedTransaction>) {
        let entry = self.transactions.entry(id).or_default();
        if entry.transaction.is_none() {
            entry.transaction = Some(transaction.clone());
            entry.introducer = from;
            if let Some(from) = from {
                *self.open.entry(from).or_default() += 1;
            }
            self.timeline.insert((transaction.timestamp, id));
            self.undecided.insert((transaction.timestamp, id));
        }
    }

    /// Remembers a transaction of a record.
    fn relearn(&mut self, transaction: &Shared<SignedTransaction>) -> TransactionId {
        let id = transaction.id(&self.shards);
        self.learn_from(None, id, transaction);
        id
    }

    fn audit_deadline(&self) -> Option<TimestampMs> {
        (!self.undecided.is_empty()).then_some(self.audit_at)
    }

    /// Asks the others about some of the oldest undecided transactions, in turn: their certificates may have been lost.
    fn audit(&mut self, now: TimestampMs) {
        if now < self.audit_at {
            return;
        }
        self.audit_at = TimestampMs(now.0 + self.config.audit_ms.max(1));
        let old_us = now.0.saturating_sub(self.config.audit_ms).saturating_mul(1_000);
        let after = self.audited.map_or(Unbounded, Excluded);
        let is_old = |(timestamp, _): &&(Timestamp, TransactionId)| timestamp.time_us <= old_us;
        let chosen: Vec<_> = self.undecided.range((after, Unbounded)).take_while(is_old).take(MAX_AUDITED).copied().collect();
        // After the last one, it starts again with the first.
        self.audited = if chosen.len() < MAX_AUDITED { None } else { chosen.last().copied() };
        self.fetch(None, chosen.into_iter().map(|(_, id)| id).collect());
    }

    fn entry(&mut self, id: TransactionId) -> &mut Entry {
        self.transactions.entry(id).or_default()
    }

    fn owns(&self, key: &Key) -> bool {
        self.shards.shard_of(key) == self.id.shard
    }

    /// Selects the keys of this shard, without a borrow of the replica.
    fn owner(&self) -> impl Fn(&Key) -> bool + use<> {
        let (shards, shard) = (Arc::clone(&self.shards), self.id.shard);
        move |key| shards.shard_of(key) == shard
    }

    fn peers(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        let own = self.id;
        self.shards.replicas(own.shard).filter(move |replica| *replica != own)
    }

    fn run_timers(&mut self, now: TimestampMs) {
        if now >= self.expire_at {
            self.versions.expire_reading(now);
            self.expire_at = TimestampMs(now.0 + self.config.reading_ms.max(1));
        }
        self.close(now);
        self.run_pruning(now);
        self.advance_prefix(now);
        self.fetch_again(now);
        self.audit(now);
    }

    /// Everything below this time is decided, and known here; µs.
    pub fn complete_us(&self) -> u64 {
        self.prefix.complete_us
    }

    /// Number of transactions, keys, ongoing reads and constants in memory.
    pub fn footprint(&self) -> usize {
        self.transactions.len() + self.versions.count() + self.versions.reading_count() + self.constants.count()
    }
}

impl Entry {
    fn add_interested(&mut self, peer: Peer, max: usize) {
        if self.decided.is_none() && self.interested.len() < max {
            self.interested.insert(peer);
        }
    }
}
