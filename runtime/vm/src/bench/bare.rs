//! Runs the module on wasmtime alone: a new instance per call, from a pool configured like ours, with an optimising
//! compiler and a minimal host.

use super::{Runner, Single, Subject, TIMESTAMP, Words};
use crate::wasm::instrument::{PRIVATE_BYTES, RUN_EXPORT};
use alloy_primitives::{B256, Bytes, U256, keccak256};
use corniche_abi::{CORNICHE_MODULE, ENTRYPOINT_EXPORT, MEMORY_EXPORT, VM_HOOKS_MODULE};
use corniche_state::Delta;
use std::sync::Arc;
use wasmtime::{
    Caller, Config, Enabled, Engine, Extern, InstanceAllocationStrategy, InstancePre, Linker, Memory, Module, OptLevel,
    PoolingAllocationConfig, Store,
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Metering {
    Without,
    Fuel,
    /// Counters of our instrumentation.
    Instrumented,
}

struct State {
    storage: Words,
    single: Arc<Single>,
    output: Bytes,
    memory: Option<Memory>,
    /// Offset of the contract's memory.
    base: usize,
}

pub(super) fn subject(
    name: &'static str,
    wasm: &[u8],
    metering: Metering,
    optimise: bool,
    threads: u32,
    single: &Arc<Single>,
) -> wasmtime::Result<Subject> {
    let mut config = Config::new();
    config.cranelift_opt_level(if optimise { OptLevel::Speed } else { OptLevel::None });
    config.consume_fuel(metering == Metering::Fuel);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(2 * threads).total_memories(2 * threads).total_tables(2 * threads);
    pool.linear_memory_keep_resident(128 * 1024).table_keep_resident(4 * 1024).pagemap_scan(Enabled::Auto);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    let engine = Engine::new(&config)?;
    let module = Module::new(&engine, wasm)?;
    let mut linker = linker(&engine)?;
    linker.define_unknown_imports_as_traps(&module)?;
    let pre = linker.instantiate_pre(&module)?;
    let single = single.clone();
    let runner = move || {
        let (pre, single) = (pre.clone(), single.clone());
        let mut kept = Words::default();
        let runner = move |calls: u32| {
            for _ in 0..calls {
                let mut storage = std::mem::take(&mut kept);
                storage.begin(&single);
                kept = call(&pre, storage, single.clone(), metering).map_err(|error| format!("{error:?}"))?;
            }
            Ok(())
        };
        Box::new(runner) as Runner
    };
    Ok(Subject { name, runner: Box::new(runner) })
}

fn call(pre: &InstancePre<State>, storage: Words, single: Arc<Single>, metering: Metering) -> wasmtime::Result<Words> {
    let length = single.input.len() as i32;
    let base = if metering == Metering::Instrumented { PRIVATE_BYTES } else { 0 };
    let state = State { storage, single, output: Bytes::new(), memory: None, base };
    let mut store = Store::new(pre.module().engine(), state);
    if metering == Metering::Fuel {
        store.set_fuel(1 << 40)?;
    }
    let instance = pre.instantiate(&mut store)?;
    store.data_mut().memory = instance.get_memory(&mut store, MEMORY_EXPORT);
    let status = if metering == Metering::Instrumented {
        let run = instance.get_typed_func::<(i32, i64, i32, i32), i32>(&mut store, RUN_EXPORT)?;
        run.call(&mut store, (length, 1 << 40, 65_536, 128))?
    } else {
        let run = instance.get_typed_func::<i32, i32>(&mut store, ENTRYPOINT_EXPORT)?;
        run.call(&mut store, length)?
    };
    match status {
        0 => Ok(store.into_data().storage),
        _ => Err(wasmtime::Error::msg(format!("the call ended with status {status}"))),
    }
}

/// Returns the contract's memory and the host's state.
fn parts<'c>(caller: &'c mut Caller<'_, State>) -> wasmtime::Result<(&'c mut [u8], &'c mut State)> {
    let memory = match caller.data().memory {
        Some(memory) => memory,
        None => caller.get_export(MEMORY_EXPORT).and_then(Extern::into_memory).ok_or_else(missing_memory)?,
    };
    let (memory, state) = memory.data_and_store_mut(caller);
    Ok((&mut memory[state.base..], state))
}

fn missing_memory() -> wasmtime::Error {
    wasmtime::Error::msg("memory access out of bounds")
}

fn slice(memory: &mut [u8], at: i32, length: usize) -> wasmtime::Result<&mut [u8]> {
    let at = at as u32 as usize;
    memory.get_mut(at..at + length).ok_or_else(missing_memory)
}

type StateCaller<'c> = Caller<'c, State>;

fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    link_data(&mut linker)?;
    link_storage(&mut linker)?;
    link_context(&mut linker)?;
    Ok(linker)
}

/// Input, output, logs and hashes.
fn link_data(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(VM_HOOKS_MODULE, "read_args", |mut caller: StateCaller<'_>, to: i32| -> wasmtime::Result<()> {
        let (memory, state) = parts(&mut caller)?;
        slice(memory, to, state.single.input.len())?.copy_from_slice(&state.single.input);
        Ok(())
    })?;
    linker.func_wrap(
        VM_HOOKS_MODULE,
        "write_result",
        |mut caller: StateCaller<'_>, at: i32, length: i32| -> wasmtime::Result<()> {
            let (memory, state) = parts(&mut caller)?;
            state.output = Bytes::copy_from_slice(slice(memory, at, length as u32 as usize)?);
            Ok(())
        },
    )?;
    linker.func_wrap(
        VM_HOOKS_MODULE,
        "emit_log",
        |mut caller: StateCaller<'_>, at: i32, length: i32, _: i32| -> wasmtime::Result<()> {
            let (memory, _) = parts(&mut caller)?;
            let log = Bytes::copy_from_slice(slice(memory, at, length as u32 as usize)?);
            std::hint::black_box(log);
            Ok(())
        },
    )?;
    linker.func_wrap(
        VM_HOOKS_MODULE,
        "native_keccak256",
        |mut caller: StateCaller<'_>, at: i32, length: i32, to: i32| -> wasmtime::Result<()> {
            let (memory, _) = parts(&mut caller)?;
            let hash = keccak256(slice(memory, at, length as u32 as usize)?);
            slice(memory, to, 32)?.copy_from_slice(hash.as_slice());
            Ok(())
        },
    )?;
    Ok(())
}

/// Storage and counters.
fn link_storage(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(
        VM_HOOKS_MODULE,
        "storage_load_bytes32",
        |mut caller: StateCaller<'_>, key: i32, to: i32| -> wasmtime::Result<()> {
            let (memory, state) = parts(&mut caller)?;
            let key = B256::from_slice(slice(memory, key, 32)?);
            slice(memory, to, 32)?.copy_from_slice(state.storage.get(&key).as_slice());
            Ok(())
        },
    )?;
    linker.func_wrap(
        VM_HOOKS_MODULE,
        "storage_cache_bytes32",
        |mut caller: StateCaller<'_>, key: i32, at: i32| -> wasmtime::Result<()> {
            let (memory, state) = parts(&mut caller)?;
            let key = B256::from_slice(slice(memory, key, 32)?);
            state.storage.set(key, B256::from_slice(slice(memory, at, 32)?));
            Ok(())
        },
    )?;
    linker.func_wrap(VM_HOOKS_MODULE, "storage_flush_cache", |_: i32| {})?;
    linker.func_wrap(
        CORNICHE_MODULE,
        "counter_add",
        |mut caller: StateCaller<'_>, slot: i32, amount: i32, limit: i32| -> wasmtime::Result<i32> {
            let (memory, state) = parts(&mut caller)?;
            let mut word = |at| slice(memory, at, 32).map(|bytes| B256::from_slice(bytes));
            let (slot, amount, limit) = (word(slot)?, word(amount)?, word(limit)?);
            let [amount, limit] = [amount, limit].map(|word| U256::from_be_bytes(word.0));
            Ok(i32::from(!state.storage.count(slot, Delta::Plus(amount), limit)))
        },
    )?;
    Ok(())
}

/// Call and block.
fn link_context(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(VM_HOOKS_MODULE, "msg_sender", |mut caller: StateCaller<'_>, to: i32| -> wasmtime::Result<()> {
        let (memory, state) = parts(&mut caller)?;
        slice(memory, to, 20)?.copy_from_slice(state.single.sender.as_slice());
        Ok(())
    })?;
    linker.func_wrap(VM_HOOKS_MODULE, "msg_value", |mut caller: StateCaller<'_>, to: i32| -> wasmtime::Result<()> {
        let (memory, _) = parts(&mut caller)?;
        slice(memory, to, 32)?.fill(0);
        Ok(())
    })?;
    linker.func_wrap(VM_HOOKS_MODULE, "msg_reentrant", || 0i32)?;
    linker.func_wrap(VM_HOOKS_MODULE, "block_timestamp", || TIMESTAMP as i64)?;
    linker.func_wrap(VM_HOOKS_MODULE, "pay_for_memory_grow", |_: i32| {})?;
    Ok(())
}
