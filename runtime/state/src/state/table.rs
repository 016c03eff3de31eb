//! The tables under [`super::State`]: newest values by key, older ones in chains beside them.
//!
//! ```text
//! shard   entries: key, newest value, ─┐
//!                                      ▼
//!         older:   value before, written at ─▶ value before, written at ─▶ ...
//! ```
//!
//! A reader at a height starts from the newest value and steps back over every write above its height. Each write that a
//! readable height may have to step over keeps one element of the chain; pruning forgets them oldest first. So a key that was
//! not written lately costs nothing but its key, its value and four bytes, and nothing at all when its value is the default.

use corniche_types::{Address, B256, Bytes, Height};
use foldhash::{SharedSeed, fast::FoldHasher};
use hashbrown::HashTable;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A shard is small enough that it grows in well under a millisecond even when there are ten million keys.
const SHARDS: usize = 1 << 10;

/// No element of a chain.
const NONE: u32 = u32::MAX;

/// Versions of values by key. A key that was never written has the default value.
#[derive(Debug)]
pub(super) struct Table<K, V> {
    shards: Vec<RwLock<Shard<K, V>>>,
    seed: Seed,
}

/// Both numbers of the hash: who knows one of them can choose keys that collide.
#[derive(Clone, Debug)]
struct Seed {
    own: u64,
    shared: SharedSeed,
}

impl Seed {
    fn hash<K: Key>(&self, key: &K) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.own, &self.shared);
        key.feed(&mut hasher);
        hasher.finish()
    }
}

/// What a table is keyed by.
pub(super) trait Key: Copy + Eq {
    fn feed(&self, hasher: &mut FoldHasher<'_>);
}

impl Key for Address {
    fn feed(&self, hasher: &mut FoldHasher<'_>) {
        hasher.write(self.as_slice());
    }
}

impl Key for (Address, B256) {
    fn feed(&self, hasher: &mut FoldHasher<'_>) {
        hasher.write(self.0.as_slice());
        hasher.write(self.1.as_slice());
    }
}

/// One write that can still be undone: where it lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    hash: u64,
    older: u32,
}

#[derive(Debug)]
struct Shard<K, V> {
    entries: HashTable<Entry<K, V>>,
    older: Vec<Older<V>>,
    /// Elements of `older` that are in no chain, linked by their `older`.
    free: u32,
}

#[derive(Debug)]
struct Entry<K, V> {
    key: K,
    value: V,
    /// The chain's newest element.
    older: u32,
}

#[derive(Debug)]
struct Older<V> {
    /// The height that wrote over `before`.
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

    /// The value of a key as of a height.
    pub(super) fn get(&self, key: &K, height: Height) -> V {
        let hash = self.seed.hash(key);
        let shard = read(self.shard(hash));
        let Some(entry) = shard.entries.find(hash, |entry| entry.key == *key) else { return V::default() };
        let (mut value, mut next) = (&entry.value, entry.older);
        while let Some(older) = shard.older.get(next as usize).filter(|older| older.written > height) {
            (value, next) = (&older.before, older.older);
        }
        value.clone()
    }

    /// Visits the newest value of each key, in no order.
    pub(super) fn for_each_newest(&self, mut visit: impl FnMut(&V)) {
        for shard in &self.shards {
            read(shard).entries.iter().for_each(|entry| visit(&entry.value));
        }
    }

    /// Writes at a height above all written so far. Heights below go on reading what was there.
    pub(super) fn put(&self, key: K, height: Height, value: V) -> Written {
        let hash = self.seed.hash(&key);
        let mut shard = write(self.shard(hash));
        let Shard { entries, older, free } = &mut *shard;
        let rehash = |entry: &Entry<K, V>| self.seed.hash(&entry.key);
        let entry = entries.entry(hash, |entry| entry.key == key, rehash);
        let entry = entry.or_insert_with(|| Entry { key, value: V::default(), older: NONE }).into_mut();
        let before = std::mem::replace(&mut entry.value, value);
        let element = Older { written: height, before, newer: NONE, older: entry.older };
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
        Written { hash, older: number }
    }

    /// Writes that no height has to step over.
    pub(super) fn fill(&self, values: impl Iterator<Item = (K, V)>) {
        for (key, value) in values.filter(|(_, value)| *value != V::default()) {
            let hash = self.seed.hash(&key);
            let entry = Entry { key, value, older: NONE };
            write(self.shard(hash)).entries.insert_unique(hash, entry, |entry| self.seed.hash(&entry.key));
        }
    }

    /// The newest write of its key that was not undone before: the key has the value again that was there.
    pub(super) fn undo(&self, Written { hash, older: number }: Written) {
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

    /// No reader steps over this write any more, nor over any of the same key before it, which were forgotten earlier.
    pub(super) fn forget_before(&self, Written { hash, older: number }: Written) {
        let mut shard = write(self.shard(hash));
        let Shard { entries, older, free } = &mut *shard;
        let element = &mut older[number as usize];
        debug_assert_eq!(element.older, NONE, "chains are forgotten from their oldest element");
        element.before = V::default();
        element.older = std::mem::replace(free, number);
        match element.newer {
            NONE => {
                // The last of its chain: the key is found by it.
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

    /// Keys kept, and bytes of memory held.
    pub(super) fn size(&self) -> (usize, usize) {
        let sizes = self.shards.iter().map(|shard| {
            let shard = read(shard);
            let bytes = shard.entries.allocation_size() + shard.older.capacity() * size_of::<Older<V>>();
            (shard.entries.len(), bytes + size_of::<RwLock<Shard<K, V>>>())
        });
        sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1))
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard<K, V>> {
        // The table below uses the lowest bits and the highest seven.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }
}

impl<K, V> Default for Shard<K, V> {
    fn default() -> Self {
        Self { entries: HashTable::new(), older: Vec::new(), free: NONE }
    }
}

/// Code by its hash, kept for ever.
#[derive(Debug)]
pub(super) struct Codes(Vec<RwLock<BTreeMap<B256, Bytes>>>);

impl Default for Codes {
    fn default() -> Self {
        Self((0..64).map(|_| RwLock::default()).collect())
    }
}

impl Codes {
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
