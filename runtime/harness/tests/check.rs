//! Fifty modules that do not deploy. The check reports each fault, its location and a fix.

use corniche_harness::check;

/// Parts that every contract needs.
const SHELL: &str =
    r#"(memory (export "memory") 1) (func $main (export "user_entrypoint") (param i32) (result i32) i32.const 0)"#;

/// Added to the shell: code in front of it, part of the fault, part of the fix.
const IN_THE_SHELL: &[(&str, &str, &str)] = &[
    // Instructions, with the function that contains them.
    ("(func $rate f32.const 1 drop)", "function 0 `rate`: f32.const is not allowed", "fixed point"),
    ("(func $rate f64.const 1 f64.sqrt drop)", "function 0 `rate`: f64.const", "fixed point"),
    ("(func $rate (memory.size) f64.convert_i32_s drop)", "f64.convert_i32_s", "fixed point"),
    ("(func $rate i32.const 0 f32.load drop)", "f32.load", "fixed point"),
    ("(func $wide v128.const i64x2 0 0 drop)", "v128.const", "simd128"),
    ("(func $wide i32.const 0 i8x16.splat drop)", "i8x16.splat", "simd128"),
    ("(func $wait i32.const 0 i32.atomic.load drop)", "atomic", "runs alone"),
    ("(func $wait atomic.fence)", "atomic.fence", "runs alone"),
    ("(func $null ref.null func drop)", "ref.null", "-reference-types"),
    ("(table 1 funcref) (func $get i32.const 0 table.get 0 drop)", "table.get", "-reference-types"),
    ("(table 1 funcref) (func $size table.size 0 drop)", "table.size", "reference-types"),
    ("(func $f) (func $tail return_call $f)", "return_call", "+tail-call"),
    ("(func $two (block (result i32 i32) unreachable) drop drop)", "multi-value", "+multivalue"),
    ("(func $one i32.const 1 (block (param i32) drop))", "multi-value", "+multivalue"),
    // Types.
    ("(func $takes (param f32))", "function 0 `takes`: f32 in its signature", "fixed point"),
    ("(func $gives (result v128) unreachable)", "function 0 `gives`: v128", "simd128"),
    ("(func $holds (local f64))", "function 0 `holds`", "fixed point"),
    ("(func $holds (local externref))", "function 0 `holds`", "-reference-types"),
    ("(func $both (result i32 i32) unreachable)", "function 0 `both`: several results", "+multivalue"),
    ("(type (func (param f32)))", "type 0: f32", "fixed point"),
    ("(type (struct (field i32)))", "garbage-collected types", "plain `cargo build"),
    ("(global f32 (f32.const 0))", "floating-point values", "fixed point"),
    ("(global funcref (ref.null func))", "reference types", "-reference-types"),
    ("(global i32 (i32.add (i32.const 1) (i32.const 2)))", "extended constants", "plain `cargo build"),
    // Sections.
    ("(func $early) (start $early)", "start functions", "constructor"),
    ("(tag $oops)", "exceptions", "panic = \"abort\""),
    ("(table 1 externref)", "tables of references", "-reference-types"),
    ("(table 1 funcref) (table 1 funcref)", "2 tables; at most 1", "opt-level"),
    ("(table 5000 funcref)", "5000 table entries; at most 4096", "opt-level"),
    ("(memory 1)", "multi-memory", "exactly one memory"),
    ("(table 1 funcref) (func $f) (elem func $f)", "passive or declared element", "-reference-types"),
    ("(table 1 funcref) (func $f) (elem (i32.const 7) $f)", "element segment of 1 at 7", "fit into"),
    ("(data \"x\")", "passive data", "plain `cargo build"),
    ("(data (i32.const 65535) \"xy\")", "data segment of 2 at 65535", "fit into"),
    // Imports.
    ("(import \"env\" \"memcpy\" (func))", "`env`.`memcpy` is not known", "not linked"),
    ("(import \"__wbindgen_placeholder__\" \"__wbindgen_throw\" (func))", "`__wbindgen_throw`", "getrandom"),
    ("(import \"wasi_snapshot_preview1\" \"fd_write\" (func))", "`fd_write`", "wasm32-unknown-unknown"),
    ("(import \"console\" \"log_text\" (func (param i32 i32)))", "`console`.`log_text`", "log_txt"),
    ("(import \"console\" \"log_f64\" (func $log (param f64)))", "floating-point", "fixed point"),
    ("(import \"vm_hooks\" \"read_arg\" (func (param i32)))", "`vm_hooks`.`read_arg`", "spelling"),
    ("(import \"chain\" \"height\" (func))", "`chain`.`height`", "`vm_hooks` and `corniche` only"),
    ("(import \"vm_hooks\" \"read_args\" (func (param i64)))", "expected (i32) -> (), found (i64) -> ()", "sdk/abi"),
    ("(import \"vm_hooks\" \"chainid\" (global i64))", "`vm_hooks`.`chainid` has the wrong type", "sdk/abi"),
    ("(import \"corniche\" \"counter_add\" (func (param i32)))", "`counter_add` has the wrong type", "sdk/abi"),
];

/// Complete modules.
const WHOLE: &[(&str, &str, &str)] = &[
    (
        "(module (func (export \"user_entrypoint\") (param i32) (result i32) i32.const 0))",
        "`memory` is missing",
        "rustc exports it",
    ),
    (
        "(module (memory 1) (func (export \"user_entrypoint\") (param i32) (result i32) i32.const 0))",
        "the memory must be exported",
        "rustc exports it",
    ),
    (r#"(module (memory (export "memory") 1))"#, "`user_entrypoint` is missing", "#[entrypoint]"),
    (
        r#"(module (memory (export "memory") 1) (func (export "user_entrypoint")))"#,
        "its type must be (i32) -> i32",
        "#[entrypoint]",
    ),
    (
        r#"(module (memory (export "memory") 129) (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#,
        "129 memory pages; at most 128",
        "-zstack-size",
    ),
    (
        r#"(module (memory (export "memory") i64 1) (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#,
        "memory64",
        "wasm32",
    ),
    (
        r#"(module (memory (export "memory") 1 2 shared) (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#,
        "threads",
        "+atomics",
    ),
];

fn assert_refused(wasm: &[u8], of: &str, fault: &str, fix: &str) {
    let refused = check(wasm).expect_err(of);
    assert!(refused.fault.contains(fault), "{of}\nsays `{}`, which does not name `{fault}`", refused.fault);
    assert!(refused.fix.contains(fix), "{of}\nsays `{}`, which does not name `{fix}`", refused.fix);
}

#[test]
fn every_fault_has_message_and_fix() {
    assert!(IN_THE_SHELL.len() + WHOLE.len() >= 50);
    for (extra, fault, fix) in IN_THE_SHELL {
        // The shell comes last, so that the faulty function has index 0.
        let text = format!("(module {extra} {SHELL})");
        assert_refused(&wat::parse_str(&text).expect(&text), &text, fault, fix);
    }
    for (text, fault, fix) in WHOLE {
        assert_refused(&wat::parse_str(text).expect(text), text, fault, fix);
    }
}

/// Large modules are generated.
#[test]
fn oversize_message_has_both_sizes() {
    let module = |extra: &str| wat::parse_str(format!("(module {extra} {SHELL})")).expect("a module");
    let many = |count: usize, one: &str| one.repeat(count);
    for (extra, fault, fix) in [
        (many(4_100, "(func)"), "4101 functions; at most 4096", "opt-level"),
        (many(1_100, "(global i32 (i32.const 0))"), "1100 globals; at most 1024", "opt-level"),
        (format!("(func $long (local {}))", many(400, "i32 ")), "more than 348 locals", "split it"),
        (format!("(func $branchy {})", many(4_200, "(block br 0)")), "4200 branches", "split it"),
        (format!("(func $many (param {}))", many(65, "i32 ")), "65 parameters; at most 64", "split it"),
        (format!("(func $deep {} {})", many(600, "block "), many(600, "end ")), "more than 512 nested blocks", "split it"),
        (format!("(func $straight {})", many(66_000, "nop ")), "65536", "split it"),
    ] {
        assert_refused(&module(&extra), &extra[..extra.len().min(60)], fault, fix);
    }
    let padded = module(&format!("(func $pad {})", many(60_000, "i64.const 9223372036854775807 drop ")));
    assert!(padded.len() > 512 << 10);
    assert_refused(&padded, "half a megabyte", "at most 524288", "opt-level");
}

#[test]
fn non_module_is_rejected() {
    assert_refused(b"", "nothing", "not a WebAssembly module", "cargo build");
    assert_refused(b"(module)", "text", "not a WebAssembly module", "text format");
    assert_refused(b"\0asm\x01\0\0\0\xff", "a torn one", "not a valid WebAssembly module", "damaged");
    let cut = wat::parse_str(format!("(module {SHELL})")).expect("a module");
    assert_refused(&cut[..cut.len() - 3], "a torn one", "", "damaged");
}

#[test]
fn deployable_reports_cost() {
    let extra = r#"(import "vm_hooks" "read_args" (func (param i32))) (import "corniche" "counter_add" (func (param i32 i32 i32) (result i32)))"#;
    let wasm = wat::parse_str(format!("(module {extra} {SHELL})")).expect("a module");
    let fits = check(&wasm).expect("it deploys");
    assert_eq!((fits.unpacked, fits.pages, fits.functions), (wasm.len(), 1, 1));
    assert!(fits.compressed > 4 && fits.deployment_gas > 53_000, "{fits:?}");
    let imports: Vec<_> = fits.imports.iter().map(|(module, names)| (module.as_str(), names.join(" "))).collect();
    assert_eq!(imports, [("corniche", "counter_add".to_owned()), ("vm_hooks", "read_args".to_owned())]);
}

#[test]
fn console_import_is_development_only() {
    let speaks = r#"(import "console" "log_txt" (func (param i32 i32)))"#;
    let wasm = wat::parse_str(format!("(module {speaks} {SHELL})")).expect("a module");
    assert!(check(&wasm).expect("it deploys").development_only);
    let silent = wat::parse_str(format!("(module {SHELL})")).expect("a module");
    assert!(!check(&silent).expect("it deploys").development_only);
}
