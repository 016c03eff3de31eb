//! Sequencers of independent crates, with which the circuits are compared.
#![allow(dead_code)] // each test uses a part

use k256::{
    ProjectivePoint, Scalar, U256,
    elliptic_curve::{PrimeField, ops::Reduce, point::AffineCoordinates},
};
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use sha2::{Digest, Sha256};
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

pub const HEADER: usize = 160;

/// Numbers from a seed.
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }

    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    pub fn vec(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    pub fn scalar(&mut self) -> [u8; 32] {
        loop {
            let bytes = self.bytes();
            if Scalar::from_repr(bytes.into()).is_some().into() {
                return bytes;
            }
        }
    }
}

/// A request. Fields of the sequencer are random, because a sequencer overwrites them. The digest is random too: a
/// sequencer does not check it.
pub fn request(random: &mut Random, group: u32, payload: usize) -> Vec<u8> {
    let mut datagram = random.vec(HEADER + payload);
    datagram[..4].copy_from_slice(&[0xA0, 0x4D, 1, 0]);
    datagram[4..8].copy_from_slice(&group.to_be_bytes());
    datagram[15] = 0;
    datagram
}

pub fn group(datagram: &[u8]) -> u32 {
    u32::from_be_bytes(datagram[4..8].try_into().unwrap())
}

pub fn seq(datagram: &[u8]) -> u64 {
    u64::from_be_bytes(datagram[16..24].try_into().unwrap())
}

pub fn prev_seq(datagram: &[u8]) -> u64 {
    u64::from_be_bytes(datagram[120..128].try_into().unwrap())
}

pub fn is_signed(datagram: &[u8]) -> bool {
    datagram[56..120] != [0; 64]
}

enum Kind {
    Hm { subgroup: u8, receivers: u8 },
    Pk,
}

/// The 56-byte header of suite 1 or 4.
fn header(kind: Kind, group: u32, epoch: u32, seq: u64, request: &[u8]) -> Vec<u8> {
    let (kind, fields) = match kind {
        Kind::Hm { subgroup, receivers } => (1, [subgroup, receivers, 1, 0]),
        Kind::Pk => (2, [0, 0, 4, 0]),
    };
    let mut out = vec![0xA0, 0x4D, 1, kind];
    out.extend(group.to_be_bytes());
    out.extend(epoch.to_be_bytes());
    out.extend(fields);
    out.extend(seq.to_be_bytes());
    out.extend(&request[24..56]);
    out
}

/// Datagrams that an HM sequencer sends for one request, with the MAC of `siphasher`.
pub fn stamp_hm(group: u32, epoch: u32, keys: &[[u8; 16]], seq: u64, request: &[u8]) -> Vec<Vec<u8>> {
    let stamp = |(subgroup, part): (usize, &[[u8; 16]])| {
        let mut out = header(Kind::Hm { subgroup: subgroup as u8, receivers: keys.len() as u8 }, group, epoch, seq, request);
        let tags: Vec<u8> = part.iter().flat_map(|key| siphash(key, &out)).collect();
        out.extend(tags);
        out.resize(HEADER, 0);
        out.extend(&request[HEADER..]);
        out
    };
    keys.chunks(4).enumerate().map(stamp).collect()
}

fn siphash(key: &[u8; 16], message: &[u8]) -> [u8; 8] {
    let mut hasher = SipHasher24::new_with_key(key);
    hasher.write(message);
    hasher.finish().to_le_bytes()
}

/// The state of a hash chain: predecessor and its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    pub prev_seq: u64,
    pub prev_hash: [u8; 32],
}

impl Chain {
    pub fn genesis(hash: [u8; 32]) -> Self {
        Self { prev_seq: 0, prev_hash: hash }
    }

    /// The datagram for a request, unsigned, and its header hash. Advances the chain. The hash is that of `sha2`.
    pub fn stamp(&mut self, group: u32, epoch: u32, seq: u64, request: &[u8]) -> (Vec<u8>, [u8; 32]) {
        let mut out = header(Kind::Pk, group, epoch, seq, request);
        let link = [&self.prev_seq.to_be_bytes()[..], &self.prev_hash].concat();
        let hash: [u8; 32] = Sha256::new().chain_update(&out).chain_update(&link).finalize().into();
        out.extend([0; 64]);
        out.extend(link);
        out.extend(&request[HEADER..]);
        *self = Self { prev_seq: seq, prev_hash: hash };
        (out, hash)
    }
}

/// A presignature (r, k^-1), from `k256`.
pub fn presignature(random: &mut Random) -> ([u8; 32], [u8; 32]) {
    let k = scalar(&random.scalar());
    let x = (ProjectivePoint::GENERATOR * k).to_affine().x();
    let r = <Scalar as Reduce<U256>>::reduce_bytes(&x);
    (r.to_repr().into(), k.invert().unwrap().to_repr().into())
}

/// s of ECDSA in its low form, from `k256`.
pub fn ecdsa_s(z: &[u8; 32], r: &[u8; 32], k_inverse: &[u8; 32], d: &[u8; 32]) -> [u8; 32] {
    use k256::elliptic_curve::scalar::IsHigh;
    let z = <Scalar as Reduce<U256>>::reduce_bytes(&(*z).into());
    let s = scalar(k_inverse) * (z + scalar(r) * scalar(d));
    if s.is_high().into() { -s } else { s }.to_repr().into()
}

fn scalar(bytes: &[u8; 32]) -> Scalar {
    Scalar::from_repr((*bytes).into()).expect("below n")
}

/// Returns `true` if libsecp256k1 accepts r || s, which includes that s is low.
pub fn verifies(signature: &[u8], hash: &[u8; 32], secret: &[u8; 32]) -> bool {
    use secp256k1::{Message, PublicKey, SecretKey, ecdsa::Signature};
    let signature = Signature::from_compact(signature).expect("r and s are below n");
    let secret = SecretKey::from_secret_bytes(*secret).expect("a valid secret");
    let public = PublicKey::from_secret_key(&secret);
    secp256k1::ecdsa::verify(&signature, Message::from_digest(*hash), &public).is_ok()
}
