//! What can be read of a state.

use crate::Changes;
use corniche_types::{Account, Address, B256, Bytes, U256};

/// Whether the number in a slot lies between the bounds, both included: what [`StateView::storage_within`] asks.
pub fn lies_within(value: &B256, low: &U256, high: &U256) -> bool {
    let number = U256::from_be_bytes(value.0);
    *low <= number && number <= *high
}

/// A state that can be read. Implementations answer from memory, always, and never change under the reader.
pub trait StateView: Send + Sync {
    /// `None` when the account does not exist.
    fn account(&self, address: &Address) -> Option<Account>;
    /// Zero when never written.
    fn storage(&self, address: &Address, slot: &B256) -> B256;
    /// Code by its keccak-256 hash.
    fn code(&self, hash: &B256) -> Option<Bytes>;

    /// Whether the number in the slot lies between the bounds, both included. A view that remembers what was read remembers this
    /// answer, and not the number.
    fn storage_within(&self, address: &Address, slot: &B256, low: &U256, high: &U256) -> bool {
        lies_within(&self.storage(address, slot), low, high)
    }

    /// Whether an answer given so far means nothing: what was asked for is about to change. Whoever reads stops when it can,
    /// and its result is thrown away.
    fn interrupted(&self) -> bool {
        false
    }
}

/// The state in which nothing exists.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmptyState;

impl StateView for EmptyState {
    fn account(&self, _: &Address) -> Option<Account> {
        None
    }

    fn storage(&self, _: &Address, _: &B256) -> B256 {
        B256::ZERO
    }

    fn code(&self, _: &B256) -> Option<Bytes> {
        None
    }
}

/// A view with changes on top: what the next transaction of a block sees.
#[derive(Clone, Copy)]
pub struct Overlay<'a> {
    pub base: &'a dyn StateView,
    pub changes: &'a Changes,
}

impl StateView for Overlay<'_> {
    fn account(&self, address: &Address) -> Option<Account> {
        match self.changes.accounts.get(address) {
            Some(account) => account.clone(),
            None => self.base.account(address),
        }
    }

    fn storage(&self, address: &Address, slot: &B256) -> B256 {
        match self.changes.storage.get(&(*address, *slot)) {
            Some(value) => *value,
            None => self.base.storage(address, slot),
        }
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        self.changes.code.get(hash).cloned().or_else(|| self.base.code(hash))
    }

    fn interrupted(&self) -> bool {
        self.base.interrupted()
    }
}
