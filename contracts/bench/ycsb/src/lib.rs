//! YCSB-T: one table of numbers. A transaction reads some keys and writes others, with values that depend on the reads.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::vec::Vec;
use alloy_primitives::U256;
use stylus_sdk::prelude::*;

sol_storage! {
    #[entrypoint]
    pub struct Table {
        mapping(uint256 => uint256) records;
    }
}

#[public]
impl Table {
    pub fn record(&self, key: U256) -> U256 {
        self.records.get(key)
    }

    /// Reads, then writes `value` plus the sum of the reads. Returns the written value.
    pub fn transact(&mut self, reads: Vec<U256>, writes: Vec<U256>, value: U256) -> U256 {
        let written = total(reads.into_iter().map(|key| self.records.get(key)), value);
        for key in writes {
            self.records.insert(key, written);
        }
        written
    }
}

/// Sum modulo 2^256.
fn total(values: impl Iterator<Item = U256>, start: U256) -> U256 {
    values.fold(start, |sum, value| sum.wrapping_add(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stylus_sdk::testing::*;

    fn number(value: u64) -> U256 {
        U256::from(value)
    }

    #[test]
    fn writes_depend_on_reads() {
        let vm = TestVM::default();
        let mut table = Table::from(&vm);
        assert_eq!(table.transact(vec![], vec![number(1), number(2)], number(5)), number(5));
        assert_eq!(table.transact(vec![number(1), number(2)], vec![number(2), number(3)], number(1)), number(11));
        assert_eq!([1, 2, 3].map(|key| table.record(number(key))), [5, 11, 11].map(number));
    }

    #[test]
    fn sum_wraps() {
        assert_eq!(total([U256::MAX, number(1)].into_iter(), number(3)), number(3));
    }
}
