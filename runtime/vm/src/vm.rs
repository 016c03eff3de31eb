//! The virtual machine as the rest of the node holds it.

use crate::machine::Machine;
use crate::outcome::{End, Fault};
use crate::wasm::{Backend, CompileError, EngineConfig, ModuleCache, WasmEngine};
use std::sync::Arc;

/// Sizes of the engine: local to a node, never visible in a result.
pub type VmConfig = EngineConfig;

/// Runs transactions and calls. A clone is another handle to the same engine and cache.
#[derive(Clone)]
pub struct Vm {
    machine: Arc<dyn Machine>,
}

impl Vm {
    /// Fails when this machine cannot run the engine (address space, processor); compiled code is kept through `artefacts`.
    pub fn new(config: &VmConfig, artefacts: Arc<dyn ModuleCache>) -> Result<Self, CompileError> {
        Ok(Self { machine: Arc::new(WasmEngine::new(config, artefacts)?) })
    }

    /// For tests; see [`WasmEngine::with_backend`].
    #[doc(hidden)]
    pub fn with_backend(config: &VmConfig, backend: Backend, artefacts: Arc<dyn ModuleCache>) -> Result<Self, CompileError> {
        Ok(Self { machine: Arc::new(WasmEngine::with_backend(config, backend, artefacts)?) })
    }

    /// For work beside blocks. `Err`: busy.
    pub(crate) fn call_permit(&self) -> Result<Box<dyn Send>, End> {
        self.machine.call_permit().ok_or_else(|| End::Fault(Fault("too many calls at once; try again".into())))
    }

    pub(crate) fn machine(&self) -> &dyn Machine {
        &*self.machine
    }
}
