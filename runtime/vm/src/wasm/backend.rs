//! What turns modules into something that runs, and its settings.
//!
//! **Stack.** A frame's counted words ([`instrument`](super::instrument)) bound what can be alive in a function. Cranelift runs without its
//! optimiser: with it, hoisted and shared subexpressions would live as long as the compiler likes, and a function's native frame would
//! have no bound in terms of the module. Without it [`NATIVE_BYTES_PER_WORD`] is generous by an order of magnitude (measured in `tests/`),
//! compile time stays near linear, and the counted bound ends a run long before wasmtime's own would. That one is a fault when it is met.

use super::instrument::APART;
use super::validate::{MAX_MEMORY_PAGES, MAX_TABLE_ENTRIES};
use crate::host::Limits;
use std::num::NonZeroUsize;
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, Strategy};

/// Native stack one counted word may take at most, with room to spare.
const NATIVE_BYTES_PER_WORD: usize = 256;
/// Native stack of all WebAssembly frames of a transaction together.
pub(super) const WASM_STACK_BYTES: usize = Limits::TRANSACTION.stack_words as usize * NATIVE_BYTES_PER_WORD;
/// For an uncounted leaf, a host call and everything the host does before the next frame starts.
pub(super) const HOST_STACK_BYTES: usize = 1024 * 1024;
/// A run on a thread with at least this much stack left needs no other: give it to threads that execute.
pub const THREAD_STACK_BYTES: usize = 64 * 1024 * 1024;

/// Who makes a module run. Nodes use the default and cannot choose: the others are there to be compared with it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backend {
    /// Without its optimiser.
    #[default]
    Cranelift,
    /// With it. Native frames have no bound in terms of the module, so a module made for that ends in a fault.
    Optimising,
    /// In one pass, sharing no code generation with Cranelift.
    Winch,
    /// An interpreter of what Cranelift makes for its instruction set.
    Pulley,
}

/// Functions that a failed run is said to have been in, the innermost.
const MAX_PLACES: usize = 32;

impl Backend {
    pub const ALL: [Self; 4] = [Self::Cranelift, Self::Optimising, Self::Winch, Self::Pulley];
}

/// Every setting that could make two nodes differ is named here, also where it is wasmtime's default today. Threads, exceptions,
/// garbage collection, components and asynchronous support are not even compiled in.
pub(super) fn wasmtime_config(backend: Backend, instances: u32, places: bool) -> wasmtime::Result<Config> {
    let mut config = Config::new();
    match backend {
        Backend::Cranelift => config.strategy(Strategy::Cranelift).cranelift_opt_level(OptLevel::None),
        Backend::Optimising => config.strategy(Strategy::Cranelift).cranelift_opt_level(OptLevel::Speed),
        Backend::Winch => config.strategy(Strategy::Winch),
        Backend::Pulley => config.target("pulley64")?.strategy(Strategy::Cranelift).cranelift_opt_level(OptLevel::None),
    };
    config.cranelift_nan_canonicalization(true);
    config.wasm_simd(false);
    config.wasm_relaxed_simd(false);
    config.relaxed_simd_deterministic(true);
    config.wasm_tail_call(false);
    config.wasm_multi_value(false);
    config.wasm_multi_memory(false);
    config.wasm_memory64(false);
    config.wasm_extended_const(false);
    config.wasm_custom_page_sizes(false);
    config.wasm_wide_arithmetic(false);
    config.wasm_bulk_memory(true);
    config.shared_memory(false);
    // Counted by instrumentation instead.
    config.consume_fuel(false);
    config.epoch_interruption(false);
    config.max_wasm_stack(WASM_STACK_BYTES);
    // No fiber is ever made, but the engine wants this to be at least as large.
    config.async_stack_size(WASM_STACK_BYTES);
    // Neither tables for unwinding, whose registration grows quadratic with loaded modules, nor backtraces on every trap.
    config.native_unwind_info(false);
    // They are for an engine that runs again what failed.
    config.wasm_backtrace_max_frames(if places { NonZeroUsize::new(MAX_PLACES) } else { None });
    config.generate_address_map(places);
    // Four GiB of address space per slot, of which 8 MiB can ever be used: bounds checks become page protection.
    config.memory_reservation(4 << 30);
    config.memory_guard_size(32 << 20);
    config.memory_may_move(false);

    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(instances).total_memories(instances).total_tables(instances);
    pool.max_memory_size(MAX_MEMORY_PAGES as usize * 65_536 + APART);
    pool.table_elements(MAX_TABLE_ENTRIES as usize);
    pool.max_memories_per_module(1).max_tables_per_module(1);
    // Resetting a slot: clear what was touched up to this size, give back the rest. Scanning finds the touched pages where the kernel can.
    pool.linear_memory_keep_resident(128 * 1024).table_keep_resident(4 * 1024);
    pool.pagemap_scan(Enabled::Auto);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Ok(config)
}
