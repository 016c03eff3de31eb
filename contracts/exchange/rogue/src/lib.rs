//! A token that calls back its caller, for tests of contracts that call untrusted ones. It records whether its calls succeeded,
//! and otherwise behaves like an honest token. Coins sent to it trigger a call back too.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::vec::Vec;
use alloy_primitives::{Address, Bytes, U256};
use stylus_sdk::call::call;
use stylus_sdk::prelude::*;

sol_storage! {
    #[entrypoint]
    pub struct Rogue {
        mapping(address => uint256) balances;
        address target;
        bytes data;
        uint256 tried;
        uint256 let_in;
    }
}

#[public]
impl Rogue {
    pub fn mint(&mut self, to: Address, value: U256) {
        self.balances.insert(to, self.balances.get(to) + value);
    }

    /// Sets the call to make on every incoming call.
    pub fn arm(&mut self, target: Address, data: Bytes) {
        self.target.set(target);
        self.data.set_bytes(&data);
    }

    /// Number of its calls, and of those that succeeded.
    pub fn attacks(&self) -> (U256, U256) {
        (self.tried.get(), self.let_in.get())
    }

    pub fn balance_of(&self, account: Address) -> U256 {
        self.balances.get(account)
    }

    pub fn transfer(&mut self, to: Address, value: U256) -> bool {
        let from = self.vm().msg_sender();
        self.pay(from, to, value)
    }

    /// Needs no approval.
    pub fn transfer_from(&mut self, from: Address, to: Address, value: U256) -> bool {
        self.pay(from, to, value)
    }

    #[receive]
    pub fn receive(&mut self) -> Result<(), Vec<u8>> {
        self.attack();
        Ok(())
    }

    #[fallback]
    #[payable]
    pub fn fallback(&mut self, _data: &[u8]) -> stylus_sdk::ArbResult {
        self.attack();
        Ok(Vec::new())
    }
}

impl Rogue {
    fn pay(&mut self, from: Address, to: Address, value: U256) -> bool {
        self.attack();
        let Some(rest) = self.balances.get(from).checked_sub(value) else { return false };
        self.balances.insert(from, rest);
        self.balances.insert(to, self.balances.get(to) + value);
        true
    }

    fn attack(&mut self) {
        if self.target.get().is_zero() {
            return;
        }
        self.tried.set(self.tried.get() + U256::ONE);
        let (target, data) = (self.target.get(), self.data.get_bytes());
        let context = Call::new_mutating(self);
        if call(self.vm(), context, target, &data).is_ok() {
            self.let_in.set(self.let_in.get() + U256::ONE);
        }
    }
}
