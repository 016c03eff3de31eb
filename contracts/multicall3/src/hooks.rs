//! Safe wrappers of the chain's host functions.

use crate::memory::Place;

#[link(wasm_import_module = "vm_hooks")]
extern "C" {
    fn account_balance(address: *const u8, balance: *mut u8);
    fn block_basefee(fee: *mut u8);
    fn block_coinbase(address: *mut u8);
    #[link_name = "block_gas_limit"]
    fn limit() -> u64;
    #[link_name = "block_number"]
    fn number() -> u64;
    #[link_name = "block_timestamp"]
    fn timestamp() -> u64;
    fn chainid() -> u64;
    fn call_contract(to: *const u8, data: *const u8, length: usize, value: *const u8, gas: u64, returned: *mut usize) -> u8;
    fn msg_value(value: *mut u8);
    fn read_args(to: *mut u8);
    fn read_return_data(to: *mut u8, offset: usize, length: usize) -> usize;
    fn write_result(data: *const u8, length: usize);
}

// SAFETY, of all below: the host checks each access against the module's memory and follows the interface's lengths.
// Every array here has that length.

pub fn block_number() -> u64 {
    unsafe { number() }
}

pub fn block_timestamp() -> u64 {
    unsafe { timestamp() }
}

pub fn block_gas_limit() -> u64 {
    unsafe { limit() }
}

pub fn chain_id() -> u64 {
    unsafe { chainid() }
}

pub fn base_fee() -> [u8; 32] {
    let mut fee = [0; 32];
    unsafe { block_basefee(fee.as_mut_ptr()) };
    fee
}

pub fn coinbase() -> [u8; 32] {
    let mut word = [0; 32];
    unsafe { block_coinbase(word[12..].as_mut_ptr()) };
    word
}

pub fn balance(address: &[u8; 20]) -> [u8; 32] {
    let mut balance = [0; 32];
    unsafe { account_balance(address.as_ptr(), balance.as_mut_ptr()) };
    balance
}

/// Value of the transaction.
pub fn value() -> [u8; 32] {
    let mut value = [0; 32];
    unsafe { msg_value(value.as_mut_ptr()) };
    value
}

/// Calls with all remaining gas. Returns true for success, and the length of the result.
pub fn call(to: &[u8; 20], data: Place, value: &[u8; 32]) -> (bool, usize) {
    let mut returned = 0;
    let status = unsafe { call_contract(to.as_ptr(), data.start(), data.length(), value.as_ptr(), u64::MAX, &mut returned) };
    (status == 0, returned)
}

/// `to` must point to as many bytes as the entrypoint's argument states.
pub unsafe fn arguments(to: *mut u8) {
    read_args(to);
}

/// `to` must point to `length` bytes.
pub unsafe fn returned(to: *mut u8, length: usize) {
    read_return_data(to, 0, length);
}

/// `data` must point to `length` bytes.
pub unsafe fn result(data: *const u8, length: usize) {
    write_result(data, length);
}
