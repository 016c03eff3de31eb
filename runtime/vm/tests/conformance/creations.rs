//! Contracts that create contracts.

use super::test_state::*;
use alloy_primitives::{Address, B256, U256, keccak256};
use corniche_vm::wasm::PRELUDE;

/// Creates a contract from its input, with a value. The address is at [`OUT`], the length of the return data at 1056.
fn maker(kind: &str, value: u32) -> Vec<u8> {
    let salt = if kind == "create2" { format!("(i32.const {SEVEN}) ") } else { String::new() };
    contract_returning(
        &format!(
            "(call $read_args (i32.const 4000))
             (call ${kind} (i32.const 4000) (local.get $n) (i32.const {value}) {salt}(i32.const {OUT}) (i32.const 1056))
             (drop (call $read_return_data (i32.const 1060) (i32.const 0) (i32.const 40)))"
        ),
        100,
    )
}

fn made(answer: &[u8]) -> Address {
    Address::from_slice(&answer[..20])
}

/// Creation data that runs a constructor without arguments.
fn with_constructor(wasm: &[u8]) -> Vec<u8> {
    let mut prelude = PRELUDE;
    prelude[25..33].copy_from_slice(&(wasm.len() as u64).to_be_bytes());
    [&prelude[..], wasm, &keccak256("stylus_constructor()")[..4]].concat()
}

pub fn addresses_and_nonces() {
    let child = contract("i32.const 0");
    let salt = B256::with_last_byte(7);
    // Address by the creator's nonce, which starts at 1 and increases with each creation.
    let mut world = TestState::new().one(&maker("create1", UNIT));
    for nonce in [1, 2, 3] {
        let address = made(&world.output(&child));
        assert_eq!((address, world.nonce(ONE)), (ONE.create(nonce), nonce + 1));
        assert!(world.has_code(address) && world.nonce(address) == 1 && world.balance(address) == U256::from(1));
    }
    // Address by salt and code; each only once.
    let mut world = TestState::new().one(&maker("create2", ZERO));
    assert_eq!(made(&world.output(&child)), ONE.create2_from_code(salt, &child));
    assert_eq!((made(&world.output(&child)), world.nonce(ONE)), (Address::ZERO, 3), "a nonce is used up by a collision");
    // A constructor reads its creator and the value.
    let asks = contract(
        "(call $msg_sender (i32.const 700)) (call $msg_value (i32.const 732)) (call $storage_cache_bytes32 (i32.const 160) (i32.const 732))
         (call $storage_flush_cache (i32.const 0)) (i32.ne (i32.load8_u (i32.const 700)) (i32.const 0x11))",
    );
    let mut world = TestState::new().one(&maker("create1", SEVEN));
    let address = made(&world.output(&with_constructor(&asks)));
    assert_eq!((address, world.slot(address, 1)), (ONE.create(1), 7));
}

pub fn ways_to_fail() {
    let reverts = with_constructor(&contract("(call $write_result (i32.const 0) (i32.const 9)) i32.const 1"));
    let traps = with_constructor(&contract("unreachable"));
    for kind in ["create1", "create2"] {
        // Creation data and the length of the return data: only a constructor that reverts returns data.
        for (data, said) in [(&reverts, 9), (&traps, 0), (&b"not a contract".to_vec(), 0), (&Vec::new(), 0)] {
            let mut world = TestState::new().one(&maker(kind, SEVEN));
            let answer = world.output(data);
            assert_eq!((made(&answer), int(&answer, 32)), (Address::ZERO, said), "{kind}");
            assert_eq!(&answer[36..36 + said as usize], &[0x11; 9][..said as usize]);
            // The value was returned; the nonce stays increased.
            assert_eq!((world.balance(ONE), world.nonce(ONE)), (U256::from(10_000), 2));
        }
        // A value above the balance fails, and the nonce does not change.
        let body = maker(kind, 32);
        let mut world = TestState::new().one(&body);
        assert_eq!((made(&world.output(&contract("i32.const 0"))), world.nonce(ONE)), (Address::ZERO, 1));
    }
    // A creation after a failed one clears the return data.
    let mut world = TestState::new().one(&maker("create1", ZERO));
    world.output(&reverts);
    assert_eq!(int(&world.output(&contract("i32.const 0")), 32), 0);
}

pub fn in_a_static_frame() {
    for kind in ["create1", "create2"] {
        let two = maker(kind, ZERO);
        let answer = TestState::new().one(&contract_returning(&call("static_call_contract", 32), 4)).two(&two).output(b"");
        assert_eq!(int(&answer, 0), 2, "{kind}");
        // In a delegate call the creator is the delegating contract.
        let body = format!("(call $read_args (i32.const 600)) {}", call("delegate_call_contract", 32));
        let mut world = TestState::new().one(&contract_returning(&body, 4)).two(&two);
        world.output(&contract("i32.const 0"));
        assert_eq!((world.nonce(ONE), world.nonce(TWO)), (2, 1));
    }
}
