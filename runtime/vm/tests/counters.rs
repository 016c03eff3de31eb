//! The functions of `corniche` from WebAssembly. Counters: results, the storage cache, prices. Randomness.
#![allow(clippy::unwrap_used)] // test helpers unwrap

mod common;
use alloy_primitives::{Address, B256, U256};
use common::{CONTRACT, GAS, TestState, module};
use corniche_vm::host::{Exit, ExitStatus, Trap};

/// Memory: key of slot 0 at 0, a word at 32, an amount at 64, a bound at 96; `answer` collects results from 256 on.
const IMPORTS: &str = r#"
    (import "vm_hooks" "read_args" (func $read_args (param i32)))
    (import "vm_hooks" "write_result" (func $write_result (param i32 i32)))
    (import "vm_hooks" "storage_load_bytes32" (func $load (param i32 i32)))
    (import "vm_hooks" "storage_cache_bytes32" (func $cache (param i32 i32)))
    (import "vm_hooks" "storage_flush_cache" (func $flush (param i32)))
    (import "corniche" "counter_add" (func $counter_add (param i32 i32 i32) (result i32)))
    (import "corniche" "counter_sub" (func $counter_sub (param i32 i32 i32) (result i32)))
    (global $at (mut i32) (i32.const 256))
    (func $answer (param i32) (i32.store8 (global.get $at) (local.get 0)) (global.set $at (i32.add (global.get $at) (i32.const 1))))
    (func $add (call $answer (call $counter_add (i32.const 0) (i32.const 64) (i32.const 96))))
    (func $sub (call $answer (call $counter_sub (i32.const 0) (i32.const 64) (i32.const 96))))
    (func $see (call $load (i32.const 0) (i32.const 128)) (call $answer (i32.load8_u (i32.const 159))))"#;

const ADD: &str = "(call $add)";
const SUB: &str = "(call $sub)";
const SEE: &str = "(call $see)";
const CACHE: &str = "(call $cache (i32.const 0) (i32.const 32))";
const FLUSH: &str = "(call $flush (i32.const 0))";
const SLOT: (Address, B256) = (CONTRACT, B256::ZERO);

fn wasm(body: &[&str]) -> Vec<u8> {
    module(
        IMPORTS,
        &format!(
            "(call $read_args (i32.const 32)) {} (call $write_result (i32.const 256) (i32.sub (global.get $at) (i32.const 256))) (i32.const 0)",
            body.join(" ")
        ),
    )
}

/// Runs the steps on a slot with value `base`. Returns the results and the slot's new value.
fn run(base: U256, word: U256, amount: U256, bound: U256, body: &[&str]) -> (TestState, Exit) {
    let mut world = TestState::default();
    world.storage.insert(SLOT, base.into());
    let input: Vec<u8> = [word, amount, bound].iter().flat_map(|number| number.to_be_bytes::<32>()).collect();
    let exit = world.run(&wasm(body), &input, GAS);
    (world, exit)
}

fn steps(base: u64, word: u64, amount: u64, bound: u64, body: &[&str]) -> (Vec<u8>, u64) {
    let [base, word, amount, bound] = [base, word, amount, bound].map(U256::from);
    let (world, exit) = run(base, word, amount, bound, body);
    assert_eq!(exit.status, ExitStatus::Return);
    (exit.output.to_vec(), U256::from_be_bytes(world.storage[&SLOT].0).to())
}

#[test]
fn counter_results() {
    assert_eq!(steps(5, 0, 3, 8, &[ADD, ADD]), (vec![0, 1], 8));
    assert_eq!(steps(5, 0, 3, 2, &[SUB, SUB]), (vec![0, 1], 2));
    assert_eq!(steps(5, 0, 0, 4, &[ADD, SUB]), (vec![1, 0], 5));
    for (base, amount, bound, call, answer, after) in [
        (U256::MAX, U256::from(1), U256::MAX, ADD, 1, U256::MAX),
        (U256::MAX, U256::MAX, U256::ZERO, SUB, 0, U256::ZERO),
        (U256::ZERO, U256::MAX, U256::MAX, ADD, 0, U256::MAX),
        (U256::ZERO, U256::from(1), U256::ZERO, SUB, 1, U256::ZERO),
    ] {
        let (world, exit) = run(base, U256::ZERO, amount, bound, &[call]);
        assert_eq!((exit.output.to_vec(), world.storage[&SLOT]), (vec![answer], after.into()));
    }
}

#[test]
fn count_flushes_and_reloads_cached_word() {
    // A cached word is written first, even if the count fails.
    assert_eq!(steps(5, 40, 3, 100, &[CACHE, ADD]), (vec![0], 43));
    assert_eq!(steps(5, 40, 3, 42, &[CACHE, ADD]), (vec![1], 40));
    assert_eq!(steps(5, 40, 3, 38, &[CACHE, SUB]), (vec![1], 40));
    // The next flush has nothing left to write over the counter.
    assert_eq!(steps(5, 40, 3, 100, &[CACHE, ADD, FLUSH]), (vec![0], 43));
    // Loaded or cached words are loaded again.
    assert_eq!(steps(5, 40, 3, 100, &[SEE, ADD, SEE]), (vec![5, 0, 8], 8));
    assert_eq!(steps(5, 40, 3, 100, &[CACHE, SEE, ADD, SEE, SEE]), (vec![40, 0, 43, 43], 43));
    // A word cached after the count is written by the flush, as usual.
    assert_eq!(steps(5, 40, 3, 100, &[ADD, CACHE, SEE, FLUSH]), (vec![0, 40], 40));
    assert_eq!(steps(5, 40, 3, 100, &[ADD, CACHE]), (vec![0], 8), "what is not flushed is lost");
}

#[test]
fn count_keeps_other_cached_words() {
    // Another key: 32 bytes at 33 start with the word's tail and are not zero.
    let other = "(call $cache (i32.const 33) (i32.const 32))";
    let (world, exit) = run(U256::from(5), U256::from(40), U256::from(3), U256::from(100), &[other, ADD]);
    assert_eq!((exit.status, world.storage.len()), (ExitStatus::Return, 1));
    let (world, _) = run(U256::from(5), U256::from(40), U256::from(3), U256::from(100), &[other, ADD, FLUSH]);
    assert_eq!(world.storage.len(), 2);
}

#[test]
fn static_frame_cannot_count() {
    for call in [ADD, SUB] {
        let exit = TestState::default().run_static(&wasm(&[call]), &[0; 96]);
        assert_eq!((exit.status, exit.gas_left), (ExitStatus::Trap(Trap::StaticViolation), 0));
    }
}

#[test]
fn invalid_pointer_counts_nothing() {
    for name in ["counter_add", "counter_sub"] {
        for at in 0..3 {
            let mut pointers = ["0", "64", "96"];
            pointers[at] = "65505";
            let call = pointers.map(|pointer| format!("(i32.const {pointer})")).join(" ");
            let (world, exit) =
                run(U256::from(5), U256::ZERO, U256::ZERO, U256::MAX, &[&format!("(drop (call ${name} {call}))")]);
            assert_eq!(exit.status, ExitStatus::Trap(Trap::MemoryOutOfBounds), "{name} {at}");
            assert_eq!(world.storage[&SLOT], B256::with_last_byte(5));
        }
    }
}

#[test]
fn table_and_host_prices_are_charged() {
    let (world, exit) = run(U256::from(5), U256::from(40), U256::from(3), U256::from(100), &[ADD, ADD, SUB]);
    assert_eq!(exit.status, ExitStatus::Return);
    let paid: Vec<_> = world
        .events
        .iter()
        .filter(|event| event.name.starts_with("counter_"))
        .map(|event| event.ink_before - event.ink_after)
        .collect();
    let base = corniche_abi::import("corniche", "counter_add").unwrap().ink;
    assert_eq!(paid, [5_000, 2_900, 2_900].map(|gas| base + gas * 10_000));
    // With a cached word to write first: costs one more store.
    let (world, _) = run(U256::from(5), U256::from(40), U256::from(3), U256::from(100), &[CACHE, ADD]);
    let event = world.events.iter().find(|event| event.name == "counter_add").unwrap();
    assert_eq!(event.ink_before - event.ink_after, base + (5_000 + 2_900) * 10_000);
}

const RANDOMNESS: &str = r#"
    (import "vm_hooks" "write_result" (func $write_result (param i32 i32)))
    (import "corniche" "block_randomness" (func $randomness (param i32)))"#;

#[test]
fn randomness_matches_header() {
    let wasm = module(
        RANDOMNESS,
        "(call $randomness (i32.const 64)) (call $write_result (i32.const 64) (i32.const 32)) (i32.const 0)",
    );
    let mut world = TestState::default();
    let exit = world.run(&wasm, &[], GAS);
    assert_eq!((exit.status, &exit.output[..]), (ExitStatus::Return, &[9; 32][..]));
    let event = world.events.iter().find(|event| event.name == "block_randomness").unwrap();
    assert_eq!(event.ink_before - event.ink_after, corniche_abi::import("corniche", "block_randomness").unwrap().ink);
    let exit = TestState::default().run_static(&wasm, &[]);
    assert_eq!((exit.status, &exit.output[..]), (ExitStatus::Return, &[9; 32][..]));
}

#[test]
fn randomness_checks_pointer() {
    for pointer in [65_505, 65_536, -1] {
        let wasm = module(RANDOMNESS, &format!("(call $randomness (i32.const {pointer})) (i32.const 0)"));
        assert_eq!(TestState::default().run(&wasm, &[], GAS).status, ExitStatus::Trap(Trap::MemoryOutOfBounds), "{pointer}");
    }
    let wasm = module(RANDOMNESS, "(call $randomness (i32.const 65504)) (i32.const 0)");
    assert_eq!(TestState::default().run(&wasm, &[], GAS).status, ExitStatus::Return);
}
