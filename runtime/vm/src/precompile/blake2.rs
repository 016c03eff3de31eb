//! BLAKE2b's compression function with a variable number of rounds (EIP-152, RFC 7693).
//!
//! ```text
//! rounds 4, big-endian ‖ state 8 × 8 ‖ message 16 × 8 ‖ offset 2 × 8, all little-endian ‖ final block? 1
//! ```

use super::PrecompileError;
use alloy_primitives::Bytes;

const INPUT_BYTES: usize = 213;

/// Initial state of SHA-512.
const IV: [u64; 8] = [
    0x6a09e667f3bcc908,
    0xbb67ae8584caa73b,
    0x3c6ef372fe94f82b,
    0xa54ff53a5f1d36f1,
    0x510e527fade682d1,
    0x9b05688c2b3e6c1f,
    0x1f83d9abfb41bd6b,
    0x5be0cd19137e2179,
];

/// Permutation of the message's words, by round modulo ten.
const SIGMA: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

fn rounds(input: &[u8]) -> Option<u32> {
    (input.len() == INPUT_BYTES).then(|| u32::from_be_bytes([input[0], input[1], input[2], input[3]]))
}

/// Returns 0 for an input of the wrong length: it fails and uses all gas anyway.
pub fn price(input: &[u8]) -> u64 {
    3 * u64::from(rounds(input).unwrap_or(0))
}

pub fn run(input: &[u8]) -> Result<Bytes, PrecompileError> {
    let rounds = rounds(input).ok_or(PrecompileError::Length)?;
    let is_final = match input[INPUT_BYTES - 1] {
        0 => false,
        1 => true,
        _ => return Err(PrecompileError::FinalFlag),
    };
    let words = |start: usize| move |index: usize| u64::from_le_bytes(super::padded(input, start + 8 * index));
    let state: [u64; 8] = std::array::from_fn(words(4));
    let message: [u64; 16] = std::array::from_fn(words(68));
    let offset: [u64; 2] = std::array::from_fn(words(196));
    let state = compress(rounds, state, &message, offset, is_final);
    Ok(state.iter().flat_map(|word| word.to_le_bytes()).collect())
}

fn compress(rounds: u32, state: [u64; 8], message: &[u64; 16], offset: [u64; 2], is_final: bool) -> [u64; 8] {
    let mut v = [0; 16];
    v[..8].copy_from_slice(&state);
    v[8..].copy_from_slice(&IV);
    v[12] ^= offset[0];
    v[13] ^= offset[1];
    if is_final {
        v[14] = !v[14];
    }
    for _ in 0..rounds / 10 {
        ROUNDS.iter().for_each(|round| round(&mut v, message));
    }
    ROUNDS.iter().take(rounds as usize % 10).for_each(|round| round(&mut v, message));
    std::array::from_fn(|index| state[index] ^ v[index] ^ v[index + 8])
}

/// A round on the working vector and the message.
type Round = fn(&mut [u64; 16], &[u64; 16]);

/// One function per row of [`SIGMA`], so that the indices are constants.
const ROUNDS: [Round; 10] =
    [round::<0>, round::<1>, round::<2>, round::<3>, round::<4>, round::<5>, round::<6>, round::<7>, round::<8>, round::<9>];

fn round<const ROW: usize>(v: &mut [u64; 16], message: &[u64; 16]) {
    let m = |index: usize| message[SIGMA[ROW][index]];
    mix(v, [0, 4, 8, 12], m(0), m(1));
    mix(v, [1, 5, 9, 13], m(2), m(3));
    mix(v, [2, 6, 10, 14], m(4), m(5));
    mix(v, [3, 7, 11, 15], m(6), m(7));
    mix(v, [0, 5, 10, 15], m(8), m(9));
    mix(v, [1, 6, 11, 12], m(10), m(11));
    mix(v, [2, 7, 8, 13], m(12), m(13));
    mix(v, [3, 4, 9, 14], m(14), m(15));
}

#[inline(always)]
fn mix(v: &mut [u64; 16], [a, b, c, d]: [usize; 4], x: u64, y: u64) {
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(x);
    v[d] = (v[d] ^ v[a]).rotate_right(32);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(24);
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(y);
    v[d] = (v[d] ^ v[a]).rotate_right(16);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(63);
}
