//! The deployer contract of every genesis, on the virtual machine.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

mod common;
use alloy_primitives::{Address, B256, U256, keccak256};
use common::{CONTRACT, GAS, SENDER, TestState, context, module, selector, wasm};
use corniche_vm::host::{Exit, ExitStatus, FrameContext};

/// The module in every genesis.
const FROZEN: &[u8] = include_bytes!("../../../contracts/deployer/deployer.wasm");

#[test]
fn frozen_code_matches_source() {
    assert_eq!(
        keccak256(FROZEN),
        keccak256(wasm("deployer")),
        "another compiler, or the source has changed: freeze it anew deliberately"
    );
    assert_eq!(
        keccak256(FROZEN).to_string(),
        "0x5c8d085618749f3568134a83dc881edf31111b0ae25a7d12b7d96419d8234cbf",
        "changing it changes every new genesis"
    );
}

/// The contract to deploy: stores its input as a word, followed by the value. Reverts with its input if that starts
/// with byte 8.
fn program() -> Vec<u8> {
    module(
        r#"(import "vm_hooks" "read_args" (func $args (param i32)))
        (import "vm_hooks" "write_result" (func $result (param i32 i32)))
        (import "vm_hooks" "msg_value" (func $value (param i32)))
        (import "vm_hooks" "storage_cache_bytes32" (func $store (param i32 i32)))
        (import "vm_hooks" "storage_flush_cache" (func $flush (param i32)))"#,
        "(call $args (i32.const 0)) (call $value (i32.const 96)) (i32.store8 (i32.const 159) (i32.const 1))
        (call $store (i32.const 64) (i32.const 0)) (call $store (i32.const 128) (i32.const 96)) (call $flush (i32.const 0))
        (call $result (i32.const 0) (local.get $length)) (i32.eq (i32.load8_u (i32.const 0)) (i32.const 8))",
    )
}

fn bytes(data: &[u8]) -> Vec<u8> {
    let padding = data.len().next_multiple_of(32) - data.len();
    [&U256::from(data.len()).to_be_bytes::<32>()[..], data, &vec![0; padding]].concat()
}

fn word(number: u64) -> [u8; 32] {
    U256::from(number).to_be_bytes()
}

fn deploy(code: &[u8], call: &[u8], value: u64, salt: B256) -> Vec<u8> {
    let code = bytes(code);
    let head = [word(128), word(128 + code.len() as u64), word(value), salt.0];
    [&selector("deploy(bytes,bytes,uint256,bytes32)")[..], head.as_flattened(), &code, &bytes(call)].concat()
}

fn send(world: &mut TestState, input: &[u8], value: U256) -> Exit {
    world.run_in(FROZEN, FrameContext { value, ..context() }, input, GAS)
}

fn refused(input: &[u8], value: u64) -> Vec<u8> {
    let mut world = TestState::default();
    let exit = send(&mut world, input, U256::from(value));
    assert_eq!((exit.status, world.logs.len()), (ExitStatus::Revert, 0));
    exit.output.to_vec()
}

fn slot(world: &TestState, contract: Address, number: u64) -> B256 {
    world.storage.get(&(contract, B256::from(word(number)))).copied().unwrap_or_default()
}

#[test]
fn deployer_creates_calls_and_emits() {
    let code = program();
    let call = [&[0x55; 4][..], &[7; 28]].concat();
    // Address that the test's host assigns: by code, or by salt.
    let salted = keccak256([&[9; 32][..], &call].concat());
    for (salt, place) in [(B256::ZERO, keccak256(&code)), (B256::repeat_byte(9), salted)] {
        let mut world = TestState::default();
        let contract = Address::from_word(place);
        let exit = send(&mut world, &deploy(&code, &call, 5, salt), U256::from(5));
        assert_eq!((exit.status, &exit.output[..]), (ExitStatus::Return, contract.into_word().as_slice()));
        assert_eq!(world.code[&contract], code);
        assert_eq!(slot(&world, contract, 0), B256::from_slice(&call), "the new contract is called, and itself");
        assert_eq!(slot(&world, contract, 1), B256::from(word(5)), "with what was sent for it");
        let event = vec![keccak256("ContractDeployed(address)")];
        assert_eq!(world.logs, [(CONTRACT, event, contract.into_word().into())]);
    }
    let asked = [&selector("initSalt(bytes32,bytes)")[..], &[9; 32], &word(64), &bytes(&call)].concat();
    let mut world = TestState::default();
    assert_eq!(send(&mut world, &asked, U256::ZERO).output[..], salted[..]);
    assert_eq!(refused(&asked, 1), b"", "who only asks pays nothing");

    // Makes no call without a reason.
    let mut world = TestState::default();
    assert_eq!(send(&mut world, &deploy(&code, b"", 0, B256::ZERO), U256::ZERO).status, ExitStatus::Return);
    assert_eq!((world.storage.len(), world.logs.len()), (0, 1));
}

#[test]
fn excess_value_is_refunded() {
    // The sender stores the refund, and that it came without data.
    let sender = module(
        r#"(import "vm_hooks" "msg_value" (func $value (param i32)))
        (import "vm_hooks" "storage_cache_bytes32" (func $store (param i32 i32)))
        (import "vm_hooks" "storage_flush_cache" (func $flush (param i32)))"#,
        "(call $value (i32.const 32)) (i32.store8 (i32.const 0) (local.get $length)) (call $store (i32.const 0) (i32.const 32))
        (call $flush (i32.const 0)) (i32.const 0)",
    );
    let code = program();
    let contract = Address::from_word(keccak256(&code));
    let large = U256::from(1) << 200;
    for (sent, value, back) in [
        (U256::from(256), 1, U256::from(255)),
        (large, 1, large - U256::from(1)),
        (U256::from(3), 3, U256::ZERO),
        (large, 0, large),
    ] {
        let mut world = TestState::default();
        world.code.insert(SENDER, sender.clone());
        let exit = send(&mut world, &deploy(&code, &[1; 32], value, B256::ZERO), sent);
        assert_eq!(exit.status, ExitStatus::Return);
        assert_eq!(slot(&world, SENDER, 0), B256::from(back));
        assert_eq!(slot(&world, contract, 1), B256::from(word(value)));
    }
    let mut world = TestState::default();
    world.code.insert(SENDER, module("", "(i32.const 1)"));
    let exit = send(&mut world, &deploy(&code, &[1; 32], 1, B256::ZERO), U256::from(8));
    let expected = [&selector("RefundExcessValueError(uint256)")[..], &word(7)].concat();
    assert_eq!((exit.status, &exit.output[..]), (ExitStatus::Revert, &expected[..]));
}

#[test]
fn refusals_say_why() {
    let code = program();
    let call = [&[8; 33][..], &[3; 7]].concat();
    // With a salt, memory was used before; the padding must still be zero.
    for (salt, place) in [(B256::ZERO, keccak256(&code)), (B256::repeat_byte(255), keccak256([&[255; 32][..], &call].concat()))]
    {
        let contract = Address::from_word(place).into_word();
        let error = selector("ContractInitializationError(address,bytes)");
        let expected = [&error[..], &contract[..], &word(64), &bytes(&call)].concat();
        assert_eq!(refused(&deploy(&code, &call, 0, salt), 0), expected);
    }
    assert_eq!(refused(&deploy(b"", &call, 0, B256::ZERO), 0), selector("EmptyBytecode()"));
    assert_eq!(refused(&deploy(&code, b"", 1, B256::ZERO), 1), selector("InitValueButNotInitData()"));
    assert_eq!(refused(&deploy(&code, &[1; 32], 6, B256::ZERO), 5), b"", "more for the constructor than was sent");
    assert_eq!(refused(&deploy(&code, &[1; 32], 1 << 40, B256::ZERO), 5), b"");
}

#[test]
fn invalid_input_reverts_without_data() {
    let whole = deploy(&program(), &[1; 40], 0, B256::repeat_byte(1));
    assert_eq!(send(&mut TestState::default(), &whole, U256::ZERO).status, ExitStatus::Return);
    // The padding at the end is optional.
    for length in (0..170).chain(whole.len() - 200..whole.len() - 24) {
        assert_eq!(refused(&whole[..length], 0), b"", "cut to {length}");
    }
    // Offsets, lengths and value, each changed in one byte.
    let length_of_code = 4 + 128;
    for at in (4..4 + 96).chain(length_of_code..length_of_code + 32).filter(|at| (at - 4) % 32 < 28) {
        let mut other = whole.clone();
        other[at] ^= 0x80;
        assert_eq!(refused(&other, 0), b"", "byte {at}");
    }
    for unknown in [&b""[..], b"\x01", b"\x00\x00\x00\x00", b"abcdefgh"] {
        assert_eq!(refused(unknown, 0), b"");
    }
    let exit = TestState::default().run_static(FROZEN, &whole);
    assert!(matches!(exit.status, ExitStatus::Trap(_)), "{:?}", exit.status);
}
