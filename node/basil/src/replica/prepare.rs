//! Votes: MVTSO-Check and the wait for dependencies (§3.3, rules K0 to K8).
//!
//! ```text
//!   Unknown ──▶ Gathering (a constant is unknown) ──▶ Parked (a writer of a read value is unknown) ──┐
//!      │                                                                                             ▼
//!      └──────────────▶ Waiting (prepared; a writer is not decided) ────────────────────────────▶ Voted, for ever
//! ```
//!
//! A transaction that goes on wakes those that wait for it through a queue, so a chain of them needs no stack.

use super::{Entry, Replica};
use crate::attestation::{Decision, Statement};
use crate::message::{Conflict, MAX_FETCHED, Message, Peer};
use crate::record::Record;
use crate::shards::Key;
use crate::shared::Shared;
use crate::transaction::{Read, SignedTransaction, TransactionId};
use crate::versions::Obstacle;
use corniche_types::{Bytes, TimestampMs};
use std::collections::{BTreeMap, BTreeSet};

/// Number of times that a replica asks for unknown transactions or constants before it votes Abort.
pub(super) const MAX_FETCHES: u32 = 10;
/// Maximum number of undecided transactions in a row of which each read from the one before (pitfall 19). A client that stalls many
/// in a row must not make readers finish all of them.
pub const MAX_DEPTH: u16 = 16;

/// Progress of this replica's vote.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not checked.
    #[default]
    Unknown,
    /// These constants are missing, and their owners were asked. It needs the others, too.
    Gathering { missing: BTreeSet<Key>, found: BTreeMap<Key, Bytes> },
    /// These writers are unknown, or did not pass the check here and are not decided.
    Parked { missing: BTreeSet<TransactionId>, fetch_at: TimestampMs, fetches: u32 },
    /// Prepared. These writers of values that it read are not decided.
    Waiting(BTreeSet<TransactionId>),
    /// K0: the vote never changes.
    Voted { vote: Decision, conflict: Option<TransactionId> },
}

/// State of the version that a transaction read.
enum Source {
    Committed,
    Prepared(TransactionId),
    /// The writer is unknown, or not prepared here.
    Missing(TransactionId),
    /// Aborted, or it did not write that value.
    False,
}

/// Writers of the values that a transaction read.
#[derive(Default)]
struct Sources {
    prepared: BTreeSet<TransactionId>,
    missing: BTreeSet<TransactionId>,
}

impl Replica {
    /// ST1 (P1).
    pub(super) fn receive_prepare(&mut self, now: TimestampMs, from: Peer, transaction: &Shared<SignedTransaction>) {
        let id = transaction.id(&self.shards);
        self.prepare_known(now, from, id, transaction);
    }

    fn prepare_known(&mut self, now: TimestampMs, from: Peer, id: TransactionId, transaction: &Shared<SignedTransaction>) {
        if !self.learn(now, from, id, transaction) {
            return;
        }
        let max = self.config.max_interested;
        let entry = self.entry(id);
        if let Some(decided) = entry.decided.clone() {
            return self.send(from, Message::Writeback(decided));
        }
        entry.add_interested(from, max);
        match entry.phase {
            Phase::Unknown => self.check(now, id, transaction),
            // K0: a second check could give another result.
            Phase::Voted { .. } => self.send_vote(now, vec![from], id),
            Phase::Gathering { .. } | Phase::Parked { .. } | Phase::Waiting(_) => {}
        }
    }

    /// RP: everything that this replica knows (F1).
    pub(super) fn receive_recover(&mut self, now: TimestampMs, from: Peer, transaction: &Shared<SignedTransaction>) {
        let id = transaction.id(&self.shards);
        self.prepare_known(now, from, id, transaction);
        if transaction.logging_shard(&id, &self.shards) == self.id.shard {
            self.report_logged(now, from, id);
        }
    }

    /// A transaction that this replica asked for.
    pub(super) fn receive_known(&mut self, now: TimestampMs, from: Peer, transaction: &Shared<SignedTransaction>) {
        let id = transaction.id(&self.shards);
        if self.transactions.get(&id).is_none_or(|entry| entry.dependents.is_empty()) {
            return;
        }
        if !self.learn(now, from, id, transaction) {
            return;
        }
        if self.entry(id).phase == Phase::Unknown && self.entry(id).decided.is_none() {
            self.check(now, id, transaction);
        }
    }

    /// K1 to K6.
    fn check(&mut self, now: TimestampMs, id: TransactionId, transaction: &Shared<SignedTransaction>) {
        let timestamp = transaction.timestamp;
        // One transaction for each timestamp (pitfall 14).
        let is_first = *self.by_timestamp.entry(timestamp).or_insert(id) == id;
        // A5. K1 is in `learn`.
        if !is_first || self.is_closed(timestamp) {
            return self.vote(now, id, Decision::Abort, None);
        }
        if let Some(constants) = self.gather(now, id, transaction) {
            self.check_program(now, id, transaction, &constants);
        }
    }

    /// A1, once all constants are here.
    pub(super) fn check_program(
        &mut self,
        now: TimestampMs,
        id: TransactionId,
        transaction: &Shared<SignedTransaction>,
        constants: &BTreeMap<Key, Bytes>,
    ) {
        if self.is_closed(transaction.timestamp) || self.program.check(transaction, constants).is_err() {
            return self.vote(now, id, Decision::Abort, None);
        }
        self.check_again(now, id, transaction);
    }

    /// K2 to K6: everything that depends on other transactions.
    fn check_again(&mut self, now: TimestampMs, id: TransactionId, transaction: &Shared<SignedTransaction>) {
        if self.is_closed(transaction.timestamp) {
            return self.vote(now, id, Decision::Abort, None);
        }
        // K2.
        let Some(sources) = self.sources(transaction).filter(|sources| sources.missing.len() <= MAX_FETCHED) else {
            return self.vote(now, id, Decision::Abort, None);
        };
        let deepest = self.deepest(&sources.prepared);
        if let Some((depth, writer)) = deepest
            && depth >= MAX_DEPTH
        {
            return self.vote(now, id, Decision::Abort, Some(writer));
        }
        // K3 to K5.
        match self.versions.obstacle(transaction, |key| self.owns(key), now, self.config.protect_readers) {
            Some(Obstacle::Transaction(other)) => return self.vote(now, id, Decision::Abort, Some(other)),
            Some(Obstacle::OngoingRead) => return self.vote(now, id, Decision::Abort, None),
            None => {}
        }
        if !sources.missing.is_empty() {
            return self.park(now, id, sources.missing);
        }
        self.unpark(id);
        self.prepare(id, transaction);
        self.replies.record(now, &self.config, Record::Prepared(transaction.clone()));
        self.entry(id).depth = deepest.map_or(0, |(depth, _)| depth) + 1;
        // Those that are parked may go on.
        self.wake(id);
        self.wait_for(now, id, sources.prepared);
    }

    /// K6.
    pub(super) fn prepare(&mut self, id: TransactionId, transaction: &SignedTransaction) {
        self.by_timestamp.entry(transaction.timestamp).or_insert(id);
        let owns = self.owner();
        self.versions.prepare(id, transaction, owns);
    }

    /// The undecided writer with the most undecided ones below it.
    fn deepest(&self, writers: &BTreeSet<TransactionId>) -> Option<(u16, TransactionId)> {
        writers.iter().filter_map(|writer| Some((self.transactions.get(writer)?.depth, *writer))).max()
    }

    /// K7: without undecided writers, the vote is Commit.
    fn wait_for(&mut self, now: TimestampMs, id: TransactionId, writers: BTreeSet<TransactionId>) {
        for writer in &writers {
            self.entry(*writer).dependents.insert(id);
        }
        let is_ready = writers.is_empty();
        self.entry(id).phase = Phase::Waiting(writers);
        if is_ready {
            self.vote(now, id, Decision::Commit, None);
        }
    }

    /// Compares all claimed reads of this shard with its versions; `None` if one is false.
    fn sources(&self, transaction: &SignedTransaction) -> Option<Sources> {
        let mut sources = Sources::default();
        for read in transaction.reads.iter().filter(|read| self.owns(&read.key)) {
            match self.source(read) {
                Source::Committed => {}
                Source::Prepared(writer) => _ = sources.prepared.insert(writer),
                Source::Missing(writer) => _ = sources.missing.insert(writer),
                Source::False => return None,
            }
        }
        Some(sources)
    }

    fn source(&self, read: &Read) -> Source {
        let writer = read.version.writer;
        let entry = self.transactions.get(&writer);
        let is_decided = entry.is_some_and(|entry| entry.decided.is_some());
        if let Some(value) = self.versions.value(&read.key, &read.version) {
            return match (*value == read.value, is_decided || read.version.is_genesis()) {
                (false, _) => Source::False,
                (true, true) => Source::Committed,
                (true, false) => Source::Prepared(writer),
            };
        }
        // Known and not prepared here: others may have prepared it, so its decision matters.
        let writes_it = |transaction: &SignedTransaction| {
            transaction.timestamp == read.version.timestamp && transaction.written(&read.key) == Some(&read.value)
        };
        match entry.and_then(|entry| entry.transaction.as_ref()) {
            _ if is_decided || self.is_pruned(read.version.timestamp) => Source::False,
            Some(transaction) if !writes_it(transaction) => Source::False,
            _ => Source::Missing(writer),
        }
    }

    /// An unknown writer is fetched: a client may have sent it to a few replicas only (pitfall 4).
    fn park(&mut self, now: TimestampMs, id: TransactionId, missing: BTreeSet<TransactionId>) {
        for writer in &missing {
            self.entry(*writer).dependents.insert(id);
        }
        let entry = self.entry(id);
        if let Phase::Parked { missing: known, .. } = &mut entry.phase {
            *known = missing;
            return;
        }
        let fetch_at = TimestampMs(now.0 + self.config.fetch_ms.max(1));
        self.entry(id).phase = Phase::Parked { missing, fetch_at, fetches: 1 };
        self.parked.insert((fetch_at, id));
        self.fetch_missing(id);
    }

    pub(super) fn unpark(&mut self, id: TransactionId) {
        self.stop_gathering(id);
        if let Some(Entry { phase: Phase::Parked { fetch_at, .. }, .. }) = self.transactions.get(&id) {
            self.parked.remove(&(*fetch_at, id));
        }
    }

    fn fetch_missing(&mut self, id: TransactionId) {
        let Some(Entry { phase: Phase::Parked { missing, .. }, transaction: Some(transaction), .. }) =
            self.transactions.get(&id)
        else {
            return;
        };
        let unknown = |writer: &&TransactionId| self.transactions.get(*writer).is_none_or(|entry| entry.transaction.is_none());
        let unknown: Vec<_> = missing.iter().filter(unknown).copied().collect();
        let client = Peer::Client(transaction.timestamp.client);
        self.fetch(Some(client), unknown);
    }

    /// Asks all other replicas of the shard, and a client.
    pub(super) fn fetch(&mut self, client: Option<Peer>, ids: Vec<TransactionId>) {
        if ids.is_empty() {
            return;
        }
        for peer in self.peers().map(Peer::Replica).chain(client) {
            self.send(peer, Message::Fetch(ids.clone()));
        }
    }

    pub(super) fn fetch_deadline(&self) -> Option<TimestampMs> {
        let parked = self.parked.first().map(|(fetch_at, _)| *fetch_at);
        [parked, self.constants.deadline()].into_iter().flatten().min()
    }

    pub(super) fn fetch_again(&mut self, now: TimestampMs) {
        self.ask_again(now);
        while let Some((_, id)) = self.parked.first().copied().filter(|(fetch_at, _)| *fetch_at <= now) {
            self.parked.pop_first();
            let next = TimestampMs(now.0 + self.config.fetch_ms.max(1));
            let Phase::Parked { fetch_at, fetches, .. } = &mut self.entry(id).phase else { continue };
            (*fetch_at, *fetches) = (next, *fetches + 1);
            if *fetches > MAX_FETCHES {
                self.vote(now, id, Decision::Abort, None);
                continue;
            }
            self.parked.insert((next, id));
            self.fetch_missing(id);
        }
    }

    /// Something about this transaction changed: those that wait for it are checked again.
    pub(super) fn wake(&mut self, id: TransactionId) {
        let dependents = self.entry(id).dependents.iter().map(|dependent| (*dependent, id)).collect::<Vec<_>>();
        self.woken.extend(dependents);
    }

    /// Checks those that were woken.
    pub(super) fn run_woken(&mut self, now: TimestampMs) {
        while let Some((id, writer)) = self.woken.pop_front() {
            let entry = self.entry(id);
            let Some(transaction) = entry.transaction.clone() else { continue };
            match &mut entry.phase {
                Phase::Parked { missing, .. } => {
                    missing.remove(&writer);
                    if missing.is_empty() {
                        self.check_again(now, id, &transaction);
                    }
                }
                Phase::Waiting(waiting) if waiting.contains(&writer) => self.wait_again(now, id),
                _ => {}
            }
        }
    }

    /// Finds the undecided writers of a prepared transaction again, and votes if there are none, or one is aborted (K7).
    pub(super) fn wait_again(&mut self, now: TimestampMs, id: TransactionId) {
        let Some(transaction) = self.entry(id).transaction.clone() else { return };
        match self.sources(&transaction).filter(|sources| sources.missing.is_empty()) {
            Some(sources) => {
                self.entry(id).depth = self.deepest(&sources.prepared).map_or(0, |(depth, _)| depth) + 1;
                self.wait_for(now, id, sources.prepared);
            }
            None => self.vote(now, id, Decision::Abort, None),
        }
    }

    /// K8. An Abort of a prepared transaction takes its versions back.
    pub(super) fn vote(&mut self, now: TimestampMs, id: TransactionId, vote: Decision, conflict: Option<TransactionId>) {
        self.unpark(id);
        let entry = self.entry(id);
        let Some(transaction) = entry.transaction.clone() else { return };
        entry.phase = Phase::Voted { vote, conflict };
        self.forget_unknown_writers(id, &transaction);
        if vote == Decision::Abort {
            self.versions.abort(id, &transaction);
        }
        self.replies.record(now, &self.config, Record::Voted { transaction, vote });
        let interested = self.entry(id).interested.iter().copied().collect();
        self.send_vote(now, interested, id);
    }

    /// Nothing is kept about writers that exist in a client's claim only.
    pub(super) fn forget_unknown_writers(&mut self, id: TransactionId, transaction: &SignedTransaction) {
        for read in &transaction.reads {
            let Some(entry) = self.transactions.get_mut(&read.version.writer) else { continue };
            if entry.transaction.is_none() {
                entry.dependents.remove(&id);
                if entry.dependents.is_empty() {
                    self.transactions.remove(&read.version.writer);
                }
            }
        }
    }

    fn send_vote(&mut self, now: TimestampMs, to: Vec<Peer>, id: TransactionId) {
        let Phase::Voted { vote, conflict } = self.entry(id).phase else { return };
        let other = conflict.and_then(|other| self.transactions.get(&other));
        let conflict = other.and_then(|other| match (&other.decided, &other.transaction) {
            (Some(decided), _) => decided.committed().map(Conflict::Committed),
            (None, Some(transaction)) => Some(Conflict::Prepared(transaction.clone())),
            _ => None,
        });
        self.reply(now, to, Statement::Vote { id, vote }, conflict);
    }
}
