//! A transaction pays for loading code when it runs the code for the first time, independent of what the node has in
//! memory.
#![allow(clippy::unwrap_used)] // also in helpers

mod common;
use alloy_primitives::{Address, Bytes, U256, keccak256};
use common::wat;
use corniche_state::{Account, Changes, EmptyState, Overlay};
use corniche_types::ProtocolRules;
use corniche_vm::wasm::gas::{self, INK_PER_GAS};
use corniche_vm::wasm::validate;
use corniche_vm::{BlockEnv, Call, NoCache, Vm, VmConfig};
use std::sync::{Arc, OnceLock};

const CALLER: Address = Address::repeat_byte(0xaa);
const CALLEE: Address = Address::repeat_byte(0xbb);
const TWIN: Address = Address::repeat_byte(0xcc);
const TRAPPING: Address = Address::repeat_byte(0xdd);
/// A contract with the behaviour of [`CALLER`] and other code.
const LIKE_CALLER: Address = Address::repeat_byte(0xee);

/// Input: per call the low four bytes of its gas, little-endian, and the byte that its address consists of. Ignores
/// failed calls.
const CALLS: &str = r#"(module
    (import "vm_hooks" "call_contract" (func $call (param i32 i32 i32 i32 i64 i32) (result i32)))
    (import "vm_hooks" "read_args" (func $read_args (param i32)))
    (memory (export "memory") 1)
    (func (export "user_entrypoint") (param $length i32) (result i32) (local $at i32)
        (call $read_args (i32.const 0))
        (block $done (loop $again
            (br_if $done (i32.ge_u (local.get $at) (local.get $length)))
            (memory.fill (i32.const 512) (i32.load8_u offset=4 (local.get $at)) (i32.const 20))
            (drop (call $call (i32.const 512) (i32.const 0) (i32.const 0) (i32.const 600)
                (i64.load32_u (local.get $at)) (i32.const 640)))
            (local.set $at (i32.add (local.get $at) (i32.const 5)))
            (br $again)))
        i32.const 0))"#;

fn answers(how: &str) -> Vec<u8> {
    wat(&format!(
        r#"(module (memory (export "memory") 3) (func $unused) (func (export "user_entrypoint") (param i32) (result i32) {how}))"#
    ))
}

const TRAPS: &str = r#"(module (import "vm_hooks" "evm_gas_left" (func $left (result i64))) (memory (export "memory") 1)
    (func (export "user_entrypoint") (param i32) (result i32)
        (if (i64.gt_u (call $left) (i64.const 50000)) (then unreachable))
        i32.const 0))"#;

fn state(gas_version: u8) -> Changes {
    let mut changes = Changes::default();
    let ends = answers("i32.const 0");
    let calls_too = wat(&CALLS.replace("512", "516"));
    for (address, code) in
        [(CALLER, wat(CALLS)), (CALLEE, ends.clone()), (TWIN, ends), (TRAPPING, wat(TRAPS)), (LIKE_CALLER, calls_too)]
    {
        let code_hash = keccak256(&code);
        let account = Account { nonce: 1, code_hash, abi_version: 1, gas_version, ..Account::default() };
        changes.accounts.insert(address, Some(account));
        changes.code.insert(code_hash, code.into());
    }
    changes
}

fn vm() -> Vm {
    // Keeps no instances: the next call must load everything again.
    static VM: OnceLock<Vm> = OnceLock::new();
    let config = VmConfig { executors: 1, callers: 8, contract_cache_bytes: 0, idle_instance_bytes: 0, ..VmConfig::default() };
    VM.get_or_init(|| Vm::new(&config, Arc::new(NoCache)).unwrap()).clone()
}

/// Returns the gas of a call that makes these calls.
fn gas_of(vm: &Vm, calls: &[(u32, Address)]) -> u64 {
    gas_under(vm, calls, gas::LATEST.version, ProtocolRules::LATEST)
}

/// Like [`gas_of`], with all code validated under `gas_version`, in a block under `rules`.
fn gas_under(vm: &Vm, calls: &[(u32, Address)], gas_version: u8, rules: &'static ProtocolRules) -> u64 {
    let changes = state(gas_version);
    let view = Overlay { base: &EmptyState, changes: &changes };
    let env = BlockEnv {
        rules,
        chain_id: 7,
        number: 1,
        timestamp: 1,
        base_fee: 0,
        coinbase: Address::ZERO,
        gas_limit: 30_000_000,
        randomness: Default::default(),
    };
    let input: Bytes =
        calls.iter().flat_map(|(gas, to)| gas.to_le_bytes().into_iter().chain([to[0]])).collect::<Vec<u8>>().into();
    let call = Call {
        from: Address::ZERO,
        to: Some(CALLER),
        gas: 10_000_000,
        gas_price: 0,
        max_gas_price: 0,
        value: U256::ZERO,
        input,
        access_list: Vec::new(),
    };
    let outcome = vm.call(&view, &env, &call);
    assert!(outcome.success(), "{outcome:?}");
    // Excludes the cost of the input.
    outcome.gas_used - call.input.iter().map(|byte| if *byte == 0 { 4 } else { 16 }).sum::<u64>()
}

/// Returns the cost of the last call, after the others, without the first access to the account.
fn last(calls: &[(u32, Address)]) -> u64 {
    let (_, before) = calls.split_last().unwrap();
    gas_of(&vm(), calls) - gas_of(&vm(), before)
}

fn cold_gas() -> u64 {
    let wasm = answers("i32.const 0");
    assert_eq!(validate::check(&wasm).unwrap().defined_functions, 2);
    let gas = gas::LATEST.cold_ink(wasm.len(), 2, 3) / INK_PER_GAS;
    assert_eq!(
        gas,
        gas::GAS_COLD_CODE + gas::GAS_COLD_CODE_PER_KIB + 2 * gas::GAS_COLD_CODE_PER_FUNCTION + 3 * gas::LATEST.cold_code_page
    );
    gas
}

const ENOUGH: u32 = 100_000;
const COLD_ACCOUNT: u64 = 2_600 - 100;

#[test]
fn first_run_pays_cold_code() {
    let warm = last(&[(ENOUGH, CALLEE), (ENOUGH, CALLEE), (ENOUGH, CALLEE)]);
    assert!(warm < 3_000, "{warm}");
    // Rounding changes an instruction's cost by at most one gas.
    let about = |found: u64, expected: u64| assert!(found.abs_diff(expected) <= 1, "{found} instead of {expected}");
    about(last(&[(ENOUGH, CALLEE)]), warm + cold_gas() + COLD_ACCOUNT);
    about(last(&[(ENOUGH, CALLEE), (ENOUGH, CALLEE)]), warm);
    // The code is warm, independent of the account that has it.
    about(last(&[(ENOUGH, CALLEE), (ENOUGH, TWIN)]), warm + COLD_ACCOUNT);
}

#[test]
fn unpaid_load_stays_cold() {
    let warm = last(&[(ENOUGH, CALLEE), (ENOUGH, CALLEE)]);
    // Enough for a warm start, but not for a cold one.
    let little = (warm + 1_000) as u32;
    assert!(u64::from(little) < cold_gas());
    let found = last(&[(little, CALLEE), (ENOUGH, CALLEE)]);
    assert!(found.abs_diff(warm + cold_gas()) <= 1, "{found}");
    assert_eq!(last(&[(ENOUGH, CALLEE), (little, CALLEE)]), warm);
}

#[test]
fn reverted_run_keeps_code_warm() {
    // It traps if it gets much gas, and returns with less.
    let less = 20_000;
    let (cold, warm) = (last(&[(less, TRAPPING)]), last(&[(ENOUGH, TRAPPING), (less, TRAPPING)]));
    assert!(cold > COLD_ACCOUNT + 4_000 + warm && warm < 3_000, "{cold}, {warm}");
    assert!(last(&[(ENOUGH, TRAPPING)]) > u64::from(ENOUGH), "a trap takes all");
}

/// A node keeps one instance of each warm code. While that one runs, a nested start needs another instance, and pays
/// for its pages.
#[test]
fn nested_start_pays_new_instance() {
    let within = last(&[(ENOUGH, CALLER)]);
    let beside = last(&[(ENOUGH, LIKE_CALLER), (ENOUGH, LIKE_CALLER)]);
    let nested = gas::LATEST.nested_ink(1) / INK_PER_GAS;
    assert_eq!(nested, gas::LATEST.nested_start + gas::LATEST.nested_start_page);
    assert!(within.abs_diff(beside + nested) <= 1, "{within} instead of {beside} + {nested}");
    // Each nested start pays; a start after the frame has ended does not.
    assert!(last(&[(ENOUGH, CALLER), (ENOUGH, CALLER)]).abs_diff(within) <= 1);
    // A frame that cannot pay for it does not start.
    let little = (beside + 1_000) as u32;
    assert!(last(&[(little, CALLER)]) <= u64::from(little) + 200);
    assert_eq!(gas::V1.nested_ink(1), 0, "version 1 keeps its price");
}

/// The instances in memory differ between nodes. A node that keeps none and one that keeps all charge equal gas, the
/// first time and later.
#[test]
fn node_caches_do_not_affect_gas() {
    let keeps = Vm::new(&VmConfig { executors: 1, callers: 1, ..VmConfig::default() }, Arc::new(NoCache)).unwrap();
    let calls = [(ENOUGH, CALLEE), (300, TWIN), (ENOUGH, TWIN), (ENOUGH, TRAPPING), (5_000, CALLEE), (ENOUGH, CALLER)];
    for end in 0..=calls.len() {
        let expected = gas_of(&vm(), &calls[..end]);
        for _ in 0..3 {
            assert_eq!(gas_of(&keeps, &calls[..end]), expected);
        }
    }
}

/// Decision 0018: the block's rules select the gas version that validates new code. They do not affect deployed code.
#[test]
fn upgrade_keeps_gas_version_of_code() {
    let calls = [(ENOUGH, CALLEE), (ENOUGH, CALLER), (ENOUGH, CALLEE)];
    let [first, latest] = [1, 2].map(|version| ProtocolRules::of(version).unwrap());
    assert_eq!((first.gas_version, latest.gas_version), (1, 2));
    let gas = |gas_version| [first, latest].map(|rules| gas_under(&vm(), &calls, gas_version, rules));
    let ([old, old_later], [new_earlier, new]) = (gas(1), gas(2));
    assert_eq!((old, new), (old_later, new_earlier), "the block's rules change nothing");
    assert!(old + 1_000 < new, "the code's own version does: {old}, {new}");
}
