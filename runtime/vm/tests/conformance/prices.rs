//! Price of each function, exact to one unit of ink: its base price from the table, plus additional costs.

use super::test_state::*;
use corniche_abi::{INK_PER_GAS, find, import};
use corniche_vm::wasm::gas;

/// A use of a function and its cost beyond the base price.
pub struct Price {
    pub call: &'static str,
    /// Straight-line code that uses the function once and leaves the stack unchanged.
    body: &'static str,
    /// Code before it, which is not measured.
    before: &'static str,
    ink: u64,
}

const fn gas(gas: u64) -> u64 {
    gas * INK_PER_GAS
}

const fn price(call: &'static str, body: &'static str, ink: u64) -> Price {
    Price { call, body, before: "", ink }
}

const fn after(before: &'static str, call: &'static str, body: &'static str, ink: u64) -> Price {
    Price { call, body, before, ink }
}

/// Slot 1 is 3 and cold, and so is every account except [`ONE`] and [`SENDER`]. [`TWO`] has no code.
pub const PRICES: &[Price] = &[
    price("account_balance", "(call $account_balance (i32.const 96) (i32.const 1024))", gas(2_600)),
    after(
        "(call $account_balance (i32.const 96) (i32.const 1024))",
        "account_balance",
        "(call $account_balance (i32.const 96) (i32.const 1024))",
        gas(100),
    ),
    price(
        "account_code",
        "(drop (call $account_code (i32.const 96) (i32.const 0) (i32.const 9) (i32.const 1024)))",
        gas(2_600),
    ),
    // The contract's own code, warm: the cost depends on the copied bytes, not on the requested ones.
    price(
        "account_code",
        "(drop (call $account_code (i32.const 0) (i32.const 0) (i32.const 100) (i32.const 1024)))",
        gas(100) + 100 * gas::INK_PER_HOST_BYTE,
    ),
    price(
        "account_code",
        "(drop (call $account_code (i32.const 0) (i32.const 1000000) (i32.const 100) (i32.const 1024)))",
        gas(100),
    ),
    price("account_code_size", "(drop (call $account_code_size (i32.const 96)))", gas(2_600)),
    price("account_codehash", "(call $account_codehash (i32.const 0) (i32.const 1024))", gas(100)),
    price("block_basefee", "(call $block_basefee (i32.const 1024))", 0),
    price("block_coinbase", "(call $block_coinbase (i32.const 1024))", 0),
    price("block_gas_limit", "(drop (call $block_gas_limit))", 0),
    price("block_number", "(drop (call $block_number))", 0),
    price("block_randomness", "(call $block_randomness (i32.const 1024))", 0),
    price("block_timestamp", "(drop (call $block_timestamp))", 0),
    // To an account without code: the account access, the value, and the new account. The passed gas comes back.
    price(
        "call_contract",
        "(drop (call $call_contract (i32.const 96) (i32.const 0) (i32.const 100) (i32.const 512) (i64.const -1) (i32.const 1024)))",
        gas(2_600) + 100 * gas::INK_PER_HOST_BYTE,
    ),
    price(
        "call_contract",
        "(drop (call $call_contract (i32.const 96) (i32.const 0) (i32.const 0) (i32.const 160) (i64.const -1) (i32.const 1024)))",
        gas(2_600 + 9_000 - 2_300),
    ),
    price(
        "call_contract",
        "(drop (call $call_contract (i32.const 128) (i32.const 0) (i32.const 0) (i32.const 160) (i64.const -1) (i32.const 1024)))",
        gas(2_600 + 9_000 + 25_000 - 2_300),
    ),
    // The newest header, cold and then warm; and a number out of range, which costs nothing more.
    price("certified_hash", "(drop (call $certified_hash (i64.const 9935) (i32.const 1024)))", gas(2_100)),
    after(
        "(drop (call $certified_hash (i64.const 9935) (i32.const 1024)))",
        "certified_hash",
        "(drop (call $certified_hash (i64.const 9935) (i32.const 1024)))",
        gas(100),
    ),
    price("certified_hash", "(drop (call $certified_hash (i64.const 9936) (i32.const 1024)))", 0),
    price("chainid", "(drop (call $chainid))", 0),
    price("contract_address", "(call $contract_address (i32.const 1024))", 0),
    price("counter_add", "(drop (call $counter_add (i32.const 160) (i32.const 160) (i32.const 192)))", gas(2_100 + 2_900)),
    after(
        "(drop (call $counter_add (i32.const 160) (i32.const 160) (i32.const 192)))",
        "counter_add",
        "(drop (call $counter_add (i32.const 160) (i32.const 160) (i32.const 192)))",
        gas(2_900),
    ),
    // Slot 7 is zero, so the write creates a slot.
    price("counter_add", "(drop (call $counter_add (i32.const 192) (i32.const 160) (i32.const 192)))", gas(2_100 + 20_000)),
    price("counter_sub", "(drop (call $counter_sub (i32.const 160) (i32.const 160) (i32.const 512)))", gas(2_100 + 2_900)),
    // Data that is no contract: the creation, plus hashing one word for `create2`.
    price(
        "create1",
        "(call $create1 (i32.const 512) (i32.const 20) (i32.const 512) (i32.const 1024) (i32.const 1056))",
        gas(32_000 + 2) + 20 * gas::INK_PER_HOST_BYTE,
    ),
    price(
        "create2",
        "(call $create2 (i32.const 512) (i32.const 20) (i32.const 512) (i32.const 512) (i32.const 1024) (i32.const 1056))",
        gas(32_000 + 2 + 6) + 20 * gas::INK_PER_HOST_BYTE,
    ),
    price(
        "delegate_call_contract",
        "(drop (call $delegate_call_contract (i32.const 96) (i32.const 0) (i32.const 0) (i64.const 5) (i32.const 1024)))",
        gas(2_600),
    ),
    price("emit_log", "(call $emit_log (i32.const 0) (i32.const 0) (i32.const 0))", gas(375)),
    price(
        "emit_log",
        "(call $emit_log (i32.const 0) (i32.const 138) (i32.const 4))",
        gas(5 * 375 + 80) + 138 * gas::INK_PER_HOST_BYTE,
    ),
    price("evm_gas_left", "(drop (call $evm_gas_left))", 0),
    price("evm_ink_left", "(drop (call $evm_ink_left))", 0),
    // It does not return; see `exits`.
    price("exit_early", "", 0),
    price("math_add_mod", "(call $math_add_mod (i32.const 1024) (i32.const 192) (i32.const 160))", 0),
    price("math_div", "(call $math_div (i32.const 1024) (i32.const 192))", 0),
    price("math_mod", "(call $math_mod (i32.const 1024) (i32.const 192))", 0),
    price("math_mul_mod", "(call $math_mul_mod (i32.const 1024) (i32.const 192) (i32.const 160))", 0),
    // Per byte of the exponent, which is zero, seven, and an address followed by zeros.
    price("math_pow", "(call $math_pow (i32.const 1024) (i32.const 512))", 0),
    price("math_pow", "(call $math_pow (i32.const 1024) (i32.const 192))", gas::INK_PER_EXPONENT_BYTE),
    price("math_pow", "(call $math_pow (i32.const 1024) (i32.const 96))", 32 * gas::INK_PER_EXPONENT_BYTE),
    price("msg_reentrant", "(drop (call $msg_reentrant))", 0),
    price("msg_sender", "(call $msg_sender (i32.const 1024))", 0),
    price("msg_value", "(call $msg_value (i32.const 1024))", 0),
    price("native_keccak256", "(call $native_keccak256 (i32.const 0) (i32.const 0) (i32.const 1024))", gas::INK_KECCAK_BASE),
    price(
        "native_keccak256",
        "(call $native_keccak256 (i32.const 0) (i32.const 33) (i32.const 1024))",
        gas::INK_KECCAK_BASE + 2 * gas::INK_PER_KECCAK_WORD,
    ),
    // Pages are paid when memory grows.
    price("pay_for_memory_grow", "(call $pay_for_memory_grow (i32.const 1000))", 0),
    price("read_args", "(call $read_args (i32.const 1024))", 10 * gas::INK_PER_HOST_BYTE),
    price("read_return_data", "(drop (call $read_return_data (i32.const 1024) (i32.const 0) (i32.const 100)))", 0),
    price("return_data_size", "(drop (call $return_data_size))", 0),
    price(
        "static_call_contract",
        "(drop (call $static_call_contract (i32.const 0) (i32.const 0) (i32.const 0) (i64.const 0) (i32.const 1024)))",
        gas(100),
    ),
    price("storage_cache_bytes32", "(call $storage_cache_bytes32 (i32.const 160) (i32.const 192))", gas::INK_PER_CACHED_WORD),
    after(
        "(call $storage_cache_bytes32 (i32.const 160) (i32.const 192))",
        "storage_cache_bytes32",
        "(call $storage_cache_bytes32 (i32.const 160) (i32.const 512))",
        0,
    ),
    price("storage_flush_cache", "(call $storage_flush_cache (i32.const 1))", 0),
    // 3 to 7, zero to 7, 3 to 3; then a slot that a load has made warm.
    after(
        "(call $storage_cache_bytes32 (i32.const 160) (i32.const 192))",
        "storage_flush_cache",
        "(call $storage_flush_cache (i32.const 0))",
        gas(5_000),
    ),
    after(
        "(call $storage_cache_bytes32 (i32.const 192) (i32.const 192))",
        "storage_flush_cache",
        "(call $storage_flush_cache (i32.const 0))",
        gas(22_100),
    ),
    after(
        "(call $storage_load_bytes32 (i32.const 160) (i32.const 1024)) (call $storage_cache_bytes32 (i32.const 160) (i32.const 1024))",
        "storage_flush_cache",
        "(call $storage_flush_cache (i32.const 0))",
        gas(100),
    ),
    price("storage_load_bytes32", "(call $storage_load_bytes32 (i32.const 160) (i32.const 1024))", gas(2_100)),
    after(
        "(call $storage_load_bytes32 (i32.const 160) (i32.const 1024))",
        "storage_load_bytes32",
        "(call $storage_load_bytes32 (i32.const 160) (i32.const 1024))",
        0,
    ),
    after(
        "(call $storage_load_bytes32 (i32.const 160) (i32.const 1024)) (call $storage_flush_cache (i32.const 1))",
        "storage_load_bytes32",
        "(call $storage_load_bytes32 (i32.const 160) (i32.const 1024))",
        gas(100),
    ),
    price("transient_load_bytes32", "(call $transient_load_bytes32 (i32.const 160) (i32.const 1024))", gas(100)),
    price("transient_store_bytes32", "(call $transient_store_bytes32 (i32.const 160) (i32.const 192))", gas(100)),
    price("tx_gas_price", "(call $tx_gas_price (i32.const 1024))", 0),
    price("tx_ink_price", "(drop (call $tx_ink_price))", 0),
    price("tx_origin", "(call $tx_origin (i32.const 1024))", 0),
    price("write_result", "(call $write_result (i32.const 0) (i32.const 0))", 0),
    price(
        "write_result",
        "(call $write_result (i32.const 0) (i32.const 100))",
        100 * (gas::INK_PER_RESULT_BYTE + gas::INK_PER_HOST_BYTE),
    ),
];

pub fn all() {
    let asking = find("evm_ink_left").unwrap().ink;
    for Price { call, body, before, ink } in PRICES {
        if body.is_empty() {
            continue;
        }
        // Straight-line code is charged at its start. So the difference of two readings covers the code between them
        // and the second reading.
        let measured = format!(
            "{before} (local.set $x (call $evm_ink_left)) {body} (local.set $y (call $evm_ink_left))
             (i64.store (i32.const 2000) (i64.sub (local.get $x) (local.get $y))) (call $write_result (i32.const 2000) (i32.const 8)) i32.const 0"
        );
        let answer = TestState::new().one(&contract(&measured)).stored(ONE, 1, 3).output(&[1; 10]);
        let modules = corniche_abi::MODULES.iter();
        let base = modules.filter_map(|(module, _)| import(module, call)).next().unwrap().ink;
        assert_eq!(long(&answer, 0), base + ink + asking, "{call}: {before} {body}");
    }
}
