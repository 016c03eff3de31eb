//! The values of the state in memory, with the versions of recent heights.
//!
//! Each key holds its newest value; what a height still readable may need besides is a chain of older values beside the
//! table (`state/table.rs`). One writer appends a block at a time with [`State::apply`]; readers take a [`Snapshot`] of one
//! height and look keys up in it. Keys are spread over shards with a lock each, so a reader waits at most for the writing of
//! one key of its shard, and finds it by one hash.
//!
//! What always holds:
//! - a snapshot answers from its height and never changes: later heights are invisible to it, and what it can still see is
//!   not pruned while it lives;
//! - the head moves after all values of the block are in place, so `latest` is never half a block.
//!
//! Code is kept by its hash for ever and has no versions: the hash in an account says which code it is.

mod table;

use crate::{Account, Changes, StateView};
use corniche_types::{Address, B256, Bytes, Height, U256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use table::{Codes, Table, Written};

/// The state at the heights not yet pruned. A clone is another handle to the same state.
#[derive(Clone, Debug)]
pub struct State {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    accounts: Table<Address, Packed>,
    storage: Table<(Address, B256), B256>,
    code: Codes,
    heights: Mutex<Heights>,
}

/// An account as it is kept. Few accounts have code, and those have an allocation for what says which; all zero is none.
#[derive(Clone, Debug, Default, PartialEq)]
struct Packed {
    nonce: u64,
    balance: U256,
    code: Option<Arc<CodeOf>>,
}

#[derive(Debug, PartialEq)]
struct CodeOf {
    hash: B256,
    abi_version: u8,
    gas_version: u8,
}

impl From<&Account> for Packed {
    fn from(account: &Account) -> Self {
        let Account { nonce, balance, code_hash: hash, abi_version, gas_version } = *account;
        let code = (account.has_code() || (account.abi_version, account.gas_version) != (0, 0))
            .then(|| Arc::new(CodeOf { hash, abi_version, gas_version }));
        Self { nonce, balance, code }
    }
}

impl From<Packed> for Account {
    fn from(packed: Packed) -> Self {
        let Packed { nonce, balance, code } = packed;
        match code.as_deref() {
            None => Self { nonce, balance, ..Self::default() },
            Some(CodeOf { hash, abi_version, gas_version }) => {
                Self { nonce, balance, code_hash: *hash, abi_version: *abi_version, gas_version: *gas_version }
            }
        }
    }
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
    /// What was written at each height that pruning has not passed yet.
    touched: BTreeMap<Height, Touched>,
}

#[derive(Debug, Default)]
struct Touched {
    accounts: Vec<Written>,
    storage: Vec<Written>,
}

impl Default for State {
    fn default() -> Self {
        Self::with_seed(0)
    }
}

impl State {
    /// The empty state. The seed is for the hash of its tables and is seen in no result; where others choose keys it should be
    /// a number they do not know.
    pub fn with_seed(seed: u64) -> Self {
        let (accounts, storage) = (Table::with_seed(seed), Table::with_seed(seed));
        Self { shared: Arc::new(Shared { accounts, storage, code: Codes::default(), heights: Mutex::default() }) }
    }

    /// Appends the changes of the block at `height`. There is one writer; `height` must be above everything applied.
    pub fn apply(&self, height: Height, changes: &Changes) {
        let shared = &self.shared;
        let head = lock(&shared.heights).head;
        assert!(head.is_none_or(|head| head < height), "heights are applied in ascending order: {height} after {head:?}");
        shared.code.extend(&changes.code);
        let accounts = changes.accounts.iter().map(|(address, account)| {
            let account = account.as_ref().filter(|account| !account.is_empty());
            (*address, account.map_or_else(Packed::default, Packed::from))
        });
        let storage = changes.storage.iter().map(|(key, value)| (*key, *value));
        let mut touched = Touched::default();
        if head.is_some() {
            touched.accounts.extend(accounts.map(|(key, value)| shared.accounts.put(key, height, value)));
            touched.storage.extend(storage.map(|(key, value)| shared.storage.put(key, height, value)));
        } else {
            // No height below this one can be read, so nobody needs to know what was there before.
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

    /// The newest height; the empty state before anything was applied.
    pub fn latest(&self) -> Snapshot {
        let mut heights = lock(&self.shared.heights);
        match heights.head {
            Some(height) => self.pin(&mut heights, height),
            // The state itself may be filled while the snapshot is held, at any height.
            None => Snapshot { pin: Arc::new(Pin { shared: Self::default().shared, height: Height(0) }) },
        }
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

    /// Undoes everything above `height`, which is the head then; true if that can be read. For a chain that goes back, which no network
    /// does: a snapshot of a height that is undone answers from what is left.
    pub fn take_back(&self, height: Height) -> bool {
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

    /// Forgets what only heights below `height` need. Heights of live snapshots and the head stay readable; what they hold
    /// back is forgotten by a later call.
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
            touched.accounts.into_iter().for_each(|written| self.shared.accounts.forget_before(written));
            touched.storage.into_iter().for_each(|written| self.shared.storage.forget_before(written));
        }
    }

    /// Code of the accounts at the newest height, by its hash and the version of the gas table it was validated under. Looks at every
    /// account.
    pub fn code_in_use(&self) -> BTreeMap<(B256, u8), Bytes> {
        let mut versions = BTreeSet::new();
        self.shared.accounts.for_each_newest(|account| {
            if let Some(code) = &account.code {
                versions.insert((code.hash, code.gas_version));
            }
        });
        let code = |version: (B256, u8)| Some((version, self.shared.code.get(&version.0)?));
        versions.into_iter().filter_map(code).collect()
    }

    /// Keys that are kept, and bytes of memory held for them.
    pub fn size(&self) -> (usize, usize) {
        let (accounts, storage) = (self.shared.accounts.size(), self.shared.storage.size());
        (accounts.0 + storage.0, accounts.1 + storage.1)
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
        let packed = self.pin.shared.accounts.get(address, self.pin.height);
        (packed != Packed::default()).then(|| packed.into())
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

// A panic elsewhere cannot leave a map half-written in a way that matters more than the panic itself, which stops the node.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
