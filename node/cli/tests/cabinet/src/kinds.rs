//! User-defined types: with the SDK's macro in Rust syntax, with parameters, and by hand.

use alloy_primitives::{Address, B256, U256};
use core::marker::PhantomData;
use stylus_sdk::host::VM;
use stylus_sdk::prelude::*;
use stylus_sdk::storage::*;

type Ages = StorageMap<Address, StorageU8>;

const LENGTH: usize = 20;

#[storage]
pub struct Nothing;

#[storage]
pub struct Modern {
    pub height: StorageBlockNumber,
    pub nobody: PhantomData<Nothing>,
    pub behind_height: StorageBool,
    pub hash: StorageBlockHash,
    pub of: Of<StorageU16, LENGTH>,
    pub ages: Ages,
    pub last: self::aliases::Small,
}

#[storage]
pub struct Of<T: StorageType, const N: usize> {
    pub first: T,
    pub all: StorageArray<T, N>,
    pub more: StorageArray<StorageB32, { 2 * 5 - 1 }>,
}

mod aliases {
    pub type Small = super::StorageUint<40, 1>;
}

/// Five bytes of a slot.
pub struct Five {
    number: StorageUint<40, 1>,
}

impl Five {
    pub fn number(&mut self) -> &mut StorageUint<40, 1> {
        &mut self.number
    }
}

impl StorageType for Five {
    type Wraps<'a> = StorageGuard<'a, Self>;
    type WrapsMut<'a> = StorageGuardMut<'a, Self>;

    const SLOT_BYTES: usize = 5;

    unsafe fn new(slot: U256, offset: u8, host: VM) -> Self {
        // SAFETY: the number is its only content.
        Self { number: unsafe { StorageUint::new(slot, offset, host) } }
    }

    fn load<'s>(self) -> Self::Wraps<'s> {
        StorageGuard::new(self)
    }

    fn load_mut<'s>(self) -> Self::WrapsMut<'s> {
        StorageGuardMut::new(self)
    }
}

/// Two slots.
pub struct Wide {
    slot: U256,
    host: VM,
}

impl Wide {
    pub fn set(&mut self, word: B256) {
        for at in [self.slot, self.slot + U256::ONE] {
            // SAFETY: both slots belong to it.
            unsafe { StorageB256::new(at, 0, self.host.clone()) }.set(word);
        }
    }
}

impl StorageType for Wide {
    type Wraps<'a> = StorageGuard<'a, Self>;
    type WrapsMut<'a> = StorageGuardMut<'a, Self>;

    const REQUIRED_SLOTS: usize = 1 + 1;

    unsafe fn new(slot: U256, _: u8, host: VM) -> Self {
        Self { slot, host }
    }

    fn load<'s>(self) -> Self::Wraps<'s> {
        StorageGuard::new(self)
    }

    fn load_mut<'s>(self) -> Self::WrapsMut<'s> {
        StorageGuardMut::new(self)
    }
}
