//! Exports of the module: memory for a request, and its response.
//!
//! The host calls `allocate(length)`, writes the request there, calls `answer(pointer, length)` and reads `length << 32
//! | pointer` of the response. It frees both with `release`. Each instance of the module has one [`Verifier`].

// The host's pointers are trusted, as in every module. A wrong pointer can harm only this instance's memory.
#![allow(unsafe_code)]

use crate::Verifier;
use std::{cell::RefCell, slice};

thread_local! {
    static VERIFIER: RefCell<Verifier> = RefCell::default();
}

/// Allocates this many zeroed bytes.
#[unsafe(no_mangle)]
pub extern "C" fn allocate(length: usize) -> *mut u8 {
    Box::into_raw(vec![0u8; length].into_boxed_slice()).cast()
}

/// Frees memory from [`allocate`] or [`answer`].
///
/// # Safety
/// Pointer and length must be those of the allocation, which must not have been freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn release(pointer: *mut u8, length: usize) {
    // SAFETY: by the contract above, this is a boxed slice of this length.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(pointer, length)) });
}

/// Answers the request at this address. Returns length << 32 | pointer of the response.
///
/// # Safety
/// `length` bytes at `pointer` must be readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn answer(pointer: *const u8, length: usize) -> u64 {
    // SAFETY: by the contract above, the bytes are readable.
    let question = unsafe { slice::from_raw_parts(pointer, length) };
    let answer = VERIFIER.with_borrow_mut(|verifier| verifier.handle(question)).into_bytes().into_boxed_slice();
    let length = answer.len();
    let pointer = Box::into_raw(answer).cast::<u8>();
    (length as u64) << 32 | pointer as u64
}
