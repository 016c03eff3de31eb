//! Smallbank (Alomari and others, 2008): customers have savings and checking; one transaction reads both, four move money.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::vec::Vec;
use alloy_primitives::{I256, U256};
use alloy_sol_types::sol;
use stylus_sdk::prelude::*;

sol! {
    error InsufficientSavings(uint256 customer, int256 savings, int256 amount);
    error NegativeAmount(int256 amount);
    error Overflow();
}

sol_storage! {
    #[entrypoint]
    pub struct Smallbank {
        mapping(uint256 => int256) savings;
        mapping(uint256 => int256) checking;
    }
}

#[derive(SolidityError)]
pub enum BankError {
    InsufficientSavings(InsufficientSavings),
    NegativeAmount(NegativeAmount),
    Overflow(Overflow),
}

#[public]
impl Smallbank {
    /// Sum of savings and checking.
    pub fn balance(&self, customer: U256) -> Result<I256, BankError> {
        sum(self.savings.get(customer), self.checking.get(customer))
    }

    /// Pays into the checking account.
    pub fn deposit_checking(&mut self, customer: U256, amount: I256) -> Result<(), BankError> {
        let amount = positive(amount)?;
        let checking = sum(self.checking.get(customer), amount)?;
        self.checking.insert(customer, checking);
        Ok(())
    }

    /// Pays into the savings account, or withdraws from it. It cannot be overdrawn.
    pub fn transact_savings(&mut self, customer: U256, amount: I256) -> Result<(), BankError> {
        let savings = self.savings.get(customer);
        let after = sum(savings, amount)?;
        if after.is_negative() {
            return Err(BankError::InsufficientSavings(InsufficientSavings { customer, savings, amount }));
        }
        self.savings.insert(customer, after);
        Ok(())
    }

    /// Moves all money of one customer into another's checking account.
    pub fn amalgamate(&mut self, from: U256, to: U256) -> Result<(), BankError> {
        let all = self.balance(from)?;
        self.savings.insert(from, I256::ZERO);
        self.checking.insert(from, I256::ZERO);
        // Read after the writes, so that money moved to oneself stays.
        let checking = sum(self.checking.get(to), all)?;
        self.checking.insert(to, checking);
        Ok(())
    }

    /// Pays from the checking account, which may be overdrawn; more than both accounts hold costs a penalty of 1.
    pub fn write_check(&mut self, customer: U256, amount: I256) -> Result<(), BankError> {
        let amount = positive(amount)?;
        let penalty = if self.balance(customer)? < amount { I256::ONE } else { I256::ZERO };
        let paid = sum(amount, penalty)?;
        let checking = self.checking.get(customer).checked_sub(paid).ok_or(BankError::Overflow(Overflow {}))?;
        self.checking.insert(customer, checking);
        Ok(())
    }
}

fn sum(one: I256, other: I256) -> Result<I256, BankError> {
    one.checked_add(other).ok_or(BankError::Overflow(Overflow {}))
}

fn positive(amount: I256) -> Result<I256, BankError> {
    if amount.is_negative() {
        return Err(BankError::NegativeAmount(NegativeAmount { amount }));
    }
    Ok(amount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stylus_sdk::testing::*;

    const ANNA: U256 = U256::ONE;
    const BEN: U256 = U256::from_limbs([2, 0, 0, 0]);

    fn money(amount: i64) -> I256 {
        I256::try_from(amount).unwrap()
    }

    fn bank(vm: &TestVM) -> Smallbank {
        let mut bank = Smallbank::from(vm);
        assert!(bank.transact_savings(ANNA, money(100)).is_ok());
        assert!(bank.deposit_checking(ANNA, money(50)).is_ok());
        bank
    }

    #[test]
    fn balance_sums_both_accounts() {
        let vm = TestVM::default();
        let bank = bank(&vm);
        assert_eq!(bank.balance(ANNA).ok(), Some(money(150)));
        assert_eq!(bank.balance(BEN).ok(), Some(I256::ZERO));
    }

    #[test]
    fn rejects_overdraft_and_negative_deposit() {
        let vm = TestVM::default();
        let mut bank = bank(&vm);
        assert!(matches!(bank.transact_savings(ANNA, money(-101)), Err(BankError::InsufficientSavings(_))));
        assert!(bank.transact_savings(ANNA, money(-100)).is_ok());
        assert!(matches!(bank.deposit_checking(ANNA, money(-1)), Err(BankError::NegativeAmount(_))));
        assert!(matches!(bank.write_check(ANNA, money(-1)), Err(BankError::NegativeAmount(_))));
        assert!(matches!(bank.deposit_checking(ANNA, I256::MAX), Err(BankError::Overflow(_))));
    }

    #[test]
    fn amalgamate_moves_everything() {
        let vm = TestVM::default();
        let mut bank = bank(&vm);
        assert!(bank.amalgamate(ANNA, ANNA).is_ok());
        assert_eq!(bank.balance(ANNA).ok(), Some(money(150)));
        assert!(bank.amalgamate(ANNA, BEN).is_ok());
        assert_eq!((bank.balance(ANNA).ok(), bank.balance(BEN).ok()), (Some(money(0)), Some(money(150))));
    }

    #[test]
    fn overdraft_check_costs_penalty() {
        let vm = TestVM::default();
        let mut bank = bank(&vm);
        assert!(bank.write_check(ANNA, money(150)).is_ok());
        assert_eq!(bank.balance(ANNA).ok(), Some(I256::ZERO));
        assert!(bank.write_check(ANNA, money(1)).is_ok());
        assert_eq!(bank.balance(ANNA).ok(), Some(money(-2)));
    }
}
