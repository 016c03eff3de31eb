//! Errors of compilation.

use super::creation::CreationError;
use super::instrument::InstrumentError;
use super::validate::ValidationError;

/// Why code could not be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    #[error(transparent)]
    Unpack(#[from] CreationError),
    #[error(transparent)]
    Invalid(#[from] ValidationError),
    #[error("compiling needs {needed} gas")]
    OutOfGas { needed: u64 },
    /// Never the contract's fault.
    #[error("internal fault: {0}")]
    Fault(String),
    /// The system refuses what every engine needs. Returned by [`WasmEngine::new`](super::WasmEngine::new) only.
    #[error(
        "start the virtual machine: {0}; if memory is refused, run without RLIMIT_AS (ulimit -v) and RLIMIT_DATA (ulimit -d), \
         and set vm.overcommit_memory to 0 or 1"
    )]
    Start(String),
}

impl From<InstrumentError> for CompileError {
    fn from(error: InstrumentError) -> Self {
        Self::Fault(error.to_string())
    }
}

pub(super) fn fault(error: wasmtime::Error) -> CompileError {
    CompileError::Fault(format!("{error:?}"))
}
