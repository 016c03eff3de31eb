//! A number in storage that is incremented without a read: the host calls `counter_add` and `counter_sub` of the chain's
//! module, as a storage type beside those of the SDK.
//!
//! Transactions that only add or subtract do not conflict, however many are in a block. A transaction that calls [`Counter::get`]
//! depends on all earlier ones.

use alloy_primitives::U256;
use stylus_sdk::host::VM;
use stylus_sdk::storage::{StorageGuardMut, StorageType, StorageU256};

/// Uses one slot.
pub struct Counter {
    // Natively the number is accessed through its accessor.
    #[cfg_attr(not(target_arch = "wasm32"), allow(dead_code))]
    slot: U256,
    number: StorageU256,
}

impl Counter {
    /// Reads the number, which `add` and `sub` avoid.
    pub fn get(&self) -> U256 {
        self.number.get()
    }

    /// Overwrites the number.
    pub fn set(&mut self, number: U256) {
        self.number.set(number);
    }

    /// Adds, unless the sum would exceed `limit`. Returns true if it added. Never wraps.
    #[must_use]
    pub fn add(&mut self, amount: U256, limit: U256) -> bool {
        calls::add(self, amount, limit)
    }

    /// Subtracts, unless less than `floor` would remain. Returns true if it subtracted. Never wraps.
    #[must_use]
    pub fn sub(&mut self, amount: U256, floor: U256) -> bool {
        calls::sub(self, amount, floor)
    }
}

impl StorageType for Counter {
    type Wraps<'a> = U256;
    type WrapsMut<'a> = StorageGuardMut<'a, Self>;

    unsafe fn new(slot: U256, offset: u8, host: VM) -> Self {
        Self { slot, number: StorageU256::new(slot, offset, host) }
    }

    fn load<'s>(self) -> Self::Wraps<'s> {
        self.get()
    }

    fn load_mut<'s>(self) -> Self::WrapsMut<'s> {
        StorageGuardMut::new(self)
    }
}

#[cfg(target_arch = "wasm32")]
mod calls {
    use super::Counter;
    use alloy_primitives::U256;

    #[link(wasm_import_module = "corniche")]
    extern "C" {
        fn counter_add(slot: *const u8, amount: *const u8, limit: *const u8) -> u32;
        fn counter_sub(slot: *const u8, amount: *const u8, floor: *const u8) -> u32;
    }

    type Call = unsafe extern "C" fn(*const u8, *const u8, *const u8) -> u32;

    pub fn add(counter: &mut Counter, amount: U256, limit: U256) -> bool {
        done(counter_add, counter, amount, limit)
    }

    pub fn sub(counter: &mut Counter, amount: U256, floor: U256) -> bool {
        done(counter_sub, counter, amount, floor)
    }

    fn done(call: Call, counter: &mut Counter, amount: U256, bound: U256) -> bool {
        let [slot, amount, bound] = [counter.slot, amount, bound].map(|word| word.to_be_bytes::<32>());
        // SAFETY: three words that live until the call returns, which reads 32 bytes of each. `counter` is borrowed mutably, so
        // no value of the slot is in use.
        unsafe { call(slot.as_ptr(), amount.as_ptr(), bound.as_ptr()) == 0 }
    }
}

/// Reads and writes instead of the host calls, for tests on the developer's machine.
#[cfg(not(target_arch = "wasm32"))]
mod calls {
    use super::Counter;
    use alloy_primitives::U256;

    pub fn add(counter: &mut Counter, amount: U256, limit: U256) -> bool {
        let sum = counter.get().checked_add(amount).filter(|sum| *sum <= limit);
        keep(counter, sum)
    }

    pub fn sub(counter: &mut Counter, amount: U256, floor: U256) -> bool {
        let rest = counter.get().checked_sub(amount).filter(|rest| *rest >= floor);
        keep(counter, rest)
    }

    fn keep(counter: &mut Counter, number: Option<U256>) -> bool {
        number.map(|number| counter.set(number)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use stylus_sdk::prelude::*;
    use stylus_sdk::testing::*;

    sol_storage! {
        struct Shelf {
            uint256 before;
            Counter counter;
            uint256 after;
        }
    }

    /// Numbers at both ends of the range and in between.
    fn numbers() -> impl Strategy<Value = U256> {
        prop_oneof![
            (0u64..8).prop_map(U256::from),
            (0u64..8).prop_map(|less| U256::MAX - U256::from(less)),
            any::<[u64; 4]>().prop_map(U256::from_limbs),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        /// Compares with 512-bit arithmetic: results are exact and bounded; a refusal changes no number and no neighbour.
        #[test]
        fn counter_respects_bounds(start in numbers(), amounts in prop::collection::vec((any::<bool>(), numbers(), numbers()), 0..8)) {
            let vm = TestVM::default();
            let mut shelf = Shelf::from(&vm);
            shelf.before.set(U256::from(1));
            shelf.after.set(U256::from(2));
            shelf.counter.set(start);
            let mut number = alloy_primitives::U512::from(start);
            for (add, amount, bound) in amounts {
                let [wide, limit] = [amount, bound].map(alloy_primitives::U512::from);
                let next = if add { Some(number + wide).filter(|sum| *sum <= limit) } else { number.checked_sub(wide).filter(|rest| *rest >= limit) };
                let done = if add { shelf.counter.add(amount, bound) } else { shelf.counter.sub(amount, bound) };
                prop_assert_eq!(done, next.is_some());
                number = next.unwrap_or(number);
                prop_assert_eq!(alloy_primitives::U512::from(shelf.counter.get()), number);
            }
            prop_assert_eq!((shelf.before.get(), shelf.after.get()), (U256::from(1), U256::from(2)), "one slot of its own");
        }
    }
}
