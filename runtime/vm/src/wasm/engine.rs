//! wasmtime, configured so that nothing of it shows in a result.
//!
//! A frame takes an instance that served before and is as new ([`instance`](super::instance)); a fresh one comes from a pool. Slots are
//! made for memories of [`MAX_MEMORY_PAGES`], so growth within it needs no allocation that could fail; should it fail all the same, the
//! run is a fault.

use super::backend::{Backend, HOST_STACK_BYTES, THREAD_STACK_BYTES, WASM_STACK_BYTES, wasmtime_config};
use super::cache::{ModuleCache, Recent, seal, unseal};
use super::creation::{CreationError, unpack};
use super::gas::{self, GAS_VERSION, INK_PER_GAS};
use super::hostcalls::{self, Frame, Stop};
use super::image::Image;
use super::instance::{Counters, Exports, Instance, Shelf};
use super::instrument::{self, InstrumentError};
use super::validate::{self, ValidationError};
use crate::host::{Exit, ExitStatus, Host, Limits, MAX_CALL_DEPTH, Trap};
use alloy_primitives::{B256, Bytes, keccak256};
use corniche_abi::ABI_VERSION;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use wasmtime::{Engine, InstancePre, Linker, Module};

/// Gas that the start of any frame costs at least.
const LEAST_START_GAS: u64 = gas::start_ink(0, 0) / INK_PER_GAS;

/// More gas than this is not metered but handed back: ink has 63 bits.
const MAX_METERED_GAS: u64 = i64::MAX as u64 / INK_PER_GAS / 2;

/// What is local to a node; nothing here can change a result.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Transactions that may execute at the same time besides calls (`call_permit`).
    pub executors: u32,
    /// Calls, estimates and traces that may run at the same time.
    pub callers: u32,
    /// Machine code kept in memory.
    pub recent_bytes: usize,
    /// Memory of instances that wait for their next run, the machine code of their contracts included.
    pub waiting_bytes: usize,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { executors: 2, callers: 6, recent_bytes: 256 * 1024 * 1024, waiting_bytes: 256 * 1024 * 1024 }
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

/// Compiles and runs contracts. Cheap to clone.
#[derive(Clone)]
pub struct WasmEngine {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    linker: Linker<Frame>,
    /// Everything besides the code that an artefact depends on.
    environment: B256,
    artefacts: Arc<dyn ModuleCache>,
    recent: Recent,
    shelf: Shelf,
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
}

impl From<InstrumentError> for CompileError {
    fn from(error: InstrumentError) -> Self {
        Self::Fault(error.to_string())
    }
}

/// A module ready to run. Cheap to clone.
#[derive(Clone)]
pub struct CompiledContract {
    inner: Arc<Compiled>,
}

struct Compiled {
    code_hash: B256,
    /// Set by runs; see [`Recent::insert`].
    used: AtomicBool,
    pre: InstancePre<Frame>,
    exports: Exports,
    image: Image,
    initial_pages: u32,
    start_ink: u64,
    compile_gas: u64,
    machine_code_bytes: usize,
}

impl Compiled {
    /// What is left of a frame's gas, in ink, and of its limits once its start is paid for. `Err`: it cannot pay.
    fn start(&self, entry: &Entry) -> Result<(u64, Limits), Exit> {
        let metered = entry.gas.min(MAX_METERED_GAS);
        let ink = (metered * INK_PER_GAS).checked_sub(self.start_ink).ok_or(ExitStatus::OutOfGas);
        let pages = entry.limits.memory_pages.checked_sub(self.initial_pages);
        let ink = ink.map_err(Exit::failed)?;
        let memory_pages = pages.ok_or_else(|| Exit::failed(ExitStatus::Trap(Trap::MemoryExhausted)))?;
        Ok((ink, Limits { stack_words: entry.limits.stack_words, memory_pages }))
    }
}

impl CompiledContract {
    /// What a deployment of this module pays for compiling.
    pub fn compile_gas(&self) -> u64 {
        self.inner.compile_gas
    }

    /// What keeping it takes.
    pub(super) fn bytes(&self) -> usize {
        self.inner.machine_code_bytes + self.inner.image.bytes()
    }

    pub(super) fn parts(&self) -> (&InstancePre<Frame>, &Exports) {
        (&self.inner.pre, &self.inner.exports)
    }

    /// Leaves a sign that it is in use. Written once, so that threads do not take the line of cache from each other.
    fn sign_of_use(&self) {
        if !self.inner.used.load(Ordering::Relaxed) {
            self.inner.used.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn take_sign_of_use(&self) -> bool {
        self.inner.used.swap(false, Ordering::Relaxed)
    }

    pub(super) fn image(&self) -> &Image {
        &self.inner.image
    }
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
        let engine =
            wasmtime_config(backend, running.saturating_add(waiting)).and_then(|config| Engine::new(&config)).map_err(fault)?;
        let linker = hostcalls::linker(&engine).map_err(fault)?;
        Ok(Self {
            inner: Arc::new(Inner {
                environment: environment(&engine),
                engine,
                linker,
                artefacts,
                recent: Recent::new(config.recent_bytes),
                shelf: Shelf::new(transactions as usize, waiting as usize, config.waiting_bytes),
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

    /// Makes an account's code ready: from memory, from the cache of artefacts, or by compiling it.
    pub fn contract(&self, code_hash: &B256, stored_code: &[u8]) -> Result<CompiledContract, CompileError> {
        match self.inner.recent.get(code_hash) {
            Some(contract) => Ok(contract),
            None => self.compile(code_hash, &unpack(stored_code)?),
        }
    }

    /// The same for a module that is already unpacked.
    pub fn compile(&self, code_hash: &B256, wasm: &[u8]) -> Result<CompiledContract, CompileError> {
        self.compile_within(code_hash, wasm, u64::MAX)
    }

    /// The same for a deployment: compiles only what `gas` pays for, and answers the same whether or not it had to. Validation is never
    /// skipped, since it tells what a run needs besides machine code; it costs a fraction of compiling.
    pub fn compile_within(&self, code_hash: &B256, wasm: &[u8], gas: u64) -> Result<CompiledContract, CompileError> {
        let affordable = |needed| if needed > gas { Err(CompileError::OutOfGas { needed }) } else { Ok(()) };
        if let Some(contract) = self.inner.recent.get(code_hash) {
            affordable(contract.compile_gas())?;
            return Ok(contract);
        }
        let checked = validate::check(wasm)?;
        affordable(checked.compile_gas())?;
        let key = keccak256([self.inner.environment.as_slice(), code_hash.as_slice()].concat());
        let known = self.inner.artefacts.get(&key).and_then(|sealed| self.load(unseal(&sealed)?).ok());
        let module = match known {
            Some(module) => module,
            None => {
                let artefact = self.inner.engine.precompile_module(&instrument::instrument(&checked)?).map_err(fault)?;
                self.inner.artefacts.put(&key, &seal(&artefact));
                self.load(&artefact)?
            }
        };
        let contract = self.link(code_hash, &module, &checked)?;
        self.inner.recent.insert(*code_hash, contract.clone());
        Ok(contract)
    }

    /// Runs machine code that this node made.
    #[allow(unsafe_code)]
    fn load(&self, artefact: &[u8]) -> Result<Module, CompileError> {
        // SAFETY: `artefact` is what `precompile_module` of the same wasmtime answered: either just now, or read back from this node's own
        // cache with its hash intact. Artefacts never come from peers or clients. wasmtime itself refuses another version or configuration.
        unsafe { Module::deserialize(&self.inner.engine, artefact) }.map_err(fault)
    }

    fn link(
        &self,
        code_hash: &B256,
        module: &Module,
        checked: &validate::Checked<'_>,
    ) -> Result<CompiledContract, CompileError> {
        let lacks = |name| CompileError::Fault(format!("the instrumented module lacks {name}"));
        let code = module.image_range();
        Ok(CompiledContract {
            inner: Arc::new(Compiled {
                code_hash: *code_hash,
                used: AtomicBool::new(false),
                pre: self.inner.linker.instantiate_pre(module).map_err(fault)?,
                exports: Exports::of(module).map_err(lacks)?,
                image: Image::of(checked)?,
                initial_pages: checked.initial_pages,
                start_ink: gas::start_ink(checked.wasm.len(), checked.initial_pages),
                compile_gas: checked.compile_gas(),
                machine_code_bytes: code.end as usize - code.start as usize,
            }),
        })
    }

    /// Runs one frame from its start to its end.
    ///
    /// Needs much native stack and moves to a fresh one when the thread has less than a run may need; a thread with
    /// [`THREAD_STACK_BYTES`] never has to.
    pub fn run(&self, contract: &CompiledContract, host: &mut dyn Host, entry: Entry) -> Exit {
        on_enough_stack(|| {
            let instance = match self.inner.shelf.take(&contract.inner.code_hash) {
                Some(instance) => instance,
                None => match self.fresh(contract, &entry) {
                    Ok(instance) => instance,
                    Err(exit) => return exit,
                },
            };
            self.run_in(instance, host, entry)
        })
    }

    /// The same for code by its hash; `stored_code` is asked for when it has to be made ready.
    pub(super) fn run_code(
        &self,
        code_hash: &B256,
        stored_code: &dyn Fn() -> Option<Bytes>,
        host: &mut dyn Host,
        entry: Entry,
    ) -> Exit {
        // No code costs less to start, so this needs none: a call that hands over next to nothing costs next to nothing.
        if entry.gas < LEAST_START_GAS {
            return Exit::failed(ExitStatus::OutOfGas);
        }
        let ready = || {
            let contract = match self.inner.recent.get(code_hash) {
                Some(contract) => Ok(contract),
                None => match stored_code() {
                    Some(code) => self.contract(code_hash, &code),
                    None => Err(CompileError::Fault("it is missing".into())),
                },
            };
            // Code is checked before it is stored, so a failure is no one's fault but ours.
            let broken = |error| Exit::failed(ExitStatus::Fault(format!("stored code {code_hash} cannot run: {error}")));
            self.fresh(&contract.map_err(broken)?, &entry)
        };
        on_enough_stack(|| match self.inner.shelf.take(code_hash).map_or_else(ready, Ok) {
            Ok(instance) => self.run_in(instance, host, entry.clone()),
            Err(exit) => exit,
        })
    }

    #[cfg(test)]
    pub(super) fn wasmtime(&self) -> &Engine {
        &self.inner.engine
    }

    #[cfg(test)]
    pub(super) fn shelf(&self) -> &Shelf {
        &self.inner.shelf
    }

    /// `Err`: the frame cannot pay for its start, or no instance to be had, which is never the contract's fault.
    fn fresh(&self, contract: &CompiledContract, entry: &Entry) -> Result<Box<Instance>, Exit> {
        contract.inner.start(entry)?;
        let instance = Instance::new(&self.inner.engine, contract.clone());
        instance.map(Box::new).map_err(|error| Exit::failed(ExitStatus::Fault(format!("{error:?}"))))
    }

    fn run_in(&self, mut instance: Box<Instance>, host: &mut dyn Host, entry: Entry) -> Exit {
        let code_hash = instance.contract().inner.code_hash;
        let (ink, limits) = match instance.contract().inner.start(&entry) {
            Ok(start) => start,
            Err(exit) => {
                self.inner.shelf.put(code_hash, instance);
                return exit;
            }
        };
        let metered = entry.gas.min(MAX_METERED_GAS);
        let status = match instance.run(host, entry.input, ink, limits) {
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
        let (ExitStatus::Return | ExitStatus::Revert) = status else { return Exit::failed(status) };
        let left = instance.ink().and_then(|ink| u64::try_from(ink).ok()).unwrap_or(0) / INK_PER_GAS;
        let output = std::mem::take(&mut instance.frame().output);
        if instance.renew() {
            instance.contract().sign_of_use();
            self.inner.shelf.put(code_hash, instance);
        }
        Exit { status, output, gas_left: left + (entry.gas - metered) }
    }
}

/// Nested frames run on the native stack.
fn on_enough_stack<R>(body: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(WASM_STACK_BYTES + HOST_STACK_BYTES, THREAD_STACK_BYTES, body)
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
        // StackOverflow among them: our own count must end a run first.
        other => return ExitStatus::Fault(format!("wasmtime trap outside the chain's rules: {other}")),
    })
}

fn fault(error: wasmtime::Error) -> CompileError {
    CompileError::Fault(format!("{error:?}"))
}

/// Hash of everything an artefact depends on besides the code.
fn environment(engine: &Engine) -> B256 {
    // Covers wasmtime's version, its settings and the processor's features.
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let text = format!("corniche {ABI_VERSION} {GAS_VERSION} {}", env!("CARGO_PKG_VERSION"));
    keccak256([text.as_bytes(), gas::describe().as_bytes(), &hasher.finish().to_le_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    /// Artefacts in memory, and how often one was asked for in vain.
    #[derive(Default)]
    struct Artefacts {
        kept: Mutex<BTreeMap<B256, Vec<u8>>>,
        puts: AtomicU32,
    }

    impl ModuleCache for Artefacts {
        fn get(&self, key: &B256) -> Option<Vec<u8>> {
            self.kept.lock().unwrap().get(key).cloned()
        }

        fn put(&self, key: &B256, artefact: &[u8]) {
            self.puts.fetch_add(1, Ordering::Relaxed);
            self.kept.lock().unwrap().insert(*key, artefact.to_vec());
        }
    }

    fn engine(artefacts: &Arc<Artefacts>, recent_bytes: usize) -> WasmEngine {
        WasmEngine::new(&EngineConfig { executors: 1, callers: 2, recent_bytes, ..EngineConfig::default() }, artefacts.clone())
            .unwrap()
    }

    fn module(result: i32) -> Vec<u8> {
        let text = format!(
            r#"(module (memory (export "memory") 1) (func (export "user_entrypoint") (param i32) (result i32) i32.const {result}))"#
        );
        wat::parse_str(text).unwrap()
    }

    #[test]
    fn artefacts_are_compiled_once_and_damage_is_repaired() {
        let artefacts = Arc::new(Artefacts::default());
        let wasm = module(0);
        let hash = keccak256(&wasm);
        let puts = || artefacts.puts.load(Ordering::Relaxed);
        engine(&artefacts, 1 << 20).contract(&hash, &wasm).unwrap();
        engine(&artefacts, 1 << 20).contract(&hash, &wasm).unwrap();
        assert_eq!(puts(), 1);
        for at in [0, 31, 32, 500] {
            artefacts.kept.lock().unwrap().values_mut().next().unwrap()[at] ^= 0x40;
            engine(&artefacts, 1 << 20).contract(&hash, &wasm).unwrap();
        }
        assert_eq!(puts(), 5);
        // Intact, but not wasmtime's: whoever wrote it, nothing is run.
        *artefacts.kept.lock().unwrap().values_mut().next().unwrap() = seal(b"not an artefact");
        engine(&artefacts, 1 << 20).contract(&hash, &wasm).unwrap();
        assert_eq!(puts(), 6);
    }

    #[test]
    fn memory_for_recent_contracts_is_bounded() {
        let artefacts = Arc::new(Artefacts::default());
        let probe = engine(&artefacts, 1 << 30).contract(&B256::ZERO, &module(0)).unwrap().bytes();
        let engine = engine(&artefacts, 2 * probe);
        for number in [0, 1, 0, 2, 3, 0] {
            engine.contract(&B256::with_last_byte(number), &module(i32::from(number))).unwrap();
            assert!(engine.inner.recent.len() <= 2);
        }
        assert!(engine.inner.recent.get(&B256::with_last_byte(0)).is_some());
        assert!(engine.inner.recent.get(&B256::with_last_byte(1)).is_none());
    }

    #[test]
    fn calls_have_a_bounded_number_of_permits() {
        let engine = engine(&Arc::new(Artefacts::default()), 1 << 20);
        let (first, second) = (engine.call_permit(), engine.call_permit());
        assert!(first.is_some() && second.is_some() && engine.call_permit().is_none());
        drop(first);
        assert!(engine.call_permit().is_some());
    }
}
