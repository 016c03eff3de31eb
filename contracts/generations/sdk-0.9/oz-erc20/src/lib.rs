//! OpenZeppelin's ERC-20 with metadata, permit, burning, and an owner who mints and pauses.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::{string::String, vec::Vec};
use alloy_primitives::{Address, B256, U256, U8};
use openzeppelin_stylus::{
    access::ownable::{IOwnable, Ownable},
    token::erc20::{
        extensions::{Erc20Metadata, Erc20Permit, IErc20Burnable},
        Erc20, IErc20,
    },
    utils::{
        cryptography::eip712::IEip712,
        nonces::{INonces, Nonces},
        pausable::{IPausable, Pausable},
    },
};
use stylus_sdk::prelude::*;

#[storage]
struct Domain;

impl IEip712 for Domain {
    const NAME: &'static str = "Cornice";
    const VERSION: &'static str = "1";
}

#[entrypoint]
#[storage]
struct Token {
    erc20: Erc20,
    metadata: Erc20Metadata,
    permit: Erc20Permit<Domain>,
    nonces: Nonces,
    ownable: Ownable,
    pausable: Pausable,
}

#[public]
#[implements(IErc20<Error = Vec<u8>>, IErc20Burnable<Error = Vec<u8>>, IOwnable, IPausable, INonces)]
impl Token {
    #[constructor]
    fn constructor(&mut self, name: String, symbol: String, owner: Address) -> Result<(), Vec<u8>> {
        self.metadata.constructor(name, symbol);
        Ok(self.ownable.constructor(owner)?)
    }

    fn name(&self) -> String {
        use openzeppelin_stylus::token::erc20::extensions::IErc20Metadata;
        self.metadata.name()
    }

    fn decimals(&self) -> U8 {
        use openzeppelin_stylus::token::erc20::extensions::IErc20Metadata;
        self.metadata.decimals()
    }

    fn mint(&mut self, to: Address, value: U256) -> Result<(), Vec<u8>> {
        self.ownable.only_owner()?;
        Ok(self.erc20._mint(to, value)?)
    }

    fn pause(&mut self) -> Result<(), Vec<u8>> {
        self.ownable.only_owner()?;
        Ok(self.pausable.pause()?)
    }

    fn unpause(&mut self) -> Result<(), Vec<u8>> {
        self.ownable.only_owner()?;
        Ok(self.pausable.unpause()?)
    }

    #[selector(name = "DOMAIN_SEPARATOR")]
    fn domain_separator(&self) -> B256 {
        self.permit.domain_separator()
    }

    #[allow(clippy::too_many_arguments)]
    fn permit(
        &mut self,
        owner: Address,
        spender: Address,
        value: U256,
        deadline: U256,
        v: u8,
        r: B256,
        s: B256,
    ) -> Result<(), Vec<u8>> {
        Ok(self.permit.permit(owner, spender, value, deadline, v, r, s, &mut self.erc20, &mut self.nonces)?)
    }
}

#[public]
impl IErc20 for Token {
    type Error = Vec<u8>;

    fn total_supply(&self) -> U256 {
        self.erc20.total_supply()
    }

    fn balance_of(&self, account: Address) -> U256 {
        self.erc20.balance_of(account)
    }

    fn transfer(&mut self, to: Address, value: U256) -> Result<bool, Self::Error> {
        self.pausable.when_not_paused()?;
        Ok(self.erc20.transfer(to, value)?)
    }

    fn allowance(&self, owner: Address, spender: Address) -> U256 {
        self.erc20.allowance(owner, spender)
    }

    fn approve(&mut self, spender: Address, value: U256) -> Result<bool, Self::Error> {
        Ok(self.erc20.approve(spender, value)?)
    }

    fn transfer_from(&mut self, from: Address, to: Address, value: U256) -> Result<bool, Self::Error> {
        self.pausable.when_not_paused()?;
        Ok(self.erc20.transfer_from(from, to, value)?)
    }
}

#[public]
impl IErc20Burnable for Token {
    type Error = Vec<u8>;

    fn burn(&mut self, value: U256) -> Result<(), Self::Error> {
        Ok(self.erc20.burn(value)?)
    }

    fn burn_from(&mut self, account: Address, value: U256) -> Result<(), Self::Error> {
        Ok(self.erc20.burn_from(account, value)?)
    }
}

#[public]
impl IOwnable for Token {
    fn owner(&self) -> Address {
        self.ownable.owner()
    }

    fn transfer_ownership(&mut self, new_owner: Address) -> Result<(), Vec<u8>> {
        Ok(self.ownable.transfer_ownership(new_owner)?)
    }

    fn renounce_ownership(&mut self) -> Result<(), Vec<u8>> {
        Ok(self.ownable.renounce_ownership()?)
    }
}

#[public]
impl IPausable for Token {
    fn paused(&self) -> bool {
        self.pausable.paused()
    }
}

#[public]
impl INonces for Token {
    fn nonces(&self, owner: Address) -> U256 {
        self.nonces.nonces(owner)
    }
}
