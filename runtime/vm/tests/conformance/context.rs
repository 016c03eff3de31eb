//! The block, the transaction, and remaining gas.

use super::test_state::*;
use alloy_primitives::U256;
use corniche_abi::{INK_PER_GAS, find};

fn at_out(name: &str, bytes: u32) -> Vec<u8> {
    TestState::new().one(&contract_returning(&format!("(call ${name} (i32.const {OUT}))"), bytes)).output(b"")
}

fn number(name: &str) -> u64 {
    let body = format!("(i64.store (i32.const {OUT}) (call ${name}))");
    long(&TestState::new().one(&contract_returning(&body, 8)).output(b""), 0)
}

pub fn the_block() {
    let env = env();
    assert_eq!(at_out("block_basefee", 32), U256::from(env.base_fee).to_be_bytes::<32>());
    assert_eq!(at_out("block_coinbase", 20), env.coinbase.as_slice());
    assert_eq!(at_out("block_randomness", 32), env.randomness.as_slice());
    let numbers = ["block_number", "block_timestamp", "block_gas_limit", "chainid"].map(number);
    assert_eq!(numbers, [env.number, env.timestamp, env.gas_limit, env.chain_id]);
}

pub fn the_transaction() {
    assert_eq!(at_out("tx_origin", 20), SENDER.as_slice());
    assert_eq!(
        at_out("tx_gas_price", 32),
        U256::from(1_000_000_007u64).to_be_bytes::<32>(),
        "what is paid, not what was offered"
    );
    // Equal in a nested frame of any kind.
    for kind in ["call_contract", "delegate_call_contract", "static_call_contract"] {
        let told = contract_returning(&format!("(call $tx_origin (i32.const {OUT}))"), 20);
        let body = format!("{} (drop (call $read_return_data (i32.const {OUT}) (i32.const 0) (i32.const 20)))", call(kind, 32));
        assert_eq!(TestState::new().one(&contract_returning(&body, 20)).two(&told).output(b""), SENDER.as_slice(), "{kind}");
    }
}

pub fn gas_and_ink() {
    let body = format!(
        "(i64.store (i32.const {OUT}) (call $evm_ink_left)) (i64.store (i32.const {}) (call $evm_gas_left))
         (i32.store (i32.const {}) (call $tx_ink_price))",
        OUT + 8,
        OUT + 16
    );
    let mut world = TestState::new().one(&contract_returning(&body, 20));
    let answer = world.output(b"");
    let price = find("evm_gas_left").unwrap().ink;
    // Both after their own price; gas is rounded down.
    assert_eq!(long(&answer, 8), (long(&answer, 0) - price) / INK_PER_GAS);
    assert_eq!(u64::from(int(&answer, 16)), INK_PER_GAS);
    assert!(long(&answer, 8) < GAS - 21_000);
    // Remaining gas grows by exactly the additional gas.
    world.gas += 1_000;
    assert_eq!(long(&world.output(b""), 8), long(&answer, 8) + 1_000);
}
