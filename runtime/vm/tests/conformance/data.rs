//! Input, result, logs, hashing, arithmetic, memory, exits.

use super::test_state::*;
use alloy_primitives::{B256, U256, keccak256};
use corniche_vm::ExecutionStatus;
use corniche_vm::host::Trap;
use corniche_vm::wasm::gas;

pub fn input_and_result() {
    let echo = contract(
        "(call $read_args (i32.const 2000)) (call $write_result (i32.const 2000) (local.get $n)) (i32.eq (local.get $n) (i32.const 3))",
    );
    for input in [&b""[..], b"a", b"abc", &[7; 10_000]] {
        let outcome = TestState::new().one(&echo).send(input);
        assert_eq!(outcome.output[..], *input);
        assert_eq!(outcome.end, if input.len() == 3 { ExecutionStatus::Revert } else { ExecutionStatus::Success });
    }
    // The last result counts, even if it is empty.
    let twice = |second: u32| {
        contract(&format!(
            "(call $write_result (i32.const 0) (i32.const 20)) (call $write_result (i32.const 32) (i32.const {second})) i32.const 0"
        ))
    };
    assert_eq!(TestState::new().one(&twice(2)).output(b""), [0x22; 2]);
    assert!(TestState::new().one(&twice(0)).output(b"").is_empty());
    // A trap returns no data, even after a result was written.
    let outcome = TestState::new().one(&contract("(call $write_result (i32.const 0) (i32.const 20)) unreachable")).send(b"");
    assert_eq!((outcome.end, outcome.output.len(), outcome.gas_used), (ExecutionStatus::Trap(Trap::Unreachable), 0, GAS));
}

pub fn exits() {
    for (status, end) in [
        (0, ExecutionStatus::Success),
        (1, ExecutionStatus::Revert),
        (2, ExecutionStatus::Revert),
        (u32::MAX, ExecutionStatus::Revert),
    ] {
        // Exits from any depth with the result written so far, and returns the remaining gas.
        let body = format!(
            "(call $write_result (i32.const 0) (i32.const 1)) (call $exit_early (i32.const {})) unreachable",
            status as i32
        );
        let outcome = TestState::new().one(&contract(&body)).send(b"");
        assert_eq!((outcome.end, &outcome.output[..]), (end, &[0x11][..]), "{status}");
        assert!(outcome.gas_used < 50_000);
    }
}

pub fn logs() {
    let emit = |length: u32, topics: u32| {
        contract(&format!("(call $emit_log (i32.const 0) (i32.const {length}) (i32.const {topics})) i32.const 0"))
    };
    for (length, topics) in [(0, 0), (5, 0), (32, 1), (64, 2), (96, 3), (128, 4), (160, 4), (31, 0)] {
        let outcome = TestState::new().one(&emit(length, topics)).send(b"");
        let [log] = &outcome.logs[..] else { panic!("{:?}", outcome.end) };
        let addresses = [ONE, TWO, THREE, PERSON].map(|address| {
            let mut word = B256::ZERO;
            word[..20].copy_from_slice(address.as_slice());
            word
        });
        assert_eq!((log.address, &log.topics[..]), (ONE, &addresses[..topics as usize]));
        assert_eq!(log.data.len(), (length - 32 * topics) as usize);
    }
    for (length, topics) in [(31, 1), (127, 4), (160, 5), (0, u32::MAX), (u32::MAX, 5)] {
        assert_eq!(
            TestState::new().one(&emit(length, topics)).send(b"").end,
            ExecutionStatus::Trap(Trap::BadHostCall("emit_log")),
            "{length} {topics}"
        );
    }
}

pub fn logs_of_what_failed_are_gone() {
    for (kind, status, logged) in
        [("call_contract", 0, vec![TWO, ONE]), ("call_contract", 1, vec![ONE]), ("delegate_call_contract", 0, vec![ONE, ONE])]
    {
        let emit = "(call $emit_log (i32.const 0) (i32.const 32) (i32.const 1))";
        let mut world = TestState::new()
            .one(&contract_returning(&format!("{} {emit}", call(kind, 32)), 4))
            .two(&contract(&format!("{emit} i32.const {status}")));
        let addresses: Vec<_> = world.send(b"").logs.iter().map(|log| log.address).collect();
        assert_eq!(addresses, logged, "{kind} {status}");
    }
    let two = contract("(call $emit_log (i32.const 0) (i32.const 0) (i32.const 0)) i32.const 0");
    let answer = TestState::new().one(&contract_returning(&call("static_call_contract", 32), 4)).two(&two).output(b"");
    assert_eq!(int(&answer, 0), 2, "no log in a static frame");
}

pub fn hashes() {
    for length in [0, 1, 31, 32, 33, 135, 136, 137, 5_000] {
        let body = format!(
            "(call $read_args (i32.const 4000)) (call $native_keccak256 (i32.const 4000) (local.get $n) (i32.const {OUT}))"
        );
        let input = vec![0xc3; length];
        assert_eq!(TestState::new().one(&contract_returning(&body, 32)).output(&input), keccak256(&input).as_slice());
    }
    // Overwrites its own input.
    let body = format!("(call $native_keccak256 (i32.const {OUT}) (i32.const 32) (i32.const {OUT}))");
    assert_eq!(TestState::new().one(&contract_returning(&body, 32)).output(b""), keccak256([0; 32]).as_slice());
}

pub fn arithmetic() {
    let of = |name: &str, numbers: &[U256]| {
        let input: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes::<32>()).collect();
        let arguments: String = (0..numbers.len()).map(|at| format!("(i32.const {})", OUT as usize + 32 * at)).collect();
        let body = format!("(call $read_args (i32.const {OUT})) (call ${name} {arguments})");
        // Only the first number changes.
        let answer = TestState::new().one(&contract_returning(&body, 32 * numbers.len() as u32)).output(&input);
        assert_eq!(answer[32..], input[32..], "{name}");
        U256::from_be_slice(&answer[..32])
    };
    let n = |value: u64| U256::from(value);
    let (most, none) = (U256::MAX, U256::ZERO);
    for (a, b) in [(17, 5), (17, 0), (0, 5), (0, 0), (5, 17)] {
        assert_eq!(of("math_div", &[n(a), n(b)]), n(a.checked_div(b).unwrap_or(0)));
        assert_eq!(of("math_mod", &[n(a), n(b)]), n(a.checked_rem(b).unwrap_or(0)));
    }
    assert_eq!((of("math_div", &[most, n(2)]), of("math_mod", &[most, most])), (most >> 1, none));
    for (a, b, power) in
        [(n(3), n(5), n(243)), (n(0), n(0), n(1)), (n(2), n(256), none), (most, most, most), (n(2), n(255), n(1) << 255)]
    {
        assert_eq!(of("math_pow", &[a, b]), power, "{a} {b}");
    }
    // Sums and products may exceed 256 bits before the reduction.
    assert_eq!(of("math_add_mod", &[most, n(2), n(10)]), n(7));
    assert_eq!(of("math_mul_mod", &[most, most, n(10)]), n(5));
    assert_eq!((of("math_add_mod", &[most, most, none]), of("math_mul_mod", &[n(3), n(4), none])), (none, none));
}

/// Announcing growth costs a host call only. A page is paid when memory grows, announced or not.
pub fn memory_is_paid_where_it_grows() {
    let used = |body: &str| TestState::new().one(&contract_returning(body, 1)).send(b"").gas_used;
    let announced = |pages: u32| used(&format!("(call $pay_for_memory_grow (i32.const {pages}))"));
    assert_eq!(announced(0), announced(60_000));
    let grown = |pages: i32| used(&format!("(drop (memory.grow (i32.const {pages})))"));
    let page = gas::V1.grown_page / gas::INK_PER_GAS;
    let per_page = (grown(11) - grown(1)) / 10;
    assert!(per_page == page || per_page == page + 1, "{per_page}");
    // A failed growth costs nothing and is reported.
    assert!(grown(128) < grown(1));
}
