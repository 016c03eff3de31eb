//! Ownership of the pool: the storage of an ERC-20, so that wallets show shares and pools of shares are possible.

use alloc::vec::Vec;
use alloy_primitives::{Address, U256};
use alloy_sol_types::sol;
use stylus_sdk::prelude::*;

sol! {
    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
    error ERC20InvalidReceiver(address receiver);
    error ERC20InvalidSpender(address spender);
    error ERC20InsufficientAllowance(address spender, uint256 allowance, uint256 needed);
}

sol_storage! {
    pub struct Shares {
        uint256 supply;
        mapping(address => uint256) balances;
        mapping(address => mapping(address => uint256)) allowances;
    }
}

#[derive(SolidityError)]
pub enum SharesError {
    InsufficientBalance(ERC20InsufficientBalance),
    InvalidReceiver(ERC20InvalidReceiver),
    InvalidSpender(ERC20InvalidSpender),
    InsufficientAllowance(ERC20InsufficientAllowance),
}

impl Shares {
    /// Creates shares. Shares of the zero address have no owner.
    pub fn issue(&mut self, to: Address, value: U256) {
        self.supply.set(self.supply.get() + value);
        self.balances.insert(to, self.balances.get(to) + value);
        self.vm().log(Transfer { from: Address::ZERO, to, value });
    }

    /// Destroys all shares of `from`. Returns their number and the supply before.
    pub fn retire(&mut self, from: Address) -> (U256, U256) {
        let (value, supply) = (self.balances.take(from), self.supply.get());
        self.supply.set(supply - value);
        self.vm().log(Transfer { from, to: Address::ZERO, value });
        (value, supply)
    }

    pub fn approve(&mut self, spender: Address, value: U256) -> Result<bool, SharesError> {
        if spender.is_zero() {
            return Err(ERC20InvalidSpender { spender }.into());
        }
        let owner = self.vm().msg_sender();
        self.allowances.setter(owner).insert(spender, value);
        self.vm().log(Approval { owner, spender, value });
        Ok(true)
    }

    pub fn transfer(&mut self, from: Address, to: Address, value: U256) -> Result<bool, SharesError> {
        if to.is_zero() {
            return Err(ERC20InvalidReceiver { receiver: to }.into());
        }
        let balance = self.balances.get(from);
        let Some(rest) = balance.checked_sub(value) else {
            return Err(ERC20InsufficientBalance { sender: from, balance, needed: value }.into());
        };
        self.balances.insert(from, rest);
        // Read after the write, so that a transfer to oneself changes nothing. The sum is at most the supply.
        self.balances.insert(to, self.balances.get(to) + value);
        self.vm().log(Transfer { from, to, value });
        Ok(true)
    }

    /// An allowance of 2^256 - 1 is not reduced.
    pub fn transfer_from(&mut self, from: Address, to: Address, value: U256) -> Result<bool, SharesError> {
        let spender = self.vm().msg_sender();
        let allowance = self.allowances.getter(from).get(spender);
        if allowance != U256::MAX {
            let Some(rest) = allowance.checked_sub(value) else {
                return Err(ERC20InsufficientAllowance { spender, allowance, needed: value }.into());
            };
            self.allowances.setter(from).insert(spender, rest);
        }
        self.transfer(from, to, value)
    }
}
