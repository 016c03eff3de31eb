//! A state that consists of the values that a transaction read, and of code by its hash.

use crate::keys;
use corniche_basil::MAX_CONSTANTS;
use corniche_basil::shards::Key;
use corniche_basil::transaction::Value;
use corniche_state::{AccountCode, StateView};
use corniche_types::{Account, Address, B256, Bytes};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Looks code up by its hash. It returns no other code.
pub type Codes<'a> = dyn Fn(&B256) -> Option<Bytes> + Sync + 'a;

/// Values by key. A read of another key interrupts the run: its result does not count, and the key must be read first.
pub struct Claims<'a> {
    values: &'a BTreeMap<Key, Value>,
    codes: &'a Codes<'a>,
    stop: OnceLock<Stop>,
    seen: Mutex<Seen>,
}

/// Why a run stopped. Its result does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Not read yet, or code that is not known.
    Missing(Key),
    /// More than [`MAX_CONSTANTS`] contracts.
    TooManyCodes,
}

/// Keys and code that a run read.
#[derive(Default)]
struct Seen {
    keys: BTreeSet<Key>,
    codes: BTreeSet<B256>,
}

impl<'a> Claims<'a> {
    pub fn new(values: &'a BTreeMap<Key, Value>, codes: &'a Codes<'a>) -> Self {
        Self { values, codes, stop: OnceLock::new(), seen: Mutex::default() }
    }

    /// Number of values that were read.
    pub fn read_count(&self) -> usize {
        self.seen().keys.len()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first reason to stop. Later ones may follow from a wrong value.
    pub fn stop(&self) -> Option<&Stop> {
        self.stop.get()
    }

    fn value(&self, key: Key) -> &Value {
        match self.values.get(&key) {
            Some(value) => {
                self.seen().keys.insert(key);
                value
            }
            None => {
                self.stop.get_or_init(|| Stop::Missing(key));
                &None
            }
        }
    }

    /// Looks the code up with its name. A virtual machine that has compiled it does not ask for it, and whether a process needs it
    /// must not depend on that.
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
        let count = {
            let mut seen = self.seen();
            seen.codes.insert(*hash);
            seen.codes.len()
        };
        if count > MAX_CONSTANTS {
            self.stop.get_or_init(|| Stop::TooManyCodes);
            return None;
        }
        let code = (self.codes)(hash);
        if code.is_none() {
            self.stop.get_or_init(|| Stop::Missing(keys::code_key(hash)));
        }
        code
    }

    fn account_code(&self, address: &Address) -> AccountCode {
        let name = keys::code(self.value(keys::code_name_key(*address)));
        self.require_code(&name);
        name
    }

    fn interrupted(&self) -> bool {
        self.stop.get().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_uses_a_bounded_number_of_codes() {
        let values = BTreeMap::new();
        let claims = Claims::new(&values, &|_| Some(Bytes::from_static(b"code")));
        let hash = |number: usize| B256::left_padding_from(&number.to_be_bytes());
        for number in [0, 1].into_iter().flat_map(|_| 0..MAX_CONSTANTS) {
            assert!(claims.code(&hash(number)).is_some());
        }
        assert_eq!((claims.stop(), claims.interrupted()), (None, false));
        assert_eq!(claims.code(&hash(MAX_CONSTANTS)), None);
        assert_eq!((claims.stop(), claims.interrupted()), (Some(&Stop::TooManyCodes), true));
    }

    #[test]
    fn the_first_missing_code_stops_a_run() {
        let values = BTreeMap::new();
        let claims = Claims::new(&values, &|_| None);
        let hashes = [1, 2].map(B256::with_last_byte);
        hashes.iter().for_each(|hash| assert_eq!(claims.code(hash), None));
        assert_eq!(claims.stop(), Some(&Stop::Missing(keys::code_key(&hashes[0]))));
        assert_eq!(claims.read_count(), 0);
    }
}
