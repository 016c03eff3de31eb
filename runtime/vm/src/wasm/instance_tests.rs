//! A reused instance behaves exactly like a fresh one.

use super::config::EngineConfig;
use super::contract::CompiledContract;
use super::engine::WasmEngine;
use super::instance::Instance;
use super::{NoCache, gas};
use crate::host::{
    BlockEnv, CallRequest, CallReturn, CallStatus, Charged, CreateRequest, CreateReturn, Delta, Exit, ExitStatus, FrameContext,
    Host, HostError, Limits, Readiness,
};
use crate::warm_code::CodeId;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use proptest::prelude::*;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};

pub(super) const GAS: u64 = 3_000_000;

fn engine() -> &'static WasmEngine {
    static ENGINE: OnceLock<WasmEngine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let config = EngineConfig { executors: 2, callers: 0, ..EngineConfig::default() };
        WasmEngine::new(&config, Arc::new(NoCache)).unwrap()
    })
}

/// A host with fixed answers.
pub(super) struct FixedHost {
    context: FrameContext,
    cold: bool,
}

impl FixedHost {
    pub(super) fn new() -> Self {
        let block = BlockEnv {
            rules: corniche_types::ProtocolRules::LATEST,
            chain_id: 7,
            number: 42,
            timestamp: 1_700_000_000,
            base_fee: 7,
            coinbase: Address::repeat_byte(0xfe),
            gas_limit: 30_000_000,
            randomness: B256::repeat_byte(9),
        };
        let (address, caller) = (Address::repeat_byte(0xcc), Address::repeat_byte(0x5e));
        let value = U256::from(3);
        let context = FrameContext {
            address,
            caller,
            value,
            origin: caller,
            gas_price: 11,
            is_static: false,
            reentrant: false,
            depth: 0,
            block,
        };
        Self { context, cold: false }
    }

    /// Creates a host whose code is cold.
    pub(super) fn cold() -> Self {
        Self { cold: true, ..Self::new() }
    }

    /// Creates a host for a nested frame.
    pub(super) fn nested() -> Self {
        let quiet = Self::new();
        Self { context: FrameContext { depth: 1, ..quiet.context }, ..quiet }
    }
}

impl Host for FixedHost {
    fn context(&self) -> &FrameContext {
        &self.context
    }
    fn code_readiness(&self) -> Readiness {
        if self.cold { Readiness::Cold } else { Readiness::Warm }
    }
    fn storage_load(&mut self, key: &B256, _: u64) -> Result<Charged<B256>, HostError> {
        Ok(Charged::new(keccak256(key), 100))
    }
    fn storage_store(&mut self, _: &B256, _: &B256, _: u64) -> Result<Charged<()>, HostError> {
        Ok(Charged::new((), 200))
    }
    fn storage_count(&mut self, _: &B256, _: Delta, _: &U256, _: u64) -> Result<Charged<bool>, HostError> {
        Ok(Charged::new(true, 100))
    }
    fn transient_load(&mut self, key: &B256, _: u64) -> Result<Charged<B256>, HostError> {
        Ok(Charged::new(keccak256(key), 100))
    }
    fn transient_store(&mut self, _: &B256, _: &B256, _: u64) -> Result<Charged<()>, HostError> {
        Ok(Charged::new((), 100))
    }
    fn emit_log(&mut self, _: Vec<B256>, _: Bytes, _: u64) -> Result<Charged<()>, HostError> {
        Ok(Charged::new((), 400))
    }
    fn balance(&mut self, address: &Address, _: u64) -> Result<Charged<U256>, HostError> {
        Ok(Charged::new(U256::from_be_slice(address.as_slice()), 100))
    }
    fn code(&mut self, address: &Address, _: u64) -> Result<Charged<Bytes>, HostError> {
        Ok(Charged::new(Bytes::copy_from_slice(address.as_slice()), 100))
    }
    fn code_hash(&mut self, address: &Address, _: u64) -> Result<Charged<B256>, HostError> {
        Ok(Charged::new(keccak256(address), 100))
    }
    fn call(&mut self, request: CallRequest) -> Result<CallReturn, HostError> {
        Ok(CallReturn { status: CallStatus::Success, output: request.input, gas: 700 })
    }
    fn create(&mut self, request: CreateRequest) -> Result<CreateReturn, HostError> {
        Ok(CreateReturn { address: Some(Address::from_word(keccak256(&request.code))), output: request.code, gas: 32_000 })
    }
}

/// All effects of a run: status, output, remaining ink, memory.
#[derive(PartialEq, Eq)]
struct RunEffects {
    end: String,
    output: Bytes,
    ink: Option<i64>,
    memory: Vec<u8>,
}

fn run(instance: &mut Instance, input: &[u8], gas: u64) -> RunEffects {
    let limits = Limits { memory_pages: 64, ..Limits::TRANSACTION };
    let result = instance.run(&mut FixedHost::new(), Bytes::copy_from_slice(input), gas * gas::INK_PER_GAS, limits);
    let end = match result {
        Ok(status) => format!("{status}"),
        Err(error) => match instance.frame().take_stop() {
            Some(stop) => format!("{stop:?}"),
            None => format!("{:?}", error.downcast_ref::<wasmtime::Trap>().expect("a trap")),
        },
    };
    let output = std::mem::take(&mut instance.frame().output);
    RunEffects { end, output, ink: instance.ink(), memory: instance.memory().to_vec() }
}

fn same(left: &RunEffects, right: &RunEffects) -> Result<(), TestCaseError> {
    prop_assert_eq!(&left.end, &right.end);
    prop_assert_eq!((&left.output, left.ink), (&right.output, right.ink));
    prop_assert_eq!(left.memory.len(), right.memory.len());
    let differs = left.memory.iter().zip(&right.memory).position(|(a, b)| a != b);
    prop_assert_eq!(differs, None, "the first byte of memory that differs");
    Ok(())
}

fn fresh(contract: &CompiledContract) -> Instance {
    Instance::new(engine().wasmtime(), contract.clone()).unwrap()
}

/// Runs each input on a reused instance and on a fresh one. Returns how often the instance could be kept.
fn compare(wasm: &[u8], inputs: &[Vec<u8>], gas: u64) -> Result<usize, TestCaseError> {
    let contract = engine().compile(&keccak256(wasm), wasm).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let untouched = fresh(&contract).memory().to_vec();
    let mut kept = 0;
    let mut served = fresh(&contract);
    for input in inputs {
        let (again, new) = (run(&mut served, input, gas), run(&mut fresh(&contract), input, gas));
        same(&again, &new)?;
        // Only growth prevents reuse, for every end of the run.
        if !served.renew() {
            served = fresh(&contract);
        } else {
            kept += 1;
            let differs = served.memory().iter().zip(&untouched).position(|(a, b)| a != b);
            prop_assert_eq!((served.memory().len(), differs), (untouched.len(), None), "after the run was {}", again.end);
        }
    }
    Ok(kept)
}

const PAGES: u32 = 2;

/// Addresses that are mostly close to the bounds of chunks and pages.
fn place() -> impl Strategy<Value = u32> {
    let near = (0..PAGES * 64, -40i64..40).prop_map(|(chunk, by)| (i64::from(chunk) * 1024 + by).clamp(0, 131_000) as u32);
    prop_oneof![3 => near, 1 => 0u32..131_000]
}

/// A change of a contract's memory or globals.
fn step() -> impl Strategy<Value = String> {
    let stores = ["i32.store", "i32.store8", "i32.store16", "i64.store", "i64.store8", "i64.store16", "i64.store32"];
    let store =
        (prop::sample::select(stores.to_vec()), place(), 0u32..5_000, any::<i32>()).prop_map(|(kind, at, offset, value)| {
            let (offset, base) = (offset.min(at), at - offset.min(at));
            let ty = &kind[..3];
            format!("({kind} offset={offset} (i32.const {base}) ({ty}.const {value}))")
        });
    let fill = (place(), any::<u8>(), 0u32..3_000)
        .prop_map(|(at, value, length)| format!("(memory.fill (i32.const {at}) (i32.const {value}) (i32.const {length}))"));
    let copy = (place(), place(), 0u32..3_000)
        .prop_map(|(to, from, length)| format!("(memory.copy (i32.const {to}) (i32.const {from}) (i32.const {length}))"));
    let global = (0u32..2, any::<i32>()).prop_map(|(global, value)| match global {
        0 => format!("(global.set $small (i32.xor (global.get $small) (i32.const {value})))"),
        _ => format!("(global.set $large (i64.add (global.get $large) (i64.const {value})))"),
    });
    let host = (0u32..12, place(), place()).prop_map(|(which, at, from)| match which {
        0 => format!("(call $read_args (i32.const {at}))"),
        1 => format!("(call $storage_load (i32.const {from}) (i32.const {at}))"),
        2 => format!("(call $msg_sender (i32.const {at}))"),
        3 => format!("(call $msg_value (i32.const {at}))"),
        4 => format!("(call $keccak (i32.const {from}) (i32.const 32) (i32.const {at}))"),
        5 => format!("(call $math_div (i32.const {at}) (i32.const {from}))"),
        6 => format!("(call $balance (i32.const {from}) (i32.const {at}))"),
        7 => format!("(drop (call $code (i32.const {from}) (i32.const 0) (i32.const 20) (i32.const {at})))"),
        8 => format!(
            "(drop (call $call (i32.const {from}) (i32.const {from}) (i32.const 48) (i32.const 0) (i64.const 9) (i32.const {at})))"
        ),
        9 => format!("(drop (call $return_data (i32.const {at}) (i32.const 0) (i32.const 48)))"),
        10 => format!("(call $create (i32.const {from}) (i32.const 40) (i32.const 0) (i32.const {at}) (i32.const {from}))"),
        _ => format!("(call $storage_cache (i32.const {from}) (i32.const {at})) (call $storage_flush (i32.const 1))"),
    });
    let rare = prop::sample::select(vec![
        "(drop (memory.grow (i32.const 1)))".to_string(),
        "(call $exit (i32.const 0))".into(),
        "unreachable".into(),
        "(i32.store (i32.const -5) (i32.const 1))".into(),
        "(i64.store offset=4294967295 (i32.const 7) (i64.const -1))".into(),
        "(memory.fill (i32.const -1) (i32.const 1) (i32.const 1))".into(),
        "(memory.copy (i32.const 0) (i32.const -65536) (i32.const 1))".into(),
    ]);
    prop_oneof![6 => store, 2 => fill, 2 => copy, 2 => global, 5 => host, 1 => rare]
}

/// Reports memory and globals, runs the steps that the input's bits select, then reports again.
pub(super) fn program(steps: &[String], data: &[(u32, u8)]) -> Vec<u8> {
    let mut body = String::new();
    for (at, step) in steps.iter().enumerate() {
        let _ =
            write!(body, "(if (i32.and (i32.shr_u (local.get $bits) (i32.const {})) (i32.const 1)) (then {step}))", at % 16);
    }
    let data: String =
        data.iter().map(|(at, byte)| format!("(data (i32.const {at}) \"\\{byte:02x}\\00\\{byte:02x}\")")).collect();
    let text = format!(
        r#"(module
            (import "vm_hooks" "read_args" (func $read_args (param i32)))
            (import "vm_hooks" "write_result" (func $write_result (param i32 i32)))
            (import "vm_hooks" "exit_early" (func $exit (param i32)))
            (import "vm_hooks" "storage_load_bytes32" (func $storage_load (param i32 i32)))
            (import "vm_hooks" "storage_cache_bytes32" (func $storage_cache (param i32 i32)))
            (import "vm_hooks" "storage_flush_cache" (func $storage_flush (param i32)))
            (import "vm_hooks" "msg_sender" (func $msg_sender (param i32)))
            (import "vm_hooks" "msg_value" (func $msg_value (param i32)))
            (import "vm_hooks" "native_keccak256" (func $keccak (param i32 i32 i32)))
            (import "vm_hooks" "math_div" (func $math_div (param i32 i32)))
            (import "vm_hooks" "account_balance" (func $balance (param i32 i32)))
            (import "vm_hooks" "account_code" (func $code (param i32 i32 i32 i32) (result i32)))
            (import "vm_hooks" "call_contract" (func $call (param i32 i32 i32 i32 i64 i32) (result i32)))
            (import "vm_hooks" "read_return_data" (func $return_data (param i32 i32 i32) (result i32)))
            (import "vm_hooks" "create1" (func $create (param i32 i32 i32 i32 i32)))
            (memory (export "memory") {PAGES} 8)
            (global $fixed i32 (i32.const 77))
            (global $small (mut i32) (i32.const 1234567))
            (global $large (mut i64) (i64.const -98765432109))
            {data}
            (func $report
                (call $keccak (i32.const 0) (i32.const 131040) (i32.const 131040))
                (i32.store (i32.const 131040) (i32.xor (i32.load (i32.const 131040)) (global.get $small)))
                (i64.store (i32.const 131048) (i64.xor (i64.load (i32.const 131048)) (global.get $large)))
                (call $write_result (i32.const 131040) (i32.const 32)))
            (func (export "user_entrypoint") (param $length i32) (result i32)
                (local $bits i32)
                (call $report)
                (call $read_args (i32.const 500))
                (local.set $bits (i32.load16_u (i32.const 500)))
                {body}
                (if (i32.and (local.get $bits) (i32.const 1)) (then (call $report)))
                (i32.and (local.get $bits) (i32.const 2))))"#
    );
    wat::parse_str(text).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reset_after_arbitrary_writes(
        steps in prop::collection::vec(step(), 1..32),
        data in prop::collection::vec((place(), any::<u8>()), 0..6),
        inputs in prop::collection::vec(prop::collection::vec(any::<u8>(), 2..70), 2..6),
    ) {
        compare(&program(&steps, &data), &inputs, GAS)?;
    }
}

#[test]
fn reset_covers_store_across_chunks() {
    for kind in ["i32.store", "i32.store8", "i32.store16", "i64.store", "i64.store8", "i64.store16", "i64.store32"] {
        let store = format!("({kind} (i32.load (i32.const 502)) ({}.const -1))", &kind[..3]);
        // On zeros, on data in the next chunk, and at the end of the first page.
        let wasm = program(&[store], &[(9 * 1024, 0x55), (9 * 1024 + 4, 0x66)]);
        for end in [5 * 1024u32, 9 * 1024, 65_536] {
            let inputs: Vec<_> = (0..9).map(|back| [&[1, 0][..], &(end - back).to_le_bytes()].concat()).collect();
            assert_eq!(compare(&wasm, &inputs, GAS).unwrap(), inputs.len());
        }
    }
}

/// Restoring the last chunk of a host page writes into the next page, whatever the store wrote there.
#[test]
fn pages_behind_a_store_are_counted() {
    let wasm = program(&["(i64.store (i32.load (i32.const 502)) (i64.const 0))".into()], &[]);
    let contract = engine().compile(&keccak256(&wasm), &wasm).unwrap();
    let resident = |at: u32| {
        let mut instance = fresh(&contract);
        run(&mut instance, &[&[1, 0][..], &at.to_le_bytes()].concat(), GAS);
        assert!(instance.renew());
        instance.resident()
    };
    let within = resident(3 * 4096 - 1024 - 1);
    for at in [3 * 4096 - 1024, 3 * 4096 - 8, 3 * 4096 - 1] {
        assert_eq!(resident(at), within + 4096);
    }
}

/// Random deployable modules, with every host call.
#[path = "../../tests/common/generate.rs"]
pub(super) mod generate;

#[test]
fn generated_contracts_match() {
    let (mut accepted, mut kept) = (0, 0);
    for seed in 0..120 {
        let Ok(wasm) = generate::from_bytes(&generate::stretch(seed, 500 + seed as usize * 20)) else { continue };
        accepted += 1;
        for gas in [20_000, GAS] {
            let some = generate::stretch(!seed, 320);
            kept += compare(&wasm, &[vec![], some, vec![0xff; 320], vec![]], gas).unwrap();
        }
    }
    assert!(accepted > 60 && kept > accepted, "{accepted} accepted, {kept} kept");
}

/// Returns a contract built by `make contracts`.
#[allow(clippy::disallowed_methods)]
fn built(name: &str) -> Vec<u8> {
    let folder = std::env::var("CONTRACTS_WASM_DIR").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/contracts/wasm32-unknown-unknown/release").into()
    });
    let path = format!("{folder}/{name}.wasm");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}; run `make contracts`, or set CONTRACTS_WASM_DIR"))
}

const SIGNATURES: [&str; 9] = [
    "increment()",
    "add(uint256)",
    "number()",
    "transfer(address,uint256)",
    "approve(address,uint256)",
    "transferFrom(address,address,uint256)",
    "balanceOf(address)",
    "name()",
    "stylus_constructor(string,string,uint256)",
];

/// Calldata that reaches some of a contract's code: a selector it may have, and words that are small, addresses or
/// random.
fn calldata() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        any::<u8>().prop_map(|small| B256::with_last_byte(small).0),
        any::<[u8; 20]>().prop_map(|address| Address::from(address).into_word().0),
        any::<[u8; 32]>(),
    ];
    let selector = prop_oneof![
        4 => prop::sample::select(SIGNATURES.to_vec()).prop_map(|signature| keccak256(signature)[..4].to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..5),
    ];
    (selector, prop::collection::vec(word, 0..5), prop::collection::vec(any::<u8>(), 0..32))
        .prop_map(|(selector, words, rest)| [selector, words.concat(), rest].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn reset_after_real_contracts(inputs in prop::collection::vec(calldata(), 1..6)) {
        for name in ["counter", "erc20"] {
            let kept = compare(&built(name), &inputs, GAS)?;
            // Neither grows: their allocations fit after their data.
            prop_assert_eq!(kept, inputs.len());
        }
    }
}

#[test]
fn pool_keeps_recent_instances() {
    let wasm = |result: u8| program(&[], &[(0, result)]);
    let config = EngineConfig { executors: 1, callers: 0, idle_instance_bytes: 400_000, ..EngineConfig::default() };
    let engine = WasmEngine::new(&config, Arc::new(NoCache)).unwrap();
    let contracts: Vec<_> =
        (0..20).map(|number| engine.compile(&B256::with_last_byte(number), &wasm(number)).unwrap()).collect();
    for contract in &contracts {
        let entry = super::Entry { input: Bytes::from_static(b"\0\0"), gas: GAS, limits: Limits::TRANSACTION };
        engine.run(contract, &mut FixedHost::new(), entry);
    }
    let pool = engine.pool();
    let kept = pool.len();
    assert!(kept > 0 && kept < contracts.len(), "{kept} are kept");
    assert!(pool.bytes() <= 400_000);
    assert!(pool.take(contracts[19].id()).is_some());
    assert!(pool.take(contracts[19].id()).is_none());
    assert!(pool.take(&CodeId::new(1, &B256::ZERO)).is_none());
}

/// Otherwise a call without gas would create instances and load code for the price of the call.
#[test]
fn unpaid_start_gets_no_instance() {
    let engine = WasmEngine::new(&EngineConfig::default(), Arc::new(NoCache)).unwrap();
    let hash = B256::with_last_byte(1);
    let contract = engine.compile(&hash, &program(&[], &[(0, 0)])).unwrap();
    let entry = |gas| super::Entry { input: Bytes::new(), gas, limits: Limits::TRANSACTION };
    let out_of_gas = Exit::failed(ExitStatus::OutOfGas);
    assert_eq!(engine.run(&contract, &mut FixedHost::new(), entry(600)), out_of_gas);
    assert_eq!(engine.pool().len(), 0, "none was made");
    let missing = || panic!("nobody asked for the code");
    let unknown = B256::with_last_byte(2);
    assert_eq!(
        engine.run_code(
            gas::LATEST,
            &unknown,
            &missing,
            &mut FixedHost::new(),
            entry(gas::start_ink(0, 0) / gas::INK_PER_GAS - 1)
        ),
        out_of_gas
    );
    engine.run(&contract, &mut FixedHost::new(), entry(GAS));
    assert_eq!(engine.pool().len(), 1);
}

/// Hundreds of instances are kept; they must not hold data of their runs.
#[test]
fn idle_instance_holds_no_data() {
    let engine = WasmEngine::new(&EngineConfig::default(), Arc::new(NoCache)).unwrap();
    for name in ["counter", "erc20"] {
        let hash = B256::with_last_byte(name.len() as u8);
        let contract = engine.compile(&hash, &built(name)).unwrap();
        let calls = [&b"\xd0\x9d\xe0\x8a"[..], &b"\x18\x16\x0d\xdd"[..], &[0x70, 0xa0, 0x82, 0x31, 0, 0, 0, 0]];
        for input in calls {
            let input = Bytes::from([input, &[0; 4_096]].concat());
            engine.run(&contract, &mut FixedHost::new(), super::Entry { input, gas: GAS, limits: Limits::TRANSACTION });
            if let Some(mut instance) = engine.pool().take(contract.id()) {
                assert!(instance.frame().is_empty());
                engine.pool().end(Some(instance), false);
            }
        }
        assert!(engine.pool().take(contract.id()).is_some(), "one was looked at");
    }
}
