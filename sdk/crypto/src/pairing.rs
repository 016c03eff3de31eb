//! The equation behind every BLS signature: e(H(message), key) = e(signature, generator).
//!
//! blst treats all points as unknown. Here the Miller loop's part for constant points of G2, the [`Lines`], is computed
//! once: for the generator, and for a key that is used often. The equation does not change, and tests compare the
//! results with blst's.

// Every call passes references to initialised fixed-size values that outlive it. Lengths are those of the slices passed
// with them.
#![allow(unsafe_code)]

use blst::{
    blst_fp_cneg, blst_fp6, blst_fp12, blst_fp12_finalverify, blst_hash_to_g1, blst_miller_loop, blst_miller_loop_lines,
    blst_p1, blst_p1_affine, blst_p1_to_affine, blst_p2_affine, blst_p2_affine_generator, blst_p2_affine_is_inf,
    blst_precompute_lines,
    min_sig::{PublicKey, Signature},
};
use std::sync::{Arc, OnceLock};

/// Steps of the Miller loop of BLS12-381; blst stores one line per step.
const LINES: usize = 68;

/// Precomputed Miller loop lines of a point of G2: 19 KiB, and a quarter of the loop's work.
#[derive(Clone)]
pub(crate) struct Lines(Arc<[blst_fp6; LINES]>);

impl Lines {
    pub(crate) fn of(key: &PublicKey) -> Self {
        Self::of_point(key.into())
    }

    fn of_point(point: &blst_p2_affine) -> Self {
        let mut lines = [blst_fp6::default(); LINES];
        // SAFETY: writes as many lines as the array has.
        unsafe { blst_precompute_lines(lines.as_mut_ptr(), point) };
        Self(Arc::new(lines))
    }

    fn of_generator() -> &'static Self {
        static GENERATOR: OnceLock<Lines> = OnceLock::new();
        // SAFETY: a constant of the library.
        GENERATOR.get_or_init(|| Self::of_point(unsafe { &*blst_p2_affine_generator() }))
    }

    fn miller_loop(&self, point: &blst_p1_affine) -> blst_fp12 {
        let mut out = blst_fp12::default();
        // SAFETY: reads as many lines as the array has.
        unsafe { blst_miller_loop_lines(&mut out, self.0.as_ptr(), point) };
        out
    }
}

/// Returns whether `signature` is `key`'s signature of the message under this suite. The identity as a key verifies
/// nothing. Both points must be in their groups, and the signature must not be the identity.
pub(crate) fn verify(suite: &[u8], key: &PublicKey, message: &[u8], signature: &Signature) -> bool {
    paired(suite, key, message).is_some_and(|signed| is_signed(&signed, signature))
}

/// Returns whether `signature` is the sum of one signature by each key of its message. An empty list verifies nothing.
pub(crate) fn verify_sum(suite: &[u8], signed: &[(&PublicKey, &[u8])], signature: &Signature) -> bool {
    let paired: Option<Vec<_>> = signed.iter().map(|(key, message)| paired(suite, key, message)).collect();
    let product = paired.and_then(|paired| paired.into_iter().reduce(|one, other| one * other));
    product.is_some_and(|product| is_signed(&product, signature))
}

/// Returns `None` if the key is the identity.
fn paired(suite: &[u8], key: &PublicKey, message: &[u8]) -> Option<blst_fp12> {
    let key: &blst_p2_affine = key.into();
    // SAFETY: one point.
    if unsafe { blst_p2_affine_is_inf(key) } {
        return None;
    }
    let mut signed = blst_fp12::default();
    // SAFETY: one value out, a point of each group in.
    unsafe { blst_miller_loop(&mut signed, key, &hash(suite, message)) };
    Some(signed)
}

/// Like [`verify`], for a key with precomputed lines. The key must not be the identity.
pub(crate) fn verify_prepared(suite: &[u8], key: &Lines, message: &[u8], signature: &Signature) -> bool {
    is_signed(&key.miller_loop(&hash(suite, message)), signature)
}

/// Returns the inverse of the point.
pub(crate) fn negated(point: &Signature) -> Signature {
    let mut negated: blst_p1_affine = *<&blst_p1_affine>::from(point);
    let y = negated.y;
    // SAFETY: two field elements.
    unsafe { blst_fp_cneg(&mut negated.y, &y, true) };
    negated.into()
}

fn is_signed(signed: &blst_fp12, signature: &Signature) -> bool {
    let shown = Lines::of_generator().miller_loop(signature.into());
    // SAFETY: two values in.
    unsafe { blst_fp12_finalverify(signed, &shown) }
}

fn hash(suite: &[u8], message: &[u8]) -> blst_p1_affine {
    let (mut point, mut affine) = (blst_p1::default(), blst_p1_affine::default());
    // SAFETY: each pointer with the length of its slice; no augmentation, whose length is zero.
    unsafe {
        blst_hash_to_g1(&mut point, message.as_ptr(), message.len(), suite.as_ptr(), suite.len(), std::ptr::null(), 0);
        blst_p1_to_affine(&mut affine, &point);
    }
    affine
}

#[cfg(test)]
mod tests {
    use super::*;
    use blst::{BLST_ERROR, min_sig::SecretKey};

    const SUITE: &[u8] = b"A_SUITE_OF_TESTS_BLS12381G1_XMD:SHA-256_SSWU_RO_";

    fn key(seed: u8) -> SecretKey {
        SecretKey::key_gen(&[seed; 32], b"").unwrap()
    }

    #[test]
    fn results_match_blst() {
        let messages: [&[u8]; 3] = [b"", b"header", &[7; 300]];
        let suites = [SUITE, b"ANOTHER_SUITE_BLS12381G1_XMD:SHA-256_SSWU_RO_"];
        let mut valid = 0;
        for (signer, signed, under) in (0..2).flat_map(|a| (0..3).flat_map(move |b| (0..2).map(move |c| (a, b, c)))) {
            let signature = key(signer).sign(messages[signed], suites[under], &[]);
            for (owner, message, suite) in (0..2).flat_map(|a| (0..3).flat_map(move |b| (0..2).map(move |c| (a, b, c)))) {
                let public = key(owner).sk_to_pk();
                let (message, suite) = (messages[message], suites[suite]);
                let expected = signature.verify(true, message, suite, &[], &public, true) == BLST_ERROR::BLST_SUCCESS;
                assert_eq!(verify(suite, &public, message, &signature), expected);
                assert_eq!(verify_prepared(suite, &Lines::of(&public), message, &signature), expected);
                valid += usize::from(expected);
            }
        }
        assert_eq!(valid, 12, "each signature is valid once");
    }

    #[test]
    fn identity_key_verifies_nothing() {
        let identity = blst_p2_affine::default().into();
        let signature = key(1).sign(b"header", SUITE, &[]);
        assert!(!verify(SUITE, &identity, b"header", &signature));
        // Not even for the signature that anyone can compute: e(H, 0) = e(0, g).
        assert!(!verify(SUITE, &identity, b"header", &blst_p1_affine::default().into()));
    }
}
