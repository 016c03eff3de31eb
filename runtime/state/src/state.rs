//! The state's values in memory, with the versions of recent heights.
//!
//! Each table entry holds the newest value of its key. Older values that readable heights need are in chains outside of
//! the table (`state/table.rs`). One writer appends a block at a time with [`State::apply`]. Readers take a
//! [`Snapshot`] of one height and look up keys in it. Keys are distributed over shards, each with a lock. So a read
//! takes one hash look-up and waits at most for the write of one key.
//!
//! Invariants:
//! - A snapshot belongs to one height and never changes. Later heights are invisible to it, and its values are not
//!   pruned while it lives.
//! - The head moves after all values of the block have been written, so `latest` never returns a partial block.
//!
//! Code is kept forever by its hash and has no versions: an account refers to its code by hash.

mod table;

use crate::{Account, Changes, StateView, chunks::Entry};
use corniche_types::{Address, B256, Bytes, Height, U256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use table::{CodeTable, Table, WriteId};

/// The state at all heights that are not pruned. A clone is another handle to the same state.
#[derive(Clone, Debug)]
pub struct State {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    accounts: Table<Address, PackedAccount>,
    storage: Table<(Address, B256), B256>,
    code: CodeTable,
    heights: Mutex<Heights>,
}

/// Compact form of an account. Few accounts have code; these have an allocation for its hash. The default is an absent
/// account.
#[derive(Clone, Debug, Default, PartialEq)]
struct PackedAccount {
    nonce: u64,
    balance: U256,
    code: Option<Arc<CodeInfo>>,
}

#[derive(Debug, PartialEq)]
struct CodeInfo {
    hash: B256,
    abi_version: u8,
    gas_version: u8,
}

impl From<&Account> for PackedAccount {
    fn from(account: &Account) -> Self {
        let Account { nonce, balance, code_hash: hash, abi_version, gas_version } = *account;
        let code = (account.has_code() || (account.abi_version, account.gas_version) != (0, 0))
            .then(|| Arc::new(CodeInfo { hash, abi_version, gas_version }));
        Self { nonce, balance, code }
    }
}

impl From<PackedAccount> for Account {
    fn from(packed: PackedAccount) -> Self {
        let PackedAccount { nonce, balance, code } = packed;
        match code.as_deref() {
            None => Self { nonce, balance, ..Self::default() },
            Some(CodeInfo { hash, abi_version, gas_version }) => {
                Self { nonce, balance, code_hash: *hash, abi_version: *abi_version, gas_version: *gas_version }
            }
        }
    }
}

/// Readable heights, and those pinned by snapshots.
#[derive(Debug, Default)]
struct Heights {
    /// Newest applied height; `None` before the first.
    head: Option<Height>,
    /// Lowest readable height.
    oldest: Height,
    /// Number of live snapshots by height.
    pinned: BTreeMap<Height, usize>,
    /// Writes of each height that is not pruned yet.
    touched: BTreeMap<Height, HeightWrites>,
}

#[derive(Debug, Default)]
struct HeightWrites {
    accounts: Vec<WriteId>,
    storage: Vec<WriteId>,
}

impl Default for State {
    fn default() -> Self {
        Self::with_seed(0)
    }
}

impl State {
    /// Creates an empty state. The seed affects the hash tables only, never a result. If untrusted users choose keys,
    /// the seed must be secret.
    pub fn with_seed(seed: u64) -> Self {
        let (accounts, storage) = (Table::with_seed(seed), Table::with_seed(seed));
        Self { shared: Arc::new(Shared { accounts, storage, code: CodeTable::default(), heights: Mutex::default() }) }
    }

    /// Applies the changes of the block at `height`. There must be one writer only, and `height` must exceed all
    /// applied heights.
    pub fn apply(&self, height: Height, changes: &Changes) {
        let shared = &self.shared;
        let head = lock(&shared.heights).head;
        assert!(head.is_none_or(|head| head < height), "heights are applied in ascending order: {height} after {head:?}");
        shared.code.extend(&changes.code);
        let accounts = changes.accounts.iter().map(|(address, account)| {
            let account = account.as_ref().filter(|account| !account.is_empty());
            (*address, account.map_or_else(PackedAccount::default, PackedAccount::from))
        });
        let storage = changes.storage.iter().map(|(key, value)| (*key, *value));
        let mut touched = HeightWrites::default();
        if head.is_some() {
            touched.accounts.extend(accounts.map(|(key, value)| shared.accounts.put(key, height, value)));
            touched.storage.extend(storage.map(|(key, value)| shared.storage.put(key, height, value)));
        } else {
            // No lower height is readable, so older values need not be kept.
            shared.accounts.fill(accounts);
            shared.storage.fill(storage);
        }
        let mut heights = lock(&shared.heights);
        if heights.head.is_none() {
            heights.oldest = height;
        }
        heights.head = Some(height);
        heights.touched.insert(height, touched);
    }

    /// Returns the newest height; the empty state before the first.
    pub fn latest(&self) -> Snapshot {
        let mut heights = lock(&self.shared.heights);
        match heights.head {
            Some(height) => self.pin(&mut heights, height),
            // A state of its own: the shared state may be filled at any height while the snapshot is held.
            None => Snapshot { pin: Arc::new(Pin { shared: Self::default().shared, height: Height(0) }) },
        }
    }

    /// Returns the state at `height`, or `None` if it is pruned or not applied yet.
    pub fn at(&self, height: Height) -> Option<Snapshot> {
        let mut heights = lock(&self.shared.heights);
        let readable = heights.oldest <= height && heights.head.is_some_and(|head| height <= head);
        readable.then(|| self.pin(&mut heights, height))
    }

    /// Returns the newest applied height.
    pub fn head(&self) -> Option<Height> {
        lock(&self.shared.heights).head
    }

    /// Reverts everything above `height`, which becomes the head. Returns false if that height is not readable. Only
    /// development chains do this: snapshots of reverted heights then read the remaining values.
    pub fn revert(&self, height: Height) -> bool {
        let undone = {
            let mut heights = lock(&self.shared.heights);
            if height < heights.oldest || heights.head.is_none_or(|head| head < height) {
                return false;
            }
            heights.head = Some(height);
            heights.touched.split_off(&height.next())
        };
        for touched in undone.into_values().rev() {
            touched.accounts.into_iter().for_each(|written| self.shared.accounts.undo(written));
            touched.storage.into_iter().for_each(|written| self.shared.storage.undo(written));
        }
        true
    }

    /// Drops versions that only heights below `height` need. The head and heights of live snapshots stay readable; a
    /// later call drops their versions.
    pub fn prune_below(&self, height: Height) {
        let passed = {
            let mut heights = lock(&self.shared.heights);
            let pinned = heights.pinned.keys().next().copied().unwrap_or(height);
            let limit = height.min(pinned).min(heights.head.unwrap_or_default()).max(heights.oldest);
            heights.oldest = limit;
            let later = heights.touched.split_off(&limit.next());
            std::mem::replace(&mut heights.touched, later)
        };
        for touched in passed.into_values() {
            touched.accounts.into_iter().for_each(|written| self.shared.accounts.prune_older(written));
            touched.storage.into_iter().for_each(|written| self.shared.storage.prune_older(written));
        }
    }

    /// Returns the code of all accounts at the newest height, by hash and by the version of the gas table it was
    /// validated under. Visits every account.
    pub fn code_in_use(&self) -> BTreeMap<(B256, u8), Bytes> {
        let mut versions = BTreeSet::new();
        self.shared.accounts.for_each_latest(|account| {
            if let Some(code) = &account.code {
                versions.insert((code.hash, code.gas_version));
            }
        });
        let code = |version: (B256, u8)| Some((version, self.shared.code.get(&version.0)?));
        versions.into_iter().filter_map(code).collect()
    }

    /// Returns the number of keys and the bytes of memory held for them.
    pub fn size(&self) -> (usize, usize) {
        let (accounts, storage) = (self.shared.accounts.size(), self.shared.storage.size());
        (accounts.0 + storage.0, accounts.1 + storage.1)
    }

    fn pin(&self, heights: &mut Heights, height: Height) -> Snapshot {
        *heights.pinned.entry(height).or_insert(0) += 1;
        Snapshot { pin: Arc::new(Pin { shared: self.shared.clone(), height }) }
    }
}

/// The state at one height. Pruning stops at this height while the snapshot or a clone lives.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pin: Arc<Pin>,
}

impl Snapshot {
    pub fn height(&self) -> Height {
        self.pin.height
    }

    /// Visits all accounts and slots of this height, in arbitrary order, while later blocks are applied.
    pub fn for_each_entry(&self, mut visit: impl FnMut(Entry)) {
        let (shared, height) = (&self.pin.shared, self.pin.height);
        shared.accounts.for_each_at(height, |address, packed| visit(Entry::Account(address, packed.into())));
        shared.storage.for_each_at(height, |(address, slot), value| visit(Entry::Slot(address, slot, value)));
    }
}

impl StateView for Snapshot {
    fn account(&self, address: &Address) -> Option<Account> {
        let packed = self.pin.shared.accounts.get(address, self.pin.height);
        (packed != PackedAccount::default()).then(|| packed.into())
    }

    fn storage(&self, address: &Address, slot: &B256) -> B256 {
        self.pin.shared.storage.get(&(*address, *slot), self.pin.height)
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        self.pin.shared.code.get(hash)
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

// A poisoned lock is safe to use: the panic that poisoned it stops the node anyway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
