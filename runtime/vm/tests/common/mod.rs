//! An in-memory host with Ethereum-like prices for one contract and its neighbours, and helpers that build modules.
#![allow(dead_code)]

pub mod generate;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use corniche_vm::BlockEnv;
use corniche_vm::host::{
    CallKind, CallRequest, CallReturn, CallStatus, Charged, CreateRequest, CreateReturn, Delta, Exit, ExitStatus, FrameContext,
    Host, HostCallEvent, HostError, Limits, Trap,
};
use corniche_vm::wasm::{Backend, CompileError, EngineConfig, Entry, NoCache, WasmEngine, gas};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

pub const GAS: u64 = 10_000_000;
pub const CONTRACT: Address = Address::repeat_byte(0xcc);
pub const SENDER: Address = Address::repeat_byte(0x5e);

/// One engine per test binary, because its address space is large.
pub fn engine() -> WasmEngine {
    static ENGINE: OnceLock<WasmEngine> = OnceLock::new();
    ENGINE.get_or_init(|| WasmEngine::new(&EngineConfig::default(), Arc::new(NoCache)).expect("an engine")).clone()
}

/// Returns one engine per back end.
pub fn engine_of(backend: Backend) -> WasmEngine {
    static ENGINES: [OnceLock<WasmEngine>; Backend::ALL.len()] = [const { OnceLock::new() }; _];
    if backend == Backend::default() {
        return engine();
    }
    let config = EngineConfig { executors: 2, callers: 0, ..EngineConfig::default() };
    let engine = || WasmEngine::with_backend(&config, backend, Arc::new(NoCache)).expect("an engine");
    ENGINES[backend as usize].get_or_init(engine).clone()
}

/// State after a transaction. These tests have no rollback; the tests of the frame's rules cover it.
#[derive(Clone, Default)]
pub struct TestState {
    pub storage: BTreeMap<(Address, B256), B256>,
    pub transient: BTreeMap<(Address, B256), B256>,
    pub warm: BTreeSet<(Address, B256)>,
    pub logs: Vec<(Address, Vec<B256>, Bytes)>,
    pub code: BTreeMap<Address, Vec<u8>>,
    pub events: Vec<HostCallEvent>,
    /// Slots read by loads.
    pub loads: Vec<(Address, B256)>,
    pub open: Vec<Address>,
    /// Back end that runs the code.
    pub backend: Backend,
    /// Gas version under which the code was deployed; 0 means the latest.
    pub gas_version: u8,
}

/// One frame in a world.
pub struct TestHost<'a> {
    pub world: &'a mut TestState,
    pub context: FrameContext,
}

pub fn context() -> FrameContext {
    FrameContext {
        address: CONTRACT,
        caller: SENDER,
        value: U256::ZERO,
        origin: SENDER,
        gas_price: 1_000_000_007,
        is_static: false,
        reentrant: false,
        depth: 0,
        block: BlockEnv {
            rules: corniche_types::ProtocolRules::LATEST,
            chain_id: 412_346,
            number: 42,
            timestamp: 1_700_000_000,
            base_fee: 7,
            coinbase: Address::repeat_byte(0xfe),
            gas_limit: 30_000_000,
            randomness: B256::repeat_byte(9),
        },
    }
}

impl Host for TestHost<'_> {
    fn context(&self) -> &FrameContext {
        &self.context
    }

    fn storage_load(&mut self, key: &B256, _gas_left: u64) -> Result<Charged<B256>, HostError> {
        let slot = (self.context.address, *key);
        self.world.loads.push(slot);
        let gas = if self.world.warm.insert(slot) { 2_100 } else { 100 };
        Ok(Charged::new(self.world.storage.get(&slot).copied().unwrap_or_default(), gas))
    }

    fn storage_store(&mut self, key: &B256, value: &B256, gas_left: u64) -> Result<Charged<()>, HostError> {
        if self.context.is_static {
            return Err(HostError::StaticViolation);
        }
        if gas_left <= 2_300 {
            return Err(HostError::OutOfGas);
        }
        let slot = (self.context.address, *key);
        let cold = if self.world.warm.insert(slot) { 2_100 } else { 0 };
        let old = self.world.storage.insert(slot, *value).unwrap_or_default();
        let gas = match (old.is_zero(), old == *value) {
            (_, true) => 100,
            (true, _) => 20_000,
            _ => 2_900,
        };
        Ok(Charged::new((), gas + cold))
    }

    fn storage_count(&mut self, key: &B256, change: Delta, bound: &U256, _gas_left: u64) -> Result<Charged<bool>, HostError> {
        if self.context.is_static {
            return Err(HostError::StaticViolation);
        }
        let slot = (self.context.address, *key);
        let cold = if self.world.warm.insert(slot) { 2_100 } else { 0 };
        let old = U256::from_be_bytes(self.world.storage.get(&slot).copied().unwrap_or_default().0);
        let new = match change {
            Delta::Plus(amount) => old.checked_add(amount).filter(|new| new <= bound),
            Delta::Minus(amount) => old.checked_sub(amount).filter(|new| new >= bound),
        };
        let born = if new.is_some_and(|new| new > old) && old.is_zero() { 17_100 } else { 0 };
        if let Some(new) = new {
            self.world.storage.insert(slot, new.into());
        }
        Ok(Charged::new(new.is_some(), 2_900 + cold + born))
    }

    fn transient_load(&mut self, key: &B256, _gas_left: u64) -> Result<Charged<B256>, HostError> {
        Ok(Charged::new(self.world.transient.get(&(self.context.address, *key)).copied().unwrap_or_default(), 100))
    }

    fn transient_store(&mut self, key: &B256, value: &B256, _gas_left: u64) -> Result<Charged<()>, HostError> {
        if self.context.is_static {
            return Err(HostError::StaticViolation);
        }
        self.world.transient.insert((self.context.address, *key), *value);
        Ok(Charged::new((), 100))
    }

    fn emit_log(&mut self, topics: Vec<B256>, data: Bytes, gas_left: u64) -> Result<Charged<()>, HostError> {
        if self.context.is_static {
            return Err(HostError::StaticViolation);
        }
        let gas = 375 * (topics.len() as u64 + 1) + 8 * data.len() as u64;
        if gas > gas_left {
            return Err(HostError::OutOfGas);
        }
        self.world.logs.push((self.context.address, topics, data));
        Ok(Charged::new((), gas))
    }

    fn balance(&mut self, address: &Address, _gas_left: u64) -> Result<Charged<U256>, HostError> {
        Ok(Charged::new(U256::from(address[0]), 2_600))
    }

    fn code(&mut self, address: &Address, _gas_left: u64) -> Result<Charged<Bytes>, HostError> {
        Ok(Charged::new(self.world.code.get(address).cloned().unwrap_or_default().into(), 2_600))
    }

    fn code_hash(&mut self, address: &Address, _gas_left: u64) -> Result<Charged<B256>, HostError> {
        Ok(Charged::new(self.world.code.get(address).map(keccak256).unwrap_or_default(), 2_600))
    }

    fn call(&mut self, request: CallRequest) -> Result<CallReturn, HostError> {
        if self.context.is_static && !request.value.is_zero() {
            return Err(HostError::StaticViolation);
        }
        let given = request.gas_wanted.min(request.gas_left.saturating_sub(2_600) / 64 * 63);
        // Code that a test created without running it counts as no code.
        let Some(code) = self.world.code.get(&request.to).filter(|code| code.starts_with(b"\0asm")).cloned() else {
            return Ok(CallReturn { status: CallStatus::Success, output: Bytes::new(), gas: 2_600 });
        };
        if self.context.depth + 1 >= corniche_vm::host::MAX_CALL_DEPTH {
            return Ok(CallReturn { status: CallStatus::Failure, output: Bytes::new(), gas: 2_600 });
        }
        let mut context = self.context.clone();
        context.depth += 1;
        context.is_static |= request.kind == CallKind::Static;
        if request.kind != CallKind::Delegate {
            context.address = request.to;
            context.caller = self.context.address;
            context.value = request.value;
        }
        context.reentrant = self.world.open.contains(&context.address);
        let exit = run_code(self.world, &code, context, Entry { input: request.input, gas: given, limits: request.limits });
        let status = match exit.status {
            ExitStatus::Return => CallStatus::Success,
            ExitStatus::Revert => CallStatus::Revert,
            ExitStatus::Fault(text) => return Err(HostError::Fault(text)),
            _ => CallStatus::Failure,
        };
        Ok(CallReturn { status, output: exit.output, gas: 2_600 + given - exit.gas_left })
    }

    fn create(&mut self, request: CreateRequest) -> Result<CreateReturn, HostError> {
        if self.context.is_static {
            return Err(HostError::StaticViolation);
        }
        let address = Address::from_word(request.salt.unwrap_or(keccak256(&request.code)));
        self.world.code.insert(address, request.code.to_vec());
        Ok(CreateReturn { address: Some(address), output: Bytes::new(), gas: 32_000 })
    }

    fn trace(&mut self, event: &HostCallEvent) {
        self.world.events.push(*event);
    }
}

fn run_code(world: &mut TestState, code: &[u8], context: FrameContext, entry: Entry) -> Exit {
    let engine = engine_of(world.backend);
    let schedule = gas::schedule(world.gas_version).unwrap_or(gas::LATEST);
    let contract = engine.contract_under(schedule, &keccak256(code), code).expect("a contract that runs");
    world.open.push(context.address);
    let exit = engine.run(&contract, &mut TestHost { world, context }, entry);
    world.open.pop();
    exit
}

impl TestState {
    pub fn on(backend: Backend) -> Self {
        Self { backend, ..Self::default() }
    }

    pub fn run(&mut self, wasm: &[u8], input: &[u8], gas: u64) -> Exit {
        self.run_in(wasm, context(), input, gas)
    }

    pub fn run_in(&mut self, wasm: &[u8], context: FrameContext, input: &[u8], gas: u64) -> Exit {
        run_code(self, wasm, context, Entry { input: Bytes::copy_from_slice(input), gas, limits: Limits::TRANSACTION })
    }

    pub fn run_static(&mut self, wasm: &[u8], input: &[u8]) -> Exit {
        self.run_in(wasm, FrameContext { is_static: true, ..context() }, input, GAS)
    }
}

/// Returns a module with these imports and this body of the entrypoint.
pub fn module(imports: &str, body: &str) -> Vec<u8> {
    wat(&format!(
        r#"(module
            {imports}
            (memory (export "memory") 1 8)
            (func $main (export "user_entrypoint") (param $length i32) (result i32)
                {body}))"#
    ))
}

pub fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("the test's own text")
}

/// Returns the error of compiling a module.
pub fn refusal(wasm: &[u8]) -> String {
    match engine().compile(&keccak256(wasm), wasm) {
        Ok(_) => panic!("the module was accepted"),
        Err(CompileError::Fault(text)) => panic!("a fault instead of a refusal: {text}"),
        Err(error) => error.to_string(),
    }
}

pub fn accepted(wasm: &[u8]) {
    if let Err(error) = engine().compile(&keccak256(wasm), wasm) {
        panic!("refused: {error}");
    }
}

/// A function that calls itself, counts its depth in memory, and keeps `locals` locals alive across the call.
pub fn recursive(locals: usize) -> Vec<u8> {
    let declare = "i64 ".repeat(locals);
    let fill: String = (0..locals).map(|at| format!("(local.set {} (i64.load (i32.const {})))", at + 1, 8 * at + 8)).collect();
    let sum: String = (0..locals).map(|at| format!("(i64.store (i32.const {}) (local.get {}))", 8 * at + 8, at + 1)).collect();
    wat(&format!(
        r#"(module
            (import "vm_hooks" "write_result" (func $write_result (param i32 i32)))
            (memory (export "memory") 1)
            (func $deeper (param i32) (local {declare})
                {fill}
                (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
                (if (i32.lt_u (i32.load (i32.const 0)) (local.get 0)) (then (call $deeper (local.get 0))))
                {sum})
            (func (export "user_entrypoint") (param $length i32) (result i32)
                (call $deeper (local.get $length))
                (call $write_result (i32.const 0) (i32.const 4))
                (i32.const 0)))"#
    ))
}

/// Returns the greatest depth without a trap.
pub fn depth_limit(backend: Backend, wasm: &[u8]) -> u64 {
    let fits = |depth: u64| {
        let exit = TestState::on(backend).run(wasm, &vec![0; depth as usize], 1_000_000_000);
        assert!(matches!(exit.status, ExitStatus::Return | ExitStatus::Trap(Trap::StackExhausted)), "{:?}", exit.status);
        exit.status == ExitStatus::Return
    };
    let (mut low, mut high) = (0, 100_000);
    while low + 1 < high {
        let middle = (low + high) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    low
}

/// Returns a contract built by `make contracts`.
pub fn wasm(name: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let release = "wasm32-unknown-unknown/release";
    let places: Vec<PathBuf> = std::env::var_os("CONTRACTS_WASM_DIR")
        .map(PathBuf::from)
        .into_iter()
        .chain([root.join("target/contracts").join(release), root.join("contracts/target").join(release)])
        .collect();
    for place in &places {
        if let Ok(wasm) = std::fs::read(place.join(format!("{name}.wasm"))) {
            return wasm;
        }
    }
    panic!("{name}.wasm is not built: run `make contracts` first, or point CONTRACTS_WASM_DIR to it (looked into {places:?})");
}

pub fn selector(signature: &str) -> [u8; 4] {
    keccak256(signature)[..4].try_into().unwrap()
}

pub fn input(signature: &str, words: &[U256]) -> Vec<u8> {
    let words = words.iter().flat_map(|word| word.to_be_bytes::<32>());
    selector(signature).into_iter().chain(words).collect()
}
