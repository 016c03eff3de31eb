//! A pool of two ERC-20 tokens that anyone can exchange. The reserves determine the price: the product of both
//! reserves never falls, and 0.3 % of each payment stays with the owners of the pool.
//!
//! Pay first, then call: balances above the reserves belong to the caller. So a contract (the router beside this one) has to do
//! both in one transaction. Between two transactions, another caller could take the payment.
//!
//! Three rules protect against malicious tokens. Reserves and shares are written *before* a call of a token, so a call back
//! sees no stale state. The SDK's entry point refuses calls back. Only tokens that arrived count as paid.
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
    /// `amountIn` of one token was exchanged for `amountOut` of the other, which went to `to`.
    event Swapped(address indexed by, address indexed to, address tokenIn, uint256 amountIn, uint256 amountOut);
    /// A deposit was exchanged for shares.
    event Joined(address indexed to, uint256 first, uint256 second, uint256 shares);
    /// Shares were exchanged for their part of both reserves.
    event Left(address indexed to, uint256 first, uint256 second, uint256 shares);

    /// A pool needs two tokens, and both must be contracts.
    error NotTwoTokens(address first, address second);
    /// The token is not one of the pool's.
    error UnknownToken(address token);
    /// Nothing was paid since the last call, or the balance is below the reserve.
    error NothingPaid(address token);
    /// The result is below the minimum.
    error TooLittle(uint256 amount, uint256 minimum);
    /// The reserve would exceed 2^112 - 1.
    error TooMuch(address token, uint256 balance);
}

sol_storage! {
    #[entrypoint]
    pub struct Pool {
        address first;
        address second;
        /// Prices and shares depend on the reserves. They differ from the pool's balances only during a payment.
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

    /// Current result of a payment of `amount_in`.
    pub fn quote(&self, token_in: Address, amount_in: U256) -> Result<U256, PoolError> {
        let (reserve_in, reserve_out) = self.reserves_from(token_in)?;
        within_limit(token_in, reserve_in.saturating_add(amount_in))?;
        Ok(math::received(amount_in, reserve_in, reserve_out))
    }

    /// Pays out the other token for the payment of `token_in`: at least `minimum_out`, or reverts.
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

    /// Exchanges the payment of both tokens for shares. The first deposit sets the price, and 1,000 of its shares have no owner:
    /// see `math::LOCKED_SHARES`. Payments above the price are a gift to all owners of shares.
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

    /// Exchanges the shares that were transferred to the pool for their part of both reserves.
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
    /// Reserves of the paid token and of the other one.
    fn reserves_from(&self, token_in: Address) -> Result<(U256, U256), PoolError> {
        let (first, second) = self.reserves();
        match token_in {
            token if token == self.first.get() => Ok((first, second)),
            token if token == self.second.get() => Ok((second, first)),
            token => Err(UnknownToken { token }.into()),
        }
    }

    /// Stores the reserves. Both must be at most [`MAX_RESERVE`].
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

/// Balance above the reserve.
fn paid(token: Address, balance: U256, reserve: U256) -> Result<U256, PoolError> {
    balance.checked_sub(reserve).filter(|paid| !paid.is_zero()).ok_or_else(|| NothingPaid { token }.into())
}
