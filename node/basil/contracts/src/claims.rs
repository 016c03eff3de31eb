//! A state that consists of the values that a transaction read.

use crate::keys;
use corniche_basil::shards::Key;
use corniche_basil::transaction::Value;
use corniche_state::{AccountCode, StateView};
use corniche_types::{Account, Address, B256, Bytes, keccak256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Values by key. A read of another key interrupts the run: its result does not count, and the key must be read first.
pub struct Claims<'a> {
    values: &'a BTreeMap<Key, Value>,
    missing: OnceLock<Key>,
    /// Keys that were read.
    read: Mutex<BTreeSet<Key>>,
}

impl<'a> Claims<'a> {
    pub fn new(values: &'a BTreeMap<Key, Value>) -> Self {
        Self { values, missing: OnceLock::new(), read: Mutex::default() }
    }

    /// Number of values that were read.
    pub fn read_count(&self) -> usize {
        self.read().len()
    }

    fn read(&self) -> MutexGuard<'_, BTreeSet<Key>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first key without a usable value: not read yet, or code that is not its hash's. Later ones may follow from a wrong value.
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

    /// Reads the code with its name. A virtual machine that has compiled it does not ask for it, and every process must read
    /// the same.
    fn require_code(&self, name: &AccountCode) {
        if name.is_contract() {
            self.code(&name.hash);
        }
    }
}

impl StateView for Claims<'_> {
    fn account(&self, address: &Address) -> Option<Account> {
        self.account_code(address);
        let balance = self.value(keys::balance_key(*address));
        keys::account(balance, self.value(keys::code_name_key(*address)))
    }

    fn storage(&self, address: &Address, slot: &B256) -> B256 {
        keys::slot(self.value(keys::slot_key(*address, slot)))
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        let key = keys::code_key(hash);
        let code = self.value(key.clone()).as_ref();
        // Compiled code is kept by its hash, so a claim of another code must not reach the compiler.
        if code.is_some_and(|code| keccak256(code) != *hash) {
            self.missing.get_or_init(|| key);
            return None;
        }
        code.cloned()
    }

    fn account_code(&self, address: &Address) -> AccountCode {
        let name = keys::code(self.value(keys::code_name_key(*address)));
        self.require_code(&name);
        name
    }

    fn interrupted(&self) -> bool {
        self.missing.get().is_some()
    }
}
