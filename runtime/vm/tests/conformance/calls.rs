//! Calls of all kinds: executed code, affected state, results.

use super::test_state::*;
use alloy_primitives::{Address, Bytes, U256};
use corniche_vm::ExecutionStatus;

const KINDS: [&str; 3] = ["call_contract", "delegate_call_contract", "static_call_contract"];

/// Copies a call's return data to the bytes after its status.
const COPY: &str = "(drop (call $read_return_data (i32.const 1040) (i32.const 0) (i32.const 500)))";

pub fn call_kinds_select_state() {
    // Returns its address, sender and value, and the word of slot 1.
    let told = format!(
        "(call $contract_address (i32.const {OUT})) (call $msg_sender (i32.const {})) (call $msg_value (i32.const {}))
         (call $storage_load_bytes32 (i32.const {UNIT}) (i32.const {}))",
        OUT + 20,
        OUT + 40,
        OUT + 72
    );
    for (kind, address, sender, value, word) in [
        ("call_contract", TWO, ONE, 0, 2),
        ("delegate_call_contract", ONE, SENDER, 5, 1),
        ("static_call_contract", TWO, ONE, 0, 2),
    ] {
        let body = format!("{}{COPY}", call(kind, 32));
        let mut world = TestState::new()
            .one(&contract_returning(&body, 200))
            .two(&contract_returning(&told, 104))
            .stored(ONE, 1, 1)
            .stored(TWO, 1, 2);
        world.value = U256::from(5);
        let answer = world.output(b"");
        assert_eq!((int(&answer, 0), int(&answer, 8)), (0, 104));
        let told = &answer[16..];
        assert_eq!(told[..20], *address.as_slice(), "{kind}");
        assert_eq!(told[20..40], *sender.as_slice(), "{kind}");
        assert_eq!(U256::from_be_slice(&told[40..72]), U256::from(value), "{kind}");
        assert_eq!(told[103], word, "{kind}");
    }
}

/// A delegate call within a delegate call still acts for the first contract.
pub fn delegation_in_a_static_frame() {
    // Contract two delegates to three, which writes. Within a static call of two this fails: delegation does not remove
    // the static flag.
    let write = contract(
        "(call $storage_cache_bytes32 (i32.const 160) (i32.const 192)) (call $storage_flush_cache (i32.const 0)) i32.const 0",
    );
    let two = contract(&format!("{} (i32.load (i32.const {OUT}))", call("delegate_call_contract", 64)));
    for (kind, status, written) in [("call_contract", 0, 7), ("static_call_contract", 1, 0)] {
        let mut world = TestState::new().one(&contract_returning(&call(kind, 32), 4)).two(&two).deploy(THREE, &write);
        assert_eq!((int(&world.output(b""), 0), world.slot(TWO, 1), world.slot(THREE, 1)), (status, written, 0), "{kind}");
    }
}

pub fn nothing_changes_in_a_static_call() {
    let value = format!(
        "(drop (call $call_contract (i32.const 96) (i32.const 0) (i32.const 0) (i32.const {UNIT}) (i64.const 0) (i32.const 600)))"
    );
    let no_value = value.replace(&format!("(i32.const {UNIT})"), &format!("(i32.const {ZERO})"));
    let write = "(call $storage_cache_bytes32 (i32.const 160) (i32.const 192)) (call $storage_flush_cache (i32.const 0))";
    let cached = "(call $storage_cache_bytes32 (i32.const 160) (i32.const 192))";
    for (what, status) in [
        (value.as_str(), 2),
        (no_value.as_str(), 0),
        (write, 2),
        (cached, 0),
        ("(call $storage_flush_cache (i32.const 1))", 0),
        ("(call $create1 (i32.const 0) (i32.const 0) (i32.const 512) (i32.const 600) (i32.const 640))", 2),
    ] {
        let mut world = TestState::new()
            .one(&contract_returning(&call("static_call_contract", 32), 4))
            .two(&contract(&format!("{what} i32.const 0")));
        assert_eq!(int(&world.output(b""), 0), status, "{what}");
        assert_eq!((world.slot(TWO, 1), world.balance(PERSON)), (0, U256::from(77)));
    }
}

pub fn what_a_call_returned() {
    let echo = contract("(call $read_args (i32.const 2000)) (call $write_result (i32.const 2000) (local.get $n)) i32.const 0");
    let input: Vec<u8> = (1..=50).collect();
    for kind in KINDS {
        // The length that was read, the total size, and part of the data.
        for (offset, size, copied) in [(0, 50, 50), (0, 100, 50), (10, 5, 5), (49, 5, 1), (50, 5, 0), (u32::MAX, u32::MAX, 0)] {
            let body = format!(
                "(call $read_args (i32.const 600)) {} (i32.store (i32.const 1028) (call $return_data_size))
                 (i32.store (i32.const 1036) (call $read_return_data (i32.const 1040) (i32.const {offset}) (i32.const {size})))",
                call(kind, 32)
            );
            let answer = TestState::new().one(&contract_returning(&body, 80)).two(&echo).output(&input);
            assert_eq!([0, 4, 8, 12].map(|at| int(&answer, at)), [0, 50, 50, copied], "{kind} {offset} {size}");
            let from = (offset as usize).min(50);
            assert_eq!(answer[16..16 + copied as usize], input[from..from + copied as usize]);
            assert!(answer[16 + copied as usize..].iter().all(|byte| *byte == 0));
        }
    }
    // Empty before the first call; each call replaces the previous data.
    let body = format!(
        "(i32.store (i32.const 1028) (call $return_data_size)) {} {}",
        call("call_contract", 32),
        call("call_contract", 96)
    );
    let body = format!("{body} (i32.store (i32.const 1036) (call $return_data_size))");
    let answer = TestState::new().one(&contract_returning(&body, 16)).two(&contract_returning("", 9)).output(b"");
    assert_eq!((int(&answer, 4), int(&answer, 12)), (0, 0));
}

pub fn ways_to_fail() {
    let said = |status: u32| contract(&format!("(call $write_result (i32.const 0) (i32.const 9)) i32.const {status}"));
    let traps = contract("(call $write_result (i32.const 0) (i32.const 9)) unreachable");
    let endless = contract("(call $write_result (i32.const 0) (i32.const 9)) (loop (br 0)) i32.const 0");
    for kind in KINDS {
        // Code, status, returned bytes. A revert with any non-zero status returns data; a failure returns none.
        for (two, status, bytes) in [(&said(0), 0, 9), (&said(1), 1, 9), (&said(77), 1, 9), (&traps, 2, 0), (&endless, 2, 0)] {
            let body = format!("{} (i32.store (i32.const 1036) (call $return_data_size))", call(kind, 32));
            let answer = TestState::new().one(&contract_returning(&body, 16)).two(two).output(b"");
            assert_eq!([0, 8, 12].map(|at| int(&answer, at)), [status, bytes, bytes], "{kind}");
        }
        // A call of an account without code succeeds, even if the account does not exist.
        for nobody in [96, 128] {
            let answer = TestState::new().one(&contract_returning(&call(kind, nobody), 12)).output(b"");
            assert_eq!([0, 8].map(|at| int(&answer, at)), [0, 0]);
        }
    }
    // A failed callee uses all its gas, but no more: the caller keeps 1/64, enough to continue.
    let outcome = TestState::new().one(&contract_returning(&call("call_contract", 32), 4)).two(&endless).send(b"");
    assert!(outcome.success() && outcome.gas_used > GAS * 62 / 64 && outcome.gas_used < GAS);
}

pub fn forwarded_gas() {
    let told = contract_returning(&format!("(i64.store (i32.const {OUT}) (call $evm_gas_left))"), 8);
    let given = |kind: &str, wanted: &str| {
        let body = format!("{}{COPY}", call(kind, 32).replace("(i64.const -1)", wanted));
        let answer = TestState::new().one(&contract_returning(&body, 24)).two(&told).output(b"");
        (int(&answer, 0), long(&answer, 16))
    };
    for kind in KINDS {
        // The maximum gas means all but 1/64; a lower amount is passed as it is. The callee pays for its own start.
        let (_, most) = given(kind, "(i64.const -1)");
        let left = GAS - 21_000;
        assert!(most < left - left / 64 && most > left - left / 64 - 30_000, "{kind}: {most}");
        let (_, less) = given(kind, "(i64.const 100000)");
        assert!(less < 100_000 && less > 80_000, "{kind}: {less}");
        // Too little gas for a start is a failed call and does not end the caller.
        assert_eq!(given(kind, "(i64.const 100)").0, 2);
        assert_eq!(given(kind, "(i64.const 0)").0, 2);
    }
}

pub fn forwarded_value() {
    let sends = |to: u32, value: u32| {
        contract_returning(
            &format!(
                "(i32.store (i32.const {OUT}) (call $call_contract (i32.const {to}) (i32.const 0) (i32.const 0) (i32.const {value}) (i64.const 50000) (i32.const 1028)))"
            ),
            8,
        )
    };
    // To a contract, which reads the value; to an account without code; to a missing account, which then exists; and to
    // itself.
    let told = contract_returning(&format!("(call $msg_value (i32.const {OUT}))"), 32);
    for (to, address) in [(32, TWO), (96, PERSON), (128, NOBODY), (0, Address::ZERO)] {
        let mut world = TestState::new().one(&sends(to, SEVEN)).two(&told);
        let before = world.balance(address);
        world.output(b"");
        if to != 0 {
            assert_eq!(world.balance(address), before + U256::from(7));
            assert_eq!(world.balance(ONE), U256::from(9_993));
        }
    }
    // A value above the balance is a failed call, and the callee does not run.
    let too_much = "(i32.store8 (i32.const 700) (i32.const 1))";
    let body = format!(
        "{too_much} (i32.store (i32.const {OUT}) (call $call_contract (i32.const 32) (i32.const 0) (i32.const 0) (i32.const 700) (i64.const -1) (i32.const 1028)))"
    );
    let mut world = TestState::new().one(&contract_returning(&body, 8)).two(&contract("unreachable"));
    let outcome = world.send(b"");
    assert_eq!((int(&outcome.output, 0), int(&outcome.output, 4), world.balance(ONE)), (2, 0, U256::from(10_000)));
    assert!(outcome.gas_used < 100_000, "what it was given came back: {}", outcome.gas_used);
    // The value returns when the callee reverts.
    let mut world = TestState::new().one(&sends(32, SEVEN)).two(&contract("i32.const 1"));
    assert_eq!((int(&world.output(b""), 0), world.balance(ONE)), (1, U256::from(10_000)));
}

/// True while another frame of the same address is open.
pub fn reentrancy() {
    let told = format!("(i32.store (i32.const {OUT}) (call $msg_reentrant))");
    // With input, contract one returns whether it is re-entered. Without, it makes the call.
    let one = |to: &str| {
        contract(&format!(
            "(if (result i32) (i32.eqz (local.get $n))
                (then (local.set $n (i32.const 1)) {to}
                    (drop (call $read_return_data (i32.const {OUT}) (i32.const 0) (i32.const 4)))
                    (call $write_result (i32.const {OUT}) (i32.const 4)) (i32.const 0))
                (else {told} (call $write_result (i32.const {OUT}) (i32.const 4)) (i32.const 0)))"
        ))
    };
    // Passes the call to one, and returns its result.
    let back = contract_returning(
        &format!("{} (drop (call $read_return_data (i32.const {OUT}) (i32.const 0) (i32.const 4)))", call("call_contract", 0)),
        4,
    );
    for (how, to, reentrant) in [
        ("itself", call("call_contract", 0), 1),
        ("itself, statically", call("static_call_contract", 0), 1),
        ("itself, by delegation: the same frame's state, no one entered", call("delegate_call_contract", 0), 0),
        ("through another", call("call_contract", 32), 1),
    ] {
        let answer = TestState::new().one(&one(&to)).two(&back).output(b"");
        assert_eq!(int(&answer, 0), reentrant, "{how}");
    }
    // Two successive calls are not re-entrant.
    let twice = contract_returning(
        &format!(
            "{0} {0} (drop (call $read_return_data (i32.const {OUT}) (i32.const 0) (i32.const 4)))",
            call("call_contract", 32)
        ),
        4,
    );
    let answer = TestState::new().one(&twice).two(&contract_returning(&told, 4)).output(b"");
    assert_eq!(int(&answer, 0), 0);
    let _ = (ExecutionStatus::Success, Bytes::new());
}
