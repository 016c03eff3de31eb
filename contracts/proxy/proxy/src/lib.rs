//! A proxy: what people know by its address and what holds the coins, while the code that runs is another contract's, the implementation, and can be
//! replaced. Everything that is sent here runs there by a delegate call, on this contract's storage.
//!
//! It has no functions of its own, so none of an implementation's can be hidden by one. Who may replace the implementation is the implementation's
//! business too (`uups.rs`).
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

mod entrypoint;
#[path = "../../erc1967.rs"]
mod erc1967;

use alloc::vec::Vec;
use alloy_primitives::{Address, Bytes};
use erc1967::{ERC1967InvalidImplementation, Erc1967Error};
use stylus_sdk::prelude::*;
use stylus_sdk::ArbResult;

corniche_contract::abi!();

/// Nothing from slot zero on: that is all the implementation's.
#[storage]
pub struct Proxy;

// SAFETY: it has no fields; `entrypoint` makes one, and nothing else does.
unsafe impl TopLevelStorage for Proxy {}

#[public]
impl Proxy {
    /// `data` is the call that initialises the implementation here; coins that come along go with it.
    #[constructor]
    #[payable]
    pub fn constructor(&mut self, implementation: Address, data: Bytes) -> Result<(), Erc1967Error> {
        erc1967::upgrade_to_and_call(self, implementation, &data)
    }

    #[fallback]
    #[payable]
    pub fn fallback(&mut self, input: &[u8]) -> ArbResult {
        let implementation = erc1967::implementation(self);
        // A delegate call to nobody would succeed, and coins would be lost.
        if implementation.is_zero() {
            return Err(Erc1967Error::from(ERC1967InvalidImplementation { implementation }).into());
        }
        erc1967::delegate(self, implementation, input)
    }
}

#[cfg(test)]
mod tests;
