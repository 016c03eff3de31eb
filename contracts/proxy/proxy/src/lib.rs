//! A proxy: users call its address, and it holds the coins. The code is another contract's, the implementation, and can be
//! replaced. Every call runs there by a delegate call, on this contract's storage.
//!
//! It has no functions, so it cannot hide a function of the implementation. The implementation also decides who may
//! replace it (`uups.rs`).
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

/// Uses no slots from zero on: they belong to the implementation.
#[storage]
pub struct Proxy;

// SAFETY: it has no fields; `entrypoint` makes one, and nothing else does.
unsafe impl TopLevelStorage for Proxy {}

#[public]
impl Proxy {
    /// `data` is the call that initialises the implementation here. The value of the creation goes with it.
    #[constructor]
    #[payable]
    pub fn constructor(&mut self, implementation: Address, data: Bytes) -> Result<(), Erc1967Error> {
        erc1967::upgrade_to_and_call(self, implementation, &data)
    }

    #[fallback]
    #[payable]
    pub fn fallback(&mut self, input: &[u8]) -> ArbResult {
        let implementation = erc1967::implementation(self);
        // A delegate call to an address without code would succeed, and coins would be lost.
        if implementation.is_zero() {
            return Err(Erc1967Error::from(ERC1967InvalidImplementation { implementation }).into());
        }
        erc1967::delegate(self, implementation, input)
    }
}

#[cfg(test)]
mod tests;
