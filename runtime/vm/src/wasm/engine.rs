//! wasmtime, configured so that nothing of it shows in a result.
//!
//! A frame takes an instance that served before and is as new ([`instance`](super::instance)); a fresh one comes from a pool. Slots are
//! made for memories of [`MAX_MEMORY_PAGES`], so growth within it needs no allocation that could fail; should it fail all the same, the
//! run is a fault.

use super::backend::{Backend, wasmtime_config};
use super::cache::{ModuleCache, Recent, seal, unseal};
use super::contract::{CodeId, CompiledContract, Facts, Start, Started};
use super::creation::{CreationError, unpack};
use super::gas::{self, INK_PER_GAS, Schedule};
use super::hostcalls::{self, Frame, Stop};
use super::instance::{Counters, Instance};
use super::instrument::{self, InstrumentError};
use super::places::RawPlaces;
use super::shelf::Shelf;
use super::stack::{Deep, NativeStack, release_usual};
use super::starts::{self, Starts};
use super::supposed::Supposed;
use super::validate::{self, Rules, ValidationError};
use crate::host::{Exit, ExitStatus, Host, Limits, MAX_CALL_DEPTH, Readiness, Trap};
use alloy_primitives::{B256, Bytes, keccak256};
use corniche_abi::ABI_VERSION;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use wasmtime::{Engine, Linker, Module};

/// Gas that the start of any frame costs at least.
const fn least_start_gas(schedule: &Schedule, readiness: Readiness) -> u64 {
    let preparing = match readiness {
        Readiness::Warm => 0,
        Readiness::Nested => schedule.nested_ink(0),
        Readiness::Cold => schedule.cold_ink(0, 0, 0),
    };
    (gas::start_ink(0, 0) + preparing) / INK_PER_GAS
}

/// What is local to a node and can change no result, and the chain's [`Rules`].
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Transactions that may execute at the same time besides calls (`call_permit`).
    pub executors: u32,
    /// Calls, estimates and traces that may run at the same time.
    pub callers: u32,
    /// Machine code kept in memory for blocks; for calls, [`CALLS_SHARE`] of it besides.
    pub recent_bytes: usize,
    /// Memory of instances that wait between transactions for their next run in a block, the machine code of their contracts included;
    /// the same share besides. While a transaction runs, its thread keeps one instance of each warm contract whatever they take.
    pub waiting_bytes: usize,
    /// Runs that fail say where ([`Host::failed_at`]), and code takes longer to make ready.
    pub places: bool,
    /// Of the chain. Unlike all else here they show in results, and follow from the genesis.
    pub rules: Rules,
    /// What the executor's tables of keys are spread by: a number that nobody else knows where others choose keys, any number in tests.
    pub table_secret: u64,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            executors: 2,
            callers: 6,
            recent_bytes: 256 << 20,
            waiting_bytes: 256 << 20,
            places: false,
            rules: Rules::default(),
            table_secret: 0,
        }
    }
}

impl EngineConfig {
    /// Runs that may go on at the same time.
    fn transactions(&self) -> u32 {
        self.executors.saturating_add(self.callers).max(1)
    }
}

/// Instances that wait for their next run, for each run that may go on.
const WAITING_EACH: u32 = 64;
/// The part of what blocks may keep that calls keep.
const CALLS_SHARE: usize = 4;

/// What something is run for. Calls cost their senders nothing, so what they leave behind must push nothing out that blocks use again.
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
    /// Known to this handle alone.
    pub(super) supposed: Supposed,
}

/// What is kept for one purpose.
struct Kept {
    recent: Recent,
    shelf: Shelf,
    deep_stack: Deep,
}

struct Inner {
    engine: Engine,
    linker: Linker<Frame>,
    /// Whether a contract has said something since this was made.
    spoken: Arc<AtomicBool>,
    rules: Rules,
    places: bool,
    /// Everything besides the code that an artefact depends on, by gas version.
    environments: BTreeMap<u8, B256>,
    artefacts: Arc<dyn ModuleCache>,
    starts: Starts,
    blocks: Kept,
    calls: Kept,
    free_callers: AtomicU32,
}

/// Why code could not be made ready to run.
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

/// A module made ready.
pub(super) struct Built {
    pub contract: CompiledContract,
    /// To be stored for other days; `None` when it was.
    artefact: Option<Vec<u8>>,
}

fn affordable(needed: u64, gas: u64) -> Result<(), CompileError> {
    if needed > gas { Err(CompileError::OutOfGas { needed }) } else { Ok(()) }
}

/// What a frame starts with.
#[derive(Clone, Debug)]
pub struct Entry {
    pub input: Bytes,
    pub gas: u64,
    pub limits: Limits,
}

/// The right to run one call beside the executor; see [`WasmEngine::call_permit`].
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

    /// For tests, which see to it that the back end does not show; a node has no way to choose one.
    #[doc(hidden)]
    pub fn with_backend(
        config: &EngineConfig,
        backend: Backend,
        artefacts: Arc<dyn ModuleCache>,
    ) -> Result<Self, CompileError> {
        let transactions = config.transactions();
        let waiting = transactions.saturating_mul(WAITING_EACH);
        let running = transactions.saturating_mul(MAX_CALL_DEPTH + 1);
        let engine = wasmtime_config(backend, running.saturating_add(waiting), config.places)
            .and_then(|config| Engine::new(&config))
            .map_err(|error| CompileError::Start(format!("{error:#}")))?;
        let spoken = Arc::default();
        let linker = hostcalls::linker(&engine, &spoken).map_err(fault)?;
        let kept = |purpose, threads: u32, share| {
            let deep_stack =
                Deep::reserve().map_err(|error| CompileError::Start(format!("reserve a native stack: {error}")))?;
            Ok::<_, CompileError>(Kept {
                recent: Recent::new(config.recent_bytes / share),
                shelf: Shelf::new(purpose, threads.max(1) as usize, WAITING_EACH as usize, config.waiting_bytes / share),
                deep_stack,
            })
        };
        Ok(Self {
            purpose: Purpose::Blocks,
            supposed: Supposed::default(),
            inner: Arc::new(Inner {
                environments: environments(&engine)?,
                engine,
                linker,
                spoken,
                rules: config.rules,
                places: config.places,
                artefacts,
                starts: Starts::default(),
                blocks: kept(Purpose::Blocks, config.executors, 1)?,
                calls: kept(Purpose::Calls, config.callers, CALLS_SHARE)?,
                free_callers: AtomicU32::new(config.callers),
            }),
        })
    }

    /// Calls that are not part of a block take one of a bounded number of permits, so that they can never use up the instances that
    /// block execution needs. `None`: refuse the call as busy.
    pub fn call_permit(&self) -> Option<CallPermit> {
        let free = &self.inner.free_callers;
        free.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| free.checked_sub(1)).ok()?;
        Some(CallPermit { engine: self.clone() })
    }

    /// The same engine for calls that are not part of a block: what they keep is kept apart.
    #[must_use]
    pub fn for_calls(&self) -> Self {
        Self { inner: self.inner.clone(), purpose: Purpose::Calls, supposed: Supposed::default() }
    }

    /// Makes an account's code ready: from memory, from the cache of artefacts, or by compiling it. Under the latest gas version.
    pub fn contract(&self, code_hash: &B256, stored_code: &[u8]) -> Result<CompiledContract, CompileError> {
        self.contract_under(gas::LATEST, code_hash, stored_code)
    }

    /// The same under any gas version.
    pub fn contract_under(
        &self,
        schedule: &'static Schedule,
        code_hash: &B256,
        stored_code: &[u8],
    ) -> Result<CompiledContract, CompileError> {
        self.ready(schedule, code_hash, &|| Some(Bytes::copy_from_slice(stored_code)))
    }

    /// Stored code was checked once, so what its artefact says of it is believed, and the code itself is asked for only without one.
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
        // It is the chain's, whoever asked for it.
        self.store(schedule, &built);
        Ok(self.keep(built.contract))
    }

    /// A contract in memory, of either kind: one that calls made ready serves blocks too, and the other way round.
    pub(super) fn recent(&self, id: &CodeId) -> Option<CompiledContract> {
        if let Some(contract) = self.supposed.get(id) {
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

    fn kept(&self) -> &Kept {
        match self.purpose {
            Purpose::Blocks => &self.inner.blocks,
            Purpose::Calls => &self.inner.calls,
        }
    }

    /// The same for a module that is already unpacked.
    pub fn compile(&self, code_hash: &B256, wasm: &[u8]) -> Result<CompiledContract, CompileError> {
        self.compile_within(code_hash, wasm, u64::MAX)
    }

    /// The same for a deployment: compiles only what `gas` pays for, and answers the same whether or not it had to. An artefact is no
    /// proof that today's rules accept the module, so it is validated again; it has paid for that.
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
        // What calls try to deploy costs nobody anything, and is not kept for other days.
        if self.purpose == Purpose::Blocks {
            self.store(schedule, &built);
        }
        Ok(self.keep(built.contract))
    }

    /// Makes a module ready, from its artefact where there is one, and keeps nothing.
    pub(super) fn build(&self, schedule: &'static Schedule, id: &CodeId, wasm: &[u8], gas: u64) -> Result<Built, CompileError> {
        let checked = validate::check_under(schedule, self.inner.rules, wasm)?;
        affordable(checked.compile_gas(), gas)?;
        if let Some((module, facts)) = self.artefact(&self.key(schedule, id)) {
            return Ok(Built { contract: self.link(schedule, id, &module, facts)?, artefact: None });
        }
        let facts = Facts::of(&checked)?;
        let code = self.inner.engine.precompile_module(&instrument::instrument(&checked)?).map_err(fault)?;
        let artefact = Some(seal(&facts.with(&code)?));
        Ok(Built { contract: self.link(schedule, id, &self.load(&code)?, facts)?, artefact })
    }

    /// For other days.
    fn store(&self, schedule: &Schedule, built: &Built) {
        if let Some(artefact) = &built.artefact {
            let (artefacts, contract) = (&self.inner.artefacts, &built.contract);
            starts::write_record(&**artefacts, &contract.code_hash(), &contract.start());
            artefacts.put(&self.key(schedule, contract.id()), artefact);
        }
    }

    /// Returns true if an artefact and a start are on record.
    pub(crate) fn is_compiled(&self, schedule: &Schedule, code_hash: &B256) -> bool {
        let (artefacts, id) = (&self.inner.artefacts, CodeId::new(schedule.version, code_hash));
        artefacts.contains(&self.key(schedule, &id)) && artefacts.contains(&starts::record_key(code_hash))
    }

    /// Compiles an account's code unless its artefact is stored, so that no run of it has to. Returns true if it compiled. For a node
    /// that starts: after an update or on another processor there are no artefacts.
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
            None => starts::write_record(&**artefacts, code_hash, &built.contract.start()),
        }
        Ok(built.artefact.is_some())
    }

    /// What the start of an account's code costs. Never loads or compiles the code: nobody has paid for that yet.
    fn start(&self, id: &CodeId, stored_code: &dyn Fn() -> Option<Bytes>) -> Result<Start, CompileError> {
        let code_hash = &id.hash;
        if let Some(start) = self.inner.starts.get(code_hash) {
            return Ok(start);
        }
        if let Some(contract) = self.recent(id) {
            return Ok(contract.start());
        }
        let records = &*self.inner.artefacts;
        let start = match starts::read_record(records, code_hash) {
            Some(start) => start,
            None => {
                let stored_code = stored_code().ok_or_else(|| CompileError::Fault("it is missing".into()))?;
                let start = Start::of_valid_module(&unpack(&stored_code)?);
                let start = start.ok_or_else(|| CompileError::Fault("it is no module".into()))?;
                starts::write_record(records, code_hash, &start);
                start
            }
        };
        self.inner.starts.insert(*code_hash, start);
        Ok(start)
    }

    /// Of the artefact of this code.
    fn key(&self, schedule: &Schedule, id: &CodeId) -> B256 {
        let environment = self.inner.environments.get(&schedule.version).copied().unwrap_or_default();
        keccak256([environment.as_slice(), id.hash.as_slice()].concat())
    }

    /// What was compiled on another day, when it is intact.
    fn artefact(&self, key: &B256) -> Option<(Module, Facts)> {
        let sealed = self.inner.artefacts.get(key)?;
        let (facts, code) = Facts::split(unseal(&sealed)?)?;
        Some((self.load(code).ok()?, facts))
    }

    fn link(
        &self,
        schedule: &'static Schedule,
        id: &CodeId,
        module: &Module,
        facts: Facts,
    ) -> Result<CompiledContract, CompileError> {
        CompiledContract::link(&self.inner.linker, schedule, id, module, facts)
    }

    fn keep(&self, contract: CompiledContract) -> CompiledContract {
        self.inner.starts.insert(contract.code_hash(), contract.start());
        self.kept().recent.insert(*contract.id(), contract.clone());
        contract
    }

    /// Runs machine code that this node made.
    #[allow(unsafe_code)]
    fn load(&self, artefact: &[u8]) -> Result<Module, CompileError> {
        // SAFETY: `artefact` is what `precompile_module` of the same wasmtime answered: either just now, or read back from this node's own
        // cache with its hash intact. Artefacts never come from peers or clients. wasmtime itself refuses another version or configuration.
        unsafe { Module::deserialize(&self.inner.engine, artefact) }.map_err(fault)
    }

    /// Runs one frame from its start to its end.
    ///
    /// Needs much native stack and moves to a stack of its own for that.
    pub fn run(&self, contract: &CompiledContract, host: &mut dyn Host, entry: Entry) -> Exit {
        let readiness = host.code_readiness();
        self.on_enough_stack(|| {
            let started = match contract.start().pay(contract.schedule(), &entry, readiness) {
                Ok(started) => started,
                Err(exit) => return exit,
            };
            match self.instance(contract.id(), || Ok(contract.clone())) {
                Ok(instance) => self.run_in(instance, host, entry.input, started),
                Err(exit) => exit,
            }
        })
    }

    /// The same for code by its hash; `stored_code` is asked for when it has to be made ready.
    pub(super) fn run_code(
        &self,
        schedule: &'static Schedule,
        code_hash: &B256,
        stored_code: &dyn Fn() -> Option<Bytes>,
        host: &mut dyn Host,
        entry: Entry,
    ) -> Exit {
        let readiness = host.code_readiness();
        // No code costs less to start, so this needs none: a call that hands over next to nothing costs next to nothing.
        if entry.gas < least_start_gas(schedule, readiness) {
            return Exit::failed(ExitStatus::OutOfGas);
        }
        // Code is checked before it is stored, so a failure is no one's fault but ours.
        let broken = |error| Exit::failed(ExitStatus::Fault(format!("stored code {code_hash} cannot run: {error}")));
        let id = &CodeId::new(schedule.version, code_hash);
        let ready = || self.ready(schedule, code_hash, stored_code).map_err(broken);
        self.on_enough_stack(|| {
            // The frame pays first; only then its code is loaded, or compiled where no artefact is.
            let start = self.start(id, stored_code).map_err(broken);
            let started = start.and_then(|start| start.pay(schedule, &entry, readiness));
            match started.and_then(|started| Ok((self.instance(id, ready)?, started))) {
                Ok((instance, started)) => self.run_in(instance, host, entry.input.clone(), started),
                Err(exit) => exit,
            }
        })
    }

    /// Returns the pages of native stacks to the system: this thread's, and those that threads share. Skips stacks in use.
    pub fn release_stacks(&self) {
        release_usual();
        self.inner.blocks.deep_stack.release();
        self.inner.calls.deep_stack.release();
    }

    pub fn has_spoken(&self) -> bool {
        self.inner.spoken.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn wasmtime(&self) -> &Engine {
        &self.inner.engine
    }

    #[cfg(test)]
    pub(super) fn shelf(&self) -> &Shelf {
        &self.kept().shelf
    }

    #[cfg(test)]
    pub(super) fn start_of(&self, code_hash: &B256) -> Option<Start> {
        self.inner.starts.get(code_hash)
    }

    #[cfg(test)]
    pub(super) fn recent_len(&self) -> usize {
        self.kept().recent.len()
    }

    #[cfg(test)]
    pub(super) fn is_recent(&self, id: &CodeId) -> bool {
        self.kept().recent.peek(id).is_some()
    }

    /// One that waited, or a fresh one. `Err`: there is none to be had, which is never the contract's fault.
    fn instance(&self, id: &CodeId, contract: impl FnOnce() -> Result<CompiledContract, Exit>) -> Result<Box<Instance>, Exit> {
        let shelf = &self.kept().shelf;
        if let Some(instance) = shelf.take(id) {
            return Ok(instance);
        }
        let contract = shelf.contract(id).map_or_else(contract, Ok)?;
        if !self.supposed.contains_key(id) {
            shelf.start_fresh(&contract);
        }
        let instance = Instance::new(&self.inner.engine, contract);
        instance.map(Box::new).map_err(|error| Exit::failed(ExitStatus::Fault(format!("{error:?}"))))
    }

    /// Enough for making code ready, and then to run nearly all code without another stack.
    fn on_enough_stack(&self, body: impl FnOnce() -> Exit) -> Exit {
        let bytes = NativeStack::BOUNDED.bytes(2 * Limits::TRANSACTION.stack_words);
        self.kept().deep_stack.run(bytes, body).unwrap_or_else(|error| no_stack(&error))
    }

    fn run_in(&self, mut instance: Box<Instance>, host: &mut dyn Host, input: Bytes, started: Started) -> Exit {
        host.code_is_paid();
        let bytes = instance.contract().native_stack().bytes(started.limits.stack_words);
        let result = self.kept().deep_stack.run(bytes, || instance.run(host, input, started.ink, started.limits));
        let result = match result {
            Ok(result) => result,
            Err(error) => return no_stack(&error),
        };
        let places = result
            .as_ref()
            .err()
            .filter(|_| self.inner.places)
            .map(|error| RawPlaces::of(error, instance.contract().schedule().version));
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
        if let (Some(places), ExitStatus::Trap(_) | ExitStatus::OutOfGas) = (places, &status) {
            host.failed_at(places);
        }
        let left = instance.ink().and_then(|ink| u64::try_from(ink).ok()).unwrap_or(0) / INK_PER_GAS;
        let output = std::mem::take(&mut instance.frame().output);
        // A trap ends a run and spoils nothing; otherwise who traps would have the kernel make new pages for every call.
        let is_kept = !matches!(status, ExitStatus::Fault(_))
            && !self.supposed.contains_key(instance.contract().id())
            && instance.renew();
        let kept = is_kept.then(|| {
            instance.contract().sign_of_use();
            instance
        });
        self.kept().shelf.end(kept, host.context().depth == 0);
        match status {
            ExitStatus::Return | ExitStatus::Revert => Exit { status, output, gas_left: left + started.unmetered },
            failed => Exit::failed(failed),
        }
    }
}

fn no_stack(error: &std::io::Error) -> Exit {
    Exit::failed(ExitStatus::Fault(format!("this machine gives no native stack: {error}")))
}

/// A trap that no host call ordered.
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
        // StackOverflow among them: our own count ends a run first.
        other => return ExitStatus::Fault(format!("wasmtime trap outside the chain's rules: {other}")),
    })
}

pub(super) fn fault(error: wasmtime::Error) -> CompileError {
    CompileError::Fault(format!("{error:?}"))
}

/// A module with every instruction that contracts may use; `every_construct.wat` is its text.
pub(super) const EVERY_CONSTRUCT: &[u8] = include_bytes!("every_construct.wasm");

/// Hashes of everything an artefact depends on besides the code, by gas version.
fn environments(engine: &Engine) -> Result<BTreeMap<u8, B256>, CompileError> {
    // Covers wasmtime's version, its settings and the processor's features.
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let compiler = hasher.finish();
    gas::ALL.iter().map(|schedule| Ok((schedule.version, environment(compiler, schedule, &emitted(schedule)?)))).collect()
}

/// `emitted` stands for the rules that no table names: what validation finds out, and what instrumentation adds.
pub(super) fn environment(compiler: u64, schedule: &Schedule, emitted: &[u8]) -> B256 {
    let text = format!("corniche {ABI_VERSION} {}", env!("CARGO_PKG_VERSION"));
    keccak256([text.as_bytes(), gas::describe(schedule).as_bytes(), &compiler.to_le_bytes(), emitted].concat())
}

/// What compilers are given for [`EVERY_CONSTRUCT`], and the facts that are kept beside their code.
pub(super) fn emitted(schedule: &'static Schedule) -> Result<Vec<u8>, CompileError> {
    let checked = validate::check_under(schedule, Rules::DEVELOPMENT, EVERY_CONSTRUCT)?;
    Facts::of(&checked)?.with(&instrument::instrument(&checked)?)
}
