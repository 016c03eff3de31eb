//! The compiler back end is never visible: outcome, gas, ink of every host call, state and logs are equal on all back
//! ends.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test helpers; a number of cases from the environment

mod common;
use alloy_primitives::{Address, B256, Bytes, U256};
use common::generate;
use common::{CONTRACT, GAS, SENDER, TestState, depth_limit, input, module, recursive, wasm, wat};
use corniche_vm::host::{Exit, ExitStatus, HostCallEvent, Trap};
use corniche_vm::wasm::Backend;
use corniche_vm::wasm::gas::{ALLOWED, Class};
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use std::collections::BTreeMap;

type Slots = BTreeMap<(Address, B256), B256>;

/// All visible effects of a run.
#[derive(Debug, PartialEq, Eq)]
struct RunEffects {
    exit: Exit,
    storage: Slots,
    transient: Slots,
    logs: Vec<(Address, Vec<B256>, Bytes)>,
    /// Every host call, with the ink before and after it.
    events: Vec<HostCallEvent>,
    loads: Vec<(Address, B256)>,
    created: Vec<Address>,
}

fn left(backend: Backend, wasm: &[u8], input: &[u8], gas: u64) -> RunEffects {
    let mut world = TestState::on(backend);
    // Calls reach the contract itself, also at the zero address, which is the most frequent one in memory.
    world.code.insert(CONTRACT, wasm.to_vec());
    world.code.insert(Address::ZERO, wasm.to_vec());
    let exit = world.run(wasm, input, gas);
    let TestState { storage, transient, logs, events, loads, code, .. } = world;
    RunEffects { exit, storage, transient, logs, events, loads, created: code.into_keys().collect() }
}

/// Runs twice on each back end: on a new instance and on a reused one.
fn agree(name: &str, wasm: &[u8], input: &[u8], gas: u64) -> RunEffects {
    agree_among(&Backend::ALL, name, wasm, input, gas)
}

fn agree_among(backends: &[Backend], name: &str, wasm: &[u8], input: &[u8], gas: u64) -> RunEffects {
    let expected = left(Backend::default(), wasm, input, gas);
    assert!(!matches!(expected.exit.status, ExitStatus::Fault(_)), "{name}: {:?}", expected.exit.status);
    for backend in backends {
        for time in ["first", "second"] {
            let found = left(*backend, wasm, input, gas);
            assert_eq!(found.exit, expected.exit, "{name} on {backend:?}, {time} time");
            let differs = found.events.iter().zip(&expected.events).position(|(found, expected)| found != expected);
            assert_eq!(differs, None, "the first host call of {name} that differs on {backend:?}, {time} time");
            assert!(found == expected, "{name} on {backend:?}, {time} time: {found:?} instead of {expected:?}");
        }
    }
    expected
}

#[test]
fn repository_contracts() {
    let run = |backend: Backend, name: &str, script: &[Vec<u8>]| {
        let wasm = wasm(name);
        let mut world = TestState::on(backend);
        let exits: Vec<Exit> = script
            .iter()
            .map(|input| {
                world.warm.clear();
                world.run(&wasm, input, GAS)
            })
            .collect();
        assert!(!exits.iter().any(|exit| matches!(exit.status, ExitStatus::Fault(_))));
        (exits, world.storage, world.logs, world.events)
    };
    let number = U256::from::<u64>;
    let (sender, friend) = (U256::from_be_slice(SENDER.as_slice()), U256::from(0xa11ce));
    let construct = |words: &[U256]| input("stylus_constructor()", words);
    let text = |letter: u8| U256::from_be_bytes([letter; 32]);
    let scripts: [(&str, Vec<Vec<u8>>); 3] = [
        (
            "counter",
            vec![
                input("increment()", &[]),
                input("add(uint256)", &[U256::MAX]),
                input("number()", &[]),
                input("nothing()", &[]),
            ],
        ),
        (
            "erc20",
            vec![
                construct(&[number(96), number(160), number(1_000), number(32), text(b'C'), number(3), text(b'D')]),
                input("transfer(address,uint256)", &[friend, number(10)]),
                input("transfer(address,uint256)", &[friend, number(10_000)]),
                input("approve(address,uint256)", &[sender, number(7)]),
                input("transferFrom(address,address,uint256)", &[sender, friend, number(6)]),
                input("transferFrom(address,address,uint256)", &[sender, friend, number(6)]),
                input("balanceOf(address)", &[friend]),
                input("name()", &[]),
                input("transfer(address,uint256)", &[friend]),
            ],
        ),
        (
            "mint",
            vec![
                construct(&[number(2)]),
                input("mint()", &[]),
                input("mintPlain()", &[]),
                input("mint()", &[]),
                input("totalSupply()", &[]),
            ],
        ),
    ];
    for (name, script) in scripts {
        let expected = run(Backend::default(), name, &script);
        assert!(
            expected.0.iter().any(|exit| exit.status == ExitStatus::Return)
                && expected.0.iter().any(|exit| exit.status == ExitStatus::Revert)
        );
        for backend in Backend::ALL {
            assert!(run(backend, name, &script) == expected, "{name} on {backend:?}");
        }
    }
}

/// Returns the name in the text format: `i64.load8_s` for `I64Load8S`.
fn text_name(name: &str) -> String {
    let mut text = name[..3].to_lowercase() + ".";
    for (at, letter) in name[3..].char_indices() {
        if letter.is_uppercase() && at > 0 && !name[3..].starts_with("WrapI64") {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text.replace("wrapi64", "wrap_i64")
}

#[test]
fn numeric_instruction_results() {
    let edges = [
        0i64,
        1,
        2,
        -1,
        31,
        32,
        63,
        64,
        0x7f,
        0x80,
        -0x80,
        0x8000,
        i32::MAX.into(),
        i32::MIN.into(),
        i64::MAX,
        i64::MIN,
        0x0123_4567_89ab_cdef,
    ];
    let mut seen = 0;
    for (name, class) in ALLOWED {
        if !matches!(class, Class::Alu | Class::Compare | Class::Multiply | Class::Divide) {
            continue;
        }
        let unary = ["Eqz", "Clz", "Ctz", "Popcnt", "Wrap", "Extend"].iter().any(|part| name.contains(part));
        let int = &name[..3].to_lowercase();
        let from = if name.contains("ExtendI32") {
            "i32"
        } else if name.contains("WrapI64") {
            "i64"
        } else {
            int
        };
        let compares = ["Eq", "Ne", "Lt", "Gt", "Le", "Ge"].iter().any(|part| name[3..].starts_with(part));
        let to = if compares { "i32" } else { int };
        let load = |at| format!("({from}.load (i32.const {at}))");
        let operands = if unary { load(0) } else { format!("{} {}", load(0), load(8)) };
        seen += 1;
        let wasm = module(
            r#"(import "vm_hooks" "read_args" (func $read_args (param i32))) (import "vm_hooks" "write_result" (func $write_result (param i32 i32)))"#,
            &format!(
                "(call $read_args (i32.const 0)) ({to}.store (i32.const 16) ({} {operands})) (call $write_result (i32.const 16) (i32.const 8)) i32.const 0",
                text_name(name)
            ),
        );
        for left in edges {
            for right in edges {
                agree(name, &wasm, &[left.to_le_bytes(), right.to_le_bytes()].concat(), 20_000);
                if unary {
                    break;
                }
            }
        }
    }
    assert_eq!(seen, 66);
}

#[test]
fn stack_exhaustion_at_same_depth() {
    for locals in [0, 1, 20, 340] {
        let wasm = recursive(locals);
        let limit = depth_limit(Backend::default(), &wasm);
        for backend in Backend::ALL {
            assert_eq!(depth_limit(backend, &wasm), limit, "{backend:?} with {locals} locals");
        }
        agree("a call too deep", &wasm, &vec![0; limit as usize + 1], 1_000_000_000);
    }
}

#[test]
fn every_exit_status() {
    let imports = r#"
        (import "vm_hooks" "call_contract" (func $call (param i32 i32 i32 i32 i64 i32) (result i32)))
        (import "vm_hooks" "read_args" (func $read_args (param i32)))
        (import "vm_hooks" "emit_log" (func $emit_log (param i32 i32 i32)))
        (import "vm_hooks" "exit_early" (func $exit (param i32)))
        (type $t (func)) (type $u (func (param i32)))
        (table 4 funcref) (elem (i32.const 0) $nothing $takes)
        (func $nothing) (func $takes (param i32))
        (func $forever (call $forever))"#;
    let nested = "(drop (call $call (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 64) (i64.const -1) (i32.const 128)))";
    let mut ends = Vec::new();
    for body in [
        "i32.const 0",
        "i32.const 1",
        "unreachable",
        "(call $exit (i32.const 0)) unreachable",
        "(call $exit (i32.const 3)) unreachable",
        "(i32.load (i32.const -1))",
        "(i32.load (i32.const 65533))",
        "(i64.store (i32.const 65529) (i64.const 1)) (i32.const 0)",
        "(i32.load offset=4294967295 (local.get $length))",
        "(i32.load offset=4294901760 (local.get $length))",
        "(i64.store offset=4294967295 (i32.const -1) (i64.const 1)) (i32.const 0)",
        "(i32.div_u (i32.const 1) (local.get $length))",
        "(i32.rem_s (i32.const 1) (local.get $length))",
        "(i32.div_s (i32.const -2147483648) (i32.sub (local.get $length) (i32.const 1)))",
        "(i32.rem_s (i32.const -2147483648) (i32.sub (local.get $length) (i32.const 1)))",
        "(call_indirect (type $t) (i32.const 0)) (i32.const 0)",
        "(call_indirect (type $t) (i32.const 1)) (i32.const 0)",
        "(call_indirect (type $t) (i32.const 2)) (i32.const 0)",
        "(call_indirect (type $t) (i32.const 4)) (i32.const 0)",
        "(call_indirect (type $t) (i32.const -1)) (i32.const 0)",
        "(memory.fill (i32.const 65530) (i32.const 1) (i32.const 7)) (i32.const 0)",
        "(memory.copy (i32.const 0) (i32.const -1) (i32.const 0)) (i32.const 0)",
        "(memory.copy (i32.const 100) (i32.const 90) (i32.const 400)) (i32.const 0)",
        "(drop (memory.grow (i32.const 7))) (i64.store (i32.const 524280) (i64.const 1)) (i32.sub (memory.size) (i32.const 8))",
        "(drop (memory.grow (i32.const 8))) (i32.add (memory.size) (memory.grow (i32.const -1)))",
        "(loop $again (br $again)) (i32.const 0)",
        "(call $forever) (i32.const 0)",
        "(loop $again (call $emit_log (i32.const 0) (i32.const 64) (i32.const 2)) (br $again)) (i32.const 0)",
        "(call $emit_log (i32.const 0) (i32.const 64) (i32.const 5)) (i32.const 0)",
        "(call $read_args (i32.const 65535)) (i32.const 0)",
        &format!("{nested} {nested} (i32.const 0)"),
        &format!("{nested} unreachable"),
        &format!("(drop (memory.grow (i32.const 7))) {nested} (i32.const 0)"),
    ] {
        let wasm = module(imports, body);
        for (input, gas) in [(&b""[..], 300_000), (&[7; 40], 300_000), (b"", 1_000), (b"", 1_300)] {
            let end = agree(body, &wasm, input, gas).exit.status;
            if !ends.contains(&end) {
                ends.push(end);
            }
        }
    }
    for trap in [
        Trap::Unreachable,
        Trap::StackExhausted,
        Trap::MemoryOutOfBounds,
        Trap::BadTableElement,
        Trap::BadSignature,
        Trap::DivisionByZero,
        Trap::IntegerOverflow,
    ] {
        assert!(ends.contains(&ExitStatus::Trap(trap.clone())), "nothing ended in {trap:?}");
    }
    assert!(ends.contains(&ExitStatus::Return) && ends.contains(&ExitStatus::Revert) && ends.contains(&ExitStatus::OutOfGas));
}

#[test]
fn wide_frames_and_large_functions() {
    let operands = wat(&format!(
        r#"(module (memory (export "memory") 1)
            (func $deeper (param i32) (result i32) {} (call $deeper (local.get 0)) {})
            (func (export "user_entrypoint") (param i32) (result i32) (call $deeper (local.get 0))))"#,
        "(i32.load (i32.const 4)) ".repeat(2_000),
        "i32.add ".repeat(2_000),
    ));
    agree("operands", &operands, b"", 100_000_000);
    let branches = module("", &format!("{} i32.const 0", "(block (br_if 0 (local.get 0)))".repeat(2_000)));
    agree("branches", &branches, b"x", GAS);
    let table: String = (0..600).map(|depth| format!("{} ", depth % 300)).collect();
    let nested =
        format!("{}(br_table {table} (i32.load8_u (i32.const 0))){} i32.const 0", "(block ".repeat(300), ")".repeat(300));
    agree("nested", &module("", &nested), b"", GAS);
}

/// Number of generated contracts that a test tries; `CORNICHE_MODULES` overrides it.
fn modules(usual: u64) -> u64 {
    std::env::var("CORNICHE_MODULES").map_or(usual, |text| text.parse().expect("CORNICHE_MODULES is a number"))
}

#[test]
fn generated_contracts() {
    let first = std::env::var("CORNICHE_SEED").map_or(0, |text| text.parse().expect("CORNICHE_SEED is a number"));
    let (mut ends, mut calls) = (BTreeMap::<String, u32>::new(), BTreeMap::<&str, u32>::new());
    for seed in first..first + modules(50) {
        let wasm = generate::contract(seed);
        let mut ran = Vec::new();
        // The input selects the functions to run: none of the module's own, all, or some.
        for input in [Vec::new(), vec![0xff; 320], generate::stretch(SplitMix64::seed_from_u64(seed).next_u64(), 320)] {
            let left = agree(&format!("seed {seed}"), &wasm, &input, 1_000_000);
            let used = 1_000_000 - left.exit.gas_left;
            *ends.entry(format!("{:?}", left.exit.status)).or_default() += 1;
            left.events.iter().for_each(|event| *calls.entry(event.name).or_default() += 1);
            ran.push(used);
        }
        // Runs out of gas in the middle, which reveals a back end that charges at another point.
        let short = ran[1].min(999_000) * 9 / 10;
        agree(&format!("seed {seed} with {short} gas"), &wasm, &[0xff; 320], short);
    }
    println!("{ends:?}\n{calls:?}");
    assert!(ends.len() >= 3 && calls.len() > 20, "too tame: {ends:?} {calls:?}");
}
