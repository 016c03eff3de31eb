//! Host functions about other accounts.

use super::test_state::*;
use alloy_primitives::{B256, U256, keccak256};

pub fn balances() {
    let of = |at: u32| {
        let body = format!("(call $account_balance (i32.const {at}) (i32.const {OUT}))");
        U256::from_be_slice(&TestState::new().one(&contract_returning(&body, 32)).output(b""))
    };
    // The contract's own, an externally owned account's, a missing account's.
    assert_eq!([of(0), of(96), of(128)], [U256::from(10_000), U256::from(77), U256::ZERO]);
    // Its own balance includes the call's value.
    let mut world =
        TestState::new().one(&contract_returning(&format!("(call $account_balance (i32.const 0) (i32.const {OUT}))"), 32));
    world.value = U256::from(5);
    assert_eq!(U256::from_be_slice(&world.output(b"")), U256::from(10_005));
    // Minus the wei that it has sent.
    let body = format!(
        "(drop (call $call_contract (i32.const 96) (i32.const 0) (i32.const 0) (i32.const {SEVEN}) (i64.const 0) (i32.const 600)))
         (call $account_balance (i32.const 0) (i32.const {OUT}))"
    );
    assert_eq!(U256::from_be_slice(&TestState::new().one(&contract_returning(&body, 32)).output(b"")), U256::from(9_993));
}

pub fn code_is_copied_to_its_end() {
    let two = contract("i32.const 0");
    let size = two.len() as u32;
    for (at, offset, length, copied) in [
        (32, 0, size, size),
        (32, 0, size + 100, size),
        (32, size - 3, 10, 3),
        (32, size, 10, 0),
        (32, u32::MAX, u32::MAX, 0),
        (32, 4, 0, 0),
        (96, 0, 10, 0),
        (128, 0, 10, 0),
    ] {
        // Bytes that are not copied stay unchanged; there is no zero padding.
        let body = format!(
            "(memory.fill (i32.const {OUT}) (i32.const 0xab) (i32.const 2000))
             (i32.store (i32.const {OUT}) (call $account_code (i32.const {at}) (i32.const {offset}) (i32.const {length}) (i32.const {})))
             (i32.store (i32.const {}) (call $account_code_size (i32.const {at})))",
            OUT + 8,
            OUT + 4
        );
        let answer = TestState::new().one(&contract_returning(&body, 1_500)).two(&two).output(b"");
        assert_eq!((int(&answer, 0), int(&answer, 4)), (copied, if at == 32 { size } else { 0 }), "{offset} {length}");
        let from = (offset as usize).min(two.len());
        assert_eq!(answer[8..8 + copied as usize], two[from..from + copied as usize]);
        assert!(answer[8 + copied as usize..].iter().all(|byte| *byte == 0xab));
    }
}

pub fn code_hashes_of_empty_and_missing_accounts() {
    let two = contract("i32.const 0");
    let of = |at: u32| {
        let body = format!("(call $account_codehash (i32.const {at}) (i32.const {OUT}))");
        B256::from_slice(&TestState::new().one(&contract_returning(&body, 32)).two(&two).output(b""))
    };
    assert_eq!([of(32), of(96), of(128)], [keccak256(&two), keccak256([]), B256::ZERO]);
    // An account exists once it has received wei.
    let body = format!(
        "(drop (call $call_contract (i32.const 128) (i32.const 0) (i32.const 0) (i32.const {UNIT}) (i64.const 0) (i32.const 600)))
         (call $account_codehash (i32.const 128) (i32.const {OUT}))"
    );
    assert_eq!(TestState::new().one(&contract_returning(&body, 32)).output(b""), keccak256([]).as_slice());
}
