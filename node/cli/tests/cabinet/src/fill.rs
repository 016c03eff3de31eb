//! Sets every bit of a field.

use crate::kinds::{Five, Wide};
use alloy_primitives::{Address, FixedBytes, Signed, Uint, B256, U256};
use alloy_sol_types::sol_data::{ByteCount, IntBitCount, SupportedFixedBytes, SupportedInt};
use corniche_contract::Counter;
use stylus_sdk::storage::*;

pub trait Fill {
    fn fill(&mut self);
}

/// Element of a list, which grows until it has this index.
pub fn reach<S: StorageType>(list: &mut StorageVec<S>, at: U256) -> Option<StorageGuardMut<'_, S>> {
    while U256::from(list.len()) <= at {
        list.grow();
    }
    list.setter(at)
}

impl<const B: usize, const L: usize> Fill for StorageUint<B, L>
where
    IntBitCount<B>: SupportedInt,
{
    fn fill(&mut self) {
        self.set(Uint::MAX);
    }
}

impl<const B: usize, const L: usize> Fill for StorageSigned<B, L>
where
    IntBitCount<B>: SupportedInt,
{
    fn fill(&mut self) {
        self.set(Signed::MINUS_ONE);
    }
}

impl<const N: usize> Fill for StorageFixedBytes<N>
where
    ByteCount<N>: SupportedFixedBytes,
{
    fn fill(&mut self) {
        self.set(FixedBytes::repeat_byte(0xff));
    }
}

impl Fill for StorageBool {
    fn fill(&mut self) {
        self.set(true);
    }
}

impl Fill for StorageAddress {
    fn fill(&mut self) {
        self.set(Address::repeat_byte(0xff));
    }
}

impl Fill for StorageBlockNumber {
    fn fill(&mut self) {
        self.set(u64::MAX);
    }
}

impl Fill for StorageBlockHash {
    fn fill(&mut self) {
        self.set(B256::repeat_byte(0xff));
    }
}

/// Longer than a slot.
impl Fill for StorageString {
    fn fill(&mut self) {
        self.set_str("x".repeat(33));
    }
}

impl Fill for StorageBytes {
    fn fill(&mut self) {
        self.set_bytes([0xff; 33]);
    }
}

impl Fill for Counter {
    fn fill(&mut self) {
        self.set(U256::MAX);
    }
}

impl Fill for Five {
    fn fill(&mut self) {
        self.number().fill();
    }
}

impl Fill for Wide {
    fn fill(&mut self) {
        self.set(B256::repeat_byte(0xff));
    }
}
