//! A number that anyone can increment: the smallest contract with storage, an event and an error.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::vec::Vec;
use alloy_primitives::{Address, U256};
use alloy_sol_types::sol;
use stylus_sdk::prelude::*;

corniche_contract::abi!();

sol! {
    /// The number changed.
    event Incremented(address indexed by, uint256 number);

    /// The sum would exceed 2^256 - 1.
    error CounterOverflow(uint256 number, uint256 added);
}

sol_storage! {
    #[entrypoint]
    pub struct Counter {
        uint256 number;
    }
}

#[derive(SolidityError)]
pub enum CounterError {
    Overflow(CounterOverflow),
}

#[public]
impl Counter {
    pub fn number(&self) -> U256 {
        self.number.get()
    }

    pub fn increment(&mut self) -> Result<(), CounterError> {
        self.add(U256::from(1))
    }

    pub fn add(&mut self, added: U256) -> Result<(), CounterError> {
        let number = self.number.get();
        let Some(raised) = number.checked_add(added) else {
            return Err(CounterError::Overflow(CounterOverflow { number, added }));
        };
        self.number.set(raised);
        let by: Address = self.vm().msg_sender();
        self.vm().log(Incremented { by, number: raised });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stylus_sdk::testing::*;

    #[test]
    fn starts_at_zero_and_counts() {
        let vm = TestVM::default();
        let mut counter = Counter::from(&vm);
        assert_eq!(counter.number(), U256::ZERO);
        assert!(counter.increment().is_ok());
        assert!(counter.add(U256::from(41)).is_ok());
        assert_eq!(counter.number(), U256::from(42));
    }

    #[test]
    fn increment_emits_caller() {
        let vm = TestVM::default();
        let caller = Address::repeat_byte(7);
        vm.set_sender(caller);
        let mut counter = Counter::from(&vm);
        assert!(counter.increment().is_ok());
        let logs = vm.get_emitted_logs();
        assert_eq!(logs.len(), 1);
        assert_eq!(logs[0].0[1], caller.into_word());
        assert_eq!(logs[0].1, U256::from(1).to_be_bytes_vec());
    }

    #[test]
    fn overflow_reverts() {
        let vm = TestVM::default();
        let mut counter = Counter::from(&vm);
        assert!(counter.add(U256::MAX).is_ok());
        assert!(matches!(counter.increment(), Err(CounterError::Overflow(_))));
        assert_eq!(counter.number(), U256::MAX);
    }
}
