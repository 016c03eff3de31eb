//! Hashes of certified headers.

use super::test_state::*;
use corniche_types::certified::{DEPTH, WINDOW};
use corniche_vm::ExecutionStatus;

/// Reads the header with the number in the input, eight bytes. Returns the call's result and the word, which was all
/// ones before.
fn asking() -> String {
    let fill: String = (0..4).map(|at| format!("(i64.store (i32.const {}) (i64.const -1))", OUT + 4 + 8 * at)).collect();
    format!(
        "(call $read_args (i32.const 600)) {fill}
         (i32.store (i32.const {OUT}) (call $certified_hash (i64.load (i32.const 600)) (i32.const {})))",
        OUT + 4
    )
}

fn found(hash: u8) -> Vec<u8> {
    [vec![0; 4], vec![hash; 32]].concat()
}

fn nothing() -> Vec<u8> {
    [vec![1, 0, 0, 0], vec![0xff; 32]].concat()
}

pub fn headers_within_depth() {
    let newest = env().number - DEPTH - 1;
    let oldest = newest - (WINDOW - 1);
    // All slots are full, and neighbours have different hashes.
    let world = TestState::new()
        .one(&contract_returning(&asking(), 36))
        .certified(newest, 7)
        .certified(oldest, 8)
        .certified(newest - 1, 9);
    let ask = |number: u64| world.clone().output(&number.to_le_bytes());
    assert_eq!([newest, newest - 1, oldest].map(ask), [7, 9, 8].map(found));
    // Numbers whose slot holds the hash of another header.
    let none = [newest + 1, oldest - 1, newest + WINDOW, newest - WINDOW, oldest + WINDOW];
    for number in none.into_iter().chain([env().number - 1, env().number, u64::MAX, 1 << 63, newest.wrapping_neg()]) {
        assert_eq!(ask(number), nothing(), "{number}");
    }
    assert_eq!((oldest, newest), (1_745, 9_935), "N - 8,255 and N - 65");
}

pub fn unwritten_headers() {
    let newest = env().number - DEPTH - 1;
    assert_eq!(TestState::new().one(&contract_returning(&asking(), 36)).output(&newest.to_le_bytes()), nothing());
}

/// The hash does not depend on the frame, and one read makes the slot warm for all.
pub fn in_every_kind_of_frame() {
    let number = env().number - DEPTH - 1;
    for kind in ["call_contract", "delegate_call_contract", "static_call_contract"] {
        let returned = format!("(drop (call $read_return_data (i32.const {OUT}) (i32.const 0) (i32.const 36)))");
        let body = format!("(call $read_args (i32.const 600)) {} {returned}", call(kind, 32));
        let mut world =
            TestState::new().one(&contract_returning(&body, 36)).two(&contract_returning(&asking(), 36)).certified(number, 7);
        assert_eq!(world.output(&number.to_le_bytes()), found(7), "{kind}");
    }
    let above = format!("(drop (call $certified_hash (i64.const {number}) (i32.const {OUT}))) {}", call("call_contract", 32));
    let below = "(i64.store (i32.const 1024) (call $evm_ink_left))
        (drop (call $certified_hash (i64.const 9935) (i32.const 2000)))
        (i64.store (i32.const 1024) (i64.sub (i64.load (i32.const 1024)) (call $evm_ink_left)))";
    let kept = format!("{above} (drop (call $read_return_data (i32.const {OUT}) (i32.const 0) (i32.const 8)))");
    let paid =
        TestState::new().one(&contract_returning(&kept, 8)).two(&contract_returning(below, 8)).certified(number, 7).output(b"");
    let paid = long(&paid, 0);
    assert!((1_000_000..2_000_000).contains(&paid), "{paid} ink: 100 gas and the calls themselves");
}

pub fn out_of_gas() {
    let number = env().number - DEPTH - 1;
    // The remaining gas does not pay for the load.
    let mut world = TestState::new().one(&contract_returning(&asking(), 36)).certified(number, 7);
    let outcome = world.send(&number.to_le_bytes());
    assert!(outcome.success());
    world.gas = outcome.gas_used - 1_000;
    assert_eq!(world.send(&number.to_le_bytes()).end, ExecutionStatus::OutOfGas);
}
