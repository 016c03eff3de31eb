//! wasmtime, configured so that no property of it affects a result.
//!
//! A frame takes a restored instance ([`instance`](super::instance)) or a new one from a pool. Slots have room for
//! memories of [`MAX_MEMORY_PAGES`], so growth within this limit needs no allocation that could fail. If it fails
//! anyway, the run is a fault.

use super::backend::{Backend, wasmtime_config};
use super::backtrace::RawBacktrace;
use super::cache::{ContractCache, ModuleCache, seal, unseal};
use super::contract::{CompiledContract, ModuleFacts, PaidStart, Start};
use super::creation::{CreationError, unpack};
use super::gas::{self, INK_PER_GAS, Schedule};
use super::hostcalls::{self, Frame, Stop};
use super::instance::{Counters, Instance};
use super::instance_pool::InstancePool;
use super::instrument::{self, InstrumentError};
use super::overrides::CodeOverrides;
use super::stack::{LargeStack, NativeStack, release_default_stack};
use super::start_cache::{self, StartCache};
use super::validate::{self, Rules, ValidationError};
use crate::host::{Entry, Exit, ExitStatus, Host, Limits, MAX_CALL_DEPTH, Readiness, Trap};
use crate::warm_code::CodeId;
use alloy_primitives::{B256, Bytes, keccak256};
use corniche_abi::ABI_VERSION;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use wasmtime::{Engine, Linker, Module};

/// Minimum gas for the start of any frame.
const fn least_start_gas(schedule: &Schedule, readiness: Readiness) -> u64 {
    let preparing = match readiness {
        Readiness::Warm => 0,
        Readiness::Nested => schedule.nested_ink(0),
        Readiness::Cold => schedule.cold_ink(0, 0, 0),
    };
    (gas::start_ink(0, 0) + preparing) / INK_PER_GAS
}

/// Settings that are local to a node and never affect a result, and the chain's [`Rules`].
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Maximum number of concurrent transactions, in addition to calls (`call_permit`).
    pub executors: u32,
    /// Maximum number of concurrent calls, estimates and traces.
    pub callers: u32,
    /// Bytes of machine code kept in memory for blocks. Calls may keep 1/[`CALLS_SHARE`] of it in addition.
    pub contract_cache_bytes: usize,
    /// Bytes of instances kept between transactions for runs in blocks, including the machine code of their contracts.
    /// Calls may keep the same share in addition. During a transaction its thread keeps one instance of each warm
    /// contract, independent of their size.
    pub idle_instance_bytes: usize,
    /// Failed runs report their location ([`Host::record_failure`]), and compilation takes longer.
    pub backtrace: bool,
    /// Rules of the chain. Unlike all other settings they affect results; they follow from the genesis.
    pub rules: Rules,
    /// Secret for the hash seed of the executor's tables of keys. Any number in tests.
    pub table_secret: u64,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            executors: 2,
            callers: 6,
            contract_cache_bytes: 256 << 20,
            idle_instance_bytes: 256 << 20,
            backtrace: false,
            rules: Rules::default(),
            table_secret: 0,
        }
    }
}

impl EngineConfig {
    /// Maximum number of concurrent runs.
    fn transactions(&self) -> u32 {
        self.executors.saturating_add(self.callers).max(1)
    }
}

/// Kept instances per concurrent run.
const IDLE_INSTANCES_PER_RUN: u32 = 64;
/// Calls may keep 1/4 of what blocks may keep.
const CALLS_SHARE: usize = 4;

/// Purpose of a run. Calls are free for their senders, so their caches must not evict anything that blocks use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Blocks,
    Calls,
}

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
    backtrace: bool,
    /// Hash of everything except the code that an artefact depends on, by gas version.
    environments: BTreeMap<u8, B256>,
    artefacts: Arc<dyn ModuleCache>,
    starts: StartCache,
    blocks: Caches,
    calls: Caches,
    free_callers: AtomicU32,
}

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
    /// The system refuses what every engine needs. Returned by [`WasmEngine::new`] only.
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

/// A compiled module.
pub(super) struct CompiledModule {
    pub contract: CompiledContract,
    /// Artefact to store; `None` if it was loaded from storage.
    artefact: Option<Vec<u8>>,
}

fn affordable(needed: u64, gas: u64) -> Result<(), CompileError> {
    if needed > gas { Err(CompileError::OutOfGas { needed }) } else { Ok(()) }
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
                backtrace: config.backtrace,
                artefacts,
                starts: StartCache::default(),
                blocks: kept(Purpose::Blocks, config.executors, 1)?,
                calls: kept(Purpose::Calls, config.callers, CALLS_SHARE)?,
                free_callers: AtomicU32::new(config.callers),
            }),
        })
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

    /// Returns an account's code ready to run: from memory, from the cache of artefacts, or compiled. Uses the latest
    /// gas version.
    pub fn contract(&self, code_hash: &B256, stored_code: &[u8]) -> Result<CompiledContract, CompileError> {
        self.contract_under(gas::LATEST, code_hash, stored_code)
    }

    /// Like [`contract`](Self::contract), for any gas version.
    pub fn contract_under(
        &self,
        schedule: &'static Schedule,
        code_hash: &B256,
        stored_code: &[u8],
    ) -> Result<CompiledContract, CompileError> {
        self.ready(schedule, code_hash, &|| Some(Bytes::copy_from_slice(stored_code)))
    }

    /// Stored code was validated once, so its artefact's facts are trusted. The code itself is loaded only without an
    /// artefact.
    pub(super) fn ready(
        &self,
        schedule: &'static Schedule,
        code_hash: &B256,
        stored_code: &dyn Fn() -> Option<Bytes>,
    ) -> Result<CompiledContract, CompileError> {
        let id = CodeId::new(schedule.version, code_hash);
        if let Some(contract) = self.recent(&id) {
            return Ok(contract);
        }
        if let Some((module, facts)) = self.artefact(&self.key(schedule, &id)) {
            return Ok(self.keep(self.link(schedule, &id, &module, facts)?));
        }
        let stored_code = stored_code().ok_or_else(|| CompileError::Fault("it is missing".into()))?;
        let built = self.build(schedule, &id, &unpack(&stored_code)?, u64::MAX)?;
        // Code of the chain is stored for every purpose.
        self.store(schedule, &built);
        Ok(self.keep(built.contract))
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

    /// Like [`contract`](Self::contract), for a module that is already unpacked.
    pub fn compile(&self, code_hash: &B256, wasm: &[u8]) -> Result<CompiledContract, CompileError> {
        self.compile_within(code_hash, wasm, u64::MAX)
    }

    /// Like [`compile`](Self::compile), for a deployment: fails if `gas` does not pay for compilation, even if an
    /// artefact exists. An artefact does not prove that today's rules accept the module, so it is validated again,
    /// which has been paid for.
    pub fn compile_within(&self, code_hash: &B256, wasm: &[u8], gas: u64) -> Result<CompiledContract, CompileError> {
        self.compile_under(gas::LATEST, code_hash, wasm, gas)
    }

    pub(super) fn compile_under(
        &self,
        schedule: &'static Schedule,
        code_hash: &B256,
        wasm: &[u8],
        gas: u64,
    ) -> Result<CompiledContract, CompileError> {
        let id = CodeId::new(schedule.version, code_hash);
        if let Some(contract) = self.recent(&id) {
            affordable(contract.compile_gas(), gas)?;
            return Ok(contract);
        }
        let built = self.build(schedule, &id, wasm, gas)?;
        // Deployments in calls are free for their senders, so they are not stored.
        if self.purpose == Purpose::Blocks {
            self.store(schedule, &built);
        }
        Ok(self.keep(built.contract))
    }

    /// Compiles a module, or loads its artefact, and stores nothing.
    pub(super) fn build(
        &self,
        schedule: &'static Schedule,
        id: &CodeId,
        wasm: &[u8],
        gas: u64,
    ) -> Result<CompiledModule, CompileError> {
        let checked = validate::check_with_schedule(schedule, self.inner.rules, wasm)?;
        affordable(checked.compile_gas(), gas)?;
        if let Some((module, facts)) = self.artefact(&self.key(schedule, id)) {
            return Ok(CompiledModule { contract: self.link(schedule, id, &module, facts)?, artefact: None });
        }
        let facts = ModuleFacts::of(&checked)?;
        let code = self.inner.engine.precompile_module(&instrument::instrument(&checked)?).map_err(fault)?;
        let artefact = Some(seal(&facts.with(&code)?));
        Ok(CompiledModule { contract: self.link(schedule, id, &self.load(&code)?, facts)?, artefact })
    }

    /// Stores the artefact, if it is new.
    fn store(&self, schedule: &Schedule, built: &CompiledModule) {
        if let Some(artefact) = &built.artefact {
            let (artefacts, contract) = (&self.inner.artefacts, &built.contract);
            start_cache::write_record(&**artefacts, &contract.code_hash(), &contract.start());
            artefacts.put(&self.key(schedule, contract.id()), artefact);
        }
    }

    /// Returns true if an artefact and a start are on record.
    pub(crate) fn is_compiled(&self, schedule: &Schedule, code_hash: &B256) -> bool {
        let (artefacts, id) = (&self.inner.artefacts, CodeId::new(schedule.version, code_hash));
        artefacts.contains(&self.key(schedule, &id)) && artefacts.contains(&start_cache::record_key(code_hash))
    }

    /// Compiles an account's code unless its artefact is stored, so that no run has to. Returns true if it compiled.
    /// Used at a node's start: after an update or on another processor there are no artefacts.
    pub(crate) fn compile_ahead(
        &self,
        schedule: &'static Schedule,
        code_hash: &B256,
        stored_code: &[u8],
    ) -> Result<bool, CompileError> {
        if self.is_compiled(schedule, code_hash) {
            return Ok(false);
        }
        let artefacts = &self.inner.artefacts;
        let id = CodeId::new(schedule.version, code_hash);
        let built = self.build(schedule, &id, &unpack(stored_code)?, u64::MAX)?;
        match built.artefact {
            Some(_) => self.store(schedule, &built),
            None => start_cache::write_record(&**artefacts, code_hash, &built.contract.start()),
        }
        Ok(built.artefact.is_some())
    }

    /// Returns the facts for the price of a start. Never loads or compiles the code, because that is not paid yet.
    fn start(&self, id: &CodeId, stored_code: &dyn Fn() -> Option<Bytes>) -> Result<Start, CompileError> {
        let code_hash = &id.hash;
        if let Some(start) = self.inner.starts.get(code_hash) {
            return Ok(start);
        }
        if let Some(contract) = self.recent(id) {
            return Ok(contract.start());
        }
        let records = &*self.inner.artefacts;
        let start = match start_cache::read_record(records, code_hash) {
            Some(start) => start,
            None => {
                let stored_code = stored_code().ok_or_else(|| CompileError::Fault("it is missing".into()))?;
                let start = Start::of_valid_module(&unpack(&stored_code)?);
                let start = start.ok_or_else(|| CompileError::Fault("it is no module".into()))?;
                start_cache::write_record(records, code_hash, &start);
                start
            }
        };
        self.inner.starts.insert(*code_hash, start);
        Ok(start)
    }

    /// Returns the key of this code's artefact.
    fn key(&self, schedule: &Schedule, id: &CodeId) -> B256 {
        let environment = self.inner.environments.get(&schedule.version).copied().unwrap_or_default();
        keccak256([environment.as_slice(), id.hash.as_slice()].concat())
    }

    /// Returns the stored artefact, if it is intact.
    fn artefact(&self, key: &B256) -> Option<(Module, ModuleFacts)> {
        let sealed = self.inner.artefacts.get(key)?;
        let (facts, code) = ModuleFacts::split(unseal(&sealed)?)?;
        Some((self.load(code).ok()?, facts))
    }

    fn link(
        &self,
        schedule: &'static Schedule,
        id: &CodeId,
        module: &Module,
        facts: ModuleFacts,
    ) -> Result<CompiledContract, CompileError> {
        CompiledContract::link(&self.inner.linker, schedule, id, module, facts)
    }

    fn keep(&self, contract: CompiledContract) -> CompiledContract {
        self.inner.starts.insert(contract.code_hash(), contract.start());
        self.caches().recent.insert(*contract.id(), contract.clone());
        contract
    }

    /// Loads machine code that this node compiled.
    #[allow(unsafe_code)]
    fn load(&self, artefact: &[u8]) -> Result<Module, CompileError> {
        // SAFETY: `artefact` is what `precompile_module` of this wasmtime returned: either just now, or read from this
        // node's own cache with its hash intact. Artefacts never come from peers or clients. wasmtime itself refuses
        // another version or configuration.
        unsafe { Module::deserialize(&self.inner.engine, artefact) }.map_err(fault)
    }

    /// Runs one frame from its start to its end.
    ///
    /// Needs much native stack, and switches to a separate stack for that.
    pub fn run(&self, contract: &CompiledContract, host: &mut dyn Host, entry: Entry) -> Exit {
        let readiness = host.code_readiness();
        self.with_sufficient_stack(|| {
            let started = match contract.start().charge(contract.schedule(), &entry, readiness) {
                Ok(started) => started,
                Err(exit) => return exit,
            };
            match self.instance(contract.id(), || Ok(contract.clone())) {
                Ok(instance) => self.run_in(instance, host, entry.input, started),
                Err(exit) => exit,
            }
        })
    }

    /// Runs code by its hash; `stored_code` is called only if it must be compiled.
    pub(super) fn run_code(
        &self,
        schedule: &'static Schedule,
        code_hash: &B256,
        stored_code: &dyn Fn() -> Option<Bytes>,
        host: &mut dyn Host,
        entry: Entry,
    ) -> Exit {
        let readiness = host.code_readiness();
        // Even the cheapest start costs this much. So a call with almost no gas fails without any look-up.
        if entry.gas < least_start_gas(schedule, readiness) {
            return Exit::failed(ExitStatus::OutOfGas);
        }
        // Code is validated before it is stored, so a failure is always a fault of this node.
        let broken = |error| Exit::failed(ExitStatus::Fault(format!("stored code {code_hash} cannot run: {error}")));
        let id = &CodeId::new(schedule.version, code_hash);
        let ready = || self.ready(schedule, code_hash, stored_code).map_err(broken);
        self.with_sufficient_stack(|| {
            // The frame pays first. Only then its code is loaded, or compiled without an artefact.
            let start = self.start(id, stored_code).map_err(broken);
            let started = start.and_then(|start| start.charge(schedule, &entry, readiness));
            match started.and_then(|started| Ok((self.instance(id, ready)?, started))) {
                Ok((instance, started)) => self.run_in(instance, host, entry.input.clone(), started),
                Err(exit) => exit,
            }
        })
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

    /// Returns a kept or new instance. An error is never the contract's fault.
    fn instance(&self, id: &CodeId, contract: impl FnOnce() -> Result<CompiledContract, Exit>) -> Result<Box<Instance>, Exit> {
        let pool = &self.caches().pool;
        if let Some(instance) = pool.take(id) {
            return Ok(instance);
        }
        let contract = pool.contract(id).map_or_else(contract, Ok)?;
        if !self.overrides.contains_key(id) {
            pool.start_fresh(&contract);
        }
        let instance = Instance::new(&self.inner.engine, contract);
        instance.map(Box::new).map_err(|error| Exit::failed(ExitStatus::Fault(format!("{error:?}"))))
    }

    /// Enough for compilation, and then for running nearly all code without another switch.
    fn with_sufficient_stack(&self, body: impl FnOnce() -> Exit) -> Exit {
        let bytes = NativeStack::BOUNDED.bytes(2 * Limits::TRANSACTION.stack_words);
        self.caches().large_stack.run(bytes, body).unwrap_or_else(|error| no_stack(&error))
    }

    fn run_in(&self, mut instance: Box<Instance>, host: &mut dyn Host, input: Bytes, started: PaidStart) -> Exit {
        host.mark_code_paid();
        let bytes = instance.contract().native_stack().bytes(started.limits.stack_words);
        let result = self.caches().large_stack.run(bytes, || instance.run(host, input, started.ink, started.limits));
        let result = match result {
            Ok(result) => result,
            Err(error) => return no_stack(&error),
        };
        let backtrace = result
            .as_ref()
            .err()
            .filter(|_| self.inner.backtrace)
            .map(|error| RawBacktrace::of(error, instance.contract().schedule().version));
        let status = match result {
            Ok(0) => ExitStatus::Return,
            Ok(_) => ExitStatus::Revert,
            Err(error) => match instance.frame().take_stop() {
                Some(Stop::Exit(0)) => ExitStatus::Return,
                Some(Stop::Exit(_)) => ExitStatus::Revert,
                Some(Stop::OutOfGas) => ExitStatus::OutOfGas,
                Some(Stop::Trap(trap)) => ExitStatus::Trap(trap),
                Some(Stop::Fault(text)) => ExitStatus::Fault(text),
                None => classify(&error, instance.counters()),
            },
        };
        if let (Some(backtrace), ExitStatus::Trap(_) | ExitStatus::OutOfGas) = (backtrace, &status) {
            host.record_failure(backtrace);
        }
        let left = instance.ink().and_then(|ink| u64::try_from(ink).ok()).unwrap_or(0) / INK_PER_GAS;
        let output = std::mem::take(&mut instance.frame().output);
        // Traps leave the instance intact. Otherwise a contract that traps would make the kernel provide new pages for
        // every call.
        let is_kept = !matches!(status, ExitStatus::Fault(_))
            && !self.overrides.contains_key(instance.contract().id())
            && instance.renew();
        let kept = is_kept.then(|| {
            instance.contract().mark_used();
            instance
        });
        self.caches().pool.end(kept, host.context().depth == 0);
        match status {
            ExitStatus::Return | ExitStatus::Revert => Exit { status, output, gas_left: left + started.unmetered },
            failed => Exit::failed(failed),
        }
    }
}

fn no_stack(error: &std::io::Error) -> Exit {
    Exit::failed(ExitStatus::Fault(format!("reserve a native stack: {error}")))
}

/// Classifies a trap that no host call caused.
fn classify(error: &wasmtime::Error, counters: Option<Counters>) -> ExitStatus {
    let (Some(trap), Some(counters)) = (error.downcast_ref::<wasmtime::Trap>(), counters) else {
        return ExitStatus::Fault(format!("{error:?}"));
    };
    ExitStatus::Trap(match trap {
        wasmtime::Trap::UnreachableCodeReached if counters.gas < 0 => return ExitStatus::OutOfGas,
        wasmtime::Trap::UnreachableCodeReached if counters.stack < 0 => Trap::StackExhausted,
        wasmtime::Trap::UnreachableCodeReached if counters.pages < 0 => Trap::MemoryExhausted,
        wasmtime::Trap::UnreachableCodeReached => Trap::Unreachable,
        wasmtime::Trap::MemoryOutOfBounds => Trap::MemoryOutOfBounds,
        wasmtime::Trap::TableOutOfBounds | wasmtime::Trap::IndirectCallToNull => Trap::BadTableElement,
        wasmtime::Trap::BadSignature => Trap::BadSignature,
        wasmtime::Trap::IntegerOverflow => Trap::IntegerOverflow,
        wasmtime::Trap::IntegerDivisionByZero => Trap::DivisionByZero,
        // Includes StackOverflow: our own count ends a run first.
        other => return ExitStatus::Fault(format!("wasmtime trap outside the chain's rules: {other}")),
    })
}

pub(super) fn fault(error: wasmtime::Error) -> CompileError {
    CompileError::Fault(format!("{error:?}"))
}

/// A module with every permitted instruction; `every_construct.wat` is its source.
pub(super) const EVERY_CONSTRUCT: &[u8] = include_bytes!("every_construct.wasm");

/// Returns the hashes of everything except the code that an artefact depends on, by gas version.
fn environments(engine: &Engine) -> Result<BTreeMap<u8, B256>, CompileError> {
    // Covers wasmtime's version, its settings and the processor's features.
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let compiler = hasher.finish();
    gas::ALL.iter().map(|schedule| Ok((schedule.version, environment(compiler, schedule, &emitted(schedule)?)))).collect()
}

/// `emitted` covers the rules that no table contains: results of validation, and code added by instrumentation.
pub(super) fn environment(compiler: u64, schedule: &Schedule, emitted: &[u8]) -> B256 {
    let text = format!("corniche {ABI_VERSION} {}", env!("CARGO_PKG_VERSION"));
    keccak256([text.as_bytes(), gas::describe(schedule).as_bytes(), &compiler.to_le_bytes(), emitted].concat())
}

/// Returns the compilers' input for [`EVERY_CONSTRUCT`], and the facts stored with their output.
pub(super) fn emitted(schedule: &'static Schedule) -> Result<Vec<u8>, CompileError> {
    let checked = validate::check_with_schedule(schedule, Rules::DEVELOPMENT, EVERY_CONSTRUCT)?;
    ModuleFacts::of(&checked)?.with(&instrument::instrument(&checked)?)
}
