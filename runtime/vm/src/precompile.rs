//! Precompiles: addresses at which the node runs computations that would be slow in contracts.
//!
//! Addresses, inputs and outputs are those of Ethereum's Osaka upgrade, and so are the prices of hashes and powers. The
//! other prices follow from CPU time relative to other gas (`benches/host_calls.rs`). They are two and a half to five
//! times Ethereum's:
//!
//! | address | function | price |
//! |---|---|---|
//! | 0x01 | signer's address | 8,000 |
//! | 0x02 | SHA-256 | 60 and 12 a word |
//! | 0x03 | RIPEMD-160 | 600 and 120 a word |
//! | 0x04 | identity | 15 and 3 a word |
//! | 0x05 | base^exponent mod modulus, of at most 1,024 bytes each (EIP-198, 7823) | EIP-7883 |
//! | 0x06, 0x07 | sum and multiple of points of bn254 (EIP-196) | 750, 24,000 |
//! | 0x08 | check that a product of pairings of bn254 is one (EIP-197) | 110,000 and 75,000 a pair |
//! | 0x09 | BLAKE2b's compression (EIP-152) | 3 a round |
//! | 0x71, 0x72 | queries of tools for Stylus contracts: see `stylus` | 200, plus access to an account |
//! | 0x100 | check of a signature over P-256 (EIP-7951) | 18,000 |
//!
//! The price is paid before the computation. An input that is invalid by these EIPs fails the call and uses all of its
//! gas, like running out of gas. No precompile writes state, only 0x71 reads state, and all are warm from the start
//! (EIP-2929). They take precedence over code at their addresses, which only a genesis could contain.

mod blake2;
mod bn254;
mod modexp;
mod p256;

use crate::outcome::{ExecutionStatus, FrameOutcome, PrecompileError};
use alloy_primitives::{Address, B256, Bytes, U256, address};
use ark_ff::BigInt;
use ripemd::{Digest, Ripemd160};
use sha2::Sha256;

/// Addresses at which `stylus` answers queries of tools for Stylus contracts.
pub(crate) const STYLUS: Address = address!("0000000000000000000000000000000000000071");
pub(crate) const STYLUS_CACHE: Address = address!("0000000000000000000000000000000000000072");

/// Returns whether `stylus` handles calls to the address.
pub(crate) fn is_stylus(address: &Address) -> bool {
    [STYLUS, STYLUS_CACHE].contains(address)
}

/// One of them.
pub(crate) struct Precompile {
    address: u16,
    /// Price in gas; the function must be fast.
    price: fn(&[u8]) -> u64,
    run: fn(&Bytes) -> Result<Bytes, PrecompileError>,
}

/// Sorted by address.
const PRECOMPILES: [Precompile; 10] = [
    Precompile { address: 0x01, price: |_| 8_000, run: |input| Ok(recover(input)) },
    Precompile { address: 0x02, price: |input| price_per_word(input, 60, 12), run: |input| Ok(word(&Sha256::digest(input))) },
    Precompile {
        address: 0x03,
        price: |input| price_per_word(input, 600, 120),
        run: |input| Ok(word(&Ripemd160::digest(input))),
    },
    Precompile { address: 0x04, price: |input| price_per_word(input, 15, 3), run: |input| Ok(input.clone()) },
    Precompile { address: 0x05, price: modexp::price, run: |input| modexp::run(input) },
    Precompile { address: 0x06, price: |_| 750, run: |input| bn254::add(input) },
    Precompile { address: 0x07, price: |_| 24_000, run: |input| bn254::multiply(input) },
    Precompile { address: 0x08, price: bn254::pairing_price, run: |input| bn254::pairing(input) },
    Precompile { address: 0x09, price: blake2::price, run: |input| blake2::run(input) },
    Precompile { address: 0x100, price: |_| 18_000, run: |input| Ok(p256::verify(input)) },
];

/// Returns the precompile at an address.
pub(crate) fn at(address: &Address) -> Option<&'static Precompile> {
    let (zeros, low) = address.split_at(18);
    let low = u16::from_be_bytes([low[0], low[1]]);
    let found = match low {
        0x01..=0x09 => &PRECOMPILES[usize::from(low) - 1],
        0x100 => &PRECOMPILES[9],
        _ => return None,
    };
    zeros.iter().all(|byte| *byte == 0).then_some(found)
}

/// Returns the addresses of all precompiles that only compute, ascending.
pub fn precompiles() -> impl Iterator<Item = Address> {
    PRECOMPILES.iter().map(|precompile| Address::from_word(B256::from(U256::from(precompile.address))))
}

/// Returns whether the node itself handles calls to this address.
pub fn is_precompile(address: &Address) -> bool {
    at(address).is_some() || is_stylus(address)
}

impl Precompile {
    pub fn run(&self, input: &Bytes, gas: u64) -> FrameOutcome {
        let Some(gas_left) = gas.checked_sub((self.price)(input)) else {
            return FrameOutcome::failed(ExecutionStatus::OutOfGas, 0);
        };
        match (self.run)(input) {
            Ok(output) => FrameOutcome { end: ExecutionStatus::Success, output, gas_left },
            Err(error) => FrameOutcome::failed(ExecutionStatus::Precompile(error), 0),
        }
    }
}

fn price_per_word(input: &[u8], base: u64, word: u64) -> u64 {
    base + word * input.len().div_ceil(32) as u64
}

/// Returns N bytes of the input from `start`, padded with zeros.
fn padded<const N: usize>(input: &[u8], start: usize) -> [u8; N] {
    let mut bytes = [0; N];
    let there = input.get(start..).unwrap_or_default();
    let length = there.len().min(N);
    bytes[..length].copy_from_slice(&there[..length]);
    bytes
}

/// Number format of the curves' fields.
fn big_integer(bytes: [u8; 32]) -> BigInt<4> {
    BigInt(U256::from_be_bytes(bytes).into_limbs())
}

/// Pads the bytes on the left to a word.
fn word(bytes: &[u8]) -> Bytes {
    B256::left_padding_from(bytes).0.into()
}

fn bool_word(holds: bool) -> Bytes {
    word(&[u8::from(holds)])
}

/// Input: hash, v (27 or 28), r, s. The output is empty if the signature is invalid.
fn recover(input: &[u8]) -> Bytes {
    let [hash, v, r, s] = [0, 32, 64, 96].map(|start| padded::<32>(input, start));
    let [v, r, s] = [v, r, s].map(U256::from_be_bytes);
    let odd_y = v == U256::from(28);
    if !odd_y && v != U256::from(27) {
        return Bytes::new();
    }
    corniche_crypto::recover(hash.into(), r, s, odd_y).map(|address| word(address.as_slice())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_match_table() {
        let all: Vec<_> = precompiles().collect();
        assert!(all.is_sorted());
        for (address, expected) in all.iter().zip(&PRECOMPILES) {
            assert_eq!(at(address).unwrap().address, expected.address);
        }
        let mut number = 0;
        let found = std::iter::repeat_with(|| {
            number += 1;
            Address::from_word(B256::from(U256::from(number - 1)))
        });
        let computing = |address: &Address| is_precompile(address) && !is_stylus(address);
        assert_eq!(found.take(70_000).filter(computing).collect::<Vec<_>>(), all);
        for bit in 16..160 {
            for address in &all {
                let mut other = *address;
                other[19 - bit / 8] ^= 1 << (bit % 8);
                assert!(!is_precompile(&other), "{other}");
            }
        }
    }
}
