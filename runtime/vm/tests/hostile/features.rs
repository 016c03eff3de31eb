//! Features of WebAssembly that could make nodes differ, or that have no price. All are refused, in every position.

use super::{Attack, attack};

const SHELL: &str = r#"(memory (export "memory") 1) (func (export "user_entrypoint") (param i32) (result i32) i32.const 0)"#;

/// A contract that does nothing, plus `extra`.
pub fn with(extra: &str) -> Vec<u8> {
    wat::parse_str(format!("(module {extra} {SHELL})")).unwrap_or_else(|error| panic!("{error}\n{extra}"))
}

pub fn attacks() -> Vec<Attack> {
    [
        ("float constant", "The bits of a NaN differ between processors.", "(func (drop (f32.div (f32.const 0) (f32.const 0))))"),
        ("float in a signature", "A type smuggles floats past a check of instructions.", "(func (param f64))"),
        ("float in a local", "A local that no instruction names holds a float.", "(func (local f32))"),
        ("float in a global", "A float waits in a global.", "(global f64 (f64.const nan))"),
        ("float in dead code", "Dead code is compiled but not looked at.", "(func unreachable f64.sqrt drop)"),
        ("float as a block's result", "A block's type is not looked at.", "(func (drop (block (result f32) unreachable)))"),
        ("float to integer", "Conversions round differently.", "(func (param i32) (drop (i32.trunc_sat_f32_s (f32.reinterpret_i32 (local.get 0)))))"),
        ("SIMD", "Vectors have lanes that differ between processors.", "(func (drop (v128.const i64x2 0 0)))"),
        ("SIMD in a local", "A local of 16 bytes makes frames larger than what is counted.", "(func (local v128 v128 v128 v128))"),
        ("relaxed SIMD", "Relaxed instructions may answer what the processor likes.", "(func (param v128) (drop (i8x16.relaxed_swizzle (local.get 0) (local.get 0))))"),
        ("atomic access", "An atomic load waits for other threads.", "(func (drop (i32.atomic.load (i32.const 0))))"),
        ("atomic fence", "A fence stops every core.", "(func atomic.fence)"),
        ("atomic wait", "A wait sleeps for as long as it likes.", "(func (drop (memory.atomic.wait32 (i32.const 0) (i32.const 0) (i64.const -1))))"),
        ("shared memory", "Two instances share their memory.", "(memory 1 1 shared)"),
        ("two memories", "The second memory is counted by nobody.", "(memory 128)"),
        ("64-bit memory", "Addresses beyond 4 GiB miss the guard pages.", "(memory i64 1)"),
        ("small pages", "A memory of pages of one byte is not counted in pages.", "(memory 1000000 (pagesize 1))"),
        ("table of external references", "References keep objects of the host alive.", "(table 1 externref)"),
        ("reference local", "A local holds a reference to the host.", "(func (local externref))"),
        ("reference constant", "A reference to a function is a number of the host's.", "(func (drop (ref.null func)))"),
        ("reference to a function", "A function escapes its table.", "(func $f) (elem declare func $f) (func (drop (ref.func $f)))"),
        ("table growth", "A table grows without being paid for.", "(table 1 funcref) (func (drop (table.grow 0 (ref.null func) (i32.const -1))))"),
        ("table write", "A table that changes shows in the next run.", "(table 1 funcref) (func (table.set 0 (i32.const 0) (ref.null func)))"),
        ("table copy", "Copying a table costs nothing.", "(table 9 funcref) (func (table.copy (i32.const 0) (i32.const 1) (i32.const 8)))"),
        ("passive element segment", "A dropped segment shows in the next run.", "(table 1 funcref) (func $f) (elem func $f)"),
        ("passive data segment", "A segment of half a megabyte is copied for the price of one instruction.", r#"(data "x")"#),
        ("several results", "Blocks with many results make frames larger than what is counted.", "(func (result i32 i32) unreachable)"),
        ("block with parameters", "Blocks take values from below.", "(func (i32.const 1) (block (param i32) drop))"),
        ("tail call", "A tail call recurses without depth.", "(func $f return_call $f)"),
        ("indirect tail call", "The same through the table.", "(type $t (func)) (table 1 funcref) (func (return_call_indirect (type $t) (i32.const 0)))"),
        ("exception", "An exception leaves functions without giving their stack back.", "(tag $e) (func (throw $e))"),
        ("catch all", "A contract catches the trap that ends it.", "(func (block $b (try_table (catch_all $b))))"),
        ("structure", "Garbage is collected when the host likes.", "(type (struct (field i64)))"),
        ("recursive types", "Comparing types that contain each other takes long.", "(rec (type $a (func (param (ref null $b)))) (type $b (func (param (ref null $a)))))"),
        ("wide arithmetic", "Instructions that nothing prices.", "(func (drop (i64.add128 (i64.const 1) (i64.const 1) (i64.const 1) (i64.const 1))) drop)"),
        ("computed initialiser", "An initialiser computes before anybody pays.", "(global i32 (i32.mul (i32.const 3) (i32.const 4)))"),
        ("initialiser from a global", "An initialiser reads what is not there yet.", "(global $a i32 (i32.const 1)) (global i32 (global.get $a))"),
        ("start function", "Code runs before anybody pays.", "(func $early (loop (br 0))) (start $early)"),
        ("unknown host call", "The host has calls that no table names.", r#"(import "env" "abort" (func))"#),
        ("host call with another signature", "Registers of the host are read as parameters.", r#"(import "vm_hooks" "read_args" (func (param i64)))"#),
        ("console", "Contracts write to the logs of nodes.", r#"(import "console" "log_txt" (func (param i32 i32)))"#),
        ("imported memory", "Memory comes from another contract.", r#"(import "vm_hooks" "memory" (memory 1))"#),
        ("imported global", "A mutable global is shared with the host.", r#"(import "vm_hooks" "gas" (global (mut i64)))"#),
        ("imported table", "A table is shared with the host.", r#"(import "vm_hooks" "table" (table 1 funcref))"#),
        ("exports named like the host's own", "The host reads its counters from the contract's globals.", r#"(global $g (mut i64) (i64.const 9000000)) (export "gas" (global $g)) (export "stack" (global $g)) (export "pages" (global $g)) (func (export "run"))"#),
        ("entrypoint without a result", "The host reads a result that nobody wrote.", r#"(func (export "user_entrypoint2"))"#),
    ]
    .into_iter()
    .map(|(name, goal, extra)| attack(name, goal, with(extra)))
    .chain(others())
    .collect()
}

/// Ideas about the entrypoint or the memory.
fn others() -> Vec<Attack> {
    let text = |text: &str| wat::parse_str(text).unwrap();
    vec![
        attack(
            "entrypoint of another type",
            "The entrypoint takes more than it is given.",
            text(
                r#"(module (memory (export "memory") 1) (func (export "user_entrypoint") (param i32 i32) (result i32) i32.const 0))"#,
            ),
        ),
        attack(
            "entrypoint that is a host call",
            "The host enters itself.",
            text(
                r#"(module (import "vm_hooks" "storage_flush_cache" (func $f (param i32))) (memory (export "memory") 1) (export "user_entrypoint" (func $f)))"#,
            ),
        ),
        attack(
            "memory that is not exported",
            "Host calls write into memory that does not exist.",
            text(r#"(module (memory 1) (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#),
        ),
        attack(
            "no memory",
            "The same without any.",
            text(r#"(module (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#),
        ),
    ]
}
