//! The pairing curve of EIP-196 and EIP-197, which its authors call alt_bn128.
//!
//! A coordinate is 32 bytes, big-endian. A point is x and y; zeros encode the point at infinity. Elements of the
//! quadratic extension start with the imaginary part.

use super::{PrecompileError, bool_word, padded};
use alloy_primitives::Bytes;
use ark_bn254::{Bn254, Fq, Fq2, Fr, G1Affine, G1Projective, G2Affine};
use ark_ec::{AffineRepr, CurveGroup, pairing::Pairing};
use ark_ff::{BigInteger, One, PrimeField, Zero};

const PAIR_BYTES: usize = 192;
/// Number of pairs whose precomputed values are in memory at once: 17 KiB each.
const PAIRS_AT_ONCE: usize = 16;

pub fn pairing_price(input: &[u8]) -> u64 {
    110_000 + 75_000 * (input.len() / PAIR_BYTES) as u64
}

pub fn add(input: &[u8]) -> Result<Bytes, PrecompileError> {
    let (left, right) = (point(input, 0)?, point(input, 64)?);
    Ok(encode(left + right))
}

/// The factor is any 32-byte number; it is reduced modulo the order of the group.
pub fn multiply(input: &[u8]) -> Result<Bytes, PrecompileError> {
    let point = point(input, 0)?;
    Ok(encode(point * Fr::from_be_bytes_mod_order(&padded::<32>(input, 64))))
}

/// Validates every point, even if an earlier one is infinity.
pub fn pairing(input: &[u8]) -> Result<Bytes, PrecompileError> {
    let (pairs, rest) = input.as_chunks::<PAIR_BYTES>();
    if !rest.is_empty() {
        return Err(PrecompileError::PairingLength);
    }
    let pairs: Vec<_> = pairs.iter().map(|pair| Ok((point(pair, 0)?, twisted_point(pair, 64)?))).collect::<Result<_, _>>()?;
    let loops = pairs.chunks(PAIRS_AT_ONCE).map(|pairs| {
        let (left, right): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
        Bn254::multi_miller_loop(left, right)
    });
    let mut product = ark_ec::pairing::MillerLoopOutput(ark_bn254::Fq12::one());
    for part in loops {
        product.0 *= part.0;
    }
    Ok(bool_word(Bn254::final_exponentiation(product).is_some_and(|result| result.0.is_one())))
}

fn coordinate(input: &[u8], start: usize) -> Result<Fq, PrecompileError> {
    Fq::from_bigint(super::big_integer(padded(input, start))).ok_or(PrecompileError::Coordinate)
}

fn point(input: &[u8], start: usize) -> Result<G1Affine, PrecompileError> {
    let (x, y) = (coordinate(input, start)?, coordinate(input, start + 32)?);
    if x.is_zero() && y.is_zero() {
        return Ok(G1Affine::zero());
    }
    // The group contains all points of the curve.
    let point = G1Affine::new_unchecked(x, y);
    if point.is_on_curve() { Ok(point) } else { Err(PrecompileError::Point) }
}

fn twisted_point(input: &[u8], start: usize) -> Result<G2Affine, PrecompileError> {
    let part = |index: usize| coordinate(input, start + 32 * index);
    let (x_imaginary, x, y_imaginary, y) = (part(0)?, part(1)?, part(2)?, part(3)?);
    let (x, y) = (Fq2::new(x, x_imaginary), Fq2::new(y, y_imaginary));
    if x.is_zero() && y.is_zero() {
        return Ok(G2Affine::zero());
    }
    let point = G2Affine::new_unchecked(x, y);
    if point.is_on_curve() && point.is_in_correct_subgroup_assuming_on_curve() {
        Ok(point)
    } else {
        Err(PrecompileError::Point)
    }
}

fn encode(point: G1Projective) -> Bytes {
    match point.into_affine().xy() {
        None => [0; 64].into(),
        Some((x, y)) => [x, y].iter().flat_map(|number| number.into_bigint().to_bytes_be()).collect(),
    }
}
