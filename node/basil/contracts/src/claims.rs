//! A state that consists of the values that a transaction read, and of code by its hash.

use crate::keys;
use corniche_basil::shards::Key;
use corniche_basil::transaction::Value;
use corniche_state::{AccountCode, StateView};
use corniche_types::{Account, Address, B256, Bytes};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Code by its hash.
pub type Codes = BTreeMap<B256, Bytes>;

/// Values by key. A read of another key interrupts the run: its result does not count, and the key must be read first.
pub struct Claims<'a> {
    values: &'a BTreeMap<Key, Value>,
    codes: &'a Codes,
    missing: OnceLock<Key>,
    /// Keys that were read.
    read: Mutex<BTreeSet<Key>>,
}

impl<'a> Claims<'a> {
    /// `codes` must have all of [`keys::codes`].
    pub fn new(values: &'a BTreeMap<Key, Value>, codes: &'a Codes) -> Self {
        Self { values, codes, missing: OnceLock::new(), read: Mutex::default() }
    }

    /// Number of values that were read.
    pub fn read_count(&self) -> usize {
        self.read().len()
    }

    fn read(&self) -> MutexGuard<'_, BTreeSet<Key>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first key that was not read yet. Later ones may follow from a wrong value.
    pub fn missing(&self) -> Option<&Key> {
        self.missing.get()
    }

    fn value(&self, key: Key) -> &Value {
        match self.values.get(&key) {
            Some(value) => {
                self.read().insert(key);
                value
            }
            None => {
                self.missing.get_or_init(|| key);
                &None
            }
        }
    }
}

impl StateView for Claims<'_> {
    fn account(&self, address: &Address) -> Option<Account> {
        let balance = self.value(keys::balance_key(*address));
        keys::account(balance, self.value(keys::code_name_key(*address)))
    }

    fn storage(&self, address: &Address, slot: &B256) -> B256 {
        keys::slot(self.value(keys::slot_key(*address, slot)))
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        self.codes.get(hash).cloned()
    }

    fn account_code(&self, address: &Address) -> AccountCode {
        keys::code(self.value(keys::code_name_key(*address)))
    }

    fn interrupted(&self) -> bool {
        self.missing.get().is_some()
    }
}
