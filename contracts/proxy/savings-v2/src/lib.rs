//! The savings box's second version: coins stay in for a while. What the first version stored is where it was, and what is new lies behind it.
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

    /// The caller has less than that.
    error InsufficientSavings(uint256 has, uint256 needed);
    /// What was put in last stays until then.
    error TooEarly(uint64 until);
    error OwnableUnauthorizedAccount(address account);
    error OwnableInvalidOwner(address owner);
}

sol_storage! {
    /// The first version's, in its order and of its types; then what is new.
    #[entrypoint]
    pub struct Savings {
        address owner;
        /// The version that was last initialised.
        uint64 initialized;
        uint256 total;
        mapping(address => uint256) balances;
        /// Seconds that coins stay.
        uint64 delay;
        /// When somebody last put coins in; zero if that was in the first version.
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
    /// Whoever is paid does not want it, in its own words.
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

    /// For a proxy of the first version: what `upgradeToAndCall` calls, so that nobody uses this version without it. Only the owner, for the case
    /// that it was forgotten there.
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
        // Neither passes what coins there are.
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

    /// That there is no `upgradeTo` beside `upgradeToAndCall`, for tools that ask.
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
