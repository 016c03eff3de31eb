//! Contracts of the genesis.

use alloy_primitives::Bytes;

/// Smallest contract that uses both input and output of a call.
pub fn echo_module() -> Bytes {
    use wasm_encoder::{
        CodeSection, EntityType, ExportKind, ExportSection, Function, FunctionSection, ImportSection, MemArg, MemorySection,
        MemoryType, Module, TypeSection, ValType,
    };
    let mut types = TypeSection::new();
    types.ty().function([ValType::I32], []);
    types.ty().function([ValType::I32, ValType::I32], []);
    types.ty().function([ValType::I32], [ValType::I32]);
    let mut imports = ImportSection::new();
    imports.import("vm_hooks", "read_args", EntityType::Function(0));
    imports.import("vm_hooks", "write_result", EntityType::Function(1));
    let mut functions = FunctionSection::new();
    functions.function(2);
    let mut memories = MemorySection::new();
    memories.memory(MemoryType { minimum: 1, maximum: Some(1), memory64: false, shared: false, page_size_log2: None });
    let mut exports = ExportSection::new();
    exports.export("memory", ExportKind::Memory, 0);
    exports.export("user_entrypoint", ExportKind::Func, 2);
    let mut body = Function::new([]);
    let byte_at = MemArg { offset: 0, align: 0, memory_index: 0 };
    let mut code = body.instructions();
    code.i32_const(0).call(0).i32_const(0).local_get(0).call(1);
    code.i32_const(0).i32_load8_u(byte_at).i32_const(8).i32_eq().end();
    let mut codes = CodeSection::new();
    codes.function(&body);
    let mut module = Module::new();
    module.section(&types).section(&imports).section(&functions).section(&memories).section(&exports).section(&codes);
    module.finish().into()
}

pub const RELAY_MODULE: &str = r#"(module
  (import "vm_hooks" "read_args" (func $args (param i32)))
  (import "vm_hooks" "write_result" (func $result (param i32 i32)))
  (import "vm_hooks" "emit_log" (func $emit (param i32 i32 i32)))
  (import "vm_hooks" "storage_load_bytes32" (func $load (param i32 i32)))
  (import "vm_hooks" "storage_cache_bytes32" (func $store (param i32 i32)))
  (import "vm_hooks" "storage_flush_cache" (func $flush (param i32)))
  (import "vm_hooks" "call_contract" (func $call (param i32 i32 i32 i32 i64 i32) (result i32)))
  (import "vm_hooks" "delegate_call_contract" (func $delegate (param i32 i32 i32 i64 i32) (result i32)))
  (import "vm_hooks" "static_call_contract" (func $static (param i32 i32 i32 i64 i32) (result i32)))
  (import "vm_hooks" "read_return_data" (func $returned (param i32 i32 i32) (result i32)))
  (memory (export "memory") 2 2)
  ;; 0 the slot, 32 its value, 64 a topic, 96 wei, 128 a length, 1024 the input, 65536 what came back
  (func (export "user_entrypoint") (param $length i32) (result i32)
    (local $how i32) (local $status i32) (local $data i32)
    (call $args (i32.const 1024))
    (local.set $how (i32.or (i32.load8_u (i32.const 1024)) (i32.const 32)))
    (local.set $data (i32.sub (local.get $length) (i32.const 22)))
    (i32.store8 (i32.const 95) (i32.const 1))
    (call $emit (i32.const 64) (i32.const 32) (i32.const 1))
    (call $load (i32.const 0) (i32.const 32))
    (i32.store8 (i32.const 63) (i32.add (i32.load8_u (i32.const 63)) (i32.const 1)))
    (call $store (i32.const 0) (i32.const 32))
    (call $flush (i32.const 0))
    (i32.store8 (i32.const 127) (i32.load8_u (i32.const 1025)))
    (if (i32.eq (local.get $how) (i32.const 99)) (then (local.set $status (call $call
      (i32.const 1026) (i32.const 1046) (local.get $data) (i32.const 96) (i64.const -1) (i32.const 128)))))
    (if (i32.eq (local.get $how) (i32.const 100)) (then (local.set $status (call $delegate
      (i32.const 1026) (i32.const 1046) (local.get $data) (i64.const -1) (i32.const 128)))))
    (if (i32.eq (local.get $how) (i32.const 115)) (then (local.set $status (call $static
      (i32.const 1026) (i32.const 1046) (local.get $data) (i64.const -1) (i32.const 128)))))
    (i32.store8 (i32.const 95) (i32.const 2))
    (call $emit (i32.const 64) (i32.const 32) (i32.const 1))
    (drop (call $returned (i32.const 65536) (i32.const 0) (i32.load (i32.const 128))))
    (call $result (i32.const 65536) (i32.load (i32.const 128)))
    (select (local.get $status) (i32.const 0) (i32.eq (local.get $how) (i32.load8_u (i32.const 1024))))))"#;
