//! wasmtime, configured so that no property of it affects a result.
//!
//! A frame takes a restored instance ([`instance`](super::instance)) or a new one from a pool. Slots have room for
//! memories of [`MAX_MEMORY_PAGES`], so growth within this limit needs no allocation that could fail. If it fails
//! anyway, the run is a fault.

mod compile;
mod environment;
mod run;

use super::backend::{Backend, wasmtime_config};
use super::cache::{ContractCache, ModuleCache};
use super::config::{EngineConfig, Purpose};
use super::contract::CompiledContract;
#[cfg(test)]
use super::contract::Start;
use super::error::{CompileError, fault};
use super::hostcalls::{self, Frame};
use super::instance_pool::InstancePool;
use super::overrides::CodeOverrides;
use super::stack::{LargeStack, release_default_stack};
use super::start_cache::StartCache;
use super::validate::Rules;
use crate::host::MAX_CALL_DEPTH;
use crate::warm_code::CodeId;
use alloy_primitives::B256;
use corniche_types::StakingParameters;
use environment::environments;
#[cfg(test)]
pub(super) use environment::{EVERY_CONSTRUCT, emitted, environment};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use wasmtime::{Engine, Linker};

/// Kept instances per concurrent run.
const IDLE_INSTANCES_PER_RUN: u32 = 64;
/// Calls may keep 1/4 of what blocks may keep.
const CALLS_SHARE: usize = 4;

/// Compiles and runs contracts. Cheap to clone.
#[derive(Clone)]
pub struct WasmEngine {
    inner: Arc<Inner>,
    purpose: Purpose,
    /// Used by this handle only.
    pub(super) overrides: CodeOverrides,
}

/// Caches for one purpose.
struct Caches {
    recent: ContractCache,
    pool: InstancePool,
    large_stack: LargeStack,
}

struct Inner {
    engine: Engine,
    linker: Linker<Frame>,
    /// Set when any contract has written to the console.
    console_used: Arc<AtomicBool>,
    rules: Rules,
    staking: Option<Arc<StakingParameters>>,
    backtrace: bool,
    /// Hash of everything except the code that an artefact depends on, by gas version.
    environments: BTreeMap<u8, B256>,
    artefacts: Arc<dyn ModuleCache>,
    starts: StartCache,
    blocks: Caches,
    calls: Caches,
    free_callers: AtomicU32,
}

/// Permit to run one call outside of blocks; see [`WasmEngine::call_permit`].
pub struct CallPermit {
    engine: WasmEngine,
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        self.engine.inner.free_callers.fetch_add(1, Ordering::AcqRel);
    }
}

impl WasmEngine {
    pub fn new(config: &EngineConfig, artefacts: Arc<dyn ModuleCache>) -> Result<Self, CompileError> {
        Self::with_backend(config, Backend::default(), artefacts)
    }

    /// For tests, which check that the back end has no visible effect. A node cannot choose one.
    #[doc(hidden)]
    pub fn with_backend(
        config: &EngineConfig,
        backend: Backend,
        artefacts: Arc<dyn ModuleCache>,
    ) -> Result<Self, CompileError> {
        let transactions = config.transactions();
        let waiting = transactions.saturating_mul(IDLE_INSTANCES_PER_RUN);
        let running = transactions.saturating_mul(MAX_CALL_DEPTH + 1);
        let engine = wasmtime_config(backend, running.saturating_add(waiting), config.backtrace)
            .and_then(|config| Engine::new(&config))
            .map_err(|error| CompileError::Start(format!("{error:#}")))?;
        let console_used = Arc::default();
        let linker = hostcalls::linker(&engine, &console_used).map_err(fault)?;
        let kept = |purpose, threads: u32, share| {
            let large_stack =
                LargeStack::reserve().map_err(|error| CompileError::Start(format!("reserve a native stack: {error}")))?;
            Ok::<_, CompileError>(Caches {
                recent: ContractCache::new(config.contract_cache_bytes / share),
                pool: InstancePool::new(
                    purpose,
                    threads.max(1) as usize,
                    IDLE_INSTANCES_PER_RUN as usize,
                    config.idle_instance_bytes / share,
                ),
                large_stack,
            })
        };
        Ok(Self {
            purpose: Purpose::Blocks,
            overrides: CodeOverrides::default(),
            inner: Arc::new(Inner {
                environments: environments(&engine)?,
                engine,
                linker,
                console_used,
                rules: config.rules,
                staking: config.staking.clone(),
                backtrace: config.backtrace,
                artefacts,
                starts: StartCache::default(),
                blocks: kept(Purpose::Blocks, config.executors, 1)?,
                calls: kept(Purpose::Calls, config.callers, CALLS_SHARE)?,
                free_callers: AtomicU32::new(config.callers),
            }),
        })
    }

    /// Returns the parameters of the chain's staking contract, if it has one.
    pub fn staking(&self) -> Option<&StakingParameters> {
        self.inner.staking.as_deref()
    }

    /// Takes one of a bounded number of permits for calls outside of blocks, so that they never use up the instances
    /// that block execution needs. `None`: refuse the call as busy.
    pub fn call_permit(&self) -> Option<CallPermit> {
        let free = &self.inner.free_callers;
        free.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| free.checked_sub(1)).ok()?;
        Some(CallPermit { engine: self.clone() })
    }

    /// Returns the engine for calls outside of blocks, with separate caches.
    #[must_use]
    pub fn for_calls(&self) -> Self {
        Self { inner: self.inner.clone(), purpose: Purpose::Calls, overrides: CodeOverrides::default() }
    }

    /// Returns a contract in memory from either cache: blocks use contracts that calls compiled, and vice versa.
    pub(super) fn recent(&self, id: &CodeId) -> Option<CompiledContract> {
        if let Some(contract) = self.overrides.get(id) {
            return Some(contract.clone());
        }
        let Inner { blocks, calls, .. } = &*self.inner;
        match self.purpose {
            Purpose::Calls => calls.recent.get(id).or_else(|| blocks.recent.peek(id)),
            Purpose::Blocks => blocks.recent.get(id).or_else(|| {
                let contract = calls.recent.peek(id)?;
                blocks.recent.insert(*id, contract.clone());
                Some(contract)
            }),
        }
    }

    fn caches(&self) -> &Caches {
        match self.purpose {
            Purpose::Blocks => &self.inner.blocks,
            Purpose::Calls => &self.inner.calls,
        }
    }

    fn keep(&self, contract: CompiledContract) -> CompiledContract {
        self.inner.starts.insert(contract.code_hash(), contract.start());
        self.caches().recent.insert(*contract.id(), contract.clone());
        contract
    }

    /// Returns the pages of native stacks to the system: this thread's, and those that threads share. Skips stacks in use.
    pub fn release_stacks(&self) {
        release_default_stack();
        self.inner.blocks.large_stack.release();
        self.inner.calls.large_stack.release();
    }

    pub fn has_console_output(&self) -> bool {
        self.inner.console_used.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn wasmtime(&self) -> &Engine {
        &self.inner.engine
    }

    #[cfg(test)]
    pub(super) fn pool(&self) -> &InstancePool {
        &self.caches().pool
    }

    #[cfg(test)]
    pub(super) fn start_of(&self, code_hash: &B256) -> Option<Start> {
        self.inner.starts.get(code_hash)
    }

    #[cfg(test)]
    pub(super) fn recent_len(&self) -> usize {
        self.caches().recent.len()
    }

    #[cfg(test)]
    pub(super) fn is_recent(&self, id: &CodeId) -> bool {
        self.caches().recent.peek(id).is_some()
    }
}
