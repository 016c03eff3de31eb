//! The functions of `corniche`: counters that are not read (D8). What they do and cost stands in [`corniche_abi`].

use super::{Call, Frame, Outcome, perform};
use crate::host::Sum;
use alloy_primitives::U256;
use corniche_abi::{CORNICHE, CORNICHE_MODULE};
use wasmtime::{Caller, Linker};

pub(super) fn link(linker: &mut Linker<Frame>) -> wasmtime::Result<()> {
    for call in CORNICHE {
        let change: fn(U256) -> Sum = match call.name {
            "counter_add" => Sum::Plus,
            "counter_sub" => Sum::Minus,
            other => return Err(wasmtime::Error::msg(format!("{other} has no implementation"))),
        };
        let counter = move |caller: Caller<'_, Frame>, slot: i32, amount: i32, bound: i32| -> wasmtime::Result<i32> {
            perform(caller, call.name, call.ink, |call| {
                let amount = call.number(amount)?;
                call.count(slot, change(amount), bound)
            })
        };
        linker.func_wrap(CORNICHE_MODULE, call.name, counter)?;
    }
    Ok(())
}

impl Call<'_> {
    /// 0: done; 1: the bound does not allow it.
    fn count(&mut self, slot: i32, change: Sum, bound: i32) -> Outcome<i32> {
        let (key, bound) = (self.word(slot)?, self.number(bound)?);
        // What this frame wrote comes first, and what it read is read again.
        if let Some(word) = self.frame().cache.remove(&key)
            && word.dirty
        {
            let gas_left = self.gas_left();
            let stored = self.host().storage_store(&key, &word.value, gas_left);
            self.settle(stored)?;
        }
        let gas_left = self.gas_left();
        let counted = self.host().storage_count(&key, change, &bound, gas_left);
        Ok(i32::from(!self.settle(counted)?))
    }
}
