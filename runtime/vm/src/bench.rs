//! What a benchmark of the virtual machine measures: one contract call, as this crate runs it and as wasmtime alone does.
//!
//! Here is what runs, nothing of how it is timed: a [`Subject`] makes runners, one for each thread, and a runner makes as many calls as
//! asked. All subjects of a [`Workload`] run the same module on the same storage with the same input, without transactions and without
//! a state. The host does the least that lets the contract run, the same on both sides.

mod bare;

use crate::host::{
    BlockEnv, CallRequest, CallReturn, Charged, CreateRequest, CreateReturn, Exit, ExitStatus, FrameContext, Host, HostError,
    Limits, Sum,
};
use crate::wasm::{
    CONSTRUCTOR_SELECTOR, CompileError, CompiledContract, EngineConfig, Entry, NoCache, WasmEngine, instrument, validate,
};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use std::sync::Arc;

const GAS: u64 = 10_000_000;
const SENDER: Address = Address::repeat_byte(0x5e);
const RECEIVER: Address = Address::repeat_byte(0xa1);

/// Makes this many calls.
pub type Runner = Box<dyn FnMut(u32) + Send>;

/// One way to run a workload.
pub struct Subject {
    pub name: &'static str,
    /// A runner for one more thread. Runners of a subject share an engine.
    pub runner: Box<dyn Fn() -> Runner + Send + Sync>,
}

/// Which call of which contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// `contracts/counter`: one slot read and written, one event.
    CounterIncrement,
    /// `contracts/erc20`: two balances read and written, one event.
    Erc20Transfer,
}

impl Workload {
    pub const ALL: [Self; 2] = [Self::CounterIncrement, Self::Erc20Transfer];

    pub fn name(self) -> &'static str {
        match self {
            Self::CounterIncrement => "counter.increment",
            Self::Erc20Transfer => "erc20.transfer",
        }
    }

    /// The package whose module is to be handed to [`subjects`].
    pub fn contract(self) -> &'static str {
        match self {
            Self::CounterIncrement => "counter",
            Self::Erc20Transfer => "erc20",
        }
    }

    fn constructor(self) -> Option<Vec<u8>> {
        let word = |value: u64| U256::from(value).to_be_bytes::<32>();
        let text = [word(1), B256::right_padding_from(b"T").0].concat();
        (self == Self::Erc20Transfer)
            .then(|| [&CONSTRUCTOR_SELECTOR[..], &word(96), &word(160), &word(1 << 60), &text, &text].concat())
    }

    fn input(self) -> Bytes {
        let call = |signature: &str, words: &[B256]| {
            let words = words.iter().flat_map(|word| word.0);
            keccak256(signature)[..4].iter().copied().chain(words).collect()
        };
        match self {
            Self::CounterIncrement => call("increment()", &[]),
            Self::Erc20Transfer => call("transfer(address,uint256)", &[RECEIVER.into_word(), B256::with_last_byte(1)]),
        }
    }
}

/// Everything to be measured for this workload, `ours` first.
pub fn subjects(workload: Workload, wasm: &[u8], threads: u32) -> Result<Vec<Subject>, CompileError> {
    let config = EngineConfig { executors: threads, callers: 0, ..EngineConfig::default() };
    let reusing = Ours::new(workload, wasm, &config)?;
    let fresh =
        Ours { engine: WasmEngine::new(&EngineConfig { waiting_bytes: 0, ..config }, Arc::new(NoCache))?, ..reusing.clone() };
    let counted = instrument::instrument(&validate::check(wasm)?)?;
    let bare = |name, wasm: &[u8], metering, optimise| {
        bare::subject(name, wasm, metering, optimise, threads, reusing.storage.clone(), workload.input())
            .map_err(|error| CompileError::Fault(format!("{error:?}")))
    };
    use bare::Metering::{Fuel, Ours as Counted, Without};
    Ok(vec![
        reusing.subject("ours"),
        fresh.subject("ours, no instance kept"),
        bare("bare wasmtime", wasm, Without, true)?,
        bare("bare wasmtime, fuel", wasm, Fuel, true)?,
        bare("bare wasmtime, our instrumentation", &counted, Counted, true)?,
        bare("bare wasmtime, unoptimised", wasm, Without, false)?,
        bare("bare wasmtime, unoptimised, our instrumentation", &counted, Counted, false)?,
    ])
}

#[derive(Clone)]
struct Ours {
    engine: WasmEngine,
    contract: Arc<(B256, Vec<u8>)>,
    storage: Words,
    input: Bytes,
}

impl Ours {
    fn new(workload: Workload, wasm: &[u8], config: &EngineConfig) -> Result<Self, CompileError> {
        let engine = WasmEngine::new(config, Arc::new(NoCache))?;
        let contract = Arc::new((keccak256(wasm), wasm.to_vec()));
        let mut ours = Self { engine, contract, storage: Words::default(), input: workload.input() };
        if let Some(input) = workload.constructor() {
            let mut host = Least::new(Words::default());
            let exit = ours.call(&ours.compiled()?, &mut host, input.into());
            if exit.status != ExitStatus::Return {
                return Err(CompileError::Fault(format!("the constructor failed: {:?}", exit.status)));
            }
            ours.storage = host.storage;
        }
        Ok(ours)
    }

    fn compiled(&self) -> Result<CompiledContract, CompileError> {
        self.engine.contract(&self.contract.0, &self.contract.1)
    }

    fn call(&self, contract: &CompiledContract, host: &mut Least, input: Bytes) -> Exit {
        self.engine.run(contract, host, Entry { input, gas: GAS, limits: Limits::TRANSACTION })
    }

    fn subject(&self, name: &'static str) -> Subject {
        let ours = self.clone();
        let runner = move || {
            let ours = ours.clone();
            let mut host = Least::new(ours.storage.clone());
            let contract = ours.compiled().expect("it was compiled before");
            let runner = move |calls: u32| {
                for _ in 0..calls {
                    let exit = ours.call(&contract, &mut host, ours.input.clone());
                    assert_eq!(exit.status, ExitStatus::Return, "a call of the benchmark failed");
                }
            };
            Box::new(runner) as Runner
        };
        Subject { name, runner: Box::new(runner) }
    }
}

/// A few words of storage.
#[derive(Clone, Default)]
struct Words(Vec<(B256, B256)>);

impl Words {
    fn get(&self, key: &B256) -> B256 {
        self.0.iter().find(|(have, _)| have == key).map_or(B256::ZERO, |(_, value)| *value)
    }

    fn set(&mut self, key: B256, value: B256) {
        match self.0.iter_mut().find(|(have, _)| *have == key) {
            Some((_, have)) => *have = value,
            None => self.0.push((key, value)),
        }
    }
}

/// The least a contract needs.
struct Least {
    context: FrameContext,
    storage: Words,
}

impl Least {
    fn new(storage: Words) -> Self {
        let block = BlockEnv {
            chain_id: 7,
            number: 1,
            timestamp: 1,
            base_fee: 1,
            coinbase: Address::ZERO,
            gas_limit: GAS,
            randomness: B256::ZERO,
        };
        let context = FrameContext {
            address: Address::repeat_byte(0xcc),
            caller: SENDER,
            value: U256::ZERO,
            origin: SENDER,
            gas_price: 1,
            is_static: false,
            reentrant: false,
            depth: 0,
            block,
        };
        Self { context, storage }
    }
}

fn refused<T>() -> Result<T, HostError> {
    Err(HostError::Fault("the benchmark's contracts do not ask for this".into()))
}

impl Host for Least {
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

    fn storage_count(&mut self, _: &B256, _: Sum, _: &U256, _: u64) -> Result<Charged<bool>, HostError> {
        refused()
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
