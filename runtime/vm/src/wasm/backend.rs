//! What turns modules into something that runs, and its settings.
//!
//! **Stack.** Cranelift gives nearly every value of a function that has to be spilled a stack slot of its own, whatever else is alive. So the
//! bound on native frames counts values ([`Frame`](super::validate::Frame)), and runs get a [`stack`](super::stack) of that size. Cranelift
//! runs without its optimiser, which keeps compile time near linear.

use super::instrument::APART;
use super::stack::{DEEP_BYTES, GUARD_BYTES};
use super::validate::{MAX_MEMORY_PAGES, MAX_TABLE_ENTRIES};
use std::num::NonZeroUsize;
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, Strategy};

/// Pulley's stack, which each instance has. Enough for tests.
const PULLEY_STACK_BYTES: usize = 256 << 20;
/// Stack of threads that execute blocks. Contracts run on [`stack`](super::stack)s besides.
pub const THREAD_STACK_BYTES: usize = 64 * 1024 * 1024;

/// Who makes a module run. Nodes use the default and cannot choose: the others are there to be compared with it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backend {
    /// Without its optimiser.
    #[default]
    Cranelift,
    /// With it.
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
#[allow(unsafe_code)]
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
    let stack_bytes = if backend == Backend::Pulley { PULLEY_STACK_BYTES } else { DEEP_BYTES };
    config.max_wasm_stack(stack_bytes);
    // No fiber is ever made, but the engine wants this to be at least as large.
    config.async_stack_size(stack_bytes);
    // Neither tables for unwinding, whose registration grows quadratic with loaded modules, nor backtraces on every trap.
    config.native_unwind_info(false);
    // They are for an engine that runs again what failed.
    config.wasm_backtrace_max_frames(if places { NonZeroUsize::new(MAX_PLACES) } else { None });
    config.generate_address_map(places);
    // Four GiB of address space per slot, of which 8 MiB can ever be used: bounds checks become page protection.
    config.memory_reservation(4 << 30);
    config.memory_guard_size(32 << 20);
    config.memory_may_move(false);

    if backend != Backend::Winch {
        // Frames are smaller than the pages below a stack that cannot be accessed. Otherwise a function would write to each page of its frame
        // first, and a call to one with a large frame would buy much time.
        // SAFETY: the setting moves no check that guest code relies on; see `GUARD_BYTES`.
        unsafe { config.cranelift_flag_set("probestack_size_log2", &GUARD_BYTES.ilog2().to_string()) };
    }

    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(instances).total_memories(instances).total_tables(instances);
    pool.max_memory_size(MAX_MEMORY_PAGES as usize * 65_536 + APART);
    pool.table_elements(MAX_TABLE_ENTRIES as usize);
    // The pool would otherwise reserve a thousand stacks for fibers.
    pool.total_stacks(0);
    pool.max_memories_per_module(1).max_tables_per_module(1);
    // Resetting a slot: clear what was touched up to this size, give back the rest. Scanning finds the touched pages where the kernel can.
    pool.linear_memory_keep_resident(128 * 1024).table_keep_resident(4 * 1024);
    pool.pagemap_scan(Enabled::Auto);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Ok(config)
}
