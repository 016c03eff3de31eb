//! Deterministic execution of WebAssembly contracts.
//!
//! ```text
//! creation data ─ creation ─▶ wasm ─ validate ─▶ checked ─ instrument ─▶ counted ─ engine ─▶ CompiledContract ─ run ─▶ Exit
//!                                                  gas ────────┘            │ cache   instance   hostcalls ◀─▶ Host
//! ```
//!
//! Invariants: each source of nondeterminism is excluded.
//!
//! | source | excluded by |
//! |---|---|
//! | NaN bits, host floats, vectors | `validate` refuses these types; in addition, Cranelift canonicalises NaNs |
//! | threads, shared memory, relaxed SIMD | refused by `validate`, disabled in `engine` |
//! | failing `memory.grow` | bounded by the instrumented module; pool slots have the maximum size; a host failure is a fault |
//! | native stack depth | counted by `instrument`; the native stack is far larger than what can be counted |
//! | out of gas | counted by `instrument` from our own table (`gas`), never by fuel or epochs |
//! | compiler and its optimisations | do not affect gas or stack; their limits exceed those of `validate` |
//! | iteration order | the storage cache is flushed in the order of keys |
//! | reused instances | `instance` restores them, or drops them |
//!
//! Any other failure of wasmtime is a [`Fault`](crate::host::ExitStatus::Fault): this node is broken, and the
//! transaction has no result.

mod backend;
pub mod backtrace;
mod cache;
mod config;
mod contract;
mod creation;
mod engine;
#[cfg(test)]
mod engine_tests;
mod error;
#[cfg(test)]
mod frame_tests;
pub mod gas;
mod hostcalls;
mod image;
mod instance;
mod instance_pool;
#[cfg(test)]
mod instance_pool_tests;
#[cfg(test)]
mod instance_tests;
pub mod instrument;
mod machine;
mod overrides;
mod stack;
mod start_cache;
pub mod validate;

pub use crate::host::Entry;
#[doc(hidden)]
pub use backend::Backend;
pub use backend::THREAD_STACK_BYTES;
pub use cache::{ModuleCache, NoCache};
pub use config::EngineConfig;
pub use contract::CompiledContract;
pub use creation::{CONSTRUCTOR_SELECTOR, Creation, CreationError, EOF_PREFIX, PRELUDE, parse_creation, unpack};
pub use engine::{CallPermit, WasmEngine};
pub use error::CompileError;
