//! The multi-version store of one replica, and MVTSO-Check over it (§3.3, Algorithm 1).
//!
//! Prepared writes are visible. A prepared transaction is a promise: no later vote may let another one slip under its reads or
//! between its reads and itself. So of two conflicting transactions, a correct replica votes Commit for one at most.

use crate::shards::{ClientId, Key};
use crate::transaction::{Timestamp, Transaction, TransactionId, Value, Version};

use corniche_types::{Bytes, TimestampMs};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

/// Versions of the keys of one shard.
#[derive(Default)]
pub struct Versions {
    keys: BTreeMap<Key, Item>,
    /// Ongoing reads of each client, by timestamp, with the time at which they are forgotten (Y2, RTS).
    reading: BTreeMap<ClientId, BTreeMap<Timestamp, Reading>>,
    /// Number of keys in them.
    protected: BTreeMap<ClientId, usize>,
}

#[derive(Default)]
struct Item {
    /// Value in the genesis.
    genesis: Value,
    writes: BTreeMap<Timestamp, Written>,
    /// Version that each prepared or committed transaction read.
    readers: BTreeMap<Timestamp, Reader>,
    /// RTS: ongoing reads by timestamp. A set, so that one can be removed.
    reading: BTreeMap<Timestamp, TimestampMs>,
}

struct Written {
    writer: TransactionId,
    value: Value,
    is_committed: bool,
}

struct Reader {
    reader: TransactionId,
    version: Timestamp,
}

struct Reading {
    keys: BTreeSet<Key>,
    /// The first key's.
    until: TimestampMs,
}

/// Why a transaction cannot be prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A prepared or committed transaction (K3, K4).
    Transaction(TransactionId),
    /// An ongoing read (K5).
    OngoingRead,
}

/// The newest versions of a key below a timestamp (Y3).
pub struct Newest<'a> {
    /// `None`: the value of the genesis.
    pub committed: Option<TransactionId>,
    pub genesis: &'a Value,
    /// Newer than the committed one.
    pub prepared: Option<(Version, &'a Value)>,
}

impl Versions {
    /// Sets a value of the genesis.
    pub fn insert_genesis(&mut self, key: Key, value: Value) {
        self.keys.entry(key).or_default().genesis = value;
    }

    /// Y3.
    pub fn newest(&self, key: &Key, below: Timestamp) -> Newest<'_> {
        let Some(item) = self.keys.get(key) else {
            return Newest { committed: None, genesis: &None, prepared: None };
        };
        let mut newest = Newest { committed: None, genesis: &item.genesis, prepared: None };
        for (timestamp, written) in item.writes.range(..below).rev() {
            if written.is_committed {
                newest.committed = Some(written.writer);
                break;
            }
            let version = Version { timestamp: *timestamp, writer: written.writer };
            newest.prepared.get_or_insert((version, &written.value));
        }
        newest
    }

    /// Y2: the read protects itself from writes below it. `max` bounds the keys that a client's ongoing reads protect.
    pub fn start_reading(&mut self, key: &Key, timestamp: Timestamp, until: TimestampMs, max: usize) {
        let own = self.reading.entry(timestamp.client).or_default();
        let reading = own.entry(timestamp).or_insert_with(|| Reading { keys: BTreeSet::new(), until });
        if reading.keys.insert(key.clone()) {
            let until = reading.until;
            self.keys.entry(key.clone()).or_default().reading.insert(timestamp, until);
            *self.protected.entry(timestamp.client).or_default() += 1;
        }
        while self.protected.get(&timestamp.client).is_some_and(|count| *count > max)
            && let Some(oldest) = self.reading.get(&timestamp.client).and_then(|own| own.keys().next()).copied()
        {
            self.stop_reading(oldest);
        }
    }

    /// The transaction at this timestamp is decided, or its client abandoned it (X5).
    pub fn stop_reading(&mut self, timestamp: Timestamp) {
        let Some(own) = self.reading.get_mut(&timestamp.client) else { return };
        let reading = own.remove(&timestamp);
        if own.is_empty() {
            self.reading.remove(&timestamp.client);
        }
        let keys = reading.as_ref().map_or(0, |reading| reading.keys.len());
        if let Some(count) = self.protected.get_mut(&timestamp.client) {
            *count -= keys;
            if *count == 0 {
                self.protected.remove(&timestamp.client);
            }
        }
        for key in reading.into_iter().flat_map(|reading| reading.keys) {
            if let Some(item) = self.keys.get_mut(&key) {
                item.reading.remove(&timestamp);
            }
            self.forget_if_empty(&key);
        }
    }

    /// Forgets ongoing reads whose time is over.
    pub fn expire_reading(&mut self, now: TimestampMs) {
        let expired = |(timestamp, reading): (&Timestamp, &Reading)| (reading.until <= now).then_some(*timestamp);
        let expired: Vec<_> = self.reading.values().flat_map(|own| own.iter().filter_map(expired)).collect();
        expired.into_iter().for_each(|timestamp| self.stop_reading(timestamp));
    }

    fn forget_if_empty(&mut self, key: &Key) {
        if self.keys.get(key).is_some_and(|item| {
            item.genesis.is_none() && item.writes.is_empty() && item.readers.is_empty() && item.reading.is_empty()
        }) {
            self.keys.remove(key);
        }
    }

    /// K3, K4 and K5 for the keys that `owns` selects. Comparisons are strict: a transaction is not in its own way.
    pub fn obstacle(
        &self,
        transaction: &Transaction,
        owns: impl Fn(&Key) -> bool,
        now: TimestampMs,
        protect_readers: bool,
    ) -> Option<Obstacle> {
        let timestamp = transaction.timestamp;
        for read in transaction.reads.iter().filter(|read| owns(&read.key)) {
            let between = (Excluded(read.version.timestamp), Excluded(timestamp));
            // K3: it missed a write.
            let missed = self.keys.get(&read.key).and_then(|item| item.writes.range(between).next_back());
            if let Some((_, written)) = missed {
                return Some(Obstacle::Transaction(written.writer));
            }
        }
        let mut ongoing = false;
        for write in transaction.writes.iter().filter(|write| owns(&write.key)) {
            let Some(item) = self.keys.get(&write.key) else { continue };
            // K4: it would slip under a read.
            let mut later = item.readers.range((Excluded(timestamp), Unbounded));
            if let Some((_, reader)) = later.find(|(_, reader)| reader.version < timestamp) {
                return Some(Obstacle::Transaction(reader.reader));
            }
            // K5: an ongoing reader would miss it.
            let mut reading = item.reading.range((Excluded(timestamp), Unbounded));
            ongoing |= protect_readers && reading.any(|(_, until)| *until > now);
        }
        ongoing.then_some(Obstacle::OngoingRead)
    }

    /// K6: the writes become visible, and the reads are protected.
    pub fn prepare(&mut self, id: TransactionId, transaction: &Transaction, owns: impl Fn(&Key) -> bool) {
        self.insert(id, transaction, owns, false);
    }

    /// W2: the writes are committed, whatever this replica voted.
    pub fn commit(&mut self, id: TransactionId, transaction: &Transaction, owns: impl Fn(&Key) -> bool) {
        self.insert(id, transaction, owns, true);
        self.stop_reading(transaction.timestamp);
    }

    fn insert(&mut self, id: TransactionId, transaction: &Transaction, owns: impl Fn(&Key) -> bool, is_committed: bool) {
        let timestamp = transaction.timestamp;
        for write in transaction.writes.iter().filter(|write| owns(&write.key)) {
            let written = Written { writer: id, value: write.value.clone(), is_committed };
            let writes = &mut self.keys.entry(write.key.clone()).or_default().writes;
            // A committed write is final.
            if is_committed || writes.get(&timestamp).is_none_or(|written| !written.is_committed) {
                writes.insert(timestamp, written);
            }
        }
        for read in transaction.reads.iter().filter(|read| owns(&read.key)) {
            let reader = Reader { reader: id, version: read.version.timestamp };
            self.keys.entry(read.key.clone()).or_default().readers.insert(timestamp, reader);
        }
    }

    /// K7, W2: an aborted transaction leaves nothing behind.
    pub fn abort(&mut self, id: TransactionId, transaction: &Transaction) {
        let timestamp = transaction.timestamp;
        for key in transaction.keys() {
            let Some(item) = self.keys.get_mut(key) else { continue };
            if item.writes.get(&timestamp).is_some_and(|written| written.writer == id) {
                item.writes.remove(&timestamp);
            }
            if item.readers.get(&timestamp).is_some_and(|reader| reader.reader == id) {
                item.readers.remove(&timestamp);
            }
            self.forget_if_empty(key);
        }
        self.stop_reading(timestamp);
    }

    /// Removes the committed writes of a key below a committed one. Returns their writers.
    pub fn supersede(&mut self, key: &Key, by: Timestamp) -> Vec<TransactionId> {
        let Some(item) = self.keys.get_mut(key) else { return Vec::new() };
        let older: Vec<_> = item.writes.range(..by).filter(|(_, written)| written.is_committed).map(|(at, _)| *at).collect();
        older.into_iter().filter_map(|at| item.writes.remove(&at)).map(|written| written.writer).collect()
    }

    /// Removes the reads of a committed transaction: no write below them can come any more.
    pub fn forget_reads(&mut self, id: TransactionId, transaction: &Transaction) {
        for read in &transaction.reads {
            if let Some(item) = self.keys.get_mut(&read.key)
                && item.readers.get(&transaction.timestamp).is_some_and(|reader| reader.reader == id)
            {
                item.readers.remove(&transaction.timestamp);
                self.forget_if_empty(&read.key);
            }
        }
    }

    /// The value of a version that is prepared or committed here; `None` if there is no such version.
    pub fn value(&self, key: &Key, version: &Version) -> Option<&Value> {
        let item = self.keys.get(key);
        if version.is_genesis() {
            return Some(item.map_or(&None, |item| &item.genesis));
        }
        let written = item?.writes.get(&version.timestamp)?;
        (written.writer == version.writer).then_some(&written.value)
    }

    /// A value of the key, committed or prepared.
    pub fn any_value(&self, key: &Key) -> Option<&Bytes> {
        let item = self.keys.get(key)?;
        item.writes.values().find_map(|written| written.value.as_ref()).or(item.genesis.as_ref())
    }

    /// Number of keys with something in them.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// Number of ongoing reads.
    pub fn reading_count(&self) -> usize {
        self.reading.values().map(BTreeMap::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::{Read, Write};
    use corniche_types::{Address, B256, Bytes};

    const NOW: TimestampMs = TimestampMs(1_000);
    const LATER: TimestampMs = TimestampMs(2_000);

    fn key(number: u8) -> Key {
        Key { account: Address::left_padding_from(&[number]), item: Bytes::new() }
    }

    fn at(time_us: u64) -> Timestamp {
        Timestamp { time_us, client: B256::with_last_byte(1) }
    }

    fn id(time_us: u64) -> TransactionId {
        B256::left_padding_from(&time_us.to_be_bytes())
    }

    fn version(time_us: u64) -> Version {
        Version { timestamp: at(time_us), writer: id(time_us) }
    }

    fn text(text: &'static str) -> Value {
        Some(Bytes::from_static(text.as_bytes()))
    }

    fn reader(time_us: u64, number: u8, read_us: u64) -> Transaction {
        let reads = vec![Read { key: key(number), version: version(read_us), value: None }];
        Transaction { timestamp: at(time_us), reads, writes: vec![], call: Bytes::new() }
    }

    fn writer(time_us: u64, number: u8, value: &'static str) -> Transaction {
        let writes = vec![Write { key: key(number), value: text(value) }];
        Transaction { timestamp: at(time_us), reads: vec![], writes, call: Bytes::new() }
    }

    fn prepare(versions: &mut Versions, transaction: &Transaction) {
        versions.prepare(id(transaction.timestamp.time_us), transaction, |_| true);
    }

    fn commit(versions: &mut Versions, transaction: &Transaction) {
        versions.commit(id(transaction.timestamp.time_us), transaction, |_| true);
    }

    fn abort(versions: &mut Versions, transaction: &Transaction) {
        versions.abort(id(transaction.timestamp.time_us), transaction);
    }

    fn obstacle(versions: &Versions, transaction: &Transaction) -> Option<Obstacle> {
        versions.obstacle(transaction, |_| true, NOW, true)
    }

    /// K3: a transaction at 200 read the version at 100.
    #[test]
    fn a_write_between_version_and_reader_is_in_the_way() {
        for insert in [prepare, commit] {
            for (time_us, is_missed) in [(99, false), (100, false), (101, true), (199, true), (200, false), (201, false)] {
                let mut versions = Versions::default();
                insert(&mut versions, &writer(time_us, 1, "value"));
                let expected = is_missed.then(|| Obstacle::Transaction(id(time_us)));
                assert_eq!(obstacle(&versions, &reader(200, 1, 100)), expected, "a write at {time_us}");
                assert_eq!(obstacle(&versions, &reader(200, 2, 100)), None, "another key");
                let of_other_shard = versions.obstacle(&reader(200, 1, 100), |_| false, NOW, true);
                assert_eq!(of_other_shard, None, "another shard's key");
            }
        }
    }

    /// K4: a transaction at 200 read the version at 100, and is prepared or committed.
    #[test]
    fn a_write_does_not_slip_under_a_read() {
        for insert in [prepare, commit] {
            let mut versions = Versions::default();
            insert(&mut versions, &reader(200, 1, 100));
            for (time_us, slips) in [(99, false), (100, false), (101, true), (199, true), (200, false), (201, false)] {
                let expected = slips.then(|| Obstacle::Transaction(id(200)));
                assert_eq!(obstacle(&versions, &writer(time_us, 1, "value")), expected, "a write at {time_us}");
                assert_eq!(obstacle(&versions, &writer(time_us, 2, "value")), None, "another key");
                let of_other_shard = versions.obstacle(&writer(time_us, 1, "value"), |_| false, NOW, true);
                assert_eq!(of_other_shard, None, "another shard's key");
            }
        }
    }

    /// The first later reader may have read a newer version; the second one did not.
    #[test]
    fn every_later_reader_counts() {
        let mut versions = Versions::default();
        prepare(&mut versions, &reader(200, 1, 180));
        prepare(&mut versions, &reader(300, 1, 100));
        assert_eq!(obstacle(&versions, &writer(150, 1, "value")), Some(Obstacle::Transaction(id(300))));
    }

    /// K5: a read at 200 is in progress.
    #[test]
    fn an_ongoing_read_protects_itself() {
        let mut versions = Versions::default();
        versions.start_reading(&key(1), at(200), LATER, 10);
        for (time_us, expected) in [(199, Some(Obstacle::OngoingRead)), (200, None), (201, None)] {
            assert_eq!(obstacle(&versions, &writer(time_us, 1, "value")), expected, "a write at {time_us}");
        }
        let early = writer(199, 1, "value");
        assert_eq!(obstacle(&versions, &writer(199, 2, "value")), None, "another key");
        assert_eq!(versions.obstacle(&early, |_| true, NOW, false), None, "the protection can be switched off");
        assert_eq!(versions.obstacle(&early, |_| true, TimestampMs(1_999), true), Some(Obstacle::OngoingRead));
        assert_eq!(versions.obstacle(&early, |_| true, LATER, true), None, "its time is over");
    }

    /// Clients order transactions of one time, in all three rules.
    #[test]
    fn equal_times_are_ordered_by_their_clients() {
        let mut versions = Versions::default();
        versions.start_reading(&key(1), at(200), LATER, 10);
        prepare(&mut versions, &reader(200, 2, 100));
        prepare(&mut versions, &writer(200, 3, "value"));
        let with_client = |mut transaction: Transaction, client: u8| {
            transaction.timestamp.client = B256::with_last_byte(client);
            transaction
        };
        assert_eq!(obstacle(&versions, &with_client(writer(200, 1, "value"), 0)), Some(Obstacle::OngoingRead));
        assert_eq!(obstacle(&versions, &with_client(writer(200, 1, "value"), 2)), None);
        assert_eq!(obstacle(&versions, &with_client(writer(200, 2, "value"), 0)), Some(Obstacle::Transaction(id(200))));
        assert_eq!(obstacle(&versions, &with_client(writer(200, 2, "value"), 2)), None);
        assert_eq!(obstacle(&versions, &with_client(reader(200, 3, 100), 2)), Some(Obstacle::Transaction(id(200))));
        assert_eq!(obstacle(&versions, &with_client(reader(200, 3, 100), 0)), None);
    }

    /// A conflict can be proven to others, and an ongoing read cannot.
    #[test]
    fn a_transaction_is_reported_before_an_ongoing_read() {
        let mut versions = Versions::default();
        versions.start_reading(&key(1), at(300), LATER, 10);
        prepare(&mut versions, &reader(200, 2, 100));
        let mut both = writer(150, 1, "value");
        both.writes.push(Write { key: key(2), value: None });
        assert_eq!(obstacle(&versions, &both), Some(Obstacle::Transaction(id(200))));
    }

    #[test]
    fn an_abandoned_read_lets_a_lower_writer_succeed() {
        let mut versions = Versions::default();
        versions.start_reading(&key(1), at(200), LATER, 10);
        versions.start_reading(&key(1), at(300), LATER, 10);
        let early = writer(150, 1, "value");
        versions.stop_reading(at(300));
        assert_eq!(obstacle(&versions, &early), Some(Obstacle::OngoingRead), "the other read goes on");
        versions.stop_reading(at(200));
        assert_eq!(obstacle(&versions, &early), None);
        assert_eq!((versions.count(), versions.reading_count()), (0, 0));
    }

    #[test]
    fn reads_that_never_end_expire() {
        let mut versions = Versions::default();
        versions.start_reading(&key(1), at(200), LATER, 10);
        versions.start_reading(&key(2), at(300), TimestampMs(3_000), 10);
        versions.expire_reading(TimestampMs(1_999));
        assert_eq!(versions.reading_count(), 2);
        versions.expire_reading(LATER);
        assert_eq!((versions.reading_count(), versions.count()), (1, 1));
        versions.expire_reading(TimestampMs(3_000));
        assert_eq!((versions.reading_count(), versions.count()), (0, 0));
    }

    #[test]
    fn a_client_has_a_bound_of_ongoing_reads() {
        let mut versions = Versions::default();
        for time_us in 1..=10 {
            versions.start_reading(&key(1), at(time_us), LATER, 3);
        }
        assert_eq!(versions.reading_count(), 3);
        assert_eq!(obstacle(&versions, &writer(9, 1, "value")), Some(Obstacle::OngoingRead), "the newest stay");
        let other = Timestamp { time_us: 1, client: B256::with_last_byte(2) };
        versions.start_reading(&key(1), other, LATER, 3);
        assert_eq!(versions.reading_count(), 4, "another client has its own bound");
        for number in 0..=255 {
            versions.start_reading(&key(number), at(10), LATER, 3);
        }
        assert_eq!(versions.reading_count(), 1, "a read of more keys than the bound protects none");
        versions.expire_reading(LATER);
        assert_eq!(versions.count(), 0);
    }

    #[test]
    fn an_old_timestamp_reads_the_old_version_after_a_newer_commit() {
        let mut versions = Versions::default();
        commit(&mut versions, &writer(100, 1, "old"));
        commit(&mut versions, &writer(200, 1, "new"));
        let committed = |below: u64| versions.newest(&key(1), at(below)).committed;
        assert_eq!((committed(100), committed(101)), (None, Some(id(100))));
        assert_eq!((committed(200), committed(201)), (Some(id(100)), Some(id(200))));
        assert_eq!(versions.value(&key(1), &version(100)), Some(&text("old")));
        assert_eq!(versions.value(&key(1), &version(200)), Some(&text("new")));
        assert_eq!(versions.value(&key(1), &version(150)), None);
        let of_another = Version { writer: id(200), ..version(100) };
        assert_eq!(versions.value(&key(1), &of_another), None, "another transaction wrote at that time");
    }

    #[test]
    fn the_newest_prepared_version_above_the_committed_one_is_visible() {
        let mut versions = Versions::default();
        prepare(&mut versions, &writer(50, 1, "below"));
        commit(&mut versions, &writer(100, 1, "committed"));
        let prepared = |versions: &Versions, below| {
            versions.newest(&key(1), at(below)).prepared.map(|(version, value)| (version, value.clone()))
        };
        assert_eq!(prepared(&versions, 500), None, "a prepared version below the committed one is not newer");
        prepare(&mut versions, &writer(200, 1, "first"));
        prepare(&mut versions, &writer(300, 1, "second"));
        assert_eq!(prepared(&versions, 500), Some((version(300), text("second"))));
        assert_eq!(prepared(&versions, 300), Some((version(200), text("first"))));
        assert_eq!(versions.newest(&key(1), at(500)).committed, Some(id(100)));
        commit(&mut versions, &writer(300, 1, "second"));
        assert_eq!(prepared(&versions, 500), None);
        assert_eq!(versions.newest(&key(1), at(500)).committed, Some(id(300)));
    }

    #[test]
    fn the_genesis_is_the_version_of_unwritten_keys() {
        let mut versions = Versions::default();
        versions.insert_genesis(key(1), text("genesis"));
        assert_eq!(versions.newest(&key(1), at(1)).genesis, &text("genesis"));
        assert_eq!(versions.newest(&key(2), at(1)).genesis, &None);
        assert_eq!(versions.value(&key(1), &Version::GENESIS), Some(&text("genesis")));
        assert_eq!(versions.value(&key(2), &Version::GENESIS), Some(&None));
        let first = writer(100, 1, "value");
        prepare(&mut versions, &first);
        abort(&mut versions, &first);
        assert_eq!(versions.newest(&key(1), at(500)).genesis, &text("genesis"), "an abort does not touch it");
    }

    #[test]
    fn an_abort_leaves_nothing() {
        let mut versions = Versions::default();
        let mut transaction = writer(100, 1, "value");
        transaction.reads = reader(100, 2, 50).reads;
        versions.start_reading(&key(2), at(100), LATER, 10);
        prepare(&mut versions, &transaction);
        assert_eq!((versions.count(), versions.reading_count()), (2, 1));
        abort(&mut versions, &transaction);
        assert_eq!((versions.count(), versions.reading_count()), (0, 0));
        assert_eq!(obstacle(&versions, &reader(200, 1, 50)), None);
        assert_eq!(obstacle(&versions, &writer(75, 2, "value")), None);
        assert_eq!(versions.value(&key(1), &version(100)), None);
    }

    #[test]
    fn an_abort_leaves_other_transactions_alone() {
        let mut versions = Versions::default();
        let transaction = writer(100, 1, "value");
        prepare(&mut versions, &transaction);
        // A transaction of the same timestamp with another id.
        versions.abort(id(999), &transaction);
        assert_eq!(versions.value(&key(1), &version(100)), Some(&text("value")));
        abort(&mut versions, &writer(200, 1, "value"));
        assert_eq!(versions.value(&key(1), &version(100)), Some(&text("value")));
    }

    #[test]
    fn a_commit_ends_the_reads_of_its_transaction() {
        let mut versions = Versions::default();
        versions.start_reading(&key(1), at(200), LATER, 10);
        commit(&mut versions, &reader(200, 1, 100));
        assert_eq!(versions.reading_count(), 0);
        // The read is protected for ever instead.
        assert_eq!(versions.obstacle(&writer(150, 1, "value"), |_| true, NOW, false), Some(Obstacle::Transaction(id(200))));
    }
}
