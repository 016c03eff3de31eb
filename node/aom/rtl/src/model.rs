//! The simulated circuits, one clock at a time.

// The models are C++ behind a C interface.
#![allow(unsafe_code)]

use std::ffi::c_int;

/// Input ports. 256-bit ports have their lowest 32 bits first.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs {
    pub in_data: u64,
    pub cfg_data: [u32; 8],
    pub push_r: [u32; 8],
    pub push_k_inverse: [u32; 8],
    pub rst: u8,
    pub in_valid: u8,
    pub in_last: u8,
    pub in_bytes: u8,
    /// PK only.
    pub in_flush: u8,
    pub cfg_valid: u8,
    pub cfg_slot: u8,
    pub cfg_field: u8,
    /// HM only.
    pub cfg_receiver: u8,
    /// PK only.
    pub push_valid: u8,
    pub out_ready: u8,
}

/// Output ports as they are before the rising edge.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    pub out_data: u64,
    pub in_ready: u8,
    pub cfg_ready: u8,
    /// PK only.
    pub push_ready: u8,
    /// PK only: presignatures in stock.
    pub stock: u8,
    pub drop_valid: u8,
    pub drop_reason: u8,
    pub out_valid: u8,
    pub out_last: u8,
    pub out_bytes: u8,
}

#[repr(C)]
struct Hm {
    _opaque: [u8; 0],
}

#[repr(C)]
struct Pk {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn aom_hm_new(seed: c_int) -> *mut Hm;
    fn aom_hm_free(model: *mut Hm);
    fn aom_hm_clock(model: *mut Hm, inputs: *const Inputs, outputs: *mut Outputs);
    fn aom_pk_new(seed: c_int) -> *mut Pk;
    fn aom_pk_free(model: *mut Pk);
    fn aom_pk_clock(model: *mut Pk, inputs: *const Inputs, outputs: *mut Outputs);
    fn ecdsa_online_run(seed: c_int, z: *const u32, r: *const u32, k_inverse: *const u32, d: *const u32, s: *mut u32) -> u32;
}

enum Top {
    Hm(*mut Hm),
    Pk(*mut Pk),
}

/// One simulated sequencer. Registers without a reset begin with random values of the seed.
pub struct Model(Top);

impl Model {
    pub fn hm(seed: c_int) -> Self {
        // SAFETY: no arguments to violate; C++ throws only if memory is exhausted.
        Self(Top::Hm(unsafe { aom_hm_new(seed) }))
    }

    pub fn pk(seed: c_int) -> Self {
        // SAFETY: as above.
        Self(Top::Pk(unsafe { aom_pk_new(seed) }))
    }

    /// Applies the inputs, returns the outputs before the rising edge, then gives the edge.
    pub fn clock(&mut self, inputs: &Inputs) -> Outputs {
        let mut outputs = Outputs::default();
        // SAFETY: the pointer comes from the constructor and lives until drop; the structs have the layout of shim.cpp.
        unsafe {
            match self.0 {
                Top::Hm(model) => aom_hm_clock(model, inputs, &mut outputs),
                Top::Pk(model) => aom_pk_clock(model, inputs, &mut outputs),
            }
        }
        outputs
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: freed once, here.
        unsafe {
            match self.0 {
                Top::Hm(model) => aom_hm_free(model),
                Top::Pk(model) => aom_pk_free(model),
            }
        }
    }
}

/// Runs the signer alone. Returns s and the clocks that it took.
///
/// # Panics
/// If the signer does not end within 10,000 clocks.
pub fn ecdsa_online(seed: c_int, z: &[u8; 32], r: &[u8; 32], k_inverse: &[u8; 32], d: &[u8; 32]) -> ([u8; 32], u32) {
    let [z, r, k_inverse, d] = [z, r, k_inverse, d].map(|value| wide(value));
    let mut s = [0; 8];
    // SAFETY: every pointer is to eight 32-bit words.
    let clocks = unsafe { ecdsa_online_run(seed, z.as_ptr(), r.as_ptr(), k_inverse.as_ptr(), d.as_ptr(), s.as_mut_ptr()) };
    assert_ne!(clocks, 0, "the signer does not end");
    let mut bytes = [0; 32];
    for (chunk, word) in bytes.chunks_exact_mut(4).zip(s.iter().rev()) {
        chunk.copy_from_slice(&word.to_be_bytes());
    }
    (bytes, clocks)
}

/// Big-endian bytes, at most 32, as a 256-bit port.
pub fn wide(bytes: &[u8]) -> [u32; 8] {
    let mut out = [0; 8];
    for (i, &byte) in bytes.iter().rev().enumerate() {
        out[i / 4] |= u32::from(byte) << (8 * (i % 4));
    }
    out
}
