//! The savings box's second version: deposits have a delay. Fields of the first version keep their place, and new ones follow.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

#[path = "../../erc1967.rs"]
mod erc1967;
#[path = "../../uups.rs"]
mod uups;

use alloc::{string::String, vec::Vec};
use alloy_primitives::{Address, Bytes, B256, U256, U64};
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
    /// The last deposit is locked until this time.
    error TooEarly(uint64 until);
    error OwnableUnauthorizedAccount(address account);
    error OwnableInvalidOwner(address owner);
}

sol_storage! {
    /// The first version's fields in their order and with their types, then the new ones.
    #[entrypoint]
    pub struct Savings {
        address owner;
        /// The last initialised version.
        uint64 initialized;
        uint256 total;
        mapping(address => uint256) balances;
        /// Seconds for which a deposit is locked.
        uint64 delay;
        /// Time of an account's last deposit; zero if it was made in the first version.
        mapping(address => uint64) deposited;
    }
}

#[derive(SolidityError)]
pub enum SavingsError {
    Insufficient(InsufficientSavings),
    TooEarly(TooEarly),
    NotOwner(OwnableUnauthorizedAccount),
    BadOwner(OwnableInvalidOwner),
    Uups(UupsError),
    /// The payee refused the payment. Its error is passed on.
    Payment(CallError),
}

#[public]
impl Savings {
    /// For a new proxy.
    pub fn initialize(&mut self, owner: Address, delay: u64) -> Result<(), SavingsError> {
        uups::only_proxy(self)?;
        if owner.is_zero() {
            return Err(OwnableInvalidOwner { owner }.into());
        }
        let done = uups::initialize(&mut self.initialized, 0, 2)?;
        self.owner.set(owner);
        self.delay.set(U64::from(delay));
        self.vm().log(done);
        Ok(())
    }

    /// For a proxy of the first version. `upgradeToAndCall` calls it, so that this version is never used without it. Only the
    /// owner may call, in case the upgrade did not.
    pub fn migrate(&mut self, delay: u64) -> Result<(), SavingsError> {
        uups::only_proxy(self)?;
        self.only_owner()?;
        let done = uups::initialize(&mut self.initialized, 1, 2)?;
        self.delay.set(U64::from(delay));
        self.vm().log(done);
        Ok(())
    }

    #[payable]
    pub fn deposit(&mut self) {
        let (by, value) = (self.vm().msg_sender(), self.vm().msg_value());
        // Neither exceeds the number of coins that exist.
        self.balances.insert(by, self.balances.get(by) + value);
        self.total.set(self.total.get() + value);
        self.deposited.insert(by, U64::from(self.vm().block_timestamp()));
        self.vm().log(Deposited { by, value });
    }

    pub fn withdraw(&mut self, value: U256) -> Result<(), SavingsError> {
        let by = self.vm().msg_sender();
        let has = self.balances.get(by);
        let Some(rest) = has.checked_sub(value) else {
            return Err(InsufficientSavings { has, needed: value }.into());
        };
        let until = self.deposited.get(by).to::<u64>().saturating_add(self.delay());
        if self.vm().block_timestamp() < until {
            return Err(TooEarly { until }.into());
        }
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

    pub fn delay(&self) -> u64 {
        self.delay.get().to()
    }

    pub fn owner(&self) -> Address {
        self.owner.get()
    }

    pub fn version(&self) -> U256 {
        U256::from(2)
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
