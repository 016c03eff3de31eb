//! The values of the state in memory, with the versions of recent heights.
//!
//! Each key holds its newest value and, beside it, the older ones that a height still readable may need. One writer
//! appends a block at a time with [`State::apply`]; readers take a [`Snapshot`] of one height and look keys up in it.
//! Values are spread over shards with a lock each, so a reader waits at most for the writes that hit the same shard.
//!
//! What always holds:
//! - a snapshot answers from its height and never changes: later heights are invisible to it, and what it can still see is
//!   not pruned while it lives;
//! - the head moves after all values of the block are in place, so `latest` is never half a block.
//!
//! Code is kept by its hash for ever and has no versions: the hash in an account says which code it is.

use crate::{Account, Changes, StateView};
use corniche_types::{Address, B256, Bytes, Height};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const SHARDS: usize = 64;

/// The state at the heights not yet pruned. A clone is another handle to the same state.
#[derive(Clone, Debug, Default)]
pub struct State {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    accounts: Shards<Address, Option<Account>>,
    storage: Shards<(Address, B256), B256>,
    code: RwLock<BTreeMap<B256, Bytes>>,
    heights: Mutex<Heights>,
}

/// Which heights can be read, and which are being read.
#[derive(Debug, Default)]
struct Heights {
    /// Newest height applied; `None` before the first.
    head: Option<Height>,
    /// Lowest height whose values are all still there.
    oldest: Height,
    /// Number of live snapshots by height.
    pinned: BTreeMap<Height, usize>,
    /// Keys written at each height that pruning has not passed yet.
    touched: BTreeMap<Height, Touched>,
}

#[derive(Debug, Default)]
struct Touched {
    accounts: Vec<Address>,
    storage: Vec<(Address, B256)>,
}

impl State {
    /// Appends the changes of the block at `height`. There is one writer; `height` must be above everything applied.
    pub fn apply(&self, height: Height, changes: &Changes) {
        let shared = &self.shared;
        let head = lock(&shared.heights).head;
        assert!(head.is_none_or(|head| head < height), "heights are applied in ascending order: {height} after {head:?}");
        let mut touched = Touched::default();
        write(&shared.code).extend(changes.code.iter().map(|(hash, code)| (*hash, code.clone())));
        for (address, account) in &changes.accounts {
            let account = account.clone().filter(|account| !account.is_empty());
            shared.accounts.put(*address, height, account);
            touched.accounts.push(*address);
        }
        for (key, value) in &changes.storage {
            shared.storage.put(*key, height, *value);
            touched.storage.push(*key);
        }
        let mut heights = lock(&shared.heights);
        if heights.head.is_none() {
            heights.oldest = height;
        }
        heights.head = Some(height);
        heights.touched.insert(height, touched);
    }

    /// The newest height; the empty state before anything was applied.
    pub fn latest(&self) -> Snapshot {
        let mut heights = lock(&self.shared.heights);
        let height = heights.head.unwrap_or_default();
        self.pin(&mut heights, height)
    }

    /// The state as of `height`; `None` when that is pruned or still to come.
    pub fn at(&self, height: Height) -> Option<Snapshot> {
        let mut heights = lock(&self.shared.heights);
        let readable = heights.oldest <= height && heights.head.is_some_and(|head| height <= head);
        readable.then(|| self.pin(&mut heights, height))
    }

    /// Newest height applied.
    pub fn head(&self) -> Option<Height> {
        lock(&self.shared.heights).head
    }

    /// Forgets what only heights below `height` need. Heights of live snapshots and the head stay readable; what they hold
    /// back is forgotten by a later call.
    pub fn prune_below(&self, height: Height) {
        let (limit, passed) = {
            let mut heights = lock(&self.shared.heights);
            let pinned = heights.pinned.keys().next().copied().unwrap_or(height);
            let limit = height.min(pinned).min(heights.head.unwrap_or_default()).max(heights.oldest);
            heights.oldest = limit;
            let later = heights.touched.split_off(&limit.next());
            (limit, std::mem::replace(&mut heights.touched, later))
        };
        for touched in passed.into_values() {
            for address in touched.accounts {
                self.shared.accounts.prune(&address, limit);
            }
            for key in touched.storage {
                self.shared.storage.prune(&key, limit);
            }
        }
    }

    fn pin(&self, heights: &mut Heights, height: Height) -> Snapshot {
        *heights.pinned.entry(height).or_insert(0) += 1;
        Snapshot { pin: Arc::new(Pin { shared: self.shared.clone(), height }) }
    }
}

/// The state as of one height. While it or a clone lives, pruning stops at its height.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pin: Arc<Pin>,
}

impl Snapshot {
    pub fn height(&self) -> Height {
        self.pin.height
    }
}

impl StateView for Snapshot {
    fn account(&self, address: &Address) -> Option<Account> {
        self.pin.shared.accounts.get(address, self.pin.height).flatten()
    }

    fn storage(&self, address: &Address, slot: &B256) -> B256 {
        self.pin.shared.storage.get(&(*address, *slot), self.pin.height).unwrap_or_default()
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        read(&self.pin.shared.code).get(hash).cloned()
    }
}

#[derive(Debug)]
struct Pin {
    shared: Arc<Shared>,
    height: Height,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut heights = lock(&self.shared.heights);
        if let Some(count) = heights.pinned.get_mut(&self.height) {
            *count -= 1;
            if *count == 0 {
                heights.pinned.remove(&self.height);
            }
        }
    }
}

/// A key that knows its shard.
trait Sharded: Ord {
    fn shard(&self) -> usize;
}

impl Sharded for Address {
    fn shard(&self) -> usize {
        usize::from(self[19]) % SHARDS
    }
}

impl Sharded for (Address, B256) {
    /// Mixes in the slot, or all of a busy contract would lie in one shard.
    fn shard(&self) -> usize {
        usize::from(self.0[19] ^ self.1[31]) % SHARDS
    }
}

type Shard<K, V> = RwLock<BTreeMap<K, Versions<V>>>;

#[derive(Debug)]
struct Shards<K, V>(Vec<Shard<K, V>>);

impl<K, V> Default for Shards<K, V> {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| RwLock::default()).collect())
    }
}

impl<K: Sharded, V: Clone + Default + PartialEq> Shards<K, V> {
    fn get(&self, key: &K, height: Height) -> Option<V> {
        read(&self.0[key.shard()]).get(key)?.at(height).cloned()
    }

    fn put(&self, key: K, height: Height, value: V) {
        let mut shard = write(&self.0[key.shard()]);
        match shard.get_mut(&key) {
            Some(versions) => versions.put(height, value),
            None if value == V::default() => {}
            None => {
                shard.insert(key, Versions { newest: (height, value), older: Vec::new() });
            }
        }
    }

    fn prune(&self, key: &K, limit: Height) {
        let mut shard = write(&self.0[key.shard()]);
        if shard.get_mut(key).is_some_and(|versions| versions.prune(limit)) {
            shard.remove(key);
        }
    }
}

/// The values of one key. Most keys have one: it is kept without an allocation.
#[derive(Debug)]
struct Versions<V> {
    newest: (Height, V),
    /// Ascending, all below `newest`.
    older: Vec<(Height, V)>,
}

impl<V: Default + PartialEq> Versions<V> {
    fn at(&self, height: Height) -> Option<&V> {
        if self.newest.0 <= height {
            return Some(&self.newest.1);
        }
        let later = self.older.partition_point(|(written, _)| *written <= height);
        later.checked_sub(1).map(|index| &self.older[index].1)
    }

    fn put(&mut self, height: Height, value: V) {
        let before = std::mem::replace(&mut self.newest, (height, value));
        self.older.push(before);
    }

    /// Drops what no height from `limit` on can see; true when nothing is left worth keeping.
    fn prune(&mut self, limit: Height) -> bool {
        if self.newest.0 <= limit {
            self.older = Vec::new();
            return self.newest.1 == V::default();
        }
        let later = self.older.partition_point(|(written, _)| *written <= limit);
        self.older.drain(..later.saturating_sub(1));
        false
    }
}

// A panic elsewhere cannot leave a map half-written in a way that matters more than the panic itself, which stops the node.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
