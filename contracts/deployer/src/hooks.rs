//! What the chain offers, with its pointers put away.

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

// SAFETY, of all below: the host checks each access against the module's memory, reads and writes as many bytes as the interface says, and
// every array here is as long as that.

/// What was sent along.
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

/// Without money for it. Where the contract is, or how many bytes came back with the refusal.
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

/// With all gas there is; how many bytes came back with the refusal.
pub fn call(to: &[u8; 20], data: Place, value: &[u8; 32]) -> Result<(), usize> {
    let mut returned = 0;
    let status = unsafe { call_contract(to.as_ptr(), data.start(), data.length(), value.as_ptr(), u64::MAX, &mut returned) };
    if status == 0 {
        Ok(())
    } else {
        Err(returned)
    }
}

/// A topic, and data behind it.
pub fn log(event: &[u8; 64]) {
    unsafe { emit_log(event.as_ptr(), event.len(), 1) };
}

pub fn keccak256(data: Place) -> [u8; 32] {
    let mut hash = [0; 32];
    unsafe { native_keccak256(data.start(), data.length(), hash.as_mut_ptr()) };
    hash
}

/// `to` leads to as many bytes as the entrypoint was told.
pub unsafe fn arguments(to: *mut u8) {
    read_args(to);
}

/// `to` leads to `length` bytes.
pub unsafe fn returned(to: *mut u8, length: usize) {
    read_return_data(to, 0, length);
}

/// `data` leads to `length` bytes.
pub unsafe fn result(data: *const u8, length: usize) {
    write_result(data, length);
}
