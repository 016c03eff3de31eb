//! Complete traces, compared as text: a call through three contracts fails in the last one.
#![allow(clippy::unwrap_used)] // test helpers unwrap

use alloy_sol_types::sol;
use corniche_harness::{Address, Chain, Contract, format_trace};
use std::path::Path;
use wasmparser::{ConstExpr, DataKind, Operator, Parser, Payload};

sol! {
    function pass(address[] way, uint8 how);
}

/// Returns the trace of alice's call through three contracts.
fn through_three(how: u8) -> String {
    let contract = Contract::debug_in_crate(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/relay")).unwrap();
    let mut chain = Chain::new();
    let alice = chain.account("alice");
    let [front, middle, end]: [Address; 3] = ["front", "middle", "end"].map(|name| {
        let address = chain.by(alice).deploy(&contract, ()).unwrap();
        chain.label(address, name);
        address
    });
    let failed = chain.by(alice).send(front, passCall { way: vec![middle, end], how }).unwrap_err();
    assert_eq!(failed.to_string(), format_trace(chain.book(), failed.trace.as_ref().unwrap()));
    failed.to_string()
}

/// Removes gas, which depends on the compiler. Checks that each frame has gas, and callers more than callees.
fn without_gas(told: &str) -> String {
    let mut all = Vec::new();
    let lines = told.lines().map(|line| match (line.find('['), line.find("] ")) {
        (Some(open), Some(close)) if open < close && !line.contains('✗') => {
            all.push(line[open + 1..close].replace(',', "").parse::<u64>().unwrap());
            format!("{}[gas] {}\n", &line[..open], &line[close + 2..])
        }
        _ => format!("{line}\n"),
    });
    let told: String = lines.collect();
    assert!(all.len() == 3 && all.is_sorted_by(|caller, callee| caller > callee), "{all:?}");
    told
}

#[test]
fn custom_error_is_decoded_through_calls() {
    let told = without_gas(&through_three(0));
    let expected = "\
alice → [gas] front.pass(way: [middle, end], how: 0)
» 2 to go
· Passed(left: 1)
├─ [gas] middle.pass(way: [end], how: 0)
│  » 1 to go
│  · Passed(left: 0)
│  ├─ [gas] end.pass(way: [], how: 0)
│  │  » 0 to go
│  │  ✗ NothingLeft(have: 0, need: 7)
│  ✗ NothingLeft(have: 0, need: 7)
✗ NothingLeft(have: 0, need: 7)
";
    assert_eq!(told, expected, "{told}");
}

#[test]
fn panic_has_message_and_backtrace() {
    let told = without_gas(&through_three(1));
    let expected = "\
alice → [gas] front.pass(way: [middle, end], how: 1)
» 2 to go
· Passed(left: 1)
├─ [gas] middle.pass(way: [end], how: 1)
│  » 1 to go
│  · Passed(left: 0)
│  ├─ [gas] end.pass(way: [], how: 1)
│  │  » 0 to go
│  │  » panicked at /beside/relay/src/lib.rs:62:39: the purse holds 7
│  │  ✗ contract trapped: unreachable executed
│  │    at spend (relay/src/lib.rs:62)
│  │    at fail (relay/src/lib.rs:51)
│  │    at pass (relay/src/lib.rs:37)
│  ✗ without a reason
✗ without a reason
";
    assert_eq!(told, expected, "{told}");
}

#[test]
fn trap_has_source_lines() {
    let told = without_gas(&through_three(2));
    let expected = "\
alice → [gas] front.pass(way: [middle, end], how: 2)
» 2 to go
· Passed(left: 1)
├─ [gas] middle.pass(way: [end], how: 2)
│  » 1 to go
│  · Passed(left: 0)
│  ├─ [gas] end.pass(way: [], how: 2)
│  │  » 0 to go
│  │  ✗ contract trapped: unreachable executed
│  │    at stop (relay/src/lib.rs:68)
│  │    at fail (relay/src/lib.rs:52)
│  │    at pass (relay/src/lib.rs:37)
│  ✗ without a reason
✗ without a reason
";
    assert_eq!(told, expected, "{told}");
}

/// The stack is at the start of memory, below the module's data, so an overflow leaves memory and traps.
#[test]
fn stack_overflow_traps_without_corruption() {
    let contract = Contract::in_crate(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/relay")).unwrap();
    let (stack, data) = layout(&contract.wasm);
    assert!(stack == 32 << 10 && stack <= data, "a stack of {stack} bytes, data from {data} on");

    let mut chain = Chain::new();
    let alice = chain.account("alice");
    let relay = chain.by(alice).deploy(&contract, ()).unwrap();
    let end = |how| chain.clone().by(alice).send(relay, passCall { way: vec![], how }).map_err(|failed| failed.to_string());
    let ends: Vec<_> = (3..=255).map(|steps| (steps, end(steps))).collect();
    let fit = ends.iter().take_while(|(_, end)| end.is_ok()).count();
    assert!((8..29).contains(&fit), "up to {} KiB of the 32 there are", 2 + fit);
    for (steps, end) in &ends[fit..] {
        let trapped = end.as_ref().is_err_and(|told| told.contains("contract trapped: memory access out of bounds"));
        assert!(trapped, "{steps} KiB: {end:?}");
    }
}

/// Returns the initial stack pointer and the lowest address of the module's data.
fn layout(wasm: &[u8]) -> (i32, i32) {
    let constant = |expression: ConstExpr<'_>| match expression.get_operators_reader().read().unwrap() {
        Operator::I32Const { value } => value,
        other => panic!("{other:?}"),
    };
    let (mut stack, mut data) = (None, i32::MAX);
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.unwrap() {
            // The first global is the stack pointer.
            Payload::GlobalSection(section) => {
                stack = section.into_iter().next().map(|global| constant(global.unwrap().init_expr))
            }
            Payload::DataSection(section) => {
                for segment in section {
                    let DataKind::Active { offset_expr, .. } = segment.unwrap().kind else { panic!("it is passive") };
                    data = data.min(constant(offset_expr));
                }
            }
            _ => {}
        }
    }
    (stack.unwrap(), data)
}

/// Without debug information, places are functions from the name section. Each kind of failure reports its instruction.
#[test]
fn name_section_gives_function_names() {
    let module = wat::parse_str(
        r#"(module
            (import "vm_hooks" "storage_load_bytes32" (func $load (param i32 i32)))
            (memory (export "memory") 1)
            (func $away (i32.store (i32.const 70000) (i32.const 1)))
            (func $divide (param i32) (drop (i32.div_u (i32.const 1) (local.get 0))))
            (func $spin (loop (br 0)))
            (func $outside (call $load (i32.const 0) (i32.const 65530)))
            (func $grow (drop (memory.grow (i32.const 1))) (call $divide (i32.const 0)))
            (func $main (export "user_entrypoint") (param $how i32) (result i32)
                (if (i32.eqz (local.get $how)) (then (return (i32.const 0))))
                (if (i32.eq (local.get $how) (i32.const 1)) (then (call $away)))
                (if (i32.eq (local.get $how) (i32.const 2)) (then (call $divide (i32.const 0))))
                (if (i32.eq (local.get $how) (i32.const 3)) (then (call $spin)))
                (if (i32.eq (local.get $how) (i32.const 4)) (then (call $outside)))
                (call $grow) (i32.const 0)))"#,
    );
    let mut chain = Chain::new();
    let alice = chain.account("alice");
    let contract = chain.by(alice).deploy(&Contract::new("thing", module.unwrap()), ()).unwrap();
    let ways: [&[&str]; 5] = [&["away"], &["divide"], &["spin"], &["outside"], &["divide", "grow"]];
    for (length, way) in (1..).zip(ways) {
        let failed = chain.by(alice).gas(1_000_000).send_raw(contract, vec![0; length]).unwrap_err().to_string();
        let told: Vec<_> = failed.lines().filter_map(|line| line.strip_prefix("  at ")).collect();
        assert_eq!(told, [way, &["main"]].concat(), "{failed}");
    }
}
