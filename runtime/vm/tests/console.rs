//! Console output of debug builds: only on development chains, only in traces, bounded, and at a price that does not
//! depend on tracing.
#![allow(clippy::unwrap_used)] // test helpers unwrap

mod common;
use alloy_primitives::{Address, Bytes, keccak256};
use common::module;
use corniche_state::{Changes, EmptyState, Overlay};
use corniche_types::Account;
use corniche_vm::{
    BlockEnv, Call, CallOutcome, ExecutionStatus, LINE_OVERHEAD_BYTES, MAX_CONSOLE_BYTES, NoCache, Rules, TRUNCATED_LINE,
    Trace, TraceFrame, TraceLimits, Vm, VmConfig,
};
use std::sync::Arc;

const CONTRACT: Address = Address::repeat_byte(0xcc);
const IMPORTS: &str = r#"
    (import "vm_hooks" "emit_log" (func $log (param i32 i32 i32)))
    (import "console" "log_txt" (func $text (param i32 i32)))
    (import "console" "log_i32" (func $i32 (param i32)))
    (import "console" "log_i64" (func $i64 (param i64)))
    (import "console" "tee_i32" (func $tee_i32 (param i32) (result i32)))
    (import "console" "tee_i64" (func $tee_i64 (param i64) (result i64)))
    (data (i32.const 0) "Gr\c3\bc\c3\9fe \ff")"#;

fn vm(rules: Rules) -> Vm {
    Vm::new(&VmConfig { executors: 1, callers: 1, rules, ..VmConfig::default() }, Arc::new(NoCache)).unwrap()
}

fn env() -> BlockEnv {
    BlockEnv {
        rules: corniche_types::ProtocolRules::LATEST,
        chain_id: 1,
        number: 1,
        timestamp: 1,
        base_fee: 1,
        coinbase: Address::ZERO,
        gas_limit: 100_000_000,
        randomness: Default::default(),
    }
}

/// Calls the code without and with a trace.
fn run(wasm: Vec<u8>) -> (CallOutcome, TraceFrame) {
    let (vm, code, mut changes) = (vm(Rules::DEVELOPMENT), Bytes::from(wasm), Changes::default());
    let code_hash = keccak256(&code);
    changes.code.insert(code_hash, code);
    changes.accounts.insert(CONTRACT, Some(Account { code_hash, ..Account::default() }));
    let state = Overlay { base: &EmptyState, changes: &changes };
    let call = Call { to: Some(CONTRACT), gas: 50_000_000, ..Call::default() };
    let alone = vm.call(&state, &env(), &call);
    let mut trace = Trace::new(TraceLimits { bytes: 1 << 20, top_only: false });
    let heard = vm.trace_call(&state, &env(), &call, &mut trace);
    assert_eq!(alone, heard, "whether anybody listens shows in no result");
    (alone, trace.into_parts().0.unwrap())
}

fn creation(rules: Rules) -> ExecutionStatus {
    let call = Call { input: module(IMPORTS, "(i32.const 0)").into(), gas: 50_000_000, ..Call::default() };
    vm(rules).call(&EmptyState, &env(), &call).end
}

#[test]
fn console_needs_development_chain() {
    assert_eq!(creation(Rules::DEVELOPMENT), ExecutionStatus::Success);
    let ExecutionStatus::Refused(why) = creation(Rules::default()) else { panic!("it was deployed") };
    assert!(why.contains("`console`.`log_txt` is for development chains only"), "{why}");
}

#[test]
fn console_output_is_ordered_without_effects() {
    let (outcome, frame) = run(module(
        IMPORTS,
        "(call $text (i32.const 0) (i32.const 9)) (call $log (i32.const 0) (i32.const 0) (i32.const 0))
        (call $i32 (i32.const -7)) (call $i64 (i64.const 9223372036854775807))
        (i32.add (call $tee_i32 (i32.const 2)) (i32.wrap_i64 (call $tee_i64 (i64.const -2))))",
    ));
    assert_eq!((outcome.end, outcome.logs.len()), (ExecutionStatus::Success, 1), "what is teed comes back");
    let said: Vec<_> = frame.lines.iter().map(|line| (line.calls, line.logs, line.text.as_str())).collect();
    let text = (0, 0, "Grüße \u{fffd}");
    assert_eq!(said, [text, (0, 1, "-7"), (0, 1, "9223372036854775807"), (0, 1, "2"), (0, 1, "-2")]);
}

#[test]
fn console_is_paid_per_byte() {
    let say = |length: u32| run(module(IMPORTS, &format!("(call $text (i32.const 0) (i32.const {length})) (i32.const 0)"))).0;
    assert!(say(60_000).gas_used > say(0).gas_used + 50, "{} and {}", say(60_000).gas_used, say(0).gas_used);
    assert!(matches!(say(65_537).end, ExecutionStatus::Trap(_)));
}

#[test]
fn console_output_is_truncated() {
    let length = 1000;
    let (outcome, frame) = run(module(
        IMPORTS,
        &format!("(local $i i32) (loop (call $text (i32.const 0) (i32.const {length}))
            (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if 0 (i32.lt_u (local.get $i) (i32.const 200)))) (i32.const 0)"),
    ));
    assert_eq!(outcome.end, ExecutionStatus::Success);
    assert_eq!(frame.lines.len(), MAX_CONSOLE_BYTES / (LINE_OVERHEAD_BYTES + length) + 1);
    assert_eq!(frame.lines.last().unwrap().text, TRUNCATED_LINE);
    assert!(frame.lines.iter().rev().skip(1).all(|line| line.text != TRUNCATED_LINE));
}
