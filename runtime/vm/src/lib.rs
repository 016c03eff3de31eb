//! One transaction: its semantics, and the WebAssembly it runs.
//!
//! [`wasm`] turns a module into something that can be run deterministically and runs one frame of it; the modules beside it keep
//! Ethereum's rules about accounts, calls, storage and gas. They meet at [`host`].

// So that the generator of contracts in `tests/` also serves the tests in here.
#[cfg(test)]
extern crate self as corniche_vm;

#[cfg(feature = "bench")]
pub mod bench;
mod block_reads;
mod call;
mod create;
mod frame;
pub mod host;
mod journal;
mod machine;
mod outcome;
mod precompile;
mod price;
mod stylus;
mod table;
#[cfg(test)]
mod tests;
mod trace;
mod transact;
mod vm;
mod warm_code;
pub mod wasm;

pub use block_reads::{BlockField, BlockReads};
pub use host::BlockEnv;
pub use outcome::{Call, CallOutcome, End, Executed, Fault, NoEstimate, NotExecuted};
pub use precompile::{PrecompileError, is_precompile, precompiles};
pub use trace::{
    CONSOLE_BYTES, Ending, FrameKind, OWN_BYTES, OWN_LINE_BYTES, SILENCED, Touched, Trace, TraceFrame, TraceLimits, TraceLine,
    TraceLog,
};
pub use vm::{Vm, VmConfig};
pub use wasm::places::Place;
pub use wasm::validate::Rules;
pub use wasm::{ModuleCache, NoCache, THREAD_STACK_BYTES};
