//! An ERC-20 token on [`Balances`]: balances, events and the errors of ERC-6093, for use behind a contract's own functions.
//!
//! ```ignore
//! sol_storage! {
//!     #[entrypoint]
//!     pub struct Token { Erc20 erc20; }
//! }
//!
//! #[public]
//! impl Token {
//!     pub fn transfer(&mut self, to: Address, value: U256) -> Result<bool, Erc20Error> {
//!         let from = self.vm().msg_sender();
//!         self.erc20.transfer(from, to, value).map(|()| true)
//!     }
//! }
//! ```
//!
//! A transfer reads neither balance, so a thousand customers who pay one shop in one block do not conflict. Transfers are
//! refused under the rules of an ordinary token. Only a transfer without enough tokens reads the balance, for the error.
//!
//! **Invariant**: balances add up to the supply, which never exceeds 2^256 - 1, so no balance does either.

use crate::{Balances, Counter};
use alloc::vec::Vec;
use alloy_primitives::{Address, U256};
use alloy_sol_types::{sol, Panic, PanicKind};
use stylus_sdk::prelude::*;
use stylus_sdk::stylus_core::errors::MethodError;

sol! {
    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    #[derive(Debug, PartialEq, Eq)]
    error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
    #[derive(Debug, PartialEq, Eq)]
    error ERC20InvalidSender(address sender);
    #[derive(Debug, PartialEq, Eq)]
    error ERC20InvalidReceiver(address receiver);
    #[derive(Debug, PartialEq, Eq)]
    error ERC20InsufficientAllowance(address spender, uint256 allowance, uint256 needed);
    #[derive(Debug, PartialEq, Eq)]
    error ERC20InvalidApprover(address approver);
    #[derive(Debug, PartialEq, Eq)]
    error ERC20InvalidSpender(address spender);
}

#[derive(Debug, PartialEq, Eq, SolidityError)]
pub enum Erc20Error {
    InsufficientBalance(ERC20InsufficientBalance),
    InvalidSender(ERC20InvalidSender),
    InvalidReceiver(ERC20InvalidReceiver),
    InsufficientAllowance(ERC20InsufficientAllowance),
    InvalidApprover(ERC20InvalidApprover),
    InvalidSpender(ERC20InvalidSpender),
    /// The supply would exceed 2^256 - 1. Encoded like Solidity's, `Panic(0x11)`.
    Overflow(Panic),
}

/// Makes it usable as a variant of a contract's error.
impl MethodError for Erc20Error {
    fn encode(self) -> Vec<u8> {
        self.into()
    }
}

sol_storage! {
    pub struct Erc20 {
        Counter supply;
        Balances balances;
        mapping(address => mapping(address => uint256)) allowances;
    }
}

impl Erc20 {
    /// Reads the counter, so the caller waits for earlier mints and burns.
    pub fn total_supply(&self) -> U256 {
        self.supply.get()
    }

    pub fn balance_of(&self, account: Address) -> U256 {
        self.balances.of(account)
    }

    pub fn allowance(&self, owner: Address, spender: Address) -> U256 {
        self.allowances.getter(owner).get(spender)
    }

    /// Moves tokens from one account to another, or to itself.
    pub fn transfer(&mut self, from: Address, to: Address, value: U256) -> Result<(), Erc20Error> {
        if from.is_zero() {
            return Err(ERC20InvalidSender { sender: from }.into());
        }
        if to.is_zero() {
            return Err(ERC20InvalidReceiver { receiver: to }.into());
        }
        self.take(from, value)?;
        // Never refused: the sum is at most the supply.
        if !self.balances.credit(to, value) {
            return Err(overflow());
        }
        self.vm().log(Transfer { from, to, value });
        Ok(())
    }

    /// Sets an allowance, regardless of its old value.
    pub fn approve(&mut self, owner: Address, spender: Address, value: U256) -> Result<(), Erc20Error> {
        if owner.is_zero() {
            return Err(ERC20InvalidApprover { approver: owner }.into());
        }
        if spender.is_zero() {
            return Err(ERC20InvalidSpender { spender }.into());
        }
        self.allowances.setter(owner).insert(spender, value);
        self.vm().log(Approval { owner, spender, value });
        Ok(())
    }

    /// Reduces an allowance. An allowance of 2^256 - 1 is not reduced.
    pub fn spend(&mut self, owner: Address, spender: Address, needed: U256) -> Result<(), Erc20Error> {
        let allowance = self.allowance(owner, spender);
        if allowance == U256::MAX {
            return Ok(());
        }
        let Some(rest) = allowance.checked_sub(needed) else {
            return Err(ERC20InsufficientAllowance { spender, allowance, needed }.into());
        };
        self.allowances.setter(owner).insert(spender, rest);
        Ok(())
    }

    /// Creates tokens.
    pub fn mint(&mut self, to: Address, value: U256) -> Result<(), Erc20Error> {
        if to.is_zero() {
            return Err(ERC20InvalidReceiver { receiver: to }.into());
        }
        if !self.supply.add(value, U256::MAX) || !self.balances.credit(to, value) {
            return Err(overflow());
        }
        self.vm().log(Transfer { from: Address::ZERO, to, value });
        Ok(())
    }

    /// Destroys tokens of an account.
    pub fn burn(&mut self, from: Address, value: U256) -> Result<(), Erc20Error> {
        if from.is_zero() {
            return Err(ERC20InvalidSender { sender: from }.into());
        }
        self.take(from, value)?;
        // Never refused: the supply is at least any balance.
        if !self.supply.sub(value, U256::ZERO) {
            return Err(overflow());
        }
        self.vm().log(Transfer { from, to: Address::ZERO, value });
        Ok(())
    }

    fn take(&mut self, from: Address, needed: U256) -> Result<(), Erc20Error> {
        if self.balances.debit(from, needed) {
            return Ok(());
        }
        let balance = self.balances.of(from);
        Err(ERC20InsufficientBalance { sender: from, balance, needed }.into())
    }
}

fn overflow() -> Erc20Error {
    Erc20Error::Overflow(Panic::from(PanicKind::UnderOverflow))
}
