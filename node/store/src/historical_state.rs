//! State after an old block, read from disk.

use crate::checkpoint;
use crate::history::row_key;
use crate::kv::{Kv, KvError};
use crate::shared::Shared;
use corniche_state::{Account, StateView};
use corniche_types::{Address, B256, Bytes, Height};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// State at one height, read from disk.
pub(crate) struct HistoricalState {
    shared: Arc<Shared>,
    height: Height,
    /// True once a read failed.
    failed: AtomicBool,
}

impl HistoricalState {
    /// `None` if the state is not kept, or not on disk yet.
    pub fn new(shared: Arc<Shared>, height: Height) -> Option<Self> {
        let kept = shared.history_store.first() <= height.0 && height <= shared.checkpoint_height() && !shared.kv_has_failed();
        kept.then(|| Self { shared, height, failed: AtomicBool::new(false) })
    }

    /// Value of a checkpoint key at this height.
    fn read(&self, key: &[u8]) -> Option<Vec<u8>> {
        let read = || -> Result<Option<Vec<u8>>, KvError> {
            // In this order: a value overwritten between the two reads has a row by then.
            let now = self.shared.kv.get(key)?;
            let from = row_key(key, self.height.next());
            let row = self.shared.kv.next(&from)?;
            let row = row.filter(|(row, _)| row.len() == from.len() && row[..key.len()] == from[..key.len()]);
            Ok(match row {
                Some((_, before)) => (!before.is_empty()).then_some(before),
                None => now,
            })
        };
        let result = read();
        if result.is_err() || self.height.0 < self.shared.history_store.first() {
            self.failed.store(true, Ordering::Relaxed);
        }
        result.ok().flatten()
    }

    fn decoded<T>(&self, found: Option<Vec<u8>>, decode: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        let decoded = decode(&found?);
        if decoded.is_none() {
            self.failed.store(true, Ordering::Relaxed);
        }
        decoded
    }
}

impl StateView for HistoricalState {
    fn account(&self, address: &Address) -> Option<Account> {
        let found = self.read(&checkpoint::account_key(address));
        self.decoded(found, |bytes| checkpoint::decode(bytes).ok())
    }

    fn storage(&self, address: &Address, slot: &B256) -> B256 {
        let found = self.read(&checkpoint::storage_key(address, slot));
        self.decoded(found, |bytes| B256::try_from(bytes).ok()).unwrap_or_default()
    }

    /// Code is never overwritten.
    fn code(&self, hash: &B256) -> Option<Bytes> {
        let found = self.shared.kv.get(&checkpoint::code_key(hash));
        found.ok().flatten().map(Bytes::from)
    }

    /// True also if the state was pruned during the read.
    fn interrupted(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}
