//! A savings box: accounts deposit and withdraw coins. It runs behind a proxy, and its owner can replace the code.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

#[path = "../../erc1967.rs"]
mod erc1967;
#[path = "../../uups.rs"]
mod uups;

use alloc::{string::String, vec::Vec};
use alloy_primitives::{Address, Bytes, B256, U256};
use alloy_sol_types::sol;
use stylus_sdk::call::transfer::transfer_eth;
use stylus_sdk::prelude::*;
use stylus_sdk::stylus_core::calls::errors::Error as CallError;
use uups::UupsError;

corniche_contract::abi!();

sol! {
    event Deposited(address indexed by, uint256 value);
    event Withdrawn(address indexed by, uint256 value);

    /// The caller's balance is smaller.
    error InsufficientSavings(uint256 has, uint256 needed);
    error OwnableUnauthorizedAccount(address account);
    error OwnableInvalidOwner(address owner);
}

sol_storage! {
    /// Order and types of these fields never change: later versions append (`layout.json`).
    #[entrypoint]
    pub struct Savings {
        address owner;
        /// The last initialised version.
        uint64 initialized;
        uint256 total;
        mapping(address => uint256) balances;
    }
}

#[derive(SolidityError)]
pub enum SavingsError {
    Insufficient(InsufficientSavings),
    NotOwner(OwnableUnauthorizedAccount),
    BadOwner(OwnableInvalidOwner),
    Uups(UupsError),
    /// The payee refused the payment. Its error is passed on.
    Payment(CallError),
}

#[public]
impl Savings {
    /// Replaces a constructor, which would run on the implementation's own storage and not on the proxy's.
    pub fn initialize(&mut self, owner: Address) -> Result<(), SavingsError> {
        uups::only_proxy(self)?;
        if owner.is_zero() {
            return Err(OwnableInvalidOwner { owner }.into());
        }
        let done = uups::initialize(&mut self.initialized, 0, 1)?;
        self.owner.set(owner);
        self.vm().log(done);
        Ok(())
    }

    #[payable]
    pub fn deposit(&mut self) {
        let (by, value) = (self.vm().msg_sender(), self.vm().msg_value());
        // Neither exceeds the number of coins that exist.
        self.balances.insert(by, self.balances.get(by) + value);
        self.total.set(self.total.get() + value);
        self.vm().log(Deposited { by, value });
    }

    pub fn withdraw(&mut self, value: U256) -> Result<(), SavingsError> {
        let by = self.vm().msg_sender();
        let has = self.balances.get(by);
        let Some(rest) = has.checked_sub(value) else {
            return Err(InsufficientSavings { has, needed: value }.into());
        };
        self.balances.insert(by, rest);
        self.total.set(self.total.get() - value);
        self.vm().log(Withdrawn { by, value });
        transfer_eth(self.vm(), by, value).map_err(CallError::Revert)?;
        Ok(())
    }

    pub fn balance_of(&self, account: Address) -> U256 {
        self.balances.get(account)
    }

    pub fn total(&self) -> U256 {
        self.total.get()
    }

    pub fn owner(&self) -> Address {
        self.owner.get()
    }

    pub fn version(&self) -> U256 {
        U256::ONE
    }

    #[payable]
    pub fn upgrade_to_and_call(&mut self, new_implementation: Address, data: Bytes) -> Result<(), SavingsError> {
        uups::only_proxy(self)?;
        self.only_owner()?;
        Ok(uups::upgrade_to_and_call(self, new_implementation, &data)?)
    }

    #[selector(name = "proxiableUUID")]
    pub fn proxiable_uuid(&self) -> Result<B256, SavingsError> {
        Ok(uups::proxiable_uuid(self)?)
    }

    /// Tells tools that there is no `upgradeTo` beside `upgradeToAndCall`.
    #[selector(name = "UPGRADE_INTERFACE_VERSION")]
    pub fn upgrade_interface_version(&self) -> String {
        "5.0.0".into()
    }
}

impl Savings {
    fn only_owner(&self) -> Result<(), SavingsError> {
        let account = self.vm().msg_sender();
        if account != self.owner.get() {
            return Err(OwnableUnauthorizedAccount { account }.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
