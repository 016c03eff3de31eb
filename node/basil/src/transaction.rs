//! A transaction: its timestamp, the values that it read, the values that it writes, and the call that makes one of the
//! other. Its id is the hash of all of it, so nobody can show different transactions to different shards under one id.

use crate::shards::{ClientId, Key, MAX_ITEM_BYTES, ShardId, Shards, number_of};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{B256, Bytes, TimestampMs};
use std::collections::BTreeSet;

/// An ed25519 signature.
pub type Signature = [u8; 64];
/// Hash of a [`Transaction`] in its chain.
pub type TransactionId = B256;
/// Content of a key; `None` if the key does not exist.
pub type Value = Option<Bytes>;

/// Maximum number of reads and of writes.
pub const MAX_KEYS: usize = 4_096;
/// Maximum bytes of a value.
pub const MAX_VALUE_BYTES: usize = 1 << 20;
/// Maximum bytes of an encoded transaction.
pub const MAX_TRANSACTION_BYTES: usize = 4 << 20;

/// Position in the serial order (X1). The client chooses it from its clock, and never uses one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Timestamp {
    /// Unix time in microseconds.
    pub time_us: u64,
    /// Orders transactions of one time.
    pub client: ClientId,
}

impl Timestamp {
    /// Timestamp of the genesis: before every transaction.
    pub const GENESIS: Self = Self { time_us: 0, client: B256::ZERO };

    /// True if a clock at `now` refuses it because it is more than `delta_ms` ahead (Y1, K1).
    pub fn is_ahead_of(&self, now: TimestampMs, delta_ms: u64) -> bool {
        self.time_us > now.0.saturating_add(delta_ms).saturating_mul(1_000)
    }
}

/// Names one value of a key: the transaction that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Version {
    pub timestamp: Timestamp,
    /// Zero for the genesis.
    pub writer: TransactionId,
}

impl Version {
    /// Version of every key before its first write.
    pub const GENESIS: Self = Self { timestamp: Timestamp::GENESIS, writer: B256::ZERO };

    pub fn is_genesis(&self) -> bool {
        *self == Self::GENESIS
    }
}

/// A value that a transaction read. It contains the value, so that every shard can run the call again (A1).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Read {
    pub key: Key,
    pub version: Version,
    pub value: Value,
}

/// A value that a transaction writes.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Write {
    pub key: Key,
    pub value: Value,
}

/// A transaction, as its client proposes it.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Transaction {
    pub timestamp: Timestamp,
    /// In the order of their keys.
    pub reads: Vec<Read>,
    /// In the order of their keys.
    pub writes: Vec<Write>,
    /// Code, arguments and the user's signature; see [`Program`](crate::Program).
    pub call: Bytes,
}

/// Why a transaction is never valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    #[error("transaction: expected reads and writes in the order of their keys, each once")]
    Order,
    #[error("transaction: expected at most {MAX_KEYS} reads and {MAX_KEYS} writes")]
    Keys,
    #[error(
        "transaction: expected at most {MAX_TRANSACTION_BYTES} bytes, with items of at most {MAX_ITEM_BYTES} and values of at most {MAX_VALUE_BYTES}"
    )]
    Size,
    #[error("transaction: expected at least one read or write")]
    Empty,
    #[error("transaction: expected versions before its timestamp, and a timestamp after the genesis")]
    FutureRead,
    #[error("transaction: expected the signature of its client")]
    Signature,
}

impl Transaction {
    pub fn id(&self, shards: &Shards) -> TransactionId {
        shards.digest("corniche-basil-transaction", self)
    }

    /// All shards that own a key of it. They are derived, never claimed: a shard that is left out would be a hole.
    pub fn involved(&self, shards: &Shards) -> BTreeSet<ShardId> {
        self.keys().map(|key| shards.shard_of(key)).collect()
    }

    /// S_log: the one shard that logs a decision of the slow path. `id`, the transaction's own, chooses it among the involved ones.
    pub fn logging_shard(&self, id: &TransactionId, shards: &Shards) -> ShardId {
        let involved = self.involved(shards);
        let position = usize::try_from(number_of(id) % involved.len().max(1) as u64).expect("fewer than MAX_SHARDS");
        involved.into_iter().nth(position).unwrap_or(ShardId(0))
    }

    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.reads.iter().map(|read| &read.key).chain(self.writes.iter().map(|write| &write.key))
    }

    /// The value that it writes to `key`; `None` if it does not write there.
    pub fn written(&self, key: &Key) -> Option<&Value> {
        let position = self.writes.binary_search_by(|write| write.key.cmp(key)).ok()?;
        Some(&self.writes[position].value)
    }

    /// The version of `key` that it read.
    pub fn read_version(&self, key: &Key) -> Option<&Version> {
        let position = self.reads.binary_search_by(|read| read.key.cmp(key)).ok()?;
        Some(&self.reads[position].version)
    }

    /// Checks everything that needs no state. A read of the own or a later timestamp is misbehaviour (K3).
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn check(&self) -> Result<(), TransactionError> {
        use TransactionError::{Empty, FutureRead, Keys, Order, Size};
        let (reads, writes) = (&self.reads, &self.writes);
        let ensure = |holds: bool, error| if holds { Ok(()) } else { Err(error) };
        ensure(!reads.is_empty() || !writes.is_empty(), Empty)?;
        ensure(reads.len() <= MAX_KEYS && writes.len() <= MAX_KEYS, Keys)?;
        ensure(reads.is_sorted_by(|a, b| a.key < b.key) && writes.is_sorted_by(|a, b| a.key < b.key), Order)?;
        let values = reads.iter().map(|read| &read.value).chain(writes.iter().map(|write| &write.value));
        let values_fit = values.flatten().all(|value| value.len() <= MAX_VALUE_BYTES);
        let encoded = borsh::object_length(self).unwrap_or(usize::MAX);
        ensure(encoded <= MAX_TRANSACTION_BYTES, Size)?;
        ensure(values_fit && self.keys().all(|key| key.item.len() <= MAX_ITEM_BYTES), Size)?;
        let is_later = |timestamp: &Timestamp| *timestamp < self.timestamp;
        let mut before = reads.iter().map(|read| &read.version.timestamp).chain([&Timestamp::GENESIS]);
        ensure(before.all(is_later), FutureRead)
    }

    /// True if `self`, once it is prepared or committed, forbids `other` to commit: `other` missed a write of `self` (K3),
    /// or `other` would write below a read of `self` (K4).
    pub fn forbids(&self, other: &Self) -> bool {
        let missed = |read: &Read| {
            self.written(&read.key).is_some() && read.version.timestamp < self.timestamp && self.timestamp < other.timestamp
        };
        let slips_under = |write: &Write| {
            self.read_version(&write.key)
                .is_some_and(|version| version.timestamp < other.timestamp && other.timestamp < self.timestamp)
        };
        other.reads.iter().any(missed) || other.writes.iter().any(slips_under)
    }
}

/// A transaction with its client's signature of its id: proof against a client that misbehaves.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct SignedTransaction {
    pub transaction: Transaction,
    pub signature: Signature,
}

impl std::ops::Deref for SignedTransaction {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        &self.transaction
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TransactionError::{Empty, FutureRead, Keys, Order, Size};

    fn key(number: u64) -> Key {
        Key { account: corniche_types::Address::left_padding_from(&number.to_be_bytes()), item: Bytes::from_static(b"item") }
    }

    fn at(time_us: u64) -> Timestamp {
        Timestamp { time_us, client: B256::with_last_byte(1) }
    }

    fn read(number: u64, time_us: u64) -> Read {
        let version = Version { timestamp: at(time_us), writer: B256::with_last_byte(9) };
        Read { key: key(number), version, value: Some(Bytes::from_static(b"read")) }
    }

    fn write(number: u64) -> Write {
        Write { key: key(number), value: Some(Bytes::from_static(b"written")) }
    }

    fn transaction(time_us: u64, reads: Vec<Read>, writes: Vec<Write>) -> Transaction {
        Transaction { timestamp: at(time_us), reads, writes, call: Bytes::from_static(b"call") }
    }

    fn shards(chain_id: u64, epoch: u64) -> Shards {
        let member = |shard: u8, index: u8| B256::left_padding_from(&[shard, index + 1]);
        let members = (0..3).map(|shard| (0..6).map(|index| member(shard, index)).collect()).collect();
        Shards::new(chain_id, epoch, 1, members).unwrap()
    }

    #[test]
    fn the_id_covers_every_field() {
        let original = transaction(100, vec![read(1, 10), read(2, 20)], vec![write(1), write(2)]);
        let changes: [fn(&mut Transaction); 19] = [
            |changed| changed.timestamp.time_us += 1,
            |changed| changed.timestamp.client = B256::with_last_byte(2),
            |changed| changed.reads[0].key.account = changed.reads[1].key.account,
            |changed| changed.reads[0].key.item = Bytes::new(),
            |changed| changed.reads[0].version.timestamp.time_us += 1,
            |changed| changed.reads[0].version.timestamp.client = B256::with_last_byte(2),
            |changed| changed.reads[0].version.writer = B256::with_last_byte(8),
            |changed| changed.reads[0].value = None,
            |changed| changed.reads[0].value = Some(Bytes::new()),
            |changed| changed.reads.swap(0, 1),
            |changed| _ = changed.reads.pop(),
            |changed| changed.writes[0].key.account = changed.writes[1].key.account,
            |changed| changed.writes[0].key.item = Bytes::new(),
            |changed| changed.writes[0].value = None,
            |changed| changed.writes[0].value = Some(Bytes::new()),
            |changed| changed.writes.swap(0, 1),
            |changed| _ = changed.writes.pop(),
            |changed| changed.call = Bytes::new(),
            |changed| changed.call = Bytes::from_static(b"call\0"),
        ];
        let mut ids = BTreeSet::from([original.id(&shards(1, 0))]);
        for (number, change) in changes.into_iter().enumerate() {
            let mut changed = original.clone();
            change(&mut changed);
            assert!(ids.insert(changed.id(&shards(1, 0))), "change {number} keeps an id");
        }
        assert!(ids.insert(original.id(&shards(2, 0))), "another chain");
        assert!(ids.insert(original.id(&shards(1, 1))), "another configuration");
    }

    #[test]
    fn shards_are_derived_from_reads_and_writes() {
        let shards = shards(1, 0);
        let on = |shard: u16| (0..).find(|number| shards.shard_of(&key(*number)) == ShardId(shard)).unwrap();
        let involved = |reads: Vec<u64>, writes: Vec<u64>| {
            let reads = reads.into_iter().map(|number| read(number, 1)).collect();
            let transaction = transaction(100, reads, writes.into_iter().map(write).collect());
            let involved = transaction.involved(&shards);
            assert!(involved.contains(&transaction.logging_shard(&transaction.id(&shards), &shards)));
            involved
        };
        assert_eq!(involved(vec![on(0)], vec![]), BTreeSet::from([ShardId(0)]));
        assert_eq!(involved(vec![], vec![on(2)]), BTreeSet::from([ShardId(2)]));
        assert_eq!(involved(vec![on(0)], vec![on(1)]), BTreeSet::from([ShardId(0), ShardId(1)]));
    }

    #[test]
    fn ids_spread_the_logging_over_involved_shards() {
        let shards = shards(1, 0);
        let on = |shard: u16| (0..).find(|number| shards.shard_of(&key(*number)) == ShardId(shard)).unwrap();
        let mut keys = [on(0), on(2)];
        keys.sort_unstable();
        let logging = |time_us| {
            let transaction = transaction(time_us, vec![], keys.map(write).to_vec());
            transaction.logging_shard(&transaction.id(&shards), &shards)
        };
        let first = (1..=1_000).filter(|time_us| logging(*time_us) == ShardId(0)).count();
        assert!((400..600).contains(&first), "shard 0 logs {first} of 1000");
        assert!((1..=1_000).all(|time_us| logging(time_us) != ShardId(1)), "a shard that is not involved logs nothing");
    }

    #[test]
    fn keys_ascend_and_occur_once() {
        let reads = |numbers: &[u64]| transaction(100, numbers.iter().map(|number| read(*number, 1)).collect(), vec![]).check();
        let writes = |numbers: &[u64]| transaction(100, vec![], numbers.iter().map(|number| write(*number)).collect()).check();
        for check in [&reads as &dyn Fn(&[u64]) -> _, &writes] {
            assert_eq!(check(&[1, 2, 3]), Ok(()));
            assert_eq!(check(&[2, 1]), Err(Order));
            assert_eq!(check(&[1, 1]), Err(Order));
            assert_eq!(check(&[1, 3, 2]), Err(Order));
        }
        assert_eq!(transaction(100, vec![read(1, 1)], vec![write(1)]).check(), Ok(()), "a key may be read and written");
        assert_eq!(transaction(100, vec![], vec![]).check(), Err(Empty));
    }

    #[test]
    fn counts_and_sizes_are_bounded() {
        let max = MAX_KEYS as u64;
        let reads = |count| transaction(100, (0..count).map(|number| read(number, 1)).collect(), vec![]).check();
        let writes = |count| transaction(100, vec![], (0..count).map(write).collect()).check();
        assert_eq!((reads(max), reads(max + 1)), (Ok(()), Err(Keys)));
        assert_eq!((writes(max), writes(max + 1)), (Ok(()), Err(Keys)));
        let with_item = |length| {
            let mut long = transaction(100, vec![], vec![write(1)]);
            long.writes[0].key.item = vec![0; length].into();
            long.check()
        };
        assert_eq!((with_item(MAX_ITEM_BYTES), with_item(MAX_ITEM_BYTES + 1)), (Ok(()), Err(Size)));
        let with_value = |length: usize| {
            let value = Some(Bytes::from(vec![0; length]));
            let mut written = transaction(100, vec![read(1, 1)], vec![write(1)]);
            let mut read = written.clone();
            written.writes[0].value.clone_from(&value);
            read.reads[0].value = value;
            (written.check(), read.check())
        };
        assert_eq!(with_value(MAX_VALUE_BYTES), (Ok(()), Ok(())));
        assert_eq!(with_value(MAX_VALUE_BYTES + 1), (Err(Size), Err(Size)));
    }

    #[test]
    fn reads_are_of_the_past() {
        let check = |time_us| transaction(100, vec![read(1, time_us)], vec![]).check();
        assert_eq!((check(99), check(100), check(101)), (Ok(()), Err(FutureRead), Err(FutureRead)));
        // Clients order transactions of one time.
        let mut other_client = transaction(100, vec![read(1, 100)], vec![]);
        other_client.reads[0].version.timestamp.client = B256::ZERO;
        assert_eq!(other_client.check(), Ok(()));
    }

    #[test]
    fn a_timestamp_is_ahead_beyond_delta_only() {
        let now = TimestampMs(1_000);
        let is_ahead = |time_us| at(time_us).is_ahead_of(now, 5);
        assert_eq!((is_ahead(1_004_999), is_ahead(1_005_000), is_ahead(1_005_001)), (false, false, true));
        assert!(!at(u64::MAX).is_ahead_of(TimestampMs(u64::MAX), 5), "no overflow");
    }

    #[test]
    fn a_write_forbids_later_readers_of_older_versions() {
        // A reader at 200 of the version at 100.
        let reader = transaction(200, vec![read(1, 100)], vec![]);
        for (time_us, forbids) in [(99, false), (100, false), (101, true), (199, true), (200, false), (201, false)] {
            let writer = transaction(time_us, vec![], vec![write(1)]);
            assert_eq!(writer.forbids(&reader), forbids, "a write at {time_us}");
            assert!(!transaction(time_us, vec![], vec![write(2)]).forbids(&reader), "a write of another key");
            // K4 from the other side: the reader forbids exactly the writers that forbid it.
            assert_eq!(reader.forbids(&writer), forbids, "a write at {time_us}");
        }
    }

    #[test]
    fn reads_forbid_nothing_to_reads_and_writes_nothing_to_writes() {
        for time_us in [99, 100, 101] {
            let [first, second] = [100, time_us].map(|time_us| transaction(time_us, vec![read(1, 10)], vec![]));
            assert!(!first.forbids(&second) && !second.forbids(&first));
            let [first, second] = [100, time_us].map(|time_us| transaction(time_us, vec![], vec![write(1)]));
            assert!(!first.forbids(&second) && !second.forbids(&first));
        }
    }

    /// Two increments of one counter from one version: each forbids the other, so one commits at most.
    #[test]
    fn lost_updates_forbid_each_other() {
        let [first, second] = [100, 200].map(|time_us| transaction(time_us, vec![read(1, 10)], vec![write(1)]));
        assert!(first.forbids(&second) && second.forbids(&first));
        let after_first = transaction(200, vec![read(1, 100)], vec![write(1)]);
        assert!(!first.forbids(&after_first) && !after_first.forbids(&first));
    }

    /// Each reads what the other one writes. The later one missed the earlier write.
    #[test]
    fn write_skew_is_forbidden() {
        let first = transaction(100, vec![read(1, 10)], vec![write(2)]);
        let second = transaction(200, vec![read(2, 10)], vec![write(1)]);
        assert!(first.forbids(&second) && second.forbids(&first));
        assert!(!first.forbids(&first), "a transaction is not in its own way");
    }

    #[test]
    fn keys_are_found() {
        let transaction = transaction(100, vec![read(1, 10), read(3, 30)], vec![write(2), write(4)]);
        assert_eq!(transaction.read_version(&key(3)).map(|version| version.timestamp), Some(at(30)));
        assert_eq!((transaction.read_version(&key(2)), transaction.written(&key(1))), (None, None));
        assert_eq!(transaction.written(&key(4)), Some(&write(4).value));
        assert_eq!(transaction.keys().count(), 4);
    }
}
