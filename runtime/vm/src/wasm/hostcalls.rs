//! Host functions: [`vm_hooks`], [`corniche`], [`console`].
//!
//! Each call pays before it works: its base price from the host-call table, then the price of lengths, then the state's
//! price from the [`Host`]. Contracts choose pointers and lengths, so every access is checked against the guest's
//! memory. An access out of bounds ends the frame; nothing here may panic on it.
//!
//! **Storage cache.** Loads and stores use a cache of the frame. `storage_flush_cache` writes changed words in the
//! order of their keys; words not flushed before the frame's end are lost. A word read before a nested call keeps its
//! value after it, unless the cache was flushed with `clear`. Contracts written for this interface rely on this,
//! including stale reads.

mod console;
mod corniche;
mod frame;
mod vm_hooks;

use super::gas::{self, INK_PER_GAS};
use super::image;
use super::instrument::PRIVATE_BYTES;
use crate::host::{
    CallKind, CallRequest, CallReturn, CallStatus, Charged, CreateRequest, Host, HostCallEvent, HostError, Limits, Trap,
};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use frame::{CachedWord, Outcome};
pub(super) use frame::{Frame, Handles, Stop};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use wasmtime::{Caller, Engine, Linker};

/// One host call in progress.
struct Call<'a> {
    caller: Caller<'a, Frame>,
    handles: Handles,
    name: &'static str,
    /// Remaining ink. Written back to the module's counter after the call.
    ink: u64,
}

impl Call<'_> {
    fn frame(&mut self) -> &mut Frame {
        self.caller.data_mut()
    }

    #[allow(unsafe_code)]
    fn host(&mut self) -> &mut dyn Host {
        let host = self.caller.data_mut().host.as_ref().expect("a host call happens while the frame runs").0;
        // SAFETY: see `Frame::lend`. The borrow of `self` prevents two such references in this frame, and a nested
        // frame has its own host.
        unsafe { &mut *host }
    }

    // ---- gas ----

    fn gas_left(&self) -> u64 {
        self.ink / INK_PER_GAS
    }

    fn charge(&mut self, ink: u64) -> Outcome<()> {
        self.ink = self.ink.checked_sub(ink).ok_or(Stop::OutOfGas)?;
        Ok(())
    }

    fn charge_gas(&mut self, gas: u64) -> Outcome<()> {
        self.charge(gas.checked_mul(INK_PER_GAS).ok_or(Stop::OutOfGas)?)
    }

    fn charge_result<T>(&mut self, charged: Result<Charged<T>, HostError>) -> Outcome<T> {
        let charged = charged?;
        self.charge_gas(charged.gas)?;
        Ok(charged.value)
    }

    fn charge_bytes(&mut self, bytes: usize) -> Outcome<()> {
        self.charge(gas::INK_PER_HOST_BYTE.saturating_mul(bytes as u64))
    }

    // ---- guest memory ----

    /// The contract's own memory.
    fn memory(&self) -> &[u8] {
        &self.handles.memory.data(&self.caller)[PRIVATE_BYTES..]
    }

    fn read<const N: usize>(&mut self, pointer: i32) -> Outcome<[u8; N]> {
        slice(self.memory(), pointer, N)?.try_into().map_err(|_| Stop::Trap(Trap::MemoryOutOfBounds))
    }

    fn read_bytes(&mut self, pointer: i32, length: i32) -> Outcome<Bytes> {
        self.charge_bytes(length as u32 as usize)?;
        Ok(Bytes::copy_from_slice(slice(self.memory(), pointer, length as u32 as usize)?))
    }

    fn address(&mut self, pointer: i32) -> Outcome<Address> {
        self.read(pointer).map(Address::new)
    }

    fn word(&mut self, pointer: i32) -> Outcome<B256> {
        self.read(pointer).map(B256::new)
    }

    fn number(&mut self, pointer: i32) -> Outcome<U256> {
        self.read::<32>(pointer).map(U256::from_be_bytes)
    }

    fn write(&mut self, pointer: i32, bytes: &[u8]) -> Outcome<()> {
        write(self.handles.memory.data_mut(&mut self.caller), pointer, bytes)
    }

    /// Writes bytes that the frame holds.
    fn write_own(&mut self, pointer: i32, own: impl FnOnce(&Frame) -> &[u8]) -> Outcome<()> {
        let (memory, frame) = self.handles.memory.data_and_store_mut(&mut self.caller);
        write(memory, pointer, own(frame))
    }

    fn write_number(&mut self, pointer: i32, value: U256) -> Outcome<()> {
        self.write(pointer, &value.to_be_bytes::<32>())
    }

    /// Copies the existing part of `data` from `offset`, at most `size` bytes; returns its length.
    fn write_part(&mut self, destination: i32, data: &[u8], offset: i32, size: i32) -> Outcome<i32> {
        let start = (offset as u32 as usize).min(data.len());
        let part = &data[start..start + (size as u32 as usize).min(data.len() - start)];
        self.charge_bytes(part.len())?;
        self.write(destination, part)?;
        Ok(part.len() as i32)
    }

    // ---- storage ----

    fn storage_load(&mut self, key: B256) -> Outcome<B256> {
        if let Some(word) = self.frame().cache.get(&key) {
            return Ok(word.value);
        }
        let gas_left = self.gas_left();
        let loaded = self.host().storage_load(&key, gas_left);
        let value = self.charge_result(loaded)?;
        self.frame().cache.insert(key, CachedWord { value, dirty: false });
        Ok(value)
    }

    fn storage_cache(&mut self, key: B256, value: B256) -> Outcome<()> {
        let word = CachedWord { value, dirty: true };
        match self.frame().cache.index_of(&key) {
            Some(place) => {
                let before = std::mem::replace(self.frame().cache.value_at(place), word);
                if before.dirty {
                    return Ok(());
                }
            }
            None => {
                self.charge(gas::INK_PER_CACHED_WORD)?;
                self.frame().cache.insert(key, word);
            }
        }
        self.frame().dirty.push(key);
        Ok(())
    }

    fn storage_flush(&mut self, clear: bool) -> Outcome<()> {
        // Only written keys are processed, so the cost of a flush does not depend on reads.
        let mut dirty = std::mem::take(&mut self.frame().dirty);
        dirty.sort_unstable();
        dirty.dedup();
        for key in dirty.drain(..) {
            // A counter call may have written and removed it.
            let Some(place) = self.frame().cache.index_of(&key) else { continue };
            let CachedWord { value, dirty: true } = *self.frame().cache.value_at(place) else { continue };
            let gas_left = self.gas_left();
            let stored = self.host().storage_store(&key, &value, gas_left);
            self.charge_result(stored)?;
            self.frame().cache.value_at(place).dirty = false;
        }
        self.frame().dirty = dirty;
        if clear {
            self.frame().cache.clear();
        }
        Ok(())
    }

    // ---- calls and creations ----

    fn limits(&mut self) -> Outcome<Limits> {
        let left = |value: wasmtime::Val| value.i32().and_then(|left| u32::try_from(left).ok());
        let stack_words = left(self.handles.stack.get(&mut self.caller));
        let memory_pages = left(self.handles.pages.get(&mut self.caller));
        match (stack_words, memory_pages) {
            (Some(stack_words), Some(memory_pages)) => Ok(Limits { stack_words, memory_pages }),
            _ => Err(Stop::Fault("a counter is not a positive i32".into())),
        }
    }

    fn call(
        &mut self,
        kind: CallKind,
        to: i32,
        data: (i32, i32),
        value: U256,
        gas_wanted: i64,
        length_out: i32,
    ) -> Outcome<i32> {
        let to = self.address(to)?;
        let input = self.read_bytes(data.0, data.1)?;
        let (gas_left, limits) = (self.gas_left(), self.limits()?);
        let request = CallRequest { kind, to, value, input, gas_wanted: gas_wanted as u64, gas_left, limits };
        let CallReturn { status, output, gas } = self.host().call(request)?;
        self.charge_gas(gas)?;
        self.write(length_out, &(output.len() as u32).to_le_bytes())?;
        self.frame().return_data = output;
        Ok(match status {
            CallStatus::Success => 0,
            CallStatus::Revert => 1,
            CallStatus::Failure => 2,
        })
    }

    fn create(
        &mut self,
        code: (i32, i32),
        endowment: i32,
        salt: Option<i32>,
        address_out: i32,
        length_out: i32,
    ) -> Outcome<()> {
        let code = self.read_bytes(code.0, code.1)?;
        let value = self.number(endowment)?;
        let salt = salt.map(|salt| self.word(salt)).transpose()?;
        let (gas_left, limits) = (self.gas_left(), self.limits()?);
        let created = self.host().create(CreateRequest { value, code, salt, gas_left, limits })?;
        self.charge_gas(created.gas)?;
        self.write(address_out, created.address.unwrap_or_default().as_slice())?;
        self.write(length_out, &(created.output.len() as u32).to_le_bytes())?;
        self.frame().return_data = created.output;
        Ok(())
    }

    fn emit_log(&mut self, data: i32, length: i32, topics: i32) -> Outcome<()> {
        let topics = topics as u32 as usize;
        if topics > 4 || (length as u32 as usize) < topics * 32 {
            return Err(Stop::Trap(Trap::BadHostCall(self.name)));
        }
        self.charge_bytes(length as u32 as usize)?;
        let (topics, data) = slice(self.memory(), data, length as u32 as usize)?.split_at(topics * 32);
        let (topics, data) = (topics.chunks_exact(32).map(B256::from_slice).collect(), Bytes::copy_from_slice(data));
        let gas_left = self.gas_left();
        let logged = self.host().emit_log(topics, data, gas_left);
        self.charge_result(logged)
    }

    // ---- other ----

    fn code_of(&mut self, address: i32) -> Outcome<Bytes> {
        let (address, gas_left) = (self.address(address)?, self.gas_left());
        let code = self.host().code(&address, gas_left);
        self.charge_result(code)
    }

    fn keccak(&mut self, data: i32, length: i32, output: i32) -> Outcome<()> {
        let words = u64::from(length as u32).div_ceil(32);
        self.charge(gas::INK_KECCAK_BASE + gas::INK_PER_KECCAK_WORD * words)?;
        let hash = keccak256(slice(self.memory(), data, length as u32 as usize)?);
        self.write(output, hash.as_slice())
    }

    /// `value = operation(value, other)`, in place.
    fn math(&mut self, value: i32, other: i32, operation: impl FnOnce(U256, U256) -> U256) -> Outcome<()> {
        let result = operation(self.number(value)?, self.number(other)?);
        self.write_number(value, result)
    }

    fn math_pow(&mut self, value: i32, exponent: i32) -> Outcome<()> {
        let bytes = self.number(exponent)?.byte_len() as u64;
        self.charge(gas::INK_PER_EXPONENT_BYTE * bytes)?;
        self.math(value, exponent, |value, exponent| value.wrapping_pow(exponent))
    }

    fn math_modulo(
        &mut self,
        value: i32,
        other: i32,
        modulus: i32,
        operation: impl FnOnce(U256, U256, U256) -> U256,
    ) -> Outcome<()> {
        let modulus = self.number(modulus)?;
        self.math(value, other, |value, other| operation(value, other, modulus))
    }
}

fn slice(memory: &[u8], pointer: i32, length: usize) -> Outcome<&[u8]> {
    let start = pointer as u32 as usize;
    start.checked_add(length).and_then(|end| memory.get(start..end)).ok_or(Stop::Trap(Trap::MemoryOutOfBounds))
}

/// Writes to the module's memory at a contract address.
fn write(memory: &mut [u8], pointer: i32, bytes: &[u8]) -> Outcome<()> {
    let start = pointer as u32 as usize;
    let behind = start + PRIVATE_BYTES;
    let target = behind.checked_add(bytes.len()).and_then(|end| memory.get_mut(behind..end));
    target.ok_or(Stop::Trap(Trap::MemoryOutOfBounds))?.copy_from_slice(bytes);
    image::mark(memory, start, bytes.len());
    Ok(())
}

/// Charges, executes and traces one host call.
fn perform<R>(
    mut caller: Caller<'_, Frame>,
    name: &'static str,
    price: u64,
    body: impl FnOnce(&mut Call<'_>) -> Outcome<R>,
) -> wasmtime::Result<R> {
    let Some(handles) = caller.data().handles else {
        return Err(wasmtime::Error::msg("host call before the frame was set up"));
    };
    let Some(ink) = handles.gas.get(&mut caller).i64().and_then(|ink| u64::try_from(ink).ok()) else {
        return Err(wasmtime::Error::msg("the gas counter is not a positive i64"));
    };
    let mut call = Call { caller, handles, name, ink };
    let outcome = call.charge(price).and_then(|()| body(&mut call));
    let event = HostCallEvent { name, ink_before: ink, ink_after: call.ink };
    call.host().trace(&event);
    handles.gas.set(&mut call.caller, (event.ink_after as i64).into())?;
    outcome.map_err(|stop| {
        call.frame().stop = Some(stop);
        wasmtime::Error::msg("the frame ended in a host call")
    })
}

/// Binds every function of the table; `console_used` is set when a contract writes to the console.
pub(super) fn linker(engine: &Engine, console_used: &Arc<AtomicBool>) -> wasmtime::Result<Linker<Frame>> {
    let mut linker = Linker::new(engine);
    vm_hooks::link(&mut linker)?;
    corniche::link(&mut linker)?;
    console::link(&mut linker, console_used)?;
    Ok(linker)
}
