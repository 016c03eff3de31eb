//! The online half of ECDSA against `k256`.
#![cfg(verilated)]

mod common;

use common::{Random, ecdsa_s, presignature, verifies};
use corniche_aom_rtl::model::ecdsa_online;
use std::collections::BTreeSet;

/// The time must not depend on a secret.
const CLOCKS: u32 = 515;

#[test]
fn random_signatures_equal_k256_and_verify() {
    let mut high = 0;
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let (z, d) = (random.bytes(), random.scalar());
        let (r, k_inverse) = presignature(&mut random);
        let (s, clocks) = ecdsa_online(seed as i32, &z, &r, &k_inverse, &d);
        assert_eq!(s, ecdsa_s(&z, &r, &k_inverse, &d), "seed {seed}");
        assert!(verifies(&[r, s].concat(), &z, &d), "seed {seed}");
        assert_eq!(clocks, CLOCKS, "seed {seed}");
        high += u32::from(is_negated(&z, &r, &k_inverse, &d, &s));
    }
    assert!((30..120).contains(&high), "both forms of s occur, but {high} of 150 were negated");
}

/// Every combination of smallest and largest values.
#[test]
fn edges_equal_k256() {
    let n = |less: u8| {
        let mut n = hex::decode("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141").unwrap();
        n[31] -= less;
        <[u8; 32]>::try_from(n).unwrap()
    };
    let small = |value: u8| {
        let mut bytes = [0; 32];
        bytes[31] = value;
        bytes
    };
    let mut half = [0xFF; 32];
    half[0] = 0x7F;
    let scalars = [small(1), small(2), half, n(2), n(1)];
    let prehashes = [small(0), small(1), half, n(1), n(0), n(0x40), [0xFF; 32]];
    let mut clocks = BTreeSet::new();
    for z in prehashes {
        for r in scalars {
            for k_inverse in scalars {
                for d in scalars {
                    let (s, taken) = ecdsa_online(1, &z, &r, &k_inverse, &d);
                    assert_eq!(s, ecdsa_s(&z, &r, &k_inverse, &d), "{z:02x?} {r:02x?} {k_inverse:02x?} {d:02x?}");
                    clocks.insert(taken);
                }
            }
        }
    }
    assert_eq!(clocks, BTreeSet::from([CLOCKS]));
}

/// Returns `true` if low s is not the product itself.
fn is_negated(z: &[u8; 32], r: &[u8; 32], k_inverse: &[u8; 32], d: &[u8; 32], s: &[u8; 32]) -> bool {
    use k256::{
        Scalar, U256,
        elliptic_curve::{PrimeField, ops::Reduce},
    };
    let scalar = |bytes: &[u8; 32]| <Scalar as Reduce<U256>>::reduce_bytes(&(*bytes).into());
    let product = scalar(k_inverse) * (scalar(z) + scalar(r) * scalar(d));
    product.to_repr().as_slice() != s
}
