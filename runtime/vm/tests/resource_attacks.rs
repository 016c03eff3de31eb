//! Malicious contracts: each ends in a bounded and paid failure, equal in every run and on a second back end.
// The measurements need a clock and output; test helpers unwrap.
#![allow(clippy::disallowed_types, clippy::unwrap_used, clippy::print_stdout)]

mod common;
#[path = "../benches/support/mod.rs"]
mod support;
use alloy_primitives::{Address, Bytes, keccak256};
use common::{CONTRACT, TestHost, TestState, context, engine, module, refusal, wasm, wat};
use corniche_vm::host::{Exit, ExitStatus, Limits, MAX_CALL_DEPTH, Trap};
use corniche_vm::wasm::gas::{self, INK_PER_GAS};
use corniche_vm::wasm::{Backend, EngineConfig, Entry, NoCache, WasmEngine, validate};
use std::sync::Arc;
use std::time::Instant;
use support::Artefacts;

const HOOKS: &str = r#"
    (import "vm_hooks" "call_contract" (func $call (param i32 i32 i32 i32 i64 i32) (result i32)))
    (import "vm_hooks" "read_args" (func $read_args (param i32)))
    (import "vm_hooks" "write_result" (func $write_result (param i32 i32)))
    (import "vm_hooks" "read_return_data" (func $read_return_data (param i32 i32 i32) (result i32)))
    (import "vm_hooks" "emit_log" (func $emit_log (param i32 i32 i32)))
    (import "vm_hooks" "storage_cache_bytes32" (func $cache (param i32 i32)))
    (import "vm_hooks" "math_mul_mod" (func $mul_mod (param i32 i32 i32)))
    (import "vm_hooks" "math_pow" (func $pow (param i32 i32)))
    (import "vm_hooks" "native_keccak256" (func $keccak (param i32 i32 i32)))"#;

/// Calls the contract at address zero with all remaining gas; the input is LENGTH bytes of memory.
const CALL: &str = "(call $call (i32.const 0) (i32.const 64) (i32.const LENGTH) (i32.const 0) (i64.const -1) (i32.const 32))";

fn harm(pages: u32, body: &str) -> Vec<u8> {
    wat(&format!(
        r#"(module {HOOKS} (memory (export "memory") {pages} 128)
            (func (export "user_entrypoint") (param $length i32) (result i32) (local $i i32) {body}))"#
    ))
}

/// Repeats `body` forever.
fn endless(body: &str) -> String {
    format!("(loop $again {body} (br $again)) i32.const 0")
}

/// Runs the contract, with itself at address zero, on the default back end, again, and on Winch. Also returns the world
/// after the run.
fn run(wasm: &[u8], input: &[u8], gas: u64) -> (Exit, TestState) {
    run_under(0, wasm, input, gas)
}

fn run_under(gas_version: u8, wasm: &[u8], input: &[u8], gas: u64) -> (Exit, TestState) {
    let once = |backend| {
        let mut world = TestState { gas_version, ..TestState::on(backend) };
        world.code.insert(Address::ZERO, wasm.to_vec());
        world.code.insert(CONTRACT, wasm.to_vec());
        (world.run(wasm, input, gas), world)
    };
    let (exit, world) = once(Backend::Cranelift);
    for backend in [Backend::Cranelift, Backend::Winch] {
        let (again, other) = once(backend);
        assert_eq!(again, exit, "on {backend:?}");
        assert!((&other.storage, &other.logs, &other.events) == (&world.storage, &world.logs, &world.events), "on {backend:?}");
    }
    (exit, world)
}

fn runs_out(body: &str, gas: u64) -> TestState {
    let (exit, world) = run(&harm(2, &endless(body)), b"", gas);
    assert_eq!((exit.status, exit.gas_left, exit.output.len()), (ExitStatus::OutOfGas, 0, 0), "{body}");
    world
}

/// Bodies of endless loops. Each round must pay at least for the memory it holds or the work it does.
const LOOPS: [(&str, &str); 9] = [
    ("nothing", ""),
    ("keccak of little", "(call $keccak (i32.const 0) (i32.const 1) (i32.const 0))"),
    ("keccak of much", "(call $keccak (i32.const 0) (i32.const 131072) (i32.const 0))"),
    ("fill", "(memory.fill (i32.const 0) (i32.const 1) (i32.const 131072))"),
    ("copy", "(memory.copy (i32.const 0) (i32.const 1) (i32.const 131071))"),
    ("copy of little", "(memory.copy (i32.const 0) (i32.const 1) (i32.const 1))"),
    ("result", "(call $write_result (i32.const 0) (i32.const 131072))"),
    ("mul mod", "(call $mul_mod (i32.const 0) (i32.const 32) (i32.const 64))"),
    (
        "pow",
        "(i64.store (i32.const 32) (i64.const -1)) (i64.store (i32.const 0) (i64.const -3)) (call $pow (i32.const 0) (i32.const 32))",
    ),
];

#[test]
fn endless_loops_run_out_of_gas() {
    for (_, body) in LOOPS {
        runs_out(body, 300_000);
    }
}

#[test]
fn log_memory_is_paid() {
    let gas = 2_000_000;
    for length in [32, 4_096, 131_072] {
        let world = runs_out(&format!("(call $emit_log (i32.const 0) (i32.const {length}) (i32.const 1))"), gas);
        let bytes: usize = world.logs.iter().map(|(_, topics, data)| 32 * topics.len() + data.len()).sum();
        // Eight gas per byte of data, and at least 375 per topic.
        assert!(bytes as u64 <= gas / 8 && world.logs.len() as u64 <= gas / 750, "{bytes} bytes in {} logs", world.logs.len());
    }
}

#[test]
fn storage_cache_memory_is_paid() {
    // Caches one word per round and never flushes.
    let world = runs_out(
        "(i32.store (i32.const 0) (local.tee $i (i32.add (local.get $i) (i32.const 1)))) (call $cache (i32.const 0) (i32.const 32))",
        1_000_000,
    );
    assert!(world.storage.is_empty());
    assert!(world.events.len() as u64 <= 1_000_000 * INK_PER_GAS / gas::INK_PER_CACHED_WORD, "{}", world.events.len());
}

#[test]
fn memory_is_limited_per_transaction() {
    // Grows memory to the limit, touches each page, and calls itself.
    let body = format!(
        "(drop (memory.grow (i32.const 127)))
         (loop $again
            (i32.store offset=4096 (local.get $i) (i32.const 1))
            (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 65536))) (i32.const 8380416))))
         (drop {}) (call $keccak (i32.const 0) (i32.const 0) (i32.const 0)) i32.const 0",
        CALL.replace("LENGTH", "0")
    );
    let (exit, world) = run(&harm(1, &body), b"", 100_000_000);
    assert_eq!(exit.status, ExitStatus::Return);
    // The frame that could not get its pages trapped, and its callers continued: 2,048 pages in all.
    assert_eq!(world.events.iter().filter(|event| event.name == "native_keccak256").count(), 2_048 / 128);
    // Each page was paid, and the gas of the failed frame is used up.
    assert!(100_000_000 - exit.gas_left > 2_048 / 128 * 127 * gas::LATEST.grown_page / INK_PER_GAS);
}

/// A recursive function whose compiled frame is far larger than its live values. Twelve parameters stay alive through
/// the whole body, and a sliding chain of values crosses calls, twelve at a time. Cranelift gives each link its own
/// stack slot.
fn sliding_chain(links: usize) -> Vec<u8> {
    let link = |at: usize| {
        let (own, next) = (12 + at % 12, 12 + (at + 1) % 12);
        format!("(local.set {own} (i32.add (local.get {own}) (call $leaf (local.get {next}))))")
    };
    let chain: String = (0..links).map(link).collect();
    let used: String = (0..24).map(|at| format!("(i32.store (i32.const {}) (local.get {at}))", 4 * at)).collect();
    let all: String = (1..12).map(|at| format!("(local.get {at}) ")).collect();
    wat(&format!(
        r#"(module (memory (export "memory") 1)
            (func $leaf (param i32) (result i32) (local.get 0))
            (func $deeper (param {0}) (local {0})
                (block (br_if 0 (local.get 0)) {chain})
                (call $deeper (i32.const 1) {all})
                {used})
            (func (export "user_entrypoint") (param i32) (result i32)
                (call $deeper {1}) (i32.const 0)))"#,
        "i32 ".repeat(12),
        "(i32.const 0) ".repeat(12),
    ))
}

#[test]
fn counted_stack_ends_before_native() {
    for links in [100, 2_000, 12_000] {
        for gas_version in [1, 2] {
            let (exit, _) = run_under(gas_version, &sliding_chain(links), b"", 30_000_000);
            assert_eq!(exit.status, ExitStatus::Trap(Trap::StackExhausted), "{links} links under version {gas_version}");
        }
    }
}

#[test]
fn nested_calls_end_at_depth_limit() {
    let body = format!("(drop {}) i32.const 0", CALL.replace("LENGTH", "0"));
    let (exit, world) = run(&harm(1, &body), b"", 1_000_000_000_000);
    assert_eq!(exit.status, ExitStatus::Return);
    assert_eq!(world.events.len(), MAX_CALL_DEPTH as usize, "one call a frame, of which the last fails");
    // With a block's gas, either the gas ends first or the limit is reached. Both are a success, with everything paid.
    let (exit, world) = run(&harm(1, &body), b"", 30_000_000);
    assert_eq!(exit.status, ExitStatus::Return);
    assert!(world.events.len() <= MAX_CALL_DEPTH as usize);
}

#[test]
fn nested_frames_share_stack_limit() {
    // Uses stack for a hundred frames of its own, then calls itself: the sum is bounded.
    let wasm = wat(&format!(
        r#"(module {HOOKS} (memory (export "memory") 1)
            (func $deeper (param i32) {}
                (if (local.get 0) (then (call $deeper (i32.sub (local.get 0) (i32.const 1))))
                    (else (drop {}))))
            (func (export "user_entrypoint") (param i32) (result i32) (call $deeper (i32.const 100)) i32.const 0))"#,
        "(local i64 i64 i64 i64 i64 i64 i64 i64)",
        CALL.replace("LENGTH", "0")
    ));
    let (exit, world) = run(&wasm, b"", 100_000_000);
    assert_eq!(exit.status, ExitStatus::Return);
    assert!((10..100).contains(&world.events.len()), "{} frames", world.events.len());
}

#[test]
fn forwarded_data_is_paid_at_each_call() {
    let size = 120_000;
    let body = format!(
        "(call $read_args (i32.const 64)) (drop {}) (drop (call $read_return_data (i32.const 64) (i32.const 0) (i32.const {size})))
         (call $write_result (i32.const 64) (i32.const {size})) i32.const 0",
        CALL.replace("LENGTH", &size.to_string())
    );
    let gas = 3_000_000;
    let (exit, world) = run(&harm(2, &body), &vec![7; size], gas);
    assert_eq!((exit.status, exit.output.len()), (ExitStatus::Return, size));
    let frames = world.events.iter().filter(|event| event.name == "write_result").count() as u64;
    // Four copies per frame: input, argument of the nested call, its result, own result.
    let bytes = 4 * size as u64 * gas::INK_PER_HOST_BYTE / INK_PER_GAS;
    assert!(frames > 10 && frames * bytes <= gas, "{frames} frames");
    // Unpaid bytes are not copied: the call ends immediately, before the bounds check.
    let (exit, _) = run(&harm(1, "(call $write_result (i32.const 0) (i32.const -1)) i32.const 0"), b"", 1_000_000);
    assert_eq!(exit.status, ExitStatus::OutOfGas);
    let (exit, _) = run(&harm(1, "(call $write_result (i32.const 0) (i32.const 70000)) i32.const 0"), b"", 100_000_000);
    assert_eq!(exit.status, ExitStatus::Trap(Trap::MemoryOutOfBounds));
}

#[test]
fn held_results_are_paid() {
    // In each frame a neighbour returns its whole memory; the frame keeps the result and calls itself.
    let large = 128 * 65_536;
    let neighbour = wat(&format!(
        r#"(module {HOOKS} (memory (export "memory") 128)
            (func (export "user_entrypoint") (param i32) (result i32) (call $write_result (i32.const 0) (i32.const {large})) i32.const 0))"#
    ));
    let wasm = wat(&format!(
        r#"(module {HOOKS} (import "vm_hooks" "contract_address" (func $self (param i32))) (memory (export "memory") 1)
            (func (export "user_entrypoint") (param i32) (result i32)
                (drop {}) (call $self (i32.const 0)) (drop {}) i32.const 0))"#,
        CALL.replace("LENGTH", "0"),
        CALL.replace("LENGTH", "0"),
    ));
    let gas = 30_000_000;
    let mut world = TestState::default();
    world.code.insert(Address::ZERO, neighbour);
    world.code.insert(CONTRACT, wasm.clone());
    world.run(&wasm, b"", gas);
    let answers = world.events.iter().filter(|event| event.name == "write_result").count() as u64;
    assert!(answers > 2 && answers * large <= 128 << 20, "{answers} answers of {large} bytes are held");
}

/// Modules that are extremely expensive to compile, and modules that are refused for this reason.
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let functions = |count: usize, body: &str| {
        wat(&format!(
            r#"(module (memory (export "memory") 1) {} (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#,
            format!("(func {body})").repeat(count)
        ))
    };
    let blocks =
        |count: usize, inner: &str| module("", &format!("{}{inner}{} i32.const 0", "(block ".repeat(count), ")".repeat(count)));
    vec![
        ("functions", functions(4_000, "")),
        ("functions with locals", functions(4_000, "(local i64 i64 i64 i64) (local.set 0 (local.get 1))")),
        ("locals", functions(1_000, &format!("(local {})", "i64 ".repeat(340)))),
        ("nesting", blocks(500, "")),
        ("branch table", blocks(4, &format!("(br_table {} (local.get 0))", "3 ".repeat(4_000)))),
        ("branches", module("", &format!("{} i32.const 0", "(block (br_if 0 (local.get 0)))".repeat(2_040)))),
        (
            "data",
            wat(&format!(
                r#"(module (memory (export "memory") 8) (data (i32.const 0) "{}") (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#,
                "x".repeat(500_000)
            )),
        ),
        (
            "types",
            wat(&format!(
                r#"(module {} (memory (export "memory") 1) (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#,
                "(type (func (param i32 i64 i32)))".repeat(4_000)
            )),
        ),
        ("imports", module(&r#"(import "vm_hooks" "chainid" (func (result i64)))"#.repeat(510), "i32.const 0")),
        ("code", module("", &format!("{} i32.const 0", "(i32.store (local.get 0) (local.get 0))".repeat(21_000)))),
    ]
}

#[test]
fn compile_time_bombs_are_paid_or_rejected() {
    for (name, wasm) in bombs() {
        let price = validate::check(&wasm).unwrap().compile_gas();
        assert!(price >= gas::LATEST.compile_byte * wasm.len() as u64, "{name}");
        // Nothing is compiled before it is paid for.
        let hash = keccak256(&wasm);
        assert!(engine().compile_within(&hash, &wasm, price - 1).is_err(), "{name}");
        assert!(engine().compile_within(&hash, &wasm, price).is_ok(), "{name}");
    }
    let shell = r#"(memory (export "memory") 1) (func (export "user_entrypoint") (param i32) (result i32) i32.const 0)"#;
    for (what, text) in [
        ("functions", "(func)".repeat(5_000)),
        ("locals", format!("(func (local {}))", "i64 ".repeat(400))),
        ("nest", format!("(func {}{})", "(block ".repeat(600), ")".repeat(600))),
        ("branch", format!("(func (param i32) {})", "(block (br_if 0 (local.get 0)))".repeat(5_000))),
        ("types", "(type (func))".repeat(5_000)),
        ("exports", format!("(func $f) {}", (0..1_100).map(|at| format!(r#"(export "e{at}" (func $f))"#)).collect::<String>())),
        ("globals", "(global i32 (i32.const 0))".repeat(1_100)),
        ("data segments", r#"(data (i32.const 0) "")"#.repeat(200)),
    ] {
        let text = refusal(&wat(&format!("(module {shell} {text})")));
        assert!(text.contains(what), "`{text}` does not mention `{what}`");
    }
}

/// `cargo test -p corniche-vm --test resource_attacks -- --ignored --nocapture`: the most time that a gas can buy in each case.
#[test]
#[ignore = "prints figures"]
fn measure() {
    let time = |name: &str, wasm: &[u8], gas: u64| {
        let mut best = f64::MAX;
        for _ in 0..7 {
            let mut world = TestState::default();
            world.code.insert(Address::ZERO, wasm.to_vec());
            let start = Instant::now();
            let exit = world.run(wasm, b"", gas);
            best = best.min(start.elapsed().as_nanos() as f64 / (gas - exit.gas_left) as f64);
        }
        println!("{name}: {best:.1} ns per gas");
    };
    for (name, body) in LOOPS {
        time(name, &harm(2, &endless(body)), 3_000_000);
    }
    let touch = "(loop $again (i32.store (local.get $i) (i32.const 1)) (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 4096))) (i32.const 8388608)))) ";
    let call = format!("(drop {}) i32.const 0", CALL.replace("LENGTH", "0"));
    time("128 touched pages", &harm(128, &format!("{touch} i32.const 0")), 3_000_000);
    time("128 touched pages, then a trap", &harm(128, &format!("{touch} unreachable")), 3_000_000);
    time("128 touched pages in each of many frames", &harm(128, &format!("{touch} {call}")), 30_000_000);
    time("a frame that traps", &module("", "unreachable"), 3_000_000);
    time("nested frames", &harm(1, &call), 30_000_000);
    time("nested frames that grow", &harm(1, &format!("(drop (memory.grow (i32.const 1))) {call}")), 30_000_000);
    for (name, wasm) in bombs() {
        let price = validate::check(&wasm).unwrap().compile_gas();
        let start = Instant::now();
        engine().compile(&keccak256(&wasm), &wasm).unwrap();
        let took = start.elapsed();
        println!(
            "compile {name}: {} bytes, {price} gas, {took:?}, {:.1} ns per gas",
            wasm.len(),
            took.as_nanos() as f64 / price as f64
        );
    }
}

/// CPU time of this thread in ns.
#[allow(unsafe_code)]
fn processor_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a value of that type, and the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// A process may open few files (often 1,024), and a block can call as many contracts: compiled modules and instances must
/// not keep any open.
#[test]
#[cfg(target_os = "linux")]
fn contracts_keep_no_open_files() {
    let engine =
        WasmEngine::new(&EngineConfig { executors: 1, callers: 0, ..EngineConfig::default() }, Arc::new(NoCache)).unwrap();
    let count = |name: &str| {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|file| file.unwrap().path().read_link().ok());
        files.filter(|file| file.to_string_lossy().contains(name)).count()
    };
    for number in 0..50 {
        let wasm = harm(1, &format!("(local.set $i (i32.const {number})) i32.const 0) (data (i32.const 0) \"data\""));
        let contract = engine.contract(&keccak256(&wasm), &wasm).unwrap();
        let entry = Entry { input: Bytes::new(), gas: 100_000, limits: Limits::TRANSACTION };
        let exit = engine.run(&contract, &mut TestHost { world: &mut TestState::default(), context: context() }, entry);
        assert_eq!(exit.status, ExitStatus::Return);
    }
    assert_eq!(count("memfd:"), 0);
}

/// Returns the minimum of several measurements, in ns.
fn least(times: u32, mut act: impl FnMut()) -> f64 {
    let mut once = || {
        let start = processor_time();
        act();
        processor_time() - start
    };
    (0..times).map(|_| once()).fold(f64::MAX, f64::min)
}

/// `cargo test -p corniche-vm --test resource_attacks -- --ignored --nocapture cold`: the first run of code that is not in
/// memory, with and without its compiled artefact, compared with its price.
#[test]
#[ignore = "prints figures"]
fn measure_cold_code() {
    let config =
        EngineConfig { executors: 1, callers: 0, contract_cache_bytes: 0, idle_instance_bytes: 0, ..EngineConfig::default() };
    let artefacts = Arc::new(Artefacts::default());
    let engine = WasmEngine::new(&config, artefacts.clone()).unwrap();
    let other = module("", "i32.const 0");
    let other_hash = keccak256(&other);
    engine.compile(&other_hash, &other).unwrap();
    let real = ["counter", "erc20"].map(|name| (name, wasm(name)));
    for (name, wasm) in real.into_iter().chain(bombs()).chain(large()) {
        let hash = keccak256(&wasm);
        let without = least(1, || drop(engine.compile(&hash, &wasm).unwrap()));
        let machine_code = artefacts.0.lock().unwrap().values().map(Vec::len).sum::<usize>();
        let with = least(9, || {
            engine.contract(&other_hash, &other).unwrap();
            let contract = engine.contract(&hash, &wasm).unwrap();
            let entry = Entry { input: Bytes::new(), gas: 2_000_000, limits: Limits::TRANSACTION };
            engine.run(&contract, &mut TestHost { world: &mut TestState::default(), context: context() }, entry);
        });
        let checked = validate::check(&wasm).unwrap();
        let start = gas::start_ink(wasm.len(), checked.initial_pages) / INK_PER_GAS;
        let functions = checked.imported_functions + checked.defined_functions;
        let price = start + gas::LATEST.cold_ink(wasm.len(), functions, checked.initial_pages) / INK_PER_GAS;
        println!(
            "{name}: {} bytes, all artefacts {machine_code}; loaded and run in {:.0} us for {price} gas: {:.1} ns per gas ({:.0} ns per KiB); compiled in {:.0} us for {}: {:.1}",
            wasm.len(),
            with / 1e3,
            with / price as f64,
            with / (wasm.len() as f64 / 1024.0),
            without / 1e3,
            checked.compile_gas(),
            without / checked.compile_gas() as f64,
        );
    }
}

/// Modules of maximum size that compile to much machine code.
fn large() -> Vec<(&'static str, Vec<u8>)> {
    let many = |body: &str, count: usize| {
        let function = format!("(func (param i32) {body})");
        wat(&format!(
            r#"(module (memory (export "memory") 1) {} (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#,
            function.repeat(count)
        ))
    };
    vec![
        ("large: stores", many(&"(i32.store (local.get 0) (local.get 0))".repeat(1_000), 70)),
        ("large: divisions", many(&"(drop (i32.rem_s (local.get 0) (local.get 0)))".repeat(1_000), 80)),
        ("large: calls", many(&"(call 0 (local.get 0))".repeat(1_000), 120)),
        ("large: branches", many(&"(block (br_if 0 (local.get 0)))".repeat(400), 150)),
        ("large: copies", many(&"(memory.copy (local.get 0) (local.get 0) (local.get 0))".repeat(1_000), 50)),
    ]
}

/// `cargo test -p corniche-vm --test resource_attacks -- --ignored --nocapture memory`: a frame that touches memory, in a fresh
/// instance each time, with exactly the gas that it needs.
#[test]
#[ignore = "prints figures"]
fn measure_memory() {
    let touch = |pages: u32| {
        format!(
            "(loop $again (i32.store (local.get $i) (i32.const 1)) (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const STEP))) (i32.const {}))))",
            pages * 65_536
        )
    };
    for (kind, idle_instance_bytes) in [("fresh", 0), ("waiting", 64 << 20)] {
        let config = EngineConfig { executors: 1, callers: 0, idle_instance_bytes, ..EngineConfig::default() };
        let engine = WasmEngine::new(&config, Arc::new(NoCache)).unwrap();
        for (pages, step) in [(1, 4_096), (1, 1_024), (17, 4_096), (17, 1_024), (128, 4_096), (128, 1_024), (128, 65_536)] {
            for (ends, how) in [("returns", "i32.const 0"), ("traps", "unreachable")] {
                let wasm = harm(pages, &format!("{} {how}", touch(pages).replace("STEP", &step.to_string())));
                let contract = engine.compile(&keccak256(&wasm), &wasm).unwrap();
                let run = |gas| {
                    let entry = Entry { input: Bytes::new(), gas, limits: Limits::TRANSACTION };
                    engine.run(&contract, &mut TestHost { world: &mut TestState::default(), context: context() }, entry)
                };
                let used = |gas: u64| gas - run(gas).gas_left;
                let price = if ends == "returns" {
                    used(10_000_000)
                } else {
                    let returning = harm(pages, &format!("{} i32.const 0", touch(pages).replace("STEP", &step.to_string())));
                    let contract = engine.compile(&keccak256(&returning), &returning).unwrap();
                    let entry = Entry { input: Bytes::new(), gas: 10_000_000, limits: Limits::TRANSACTION };
                    10_000_000
                        - engine
                            .run(&contract, &mut TestHost { world: &mut TestState::default(), context: context() }, entry)
                            .gas_left
                };
                let time = least(15, || drop(run(price)));
                println!(
                    "{kind}, {pages} pages, every {step} bytes, {ends}: {price} gas, {:.0} us, {:.1} ns per gas",
                    time / 1e3,
                    time / price as f64
                );
            }
        }
    }
}
