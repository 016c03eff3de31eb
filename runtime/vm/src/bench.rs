//! Subjects of the virtual machine's benchmarks: one contract call, run by this crate and by wasmtime alone.
//!
//! This module defines what runs, not how it is timed. A [`Subject`] creates runners, one per thread, and a runner
//! makes the requested number of calls. All subjects of a [`Single`] call run the same module on equal storage with the
//! same input, without transactions or a state. Every call starts with that storage. The host does the minimum that the
//! contract needs, equally for all subjects.

mod bare;

use crate::host::{
    BlockEnv, CallRequest, CallReturn, Charged, CreateRequest, CreateReturn, Delta, Exit, ExitStatus, FrameContext, Host,
    HostError, Limits,
};
use crate::wasm::{CompileError, CompiledContract, EngineConfig, Entry, NoCache, WasmEngine, instrument, validate};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use std::sync::Arc;

const GAS: u64 = 10_000_000;
const TIMESTAMP: u64 = 1_800_000_000;

/// Baseline for the other subjects.
pub const BARE: &str = "bare wasmtime";

/// Makes this many calls; an error contains the reason why one failed.
pub type Runner = Box<dyn FnMut(u32) -> Result<(), String> + Send>;

/// One way to run a call.
pub struct Subject {
    pub name: &'static str,
    /// Creates a runner for another thread. All runners of a subject share an engine.
    pub runner: Box<dyn Fn() -> Runner + Send + Sync>,
}

/// One call of a contract, with its initial storage.
#[derive(Clone)]
pub struct Single {
    pub wasm: Vec<u8>,
    pub sender: Address,
    pub input: Bytes,
    /// Initial slots; all others are zero. Searched linearly, so there should be only a few.
    pub storage: Vec<(B256, B256)>,
}

/// Returns all subjects for this call, ours first. Fails if one of them cannot run it.
pub fn subjects(single: &Single, threads: u32) -> Result<Vec<Subject>, CompileError> {
    let config = EngineConfig { executors: threads, callers: 0, ..EngineConfig::default() };
    let single = Arc::new(single.clone());
    let ours = |name, config: &EngineConfig| EngineSubject::new(&single, config).map(|ours| ours.subject(name));
    let counted = instrument::instrument(&validate::check(&single.wasm)?)?;
    let bare = |name, wasm: &[u8], metering, optimise| {
        bare::subject(name, wasm, metering, optimise, threads, &single)
            .map_err(|error| CompileError::Fault(format!("{name}: {error:?}")))
    };
    use bare::Metering::{Fuel, Instrumented as Counted, Without};
    let subjects = vec![
        ours("ours", &config)?,
        ours("ours, no instance kept", &EngineConfig { idle_instance_bytes: 0, ..config })?,
        bare(BARE, &single.wasm, Without, true)?,
        bare("bare wasmtime, fuel", &single.wasm, Fuel, true)?,
        bare("bare wasmtime, our instrumentation", &counted, Counted, true)?,
        bare("bare wasmtime, unoptimised", &single.wasm, Without, false)?,
        bare("bare wasmtime, unoptimised, our instrumentation", &counted, Counted, false)?,
    ];
    for subject in &subjects {
        (subject.runner)()(1).map_err(|error| CompileError::Fault(format!("{}: {error}", subject.name)))?;
    }
    Ok(subjects)
}

#[derive(Clone)]
struct EngineSubject {
    engine: WasmEngine,
    contract: CompiledContract,
    single: Arc<Single>,
}

impl EngineSubject {
    fn new(single: &Arc<Single>, config: &EngineConfig) -> Result<Self, CompileError> {
        let engine = WasmEngine::new(config, Arc::new(NoCache))?;
        let contract = engine.contract(&keccak256(&single.wasm), &single.wasm)?;
        Ok(Self { engine, contract, single: single.clone() })
    }

    fn call(&self, host: &mut MinimalHost) -> Exit {
        host.storage.begin(&self.single);
        let entry = Entry { input: self.single.input.clone(), gas: GAS, limits: Limits::TRANSACTION };
        self.engine.run(&self.contract, host, entry)
    }

    fn subject(self, name: &'static str) -> Subject {
        let runner = move || {
            let ours = self.clone();
            let mut host = MinimalHost::new(ours.single.sender);
            let runner = move |calls: u32| {
                for _ in 0..calls {
                    let exit = ours.call(&mut host);
                    if exit.status != ExitStatus::Return {
                        return Err(format!("the call ended with {:?}", exit.status));
                    }
                }
                Ok(())
            };
            Box::new(runner) as Runner
        };
        Subject { name, runner: Box::new(runner) }
    }
}

/// A small storage.
#[derive(Default)]
struct Words(Vec<(B256, B256)>);

impl Words {
    /// Sets the initial storage. Allocates only in the first call.
    fn begin(&mut self, single: &Single) {
        self.0.clone_from(&single.storage);
    }

    fn get(&self, key: &B256) -> B256 {
        self.0.iter().find(|(have, _)| have == key).map_or(B256::ZERO, |(_, value)| *value)
    }

    fn set(&mut self, key: B256, value: B256) {
        match self.0.iter_mut().find(|(have, _)| *have == key) {
            Some((_, have)) => *have = value,
            None => self.0.push((key, value)),
        }
    }

    /// Changes a number and returns true, if the bound permits it.
    fn count(&mut self, key: B256, change: Delta, bound: U256) -> bool {
        let value = U256::from_be_bytes(self.get(&key).0);
        let sum = match change {
            Delta::Plus(amount) => value.checked_add(amount).filter(|sum| *sum <= bound),
            Delta::Minus(amount) => value.checked_sub(amount).filter(|rest| *rest >= bound),
        };
        sum.inspect(|sum| self.set(key, B256::from(*sum))).is_some()
    }
}

/// The minimum that a contract needs from a host.
struct MinimalHost {
    context: FrameContext,
    storage: Words,
}

impl MinimalHost {
    fn new(sender: Address) -> Self {
        let block = BlockEnv {
            rules: corniche_types::ProtocolRules::LATEST,
            chain_id: 7,
            number: 1,
            timestamp: TIMESTAMP,
            base_fee: 1,
            coinbase: Address::ZERO,
            gas_limit: GAS,
            randomness: B256::ZERO,
        };
        let context = FrameContext {
            address: Address::repeat_byte(0xcc),
            caller: sender,
            value: U256::ZERO,
            origin: sender,
            gas_price: 1,
            is_static: false,
            reentrant: false,
            depth: 0,
            block,
        };
        Self { context, storage: Words::default() }
    }
}

fn refused<T>() -> Result<T, HostError> {
    Err(HostError::Fault("host call not supported in the benchmark".into()))
}

impl Host for MinimalHost {
    fn context(&self) -> &FrameContext {
        &self.context
    }

    fn storage_load(&mut self, key: &B256, _: u64) -> Result<Charged<B256>, HostError> {
        Ok(Charged::new(self.storage.get(key), 100))
    }

    fn storage_store(&mut self, key: &B256, value: &B256, _: u64) -> Result<Charged<()>, HostError> {
        self.storage.set(*key, *value);
        Ok(Charged::new((), 100))
    }

    fn storage_count(&mut self, key: &B256, change: Delta, bound: &U256, _: u64) -> Result<Charged<bool>, HostError> {
        Ok(Charged::new(self.storage.count(*key, change, *bound), 100))
    }

    fn transient_load(&mut self, _: &B256, _: u64) -> Result<Charged<B256>, HostError> {
        refused()
    }

    fn transient_store(&mut self, _: &B256, _: &B256, _: u64) -> Result<Charged<()>, HostError> {
        refused()
    }

    fn emit_log(&mut self, _: Vec<B256>, _: Bytes, _: u64) -> Result<Charged<()>, HostError> {
        Ok(Charged::new((), 375))
    }

    fn balance(&mut self, _: &Address, _: u64) -> Result<Charged<U256>, HostError> {
        refused()
    }

    fn code(&mut self, _: &Address, _: u64) -> Result<Charged<Bytes>, HostError> {
        refused()
    }

    fn code_hash(&mut self, _: &Address, _: u64) -> Result<Charged<B256>, HostError> {
        refused()
    }

    fn call(&mut self, _: CallRequest) -> Result<CallReturn, HostError> {
        refused()
    }

    fn create(&mut self, _: CreateRequest) -> Result<CreateReturn, HostError> {
        refused()
    }
}
