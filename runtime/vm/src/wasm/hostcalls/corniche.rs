//! Functions of `corniche`: counters that are not read (D8), the block's randomness, certified headers.
//! [`corniche_abi`] documents their behavior and prices.

use super::{Call, Frame, Outcome, perform};
use crate::block_reads::BlockField;
use crate::host::Delta;
use alloy_primitives::U256;
use corniche_abi::{CORNICHE, CORNICHE_MODULE, HostCall};
use wasmtime::{Caller, Linker};

pub(super) fn link(linker: &mut Linker<Frame>) -> wasmtime::Result<()> {
    for call in CORNICHE {
        match call.name {
            "block_randomness" => randomness(linker, call)?,
            "certified_hash" => certified_hash(linker, call)?,
            "counter_add" => counter(linker, call, Delta::Plus)?,
            "counter_sub" => counter(linker, call, Delta::Minus)?,
            other => return Err(wasmtime::Error::msg(format!("{other} has no implementation"))),
        }
    }
    Ok(())
}

fn randomness(linker: &mut Linker<Frame>, call: &'static HostCall) -> wasmtime::Result<()> {
    let read = move |caller: Caller<'_, Frame>, destination: i32| -> wasmtime::Result<()> {
        perform(caller, call.name, call.ink, |call| {
            let randomness = call.host().block(BlockField::Randomness).randomness;
            call.write(destination, randomness.as_slice())
        })
    };
    linker.func_wrap(CORNICHE_MODULE, call.name, read).map(|_| ())
}

fn certified_hash(linker: &mut Linker<Frame>, call: &'static HostCall) -> wasmtime::Result<()> {
    let read = move |caller: Caller<'_, Frame>, number: i64, destination: i32| -> wasmtime::Result<i32> {
        perform(caller, call.name, call.ink, |call| call.certified_hash(number, destination))
    };
    linker.func_wrap(CORNICHE_MODULE, call.name, read).map(|_| ())
}

fn counter(linker: &mut Linker<Frame>, call: &'static HostCall, change: fn(U256) -> Delta) -> wasmtime::Result<()> {
    let count = move |caller: Caller<'_, Frame>, slot: i32, amount: i32, bound: i32| -> wasmtime::Result<i32> {
        perform(caller, call.name, call.ink, |call| {
            let amount = call.number(amount)?;
            call.count(slot, change(amount), bound)
        })
    };
    linker.func_wrap(CORNICHE_MODULE, call.name, count).map(|_| ())
}

impl Call<'_> {
    /// Returns 0 if the hash was written, 1 if it is not available.
    fn certified_hash(&mut self, number: i64, destination: i32) -> Outcome<i32> {
        // The pointer is checked in any case.
        self.word(destination)?;
        let gas_left = self.gas_left();
        // A negative number becomes larger than every block number.
        let found = self.host().certified_hash(number as u64, gas_left);
        match self.charge_result(found)? {
            Some(hash) => self.write(destination, hash.as_slice()).map(|()| 0),
            None => Ok(1),
        }
    }

    /// Returns 0 if the count was done, 1 if the bound does not permit it.
    fn count(&mut self, slot: i32, change: Delta, bound: i32) -> Outcome<i32> {
        let (key, bound) = (self.word(slot)?, self.number(bound)?);
        // First write a cached word of this frame. Later reads load the slot again.
        if let Some(word) = self.frame().cache.remove(&key)
            && word.dirty
        {
            let gas_left = self.gas_left();
            let stored = self.host().storage_store(&key, &word.value, gas_left);
            self.charge_result(stored)?;
        }
        let gas_left = self.gas_left();
        let counted = self.host().storage_count(&key, change, &bound, gas_left);
        Ok(i32::from(!self.charge_result(counted)?))
    }
}
