//! Shapes of code that cost much CPU time per gas.

use crate::support::{Artefacts, Bench, Cost, again, module};
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_vm::VmConfig;
use std::sync::Arc;

/// A named module to measure.
pub struct Shape {
    pub name: String,
    pub wasm: Vec<u8>,
}

fn shape(name: impl Into<String>, wasm: Vec<u8>) -> Shape {
    Shape { name: name.into(), wasm }
}

/// Fragments for loops of the search. Each leaves the stack unchanged. `$a` is an i32, `$b` an i64, `$r` a random
/// number.
pub fn fragments(pages: u32) -> Vec<String> {
    let mask = (1u64 << (63 - (u64::from(pages) * 65_536).leading_zeros())) - 1;
    let mut all: Vec<String> = Vec::new();
    for op in ["eqz", "clz", "ctz", "popcnt", "extend8_s", "extend16_s"] {
        all.push(format!("(local.set $a (i32.{op} (local.get $a)))"));
    }
    for op in ["clz", "ctz", "popcnt", "extend32_s"] {
        all.push(format!("(local.set $b (i64.{op} (local.get $b)))"));
    }
    for op in ["add", "sub", "mul", "and", "xor", "shl", "shr_s", "rotl", "lt_s", "eq", "ge_u"] {
        all.push(format!("(local.set $a (i32.{op} (local.get $a) (local.get $r)))"));
    }
    for op in ["add", "mul", "or", "shr_u", "rotr"] {
        all.push(format!("(local.set $b (i64.{op} (local.get $b) (i64.const 0x5deece66d)))"));
    }
    for op in ["div_s", "div_u", "rem_s", "rem_u"] {
        all.push(format!("(local.set $b (i64.{op} (i64.or (local.get $b) (i64.const 0x7fffffffffffff0)) (i64.or (i64.and (local.get $b) (i64.const 5)) (i64.const 3))))"));
        all.push(format!("(local.set $a (i32.{op} (local.get $a) (i32.or (local.get $r) (i32.const 1))))"));
        all.push(format!("(local.set $b (i64.{op} (local.get $b) (i64.const 7)))"));
    }
    for text in [
        "(local.set $b (i64.extend_i32_u (i64.eqz (local.get $b))))",
        "(local.set $b (i64.extend_i32_s (i32.wrap_i64 (local.get $b))))",
        "(local.set $a (select (local.get $a) (local.get $r) (local.get $a)))",
        "(local.set $r (i32.add (i32.mul (local.get $r) (i32.const 1664525)) (i32.const 1013904223)))",
        "(global.set $g (i32.add (global.get $g) (local.get $r)))",
        "(local.set $a (i32.load (i32.and (local.get $a) (i32.const MASK))))",
        "(local.set $a (i32.load16_s offset=63 (i32.and (local.get $a) (i32.const MASK))))",
        "(local.set $b (i64.load offset=4090 (i32.and (i32.wrap_i64 (local.get $b)) (i32.const MASK))))",
        "(local.set $a (i32.load (i32.and (i32.add (local.get $a) (local.get $r)) (i32.const MASK))))",
        "(i32.store (i32.and (local.get $r) (i32.const MASK)) (local.get $a))",
        "(i64.store offset=61 (i32.and (local.get $r) (i32.const MASK)) (local.get $b))",
        "(i32.store (i32.const 64) (i32.add (i32.const 1) (i32.load (i32.const 64))))",
        "(block (br_if 0 (i32.and (local.get $r) (i32.const 4096))) (local.set $a (i32.const 7)))",
        "(if (i32.and (local.get $r) (i32.const 32768)) (then (local.set $a (i32.const 9))) (else (local.set $b (i64.const 3))))",
        "(block (block (block (br_table 0 1 2 0 1 2 (i32.shr_u (local.get $r) (i32.const 29))))))",
        "(memory.copy (i32.and (local.get $r) (i32.const HALF)) (i32.and (i32.mul (local.get $r) (i32.const 77)) (i32.const HALF)) (i32.const 1))",
        "(memory.copy (i32.and (local.get $r) (i32.const HALF)) (i32.and (i32.mul (local.get $r) (i32.const 77)) (i32.const HALF)) (i32.const 200))",
        "(memory.copy (i32.const 1) (i32.const 0) (i32.const 4096))",
        "(memory.fill (i32.and (local.get $r) (i32.const HALF)) (local.get $a) (i32.const 65))",
        "(drop (memory.size))",
        "(drop (memory.grow (i32.const 0)))",
        "(call $leaf)",
        "(local.set $a (call $deep (local.get $a)))",
        "(call_indirect (type $t) (i32.shr_u (local.get $r) (i32.const 30)))",
        "(drop (call $msg_reentrant))",
        "(call $msg_sender (i32.and (local.get $r) (i32.const HALF)))",
        "(call $native_keccak256 (i32.and (local.get $r) (i32.const HALF)) (i32.const 32) (i32.const 0))",
        "(call $native_keccak256 (i32.const 0) (i32.const 136) (i32.const 0))",
        "(call $math_mul_mod (i32.and (local.get $r) (i32.const HALF)) (i32.const 32) (i32.const 64))",
        "(call $math_div (i32.and (local.get $r) (i32.const HALF)) (i32.const 32))",
        "(call $storage_load_bytes32 (i32.and (local.get $r) (i32.const 1023)) (i32.const 0))",
        "(call $storage_cache_bytes32 (i32.and (local.get $r) (i32.const HALF)) (i32.const 0))",
        "(call $storage_flush_cache (i32.and (local.get $r) (i32.const 1)))",
        "(call $transient_store_bytes32 (i32.and (local.get $r) (i32.const HALF)) (i32.const 0))",
        "(call $transient_load_bytes32 (i32.and (local.get $r) (i32.const HALF)) (i32.const 0))",
        "(call $account_codehash (i32.const 0) (i32.const 32))",
        "(drop (call $certified_hash (i64.extend_i32_u (i32.and (local.get $r) (i32.const 8191))) (i32.const 0)))",
        "(drop (call $static_call_contract (i32.const 128) (i32.const 0) (i32.const 0) (i64.const 2000) (i32.const 512)))",
        "(drop (call $call_contract (i32.const 128) (i32.const 0) (i32.const 64) (i32.const 192) (i64.const 100) (i32.const 512)))",
    ] {
        all.push(text.replace("MASK", &(mask & !4_095 | 0xfbc).to_string()).replace("HALF", &(mask >> 1).to_string()));
    }
    all
}

/// Returns a module that loops over a text of [`fragments`].
pub fn mixed(pages: u32, body: &str) -> Vec<u8> {
    let functions =
        "(global $g (mut i32) (i32.const 0)) (type $t (func)) (table 4 funcref) (elem (i32.const 0) $leaf $other $leaf $other)
        (func $leaf) (func $other) (func $deep (param i32) (result i32) (local i64 i64) (call $leaf) (local.get 0))";
    // Addresses of other contracts, for fragments that call one, and random data elsewhere.
    let fill = format!(
        "(local.set $r (i32.const 77))
         (loop $fill
            (i32.store (local.get $a) (i32.mul (local.tee $r (i32.add (i32.mul (local.get $r) (i32.const 1664525)) (i32.const 1013904223))) (i32.const 64)))
            (br_if $fill (i32.lt_u (local.tee $a (i32.add (local.get $a) (i32.const 64))) (i32.const {}))))
         (memory.fill (i32.const 128) (i32.const 0x77) (i32.const 20)) (memory.fill (i32.const 192) (i32.const 0) (i32.const 32))",
        pages * 65_536
    );
    module(
        &format!("{pages} {pages}"),
        functions,
        "(local $a i32) (local $b i64) (local $r i32)",
        &format!("{fill} {}", again(body)),
    )
}

/// Dependent loads across the whole memory.
fn chase(pages: u32, grown: bool) -> Vec<u8> {
    let lines = pages * 1_024;
    let grow = if grown { format!("(drop (memory.grow (i32.const {})))", pages - 1) } else { String::new() };
    let start = if grown { "1".into() } else { pages.to_string() };
    let init = format!(
        "{grow} (loop $fill
            (i32.store (i32.shl (local.get $n) (i32.const 6))
                (i32.shl (i32.and (i32.add (i32.mul (local.get $n) (i32.const 1664525)) (i32.const 1013904223)) (i32.const {})) (i32.const 6)))
            (br_if $fill (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const {lines}))))",
        lines - 1
    );
    let body = format!("{init} {}", again(&format!("(local.get $at) {} (local.set $at)", "i32.load ".repeat(200))));
    module(&start, "", "(local $at i32) (local $n i32)", &body)
}

pub fn shapes() -> Vec<Shape> {
    let mut all = Vec::new();
    for pages in [1, 4, 8, 16, 32, 64, 128] {
        all.push(shape(format!("loads that wait for each other, {pages} pages"), chase(pages, false)));
    }
    all.push(shape("the same in grown memory, 64 pages", chase(64, true)));
    let stack = |ty: &str, ops: &str| {
        module("1", "", &format!("(local $v {ty})"), &again(&format!("(local.get $v) {} (local.set $v)", ops.repeat(200))))
    };
    for (ty, ops) in [
        ("i32", "i32.eqz "),
        ("i64", "i64.clz "),
        ("i64", "i64.const 7 i64.mul "),
        ("i64", "i64.eqz i64.extend_i32_u "),
        ("i64", "i64.const 9 i64.div_s "),
    ] {
        all.push(shape(format!("chain of {}", ops.trim()), stack(ty, ops)));
    }
    let pad = |times: usize| "(global.set 0 (i32.const 77))".repeat(times);
    let global = "(global (mut i32) (i32.const 0))";
    for (functions, padding) in [(64, 8), (2_000, 8), (3_500, 8), (3_500, 20)] {
        let bodies = format!("(func (param i32) (if (local.get 0) (then {})))", pad(padding)).repeat(functions);
        let calls: String = (0..functions).map(|at| format!("(call {} (i32.const 0))", at * 1_103 % functions)).collect();
        all.push(shape(
            format!("{functions} functions in turns"),
            module("1", &format!("{global}{bodies}"), "", &again(&calls)),
        ));
        let table: String = (0..functions).map(|at| format!("{at} ")).collect();
        let functions_and_table =
            format!("(type $t (func (param i32))) (table {functions} funcref) (elem (i32.const 0) {table}) {global} {bodies}");
        let call = format!(
            "(local.set $r (i32.add (i32.mul (local.get $r) (i32.const 1664525)) (i32.const 1013904223)))
             (call_indirect (type $t) (i32.const 0) (i32.rem_u (i32.shr_u (local.get $r) (i32.const 8)) (i32.const {functions})))"
        );
        all.push(shape(
            format!("{functions} functions by the table, at random"),
            module("1", &functions_and_table, "(local $r i32)", &again(&call.repeat(20))),
        ));
    }
    for (functions, branches, padding) in [(20, 475, 6), (30, 400, 6), (60, 300, 2)] {
        let body = format!("(block (br_if 0 (local.get 0)) {})", pad(padding)).repeat(branches);
        let bodies = format!("(func (local i32) (local.set 0 (i32.const 1)) {body})").repeat(functions);
        let calls: String = (0..functions).map(|at| format!("(call {at})")).collect();
        all.push(shape(
            format!("{functions} × {branches} taken branches"),
            module("1", &format!("{global}{bodies}"), "", &again(&calls)),
        ));
    }
    for (name, body) in [
        ("stores", "(i32.store (local.get 0) (i32.const 1))"),
        ("remainders", "(local.set 0 (i32.rem_s (local.get 0) (i32.const 7)))"),
    ] {
        let bodies = format!("(func (param i32) {})", body.repeat(2_500)).repeat(18);
        let calls: String = (0..18).map(|at| format!("(call {at} (i32.const 64))")).collect();
        all.push(shape(format!("half a megabyte of {name}"), module("1", &bodies, "", &again(&calls))));
    }
    for (name, body) in [
        ("stores across two pages", "(i64.store (i32.const 4093) (i64.const 1))".repeat(200)),
        ("fills of nothing behind memory", "(memory.fill (i32.const 65536) (i32.const 1) (i32.const 0))".repeat(20)),
    ] {
        all.push(shape(name, module("1", "", "", &again(&body))));
    }
    for length in [65_536, 4 << 20] {
        let body = again(&format!("(memory.copy (i32.const {}) (i32.const 0) (i32.const {length}))", 4 << 20));
        all.push(shape(format!("copies of {length} bytes"), module("128", "", "", &body)));
    }
    let touch = "(loop $touch (i32.store (local.get $n) (i32.const 1)) (br_if $touch (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 4096))) (i32.const 8384512))))";
    let itself = "(call $contract_address (i32.const 0)) (drop (call $call_contract (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 64) (i64.const -1) (i32.const 32)))";
    all.push(shape(
        "128 pages, touched, in each of many frames",
        module("128", "", "(local $n i32)", &format!("{touch} {itself} i32.const 0")),
    ));
    all.push(shape(
        "grown by 127 pages, touched, many frames",
        module("1 128", "", "(local $n i32)", &format!("(drop (memory.grow (i32.const 127))) {touch} {itself} i32.const 0")),
    ));
    all.push(shape("frames in frames", module("1", "", "", &format!("{itself} i32.const 0"))));
    all.push(shape(
        "frames that trap",
        module("1", "", "", &again(&format!("(memory.fill (i32.const 0) (i32.const 0xee) (i32.const 20)) {}", CALL.repeat(8)))),
    ));
    all
}

/// Calls the address at 0, with little gas.
const CALL: &str =
    "(drop (call $call_contract (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 64) (i64.const 1500) (i32.const 32)))";

/// Modules that are extremely expensive to compile.
pub fn deployments() -> Vec<Shape> {
    let many = |count: usize, body: &str| module("1", &format!("(func (param i32) {body})").repeat(count), "", "i32.const 0");
    let blocks = |count: usize, inner: &str| {
        module("1", "", "", &format!("{}{inner}{} i32.const 0", "(block ".repeat(count), ")".repeat(count)))
    };
    vec![
        shape("nothing", module("1", "", "", "i32.const 0")),
        shape("functions", many(4_000, "")),
        shape("functions with locals", many(4_000, "(local i64 i64 i64 i64) (local.set 1 (local.get 2))")),
        shape("locals", many(1_000, &format!("(local {})", "i64 ".repeat(340)))),
        shape("nesting", blocks(500, "")),
        shape("a table of branches", blocks(4, &format!("(br_table {} (local.get 0))", "3 ".repeat(4_000)))),
        shape("branches", module("1", "", "", &format!("{} i32.const 0", "(block (br_if 0 (local.get 0)))".repeat(2_040)))),
        shape("functions with branches", many(80, &"(block (br_if 0 (local.get 0)))".repeat(400))),
        shape("loops", many(60, &"(loop (br_if 0 (local.get 0)))".repeat(400))),
        shape(
            "ifs",
            many(100, &"(if (local.get 0) (then (local.set 0 (i32.const 5))) (else (local.set 0 (i32.const 6))))".repeat(300)),
        ),
        shape(
            "live locals",
            many(
                20,
                &format!(
                    "(local {}) {}",
                    "i32 ".repeat(300),
                    "(block (br_if 0 (local.get 0)) (local.set 1 (i32.add (local.get 2) (local.get 3))))".repeat(600)
                ),
            ),
        ),
        shape(
            "operands",
            many(20, &format!("{} {} drop", "(i32.load (i32.const 4)) ".repeat(3_000), "i32.add ".repeat(2_999))),
        ),
        shape(
            "live operands",
            module(
                "1",
                &format!("(func (result i32) {} {})", "(i32.load (i32.const 4)) ".repeat(3_000), "i32.add ".repeat(2_999)),
                "",
                "i32.const 0",
            ),
        ),
        shape("stores", many(60, &"(i32.store (local.get 0) (local.get 0))".repeat(1_000))),
        shape("loads", many(80, &"(drop (i32.load (local.get 0)))".repeat(1_000))),
        shape("divisions", many(80, &"(drop (i32.rem_s (local.get 0) (local.get 0)))".repeat(1_000))),
        shape("calls", many(100, &"(call 0 (local.get 0))".repeat(1_000))),
        shape(
            "calls by the table",
            module(
                "1",
                &format!(
                    "(type $t (func (param i32))) (table 1 funcref) (elem (i32.const 0) 0) {}",
                    format!("(func (param i32) {})", "(call_indirect (type $t) (local.get 0) (i32.const 0))".repeat(500))
                        .repeat(50)
                ),
                "",
                "i32.const 0",
            ),
        ),
        shape("copies", many(50, &"(memory.copy (local.get 0) (local.get 0) (local.get 0))".repeat(1_000))),
        shape("constants", many(100, &"(drop (i64.const 1))".repeat(1_500))),
    ]
}

/// More codes than are warm at once, in turns, each in a fresh instance: this machine keeps none.
pub fn cold(bench: &mut Bench) -> Vec<(String, f64)> {
    let functions = |count: usize| format!("(func (param i32) {})", "(drop (local.get 0))".repeat(4)).repeat(count);
    let mut rows: Vec<_> = [
        ("little code", 1, 1),
        ("code of 500 functions", 500, 1),
        ("code with 17 pages, all touched", 1, 17),
        ("code with 64 pages, all touched", 1, 64),
    ]
    .map(|(name, count, pages)| {
        let callee = |number| touching(&pages.to_string(), &functions(count), "", pages, number);
        (format!("{name}, 40 of it in turns"), in_turns(bench, 40, 120, callee))
    })
    .into();
    rows.extend([1, 2, 128].map(|pages| {
        let callee = |number| with_data(pages, number);
        (format!("code with {pages} pages, a byte of data in each, 40 of it in turns"), in_turns(bench, 40, 120, callee))
    }));
    rows
}

/// Has a byte of data at the start of each page. `number` makes the code unique.
fn with_data(pages: u64, number: u64) -> Vec<u8> {
    let data: String = (0..pages).map(|page| format!("(data (i32.const {}) \"d\")", page * 65_536)).collect();
    module(&pages.to_string(), &data, "", &format!("(drop (i32.const {number})) i32.const 0"))
}

/// Warm codes in turns. The number of their instances that are kept depends on the number of threads.
pub fn warm(bench: &mut Bench) -> Vec<(String, f64)> {
    [(32, 64), (32, 17), (16, 128)]
        .map(|(codes, pages)| {
            let callee = |number| touching(&pages.to_string(), "", "", pages, number);
            let name = format!("warm code with {pages} pages, all touched, {codes} of it in turns");
            (name, in_turns(bench, codes, 20 * codes, callee))
        })
        .into()
}

/// Codes that call themselves as deep as the price of warm code permits, in turns. Each start needs an instance in
/// addition to the running ones.
pub fn nested(bench: &mut Bench) -> Vec<(String, f64)> {
    [(1, 1), (3, 1), (20, 1), (2, 17), (2, 64)]
        .map(|(codes, pages)| {
            let callee = |number| nesting(pages, 30, number);
            let name = format!("{codes} warm codes with {pages} pages, all touched, 30 times in themselves, in turns");
            (name, in_turns(bench, codes, 4 * codes, callee))
        })
        .into()
}

/// Touches its memory and calls itself with one more byte of input, up to `levels`.
fn nesting(pages: u64, levels: u32, number: u64) -> Vec<u8> {
    let body = format!(
        "(drop (i32.const {number}))
         (loop $touch (i32.store (local.get $at) (i32.const 1)) (br_if $touch (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 4096))) (i32.const {}))))
         (if (i32.lt_u (local.get $length) (i32.const {levels})) (then
            (call $contract_address (i32.const 0))
            (drop (call $call_contract (i32.const 0) (i32.const 256) (i32.add (local.get $length) (i32.const 1)) (i32.const 64) (i64.const -1) (i32.const 96)))))
         i32.const 0",
        pages * 65_536
    );
    module(&pages.to_string(), "", "(local $at i32)", &body)
}

/// Code whose frames grow memory, so that each instance is used only once.
pub fn grown(bench: &mut Bench) -> Vec<(String, f64)> {
    [(1, 1), (17, 1), (64, 1), (127, 1), (64, 64)]
        .map(|(pages, more)| {
            let grow = format!("(drop (memory.grow (i32.const {more})))");
            let callee = |number| touching(&format!("{pages} 128"), "", &grow, pages + more, number);
            (format!("code with {pages} pages that grows by {more}, all touched"), in_turns(bench, 1, 100, callee))
        })
        .into()
}

/// Writes to each host page of its memory. `number` makes the code unique.
fn touching(memory: &str, functions: &str, first: &str, pages: u64, number: u64) -> Vec<u8> {
    let touch = format!(
        "(drop (i32.const {number})) {first}
         (loop $touch (i32.store (local.get $at) (i32.const 1)) (br_if $touch (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 4096))) (i32.const {}))))
         i32.const 0",
        pages * 65_536
    );
    module(memory, functions, "(local $at i32)", &touch)
}

/// Calls `codes` contracts in turns, each with all gas, in one transaction. Returns ns per gas.
fn in_turns(bench: &mut Bench, codes: u64, times: u64, callee: impl Fn(u64) -> Vec<u8>) -> f64 {
    let base = 1 << 63;
    for number in 0..codes {
        let at = Address::from_word(B256::from(U256::from(base | number)));
        bench.deploy(at, &callee(number));
    }
    let body = format!(
        "(loop $next
            (i64.store (i32.const 16) (i64.const 0)) (i32.store (i32.const 8) (i32.const 0))
            (call $put (i64.add (i64.const {base}) (local.get $n)))
            (drop (call $call_contract (i32.const 0) (i32.const 64) (i32.const 0) (i32.const 64) (i64.const -1) (i32.const 96)))
            (local.set $n (i64.rem_u (i64.add (local.get $n) (i64.const 1)) (i64.const {codes})))
            (br_if $next (i32.lt_u (local.tee $times (i32.add (local.get $times) (i32.const 1))) (i32.const {times})))) i32.const 0"
    );
    // Stores the number big-endian in the last eight bytes of an address.
    let put = "(func $put (param i64) (local i32) (loop $byte
        (i32.store8 offset=12 (local.get 1) (i32.wrap_i64 (i64.shr_u (local.get 0) (i64.extend_i32_u (i32.sub (i32.const 56) (i32.shl (local.get 1) (i32.const 3)))))))
        (br_if $byte (i32.lt_u (local.tee 1 (i32.add (local.get 1) (i32.const 1))) (i32.const 8)))))";
    bench.deploy(crate::support::SUBJECT, &module("1", put, "(local $n i64) (local $times i32)", &body));
    let cost: Cost = bench.least(5, Some(crate::support::SUBJECT), &Bytes::new(), 100_000_000);
    cost.per_gas()
}

/// A call that cannot pay for its start, right after a restart: ns with and without compiled code in the cache.
pub fn unpaid() -> Vec<(String, f64)> {
    let body = "(i32.store (local.get 0) (i32.const 1))".repeat(2_500);
    let wasm = module("1", &format!("(func (param i32) {body})").repeat(18), "", "i32.const 0");
    let gas = 700;
    let after_restart = |artefacts: Arc<Artefacts>| {
        let mut bench = Bench::with_cache(&VmConfig { executors: 1, callers: 2, ..VmConfig::default() }, artefacts);
        bench.deploy(crate::support::SUBJECT, &wasm);
        bench.run(Some(crate::support::SUBJECT), &Bytes::new(), gas).0.nanoseconds
    };
    let artefacts = Arc::<Artefacts>::default();
    let without = after_restart(artefacts.clone());
    let with = after_restart(artefacts);
    let name = |how| format!("a call with {gas} gas to {} bytes of code after a restart, {how} its compiled code", wasm.len());
    vec![(name("without"), without), (name("with"), with)]
}
