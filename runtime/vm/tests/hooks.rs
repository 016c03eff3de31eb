//! Behaviour of each host call; none can fail except by its rules.
#![allow(clippy::unwrap_used)] // test helpers unwrap

mod common;
use alloy_primitives::{Address, B256, U256, keccak256};
use common::{CONTRACT, GAS, SENDER, TestState, context, module, wat};
use corniche_abi::{MODULES, ValueType};
use corniche_vm::host::{ExitStatus, FrameContext, Trap};

const READ: &str = r#"(import "vm_hooks" "read_args" (func $read_args (param i32)))"#;
const WRITE: &str = r#"(import "vm_hooks" "write_result" (func $write_result (param i32 i32)))"#;

fn hook(name: &str, signature: &str) -> String {
    import("vm_hooks", name, signature)
}

fn import(module: &str, name: &str, signature: &str) -> String {
    format!(r#"(import "{module}" "{name}" (func ${name} {signature}))"#)
}

/// Runs `body`, which writes its result to the first `length` bytes of memory after the input.
fn answer(world: &mut TestState, imports: &str, input: &[u8], body: &str, length: u32) -> Vec<u8> {
    let wasm = module(
        &format!("{READ}{WRITE}{imports}"),
        &format!(
            "(call $read_args (i32.const 0)) {body} (call $write_result (i32.const 1024) (i32.const {length})) (i32.const 0)"
        ),
    );
    let exit = world.run(&wasm, input, GAS);
    assert_eq!(exit.status, ExitStatus::Return, "{body}");
    exit.output.to_vec()
}

#[test]
fn input_and_output() {
    let echo = module(
        &format!("{READ}{WRITE}"),
        "(call $read_args (i32.const 8)) (call $write_result (i32.const 0) (i32.const 1)) (call $write_result (i32.const 8) (local.get $length)) (i32.const 0)",
    );
    let exit = TestState::default().run(&echo, b"hello", GAS);
    assert_eq!((exit.status, exit.output.as_ref()), (ExitStatus::Return, &b"hello"[..]));
    let revert = module(&format!("{READ}{WRITE}"), "(call $write_result (i32.const 0) (i32.const 2)) (i32.const 1)");
    let exit = TestState::default().run(&revert, b"", GAS);
    assert_eq!((exit.status, exit.output.as_ref()), (ExitStatus::Revert, &[0, 0][..]));
    assert!(exit.gas_left > 0);
}

#[test]
fn exit_early_sets_status() {
    for (status, ended) in [(0, ExitStatus::Return), (1, ExitStatus::Revert), (7, ExitStatus::Revert)] {
        let wasm = module(&hook("exit_early", "(param i32)"), &format!("(call $exit_early (i32.const {status})) unreachable"));
        let exit = TestState::default().run(&wasm, b"", GAS);
        assert_eq!(exit.status, ended);
        assert!(exit.gas_left > 0);
    }
}

#[test]
fn context_values() {
    let c = context();
    let word = |value: u64| U256::from(value).to_be_bytes_vec();
    for (name, want) in [
        ("msg_sender", SENDER.to_vec()),
        ("contract_address", CONTRACT.to_vec()),
        ("tx_origin", SENDER.to_vec()),
        ("block_coinbase", c.block.coinbase.to_vec()),
        ("msg_value", word(0)),
        ("block_basefee", word(7)),
        ("tx_gas_price", word(1_000_000_007)),
    ] {
        let got = answer(
            &mut TestState::default(),
            &hook(name, "(param i32)"),
            b"",
            &format!("(call ${name} (i32.const 1024))"),
            want.len() as u32,
        );
        assert_eq!(got, want, "{name}");
    }
    for (name, want) in [
        ("chainid", c.block.chain_id),
        ("block_number", 42),
        ("block_timestamp", 1_700_000_000),
        ("block_gas_limit", 30_000_000),
    ] {
        let got = answer(
            &mut TestState::default(),
            &hook(name, "(result i64)"),
            b"",
            &format!("(i64.store (i32.const 1024) (call ${name}))"),
            8,
        );
        assert_eq!(got, want.to_le_bytes(), "{name}");
    }
    for (name, want) in [("msg_reentrant", 0u32), ("tx_ink_price", 10_000), ("return_data_size", 0)] {
        let got = answer(
            &mut TestState::default(),
            &hook(name, "(result i32)"),
            b"",
            &format!("(i32.store (i32.const 1024) (call ${name}))"),
            4,
        );
        assert_eq!(got, want.to_le_bytes(), "{name}");
    }
}

#[test]
fn gas_left_excludes_own_price() {
    let wasm = module(
        &format!("{WRITE}{}{}", hook("evm_gas_left", "(result i64)"), hook("evm_ink_left", "(result i64)")),
        "(i64.store (i32.const 0) (call $evm_ink_left)) (i64.store (i32.const 8) (call $evm_gas_left)) (call $write_result (i32.const 0) (i32.const 16)) (i32.const 0)",
    );
    let exit = TestState::default().run(&wasm, b"", GAS);
    let value = |at: usize| u64::from_le_bytes(exit.output[at..at + 8].try_into().unwrap());
    let price = corniche_abi::find("evm_gas_left").unwrap().ink;
    assert_eq!(value(8), (value(0) - price) / 10_000);
    assert!(value(8) > exit.gas_left && value(8) < GAS);
}

const STORE: &str = r#"
    (import "vm_hooks" "storage_load_bytes32" (func $load (param i32 i32)))
    (import "vm_hooks" "storage_cache_bytes32" (func $cache (param i32 i32)))
    (import "vm_hooks" "storage_flush_cache" (func $flush (param i32)))"#;

#[test]
fn storage_is_written_on_flush() {
    let slot = (CONTRACT, B256::ZERO);
    let write = |flush: &str| {
        let mut world = TestState::default();
        let body = format!(
            "(i32.store8 (i32.const 63) (i32.const 5)) (call $cache (i32.const 0) (i32.const 32)) {flush} (i32.const 0)"
        );
        assert_eq!(world.run(&module(STORE, &body), b"", GAS).status, ExitStatus::Return);
        world.storage.get(&slot).copied()
    };
    assert_eq!(write(""), None);
    assert_eq!(write("(call $flush (i32.const 0))"), Some(B256::with_last_byte(5)));
}

#[test]
fn loaded_word_is_paid_once() {
    let twice = "(call $load (i32.const 0) (i32.const 1024)) (call $load (i32.const 0) (i32.const 1024))";
    let mut world = TestState::default();
    answer(&mut world, STORE, b"", twice, 32);
    let loads: Vec<_> =
        world.events.iter().filter(|event| event.name == "storage_load_bytes32").map(|e| e.ink_before - e.ink_after).collect();
    assert_eq!((loads.len(), loads[0] - loads[1]), (2, 2_100 * 10_000));
}

#[test]
fn cached_word_survives_nested_call() {
    // The callee of a delegate call stores 9 in slot 0 of the caller.
    let callee = module(
        STORE,
        "(i32.store8 (i32.const 63) (i32.const 9)) (call $cache (i32.const 0) (i32.const 32)) (call $flush (i32.const 0)) (i32.const 0)",
    );
    let delegate = hook("delegate_call_contract", "(param i32 i32 i32 i64 i32) (result i32)");
    let at = Address::repeat_byte(0xde);
    for (clear, want) in [(0, 0), (1, 9)] {
        let mut world = TestState::default();
        world.code.insert(at, callee.clone());
        let body = format!(
            "(call $load (i32.const 64) (i32.const 1024)) (call $flush (i32.const {clear}))
             (drop (call $delegate_call_contract (i32.const 0) (i32.const 0) (i32.const 0) (i64.const -1) (i32.const 512)))
             (call $load (i32.const 64) (i32.const 1024))"
        );
        let got = answer(&mut world, &format!("{STORE}{delegate}"), at.as_slice(), &body, 32);
        assert_eq!(got[31], want, "clear {clear}");
        assert_eq!(world.storage[&(CONTRACT, B256::ZERO)], B256::with_last_byte(9));
    }
}

#[test]
fn static_frame_rejects_changes() {
    let transient = hook("transient_store_bytes32", "(param i32 i32)");
    let log = hook("emit_log", "(param i32 i32 i32)");
    let create = hook("create1", "(param i32 i32 i32 i32 i32)");
    let call = hook("call_contract", "(param i32 i32 i32 i32 i64 i32) (result i32)");
    for (imports, body) in [
        (STORE, "(call $cache (i32.const 0) (i32.const 32)) (call $flush (i32.const 0))"),
        (&transient, "(call $transient_store_bytes32 (i32.const 0) (i32.const 32))"),
        (&log, "(call $emit_log (i32.const 0) (i32.const 0) (i32.const 0))"),
        (&create, "(call $create1 (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 32))"),
        (
            &call,
            "(i32.store8 (i32.const 63) (i32.const 1)) (drop (call $call_contract (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 32) (i64.const 0) (i32.const 64)))",
        ),
    ] {
        let wasm = module(imports, &format!("{body} (i32.const 0)"));
        let exit = TestState::default().run_static(&wasm, b"");
        assert_eq!((exit.status, exit.gas_left), (ExitStatus::Trap(Trap::StaticViolation), 0), "{body}");
        assert_eq!(TestState::default().run(&wasm, b"", GAS).status, ExitStatus::Return, "{body}");
    }
    // A flush of an empty cache is no write: every contract's entrypoint ends with one.
    assert_eq!(
        TestState::default().run_static(&module(STORE, "(call $flush (i32.const 1)) (i32.const 0)"), b"").status,
        ExitStatus::Return
    );
}

#[test]
fn calls_pass_input_value_and_output() {
    let echo = module(
        &format!("{READ}{WRITE}"),
        "(call $read_args (i32.const 0)) (call $write_result (i32.const 0) (local.get $length)) (i32.eq (local.get $length) (i32.const 3))",
    );
    let imports = format!(
        "{}{}{}",
        hook("call_contract", "(param i32 i32 i32 i32 i64 i32) (result i32)"),
        hook("return_data_size", "(result i32)"),
        hook("read_return_data", "(param i32 i32 i32) (result i32)"),
    );
    let at = Address::repeat_byte(0xec);
    for (length, status) in [(0, 0u8), (3, 1), (5, 0)] {
        let mut world = TestState::default();
        world.code.insert(at, echo.clone());
        let body = format!(
            "(i32.store (i32.const 1024) (call $call_contract (i32.const 0) (i32.const 0) (i32.const {length}) (i32.const 64) (i64.const -1) (i32.const 1028)))
             (i32.store (i32.const 1032) (call $return_data_size))
             (i32.store (i32.const 1036) (call $read_return_data (i32.const 1040) (i32.const 1) (i32.const 100)))"
        );
        let got = answer(&mut world, &imports, at.as_slice(), &body, 20);
        assert_eq!((got[0], got[4], got[8], got[12]), (status, length as u8, length as u8, (length as u8).saturating_sub(1)));
        // Only existing bytes were copied.
        assert!(got[16..].iter().enumerate().all(|(n, byte)| *byte == if n + 1 < length as usize { 0xec } else { 0 }));
    }
}

#[test]
fn logs_have_at_most_four_topics() {
    let log = hook("emit_log", "(param i32 i32 i32)");
    let run = |length: u32, topics: u32| {
        let mut world = TestState::default();
        let wasm = module(
            &format!("{READ}{log}"),
            &format!(
                "(call $read_args (i32.const 0)) (call $emit_log (i32.const 0) (i32.const {length}) (i32.const {topics})) (i32.const 0)"
            ),
        );
        let input: Vec<u8> = (0..200).collect();
        (world.run(&wasm, &input, GAS).status, world.logs)
    };
    let (status, logs) = run(70, 2);
    assert_eq!(status, ExitStatus::Return);
    assert_eq!((logs[0].1.len(), logs[0].1[1][0], logs[0].2.as_ref()), (2, 32, &[64, 65, 66, 67, 68, 69][..]));
    for (length, topics) in [(200, 5), (31, 1), (0, u32::MAX), (127, 4)] {
        assert_eq!(run(length, topics).0, ExitStatus::Trap(Trap::BadHostCall("emit_log")));
    }
    assert_eq!(run(128, 4).0, ExitStatus::Return);
}

#[test]
fn arithmetic() {
    let word = |value: U256| value.to_be_bytes_vec();
    let two = |name: &str, a: U256, b: U256| {
        let body = format!(
            "(memory.copy (i32.const 1024) (i32.const 0) (i32.const 32)) (call ${name} (i32.const 1024) (i32.const 32))"
        );
        U256::from_be_slice(&answer(
            &mut TestState::default(),
            &hook(name, "(param i32 i32)"),
            &[word(a), word(b)].concat(),
            &body,
            32,
        ))
    };
    let three = |name: &str, a: U256, b: U256, c: U256| {
        let body = format!(
            "(memory.copy (i32.const 1024) (i32.const 0) (i32.const 32)) (call ${name} (i32.const 1024) (i32.const 32) (i32.const 64))"
        );
        U256::from_be_slice(&answer(
            &mut TestState::default(),
            &hook(name, "(param i32 i32 i32)"),
            &[word(a), word(b), word(c)].concat(),
            &body,
            32,
        ))
    };
    let n = U256::from;
    assert_eq!(two("math_div", n(17), n(5)), n(3));
    assert_eq!(two("math_div", n(17), n(0)), n(0));
    assert_eq!(two("math_mod", n(17), n(5)), n(2));
    assert_eq!(two("math_mod", n(17), n(0)), n(0));
    assert_eq!(two("math_pow", n(3), n(5)), n(243));
    assert_eq!(two("math_pow", n(2), n(256)), n(0));
    assert_eq!(three("math_add_mod", U256::MAX, n(2), n(10)), n(7));
    assert_eq!(three("math_mul_mod", U256::MAX, U256::MAX, n(10)), n(5));
    assert_eq!(three("math_mul_mod", n(3), n(4), n(0)), n(0));
    let hash = answer(
        &mut TestState::default(),
        &hook("native_keccak256", "(param i32 i32 i32)"),
        b"abc",
        "(call $native_keccak256 (i32.const 0) (i32.const 3) (i32.const 1024))",
        32,
    );
    assert_eq!(hash, keccak256(b"abc").as_slice());
}

#[test]
fn accounts() {
    let at = Address::repeat_byte(0xac);
    let mut world = TestState::default();
    world.code.insert(at, b"0123456789".to_vec());
    let imports = hook("account_code", "(param i32 i32 i32 i32) (result i32)");
    for (offset, size, want) in [(0, 4, &b"0123"[..]), (8, 4, b"89"), (10, 4, b""), (u32::MAX, u32::MAX, b"")] {
        let body = format!(
            "(i32.store (i32.const 1024) (call $account_code (i32.const 0) (i32.const {offset}) (i32.const {size}) (i32.const 1028)))"
        );
        let got = answer(&mut world, &imports, at.as_slice(), &body, 8);
        assert_eq!((got[0] as usize, &got[4..4 + want.len()]), (want.len(), want));
    }
    let size = answer(
        &mut world,
        &hook("account_code_size", "(param i32) (result i32)"),
        at.as_slice(),
        "(i32.store (i32.const 1024) (call $account_code_size (i32.const 0)))",
        4,
    );
    assert_eq!(size, 10u32.to_le_bytes());
    let hash = answer(
        &mut world,
        &hook("account_codehash", "(param i32 i32)"),
        at.as_slice(),
        "(call $account_codehash (i32.const 0) (i32.const 1024))",
        32,
    );
    assert_eq!(hash, keccak256(b"0123456789").as_slice());
    let balance = answer(
        &mut world,
        &hook("account_balance", "(param i32 i32)"),
        at.as_slice(),
        "(call $account_balance (i32.const 0) (i32.const 1024))",
        32,
    );
    assert_eq!(balance[31], 0xac);
}

#[test]
fn garbage_arguments_end_only_frame() {
    let values32 = ["0", "1", "65504", "65535", "65536", "-1", "-2147483648", "2147483647"];
    let values64 = ["0", "-1", "9223372036854775807"];
    for (module_name, call) in MODULES.iter().flat_map(|(module, calls)| calls.iter().map(move |call| (module, call))) {
        let text = |ty: &ValueType| if *ty == ValueType::I32 { "i32" } else { "i64" };
        let parameters: Vec<_> = call.parameters.iter().map(text).collect();
        let result = call.result.iter().map(|ty| format!("(result {})", text(ty))).collect::<String>();
        let import = import(module_name, call.name, &format!("(param {}) {result}", parameters.join(" ")));
        let drop = if call.result.is_some() { "drop" } else { "" };
        for round in 0..values32.len() {
            let arguments: String = call
                .parameters
                .iter()
                .enumerate()
                .map(|(at, ty)| match ty {
                    ValueType::I32 => format!("(i32.const {})", values32[(round + at * (1 + round % 3)) % values32.len()]),
                    ValueType::I64 => format!("(i64.const {})", values64[(round + at) % values64.len()]),
                })
                .collect();
            let wasm = module(&import, &format!("{arguments} call ${} {drop} (i32.const 0)", call.name));
            let exit = TestState::default().run(&wasm, &[1; 40], 300_000);
            assert!(!matches!(exit.status, ExitStatus::Fault(_)), "{} {arguments}: {:?}", call.name, exit.status);
            // A second run is equal to the last unit of gas.
            assert_eq!(TestState::default().run(&wasm, &[1; 40], 300_000), exit);
        }
    }
}

#[test]
fn copies_are_paid_before_they_are_made() {
    let wasm = wat(
        r#"(module (import "vm_hooks" "write_result" (func $write_result (param i32 i32))) (memory (export "memory") 100)
        (func (export "user_entrypoint") (param i32) (result i32) (call $write_result (i32.const 0) (i32.const 6553600)) (i32.const 0)))"#,
    );
    let used = GAS - TestState::default().run(&wasm, b"", GAS).gas_left;
    assert!(used > 6_553_600 * 60 / 10_000, "{used}");
    assert_eq!(TestState::default().run(&wasm, b"", used - 1).status, ExitStatus::OutOfGas);
}

#[test]
fn reentrancy_is_reported() {
    let wasm = module(
        &format!("{WRITE}{}", hook("msg_reentrant", "(result i32)")),
        "(i32.store (i32.const 0) (call $msg_reentrant)) (call $write_result (i32.const 0) (i32.const 4)) (i32.const 0)",
    );
    let exit = TestState::default().run_in(&wasm, FrameContext { reentrant: true, ..context() }, b"", GAS);
    assert_eq!(exit.output[0], 1);
}
