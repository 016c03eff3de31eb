//! The host-call table: what a contract may import, with the exact WebAssembly signature and the base price of each function.
//!
//! This one table is read by the virtual machine (validation refuses any other import, linking and charging follow it) and by
//! everything that explains contracts (traces, gas reports, documentation). Names and signatures of [`VM_HOOKS`] are those that
//! `stylus-sdk` declares, [`CORNICHE`] is our own; the prices are our own and part of the gas table, so changing one is a protocol
//! upgrade.
//!
//! Conventions of the interface: pointers and lengths are `i32`; an address is 20 bytes; a 32-byte word is big-endian; a length
//! that a call writes into the guest's memory is a little-endian `u32`.
//!
//! # Counters
//!
//! ```text
//! counter_add(slot: i32, amount: i32, limit: i32) -> i32     0: value + amount <= limit, and that is the slot's value now
//! counter_sub(slot: i32, amount: i32, floor: i32) -> i32     0: value - amount >= floor, and that is the slot's value now
//!                                                            1: the bound does not allow it, and nothing changed
//! ```
//!
//! All three arguments point to 32-byte words: the key of a storage slot of the contract, and two unsigned 256-bit numbers. The
//! arithmetic is exact: nothing wraps, whatever the bound. An amount of zero changes nothing and still answers its bound.
//!
//! The slot is an ordinary one, which loads and stores see as the number it holds, but these two calls **do not read it**:
//! they learn from the chain one bit, whether the number lies within a range. Transactions that only count do not depend on each other, so
//! a counter that every transaction raises does not force a block to run one by one, as long as the bound is not near. The answer is
//! what running the transactions one after the other gives, always. A transaction that also loads or stores the slot depends on the
//! others like any other reader.
//!
//! - **Storage cache.** A word of that key which waits in the frame's cache is written first, at a store's price; the key
//!   leaves the cache either way, so the next load sees the counter.
//! - **Gas**, on top of the base price: 2,900, whatever the answer (2,100 more when the transaction touches the slot for the first time); an
//!   addition that succeeds and finds zero pays 17,100 more, so that a slot comes into being at a store's price. No refunds. A
//!   store after a counter call is priced and refunded as if the transaction had found what the call left.
//! - In a static call the frame ends, as with a store.
//!
//! # Randomness
//!
//! ```text
//! block_randomness(destination: i32)     writes 32 bytes
//! ```
//!
//! The randomness of the block this runs in, as its header says it (`mixHash`, `prevRandao`): the same for all of a block's transactions,
//! and not known before they are ordered, as far as the ordering engine keeps that (`docs/write-a-contract.md`).
//!
//! # Certified headers
//!
//! ```text
//! certified_hash(number: i64, destination: i32) -> i32     0: writes 32 bytes, the hash of the header of block `number`
//!                                                          1: there is none to be had, and nothing is written
//! ```
//!
//! A block is not run before the header 64 blocks below it is certified. In block N there are the hashes of the headers from N − 8,255 to N − 65: every
//! one of them was certified by a quorum before this ran. The pointer is checked whatever the answer.
//!
//! - **Gas**, on top of the base price: what a load of that slot of another account's storage costs, 2,100 the first time in a transaction and 100
//!   after that; nothing when the number is out of range. The slots are those of EIP-2935, so an access list may name them.
//! - It may be asked in a static call, and through the frame's cache goes nothing of it.

#![no_std]
#![warn(missing_docs)]

extern crate alloc;

pub mod interface;

/// Version of the host interface; stored with an account's code.
pub const ABI_VERSION: u8 = 1;

/// The module contracts import from.
pub const VM_HOOKS_MODULE: &str = "vm_hooks";

/// The module of our own additions.
pub const CORNICHE_MODULE: &str = "corniche";

/// The module that debug builds speak through; on development chains only (`validate::Rules` of the virtual machine).
pub const CONSOLE_MODULE: &str = "console";

/// The exported function a call enters by: length of the input in, zero for success out.
pub const ENTRYPOINT_EXPORT: &str = "user_entrypoint";

/// The exported linear memory.
pub const MEMORY_EXPORT: &str = "memory";

/// Ink is the unit in which instructions are priced.
pub const INK_PER_GAS: u64 = 10_000;

/// What contract authors call their constructor's selector: the first four bytes of keccak-256 of `stylus_constructor()`.
pub const CONSTRUCTOR_SIGNATURE: &str = "stylus_constructor()";

/// A WebAssembly value type of the interface. Nothing else crosses it.
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
    /// As a module imports it.
    pub name: &'static str,
    /// What the guest hands over, in order.
    pub parameters: &'static [ValueType],
    /// What it is handed back; `None`: nothing.
    pub result: Option<ValueType>,
    /// Base price in ink; what depends on lengths or touches state comes on top.
    pub ink: u64,
}

use ValueType::{I32, I64};

const fn call(name: &'static str, parameters: &'static [ValueType], result: Option<ValueType>, ink: u64) -> HostCall {
    HostCall { name, parameters, result, ink }
}

/// A value handed over in registers.
const PLAIN: u64 = 70_000;
/// One or more small fixed-size reads or writes of guest memory.
const POINTER: u64 = 100_000;
/// Something allocates or looks into the state on the way.
const HEAVY: u64 = 120_000;
/// 256-bit division and its like.
const WIDE: u64 = 280_000;

/// Every function of the module [`VM_HOOKS_MODULE`], by name in ascending order.
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

/// Every function of the module [`CORNICHE_MODULE`], by name in ascending order.
pub const CORNICHE: &[HostCall] = &[
    call("block_randomness", &[I32], None, POINTER),
    call("certified_hash", &[I64, I32], Some(I32), HEAVY),
    call("counter_add", &[I32, I32, I32], Some(I32), HEAVY),
    call("counter_sub", &[I32, I32, I32], Some(I32), HEAVY),
];

/// What a contract may import: modules with their functions.
pub const MODULES: &[(&str, &[HostCall])] = &[(VM_HOOKS_MODULE, VM_HOOKS), (CORNICHE_MODULE, CORNICHE)];

/// Every function of the module [`CONSOLE_MODULE`], by name in ascending order: what is logged is seen in traces and nowhere else. `log_txt`
/// takes UTF-8 text by pointer and length; what is teed is handed back. Other chains of this interface also have these for floats, which no
/// contract here has.
pub const CONSOLE: &[HostCall] = &[
    call("log_i32", &[I32], None, PLAIN),
    call("log_i64", &[I64], None, PLAIN),
    call("log_txt", &[I32, I32], None, POINTER),
    call("tee_i32", &[I32], Some(I32), PLAIN),
    call("tee_i64", &[I64], Some(I64), PLAIN),
];

/// The function of that name in [`CONSOLE`], if there is one.
pub fn console(name: &str) -> Option<&'static HostCall> {
    CONSOLE.iter().find(|call| call.name == name)
}

/// The function of that name in that module, if there is one.
pub fn import(module: &str, name: &str) -> Option<&'static HostCall> {
    let (_, calls) = MODULES.iter().find(|(known, _)| *known == module)?;
    calls.binary_search_by(|call| call.name.cmp(name)).ok().map(|at| &calls[at])
}

/// The function of that name in [`VM_HOOKS`], if the table has it.
pub fn find(name: &str) -> Option<&'static HostCall> {
    position(name).map(|at| &VM_HOOKS[at])
}

/// Where the function stands in [`VM_HOOKS`].
pub fn position(name: &str) -> Option<usize> {
    VM_HOOKS.binary_search_by(|call| call.name.cmp(name)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_name_is_found() {
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
