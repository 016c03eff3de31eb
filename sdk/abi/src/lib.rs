//! The host-call table: the functions that a contract may import, with their exact WebAssembly signatures and base prices.
//!
//! The virtual machine uses this table (validation refuses any other import; linking and charging follow it), and so does
//! everything that explains contracts (traces, gas reports, documentation). Names and signatures of [`VM_HOOKS`] are those of
//! `stylus-sdk`; [`CORNICHE`] is our own. The prices are our own and part of the gas table, so changing one is a protocol
//! upgrade.
//!
//! Conventions of the interface: pointers and lengths are `i32`; an address is 20 bytes; a 32-byte word is big-endian; a length
//! that a call writes into the guest's memory is a little-endian `u32`.
//!
//! # Counters
//!
//! ```text
//! counter_add(slot: i32, amount: i32, limit: i32) -> i32     0: value + amount <= limit; the slot has this value now
//! counter_sub(slot: i32, amount: i32, floor: i32) -> i32     0: value - amount >= floor; the slot has this value now
//!                                                            1: the bound does not permit it; nothing changed
//! ```
//!
//! All three arguments point to 32-byte words: the key of a storage slot of the contract, and two unsigned 256-bit numbers. The
//! arithmetic is exact: nothing wraps, for any bound. An amount of zero changes nothing and still checks the bound.
//!
//! The slot is an ordinary one: loads and stores see its number. But these two calls **do not read it**. They depend on a
//! single bit, whether the number is within a range. Transactions that only count do not depend on each other. So a counter that
//! every transaction changes does not serialize a block, as long as the bound is not near. The result always equals that of
//! running the transactions one after the other. A transaction that also loads or stores the slot depends on the
//! others like any other reader.
//!
//! - **Storage cache.** A dirty word of this key in the frame's cache is written first, at a store's price. The key
//!   leaves the cache in any case, so the next load reads the counter.
//! - **Gas**, in addition to the base price: 2,900 for every result, and 2,100 more if the slot is cold. A successful
//!   addition to zero pays 17,100 more, so that a new slot costs the price of a store. No refunds. A
//!   store after a counter call has the price and refund as if the slot had held the call's result at the transaction's start.
//! - In a static call the frame ends, as with a store.
//!
//! # Randomness
//!
//! ```text
//! block_randomness(destination: i32)     writes 32 bytes
//! ```
//!
//! Writes the randomness of the running block from its header (`mixHash`, `prevRandao`), equal for all transactions of the block.
//! It is unknown before they are ordered, as far as the ordering engine guarantees that (`docs/chain-features.md`).
//!
//! # Certified headers
//!
//! ```text
//! certified_hash(number: i64, destination: i32) -> i32     0: writes 32 bytes, the hash of the header of block `number`
//!                                                          1: the hash is not available; nothing is written
//! ```
//!
//! A block is executed only after the header 64 blocks below it is certified. Block N can read the hashes of headers N − 8,255 to
//! N − 65. A quorum certified each of them before this execution. The pointer is checked in any case.
//!
//! - **Gas**, in addition to the base price: an SLOAD of the hash's slot in another account, 2,100 if cold and 100 if warm;
//!   nothing if the number is out of range. The slots are those of EIP-2935, so an access list may contain them.
//! - Permitted in static calls. Does not use the frame's cache.

#![no_std]
#![warn(missing_docs)]

extern crate alloc;

pub mod interface;

/// Version of the host interface; stored with an account's code.
pub const ABI_VERSION: u8 = 1;

/// Module from which contracts import host functions.
pub const VM_HOOKS_MODULE: &str = "vm_hooks";

/// Module of this chain's own host functions.
pub const CORNICHE_MODULE: &str = "corniche";

/// Module for console output of debug builds; on development chains only (`validate::Rules` of the virtual machine).
pub const CONSOLE_MODULE: &str = "console";

/// Exported function that a call enters. It takes the length of the input and returns zero on success.
pub const ENTRYPOINT_EXPORT: &str = "user_entrypoint";

/// Name of the exported linear memory.
pub const MEMORY_EXPORT: &str = "memory";

/// Ink per gas. Ink is the unit of prices of instructions.
pub const INK_PER_GAS: u64 = 10_000;

/// Signature of a constructor; its selector is the first four bytes of keccak-256 of it.
pub const CONSTRUCTOR_SIGNATURE: &str = "stylus_constructor()";

/// A WebAssembly value type of the interface. There are no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// 32 bits: a pointer, a length, or a number that fits.
    I32,
    /// 64 bits: gas, ink, a time, the number of a block.
    I64,
}

/// One importable function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCall {
    /// Name of the import.
    pub name: &'static str,
    /// Types of the parameters, in order.
    pub parameters: &'static [ValueType],
    /// Type of the result, if any.
    pub result: Option<ValueType>,
    /// Base price in ink; the prices of lengths and state accesses are added.
    pub ink: u64,
}

use ValueType::{I32, I64};

const fn call(name: &'static str, parameters: &'static [ValueType], result: Option<ValueType>, ink: u64) -> HostCall {
    HostCall { name, parameters, result, ink }
}

/// The call passes a value in registers only.
const PLAIN: u64 = 70_000;
/// The call makes small fixed-size reads or writes of guest memory.
const POINTER: u64 = 100_000;
/// The call allocates or accesses the state.
const HEAVY: u64 = 120_000;
/// The call makes a 256-bit division or similar.
const WIDE: u64 = 280_000;

/// All functions of the module [`VM_HOOKS_MODULE`], sorted by name.
pub const VM_HOOKS: &[HostCall] = &[
    call("account_balance", &[I32, I32], None, HEAVY),
    call("account_code", &[I32, I32, I32, I32], Some(I32), HEAVY),
    call("account_code_size", &[I32], Some(I32), HEAVY),
    call("account_codehash", &[I32, I32], None, HEAVY),
    call("block_basefee", &[I32], None, POINTER),
    call("block_coinbase", &[I32], None, POINTER),
    call("block_gas_limit", &[], Some(I64), PLAIN),
    call("block_number", &[], Some(I64), PLAIN),
    call("block_timestamp", &[], Some(I64), PLAIN),
    call("call_contract", &[I32, I32, I32, I32, I64, I32], Some(I32), HEAVY),
    call("chainid", &[], Some(I64), PLAIN),
    call("contract_address", &[I32], None, POINTER),
    call("create1", &[I32, I32, I32, I32, I32], None, HEAVY),
    call("create2", &[I32, I32, I32, I32, I32, I32], None, HEAVY),
    call("delegate_call_contract", &[I32, I32, I32, I64, I32], Some(I32), HEAVY),
    call("emit_log", &[I32, I32, I32], None, HEAVY),
    call("evm_gas_left", &[], Some(I64), PLAIN),
    call("evm_ink_left", &[], Some(I64), PLAIN),
    call("exit_early", &[I32], None, PLAIN),
    call("math_add_mod", &[I32, I32, I32], None, WIDE),
    call("math_div", &[I32, I32], None, WIDE),
    call("math_mod", &[I32, I32], None, WIDE),
    call("math_mul_mod", &[I32, I32, I32], None, WIDE),
    call("math_pow", &[I32, I32], None, WIDE),
    call("msg_reentrant", &[], Some(I32), PLAIN),
    call("msg_sender", &[I32], None, POINTER),
    call("msg_value", &[I32], None, POINTER),
    call("native_keccak256", &[I32, I32, I32], None, POINTER),
    call("pay_for_memory_grow", &[I32], None, PLAIN),
    call("read_args", &[I32], None, POINTER),
    call("read_return_data", &[I32, I32, I32], Some(I32), POINTER),
    call("return_data_size", &[], Some(I32), PLAIN),
    call("static_call_contract", &[I32, I32, I32, I64, I32], Some(I32), HEAVY),
    call("storage_cache_bytes32", &[I32, I32], None, HEAVY),
    call("storage_flush_cache", &[I32], None, POINTER),
    call("storage_load_bytes32", &[I32, I32], None, HEAVY),
    call("transient_load_bytes32", &[I32, I32], None, HEAVY),
    call("transient_store_bytes32", &[I32, I32], None, HEAVY),
    call("tx_gas_price", &[I32], None, POINTER),
    call("tx_ink_price", &[], Some(I32), PLAIN),
    call("tx_origin", &[I32], None, POINTER),
    call("write_result", &[I32, I32], None, POINTER),
];

/// All functions of the module [`CORNICHE_MODULE`], sorted by name.
pub const CORNICHE: &[HostCall] = &[
    call("block_randomness", &[I32], None, POINTER),
    call("certified_hash", &[I64, I32], Some(I32), HEAVY),
    call("counter_add", &[I32, I32, I32], Some(I32), HEAVY),
    call("counter_sub", &[I32, I32, I32], Some(I32), HEAVY),
];

/// Modules with the functions that a contract may import.
pub const MODULES: &[(&str, &[HostCall])] = &[(VM_HOOKS_MODULE, VM_HOOKS), (CORNICHE_MODULE, CORNICHE)];

/// All functions of the module [`CONSOLE_MODULE`], sorted by name. Only traces show their output. `log_txt` takes UTF-8 text by
/// pointer and length; the `tee` functions return their argument. Other chains with this interface also have them for floats,
/// which contracts here cannot use.
pub const CONSOLE: &[HostCall] = &[
    call("log_i32", &[I32], None, PLAIN),
    call("log_i64", &[I64], None, PLAIN),
    call("log_txt", &[I32, I32], None, POINTER),
    call("tee_i32", &[I32], Some(I32), PLAIN),
    call("tee_i64", &[I64], Some(I64), PLAIN),
];

/// Returns the function with this name in [`CONSOLE`].
pub fn console(name: &str) -> Option<&'static HostCall> {
    CONSOLE.iter().find(|call| call.name == name)
}

/// Returns the function with this name in this module.
pub fn import(module: &str, name: &str) -> Option<&'static HostCall> {
    let (_, calls) = MODULES.iter().find(|(known, _)| *known == module)?;
    calls.binary_search_by(|call| call.name.cmp(name)).ok().map(|at| &calls[at])
}

/// Returns the function with this name in [`VM_HOOKS`].
pub fn find(name: &str) -> Option<&'static HostCall> {
    position(name).map(|at| &VM_HOOKS[at])
}

/// Returns the index of the function in [`VM_HOOKS`].
pub fn position(name: &str) -> Option<usize> {
    VM_HOOKS.binary_search_by(|call| call.name.cmp(name)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted_and_searchable() {
        assert_eq!(VM_HOOKS.len(), 42);
        assert!(VM_HOOKS.windows(2).all(|pair| pair[0].name < pair[1].name));
        for call in VM_HOOKS {
            assert_eq!(find(call.name), Some(call));
        }
        assert_eq!(find("log_txt"), None);
        for (module, calls) in MODULES {
            assert!(calls.windows(2).all(|pair| pair[0].name < pair[1].name));
            for call in *calls {
                assert_eq!(import(module, call.name), Some(call));
                assert_eq!(MODULES.iter().filter(|(other, _)| import(other, call.name).is_some()).count(), 1);
            }
        }
        assert_eq!(import("env", "counter_add"), None);
    }
}
