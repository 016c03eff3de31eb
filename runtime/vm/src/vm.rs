//! The virtual machine as the rest of the node holds it.

use crate::machine::Machine;
use crate::outcome::{End, Fault};
use crate::trace::Trace;
use crate::wasm::{Backend, CompileError, EngineConfig, ModuleCache, NoCache, WasmEngine, gas};
use alloy_primitives::B256;
use std::sync::{Arc, OnceLock};

/// Sizes of the engine, local to a node and never visible in a result, and the chain's rules.
pub type VmConfig = EngineConfig;

/// Runs transactions and calls. A clone is another handle to the same engine and cache.
#[derive(Clone)]
pub struct Vm {
    machine: Arc<dyn Machine>,
    /// The same, with what it keeps kept apart.
    for_calls: WasmEngine,
    /// For runs that say where they fail; made when somebody asks. `None`: it cannot be had.
    with_places: Arc<OnceLock<Option<WasmEngine>>>,
    config: VmConfig,
    backend: Backend,
}

impl Vm {
    /// Fails when this machine cannot run the engine (address space, processor); compiled code is kept through `artefacts`.
    pub fn new(config: &VmConfig, artefacts: Arc<dyn ModuleCache>) -> Result<Self, CompileError> {
        Self::with_backend(config, Backend::default(), artefacts)
    }

    /// For tests; see [`WasmEngine::with_backend`].
    #[doc(hidden)]
    pub fn with_backend(config: &VmConfig, backend: Backend, artefacts: Arc<dyn ModuleCache>) -> Result<Self, CompileError> {
        let engine = WasmEngine::with_backend(config, backend, artefacts)?;
        let for_calls = engine.for_calls();
        let (machine, config) = (Arc::new(engine), config.clone());
        Ok(Self { machine, for_calls, with_places: Arc::default(), config, backend })
    }

    /// What tables whose keys others choose are to be spread by ([`VmConfig::table_secret`]).
    pub fn table_secret(&self) -> u64 {
        self.config.table_secret
    }

    /// Whether a contract has said something (`console`) since this was made, so that a trace may have something to show.
    pub fn has_spoken(&self) -> bool {
        self.for_calls.has_spoken()
    }

    /// Has calls through this handle, and through clones of it to come, know `code` besides what is deployed, under this gas version. It pays what its deployment
    /// would for being checked and compiled: answers the gas, at most `gas`.
    pub fn suppose(&mut self, gas_version: u8, code: &[u8], gas: u64) -> Result<u64, CompileError> {
        self.for_calls.suppose(schedule(gas_version)?, code, gas)
    }

    /// Returns true if the artefact of this code is stored, so that [`Self::compile_ahead`] has nothing to do.
    pub fn is_compiled(&self, gas_version: u8, code_hash: &B256) -> bool {
        schedule(gas_version).is_ok_and(|schedule| self.for_calls.is_compiled(schedule, code_hash))
    }

    /// Compiles an account's code unless its artefact is stored. Returns true if it compiled. A node calls it for all code of the state
    /// before it votes, so that no block waits for the compiler.
    pub fn compile_ahead(&self, gas_version: u8, code_hash: &B256, stored_code: &[u8]) -> Result<bool, CompileError> {
        self.for_calls.compile_ahead(schedule(gas_version)?, code_hash, stored_code)
    }

    /// Returns memory of native stacks to the system: that of this thread's stack, and of those that threads share. The next runs pay
    /// a page fault for each page that they touch again, about 2 µs, so a node calls it every hour at most.
    pub fn release_stacks(&self) {
        self.for_calls.release_stacks();
        if let Some(Some(engine)) = self.with_places.get() {
            engine.release_stacks();
        }
    }

    /// For work beside blocks. `Err`: busy.
    pub(crate) fn call_permit(&self) -> Result<Box<dyn Send>, End> {
        self.machine.call_permit().ok_or_else(|| End::Fault(Fault("too many calls at once; try again".into())))
    }

    pub(crate) fn machine(&self) -> &dyn Machine {
        &*self.machine
    }

    /// For work beside blocks, and what traces it.
    pub(crate) fn machine_for_calls(&self, trace: Option<&Trace>) -> &dyn Machine {
        match trace.filter(|trace| trace.wants_places()).and_then(|_| self.machine_with_places()) {
            Some(machine) => machine,
            None => &self.for_calls,
        }
    }

    /// It serves people who look at what failed: some code, a few runs.
    fn machine_with_places(&self) -> Option<&WasmEngine> {
        let make = || {
            let config =
                VmConfig { executors: 0, recent_bytes: 32 << 20, waiting_bytes: 0, places: true, ..self.config.clone() };
            WasmEngine::with_backend(&config, self.backend, Arc::new(NoCache)).ok()
        };
        self.with_places.get_or_init(make).as_ref()
    }
}

fn schedule(version: u8) -> Result<&'static gas::Schedule, CompileError> {
    gas::schedule(version).ok_or_else(|| CompileError::Fault(format!("this build does not know gas version {version}")))
}
