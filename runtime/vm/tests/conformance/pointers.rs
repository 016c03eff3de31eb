//! Pointers: the last byte of memory is valid, the next one ends the frame.

use super::test_state::*;
use corniche_vm::ExecutionStatus;
use corniche_vm::host::Trap;

/// Kind of an argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument {
    /// Pointer to this many bytes.
    Bytes(u32),
    /// Pointer to as many bytes as the next argument gives.
    Data,
    /// Length of the preceding pointer.
    Length,
    /// Pointer to a buffer for all available bytes, none here.
    Any,
    /// A number, zero here.
    Number,
    /// A number of type i64, zero here.
    Gas,
}
use Argument::{Any, Bytes, Data, Gas, Length, Number};

const ADDRESS: Argument = Bytes(20);
const WORD: Argument = Bytes(32);
const SIZE: Argument = Bytes(4);

pub const SIGNATURES: &[(&str, &[Argument])] = &[
    ("account_balance", &[ADDRESS, WORD]),
    ("account_code", &[ADDRESS, Number, Number, Any]),
    ("account_code_size", &[ADDRESS]),
    ("account_codehash", &[ADDRESS, WORD]),
    ("block_basefee", &[WORD]),
    ("block_coinbase", &[ADDRESS]),
    ("block_gas_limit", &[]),
    ("block_number", &[]),
    ("block_randomness", &[WORD]),
    ("block_timestamp", &[]),
    ("call_contract", &[ADDRESS, Data, Length, WORD, Gas, SIZE]),
    ("certified_hash", &[Gas, WORD]),
    ("chainid", &[]),
    ("contract_address", &[ADDRESS]),
    ("counter_add", &[WORD, WORD, WORD]),
    ("counter_sub", &[WORD, WORD, WORD]),
    ("create1", &[Data, Length, WORD, ADDRESS, SIZE]),
    ("create2", &[Data, Length, WORD, WORD, ADDRESS, SIZE]),
    ("delegate_call_contract", &[ADDRESS, Data, Length, Gas, SIZE]),
    ("emit_log", &[Data, Length, Number]),
    ("evm_gas_left", &[]),
    ("evm_ink_left", &[]),
    ("exit_early", &[Number]),
    ("math_add_mod", &[WORD, WORD, WORD]),
    ("math_div", &[WORD, WORD]),
    ("math_mod", &[WORD, WORD]),
    ("math_mul_mod", &[WORD, WORD, WORD]),
    ("math_pow", &[WORD, WORD]),
    ("msg_reentrant", &[]),
    ("msg_sender", &[ADDRESS]),
    ("msg_value", &[WORD]),
    ("native_keccak256", &[Data, Length, WORD]),
    ("pay_for_memory_grow", &[Number]),
    ("read_args", &[Any]),
    ("read_return_data", &[Any, Number, Number]),
    ("return_data_size", &[]),
    ("static_call_contract", &[ADDRESS, Data, Length, Gas, SIZE]),
    ("storage_cache_bytes32", &[WORD, WORD]),
    ("storage_flush_cache", &[Number]),
    ("storage_load_bytes32", &[WORD, WORD]),
    ("transient_load_bytes32", &[WORD, WORD]),
    ("transient_store_bytes32", &[WORD, WORD]),
    ("tx_gas_price", &[WORD]),
    ("tx_ink_price", &[]),
    ("tx_origin", &[ADDRESS]),
    ("write_result", &[Data, Length]),
];

const MEMORY: u32 = 65_536;

/// Runs the function; the argument at `which` is `pointer`, and lengths are `length`.
fn used(name: &str, arguments: &[Argument], which: usize, pointer: u32, length: u32) -> ExecutionStatus {
    // All other arguments point to zeros.
    let text: String = arguments
        .iter()
        .enumerate()
        .map(|(at, argument)| match argument {
            Gas => "(i64.const 0)".into(),
            Length => format!("(i32.const {length})"),
            Number => "(i32.const 0)".into(),
            _ if at == which => format!("(i32.const {})", pointer as i32),
            _ => format!("(i32.const {ZERO})"),
        })
        .collect();
    let call = corniche_abi::MODULES.iter().find_map(|(module, _)| corniche_abi::import(module, name)).unwrap();
    assert_eq!(call.parameters.len(), arguments.len(), "{name}");
    let drop = if call.result.is_some() { "drop" } else { "" };
    TestState::new().one(&contract(&format!("(call ${name} {text}) {drop} i32.const 0"))).send(b"").end
}

pub fn all() {
    let out = ExecutionStatus::Trap(Trap::MemoryOutOfBounds);
    for (name, arguments) in SIGNATURES {
        for (which, argument) in arguments.iter().enumerate() {
            // Pointer, length, and whether they are within memory.
            let cases: Vec<(u32, u32, bool)> = match argument {
                Bytes(size) => {
                    vec![(MEMORY - size, 0, true), (MEMORY - size + 1, 0, false), (MEMORY, 0, false), (u32::MAX, 0, false)]
                }
                Data => vec![
                    (MEMORY, 0, true),
                    (MEMORY + 1, 0, false),
                    (MEMORY - 64, 64, true),
                    (MEMORY - 64, 65, false),
                    (0, MEMORY, true),
                    (1, MEMORY, false),
                    (u32::MAX, 1, false),
                    (u32::MAX, 0, false),
                ],
                Any => vec![(MEMORY, 0, true), (MEMORY + 1, 0, false), (u32::MAX, 0, false)],
                Length | Number | Gas => continue,
            };
            for (pointer, length, within) in cases {
                // Zeros are not a contract, and oversized creation data has another error.
                if name.starts_with("create") && length > 1_000 {
                    continue;
                }
                let end = used(name, arguments, which, pointer, length);
                assert_eq!(end == out, !within, "{name}, argument {which} at {pointer} for {length}: {end:?}");
            }
        }
    }
}
