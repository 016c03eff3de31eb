//! An incompatible second version, for tests: its new field is before the old ones, so each old field is read from another's
//! slot. It builds and is upgradeable, and no chain refuses it. `corniche contract layout --against` does.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

#[path = "../../erc1967.rs"]
mod erc1967;
#[path = "../../uups.rs"]
mod uups;

use alloc::vec::Vec;
use alloy_primitives::{Address, Bytes, B256, U256, U64};
use alloy_sol_types::sol;
use stylus_sdk::prelude::*;
use uups::UupsError;

sol! {
    error OwnableUnauthorizedAccount(address account);
}

sol_storage! {
    #[entrypoint]
    pub struct Savings {
        uint64 delay;
        address owner;
        uint64 initialized;
        uint256 total;
        mapping(address => uint256) balances;
    }
}

#[derive(SolidityError)]
pub enum SavingsError {
    NotOwner(OwnableUnauthorizedAccount),
    Uups(UupsError),
}

#[public]
impl Savings {
    pub fn migrate(&mut self, delay: u64) -> Result<(), SavingsError> {
        let done = uups::initialize(&mut self.initialized, 1, 2)?;
        self.delay.set(U64::from(delay));
        self.vm().log(done);
        Ok(())
    }

    pub fn delay(&self) -> u64 {
        self.delay.get().to()
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

    #[payable]
    pub fn upgrade_to_and_call(&mut self, new_implementation: Address, data: Bytes) -> Result<(), SavingsError> {
        let account = self.vm().msg_sender();
        if account != self.owner.get() {
            return Err(OwnableUnauthorizedAccount { account }.into());
        }
        Ok(uups::upgrade_to_and_call(self, new_implementation, &data)?)
    }

    #[selector(name = "proxiableUUID")]
    pub fn proxiable_uuid(&self) -> Result<B256, SavingsError> {
        Ok(uups::proxiable_uuid(self)?)
    }
}
