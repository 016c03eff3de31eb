//! A coin without a dealer: each validator deals a polynomial, and the coin's key is the sum of the qualified ones
//! (`protocols/validators.md`, section 4).
//!
//! 1. [`CoinKey::deal`]: a validator commits to the values of its polynomial at the target's points, and encrypts to each member the values at
//!    that member's points. Everybody checks a dealing with [`Dealing::verify`].
//! 2. [`CoinKey::receives`]: a member decrypts its values and acknowledges the dealing if they match the commitments.
//! 3. [`CoinKey::open`]: the dealer shows the values of members that have not acknowledged. Nobody complains: silence, a wrong
//!    ciphertext and a lying member look the same. An opening of more than F votes would show too much, so there is none.
//! 4. [`settle`]: a dealer is qualified if all members acknowledged its dealing or were shown their values. If the qualified dealers
//!    have a quorum of votes, at least one more than may be faulty is honest, and nobody knows the sum of the polynomials.
//!
//! Everything is deterministic in the seeds: a validator that deals again makes the same bytes, and needs only its seed and the public
//! messages to know its share.
//!
//! Secrecy rests on the gap and co-Diffie-Hellman assumptions, with the hash as a random oracle, against members that are
//! corrupt from the start. A dealer that speaks last may choose among several keys by not opening. The coin stays unforgeable, because it
//! is a hash of a unique signature, but its public key is not uniform.

use crate::{
    bls::{BLS_SIGNATURE_BYTES, BlsPublicKey},
    coin::{CoinPublicKeys, CoinSecretShare, degree_is_below},
    coin_key::{CoinKey, parse_coin_key, public_key},
    scalar::{SCALAR_BITS, Scalar, evaluate},
};
use blst::{MultiPoint, blst_p1_affine, min_pk, min_sig};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{B256, Epoch, ValidatorIndex, Votes, Weights, wire};
use std::collections::{BTreeMap, BTreeSet};
use zeroize::Zeroizing;

const COMMITMENT_BYTES: usize = 96;
const VALUE_BYTES: usize = 32;

/// The members that will hold the coin, and what the coin is for. Dealings for another target are worth nothing.
#[derive(Clone)]
pub struct CoinTarget {
    chain_id: u64,
    generation: Epoch,
    members_hash: B256,
    weights: Weights,
    keys: Vec<min_pk::PublicKey>,
}

impl CoinTarget {
    /// The members with these votes and [coin keys](CoinKey::public). `generation` is the number of the epoch that the coin is for, and
    /// `members_hash` commits to the members. Returns `None` if a key is invalid, if there is not one per member, or without members.
    pub fn new<'a>(
        chain_id: u64,
        generation: Epoch,
        members_hash: B256,
        weights: Weights,
        coin_keys: impl IntoIterator<Item = &'a [u8]>,
    ) -> Option<Self> {
        let keys: Vec<_> = coin_keys.into_iter().map(parse_coin_key).collect::<Option<_>>()?;
        let fits = keys.len() == weights.members() && weights.total() > Votes(0);
        fits.then_some(Self { chain_id, generation, members_hash, weights, keys })
    }

    /// Votes of the members. A member holds one point for each.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// All members.
    pub fn members(&self) -> impl Iterator<Item = ValidatorIndex> {
        self.weights.indices()
    }

    /// Purpose of a dealing, hashed into everything that its dealer derives.
    fn context(&self, dealer: ValidatorIndex) -> Vec<u8> {
        wire::encode(&("corniche-coin-dealing", self.chain_id, self.generation, self.members_hash, dealer))
    }

    fn points(&self) -> std::ops::RangeInclusive<u32> {
        0..=self.weights.total().0
    }
}

/// A validator's contribution to a coin.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Dealing {
    /// f(x)·g₂ for each point x from 0 on, compressed.
    pub commitments: Vec<[u8; COMMITMENT_BYTES]>,
    /// ρ·g₁, the ephemeral key of the ciphertexts, compressed.
    pub ephemeral: [u8; BLS_SIGNATURE_BYTES],
    /// f(x), encrypted to the owner of x, for each point x from 1 on.
    pub ciphertexts: Vec<[u8; VALUE_BYTES]>,
}

impl Dealing {
    /// Checks what everybody can check: lengths, groups, and that all values are on one polynomial of degree below the target's quorum.
    /// Returns `None` if something is wrong. Takes about 0.2 ms per vote.
    pub fn verify(self, target: &CoinTarget, dealer: ValidatorIndex) -> Option<VerifiedDealing> {
        let points = target.weights.total().as_usize();
        if self.commitments.len() != points + 1 || self.ciphertexts.len() != points {
            return None;
        }
        min_pk::PublicKey::key_validate(&self.ephemeral).ok()?;
        let commitment = |bytes: &[u8; COMMITMENT_BYTES]| min_sig::PublicKey::key_validate(bytes).ok();
        let commitments: Vec<_> = self.commitments.iter().map(commitment).collect::<Option<_>>()?;
        let mut hasher = blake3::Hasher::new_derive_key("corniche 2026 coin dealing, degree");
        hasher.update(&target.context(dealer));
        self.commitments.iter().for_each(|bytes| _ = hasher.update(bytes));
        let is_below = degree_is_below(&commitments, target.weights.quorum().as_usize(), hasher.finalize_xof());
        is_below.then_some(VerifiedDealing { dealer, dealing: self })
    }
}

/// A [`Dealing`] that passed [`Dealing::verify`].
#[derive(Clone)]
pub struct VerifiedDealing {
    dealer: ValidatorIndex,
    dealing: Dealing,
}

impl VerifiedDealing {
    /// Takes a dealing that passed [`Dealing::verify`] before it was stored, without another check.
    pub fn from_storage(dealer: ValidatorIndex, dealing: Dealing) -> Self {
        Self { dealer, dealing }
    }

    /// Commitment at a point; `None` if the point is no point of the dealing.
    fn commitment(&self, x: u32) -> Option<min_sig::PublicKey> {
        min_sig::PublicKey::uncompress(self.dealing.commitments.get(x as usize)?).ok()
    }

    /// The validator that made it.
    pub fn dealer(&self) -> ValidatorIndex {
        self.dealer
    }

    /// The dealing as sent.
    pub fn dealing(&self) -> &Dealing {
        &self.dealing
    }

    /// Hash of the dealing, for acknowledgements: a dealer may send several.
    pub fn digest(&self) -> B256 {
        crate::digest(&wire::encode(&self.dealing))
    }

    /// Returns whether each value of this opening is a value of this polynomial at one of the members' points. An empty opening is refused.
    pub fn admits(&self, opening: &CoinOpening) -> bool {
        let commitment = |x: &u32| self.commitment(*x).filter(|_| *x > 0);
        let keys: Option<Vec<_>> = opening.values.keys().map(commitment).collect();
        let values: Option<Vec<_>> = opening.values.values().map(Scalar::from_be_bytes).collect();
        let (Some(keys), Some(values)) = (keys.filter(|keys| !keys.is_empty()), values) else { return false };
        // One random combination of all equations. The factors are a hash of the values, so nobody can choose values for known factors.
        let mut hasher = blake3::Hasher::new_derive_key("corniche 2026 coin dealing, opening");
        let mut stream = hasher.update(&wire::encode(&(&self.dealing, opening))).finalize_xof();
        let factors: Vec<_> = keys.iter().map(|_| Scalar::from_stream(&mut stream)).collect();
        let sum = factors.iter().zip(values).fold(Scalar::from_u64(0), |sum, (factor, value)| sum.add(factor.mul(value)));
        let bytes: Vec<u8> = factors.into_iter().flat_map(Scalar::to_le_bytes).collect();
        let expected = keys.as_slice().mult(&bytes, SCALAR_BITS).to_public_key();
        secret_key(sum).is_some_and(|key| key.sk_to_pk() == expected)
    }
}

/// Values of a dealing, in clear, by their points.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct CoinOpening {
    /// Values, 32 bytes big-endian.
    pub values: BTreeMap<u32, [u8; VALUE_BYTES]>,
}

/// A coin that validators dealt together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DealtCoin {
    /// The coin's public keys.
    pub keys: CoinPublicKeys,
    /// Dealers whose polynomials are in it.
    pub qualified: BTreeSet<ValidatorIndex>,
    /// Members whose shares are as good as public, because honest dealers had to show their values. They count like faulty ones.
    pub exposed: BTreeSet<ValidatorIndex>,
}

/// Messages about the dealings for a target, by dealer.
#[derive(Clone, Default)]
pub struct Dealings {
    /// Verified dealings.
    pub dealt: BTreeMap<ValidatorIndex, VerifiedDealing>,
    /// Members that acknowledged the dealing.
    pub acknowledged: BTreeMap<ValidatorIndex, BTreeSet<ValidatorIndex>>,
    /// Openings that the dealing [admits](VerifiedDealing::admits).
    pub opened: BTreeMap<ValidatorIndex, CoinOpening>,
}

impl Dealings {
    /// Members that have not acknowledged a dealing.
    pub fn missing<'a>(&'a self, target: &'a CoinTarget, dealer: ValidatorIndex) -> impl Iterator<Item = ValidatorIndex> + 'a {
        let acknowledged = self.acknowledged.get(&dealer);
        target.members().filter(move |member| acknowledged.is_none_or(|members| !members.contains(member)))
    }

    fn has_opened(&self, dealer: ValidatorIndex, x: u32) -> bool {
        self.opened.get(&dealer).is_some_and(|opened| opened.values.contains_key(&x))
    }

    /// A dealer is qualified if at most F votes have not acknowledged, and all of these were shown their values.
    fn is_qualified(&self, target: &CoinTarget, dealer: ValidatorIndex) -> bool {
        let missing = || self.missing(target, dealer);
        self.dealt.contains_key(&dealer)
            && target.weights.weigh(missing()) <= target.weights.max_faulty()
            && missing().flat_map(|member| target.weights.points(member)).all(|x| self.has_opened(dealer, x))
    }

    /// The sum of some dealers' polynomials. Returns `None` if a dealing is missing or the sum is zero somewhere.
    pub fn sum<'a>(
        &self,
        target: &CoinTarget,
        dealers: impl IntoIterator<Item = &'a ValidatorIndex>,
    ) -> Option<CoinPublicKeys> {
        let dealt: Vec<_> = dealers.into_iter().map(|dealer| self.dealt.get(dealer)).collect::<Option<_>>()?;
        let sum = |x: u32| {
            let commitments: Vec<_> = dealt.iter().map(|dealt| dealt.commitment(x)).collect::<Option<_>>()?;
            let key = Some(commitments).filter(|commitments| !commitments.is_empty())?.as_slice().add().to_public_key();
            key.validate().ok().map(|()| BlsPublicKey(key))
        };
        let shares = target.points().skip(1).map(sum).collect::<Option<_>>()?;
        Some(CoinPublicKeys::new(sum(0)?, shares, target.weights.clone()))
    }
}

/// Returns the coin, if the qualified dealers have a quorum of `dealers`, the votes of those that may deal.
pub fn settle(target: &CoinTarget, dealers: &Weights, dealings: &Dealings) -> Option<DealtCoin> {
    let qualified: BTreeSet<ValidatorIndex> =
        dealings.dealt.keys().copied().filter(|dealer| dealings.is_qualified(target, *dealer)).collect();
    let votes = dealers.weigh(qualified.iter().copied());
    if votes < dealers.quorum() {
        return None;
    }
    let showed = |member: ValidatorIndex| {
        let has_shown = |dealer: &ValidatorIndex| target.weights.points(member).any(|x| dealings.has_opened(*dealer, x));
        dealers.weigh(qualified.iter().copied().filter(has_shown))
    };
    // The dealers that showed nothing may all be faulty, and know the rest of the share.
    let exposed = target.members().filter(|member| showed(*member) >= dealers.overlap(votes)).collect();
    Some(DealtCoin { keys: dealings.sum(target, &qualified)?, qualified, exposed })
}

impl CoinKey {
    /// Deals to a target as its dealer number `dealer`.
    pub fn deal(&self, target: &CoinTarget, dealer: ValidatorIndex) -> Dealing {
        let context = target.context(dealer);
        self.deal_with(target, &context, &self.polynomial(target, &context))
    }

    fn deal_with(&self, target: &CoinTarget, context: &[u8], polynomial: &[Scalar]) -> Dealing {
        let values: Vec<_> = target.points().map(|x| evaluate(polynomial, x.into())).collect();
        let key = |value: &Scalar| secret_key(*value).expect("a uniform scalar is zero once in 2^255 seeds");
        let commitments: Vec<_> = values.iter().map(|value| key(value).sk_to_pk().compress()).collect();
        let exponent = self.derive(context, "corniche 2026 coin dealing, ephemeral key", 0);
        let ephemeral = public_key(exponent).compress();
        let hasher = pad_hasher(context, &commitments, &ephemeral);
        let mut ciphertexts = Vec::with_capacity(target.weights.total().as_usize());
        for (member, key) in target.members().zip(&target.keys) {
            let pads = pads(hasher.clone(), member, key, &exponent.times(key.into()));
            ciphertexts.extend(target.weights.points(member).zip(pads).map(|(x, pad)| {
                let value = Zeroizing::new(values[x as usize].to_be_bytes());
                std::array::from_fn(|byte| value[byte] ^ pad[byte])
            }));
        }
        Dealing { commitments, ephemeral, ciphertexts }
    }

    /// Returns whether the values of a member with this key are right. If not, do not acknowledge the dealing.
    pub fn receives(&self, target: &CoinTarget, member: ValidatorIndex, dealt: &VerifiedDealing) -> bool {
        self.decrypt(target, member, dealt).is_some()
    }

    /// The values of a member with this key, in the order of its points. Returns `None` if one is wrong.
    fn decrypt(&self, target: &CoinTarget, member: ValidatorIndex, dealt: &VerifiedDealing) -> Option<Vec<Scalar>> {
        let key = target.keys.get(member.as_usize()).filter(|key| key.compress() == self.public())?;
        let VerifiedDealing { dealer, dealing } = dealt;
        let ephemeral = min_pk::PublicKey::uncompress(&dealing.ephemeral).ok()?;
        let shared = self.scalar().times((&ephemeral).into());
        let hasher = pad_hasher(&target.context(*dealer), &dealing.commitments, &dealing.ephemeral);
        let pads = pads(hasher, member, key, &shared);
        let value = |(x, pad): (u32, Zeroizing<[u8; VALUE_BYTES]>)| {
            let (encrypted, commitment) = (dealing.ciphertexts.get(x as usize - 1)?, dealing.commitments.get(x as usize)?);
            let value = Scalar::from_be_bytes(&std::array::from_fn(|byte| encrypted[byte] ^ pad[byte]))?;
            (secret_key(value)?.sk_to_pk().compress() == *commitment).then_some(value)
        };
        target.weights.points(member).zip(pads).map(value).collect()
    }

    /// Shows the values of members that have not acknowledged this validator's dealing. Returns `None` if they have more than F votes:
    /// together with faulty members, everybody would know the polynomial.
    pub fn open(
        &self,
        target: &CoinTarget,
        dealer: ValidatorIndex,
        members: impl IntoIterator<Item = ValidatorIndex>,
    ) -> Option<CoinOpening> {
        let members: BTreeSet<_> = members.into_iter().collect();
        if target.weights.weigh(members.iter().copied()) > target.weights.max_faulty() {
            return None;
        }
        let polynomial = self.polynomial(target, &target.context(dealer));
        let points = members.into_iter().flat_map(|member| target.weights.points(member));
        Some(CoinOpening { values: points.map(|x| (x, evaluate(&polynomial, x.into()).to_be_bytes())).collect() })
    }

    /// A member's share of the coin that these dealers made. Returns `None` if a value is unknown or does not match the coin: the member
    /// then has no share, which can only be if it has another key or acknowledged a dealing without checking it.
    pub fn share(
        &self,
        target: &CoinTarget,
        member: ValidatorIndex,
        keys: &CoinPublicKeys,
        qualified: &BTreeSet<ValidatorIndex>,
        dealings: &Dealings,
    ) -> Option<CoinSecretShare> {
        let mut sums = vec![Scalar::from_u64(0); target.weights.of(member).as_usize()];
        for dealer in qualified {
            let values = match self.decrypt(target, member, dealings.dealt.get(dealer)?) {
                Some(values) => values,
                None => {
                    let shown = &dealings.opened.get(dealer)?.values;
                    let value = |x: u32| Scalar::from_be_bytes(shown.get(&x)?);
                    target.weights.points(member).map(value).collect::<Option<_>>()?
                }
            };
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.add(value));
        }
        let share = CoinSecretShare::new(member, sums.into_iter().map(secret_key).collect::<Option<_>>()?);
        keys.include(&share).then_some(share)
    }

    fn polynomial(&self, target: &CoinTarget, context: &[u8]) -> Vec<Scalar> {
        let degrees = 0..u64::from(target.weights.quorum().0);
        degrees.map(|degree| self.derive(context, "corniche 2026 coin dealing, coefficient", degree)).collect()
    }

    fn derive(&self, context: &[u8], purpose: &'static str, number: u64) -> Scalar {
        let mut hasher = blake3::Hasher::new_derive_key(purpose);
        hasher.update(self.seed()).update(context).update(&number.to_le_bytes());
        Scalar::from_stream(&mut hasher.finalize_xof())
    }
}

fn secret_key(scalar: Scalar) -> Option<min_sig::SecretKey> {
    min_sig::SecretKey::from_bytes(&scalar.to_be_bytes()).ok()
}

/// The part of a pad's hash that is the same for all members.
fn pad_hasher(context: &[u8], commitments: &[[u8; COMMITMENT_BYTES]], ephemeral: &[u8; BLS_SIGNATURE_BYTES]) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new_derive_key("corniche 2026 coin share");
    hasher.update(context);
    commitments.iter().for_each(|commitment| _ = hasher.update(commitment));
    hasher.update(ephemeral);
    hasher
}

/// Pads for the values of one member, in the order of its points. Two members may list the same key, and need different pads: else an
/// opening for one would show the values of the other.
fn pads(
    mut hasher: blake3::Hasher,
    member: ValidatorIndex,
    key: &min_pk::PublicKey,
    shared: &blst_p1_affine,
) -> impl Iterator<Item = Zeroizing<[u8; VALUE_BYTES]>> + use<> {
    hasher.update(&member.0.to_le_bytes()).update(&key.compress()).update(&min_pk::PublicKey::from(*shared).compress());
    let mut stream = hasher.finalize_xof();
    std::iter::repeat_with(move || {
        let mut pad = Zeroizing::new([0; VALUE_BYTES]);
        stream.fill(&mut *pad);
        pad
    })
}

#[cfg(test)]
mod tests;
