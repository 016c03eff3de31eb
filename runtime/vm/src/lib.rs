//! Execution of one transaction: its semantics, and its WebAssembly.
//!
//! [`wasm`] prepares modules for deterministic execution and runs single frames. The other modules implement Ethereum's
//! rules about accounts, calls, storage and gas. The two parts meet at [`host`].
//!
//! Modules in layers, lowest first; each uses only modules in its line or above:
//!
//! - Shared by both parts: `backtrace` (locations in code), `block_reads` (the block, and which fields were read),
//!   [`host`] (requests of a frame), `outcome` (results), `machine` (runs code), `warm_code` (codes that are loaded),
//!   `indexed_map`.
//! - The engine: [`wasm`].
//! - Parts of the rules: `price`, `journal` (changes of state, with reverts), `precompile`, `trace`.
//! - Frames and calls: `frame`, then `staking` (the staking contract), `stylus` (queries of tools) and `create`.
//! - Runs: `transact` (transactions), `call` (calls and estimates), `vm`, and `bench` for measurements.

// Lets the generator of contracts in `tests/` also serve unit tests.
#[cfg(test)]
extern crate self as corniche_vm;

mod backtrace;
#[cfg(feature = "bench")]
pub mod bench;
mod block_reads;
mod call;
mod create;
mod frame;
pub mod host;
mod indexed_map;
mod journal;
mod machine;
mod outcome;
mod precompile;
mod price;
mod staking;
mod stylus;
#[cfg(test)]
mod tests;
mod trace;
mod transact;
mod vm;
mod warm_code;
pub mod wasm;

pub use backtrace::CodeLocation;
pub use block_reads::{BlockField, BlockReads};
pub use host::BlockEnv;
pub use outcome::{Call, CallOutcome, EstimateError, Executed, ExecutionStatus, Fault, NotExecuted, PrecompileError};
pub use precompile::{is_precompile, precompiles};
pub use trace::{
    ConsoleLine, FRAME_OVERHEAD_BYTES, FrameKind, FrameStatus, LINE_OVERHEAD_BYTES, MAX_CONSOLE_BYTES, TRUNCATED_LINE, Touched,
    Trace, TraceFrame, TraceLimits, TraceLog,
};
pub use vm::{Vm, VmConfig};
pub use wasm::validate::Rules;
pub use wasm::{ModuleCache, NoCache, THREAD_STACK_BYTES};
