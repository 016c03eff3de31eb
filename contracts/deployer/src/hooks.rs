//! Safe wrappers of the chain's host functions.

use crate::memory::Place;

#[link(wasm_import_module = "vm_hooks")]
extern "C" {
    fn call_contract(to: *const u8, data: *const u8, length: usize, value: *const u8, gas: u64, returned: *mut usize) -> u8;
    fn create1(code: *const u8, length: usize, value: *const u8, address: *mut u8, returned: *mut usize);
    fn create2(code: *const u8, length: usize, value: *const u8, salt: *const u8, address: *mut u8, returned: *mut usize);
    fn emit_log(data: *const u8, length: usize, topics: usize);
    fn msg_sender(address: *mut u8);
    fn msg_value(value: *mut u8);
    fn native_keccak256(data: *const u8, length: usize, hash: *mut u8);
    fn read_args(to: *mut u8);
    fn read_return_data(to: *mut u8, offset: usize, length: usize) -> usize;
    fn write_result(data: *const u8, length: usize);
}

// SAFETY, of all below: the host checks each access against the module's memory and follows the interface's lengths.
// Every array here has that length.

/// Value of the transaction.
pub fn value() -> [u8; 32] {
    let mut value = [0; 32];
    unsafe { msg_value(value.as_mut_ptr()) };
    value
}

pub fn sender() -> [u8; 20] {
    let mut address = [0; 20];
    unsafe { msg_sender(address.as_mut_ptr()) };
    address
}

/// Creates without value. Returns the contract's address, or the length of the revert data.
pub fn create(code: Place, salt: Option<&[u8; 32]>) -> Result<[u8; 20], usize> {
    let (mut address, mut returned) = ([0; 20], 0);
    let (start, length, nothing) = (code.start(), code.length(), [0; 32]);
    match salt {
        None => unsafe { create1(start, length, nothing.as_ptr(), address.as_mut_ptr(), &mut returned) },
        Some(salt) => unsafe {
            create2(start, length, nothing.as_ptr(), salt.as_ptr(), address.as_mut_ptr(), &mut returned);
        },
    }
    if address == [0; 20] {
        Err(returned)
    } else {
        Ok(address)
    }
}

/// Calls with all remaining gas. An error is the length of the revert data.
pub fn call(to: &[u8; 20], data: Place, value: &[u8; 32]) -> Result<(), usize> {
    let mut returned = 0;
    let status = unsafe { call_contract(to.as_ptr(), data.start(), data.length(), value.as_ptr(), u64::MAX, &mut returned) };
    if status == 0 {
        Ok(())
    } else {
        Err(returned)
    }
}

/// One topic, followed by the data.
pub fn log(event: &[u8; 64]) {
    unsafe { emit_log(event.as_ptr(), event.len(), 1) };
}

pub fn keccak256(data: Place) -> [u8; 32] {
    let mut hash = [0; 32];
    unsafe { native_keccak256(data.start(), data.length(), hash.as_mut_ptr()) };
    hash
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
