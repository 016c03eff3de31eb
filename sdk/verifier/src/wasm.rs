//! The module's exports: memory for a question, and the answer to it.
//!
//! The host calls `allocate(length)`, writes the question there, calls `answer(pointer, length)` and reads `length << 32 | pointer` of the
//! answer; it gives both back with `release`. There is one [`Verifier`] in each instance of the module.

// What the host says of its own memory is believed, as every module has to: a wrong pointer harms this instance's memory alone.
#![allow(unsafe_code)]

use crate::Verifier;
use std::{cell::RefCell, slice};

thread_local! {
    static VERIFIER: RefCell<Verifier> = RefCell::default();
}

/// So many bytes, zeroed.
#[unsafe(no_mangle)]
pub extern "C" fn allocate(length: usize) -> *mut u8 {
    Box::into_raw(vec![0u8; length].into_boxed_slice()).cast()
}

/// Gives back what [`allocate`] or [`answer`] gave.
///
/// # Safety
/// The pointer and the length must be those, and this must be the first time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn release(pointer: *mut u8, length: usize) {
    // SAFETY: by the contract above, a boxed slice of this length.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(pointer, length)) });
}

/// Answers the question that lies there: length << 32 | pointer.
///
/// # Safety
/// So many bytes must be readable there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn answer(pointer: *const u8, length: usize) -> u64 {
    // SAFETY: by the contract above.
    let question = unsafe { slice::from_raw_parts(pointer, length) };
    let answer = VERIFIER.with_borrow_mut(|verifier| verifier.answer(question)).into_bytes().into_boxed_slice();
    let length = answer.len();
    let pointer = Box::into_raw(answer).cast::<u8>();
    (length as u64) << 32 | pointer as u64
}
