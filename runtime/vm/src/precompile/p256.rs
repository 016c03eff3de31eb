//! Signatures over P-256, as phones, browsers and security keys make them (EIP-7951).
//!
//! ```text
//! hash 32 ‖ r 32 ‖ s 32 ‖ x of the key 32 ‖ y of the key 32
//! ```
//!
//! The output is one if the signature is valid, otherwise empty. High and low `s` are both valid. Nothing is secret
//! here, so the running time may depend on the input.

use super::{big_integer, bool_word, padded};
use alloy_primitives::Bytes;
use ark_ec::{AdditiveGroup, AffineRepr, CurveGroup};
use ark_ff::{BigInt, BigInteger, Field, PrimeField, Zero};
use ark_secp256r1::{Affine, Fq, Fr, Projective};

const INPUT_BYTES: usize = 160;
/// Bits of each factor per step.
const WINDOW: usize = 2;

pub fn verify(input: &[u8]) -> Bytes {
    if input.len() == INPUT_BYTES && is_valid(input) == Some(true) { bool_word(true) } else { Bytes::new() }
}

fn is_valid(input: &[u8]) -> Option<bool> {
    let [hash, r, s, x, y] = [0, 32, 64, 96, 128].map(|start| padded::<32>(input, start));
    let hash = Fr::from_be_bytes_mod_order(&hash);
    let (r, s) = (Fr::from_bigint(big_integer(r))?, Fr::from_bigint(big_integer(s))?);
    let (x, y) = (Fq::from_bigint(big_integer(x))?, Fq::from_bigint(big_integer(y))?);
    // The group contains all points of the curve. Zeros mean infinity to the library; anyone can forge a signature for
    // that key.
    let key = Affine::new_unchecked(x, y);
    if r.is_zero() || key.is_zero() || !key.is_on_curve() {
        return Some(false);
    }
    let inverse = s.inverse()?;
    let sum = sum_of_multiples(Affine::generator(), hash * inverse, key, r * inverse).into_affine();
    let x = sum.x()?;
    Some(Fr::from_be_bytes_mod_order(&x.into_bigint().to_bytes_be()) == r)
}

/// Computes a × left + b × right; both factors share the doublings.
fn sum_of_multiples(left: Affine, a: Fr, right: Affine, b: Fr) -> Projective {
    const SMALL: usize = 1 << WINDOW;
    // Entry SMALL × i + j holds i × left + j × right.
    let mut table = [Projective::zero(); SMALL * SMALL];
    for index in 1..table.len() {
        table[index] = if index % SMALL == 0 { table[index - SMALL] + left } else { table[index - 1] + right };
    }
    let table = Projective::normalize_batch(&table);
    let (a, b) = (a.into_bigint(), b.into_bigint());
    let digit = |number: &BigInt<4>, step: usize| {
        let bit = WINDOW * step;
        (number.0[bit / 64] >> (bit % 64)) as usize % SMALL
    };
    let mut sum = Projective::zero();
    for step in (0..256 / WINDOW).rev() {
        for _ in 0..WINDOW {
            sum.double_in_place();
        }
        let index = SMALL * digit(&a, step) + digit(&b, step);
        if index != 0 {
            sum += table[index];
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scalar() -> impl Strategy<Value = Fr> {
        let any = any::<[u8; 32]>().prop_map(|bytes| Fr::from_be_bytes_mod_order(&bytes));
        prop_oneof![any, (0u64..20).prop_map(Fr::from), (0u64..20).prop_map(|small| -Fr::from(small))]
    }

    fn bytes(number: impl PrimeField) -> Vec<u8> {
        number.into_bigint().to_bytes_be()
    }

    /// Returns a signature whose verification leads to the point `end`, for a key without a known secret.
    fn leading_to(end: Projective, a: Fr, b: Fr) -> Option<Vec<u8>> {
        let key = ((end - Affine::generator() * a) * b.inverse()?).into_affine();
        let r = end.into_affine().x().map_or(Fr::from(5), |x| Fr::from_be_bytes_mod_order(&bytes(x)));
        let s = r * b.inverse()?;
        let (x, y) = key.xy()?;
        Some([bytes(a * s), bytes(r), bytes(s), bytes(x), bytes(y)].concat())
    }

    #[test]
    fn r_is_reduced_modulo_order() {
        let order = Fq::from_bigint(Fr::MODULUS).unwrap();
        let points = (0u64..).filter_map(|above| Affine::get_point_from_x_unchecked(order + Fq::from(above), false));
        for end in points.take(5) {
            let signature = leading_to(end.into(), Fr::from(17), Fr::from(4)).unwrap();
            assert_eq!(verify(&signature), bool_word(true));
            // The unreduced coordinate is not below the order.
            let mut other = signature;
            other[32..64].copy_from_slice(&bytes(end.x));
            assert_eq!(verify(&other), Bytes::new());
        }
    }

    #[test]
    fn rejects_point_at_infinity() {
        let signature = leading_to(Projective::zero(), Fr::from(17), Fr::from(4)).unwrap();
        assert_eq!(verify(&signature), Bytes::new());
    }

    #[test]
    fn rejects_key_at_infinity() {
        // Without a key in the sum, any multiple of the generator forms a signature.
        let (hash, s) = (Fr::from(1), Fr::from(1));
        let r = Fr::from_be_bytes_mod_order(&bytes(Affine::generator().x));
        let forged = [bytes(hash), bytes(r), bytes(s), vec![0; 64]].concat();
        assert_eq!(verify(&forged), Bytes::new());
    }

    proptest! {
        #[test]
        fn sum_of_multiples_matches_definition(a in scalar(), b in scalar(), key in scalar()) {
            let (left, right) = (Affine::generator(), (Affine::generator() * key).into_affine());
            prop_assert_eq!(sum_of_multiples(left, a, right, b), left * a + right * b);
        }

        #[test]
        fn only_signed_messages_verify(end in scalar(), a in scalar(), b in scalar(), bit in 0usize..1280) {
            prop_assume!(!end.is_zero() && !a.is_zero() && !b.is_zero());
            let good = leading_to(Affine::generator() * end, a, b);
            prop_assume!(good.is_some());
            let good = good.unwrap();
            prop_assert_eq!(verify(&good), bool_word(true));
            let s = -Fr::from_be_bytes_mod_order(&good[64..96]);
            prop_assert_eq!(verify(&[&good[..64], &bytes(s), &good[96..]].concat()), bool_word(true));
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(verify(&bad), Bytes::new());
            prop_assert_eq!(verify(&good[..159]), Bytes::new());
            prop_assert_eq!(verify(&[&good[..], &[0]].concat()), Bytes::new());
        }
    }
}
