//! Starts at the price of warm code find an instance.

use super::config::EngineConfig;
use super::contract::CompiledContract;
use super::engine::WasmEngine;
use super::instance_tests::{FixedHost, GAS};
use super::{CompileError, NoCache};
use crate::host::{Entry, ExitStatus, Limits};
use crate::warm_code::MAX_WARM_CODES;
use alloy_primitives::{B256, Bytes};
use std::sync::Arc;

/// An engine that keeps only what a transaction needs.
fn engine(executors: u32) -> WasmEngine {
    let config =
        EngineConfig { executors, callers: 0, idle_instance_bytes: 0, contract_cache_bytes: 0, ..EngineConfig::default() };
    WasmEngine::new(&config, Arc::new(NoCache)).unwrap()
}

/// Contracts that write to each host page of their memory.
fn contracts(engine: &WasmEngine, pages: u32) -> Result<Vec<CompiledContract>, CompileError> {
    let contract = |number: usize| {
        let text = format!(
            r#"(module (memory (export "memory") {pages}) (func (export "user_entrypoint") (param i32) (result i32)
                (loop $again
                    (i32.store (local.get 0) (i32.const {number}))
                    (local.set 0 (i32.add (local.get 0) (i32.const 4096)))
                    (br_if $again (i32.lt_u (local.get 0) (i32.const {}))))
                i32.const 0))"#,
            pages * 65_536
        );
        engine.compile(&B256::with_last_byte(number as u8), &wat::parse_str(text).unwrap())
    };
    (0..MAX_WARM_CODES + 1).map(contract).collect()
}

fn run(engine: &WasmEngine, contract: &CompiledContract, host: &mut FixedHost) {
    let entry = Entry { input: Bytes::new(), gas: GAS, limits: Limits::TRANSACTION };
    assert_eq!(engine.run(contract, host, entry).status, ExitStatus::Return);
}

/// Otherwise the kernel would provide pages for a transaction that pays the price of kept instances.
#[test]
fn warm_contracts_have_instances() {
    for (executors, pages) in [(1, 2), (3, 2), (16, 4)] {
        let engine = engine(executors);
        let contracts = contracts(&engine, pages).unwrap();
        let (warm, another) = contracts.split_at(MAX_WARM_CODES);
        for _ in 0..3 {
            warm.iter().for_each(|contract| run(&engine, contract, &mut FixedHost::nested()));
            assert_eq!(engine.pool().created(), MAX_WARM_CODES, "with {executors} executors");
        }
        assert!(engine.pool().bytes() > MAX_WARM_CODES * pages as usize * 65_536);
        // Another contract replaces the one that started first, so memory is bounded.
        run(&engine, &another[0], &mut FixedHost::nested());
        warm[1..].iter().for_each(|contract| run(&engine, contract, &mut FixedHost::nested()));
        assert_eq!((engine.pool().created(), engine.pool().len()), (MAX_WARM_CODES + 1, MAX_WARM_CODES));
        // After the transaction only the configured amount is kept: nothing.
        run(&engine, &warm[1], &mut FixedHost::new());
        assert_eq!((engine.pool().created(), engine.pool().len(), engine.pool().bytes()), (MAX_WARM_CODES + 1, 0, 0));
    }
}

/// Nested frames of one code need additional instances. Keeping these must not evict another contract's only instance.
#[test]
fn one_contract_does_not_evict_others() {
    let engine = engine(1);
    let contracts = contracts(&engine, 1).unwrap();
    let warm = &contracts[..MAX_WARM_CODES];
    warm.iter().for_each(|contract| run(&engine, contract, &mut FixedHost::nested()));
    let first = warm[0].id();
    for _ in 0..3 {
        let open = engine.pool().take(first).unwrap();
        assert!(engine.pool().take(first).is_none());
        assert!(engine.pool().contract(first).is_some(), "its code needs not be loaded again");
        (0..100).for_each(|_| run(&engine, &warm[0], &mut FixedHost::nested()));
        engine.pool().end(Some(open), false);
    }
    assert_eq!(engine.pool().len(), MAX_WARM_CODES, "what was beyond one of each was given up");
    let made = engine.pool().created();
    warm.iter().for_each(|contract| run(&engine, contract, &mut FixedHost::nested()));
    assert_eq!(engine.pool().created(), made);
}

/// A grown instance is not kept, but its contract is for a while.
#[test]
fn contracts_without_instances_are_limited() {
    let engine =
        WasmEngine::new(&EngineConfig { executors: 1, callers: 0, ..EngineConfig::default() }, Arc::new(NoCache)).unwrap();
    let text = r#"(module (memory (export "memory") 1 2)
        (func (export "user_entrypoint") (param i32) (result i32) (drop (memory.grow (i32.const 1))) i32.const 0))"#;
    let wasm = wat::parse_str(text).unwrap();
    for number in 0..200 {
        let contract = engine.compile(&B256::with_last_byte(number), &wasm).unwrap();
        run(&engine, &contract, &mut if number % 2 == 0 { FixedHost::nested() } else { FixedHost::new() });
        assert_eq!(engine.pool().len(), 0);
        assert!(engine.pool().contracts() <= MAX_WARM_CODES + 64);
    }
    assert_eq!(engine.pool().created(), 200);
}

/// `cargo test -p corniche-vm --lib -- --ignored --nocapture measure_alternating_contracts`
#[test]
#[ignore = "prints figures"]
#[allow(clippy::disallowed_types, clippy::print_stdout)]
fn measure_alternating_contracts() {
    for (executors, pages) in [(1, 64), (2, 64), (16, 64), (16, 8)] {
        let config = EngineConfig { executors, callers: 0, ..EngineConfig::default() };
        let engine = WasmEngine::new(&config, Arc::new(NoCache)).unwrap();
        let contracts = contracts(&engine, pages).unwrap();
        let turn = || {
            let begin = std::time::Instant::now();
            contracts[..MAX_WARM_CODES].iter().for_each(|contract| run(&engine, contract, &mut FixedHost::nested()));
            begin.elapsed()
        };
        let first = turn();
        let others = (0..5).map(|_| turn()).min().unwrap();
        println!(
            "{executors} executors, {MAX_WARM_CODES} contracts of {pages} pages: {first:?} at first, then {others:?} a turn"
        );
    }
}
