//! The tables of [`super::State`]: newest values by key, and chains of older values.
//!
//! ```text
//! shard   entries: key, newest value, ─┐
//!                                      ▼
//!         older:   value before, written at ─▶ value before, written at ─▶ ...
//! ```
//!
//! A read at a height starts with the newest value and steps back over every write above that height. Each write that a
//! readable height may need to step over has one chain element; pruning removes them, oldest first. So a key without
//! recent writes needs only its key, its value and four bytes, and nothing if its value is the default.

use corniche_types::{Address, B256, Bytes, Height};
use foldhash::{SharedSeed, fast::FoldHasher};
use hashbrown::HashTable;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Keeps shards so small that one grows in well under a millisecond, even with ten million keys.
const SHARDS: usize = 1 << 10;

/// End of a chain.
const NONE: u32 = u32::MAX;

/// Versions of values by key. A key that was never written has the default value.
#[derive(Debug)]
pub(super) struct Table<K, V> {
    shards: Vec<RwLock<Shard<K, V>>>,
    seed: Seed,
}

/// Both numbers of the hash. Knowing either of them suffices to choose colliding keys.
#[derive(Clone, Debug)]
struct Seed {
    own: u64,
    shared: SharedSeed,
}

impl Seed {
    fn hash<K: Key>(&self, key: &K) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.own, &self.shared);
        key.hash_into(&mut hasher);
        hasher.finish()
    }
}

/// Key of a table.
pub(super) trait Key: Copy + Eq {
    fn hash_into(&self, hasher: &mut FoldHasher<'_>);
}

impl Key for Address {
    fn hash_into(&self, hasher: &mut FoldHasher<'_>) {
        hasher.write(self.as_slice());
    }
}

impl Key for (Address, B256) {
    fn hash_into(&self, hasher: &mut FoldHasher<'_>) {
        hasher.write(self.0.as_slice());
        hasher.write(self.1.as_slice());
    }
}

/// Location of a write that can still be undone.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteId {
    hash: u64,
    older: u32,
}

#[derive(Debug)]
struct Shard<K, V> {
    entries: HashTable<Entry<K, V>>,
    older: Vec<OldVersion<V>>,
    /// Free elements of `older`, linked by their `older` field.
    free: u32,
}

#[derive(Debug)]
struct Entry<K, V> {
    key: K,
    value: V,
    /// Newest element of the key's chain.
    older: u32,
}

#[derive(Debug)]
struct OldVersion<V> {
    /// Height at which `before` was overwritten.
    written: Height,
    before: V,
    newer: u32,
    older: u32,
}

impl<K: Key, V: Clone + Default + PartialEq> Table<K, V> {
    pub(super) fn with_seed(seed: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            seed: Seed { own: seed, shared: SharedSeed::from_u64(seed) },
        }
    }

    /// Returns a key's value at a height.
    pub(super) fn get(&self, key: &K, height: Height) -> V {
        let hash = self.seed.hash(key);
        let shard = read(self.shard(hash));
        let Some(entry) = shard.entries.find(hash, |entry| entry.key == *key) else { return V::default() };
        shard.value_at(entry, height).clone()
    }

    /// Visits the newest value of each key, in arbitrary order.
    pub(super) fn for_each_latest(&self, mut visit: impl FnMut(&V)) {
        for shard in &self.shards {
            read(shard).entries.iter().for_each(|entry| visit(&entry.value));
        }
    }

    /// Visits the keys with a value other than the default at a height, in arbitrary order. Writers wait only while a shard is copied.
    pub(super) fn for_each_at(&self, height: Height, mut visit: impl FnMut(K, V)) {
        let mut copied = Vec::new();
        for shard in &self.shards {
            {
                let shard = read(shard);
                let value = |entry: &Entry<K, V>| (entry.key, shard.value_at(entry, height).clone());
                copied.extend(shard.entries.iter().map(value).filter(|(_, value)| *value != V::default()));
            }
            copied.drain(..).for_each(|(key, value)| visit(key, value));
        }
    }

    /// Writes a value at a height above all earlier ones. Lower heights keep reading the previous value.
    pub(super) fn put(&self, key: K, height: Height, value: V) -> WriteId {
        let hash = self.seed.hash(&key);
        let mut shard = write(self.shard(hash));
        let Shard { entries, older, free } = &mut *shard;
        let rehash = |entry: &Entry<K, V>| self.seed.hash(&entry.key);
        let entry = entries.entry(hash, |entry| entry.key == key, rehash);
        let entry = entry.or_insert_with(|| Entry { key, value: V::default(), older: NONE }).into_mut();
        let before = std::mem::replace(&mut entry.value, value);
        let element = OldVersion { written: height, before, newer: NONE, older: entry.older };
        let number = match older.get_mut(*free as usize) {
            Some(unused) => {
                let number = std::mem::replace(free, unused.older);
                *unused = element;
                number
            }
            None => {
                older.push(element);
                u32::try_from(older.len() - 1).expect("2^32 values do not fit into memory")
            }
        };
        if let Some(last) = older.get_mut(entry.older as usize) {
            last.newer = number;
        }
        entry.older = number;
        WriteId { hash, older: number }
    }

    /// Writes values without keeping older ones.
    pub(super) fn fill(&self, values: impl Iterator<Item = (K, V)>) {
        for (key, value) in values.filter(|(_, value)| *value != V::default()) {
            let hash = self.seed.hash(&key);
            let entry = Entry { key, value, older: NONE };
            write(self.shard(hash)).entries.insert_unique(hash, entry, |entry| self.seed.hash(&entry.key));
        }
    }

    /// Undoes the newest remaining write of a key and restores its previous value.
    pub(super) fn undo(&self, WriteId { hash, older: number }: WriteId) {
        let mut shard = write(self.shard(hash));
        let Shard { entries, older, free } = &mut *shard;
        let element = &mut older[number as usize];
        debug_assert_eq!(element.newer, NONE, "chains are undone from their newest element");
        let (before, earlier) = (std::mem::take(&mut element.before), element.older);
        element.older = std::mem::replace(free, number);
        if let Some(earlier) = older.get_mut(earlier as usize) {
            earlier.newer = NONE;
        }
        let Ok(mut entry) = entries.find_entry(hash, |entry| entry.older == number) else {
            unreachable!("every chain belongs to an entry")
        };
        entry.get_mut().older = earlier;
        entry.get_mut().value = before;
        if earlier == NONE && entry.get().value == V::default() {
            entry.remove();
        }
    }

    /// Drops the value before this write, because no reader steps over the write any more. Earlier writes of the key
    /// must have been dropped already.
    pub(super) fn prune_older(&self, WriteId { hash, older: number }: WriteId) {
        let mut shard = write(self.shard(hash));
        let Shard { entries, older, free } = &mut *shard;
        let element = &mut older[number as usize];
        debug_assert_eq!(element.older, NONE, "chains are forgotten from their oldest element");
        element.before = V::default();
        element.older = std::mem::replace(free, number);
        match element.newer {
            NONE => {
                // Last element of its chain: find the key that refers to it.
                let Ok(mut entry) = entries.find_entry(hash, |entry| entry.older == number) else {
                    unreachable!("every chain belongs to an entry")
                };
                entry.get_mut().older = NONE;
                if entry.get().value == V::default() {
                    entry.remove();
                }
            }
            newer => older[newer as usize].older = NONE,
        }
    }

    /// Returns the number of keys and the bytes of memory held.
    pub(super) fn size(&self) -> (usize, usize) {
        let sizes = self.shards.iter().map(|shard| {
            let shard = read(shard);
            let bytes = shard.entries.allocation_size() + shard.older.capacity() * size_of::<OldVersion<V>>();
            (shard.entries.len(), bytes + size_of::<RwLock<Shard<K, V>>>())
        });
        sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1))
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard<K, V>> {
        // Bits in the middle: the hash table uses the lowest bits and the highest seven.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }
}

impl<K, V> Shard<K, V> {
    fn value_at<'s>(&'s self, entry: &'s Entry<K, V>, height: Height) -> &'s V {
        let (mut value, mut next) = (&entry.value, entry.older);
        while let Some(older) = self.older.get(next as usize).filter(|older| older.written > height) {
            (value, next) = (&older.before, older.older);
        }
        value
    }
}

impl<K, V> Default for Shard<K, V> {
    fn default() -> Self {
        Self { entries: HashTable::new(), older: Vec::new(), free: NONE }
    }
}

/// Code by hash; never removed.
#[derive(Debug)]
pub(super) struct CodeTable(Vec<RwLock<BTreeMap<B256, Bytes>>>);

impl Default for CodeTable {
    fn default() -> Self {
        Self((0..64).map(|_| RwLock::default()).collect())
    }
}

impl CodeTable {
    pub(super) fn get(&self, hash: &B256) -> Option<Bytes> {
        read(self.shard(hash)).get(hash).cloned()
    }

    pub(super) fn extend(&self, code: &BTreeMap<B256, Bytes>) {
        for (hash, code) in code {
            write(self.shard(hash)).entry(*hash).or_insert_with(|| code.clone());
        }
    }

    fn shard(&self, hash: &B256) -> &RwLock<BTreeMap<B256, Bytes>> {
        &self.0[usize::from(hash[31]) % self.0.len()]
    }
}

// As in `super::lock`.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
