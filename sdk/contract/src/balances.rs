//! Balances of accounts, updated without a read.

use crate::Counter;
use alloy_primitives::{Address, U256};
use stylus_sdk::host::VM;
use stylus_sdk::storage::{StorageGuard, StorageGuardMut, StorageMap, StorageType};

/// A number for each account, stored like `mapping(address => uint256)`.
///
/// [`credit`](Self::credit) and [`debit`](Self::debit) do not read it, so any number of payments to one account in a block run in
/// parallel. So do payments from an account that owns far more than it pays. [`of`](Self::of) waits for earlier changes.
pub struct Balances {
    accounts: StorageMap<Address, Counter>,
}

impl Balances {
    /// Reads the number, which the other functions avoid.
    pub fn of(&self, account: Address) -> U256 {
        self.accounts.getter(account).get()
    }

    /// Adds to an account. Returns `false` without a change if the sum would exceed 2^256 - 1.
    #[must_use]
    pub fn credit(&mut self, account: Address, amount: U256) -> bool {
        self.accounts.setter(account).add(amount, U256::MAX)
    }

    /// Subtracts from an account. Returns `false` without a change if the account has less.
    #[must_use]
    pub fn debit(&mut self, account: Address, amount: U256) -> bool {
        self.accounts.setter(account).sub(amount, U256::ZERO)
    }
}

impl StorageType for Balances {
    type Wraps<'a> = StorageGuard<'a, Self>;
    type WrapsMut<'a> = StorageGuardMut<'a, Self>;

    unsafe fn new(slot: U256, offset: u8, host: VM) -> Self {
        // SAFETY: the map is the only field, so it aliases nothing else.
        Self { accounts: unsafe { StorageMap::new(slot, offset, host) } }
    }

    fn load<'s>(self) -> Self::Wraps<'s> {
        StorageGuard::new(self)
    }

    fn load_mut<'s>(self) -> Self::WrapsMut<'s> {
        StorageGuardMut::new(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{keccak256, B256};
    use stylus_sdk::prelude::*;
    use stylus_sdk::testing::*;

    sol_storage! {
        struct Bank {
            uint256 before;
            Balances balances;
        }
    }

    #[test]
    fn storage_layout_matches_mapping() {
        let vm = TestVM::default();
        let mut bank = Bank::from(&vm);
        let account = Address::repeat_byte(7);
        assert!(bank.balances.credit(account, U256::from(5)) && bank.balances.debit(account, U256::from(2)));
        assert_eq!(bank.balances.of(account), U256::from(3));
        let slot = keccak256([account.into_word(), B256::with_last_byte(1)].concat());
        assert_eq!(vm.get_storage(slot.into()), B256::with_last_byte(3), "Solidity's slot of a mapping in slot 1");
    }

    #[test]
    fn balances_stay_within_bounds() {
        let vm = TestVM::default();
        let mut bank = Bank::from(&vm);
        let account = Address::repeat_byte(7);
        assert!(!bank.balances.debit(account, U256::from(1)));
        assert!(bank.balances.credit(account, U256::MAX));
        assert!(!bank.balances.credit(account, U256::from(1)));
        assert_eq!(bank.balances.of(account), U256::MAX);
    }
}
