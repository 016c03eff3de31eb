//! The users' interface of pools: it pays and calls pools within one transaction, over any number of pools, and reverts if
//! the result is below the minimum or after the deadline.
//!
//! It owns nothing between transactions, and moves only tokens of its caller. So it need not know which pools are honest:
//! a malicious pool harms only callers who name it, and only down to their minimum result.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

#[path = "../../token.rs"]
mod token;

use alloc::vec::Vec;
use alloy_primitives::{Address, U256};
use alloy_sol_types::sol;
use stylus_sdk::prelude::*;
use stylus_sdk::stylus_core::calls::errors::Error as CallError;
use token::TokenError;

corniche_contract::abi!();

sol_interface! {
    interface IPool {
        function tokens() external view returns (address, address);
        function reserves() external view returns (uint256, uint256);
        function quote(address token_in, uint256 amount_in) external view returns (uint256);
        function swap(address token_in, uint256 minimum_out, address to) external returns (uint256);
        function join(address to) external returns (uint256);
        function leave(address to) external returns (uint256, uint256);
    }
}

sol! {
    /// The deadline has passed.
    error Late(uint256 deadline, uint256 now);
    /// The trade names no pools.
    error NoPools();
    /// The pool does not contain this token.
    error WrongPool(address pool, address token);
    /// The result is below the minimum.
    error TooLittle(uint256 amount, uint256 minimum);
}

sol_storage! {
    #[entrypoint]
    pub struct Router {}
}

#[derive(SolidityError)]
pub enum RouterError {
    Late(Late),
    NoPools(NoPools),
    WrongPool(WrongPool),
    TooLittle(TooLittle),
    Token(TokenError),
    /// A pool reverted. Its error is passed on.
    Pool(CallError),
}

#[public]
impl Router {
    /// Current result of `amount_in` over these pools.
    pub fn quote(&self, token_in: Address, amount_in: U256, pools: Vec<Address>) -> Result<U256, RouterError> {
        let (mut token, mut amount) = (token_in, amount_in);
        for pool in pools {
            amount = IPool::new(pool).quote(self.vm(), Call::new(), token, amount)?;
            token = self.other_token(pool, token)?;
        }
        Ok(amount)
    }

    /// Exchanges `amount_in` of the caller for the token of the last pool: at least `minimum_out` of it, at a block time of at
    /// most `deadline`. The caller must have approved the router for `token_in`.
    pub fn swap(
        &mut self,
        token_in: Address,
        amount_in: U256,
        pools: Vec<Address>,
        minimum_out: U256,
        to: Address,
        deadline: U256,
    ) -> Result<U256, RouterError> {
        self.in_time(deadline)?;
        let Some(entry) = pools.first().copied() else { return Err(NoPools {}.into()) };
        let mut token_out = token_in;
        for pool in &pools {
            token_out = self.other_token(*pool, token_out)?;
        }
        let payer = self.vm().msg_sender();
        token::transfer_from(self, token_in, payer, entry, amount_in)?;

        let before = token::balance_of(self, token_out, to)?;
        let mut token = token_in;
        for (at, pool) in pools.iter().enumerate() {
            let next = pools.get(at + 1).copied().unwrap_or(to);
            let context = Call::new_mutating(self);
            IPool::new(*pool).swap(self.vm(), context, token, U256::ZERO, next)?;
            token = self.other_token(*pool, token)?;
        }
        // The amount that arrived, not the pools' results.
        let received = token::balance_of(self, token_out, to)?.saturating_sub(before);
        at_least(minimum_out, received)?;
        Ok(received)
    }

    /// Deposits as much of the caller's tokens as the pool's price allows, at most `first` and `second` of them, for at least
    /// `minimum_shares`. With a minimum 1 % below the current result, the price gets worse by at most about 1 %. An empty
    /// pool takes all and has that price from then on. The caller must have approved the router for both tokens. Returns both
    /// amounts and the shares, which `to` owns.
    pub fn join(
        &mut self,
        pool: Address,
        first: U256,
        second: U256,
        minimum_shares: U256,
        to: Address,
        deadline: U256,
    ) -> Result<(U256, U256, U256), RouterError> {
        self.in_time(deadline)?;
        let reserves = IPool::new(pool).reserves(self.vm(), Call::new())?;
        let (first, second) = fitting((first, second), reserves);
        let tokens = IPool::new(pool).tokens(self.vm(), Call::new())?;
        let payer = self.vm().msg_sender();
        token::transfer_from(self, tokens.0, payer, pool, first)?;
        token::transfer_from(self, tokens.1, payer, pool, second)?;
        let context = Call::new_mutating(self);
        let shares = IPool::new(pool).join(self.vm(), context, to)?;
        at_least(minimum_shares, shares)?;
        Ok((first, second, shares))
    }

    /// Exchanges the caller's shares for tokens for `to`: at least these amounts. The caller must have approved the router for
    /// the shares, which are tokens of the pool itself. Returns both amounts.
    pub fn leave(
        &mut self,
        pool: Address,
        shares: U256,
        minimum_first: U256,
        minimum_second: U256,
        to: Address,
        deadline: U256,
    ) -> Result<(U256, U256), RouterError> {
        self.in_time(deadline)?;
        let payer = self.vm().msg_sender();
        token::transfer_from(self, pool, payer, pool, shares)?;
        let context = Call::new_mutating(self);
        let (first, second) = IPool::new(pool).leave(self.vm(), context, to)?;
        at_least(minimum_first, first)?;
        at_least(minimum_second, second)?;
        Ok((first, second))
    }
}

impl Router {
    fn in_time(&self, deadline: U256) -> Result<(), RouterError> {
        let now = U256::from(self.vm().block_timestamp());
        if now > deadline {
            return Err(Late { deadline, now }.into());
        }
        Ok(())
    }

    fn other_token(&self, pool: Address, token: Address) -> Result<Address, RouterError> {
        match IPool::new(pool).tokens(self.vm(), Call::new())? {
            (first, second) if first == token => Ok(second),
            (first, second) if second == token => Ok(first),
            _ => Err(WrongPool { pool, token }.into()),
        }
    }
}

fn at_least(minimum: U256, amount: U256) -> Result<(), RouterError> {
    if amount < minimum {
        return Err(TooLittle { amount, minimum }.into());
    }
    Ok(())
}

/// The largest deposit within both amounts at the pool's price, rounded down so that neither is exceeded.
fn fitting(most: (U256, U256), reserves: (U256, U256)) -> (U256, U256) {
    let at_price = |amount: U256, from: U256, to: U256| amount.saturating_mul(to).checked_div(from);
    let (Some(second), Some(first)) = (at_price(most.0, reserves.0, reserves.1), at_price(most.1, reserves.1, reserves.0))
    else {
        return most;
    };
    if second <= most.1 {
        (most.0, second)
    } else {
        (first, most.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stylus_sdk::testing::*;

    fn n(value: u64) -> U256 {
        U256::from(value)
    }

    #[test]
    fn deposit_matches_price_within_limits() {
        let reserves = (n(1_000), n(2_000));
        assert_eq!(fitting((n(10), n(100)), reserves), (n(10), n(20)));
        assert_eq!(fitting((n(100), n(30)), reserves), (n(15), n(30)));
        assert_eq!(fitting((n(7), n(5)), (U256::ZERO, U256::ZERO)), (n(7), n(5)), "the first sets the price");
        assert_eq!(fitting((U256::MAX, n(4)), reserves), (n(2), n(4)), "too large to compute is more than enough");
    }

    #[test]
    fn expired_or_invalid_path_reverts_early() {
        let vm = TestVM::default();
        vm.set_block_timestamp(100);
        let mut router = Router::from(&vm);
        let to = Address::repeat_byte(7);
        let late = router.swap(to, n(1), Vec::new(), n(0), to, n(99));
        assert!(matches!(late, Err(RouterError::Late(Late { deadline, now })) if deadline == n(99) && now == n(100)));
        let nowhere = router.swap(to, n(1), Vec::new(), n(0), to, n(100));
        assert!(matches!(nowhere, Err(RouterError::NoPools(_))), "the deadline itself is in time");
        assert!(matches!(router.join(to, n(1), n(1), n(1), to, n(99)), Err(RouterError::Late(_))));
        assert!(matches!(router.leave(to, n(1), n(1), n(1), to, n(99)), Err(RouterError::Late(_))));
    }
}
