//! Read access to a state.

use crate::Changes;
use corniche_types::{Account, Address, B256, Bytes, KECCAK_EMPTY, U256};

/// Returns whether the number in a slot is within the inclusive bounds: the predicate of [`StateView::storage_within`].
pub fn is_in_range(value: &B256, low: &U256, high: &U256) -> bool {
    let number = U256::from_be_bytes(value.0);
    *low <= number && number <= *high
}

/// The code of an account: the fields that only its creation changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountCode {
    pub hash: B256,
    pub abi_version: u8,
    pub gas_version: u8,
}

impl AccountCode {
    /// Returns the code of `account`; one that does not exist has no code.
    pub fn of(account: Option<&Account>) -> Self {
        match account {
            Some(Account { code_hash, abi_version, gas_version, .. }) => {
                Self { hash: *code_hash, abi_version: *abi_version, gas_version: *gas_version }
            }
            None => Self { hash: KECCAK_EMPTY, abi_version: 0, gas_version: 0 },
        }
    }

    /// Returns whether the account is a contract.
    pub fn is_contract(&self) -> bool {
        self.hash != KECCAK_EMPTY
    }
}

/// A readable state. Implementations read from memory, never fail and never change while they are read.
pub trait StateView: Send + Sync {
    /// Returns `None` if the account does not exist.
    fn account(&self, address: &Address) -> Option<Account>;
    /// Returns zero if the slot was never written.
    fn storage(&self, address: &Address, slot: &B256) -> B256;
    /// Returns the code with this keccak-256 hash.
    fn code(&self, hash: &B256) -> Option<Bytes>;

    /// Returns the code of an account. A view that records reads records this answer instead of the account, so the
    /// reader does not depend on the balance and the nonce.
    fn account_code(&self, address: &Address) -> AccountCode {
        AccountCode::of(self.account(address).as_ref())
    }

    /// Returns whether the number in the slot is within the inclusive bounds. A view that records reads records this
    /// answer instead of the number.
    fn storage_within(&self, address: &Address, slot: &B256, low: &U256, high: &U256) -> bool {
        is_in_range(&self.storage(address, slot), low, high)
    }

    /// Returns true if an earlier read was invalid, because its value is about to change. The reader should stop soon;
    /// its result is discarded.
    fn interrupted(&self) -> bool {
        false
    }
}

/// The empty state.
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

/// A view with changes on top, as seen by the next transaction of a block.
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
