//! The threshold coin: a BLS signature whose secret key is shared among the validators.
//!
//! One dealer, or all validators together ([`crate::settle`]), choose a polynomial of degree threshold − 1 over the scalar field.
//! Its value at 0 is the secret key. Its values at 1, 2 and so on are shares of it: one for each vote of validator 0, then one
//! for each vote of validator 1, and so on. A validator signs the round with its shares. Any `threshold` shares interpolate
//! to the signature of the whole key. BLS signatures are unique, so every
//! subset gives equal bytes. With fewer shares the signature is as unpredictable as any signature of an unknown key.
//!
//! Shares arrive unchecked ([`CoinShare`] is bytes). The cheapest order is [`CoinPublicKeys::combine`], then one
//! [`CoinPublicKeys::verify`]. Only if that fails, check each validator's with [`CoinPublicKeys::verify_shares`].

use crate::{
    bls::{BLS_SIGNATURE_BYTES, BlsPublicKey, BlsSignature, verify_under},
    pairing::{self, Lines},
    scalar::{SCALAR_BITS, Scalar, ShortCoefficients, evaluate, lagrange_at_zero},
    secret::{self, SecretError},
};
use blst::{
    MultiPoint,
    min_sig::{PublicKey, SecretKey, Signature},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{Bytes, Genesis, MAX_VOTES, ValidatorIndex, Votes, Weights};
use std::collections::BTreeMap;

/// The coin has its own suite, so a share can never be a header signature.
const COIN_SUITE: &[u8] = b"CORNICHE_COIN_BLS12381G1_XMD:SHA-256_SSWU_RO_";
/// Bits of a random factor: errors cancel once in 2^128 tries.
const FACTOR_BITS: usize = 128;

/// The dealer's output. The dealer must erase the shares.
#[derive(Debug)]
pub struct CoinDeal {
    /// Public keys for the genesis.
    pub public: CoinPublicKeys,
    /// One per validator, in the committee's order.
    pub shares: Vec<CoinSecretShare>,
}

/// Deals a coin to validators: as many points of its polynomial to each as it has votes. Validators with `threshold` votes
/// together can reveal it. Deterministic in the seed. `threshold` must be 1 to all votes.
pub fn deal_coin(weights: &Weights, threshold: Votes, seed: [u8; 32]) -> CoinDeal {
    let total = weights.total();
    assert!(threshold >= Votes(1) && threshold <= total, "{threshold} of {total} is not a threshold");
    let coefficients: Vec<Scalar> = (0..u64::from(threshold.0)).map(|degree| coefficient(&seed, degree)).collect();
    let secret_at = |x: u32| {
        let bytes = evaluate(&coefficients, x.into()).to_be_bytes();
        SecretKey::from_bytes(&bytes).expect("a uniform scalar is zero once in 2^255 seeds")
    };
    let shares: Vec<CoinSecretShare> = weights
        .indices()
        .map(|index| CoinSecretShare { index, secrets: weights.points(index).map(secret_at).collect() })
        .collect();
    let combined = BlsPublicKey(secret_at(0).sk_to_pk());
    let keys = shares.iter().flat_map(|share| &share.secrets).map(|secret| BlsPublicKey(secret.sk_to_pk())).collect();
    CoinDeal { public: CoinPublicKeys::new(combined, keys, weights.clone()), shares }
}

fn coefficient(seed: &[u8; 32], degree: u64) -> Scalar {
    let mut hasher = blake3::Hasher::new_derive_key("corniche 2026 threshold coin, polynomial coefficient");
    hasher.update(seed).update(&degree.to_le_bytes());
    Scalar::from_stream(&mut hasher.finalize_xof())
}

/// One validator's share of the coin's key: a secret for each of its votes.
#[derive(Clone)]
pub struct CoinSecretShare {
    index: ValidatorIndex,
    secrets: Vec<SecretKey>,
}

impl CoinSecretShare {
    pub(crate) fn new(index: ValidatorIndex, secrets: Vec<SecretKey>) -> Self {
        Self { index, secrets }
    }

    /// Returns the validator's index.
    pub fn index(&self) -> ValidatorIndex {
        self.index
    }

    /// Returns the validator's votes.
    pub fn votes(&self) -> Votes {
        Votes(u32::try_from(self.secrets.len()).expect("a validator has at most 64 votes"))
    }

    /// Returns its shares of the coin for this message, one per vote. Deterministic.
    pub fn sign(&self, message: &[u8]) -> Vec<CoinShare> {
        self.secrets.iter().map(|secret| CoinShare(secret.sign(message, COIN_SUITE, &[]).compress())).collect()
    }

    /// Returns the validator's index (2 bytes, big-endian) and its secrets (32 bytes each).
    pub fn to_hex(&self) -> String {
        let mut bytes = self.index.0.to_be_bytes().to_vec();
        self.secrets.iter().for_each(|secret| bytes.extend(secret.to_bytes()));
        secret::to_hex(&bytes)
    }

    /// Parses the output of [`Self::to_hex`].
    pub fn from_hex(text: &str) -> Result<Self, SecretError> {
        let digits = text.trim().trim_start_matches("0x").len();
        let secrets = digits.saturating_sub(4) / 64;
        let bytes = secret::from_hex_of(text, 2 + 32 * secrets.clamp(1, MAX_VOTES.as_usize()))?;
        let index = ValidatorIndex(u16::from_be_bytes([bytes[0], bytes[1]]));
        let secrets = bytes[2..].chunks(32).map(SecretKey::from_bytes).collect::<Result<_, _>>();
        Ok(Self { index, secrets: secrets.map_err(|_| SecretError::OutOfRange)? })
    }
}

impl std::fmt::Debug for CoinSecretShare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CoinSecretShare({})", self.index)
    }
}

/// A share of the coin in messages: 48 bytes, not verified.
#[derive(Clone, Copy, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct CoinShare(pub [u8; BLS_SIGNATURE_BYTES]);

impl std::fmt::Debug for CoinShare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CoinShare({})", secret::to_hex(&self.0))
    }
}

/// The coin's public keys, as in the genesis.
#[derive(Clone)]
pub struct CoinPublicKeys {
    combined: BlsPublicKey,
    /// Precomputed lines of `combined`, the key that verifies every coin.
    lines: Lines,
    /// One per vote, by point.
    shares: Vec<BlsPublicKey>,
    weights: Weights,
}

impl CoinPublicKeys {
    pub(crate) fn new(combined: BlsPublicKey, shares: Vec<BlsPublicKey>, weights: Weights) -> Self {
        Self { lines: Lines::of(&combined.0), combined, shares, weights }
    }

    /// Returns `None` if a key is invalid. [`crate::verify_genesis`] checks that the keys belong together.
    pub fn from_genesis(genesis: &Genesis) -> Option<Self> {
        Self::from_dealt(&genesis.coin_public_key, &genesis.coin_shares, genesis.weights())
    }

    /// The key of the coin and the keys of the shares, as [`Self::to_genesis`] returns them, of validators with these votes. Returns
    /// `None` if one is invalid. The caller knows that they belong together.
    pub fn from_dealt(combined: &[u8], shares: &[Bytes], weights: Weights) -> Option<Self> {
        let combined = BlsPublicKey::from_bytes(combined)?;
        let keys: Vec<_> = shares.iter().map(|key| BlsPublicKey::from_bytes(key)).collect::<Option<_>>()?;
        Some(Self::new(combined, keys, weights))
    }

    /// Returns [`Genesis::coin_public_key`] and [`Genesis::coin_shares`].
    pub fn to_genesis(&self) -> (Bytes, Vec<Bytes>) {
        let bytes = |key: &BlsPublicKey| Bytes::copy_from_slice(&key.to_bytes());
        (bytes(&self.combined), self.shares.iter().map(bytes).collect())
    }

    /// Returns whether these keys were dealt with this secret share.
    pub fn include(&self, share: &CoinSecretShare) -> bool {
        let probe = b"corniche coin.key check";
        self.verify_shares(share.index(), probe, &share.sign(probe))
    }

    /// Returns whether these are validator `index`'s shares for this message, in order. Takes about 1.1 ms, and 0.15 ms for each
    /// further share.
    ///
    /// All shares sign one message, so one pairing check covers a sum of them. Random factors keep errors of several shares
    /// from cancelling. They are a hash of the shares, so nobody can choose shares for known factors.
    pub fn verify_shares(&self, index: ValidatorIndex, message: &[u8], shares: &[CoinShare]) -> bool {
        let points: Option<Vec<BlsSignature>> = shares.iter().map(|share| BlsSignature::from_bytes(&share.0)).collect();
        let keys: Vec<BlsPublicKey> = self.weights.points(index).filter_map(|point| self.key(point)).copied().collect();
        let Some(points) = points.filter(|points| !points.is_empty() && points.len() == keys.len()) else { return false };
        if let ([key], [share]) = (&keys[..], &points[..]) {
            return verify_under(COIN_SUITE, key, message, share);
        }
        let mut hasher = blake3::Hasher::new_derive_key("corniche 2026 threshold coin, shares of one validator");
        hasher.update(&index.0.to_le_bytes()).update(blake3::hash(message).as_bytes());
        shares.iter().for_each(|share| _ = hasher.update(&share.0));
        let mut factors = vec![0; FACTOR_BITS / 8 * shares.len()];
        hasher.finalize_xof().fill(&mut factors);
        let points: Vec<Signature> = points.into_iter().map(|point| point.0).collect();
        let keys: Vec<_> = keys.into_iter().map(|key| key.0).collect();
        let key = BlsPublicKey(keys.as_slice().mult(&factors, FACTOR_BITS).to_public_key());
        let sum = sum_of(&points, factors.iter().copied(), FACTOR_BITS);
        sum.is_some_and(|sum| verify_under(COIN_SUITE, &key, message, &BlsSignature(sum)))
    }

    fn key(&self, point: u32) -> Option<&BlsPublicKey> {
        self.shares.get(usize::try_from(point.checked_sub(1)?).ok()?)
    }

    /// Interpolates the first `threshold` shares of distinct validators that are points of the curve. The result is
    /// *not* verified; use [`Self::verify`]. Returns `None` if there are too few shares, or if the result is not a
    /// signature.
    pub fn combine(&self, threshold: Votes, shares: &[(ValidatorIndex, Vec<CoinShare>)]) -> Option<BlsSignature> {
        let threshold = threshold.as_usize();
        let mut chosen = BTreeMap::new();
        let numbered = shares.iter().flat_map(|(index, shares)| self.weights.points(*index).zip(shares));
        for (point, share) in numbered {
            if chosen.len() == threshold {
                break;
            }
            // The group is checked only for the result.
            if let Ok(signature) = Signature::uncompress(&share.0) {
                chosen.entry(u64::from(point)).or_insert(signature);
            }
        }
        if chosen.len() < threshold || threshold == 0 {
            return None;
        }
        let positions: Vec<u64> = chosen.keys().copied().collect();
        let points: Vec<Signature> = chosen.into_values().collect();
        let sum = match ShortCoefficients::at_zero(&positions) {
            Some(short) => short_sum(points, &short)?,
            None => sum_of(&points, lagrange_at_zero(&positions).into_iter().flat_map(Scalar::to_le_bytes), SCALAR_BITS)?,
        };
        Some(BlsSignature(sum))
    }

    /// Returns whether `signature` is the coin for this message. Takes about 0.8 ms.
    pub fn verify(&self, message: &[u8], signature: &BlsSignature) -> bool {
        pairing::verify_prepared(COIN_SUITE, &self.lines, message, &signature.0)
    }

    /// Returns whether all keys are on one polynomial of degree exactly `threshold` − 1, with the whole key at 0. Then
    /// any `threshold` valid shares combine to a valid coin, and fewer do not.
    pub(crate) fn is_consistent(&self, threshold: Votes) -> bool {
        let threshold = threshold.as_usize();
        self.degree_is_below(threshold) && !self.degree_is_below(threshold - 1)
    }

    /// Returns whether all keys are on one polynomial of degree below `threshold`.
    fn degree_is_below(&self, threshold: usize) -> bool {
        let mut hasher = blake3::Hasher::new_derive_key("corniche 2026 threshold coin, consistency of public keys");
        let keys: Vec<_> = std::iter::once(self.combined).chain(self.shares.iter().copied()).map(|key| key.0).collect();
        hasher.update(&(threshold as u64).to_le_bytes());
        keys.iter().for_each(|key| {
            hasher.update(&key.compress());
        });
        degree_is_below(&keys, threshold, hasher.finalize_xof())
    }
}

/// Returns whether the keys are the values of one polynomial of degree below `threshold` at 0, 1 and so on. `stream` is a hash of
/// the keys.
///
/// The values of such polynomials at 0..=n form a linear code. A word belongs to it exactly if it is orthogonal to
/// the dual code, whose words are vₓ·g(x) with deg g ≤ n − threshold and vₓ = ∏ 1/(x − y). One random word of the
/// dual code, chosen after the keys (g is a hash of them), detects all other keys, except with the probability of
/// guessing one scalar.
pub(crate) fn degree_is_below(keys: &[PublicKey], threshold: usize, mut stream: blake3::OutputReader) -> bool {
    let Some(n) = keys.len().checked_sub(1).filter(|n| (1..=*n).contains(&threshold)) else { return false };
    let test_polynomial: Vec<_> = (0..=n - threshold).map(|_| Scalar::from_stream(&mut stream)).collect();
    let weight = |x: u64| {
        let others = (0..=n as u64).filter(|&y| y != x);
        let product = others.fold(Scalar::from_u64(1), |product, y| product.mul(Scalar::from_u64(x).sub(Scalar::from_u64(y))));
        evaluate(&test_polynomial, x).mul(product.inverse())
    };
    let scalars: Vec<u8> = (0..=n as u64).flat_map(|x| weight(x).to_le_bytes()).collect();
    let sum = keys.mult(&scalars, SCALAR_BITS).to_public_key();
    // `validate` checks for the identity before anything else.
    sum.validate() == Err(blst::BLST_ERROR::BLST_PK_IS_INFINITY)
}

impl PartialEq for CoinPublicKeys {
    /// The key determines the lines.
    fn eq(&self, other: &Self) -> bool {
        self.combined == other.combined && self.shares == other.shares
    }
}

impl Eq for CoinPublicKeys {}

impl std::fmt::Debug for CoinPublicKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CoinPublicKeys").field("whole", &self.combined).field("shares", &self.shares).finish()
    }
}

/// Returns the sum of points times scalars of `bits` bits each, concatenated little-endian. Returns `None` if the sum
/// is outside of the group, or the identity.
fn sum_of(points: &[Signature], scalars: impl Iterator<Item = u8>, bits: usize) -> Option<Signature> {
    let sum = points.mult(&scalars.collect::<Vec<u8>>(), bits).to_signature();
    sum.validate(true).ok().map(|()| sum)
}

/// Interpolates like [`sum_of`] with full scalars, in a tenth of the time; for most choices of four validators without
/// a division.
fn short_sum(mut points: Vec<Signature>, short: &ShortCoefficients) -> Option<Signature> {
    for (point, _) in points.iter_mut().zip(&short.numerators).filter(|(_, numerator)| **numerator < 0) {
        *point = pairing::negated(point);
    }
    let sizes = short.numerators.iter().map(|numerator| numerator.unsigned_abs());
    let bytes = sizes.clone().max().map_or(1, |largest| (8 - largest.leading_zeros() as usize / 8).max(1));
    let sum = sum_of(&points, sizes.flat_map(|size| size.to_le_bytes().into_iter().take(bytes)), 8 * bytes)?;
    if short.denominator == 1 {
        return Some(sum);
    }
    sum_of(&[sum], Scalar::from_u64(short.denominator).inverse().to_le_bytes().into_iter(), SCALAR_BITS)
}
