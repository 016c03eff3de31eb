//! The virtual machine's interface for the rest of the node.

use crate::machine::Machine;
use crate::outcome::{ExecutionStatus, Fault};
use crate::trace::Trace;
use crate::wasm::{Backend, CompileError, EngineConfig, ModuleCache, NoCache, WasmEngine, gas};
use alloy_primitives::B256;
use corniche_types::StakingParameters;
use std::sync::{Arc, OnceLock};

/// The engine's sizes, which are local to a node and never affect a result, and the chain's rules.
pub type VmConfig = EngineConfig;

/// Runs transactions and calls. A clone shares engine and cache.
#[derive(Clone)]
pub struct Vm {
    machine: Arc<dyn Machine>,
    /// Runs calls; its instances are kept separately.
    for_calls: WasmEngine,
    /// Engine that records where a run fails, created on first use; `None` if that failed.
    with_backtrace: Arc<OnceLock<Option<WasmEngine>>>,
    config: VmConfig,
    backend: Backend,
}

impl Vm {
    /// Creates an engine. Fails if this machine cannot run it (address space, processor). `artefacts` stores compiled
    /// code.
    pub fn new(config: &VmConfig, artefacts: Arc<dyn ModuleCache>) -> Result<Self, CompileError> {
        Self::with_backend(config, Backend::default(), artefacts)
    }

    /// For tests; see [`WasmEngine::with_backend`].
    #[doc(hidden)]
    pub fn with_backend(config: &VmConfig, backend: Backend, artefacts: Arc<dyn ModuleCache>) -> Result<Self, CompileError> {
        let engine = WasmEngine::with_backend(config, backend, artefacts)?;
        let for_calls = engine.for_calls();
        let (machine, config) = (Arc::new(engine), config.clone());
        Ok(Self { machine, for_calls, with_backtrace: Arc::default(), config, backend })
    }

    /// Secret for the hash seed of tables whose keys untrusted users choose ([`VmConfig::table_secret`]).
    pub fn table_secret(&self) -> u64 {
        self.config.table_secret
    }

    /// Returns the parameters of the chain's staking contract, if it has one.
    pub fn staking(&self) -> Option<&StakingParameters> {
        self.config.staking.as_deref()
    }

    /// Returns whether any contract has written to `console` since the start, so that a trace may contain output.
    pub fn has_console_output(&self) -> bool {
        self.for_calls.has_console_output()
    }

    /// Registers code that is not deployed, for calls through this handle and its later clones, under this gas version.
    /// It is charged for checking and compiling like a deployment. Returns the gas, at most `gas`.
    pub fn add_override(&mut self, gas_version: u8, code: &[u8], gas: u64) -> Result<u64, CompileError> {
        self.for_calls.add_override(schedule(gas_version)?, code, gas)
    }

    /// Returns true if the artefact of this code is stored, so that [`Self::compile_ahead`] has nothing to do.
    pub fn is_compiled(&self, gas_version: u8, code_hash: &B256) -> bool {
        schedule(gas_version).is_ok_and(|schedule| self.for_calls.is_compiled(schedule, code_hash))
    }

    /// Compiles an account's code unless its artefact is stored. Returns true if it compiled. A node calls it for all
    /// code of the state before it votes, so that no block waits for the compiler.
    pub fn compile_ahead(&self, gas_version: u8, code_hash: &B256, stored_code: &[u8]) -> Result<bool, CompileError> {
        self.for_calls.compile_ahead(schedule(gas_version)?, code_hash, stored_code)
    }

    /// Returns memory of native stacks to the system: that of this thread's stack, and of those that threads share. The next runs pay
    /// a page fault for each page that they touch again, about 2 µs, so a node calls it every hour at most.
    pub fn release_stacks(&self) {
        self.for_calls.release_stacks();
        if let Some(Some(engine)) = self.with_backtrace.get() {
            engine.release_stacks();
        }
    }

    /// Returns a permit for work outside of blocks, or an error if too much of it is running.
    pub(crate) fn call_permit(&self) -> Result<Box<dyn Send>, ExecutionStatus> {
        self.machine.call_permit().ok_or_else(|| ExecutionStatus::Fault(Fault("too many calls at once; try again".into())))
    }

    pub(crate) fn machine(&self) -> &dyn Machine {
        &*self.machine
    }

    /// Returns the engine for work outside of blocks, as the trace requires.
    pub(crate) fn machine_for_calls(&self, trace: Option<&Trace>) -> &dyn Machine {
        match trace.filter(|trace| trace.wants_backtrace()).and_then(|_| self.machine_with_backtrace()) {
            Some(machine) => machine,
            None => &self.for_calls,
        }
    }

    /// Small, because it only serves debugging: little code, few runs.
    fn machine_with_backtrace(&self) -> Option<&WasmEngine> {
        let make = || {
            let config = VmConfig {
                executors: 0,
                contract_cache_bytes: 32 << 20,
                idle_instance_bytes: 0,
                backtrace: true,
                ..self.config.clone()
            };
            WasmEngine::with_backend(&config, self.backend, Arc::new(NoCache)).ok()
        };
        self.with_backtrace.get_or_init(make).as_ref()
    }
}

fn schedule(version: u8) -> Result<&'static gas::Schedule, CompileError> {
    gas::schedule(version).ok_or_else(|| CompileError::Fault(format!("this build does not know gas version {version}")))
}
