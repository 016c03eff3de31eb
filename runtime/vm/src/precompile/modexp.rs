//! Powers modulo a number (EIP-198), with the prices of EIP-7883 and the size limits of EIP-7823.
//!
//! ```text
//! length of base 32 ‖ of exponent 32 ‖ of modulus 32 ‖ base ‖ exponent ‖ modulus, all big-endian
//! ```

use super::{PrecompileError, padded};
use crate::outcome::MAX_NUMBER_BYTES as MAX_BYTES;
use alloy_primitives::{Bytes, U256};
use num_bigint::BigUint;

/// Size of the three lengths.
const HEAD_BYTES: usize = 96;
const MIN_PRICE: u64 = 500;

/// Lengths of base, exponent and modulus, in bytes.
struct Lengths {
    base: usize,
    exponent: usize,
    modulus: usize,
}

impl Lengths {
    fn of(input: &[u8]) -> Result<Self, PrecompileError> {
        let length = |start| {
            let length = U256::from_be_bytes(padded::<32>(input, start));
            usize::try_from(length).ok().filter(|length| *length <= MAX_BYTES).ok_or(PrecompileError::NumberLength)
        };
        Ok(Self { base: length(0)?, exponent: length(32)?, modulus: length(64)? })
    }
}

/// Price of EIP-7883. Returns 0 for an oversized input: it fails and uses all gas anyway.
pub fn price(input: &[u8]) -> u64 {
    let Ok(lengths) = Lengths::of(input) else { return 0 };
    let words = lengths.base.max(lengths.modulus).div_ceil(8) as u64;
    let complexity = if words <= 4 { 16 } else { 2 * words * words };
    let head_bytes = lengths.exponent.min(32);
    let head = U256::from_be_bytes(padded::<32>(input, HEAD_BYTES + lengths.base)) >> (8 * (32 - head_bytes));
    let head_bits = (head.bit_len() as u64).saturating_sub(1);
    let iterations = head_bits + 16 * (lengths.exponent - head_bytes) as u64;
    MIN_PRICE.max(complexity * iterations.max(1))
}

pub fn run(input: &[u8]) -> Result<Bytes, PrecompileError> {
    let lengths = Lengths::of(input)?;
    let rest = input.get(HEAD_BYTES..).unwrap_or_default();
    let (base, rest) = take(rest, lengths.base);
    let (exponent, rest) = take(rest, lengths.exponent);
    let (modulus, _) = take(rest, lengths.modulus);
    let power = power(&base, &exponent, &modulus);
    let power = &power[power.len().saturating_sub(lengths.modulus)..];
    let mut output = vec![0; lengths.modulus];
    output[lengths.modulus - power.len()..].copy_from_slice(power);
    Ok(output.into())
}

/// The result may have leading zeros.
fn power(base: &[u8], exponent: &[u8], modulus: &[u8]) -> Vec<u8> {
    let digits = exponent.iter().position(|digit| *digit != 0).map_or(0, |first| exponent.len() - first);
    let is_even = modulus.last().is_some_and(|digit| digit % 2 == 0);
    // The library splits off a power of two, which costs more than a few plain divisions.
    if is_even && digits <= 2 && modulus.iter().any(|digit| *digit != 0) {
        let [base, exponent, modulus] = [base, exponent, modulus].map(BigUint::from_bytes_be);
        return base.modpow(&exponent, &modulus).to_bytes_be();
    }
    aurora_engine_modexp::modexp(base, exponent, modulus)
}

/// Returns `length` bytes, padded with zeros, and the rest of the input.
fn take(input: &[u8], length: usize) -> (Vec<u8>, &[u8]) {
    let (there, rest) = input.split_at(length.min(input.len()));
    let mut bytes = there.to_vec();
    bytes.resize(length, 0);
    (bytes, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number() -> impl Strategy<Value = Vec<u8>> {
        // Includes many zeros at the end or the start, because even numbers and small exponents take another path.
        (prop::collection::vec(any::<u8>(), 0..48), 0..24usize, any::<bool>()).prop_map(|(mut bytes, zeros, front)| {
            let at = if front { 0 } else { bytes.len() };
            bytes.splice(at..at, std::iter::repeat_n(0, zeros));
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn powers_match_two_libraries(base in number(), exponent in number(), modulus in number(), cut in 0..8usize) {
            let lengths = [&base, &exponent, &modulus].map(|number| U256::from(number.len()).to_be_bytes::<32>());
            let mut input = [lengths.as_flattened(), &base, &exponent, &modulus].concat();
            // Trailing zeros may be omitted.
            let cut = input.iter().skip(HEAD_BYTES).rev().take(cut).take_while(|byte| **byte == 0).count();
            input.truncate(input.len() - cut);
            let output = run(&input).unwrap();
            prop_assert_eq!(output.len(), modulus.len());
            let output = BigUint::from_bytes_be(&output);
            prop_assert_eq!(&output, &BigUint::from_bytes_be(&aurora_engine_modexp::modexp(&base, &exponent, &modulus)));
            let [base, exponent, modulus] = [&base, &exponent, &modulus].map(|number| BigUint::from_bytes_be(number));
            let expected = if modulus == BigUint::ZERO { BigUint::ZERO } else { base.modpow(&exponent, &modulus) };
            prop_assert_eq!(output, expected);
        }

        #[test]
        fn any_input_is_priced_and_terminates(mut input in prop::collection::vec(any::<u8>(), 0..200), small in any::<bool>()) {
            if small {
                for length in input.chunks_mut(32).take(3) {
                    let zeros = length.len().min(30);
                    length[..zeros].fill(0);
                }
            }
            let price = price(&input);
            match run(&input) {
                Ok(output) => prop_assert!(price >= MIN_PRICE && output.len() <= MAX_BYTES),
                Err(error) => prop_assert_eq!((error, price), (PrecompileError::NumberLength, 0)),
            }
        }
    }
}
