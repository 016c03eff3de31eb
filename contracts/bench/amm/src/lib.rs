//! A constant-product pool of two play tokens. Every swap reads and writes both reserves, so all swaps of a block conflict.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::vec::Vec;
use alloy_primitives::{Address, U256};
use alloy_sol_types::sol;
use stylus_sdk::prelude::*;

sol! {
    event Swap(address indexed by, bool first_in, uint256 paid, uint256 received);

    error InsufficientBalance(uint256 balance, uint256 needed);
    error TooLittle(uint256 received, uint256 least);
    error Overflow();
}

sol_storage! {
    #[entrypoint]
    pub struct Pool {
        uint256 first_reserve;
        uint256 second_reserve;
        mapping(address => uint256) first_balances;
        mapping(address => uint256) second_balances;
    }
}

#[derive(SolidityError)]
pub enum PoolError {
    InsufficientBalance(InsufficientBalance),
    TooLittle(TooLittle),
    Overflow(Overflow),
}

#[public]
impl Pool {
    #[constructor]
    pub fn constructor(&mut self, first: U256, second: U256) {
        self.first_reserve.set(first);
        self.second_reserve.set(second);
    }

    pub fn reserves(&self) -> (U256, U256) {
        (self.first_reserve.get(), self.second_reserve.get())
    }

    pub fn balances_of(&self, account: Address) -> (U256, U256) {
        (self.first_balances.get(account), self.second_balances.get(account))
    }

    /// Gives play tokens to any caller.
    pub fn take(&mut self, first: U256, second: U256) -> Result<(), PoolError> {
        let account = self.vm().msg_sender();
        let (had_first, had_second) = self.balances_of(account);
        self.first_balances.insert(account, sum(had_first, first)?);
        self.second_balances.insert(account, sum(had_second, second)?);
        Ok(())
    }

    /// Pays `paid` of one token into the pool and receives the other token, at least `least`.
    pub fn swap(&mut self, first_in: bool, paid: U256, least: U256) -> Result<U256, PoolError> {
        let by = self.vm().msg_sender();
        let (first_reserve, second_reserve) = self.reserves();
        let (first, second) = self.balances_of(by);
        let (reserve_in, reserve_out) =
            if first_in { (first_reserve, second_reserve) } else { (second_reserve, first_reserve) };
        let (balance_in, balance_out) = if first_in { (first, second) } else { (second, first) };

        let Some(rest) = balance_in.checked_sub(paid) else {
            return Err(PoolError::InsufficientBalance(InsufficientBalance { balance: balance_in, needed: paid }));
        };
        let received = received(paid, reserve_in, reserve_out).ok_or(PoolError::Overflow(Overflow {}))?;
        if received < least {
            return Err(PoolError::TooLittle(TooLittle { received, least }));
        }
        let (reserve_in, reserve_out) = (sum(reserve_in, paid)?, reserve_out - received);
        let balance_out = sum(balance_out, received)?;

        let (first_reserve, second_reserve) = if first_in { (reserve_in, reserve_out) } else { (reserve_out, reserve_in) };
        self.first_reserve.set(first_reserve);
        self.second_reserve.set(second_reserve);
        let (first, second) = if first_in { (rest, balance_out) } else { (balance_out, rest) };
        self.first_balances.insert(by, first);
        self.second_balances.insert(by, second);
        self.vm().log(Swap { by, first_in, paid, received });
        Ok(received)
    }
}

fn sum(one: U256, other: U256) -> Result<U256, PoolError> {
    one.checked_add(other).ok_or(PoolError::Overflow(Overflow {}))
}

/// Result of paying `paid`, of which 0.3 % are a fee: always less than the reserve. `None` if it is too large to compute.
fn received(paid: U256, reserve_in: U256, reserve_out: U256) -> Option<U256> {
    let after_fee = paid.checked_mul(U256::from(997))?;
    let divisor = reserve_in.checked_mul(U256::from(1_000))?.checked_add(after_fee)?;
    after_fee.checked_mul(reserve_out)?.checked_div(divisor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stylus_sdk::testing::*;

    fn number(value: u64) -> U256 {
        U256::from(value)
    }

    #[test]
    fn product_of_reserves_never_shrinks() {
        for paid in [0, 1, 3, 999, 1_000_000, u64::MAX] {
            let (one, other) = (number(1_000_003), number(777));
            let received = received(number(paid), one, other).unwrap();
            assert!(received < other);
            assert!((one + number(paid)) * (other - received) >= one * other, "{paid}");
        }
        assert_eq!(received(U256::MAX, number(1), number(1)), None);
        assert_eq!(received(U256::ZERO, U256::ZERO, number(1)), None, "an empty pool has no price");
    }

    #[test]
    fn swap_moves_exact_amounts() {
        let vm = TestVM::default();
        let mut pool = Pool::from(&vm);
        pool.constructor(number(1_000_000), number(2_000_000));
        let trader = Address::repeat_byte(7);
        vm.set_sender(trader);
        assert!(pool.take(number(10_000), number(0)).is_ok());
        let received = pool.swap(true, number(10_000), number(19_000)).ok().unwrap();
        assert_eq!(received, number(19_743));
        assert_eq!(pool.reserves(), (number(1_010_000), number(2_000_000) - received));
        assert_eq!(pool.balances_of(trader), (U256::ZERO, received));
        assert!(pool.swap(false, received, U256::ZERO).ok().unwrap() < number(10_000), "the fee stays");
    }

    #[test]
    fn rejects_unpayable_and_too_small_swaps() {
        let vm = TestVM::default();
        let mut pool = Pool::from(&vm);
        pool.constructor(number(1_000), number(1_000));
        assert!(matches!(pool.swap(true, number(1), U256::ZERO), Err(PoolError::InsufficientBalance(_))));
        assert!(pool.take(number(10), number(0)).is_ok());
        assert!(matches!(pool.swap(true, number(10), number(10)), Err(PoolError::TooLittle(_))));
        assert_eq!(pool.reserves(), (number(1_000), number(1_000)));
    }
}
