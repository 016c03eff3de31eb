//! Compilers for modules, and their settings.
//!
//! **Stack.** Cranelift gives nearly every spilled value of a function its own stack slot, independent of the other
//! live values. So the bound on native frames counts values ([`Frame`](super::validate::Frame)), and runs get a
//! [`stack`](super::stack) of that size. Cranelift's optimiser is disabled, which keeps compile time nearly linear.

use super::instrument::PRIVATE_BYTES;
use super::stack::{GUARD_BYTES, LARGE_STACK_BYTES};
use super::validate::{MAX_MEMORY_PAGES, MAX_TABLE_ENTRIES};
use std::num::NonZeroUsize;
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, Strategy};

/// Stack of each Pulley instance. Enough for tests.
const PULLEY_STACK_BYTES: usize = 256 << 20;
/// Stack of threads that execute blocks. Contracts run on separate [`stack`](super::stack)s.
pub const THREAD_STACK_BYTES: usize = 64 * 1024 * 1024;

/// Compiler for modules. Nodes always use the default; the others exist for comparison.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backend {
    /// Cranelift without its optimiser.
    #[default]
    Cranelift,
    /// Cranelift with its optimiser.
    Optimising,
    /// Single-pass compiler that shares no code generation with Cranelift.
    Winch,
    /// Interpreter of Cranelift's portable bytecode.
    Pulley,
}

/// Maximum number of functions reported for a failed run, innermost first.
const MAX_BACKTRACE_FRAMES: usize = 32;

impl Backend {
    pub const ALL: [Self; 4] = [Self::Cranelift, Self::Optimising, Self::Winch, Self::Pulley];
}

/// Sets every option that could make two nodes differ, even if it is wasmtime's default. Threads, exceptions, garbage
/// collection, components and asynchronous support are not compiled in.
#[allow(unsafe_code)]
pub(super) fn wasmtime_config(backend: Backend, instances: u32, backtrace: bool) -> wasmtime::Result<Config> {
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
    // Instrumentation counts instead.
    config.consume_fuel(false);
    config.epoch_interruption(false);
    let stack_bytes = if backend == Backend::Pulley { PULLEY_STACK_BYTES } else { LARGE_STACK_BYTES };
    config.max_wasm_stack(stack_bytes);
    // No fiber is ever created, but the engine requires at least this size.
    config.async_stack_size(stack_bytes);
    // No unwind tables, whose registration time grows quadratically with loaded modules, and no backtrace on every
    // trap.
    config.native_unwind_info(false);
    // Only for an engine that reruns failed calls.
    config.wasm_backtrace_max_frames(if backtrace { NonZeroUsize::new(MAX_BACKTRACE_FRAMES) } else { None });
    config.generate_address_map(backtrace);
    // 4 GiB of address space per slot, of which at most 8 MiB are usable: page protection replaces bounds checks.
    config.memory_reservation(4 << 30);
    config.memory_guard_size(32 << 20);
    config.memory_may_move(false);
    // Data is copied into fresh instances. Otherwise each module with data keeps a file open, of which a process may often
    // have 1,024 only, and a run at the limit would be a fault of this node.
    config.memory_init_cow(false);

    if backend != Backend::Winch {
        // Frames are smaller than the inaccessible pages below a stack, so stack probes are unnecessary. With them, a
        // function would first write to each page of its frame, and a call of one with a large frame would buy much
        // time.
        // SAFETY: the setting moves no check that guest code relies on; see `GUARD_BYTES`.
        unsafe { config.cranelift_flag_set("probestack_size_log2", &GUARD_BYTES.ilog2().to_string()) };
    }

    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(instances).total_memories(instances).total_tables(instances);
    pool.max_memory_size(MAX_MEMORY_PAGES as usize * 65_536 + PRIVATE_BYTES);
    pool.table_elements(MAX_TABLE_ENTRIES as usize);
    // Otherwise the pool would reserve a thousand fiber stacks.
    pool.total_stacks(0);
    pool.max_memories_per_module(1).max_tables_per_module(1);
    // To reset a slot, clear memory up to this size, and return the rest to the kernel.
    pool.linear_memory_keep_resident(128 * 1024).table_keep_resident(4 * 1024);
    // A scan for touched pages misses those that were swapped out: the next contract would read the former one's memory.
    pool.pagemap_scan(Enabled::No);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Ok(config)
}
