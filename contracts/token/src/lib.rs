//! An ERC-20 token with approvals by signature (EIP-2612): the spender submits the holder's permit and pays the gas.
//!
//! `corniche_contract::erc20` keeps the balances and updates them without a read: payments to one account do not wait for each
//! other. This contract adds the permit.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

mod permit;
#[cfg(test)]
mod tests;

use alloc::{string::String, vec::Vec};
use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::sol;
use corniche_contract::erc20::{Erc20, Erc20Error};
use permit::Permit;
use stylus_sdk::prelude::*;

corniche_contract::abi!();

sol! {
    /// The permit was valid until this time.
    #[derive(Debug, PartialEq, Eq)]
    error ERC2612ExpiredSignature(uint256 deadline);
    /// Another account signed it, or other values: another amount, another nonce, another chain.
    #[derive(Debug, PartialEq, Eq)]
    error ERC2612InvalidSigner(address signer, address owner);
    /// The signature is invalid.
    #[derive(Debug, PartialEq, Eq)]
    error ECDSAInvalidSignature();
}

sol_storage! {
    #[entrypoint]
    pub struct Token {
        string name;
        string symbol;
        Erc20 erc20;
        /// Number of used permits of an account, and the nonce of its next one.
        mapping(address => uint256) nonces;
    }
}

#[derive(Debug, PartialEq, Eq, SolidityError)]
pub enum TokenError {
    Erc20(Erc20Error),
    ExpiredSignature(ERC2612ExpiredSignature),
    InvalidSigner(ERC2612InvalidSigner),
    InvalidSignature(ECDSAInvalidSignature),
}

#[public]
impl Token {
    /// The whole supply goes to the creator of the contract.
    #[constructor]
    pub fn constructor(&mut self, name: String, symbol: String, supply: U256) -> Result<(), TokenError> {
        self.name.set_str(name);
        self.symbol.set_str(symbol);
        let creator = self.vm().msg_sender();
        Ok(self.erc20.mint(creator, supply)?)
    }

    pub fn name(&self) -> String {
        self.name.get_string()
    }

    pub fn symbol(&self) -> String {
        self.symbol.get_string()
    }

    pub fn decimals(&self) -> u8 {
        18
    }

    pub fn total_supply(&self) -> U256 {
        self.erc20.total_supply()
    }

    pub fn balance_of(&self, account: Address) -> U256 {
        self.erc20.balance_of(account)
    }

    pub fn allowance(&self, owner: Address, spender: Address) -> U256 {
        self.erc20.allowance(owner, spender)
    }

    pub fn transfer(&mut self, to: Address, value: U256) -> Result<bool, TokenError> {
        let from = self.vm().msg_sender();
        self.erc20.transfer(from, to, value)?;
        Ok(true)
    }

    pub fn approve(&mut self, spender: Address, value: U256) -> Result<bool, TokenError> {
        let owner = self.vm().msg_sender();
        self.erc20.approve(owner, spender, value)?;
        Ok(true)
    }

    pub fn transfer_from(&mut self, from: Address, to: Address, value: U256) -> Result<bool, TokenError> {
        let spender = self.vm().msg_sender();
        self.erc20.spend(from, spender, value)?;
        self.erc20.transfer(from, to, value)?;
        Ok(true)
    }

    /// Destroys tokens of the caller.
    pub fn burn(&mut self, value: U256) -> Result<(), TokenError> {
        let from = self.vm().msg_sender();
        Ok(self.erc20.burn(from, value)?)
    }

    /// Nonce of an owner's next permit.
    pub fn nonces(&self, owner: Address) -> U256 {
        self.nonces.get(owner)
    }

    /// Domain of permits: this contract on this chain, under its name.
    #[selector(name = "DOMAIN_SEPARATOR")]
    pub fn domain_separator(&self) -> B256 {
        permit::domain_separator(&self.name.get_string(), self.vm().chain_id(), self.vm().contract_address())
    }

    /// Sets an allowance of the signer. Any account may submit a permit, once.
    #[allow(clippy::too_many_arguments)] // the arguments of EIP-2612
    pub fn permit(
        &mut self,
        owner: Address,
        spender: Address,
        value: U256,
        deadline: U256,
        v: u8,
        r: B256,
        s: B256,
    ) -> Result<(), TokenError> {
        if U256::from(self.vm().block_timestamp()) > deadline {
            return Err(ERC2612ExpiredSignature { deadline }.into());
        }
        let nonce = self.nonces.get(owner);
        let signed = Permit { owner, spender, value, nonce, deadline }.digest(self.domain_separator());
        let signer = permit::signer(self.vm(), signed, v, r, s).ok_or(ECDSAInvalidSignature {})?;
        if signer != owner {
            return Err(ERC2612InvalidSigner { signer, owner }.into());
        }
        self.nonces.insert(owner, nonce + U256::from(1));
        Ok(self.erc20.approve(owner, spender, value)?)
    }
}
