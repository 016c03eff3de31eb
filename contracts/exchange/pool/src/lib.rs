//! A pool of two ERC-20 tokens that anyone exchanges for each other. The price follows from what is there: the product of both
//! reserves never falls, and 0.3 % of what is paid in stays with those who own the pool.
//!
//! Pay first, then call: whatever lies here above the reserves was paid by the caller. So a contract (the router beside this one) has to do
//! both in one transaction; whoever pays in one and calls in another may find that somebody else called between.
//!
//! Three things keep strangers' tokens from doing harm. Reserves and shares are written *before* a token is called, so a call back
//! finds nothing stale; the SDK's entry point refuses calls back in the first place; and only what arrived counts as paid.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

mod math;
mod shares;
#[path = "../../token.rs"]
mod token;

use alloc::{string::String, vec::Vec};
use alloy_primitives::{aliases::U112, Address, U256, U8};
use alloy_sol_types::sol;
use math::{LOCKED_SHARES, MAX_RESERVE};
use shares::{Shares, SharesError};
use stylus_sdk::prelude::*;
use token::TokenError;

corniche_contract::abi!();

sol! {
    /// Somebody's `amountIn` of one token became `amountOut` of the other, which went to `to`.
    event Swapped(address indexed by, address indexed to, address tokenIn, uint256 amountIn, uint256 amountOut);
    /// A deposit became shares.
    event Joined(address indexed to, uint256 first, uint256 second, uint256 shares);
    /// Shares became their part of both reserves.
    event Left(address indexed to, uint256 first, uint256 second, uint256 shares);

    /// A pool needs two tokens, and both must be contracts.
    error NotTwoTokens(address first, address second);
    /// Not one of the pool's tokens.
    error UnknownToken(address token);
    /// Nothing came in since the last call, or less is here than there was.
    error NothingPaid(address token);
    /// What would be given is less than what was asked for at least.
    error TooLittle(uint256 amount, uint256 minimum);
    /// A reserve would pass 2^112 - 1.
    error TooMuch(address token, uint256 balance);
}

sol_storage! {
    #[entrypoint]
    pub struct Pool {
        address first;
        address second;
        /// What prices and shares follow from. They only differ from what the pool owns while somebody is paying.
        uint112 first_reserve;
        uint112 second_reserve;
        Shares shares;
    }
}

#[derive(SolidityError)]
pub enum PoolError {
    NotTwoTokens(NotTwoTokens),
    UnknownToken(UnknownToken),
    NothingPaid(NothingPaid),
    TooLittle(TooLittle),
    TooMuch(TooMuch),
    Token(TokenError),
}

#[public]
impl Pool {
    #[constructor]
    pub fn constructor(&mut self, first: Address, second: Address) -> Result<(), PoolError> {
        let is_contract = |token| self.vm().code_size(token) > 0;
        if first == second || !is_contract(first) || !is_contract(second) {
            return Err(NotTwoTokens { first, second }.into());
        }
        self.first.set(first);
        self.second.set(second);
        Ok(())
    }

    pub fn tokens(&self) -> (Address, Address) {
        (self.first.get(), self.second.get())
    }

    pub fn reserves(&self) -> (U256, U256) {
        (self.first_reserve.get().to(), self.second_reserve.get().to())
    }

    /// What a payment of `amount_in` would receive now.
    pub fn quote(&self, token_in: Address, amount_in: U256) -> Result<U256, PoolError> {
        let (reserve_in, reserve_out) = self.reserves_from(token_in)?;
        within_limit(token_in, reserve_in.saturating_add(amount_in))?;
        Ok(math::received(amount_in, reserve_in, reserve_out))
    }

    /// Gives the other token for what was paid of `token_in`: at least `minimum_out`, or nothing happens.
    pub fn swap(&mut self, token_in: Address, minimum_out: U256, to: Address) -> Result<U256, PoolError> {
        let (reserve_in, reserve_out) = self.reserves_from(token_in)?;
        let balance_in = token::balance_of(self, token_in, self.vm().contract_address())?;
        within_limit(token_in, balance_in)?;
        let amount_in = paid(token_in, balance_in, reserve_in)?;
        let amount_out = math::received(amount_in, reserve_in, reserve_out);
        let minimum = minimum_out.max(U256::ONE);
        if amount_out < minimum {
            return Err(TooLittle { amount: amount_out, minimum }.into());
        }

        let reserve_out = reserve_out - amount_out;
        let (first, second) = self.tokens();
        let token_out = if token_in == first {
            self.keep(balance_in, reserve_out);
            second
        } else {
            self.keep(reserve_out, balance_in);
            first
        };
        token::transfer(self, token_out, to, amount_out)?;
        let by = self.vm().msg_sender();
        self.vm().log(Swapped { by, to, tokenIn: token_in, amountIn: amount_in, amountOut: amount_out });
        Ok(amount_out)
    }

    /// Turns what was paid of both tokens into shares. The first deposit sets the price, and 1,000 of its shares are nobody's for
    /// ever: see `math::LOCKED_SHARES`. What is paid above the price is a present to all who own shares.
    pub fn join(&mut self, to: Address) -> Result<U256, PoolError> {
        let (tokens, reserves, here) = (self.tokens(), self.reserves(), self.vm().contract_address());
        let first = token::balance_of(self, tokens.0, here)?;
        let second = token::balance_of(self, tokens.1, here)?;
        within_limit(tokens.0, first)?;
        within_limit(tokens.1, second)?;
        let deposit = (paid(tokens.0, first, reserves.0)?, paid(tokens.1, second, reserves.1)?);

        let supply = self.shares.supply.get();
        let shares = if supply.is_zero() {
            let shares = math::first_shares(deposit.0, deposit.1).saturating_sub(LOCKED_SHARES);
            self.shares.issue(Address::ZERO, LOCKED_SHARES);
            shares
        } else {
            math::further_shares(deposit, reserves, supply)
        };
        if shares.is_zero() {
            return Err(TooLittle { amount: shares, minimum: U256::ONE }.into());
        }
        self.keep(first, second);
        self.shares.issue(to, shares);
        self.vm().log(Joined { to, first: deposit.0, second: deposit.1, shares });
        Ok(shares)
    }

    /// Turns the shares that were transferred to the pool into their part of both reserves.
    pub fn leave(&mut self, to: Address) -> Result<(U256, U256), PoolError> {
        let (tokens, reserves, here) = (self.tokens(), self.reserves(), self.vm().contract_address());
        let (shares, supply) = self.shares.retire(here);
        let (first, second) = math::redeemed(shares, reserves, supply);
        if first.is_zero() || second.is_zero() {
            return Err(NothingPaid { token: here }.into());
        }
        self.keep(reserves.0 - first, reserves.1 - second);
        token::transfer(self, tokens.0, to, first)?;
        token::transfer(self, tokens.1, to, second)?;
        self.vm().log(Left { to, first, second, shares });
        Ok((first, second))
    }

    pub fn name(&self) -> String {
        "Pool share".into()
    }

    pub fn symbol(&self) -> String {
        "POOL".into()
    }

    pub fn decimals(&self) -> U8 {
        U8::from(18)
    }

    pub fn total_supply(&self) -> U256 {
        self.shares.supply.get()
    }

    pub fn balance_of(&self, account: Address) -> U256 {
        self.shares.balances.get(account)
    }

    pub fn allowance(&self, owner: Address, spender: Address) -> U256 {
        self.shares.allowances.getter(owner).get(spender)
    }

    pub fn transfer(&mut self, to: Address, value: U256) -> Result<bool, SharesError> {
        let from = self.vm().msg_sender();
        self.shares.transfer(from, to, value)
    }

    pub fn approve(&mut self, spender: Address, value: U256) -> Result<bool, SharesError> {
        self.shares.approve(spender, value)
    }

    pub fn transfer_from(&mut self, from: Address, to: Address, value: U256) -> Result<bool, SharesError> {
        self.shares.transfer_from(from, to, value)
    }
}

impl Pool {
    /// Of the token that is paid in and of the other one.
    fn reserves_from(&self, token_in: Address) -> Result<(U256, U256), PoolError> {
        let (first, second) = self.reserves();
        match token_in {
            token if token == self.first.get() => Ok((first, second)),
            token if token == self.second.get() => Ok((second, first)),
            token => Err(UnknownToken { token }.into()),
        }
    }

    /// Both at most [`MAX_RESERVE`].
    fn keep(&mut self, first: U256, second: U256) {
        self.first_reserve.set(U112::from(first));
        self.second_reserve.set(U112::from(second));
    }
}

fn within_limit(token: Address, balance: U256) -> Result<(), PoolError> {
    if balance > MAX_RESERVE {
        return Err(TooMuch { token, balance }.into());
    }
    Ok(())
}

/// What is here above the reserve.
fn paid(token: Address, balance: U256, reserve: U256) -> Result<U256, PoolError> {
    balance.checked_sub(reserve).filter(|paid| !paid.is_zero()).ok_or_else(|| NothingPaid { token }.into())
}
