//! Contracts: from creation data to the end of a run.

use crate::vm::generate::{self, stretch};
use crate::vm::{CONTRACT, TestState};
use alloy_primitives::Address;
use corniche_vm::Rules;
use corniche_vm::host::ExitStatus;
use corniche_vm::wasm::{Backend, PRELUDE, gas, instrument, parse_creation, validate};

/// Gas of a run: enough to reach interesting code, little enough for many runs.
const GAS: u64 = 100_000;

/// Checks that a module accepted by validation is instrumented to a valid one, and runs identically on two compilers.
pub fn module(wasm: &[u8]) {
    for schedule in gas::ALL {
        let Ok(checked) = validate::check_with_schedule(schedule, Rules::default(), wasm) else { continue };
        assert!(checked.compile_gas() >= schedule.compile_byte * wasm.len() as u64);
        let counted = instrument::instrument(&checked).expect("what was checked can be instrumented");
        wasmparser::validate(&counted).expect("what was instrumented is valid");
        run(schedule.version, wasm, b"");
    }
}

fn run(gas_version: u8, wasm: &[u8], input: &[u8]) {
    let once = |backend| {
        let mut world = TestState { gas_version, ..TestState::on(backend) };
        world.code.insert(CONTRACT, wasm.to_vec());
        world.code.insert(Address::ZERO, wasm.to_vec());
        let exit = world.run(wasm, input, GAS);
        (exit, world.storage, world.logs, world.events)
    };
    let expected = once(Backend::Cranelift);
    assert!(!matches!(expected.0.status, ExitStatus::Fault(_)), "{:?}", expected.0.status);
    // The second run reuses the first one's instance.
    for backend in [Backend::Cranelift, Backend::Winch] {
        assert!(once(backend) == expected, "another result on {backend:?}");
    }
}

pub fn module_seeds() -> Vec<Vec<u8>> {
    let call = r#"(module (import "vm_hooks" "call_contract" (func $call (param i32 i32 i32 i32 i64 i32) (result i32)))
        (import "vm_hooks" "storage_cache_bytes32" (func $cache (param i32 i32))) (import "vm_hooks" "write_result" (func $result (param i32 i32)))
        (memory (export "memory") 1 4) (global $g (mut i64) (i64.const 5)) (table 2 funcref) (elem (i32.const 0) $f $f) (type $t (func (param i32)))
        (func $f (param i32) (local i64) (local.set 1 (i64.load (local.get 0))) (i64.store offset=8 (local.get 0) (local.get 1)))
        (func (export "user_entrypoint") (param i32) (result i32)
            (loop $l (call_indirect (type $t) (i32.const 64) (i32.and (local.get 0) (i32.const 1)))
                (drop (memory.grow (i32.const 1))) (global.set $g (i64.add (global.get $g) (i64.const 1)))
                (br_if $l (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 3))))
            (call $cache (i32.const 0) (i32.const 32)) (drop (call $call (i32.const 0) (i32.const 0) (i32.const 4) (i32.const 64) (i64.const 5000) (i32.const 96)))
            (memory.fill (i32.const 9) (i32.const 3) (i32.const 70)) (memory.copy (i32.const 1) (i32.const 9) (i32.const 50))
            (call $result (i32.const 0) (i32.const 64)) (block (block (br_table 0 1 (local.get 0))) (return (i32.const 0))) i32.const 1) (data (i32.const 3) "data"))"#;
    let small = r#"(module (memory (export "memory") 1) (func (export "user_entrypoint") (param i32) (result i32) (i32.div_u (i32.const 7) (local.get 0))))"#;
    [call, small].iter().map(|text| wat::parse_str(text).expect("the seed's own text")).collect()
}

/// Tests wasm-smith's module for these bytes: it reaches deep into valid code, where mutated modules seldom get.
pub fn generated(bytes: &[u8]) {
    if let Ok(wasm) = generate::from_bytes(bytes) {
        module(&wasm);
        run(gas::LATEST.version, &wasm, &[0xff; 320]);
    }
}

pub fn generated_seeds() -> Vec<Vec<u8>> {
    (0..16).map(|seed| stretch(seed, 1_000)).collect()
}

/// Checks that results of creation data are bounded, and that compressed code unpacks to its declared content.
pub fn creation(bytes: &[u8]) {
    let Ok(creation) = parse_creation(bytes) else { return };
    assert!(creation.wasm.len() <= validate::MAX_MODULE_BYTES && creation.stored_code.len() <= bytes.len());
    let again = parse_creation(&creation.stored_code).expect("stored code is a creation by itself");
    assert_eq!((again.wasm, again.constructor_input), (creation.wasm, None));
}

pub fn creation_seeds() -> Vec<Vec<u8>> {
    let small = module_seeds().swap_remove(1);
    // A window of 64 KiB, one uncompressed block, the empty last block.
    let bits = ((small.len() as u32 - 1) << 4) | (1 << 20);
    let packed = [&[0xef, 0xf0, 0, 0][..], &bits.to_le_bytes()[..3], &small, &[0b11]].concat();
    let mut prelude = PRELUDE;
    prelude[32] = packed.len() as u8;
    let constructed = [&prelude[..], &packed, &[7; 64]].concat();
    // Zeros, well compressed.
    let zeros = vec![0xef, 0xf0, 0, 0, 0x5b, 0x27, 0x7a, 0x00, 0x00, 0xa4, 0xb0, 0xb2, 0xea, 0x81, 0x47, 0x02, 0x8a];
    vec![small, packed, constructed, zeros]
}
