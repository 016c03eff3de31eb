//! Loading, caching and eviction of code.

use super::cache::{ModuleCache, NoCache, seal};
use super::config::EngineConfig;
use super::engine::{EVERY_CONSTRUCT, WasmEngine, emitted, environment};
use super::error::CompileError;
use super::gas::{self, Schedule};
use super::instance::Instance;
use super::instance_tests::{FixedHost, GAS, program};
use super::instrument;
use super::validate::{self, Rules};
use crate::host::{Entry, Exit, ExitStatus, Limits, Readiness};
use crate::machine::Machine;
use crate::price;
use crate::warm_code::CodeId;
use alloy_primitives::{B256, Bytes, keccak256};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Artefacts in memory, with counters of reads and writes; also records of starts.
#[derive(Default)]
struct Artefacts {
    kept: Mutex<BTreeMap<B256, Vec<u8>>>,
    records: Mutex<BTreeMap<B256, Vec<u8>>>,
    puts: AtomicU32,
    gets: AtomicU32,
}

/// Every artefact is longer.
const RECORD_BYTES: usize = 44;

impl ModuleCache for Artefacts {
    fn get(&self, key: &B256) -> Option<Vec<u8>> {
        if let Some(record) = self.records.lock().unwrap().get(key) {
            return Some(record.clone());
        }
        self.gets.fetch_add(1, Ordering::Relaxed);
        self.kept.lock().unwrap().get(key).cloned()
    }

    fn put(&self, key: &B256, artefact: &[u8]) {
        if artefact.len() == RECORD_BYTES {
            self.records.lock().unwrap().insert(*key, artefact.to_vec());
            return;
        }
        self.puts.fetch_add(1, Ordering::Relaxed);
        self.kept.lock().unwrap().insert(*key, artefact.to_vec());
    }
}

fn engine(artefacts: &Arc<Artefacts>, contract_cache_bytes: usize) -> WasmEngine {
    WasmEngine::new(
        &EngineConfig { executors: 1, callers: 2, contract_cache_bytes, ..EngineConfig::default() },
        artefacts.clone(),
    )
    .unwrap()
}

/// Returns the identifier of the code whose hash is this number.
fn id(number: u8) -> CodeId {
    CodeId::new(gas::LATEST.version, &B256::with_last_byte(number))
}

fn module(result: i32) -> Vec<u8> {
    let text = format!(
        r#"(module (memory (export "memory") 1) (func (export "user_entrypoint") (param i32) (result i32) i32.const {result}))"#
    );
    wat::parse_str(text).unwrap()
}

#[test]
fn damaged_artefact_is_recompiled() {
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
    // Intact, but not from wasmtime: it is never run.
    *artefacts.kept.lock().unwrap().values_mut().next().unwrap() = seal(b"not an artefact");
    engine(&artefacts, 1 << 20).contract(&hash, &wasm).unwrap();
    assert_eq!(puts(), 6);
}

#[test]
fn contract_cache_is_bounded() {
    let artefacts = Arc::new(Artefacts::default());
    let probe = engine(&artefacts, 1 << 30).contract(&B256::ZERO, &module(0)).unwrap().bytes();
    assert_eq!(probe, 64 << 10, "a small module counts for its mappings");
    let engine = engine(&artefacts, 2 * probe);
    for number in [0, 1, 0, 2, 3, 0] {
        engine.contract(&B256::with_last_byte(number), &module(i32::from(number))).unwrap();
        assert!(engine.recent_len() <= 2);
    }
    assert!(engine.is_recent(&id(0)));
    assert!(!engine.is_recent(&id(1)));
}

/// An artefact contains everything that a run needs. After a restart, or for a call that cannot pay, nothing is
/// unpacked, validated or loaded.
#[test]
fn code_is_loaded_only_without_artefact() {
    let artefacts = Arc::new(Artefacts::default());
    let hash = keccak256(module(0));
    let gets = || artefacts.gets.load(Ordering::Relaxed);
    engine(&artefacts, 1 << 20).compile(&hash, &module(0)).unwrap();
    let engine = engine(&artefacts, 0);
    let nobody = || panic!("nobody has to ask for the code");
    assert_eq!(
        engine.ready(gas::LATEST, &hash, &nobody).unwrap().compile_gas(),
        engine.compile(&hash, &module(0)).unwrap().compile_gas()
    );
    engine.ready(gas::LATEST, &B256::ZERO, &|| Some(module(1).into())).unwrap();
    assert!(!engine.is_recent(&CodeId::new(gas::LATEST.version, &hash)), "another one came");
    let before = gets();
    let start = engine.start_of(&hash).unwrap();
    let entry = |gas| Entry { input: Bytes::new(), gas, limits: Limits::TRANSACTION };
    let least = (0..).find(|gas| start.charge(gas::LATEST, &entry(*gas), Readiness::Warm).is_ok()).unwrap();
    let mut host = FixedHost::new();
    assert_eq!(engine.run_code(gas::LATEST, &hash, &nobody, &mut host, entry(least - 1)), Exit::failed(ExitStatus::OutOfGas));
    assert_eq!(gets(), before, "nothing was loaded for who cannot pay");
    engine.run_code(gas::LATEST, &hash, &nobody, &mut host, entry(least + 1_000));
    assert_eq!(gets(), before + 1);
}

/// The stored artefacts are not visible. A caller must not cause a compilation for the price of a failed call.
#[test]
fn start_is_paid_before_compilation() {
    let wasm = module(0);
    let hash = keccak256(&wasm);
    let entry = |gas| Entry { input: Bytes::new(), gas, limits: Limits::TRANSACTION };
    let out_of_gas = Exit::failed(ExitStatus::OutOfGas);
    let start = engine(&Arc::new(Artefacts::default()), 0).contract(&hash, &wasm).unwrap().start();
    let least = |readiness| (0..).find(|gas| start.charge(gas::LATEST, &entry(*gas), readiness).is_ok()).unwrap();
    let (warm, cold) = (least(Readiness::Warm), least(Readiness::Cold));
    let with_artefact = Arc::new(Artefacts::default());
    engine(&with_artefact, 0).contract(&hash, &wasm).unwrap();

    let nobody = || panic!("nobody has to ask for the code");
    for (gas, mut host) in [(700, FixedHost::cold()), (cold - 1, FixedHost::cold()), (warm - 1, FixedHost::new())] {
        let artefacts = Arc::new(Artefacts::default());
        let empty = engine(&artefacts, 0);
        assert_eq!(empty.run_code(gas::LATEST, &hash, &|| Some(wasm.clone().into()), &mut host, entry(gas)), out_of_gas);
        assert_eq!(engine(&with_artefact, 0).run_code(gas::LATEST, &hash, &nobody, &mut host, entry(gas)), out_of_gas);
        assert_eq!(artefacts.puts.load(Ordering::Relaxed), 0, "{gas} gas had the code compiled");
        // The facts for the price are stored from now on, also after a restart.
        if gas != 700 {
            for engine in [&empty, &engine(&artefacts, 0)] {
                assert_eq!(engine.run_code(gas::LATEST, &hash, &nobody, &mut host, entry(gas)), out_of_gas);
            }
        }
    }
    // With enough gas the result is always equal.
    for gas in [warm, warm + 1, cold, cold + 1_000] {
        let artefacts = Arc::new(Artefacts::default());
        let exit = engine(&artefacts, 0).run_code(
            gas::LATEST,
            &hash,
            &|| Some(wasm.clone().into()),
            &mut FixedHost::new(),
            entry(gas),
        );
        assert_eq!(engine(&with_artefact, 0).run_code(gas::LATEST, &hash, &nobody, &mut FixedHost::new(), entry(gas)), exit);
        assert_eq!(artefacts.puts.load(Ordering::Relaxed), 1);
    }
}

/// A deployment stores a record that outlives the artefact: it is valid for another binary or processor.
#[test]
fn start_record_outlives_artefact() {
    let artefacts = Arc::new(Artefacts::default());
    let wasm = module(0);
    let hash = keccak256(&wasm);
    engine(&artefacts, 0).compile(&hash, &wasm).unwrap();
    artefacts.kept.lock().unwrap().clear();
    let entry = Entry { input: Bytes::new(), gas: 6_000, limits: Limits::TRANSACTION };
    let unpaid = |code: &dyn Fn() -> Option<Bytes>| {
        let exit = engine(&artefacts, 0).run_code(gas::LATEST, &hash, code, &mut FixedHost::cold(), entry.clone());
        assert_eq!(exit, Exit::failed(ExitStatus::OutOfGas));
    };
    unpaid(&|| panic!("the record says what the start costs"));
    for at in 0..RECORD_BYTES {
        artefacts.records.lock().unwrap().values_mut().next().unwrap()[at] ^= 0x40;
        unpaid(&|| Some(wasm.clone().into()));
        unpaid(&|| panic!("a damaged record was written again"));
    }
}

#[test]
fn compile_ahead_avoids_compilation() {
    let artefacts = Arc::new(Artefacts::default());
    let wasm = module(0);
    let hash = keccak256(&wasm);
    let puts = || artefacts.puts.load(Ordering::Relaxed);
    assert_eq!(engine(&artefacts, 0).compile_ahead(gas::LATEST, &hash, &wasm), Ok(true));
    assert_eq!(engine(&artefacts, 0).compile_ahead(gas::LATEST, &hash, &wasm), Ok(false));
    // A directory of an earlier version has artefacts and no records.
    artefacts.records.lock().unwrap().clear();
    assert_eq!(engine(&artefacts, 0).compile_ahead(gas::LATEST, &hash, &wasm), Ok(false));
    assert_eq!(artefacts.records.lock().unwrap().len(), 1);
    let entry = Entry { input: Bytes::new(), gas: GAS, limits: Limits::TRANSACTION };
    let nobody = || panic!("nobody has to ask for the code");
    let exit = engine(&artefacts, 0).run_code(gas::LATEST, &hash, &nobody, &mut FixedHost::cold(), entry);
    assert_eq!((exit.status, puts()), (ExitStatus::Return, 1));
    assert!(matches!(engine(&artefacts, 0).compile_ahead(gas::LATEST, &B256::ZERO, b"\x60\x80"), Err(CompileError::Unpack(_))));
}

/// Overridden code costs as much as its deployment, and is dropped with the request.
#[test]
fn overridden_code_is_paid_and_not_kept() {
    let artefacts = Arc::new(Artefacts::default());
    let engine = engine(&artefacts, 1 << 20);
    let wasm = module(7);
    let hash = keccak256(&wasm);
    let price = price::CREATE + engine.prepare(&wasm.clone().into(), 1 << 30, 2).gas;
    assert_eq!(artefacts.puts.swap(0, Ordering::Relaxed), 1, "a deployment's is kept");
    artefacts.kept.lock().unwrap().clear();

    let engine = self::engine(&artefacts, 1 << 20);
    let mut supposing = engine.for_calls();
    for gas in [0, price::CREATE, price - 1] {
        let refused = supposing.add_override(gas::LATEST, &wasm, gas).unwrap_err();
        assert!(matches!(refused, CompileError::OutOfGas { needed } if gas < needed && needed <= price), "{refused}");
    }
    assert!(matches!(supposing.add_override(gas::LATEST, b"\0asm\x01\0\0\0", 1 << 30), Err(CompileError::Invalid(_))));
    assert!(matches!(supposing.add_override(gas::LATEST, b"\x60\x80", 1 << 30), Err(CompileError::Unpack(_))));
    assert_eq!(supposing.add_override(gas::LATEST, &wasm, price), Ok(price));
    assert_eq!(supposing.add_override(gas::LATEST, &wasm, price), Ok(price), "whether or not it is known");

    let nobody = || panic!("the code is known");
    let entry = Entry { input: Bytes::new(), gas: GAS, limits: Limits::TRANSACTION };
    let exit = supposing.run_code(gas::LATEST, &hash, &nobody, &mut FixedHost::new(), entry.clone());
    assert_eq!(exit.status, ExitStatus::Revert);
    assert_eq!(
        supposing.clone().run_code(gas::LATEST, &hash, &nobody, &mut FixedHost::new(), entry.clone()),
        exit,
        "clones know it too"
    );
    for other in [&engine, &engine.for_calls()] {
        let exit = other.run_code(gas::LATEST, &hash, &|| None, &mut FixedHost::new(), entry.clone());
        assert!(matches!(exit.status, ExitStatus::Fault(_)), "nobody else does: {exit:?}");
        assert_eq!((other.recent_len(), other.pool().len()), (0, 0));
    }
    assert_eq!(artefacts.puts.load(Ordering::Relaxed), 0);
}

/// A simulated deployment is not stored. The chain's code is, even if a call loads it first.
#[test]
fn calls_store_only_chain_artefacts() {
    let artefacts = Arc::new(Artefacts::default());
    let calls = engine(&artefacts, 1 << 20).for_calls();
    assert!(calls.prepare(&module(1).into(), 1 << 30, 2).contract.is_ok());
    assert_eq!(artefacts.puts.load(Ordering::Relaxed), 0);
    calls.contract(&keccak256(module(2)), &module(2)).unwrap();
    assert_eq!(artefacts.puts.load(Ordering::Relaxed), 1);
}

#[test]
fn call_permits_are_limited() {
    let engine = engine(&Arc::new(Artefacts::default()), 1 << 20);
    let (first, second) = (engine.call_permit(), engine.call_permit());
    assert!(first.is_some() && second.is_some() && engine.call_permit().is_none());
    drop(first);
    assert!(engine.call_permit().is_some());
}

/// The instance is reused after every end of a run. Otherwise a contract that traps would make the kernel provide new
/// pages for every call.
#[test]
fn only_memory_growth_drops_instance() {
    let engine =
        WasmEngine::new(&EngineConfig { executors: 1, callers: 1, ..EngineConfig::default() }, Arc::new(NoCache)).unwrap();
    let ends = [
        ("i32.const 0", 1),
        ("i32.const 1", 1),
        ("unreachable", 1),
        ("(i32.store (i32.const -1) (i32.const 1)) i32.const 0", 1),
        // Its mark would be in the contract's own memory, at 4,096.
        ("(i32.store (i32.const 71303168) (i32.const 1)) i32.const 0", 1),
        ("(i64.store offset=4294967295 (i32.const 65533) (i64.const -1)) i32.const 0", 1),
        ("(i64.store (i32.const 65533) (i64.const -1)) i32.const 0", 1),
        ("(i32.div_u (i32.const 1) (i32.const 0))", 1),
        ("(loop $again (i32.store (i32.const 5000) (i32.const 7)) (br $again)) i32.const 0", 1),
        ("(drop (memory.grow (i32.const 1))) i32.const 0", 0),
    ];
    for (number, (body, kept)) in ends.iter().enumerate() {
        let text = format!(
            r#"(module (memory (export "memory") 1 8) (func (export "user_entrypoint") (param i32) (result i32)
                (i64.store (i32.const 1020) (i64.const -1)) {body}))"#
        );
        let (hash, wasm) = (B256::with_last_byte(number as u8), wat::parse_str(text).unwrap());
        let contract = engine.compile(&hash, &wasm).unwrap();
        let untouched = Instance::new(engine.wasmtime(), contract.clone()).unwrap().memory().to_vec();
        for _ in 0..3 {
            let entry = Entry { input: Bytes::new(), gas: 100_000, limits: Limits::TRANSACTION };
            engine.run(&contract, &mut FixedHost::new(), entry);
            let waiting = engine.pool().take(contract.id());
            assert_eq!(waiting.is_some(), *kept == 1, "{body}");
            if let Some(mut instance) = waiting {
                assert!(instance.memory() == untouched && instance.frame().is_empty(), "{body}");
                engine.pool().end(Some(instance), false);
            }
        }
    }
}

/// Calls are free for their senders: they never evict anything that blocks keep.
#[test]
fn calls_do_not_evict_block_caches() {
    let wasm = |result: u8| program(&[], &[(0, result)]);
    let config = EngineConfig {
        executors: 1,
        callers: 1,
        idle_instance_bytes: 400_000,
        contract_cache_bytes: 200_000,
        ..EngineConfig::default()
    };
    let engine = WasmEngine::new(&config, Arc::new(NoCache)).unwrap();
    let calls = engine.for_calls();
    let run = |engine: &WasmEngine, number: u8| {
        let contract = engine.contract(&B256::with_last_byte(number), &wasm(number)).unwrap();
        let entry = Entry { input: Bytes::from_static(b"\0\0"), gas: GAS, limits: Limits::TRANSACTION };
        engine.run(&contract, &mut FixedHost::new(), entry);
    };
    run(&engine, 0);
    let of_blocks = B256::with_last_byte(0);
    for number in 1..=200 {
        run(&calls, number);
    }
    assert_eq!(engine.pool().len(), 1);
    assert!(engine.pool().take(&id(0)).is_some(), "blocks find their instance");
    assert!(engine.is_recent(&id(0)), "and their code");
    // Calls are bounded too, by a share of the limits for blocks.
    assert!((1..100).contains(&calls.pool().len()) && calls.pool().bytes() <= 400_000 / 4);
    assert!(!calls.is_recent(&id(1)) && calls.is_recent(&id(200)));
    // Code loaded for one purpose is used for the other.
    let nobody = || panic!("nobody has to ask for the code");
    let entry = Entry { input: Bytes::from_static(b"\0\0"), gas: GAS, limits: Limits::TRANSACTION };
    calls.run_code(gas::LATEST, &of_blocks, &nobody, &mut FixedHost::new(), entry.clone());
    engine.run_code(gas::LATEST, &B256::with_last_byte(200), &nobody, &mut FixedHost::new(), entry);
}

/// A change of validation or instrumentation must never use code that was compiled before it.
#[test]
fn rule_change_changes_artefact_key() {
    let mut keys = std::collections::BTreeSet::new();
    let mut add = |schedule: &Schedule, emitted: &[u8]| assert!(keys.insert(environment(7, schedule, emitted)));
    for schedule in gas::ALL {
        let emitted = emitted(schedule).unwrap();
        add(schedule, &emitted);
        for at in [0, emitted.len() / 2, emitted.len() - 1] {
            let mut changed = emitted.clone();
            changed[at] ^= 1;
            add(schedule, &changed);
        }
    }
    // Prices are in the emitted code, not only in the table.
    let dearer: [fn(&mut Schedule); 8] = [
        |schedule| schedule.branch += 1,
        |schedule| schedule.call += 1,
        |schedule| schedule.call_indirect += 1,
        |schedule| schedule.memory_grow += 1,
        |schedule| schedule.load_page += 1,
        |schedule| schedule.grown_page += 1,
        |schedule| schedule.regrown_page += 1,
        |schedule| schedule.counts_slots = false,
    ];
    let usual = emitted(&gas::V2).unwrap();
    for change in dearer {
        let mut schedule = gas::V2.clone();
        change(&mut schedule);
        assert_ne!(emitted(Box::leak(Box::new(schedule))).unwrap(), usual);
    }
}

/// The emitted code of a version is part of the chain's rules, like its prices.
#[test]
fn emitted_code_is_frozen() {
    let digests: String = gas::ALL
        .iter()
        .map(|schedule| {
            let checked = validate::check_with_schedule(schedule, Rules::DEVELOPMENT, EVERY_CONSTRUCT).unwrap();
            format!("{} {}\n", schedule.version, keccak256(instrument::instrument(&checked).unwrap()))
        })
        .collect();
    assert_eq!(digests, include_str!("../../tests/fixtures/emitted.txt"), "this needs a new gas version");
}

#[test]
fn fixture_has_every_instruction() {
    let text = include_str!("every_construct.wat");
    let wasm = wat::parse_str(text).unwrap();
    if std::env::var_os("WRITE_FIXTURES").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/wasm/every_construct.wasm"), &wasm).unwrap();
    }
    assert!(wasm == EVERY_CONSTRUCT, "every_construct.wasm is old");
    let mut there = String::new();
    for payload in wasmparser::Parser::new(0).parse_all(&wasm) {
        if let wasmparser::Payload::CodeSectionEntry(body) = payload.unwrap() {
            for operator in body.get_operators_reader().unwrap() {
                there.push_str(&format!("{:?} ", operator.unwrap()));
            }
        }
    }
    for (name, _) in gas::ALLOWED {
        assert!(there.contains(&format!("{name} ")), "{name} is missing");
    }
}
