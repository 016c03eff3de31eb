//! Modules at each limit, and one step beyond it.

use super::features::with;
use super::support::module;
use super::{Attack, attack};
use corniche_vm::wasm::validate::*;

/// Two attacks: a module at the limit, which must be affordable, and one beyond it, which must be refused.
fn pair(what: &str, goal: &'static str, limit: usize, wasm: impl Fn(usize) -> Vec<u8>) -> [Attack; 2] {
    [attack(format!("{limit} {what}"), goal, wasm(limit)), attack(format!("{} {what}", limit + 1), goal, wasm(limit + 1))]
}

/// A contract with one additional function.
fn function(text: &str) -> Vec<u8> {
    with(&format!("(func {text})"))
}

fn many(text: &str, count: usize) -> String {
    text.repeat(count)
}

/// A contract of `size` bytes, up to one more than permitted.
fn bytes(size: usize) -> Vec<u8> {
    let head = with("");
    let mut wasm = head.clone();
    wasm.push(0);
    let content = size - head.len() - 4;
    wasm.extend([content as u8 & 0x7f | 0x80, (content >> 7) as u8 & 0x7f | 0x80, (content >> 14) as u8]);
    wasm.resize(size, 0);
    wasm
}

pub fn attacks() -> Vec<Attack> {
    let entry = r#"(func (export "user_entrypoint") (param i32) (result i32) i32.const 0)"#;
    let memory = |pages: usize| wat::parse_str(format!(r#"(module (memory (export "memory") {pages}) {entry})"#)).unwrap();
    let behind = |text: String| wat::parse_str(format!(r#"(module (memory (export "memory") 1) {entry} {text})"#)).unwrap();
    [
        pair("bytes of module", "A large module is cheap because it does nothing.", MAX_MODULE_BYTES, bytes),
        pair("pages of memory", "Memory that is never touched is zeroed all the same.", MAX_MEMORY_PAGES as usize, memory),
        // The entrypoint counts too.
        pair(
            "functions beside the entrypoint",
            "Each function costs the compiler more than its bytes.",
            MAX_FUNCTIONS as usize - 1,
            |count| with(&many("(func)", count)),
        ),
        pair("types", "Types are compared with each other.", MAX_TYPES as usize - 1, |count| {
            with(&many("(type (func (param i32 i64 i32)))", count))
        }),
        // `end` counts too.
        pair("instructions", "One long function is dearer to compile than many.", MAX_OPERATORS as usize - 1, |count| {
            function(&many("nop ", count))
        }),
        pair("locals", "Zeroing locals takes longer than it costs.", MAX_LOCALS as usize, |count| {
            function(&format!("(local {})", many("i64 ", count)))
        }),
        pair("parameters", "An indirect call moves parameters for nothing.", MAX_PARAMETERS as usize, |count| {
            function(&format!("(param {})", many("i64 ", count)))
        }),
        // The function's own block counts too.
        pair("nested blocks", "A recursive compiler runs out of its own stack.", MAX_NESTING as usize - 1, |count| {
            function(&format!("{}{}", many("block ", count), many("end ", count)))
        }),
        pair("nested loops", "Loops in loops are analysed again for each.", MAX_NESTING as usize - 1, |count| {
            function(&format!("{}{}", many("loop ", count), many("end ", count)))
        }),
        pair("nested ifs", "Conditions in conditions are analysed again for each.", MAX_NESTING as usize - 1, |count| {
            function(&format!("(param i32) {}{}", many("local.get 0 if ", count), many("end ", count)))
        }),
        pair(
            "pairs of branch and block",
            "The compiler's time grows with the square of branches.",
            MAX_JOINS as usize / 2,
            |count| function(&format!("(param i32) {}", many("(block (br_if 0 (local.get 0)))", count))),
        ),
        pair(
            "branches over 100 locals",
            "The compiler tracks every local at every branch.",
            MAX_LOCALS_TIMES_JOINS as usize / 100,
            |count| {
                function(&format!(
                    "(param i32) (local {}) {} {}",
                    many("i64 ", 99),
                    many("(block)", count % 2),
                    many("(block (br_if 0 (local.get 0)))", count / 2)
                ))
            },
        ),
        pair("targets of one branch", "A table of branches is a square of edges.", MAX_JOINS as usize - 2, |count| {
            function(&format!("(param i32) (block (br_table {} (local.get 0)))", many("0 ", count)))
        }),
        pair("operands", "Operands fill the frame faster than locals.", MAX_FRAME_WORDS as usize - 16, |count| {
            function(&format!("{}{}", many("i32.const 0 ", count), many("drop ", count)))
        }),
        pair("globals", "Globals are initialised at each start.", MAX_GLOBALS as usize, |count| {
            with(&many("(global (mut i64) (i64.const -1))", count))
        }),
        pair("data segments", "Segments are copied at each start.", MAX_DATA_SEGMENTS as usize, |count| {
            behind(many(r#"(data (i32.const 0) "x")"#, count))
        }),
        pair("element segments", "Segments are copied at each start.", MAX_ELEMENT_SEGMENTS as usize, |count| {
            with(&format!("(table 1 funcref) (func $f) {}", many("(elem (i32.const 0) $f)", count)))
        }),
        pair("table entries", "Tables are filled at each start.", MAX_TABLE_ENTRIES as usize, |count| {
            with(&format!("(table {count} funcref) (func $f) (elem (i32.const 0) {})", many("$f ", count)))
        }),
        pair("exports", "Exports are looked up one by one.", MAX_EXPORTS as usize - 2, |count| {
            with(&format!("(func $f) {}", (0..count).map(|at| format!(r#"(export "e{at}" (func $f))"#)).collect::<String>()))
        }),
        pair("imports", "Imports are resolved at each start.", MAX_IMPORTS as usize, |count| {
            with(&many(r#"(import "vm_hooks" "chainid" (func (result i64)))"#, count))
        }),
        pair("bytes in a name", "Names are kept in memory.", MAX_NAME_BYTES, |count| {
            with(&format!(r#"(func (export "{}"))"#, many("x", count)))
        }),
    ]
    .into_iter()
    .flatten()
    .chain([
        attack(
            "a name of 100 KB",
            "A long name of an import reaches the log.",
            with(&format!(r#"(import "vm_hooks" "{}" (func))"#, many("x", 100_000))),
        ),
        attack(
            "100,000 targets of one branch",
            "A table of branches beyond every limit.",
            function(&format!("(param i32) (block (br_table {} (local.get 0)))", many("0 ", 100_000))),
        ),
        attack("100,000 nested blocks", "A recursive reader runs out of its own stack.", deep(100_000)),
        attack(
            "a thousand parameters",
            "A type beyond what any call passes in registers.",
            function(&format!("(param {})", many("i64 ", 1_000))),
        ),
        attack(
            "all of memory is data",
            "A contract starts with 128 pages that must be copied.",
            data(MAX_MEMORY_PAGES as usize),
        ),
        attack(
            "a segment at the end of memory",
            "A segment of no bytes lies behind memory.",
            behind(r#"(data (i32.const 65536) "")"#.into()),
        ),
        attack(
            "a segment beyond memory",
            "Starting the contract fails after it was paid for.",
            behind(r#"(data (i32.const 65535) "xy")"#.into()),
        ),
        attack(
            "a segment at the largest address",
            "The sum of offset and length wraps.",
            behind(r#"(data (i32.const -1) "xy")"#.into()),
        ),
        attack(
            "elements beyond the table",
            "Starting the contract fails after it was paid for.",
            with("(table 1 funcref) (func $f) (elem (i32.const 1) $f)"),
        ),
        attack("a thousand globals that a loop sets", "Globals lie in memory that no price sees.", {
            let set: String =
                (0..1_000).map(|at| format!("(global.set {at} (i64.add (global.get {at}) (i64.const 1)))")).collect();
            module("1", &many("(global (mut i64) (i64.const -1))", 1_000), "", &super::support::again(&set))
        }),
    ])
    .collect()
}

/// Nested blocks, written without an assembler, which would recurse.
fn deep(blocks: usize) -> Vec<u8> {
    let shallow = function("nop nop nop nop");
    let at = shallow.windows(4).position(|bytes| bytes == [1, 1, 1, 1]).unwrap();
    // The lengths no longer match, but the reader reaches the blocks first.
    [&shallow[..at], &[2, 0x40].repeat(blocks)].concat()
}

/// A memory of `pages` pages with one data segment in each, at most 128.
fn data(pages: usize) -> Vec<u8> {
    let segments: String = (0..pages.min(128))
        .map(|page| format!(r#"(data (i32.const {}) "{}")"#, page * 65_536 + 30_000, "x".repeat(3_000)))
        .collect();
    wat::parse_str(format!(
        r#"(module (memory (export "memory") {pages}) (func (export "user_entrypoint") (param i32) (result i32) i32.const 0) {segments})"#
    ))
    .unwrap()
}
