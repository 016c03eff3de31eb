//! Every module that must not run is refused, with a message that names the fault and its location.

mod common;
use common::{accepted, module, refusal, wat};
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};

const SHELL: &str = r#"(memory (export "memory") 1) (func (export "user_entrypoint") (param i32) (result i32) i32.const 0)"#;

fn with(extra: &str) -> Vec<u8> {
    wat(&format!("(module {extra} {SHELL})"))
}

fn assert_refused(wasm: &[u8], parts: &[&str]) {
    let text = refusal(wasm);
    for part in parts {
        assert!(text.contains(part), "`{text}` does not mention `{part}`");
    }
}

#[test]
fn rejected_instruction_names_function() {
    for (body, parts) in [
        ("f32.const 1 drop", &["f32.const", "floating point"][..]),
        ("f64.const 1 f64.const 2 f64.add drop", &["f64.const", "floating point"]),
        ("i32.const 0 f32.load drop", &["f32.load", "floating point"]),
        ("i32.const 0 f64.convert_i32_s drop", &["f64.convert_i32_s", "floating point"]),
        ("f32.const 1 i32.trunc_sat_f32_s drop", &["f32.const", "floating point"]),
        ("v128.const i64x2 0 0 drop", &["v128.const", "SIMD"]),
        ("i32.const 0 i8x16.splat drop", &["i8x16.splat", "SIMD"]),
        ("i32.const 0 i32.atomic.load drop", &["atomic", "threads"]),
        ("atomic.fence", &["atomic", "threads"]),
        ("ref.null func drop", &["ref.null", "reference types"]),
        ("ref.func $f drop", &["ref.func", "reference types"]),
        ("return_call $f", &["return_call", "tail calls"]),
    ] {
        let wasm = with(&format!("(func $f) (elem declare func $f) (func $culprit {body})"));
        // Function 1 contains the fault; wat writes a name section.
        let text = refusal(&wasm);
        if !text.contains("element segments") {
            assert_refused(&wasm, parts);
            assert!(text.contains("function 1 `culprit`"), "{text}");
        }
    }
}

#[test]
fn bulk_memory_allows_copy_and_fill_only() {
    accepted(&module(
        "",
        "i32.const 0 i32.const 8 i32.const 8 memory.copy i32.const 0 i32.const 1 i32.const 8 memory.fill i32.const 0",
    ));
    assert_refused(
        &wat(&format!(r#"(module {SHELL} (data "x") (func $init i32.const 0 i32.const 0 i32.const 1 memory.init 0))"#)),
        &["memory.init", "init"],
    );
    assert_refused(&wat(&format!(r#"(module {SHELL} (data "x"))"#)), &["passive data"]);
    assert_refused(&with("(table 1 funcref) (func $f) (elem func $f)"), &["passive"]);
    assert_refused(
        &with("(table 1 funcref) (func $grow ref.null func i32.const 1 table.grow 0 drop)"),
        &["reference types", "function 0 `grow`"],
    );
    assert_refused(&with("(table 1 funcref) (func $get i32.const 0 table.get 0 drop)"), &["table.get", "reference types"]);
}

#[test]
fn sign_extension_and_mutable_globals_pass() {
    accepted(&wat(r#"(module (memory (export "memory") 1) (global $g (mut i32) (i32.const 0))
            (func (export "user_entrypoint") (param i32) (result i32)
                i32.const 200 i32.extend8_s global.set $g global.get $g drop i64.const 1 i64.extend32_s drop i32.const 0))"#));
}

#[test]
fn padded_call_indirect_passes() {
    // Output of stable rustc: the table index as a LEB of five bytes.
    let plain =
        wat(r#"(module (type $t (func)) (memory (export "memory") 1) (table 1 funcref) (func $f) (elem (i32.const 0) $f)
            (func (export "user_entrypoint") (param i32) (result i32) i32.const 0 call_indirect (type $t) i32.const 0))"#);
    let body = [0x41, 0x00, 0x11, 0x00, 0x00, 0x41, 0x00, 0x0b];
    let at = plain.windows(body.len()).position(|window| window == body).expect("the body");
    let mut padded = plain[..at].to_vec();
    padded.extend([0x41, 0x00, 0x11, 0x00, 0x80, 0x80, 0x80, 0x80, 0x00, 0x41, 0x00, 0x0b]);
    // The lengths of the body and of the code section, one byte each here, grow by four.
    let body_length = at - 2;
    assert_eq!(usize::from(padded[body_length]), body.len() + 1);
    padded[body_length] += 4;
    let section = padded.iter().rposition(|byte| *byte == 0x0a).expect("the code section");
    padded[section + 1] += 4;
    // Drop the name section after the code.
    accepted(&padded);
    accepted(&plain);
}

#[test]
fn rejected_type_names_function() {
    assert_refused(&with("(func $takes (param f32))"), &["function 0 `takes`", "f32", "floating-point"]);
    assert_refused(&with("(func $gives (result v128) unreachable)"), &["function 0 `gives`", "v128"]);
    assert_refused(&with("(func $holds (local f64))"), &["function 0 `holds`", "f64", "floating-point"]);
    assert_refused(&with("(func $holds (local externref))"), &["function 0 `holds`", "reference types"]);
    assert_refused(&with("(func $two (result i32 i32) unreachable)"), &["function 0 `two`", "multi-value"]);
    assert_refused(
        &with("(func $block i32.const 1 (block (param i32) drop))"),
        &["function 0 `block`", "block", "multi-value"],
    );
    assert_refused(&with("(func $result (block (result f32) unreachable) drop)"), &["function 0 `result`", "floating-point"]);
    assert_refused(&with("(type (func (param f32)))"), &["float"]);
    assert_refused(&with("(global f32 (f32.const 0))"), &["floating-point"]);
    assert_refused(&with("(global funcref (ref.null func))"), &["reference types"]);
    assert_refused(&with("(table 1 externref)"), &["references"]);
    assert_refused(&with("(type (struct (field i32)))"), &["garbage"]);
}

#[test]
fn memory_and_extensions() {
    assert_refused(&wat(r#"(module (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#), &["`memory`"]);
    assert_refused(
        &wat(r#"(module (memory 1) (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#),
        &["`memory`", "exported"],
    );
    assert_refused(&with("(memory 1)"), &["multi-memory"]);
    assert_refused(
        &wat(
            r#"(module (memory (export "memory") i64 1) (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#,
        ),
        &["memory64"],
    );
    assert_refused(
        &wat(
            r#"(module (memory (export "memory") 1 2 shared) (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#,
        ),
        &["threads"],
    );
    assert_refused(
        &wat(
            r#"(module (memory (export "memory") 129) (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#,
        ),
        &["129 memory pages", "128"],
    );
    accepted(&wat(
        r#"(module (memory (export "memory") 128) (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#,
    ));
    // A large maximum is accepted, using it is not: rustc never writes a maximum.
    accepted(&wat(
        r#"(module (memory (export "memory") 1 65536) (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#,
    ));
}

#[test]
fn entrypoint_is_checked() {
    assert_refused(&wat(r#"(module (memory (export "memory") 1))"#), &["`user_entrypoint`"]);
    for signature in ["", "(param i32)", "(param i64) (result i32)", "(param i32 i32) (result i32)"] {
        let wasm =
            wat(&format!(r#"(module (memory (export "memory") 1) (func (export "user_entrypoint") {signature} unreachable))"#));
        assert_refused(&wasm, &["`user_entrypoint`", "(i32) -> i32"]);
    }
    assert_refused(
        &wat(r#"(module (memory (export "memory") 1) (global (export "user_entrypoint") i32 (i32.const 0)))"#),
        &["`user_entrypoint`", "function"],
    );
    assert_refused(&with("(func $early) (start $early)"), &["start functions"]);
    // Other exports are allowed.
    accepted(&with(r#"(func (export "gas")) (global (export "stack") i32 (i32.const 0))"#));
}

#[test]
fn imports() {
    assert_refused(&with(r#"(import "env" "abort" (func))"#), &["`env`.`abort`", "not known"]);
    assert_refused(&with(r#"(import "vm_hooks" "no_such_hook" (func))"#), &["`vm_hooks`.`no_such_hook`", "not known"]);
    assert_refused(&with(r#"(import "corniche" "anything" (func))"#), &["`corniche`.`anything`", "not known"]);
    assert_refused(
        &with(r#"(import "corniche" "counter_add" (func (param i32 i32) (result i32)))"#),
        &["`corniche`.`counter_add`", "(i32, i32, i32) -> (i32)", "(i32, i32) -> (i32)"],
    );
    assert_refused(
        &with(r#"(import "console" "log_txt" (func (param i32 i32)))"#),
        &["`console`.`log_txt`", "development chains only"],
    );
    assert_refused(
        &with(r#"(import "vm_hooks" "read_args" (func (param i64)))"#),
        &["`read_args`", "(i32) -> ()", "(i64) -> ()"],
    );
    assert_refused(&with(r#"(import "vm_hooks" "chainid" (func (result i32)))"#), &["`chainid`", "() -> (i64)", "() -> (i32)"]);
    assert_refused(&with(r#"(import "vm_hooks" "chainid" (global i64))"#), &["`chainid`", "something else"]);
    assert_refused(
        &wat(
            r#"(module (import "vm_hooks" "memory" (memory 1)) (func (export "user_entrypoint") (param i32) (result i32) i32.const 0))"#,
        ),
        &["`vm_hooks`.`memory`"],
    );
}

#[test]
fn every_host_call_can_be_imported() {
    use corniche_abi::{MODULES, ValueType};
    let text = |ty: &ValueType| if *ty == ValueType::I32 { "i32" } else { "i64" };
    for (module, calls) in MODULES {
        for call in *calls {
            let parameters: Vec<_> = call.parameters.iter().map(text).collect();
            let result = call.result.iter().map(|ty| format!("(result {})", text(ty))).collect::<String>();
            let signature = format!("(param {}) {result}", parameters.join(" "));
            accepted(&with(&format!(r#"(import "{module}" "{}" (func {signature}))"#, call.name)));
            // Each function exists in its own module only.
            let other = if *module == "vm_hooks" { "corniche" } else { "vm_hooks" };
            let text = refusal(&with(&format!(r#"(import "{other}" "{}" (func {signature}))"#, call.name)));
            assert!(text.contains("not known"), "{text}");
        }
    }
}

#[test]
fn sizes_are_limited() {
    let many = |text: &str, count: usize| text.repeat(count);
    assert_refused(&with(&many("(func)", 4_096)), &["functions", "4096"]);
    accepted(&with(&many("(func)", 4_095)));
    assert_refused(&with(&many("(global i32 (i32.const 0))", 1_025)), &["globals"]);
    assert_refused(&with(&format!("(func $wide (local {}))", many("i32 ", 349))), &["function 0 `wide`", "348 locals"]);
    assert_refused(&with(&format!("(func $long {})", many("nop ", 65_536))), &["function 0 `long`", "65536 instructions"]);
    assert_refused(
        &with(&format!("(func $deep {} {})", many("block ", 513), many("end ", 513))),
        &["function 0 `deep`", "nested"],
    );
    assert_refused(
        &with(&format!("(func $tall {} {})", many("i32.const 0 ", 10_300), many("drop ", 10_300))),
        &["function 0 `tall`", "frame"],
    );
    assert_refused(&with(&format!("(func $many (param {}))", many("i32 ", 65))), &["function 0 `many`", "65 parameters"]);
    assert_refused(
        &with(&format!(
            "(func $joins (param i32) (local {}) {})",
            many("i64 ", 340),
            many("(block (br_if 0 (local.get 0)))", 600)
        )),
        &["function 0 `joins`", "too complex"],
    );
    assert_refused(
        &with(&format!("(func $branchy (param i32) {})", many("(block (br_if 0 (local.get 0)))", 2_049))),
        &["function 0 `branchy`", "4098 branches"],
    );
    assert_refused(&with(&format!("(table 4097 funcref){}", "")), &["table entries"]);
    assert_refused(&wat(&format!(r#"(module {SHELL} {})"#, many(r#"(data (i32.const 0) "x")"#, 129))), &["data segments"]);
    assert_refused(
        &wat(&format!(r#"(module {SHELL} (data (i32.const 0) "{}"))"#, "x".repeat(600_000))),
        &["bytes unpacked", "524288"],
    );
}

#[test]
fn segments_must_fit() {
    assert_refused(&wat(&format!(r#"(module {SHELL} (data (i32.const 65535) "xy"))"#)), &["data segment", "outside"]);
    assert_refused(&wat(&format!(r#"(module {SHELL} (data (i32.const -1) "x"))"#)), &["data segment", "outside"]);
    accepted(&wat(&format!(r#"(module {SHELL} (data (i32.const 65534) "xy"))"#)));
    assert_refused(&with("(table 1 funcref) (func $f) (elem (i32.const 1) $f)"), &["element segment", "outside"]);
    assert_refused(
        &wat(&format!(r#"(module {SHELL} (global i32 (i32.const 0)) (data (global.get 0) "x"))"#)),
        &["initialisers"],
    );
    assert_refused(&with("(global i32 (i32.add (i32.const 1) (i32.const 2)))"), &["initialisers"]);
}

#[test]
fn garbage_is_malformed_and_never_panics() {
    assert_refused(b"\0asm\x02\0\0\0", &["not a valid WebAssembly module"]);
    assert_refused(b"\0asm\x0d\0\x01\0", &[]);
    assert_refused(b"hello, world", &["not a valid WebAssembly module"]);
    let whole = module("", "(block (br_if 0 (local.get $length))) i32.const 0");
    let mut random = SplitMix64::seed_from_u64(7);
    for cut in 0..whole.len() {
        let _ = corniche_vm::wasm::validate::check(&whole[..cut]);
        for _ in 0..40 {
            let mut damaged = whole.clone();
            damaged[cut] = random.next_u32() as u8;
            if let Ok(checked) = corniche_vm::wasm::validate::check(&damaged) {
                // An accepted module can be instrumented, and stays valid.
                let counted = corniche_vm::wasm::instrument::instrument(&checked).expect("a checked module");
                wasmparser::validate(&counted).expect("a valid module");
            }
        }
    }
}
