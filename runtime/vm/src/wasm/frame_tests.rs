//! Native frames never exceed the bound of validation, on any back end.
//!
//! The size of a frame is read from the function's first instructions, so functions need not run.
#![allow(clippy::disallowed_methods)] // the environment has a number of modules, and a folder of contracts

use super::backend::Backend;
use super::config::EngineConfig;
use super::engine::WasmEngine;
use super::instance_tests::generate;
use super::validate::{self, Frame, ValidModule};
use super::{NoCache, instrument};
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use std::fmt::Write;
use std::sync::{Arc, OnceLock};
use wasmtime::Module;

fn engine(backend: Backend) -> &'static WasmEngine {
    static ENGINES: [OnceLock<WasmEngine>; Backend::ALL.len()] = [const { OnceLock::new() }; _];
    ENGINES[backend as usize].get_or_init(|| {
        let config = EngineConfig { executors: 1, callers: 0, ..EngineConfig::default() };
        WasmEngine::with_backend(&config, backend, Arc::new(NoCache)).unwrap()
    })
}

/// Back ends whose function prologues this test can parse.
fn readable() -> impl Iterator<Item = Backend> {
    Backend::ALL.into_iter().filter(|backend| *backend == Backend::Pulley || cfg!(target_arch = "x86_64"))
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Returns a function's stack bytes, including return address and frame pointer.
fn frame_bytes(backend: Backend, code: &[u8]) -> u32 {
    let find = |opcode: &[u8], number_bytes: usize| {
        let prologue = &code[..code.len().min(64)];
        let at = prologue.windows(opcode.len()).position(|window| window == opcode)? + opcode.len();
        code.get(at..at + number_bytes).map(number)
    };
    16 + match backend {
        // push_frame_save; push_frame, stack_alloc32
        Backend::Pulley => match code[0] {
            170 => number(&code[1..3]),
            168 if code[1] == 172 => number(&code[2..6]),
            168 => 0,
            // A function without a frame.
            _ => 0,
        },
        // add r11, imm32: the stack check adds the function's maximum use.
        Backend::Winch => find(&[0x49, 0x81, 0xc3], 4).unwrap(),
        // sub rsp, imm32 or imm8
        Backend::Cranelift | Backend::Optimising => {
            find(&[0x48, 0x81, 0xec], 4).or_else(|| find(&[0x48, 0x83, 0xec], 1)).unwrap_or(0)
        }
    }
}

fn frames(backend: Backend, checked: &ValidModule<'_>) -> Vec<(Frame, u32)> {
    let counted = instrument::instrument(checked).unwrap();
    let module = Module::new(engine(backend).wasmtime(), counted).unwrap();
    let sizes: Vec<u32> = module
        .functions()
        .map(|function| frame_bytes(backend, &module.text()[function.offset..function.offset + function.len]))
        .collect();
    checked.frames.iter().copied().zip(sizes).collect()
}

/// Checks each function; returns the maximum part of its bound that a frame uses, in per cent.
fn check(name: &str, wasm: &[u8]) -> u32 {
    let checked = validate::check(wasm).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut most = 0;
    for backend in readable() {
        for (index, (frame, bytes)) in frames(backend, &checked).into_iter().enumerate() {
            let bound = frame.native_bytes();
            assert!(
                bytes <= bound,
                "{name} on {backend:?}: function {index} takes {bytes} bytes, at most {bound} are counted: {frame:?}"
            );
            most = most.max(100 * bytes / bound);
        }
    }
    most
}

fn module(function: &str) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(module (memory (export "memory") 1 128) (type $t (func (param i32) (result i32))) (table 1 funcref) (elem (i32.const 0) $leaf)
            (global $g (mut i32) (i32.const 0)) (global $h (mut i64) (i64.const 0))
            (func $leaf (param i32) (result i32) (local.get 0)) (func $wide (param i64) (result i64) (local.get 0))
            {function}
            (func (export "user_entrypoint") (param i32) (result i32) (i32.const 0)))"#
    ))
    .unwrap()
}

/// Steps from an i32 to an i32. `SELF` is the value's previous content, `NEXT` that of another value.
const STEPS: [&str; 19] = [
    "(i32.add SELF (call $leaf NEXT))",
    "(i32.add (i32.load SELF) NEXT)",
    "(i32.xor SELF (i32.shl NEXT (i32.const 1)))",
    "(call $leaf SELF)",
    "(call_indirect (type $t) SELF (i32.const 0))",
    "(call_indirect (type $t) SELF (i32.load SELF))",
    "(i32.load SELF)",
    "(i32.load8_s offset=77 (i32.add SELF (i32.const 4)))",
    "(i32.add SELF (call $leaf (i32.const 7)))",
    "(i32.mul SELF SELF)",
    "(i32.div_s SELF (i32.or SELF (i32.const 1)))",
    "(i32.popcnt (i32.rotl SELF (i32.const 3)))",
    "(i32.wrap_i64 (i64.popcnt (call $wide (i64.extend_i32_s SELF))))",
    "(i32.wrap_i64 (i64.rem_u (i64.extend_i32_u SELF) (i64.load SELF)))",
    "(select SELF (call $leaf SELF) (i32.eqz SELF))",
    "(memory.grow SELF)",
    "(i32.add SELF (memory.size))",
    "(if (result i32) SELF (then (call $leaf SELF)) (else (i32.const 3)))",
    "(i32.add (global.get $g) (i32.lt_u SELF (i32.const 9)))",
];

/// Values that stay alive through the whole body, and a chain of values of which `window` are alive at a time.
fn chain(long: usize, window: usize, steps: usize, mut step: impl FnMut(usize) -> String) -> Vec<u8> {
    // Parameters: the allocator assigns their slots first.
    let mut text = format!("(func (param i32 {}) (local {})", "i32 ".repeat(long), "i32 ".repeat(window));
    for at in 0..window {
        write!(text, "(local.set {} (i32.load (i32.const {})))", 1 + long + at, 4 * at).unwrap();
    }
    for at in 0..steps {
        let local = 1 + long + at % window;
        let (own, next) = (format!("(local.get {local})"), format!("(local.get {})", 1 + long + (at + 1) % window));
        write!(text, "(local.set {local} {})", step(at).replace("SELF", &own).replace("NEXT", &next)).unwrap();
    }
    for at in 1..=long + window {
        write!(text, "(i32.store (i32.const {}) (local.get {at}))", 4 * at).unwrap();
    }
    module(&(text + ")"))
}

/// Writes locals in each of many branches, so that values join where the branches do.
fn joins(locals: usize, count: usize, loops: bool, nested: bool) -> Vec<u8> {
    let half = locals / 2;
    let copy = |at: usize, by: usize| -> String {
        // Each half is computed from the other, which stays alive.
        let (from, to) = if at.is_multiple_of(2) { (0, half) } else { (half, 0) };
        (0..half)
            .map(|local| format!("(local.set {} (local.get {}))", 1 + to + local, 1 + from + (local + by) % half))
            .collect()
    };
    let mut text = format!("(func (param i32) (local {})", "i32 ".repeat(2 * half));
    for at in 1..=2 * half {
        write!(text, "(local.set {at} (i32.load (i32.const {})))", 4 * at).unwrap();
    }
    for at in 0..count {
        let call = "(drop (call $leaf (i32.const 1)))";
        match (loops, nested) {
            (true, true) => write!(text, "(loop {} {call}", copy(at, 1)),
            (true, false) => write!(text, "(loop {} {call} (br_if 0 (local.get 0)))", copy(at, 1)),
            (false, true) => write!(text, "(if (local.get 0) (then {} {call}", copy(at, 1)),
            (false, false) => write!(text, "(if (local.get 0) (then {}) (else {} {call}))", copy(at, 1), copy(at, 2)),
        }
        .unwrap();
    }
    if nested {
        let close = if loops { "(br_if 0 (local.get 0)))" } else { "))" };
        text.push_str(&close.repeat(count));
    }
    for at in 1..=2 * half {
        write!(text, "(i32.store (i32.const {}) (local.get {at}))", 4 * at).unwrap();
    }
    module(&(text + ")"))
}

#[test]
fn frame_sizes_are_read() {
    let wasm = chain(20, 20, 2_000, |_| STEPS[0].into());
    for backend in readable() {
        let checked = validate::check(&wasm).unwrap();
        let (frame, bytes) = frames(backend, &checked)[2];
        // Slots of 8 bytes for most links, except where the back end keeps values in the slots of their locals.
        let expected = if backend == Backend::Winch { 21 * 4..=1_000 } else { 2_000 * 3..=2_000 * 17 };
        assert!(expected.contains(&bytes), "{backend:?}: {bytes} for {frame:?}");
    }
}

#[test]
fn chains_fit_counted_words() {
    for (at, step) in STEPS.iter().enumerate() {
        for (long, window) in [(0, 30), (12, 12), (12, 20), (40, 40)] {
            let most = check(step, &chain(long, window, 1_500, |_| (*step).into()));
            println!("{most} % of the bound: {long} long, {window} at once of {at}: {step}");
        }
    }
}

#[test]
fn joins_fit_counted_words() {
    for (loops, nested) in [(false, false), (false, true), (true, false), (true, true)] {
        for (locals, count) in [(8, 400), (40, 100), (100, 40), (300, 12)] {
            let most = check("joins", &joins(locals, count, loops, nested));
            println!("{most} % of the bound: {count} joins of {locals} locals, loops: {loops}, nested: {nested}");
        }
    }
}

#[test]
fn random_functions_fit_counted_words() {
    let modules = std::env::var("CORNICHE_MODULES").map_or(20, |text| text.parse().unwrap());
    let mut most = 0;
    for seed in 0..modules {
        let mut random = SplitMix64::seed_from_u64(seed);
        let mut below = |bound: u64| (random.next_u64() % bound) as usize;
        let (long, window, steps) = (below(60), 1 + below(40), 20 + below(1_000));
        let few = 1 + below(STEPS.len() as u64);
        let wasm = chain(long, window, steps, |_| STEPS[below(few as u64)].into());
        most = most.max(check(&format!("chain of seed {seed}"), &wasm));
        most = most.max(check(&format!("contract of seed {seed}"), &generate::contract(seed)));
    }
    println!("{most} % of the bound at most");
}

/// `cargo test -p corniche-vm --lib -- --ignored --nocapture measure_words_of_contracts`
#[test]
#[ignore = "prints figures"]
fn measure_words_of_contracts() {
    let folder = std::env::var("CONTRACTS_WASM_DIR").unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "wasm") {
            continue;
        }
        let wasm = std::fs::read(&path).unwrap();
        let Ok(checked) = validate::check(&wasm) else { continue };
        let most = check(&path.display().to_string(), &wasm);
        let alive = |frame: &Frame| Frame { counts_slots: false, ..*frame }.words();
        let worst = checked.frames.iter().max_by_key(|frame| frame.native_bytes() / alive(frame)).unwrap();
        let mean = |words: &dyn Fn(&Frame) -> u32| checked.frames.iter().map(words).sum::<u32>() / checked.frames.len() as u32;
        println!(
            "{}: {most} % of the bound at most; words {} counted, {} bounding on average, {} and {} at most; worst {worst:?}: {} bytes a word",
            path.file_name().unwrap().display(),
            mean(&alive),
            mean(&Frame::words),
            checked.frames.iter().map(alive).max().unwrap(),
            checked.frames.iter().map(Frame::words).max().unwrap(),
            worst.native_bytes() / alive(worst)
        );
    }
}
