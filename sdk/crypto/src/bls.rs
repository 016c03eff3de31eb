//! BLS12-381 in the min_sig form: signatures in G1 (48 bytes), keys in G2 (96 bytes), both compressed.
//!
//! The ciphersuites are the draft's proof-of-possession ones, so any BLS library can verify certificates. Aggregation
//! over one message is safe only for keys with a proof of possession ([`verify_possession`], checked at genesis and
//! when a validator joins).

use crate::{
    pairing,
    secret::{self, SecretError},
};
use blst::min_sig::{AggregatePublicKey, AggregateSignature, PublicKey, SecretKey, Signature};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::B256;

/// Bytes of a compressed public key.
pub const BLS_PUBLIC_KEY_BYTES: usize = 96;
/// Bytes of a compressed signature.
pub const BLS_SIGNATURE_BYTES: usize = 48;

const SIGNATURE_SUITE: &[u8] = b"BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_POP_";
const POSSESSION_SUITE: &[u8] = b"BLS_POP_BLS12381G1_XMD:SHA-256_SSWU_RO_POP_";

/// A validator's secret key for signing headers.
#[derive(Clone)]
pub struct BlsSecretKey(SecretKey);

impl BlsSecretKey {
    /// Derives a key from 32 secret bytes (the draft's KeyGen). Deterministic.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(SecretKey::key_gen(&seed, b"").expect("32 bytes are enough key material"))
    }

    /// Parses the output of [`Self::to_hex`]. Refuses other lengths, zero, and numbers not below the group order.
    pub fn from_hex(text: &str) -> Result<Self, SecretError> {
        let bytes: [u8; 32] = secret::from_hex(text)?;
        SecretKey::from_bytes(&bytes).map(Self).map_err(|_| SecretError::OutOfRange)
    }

    /// Returns the secret, 32 bytes big-endian, for a key file.
    pub fn to_hex(&self) -> String {
        secret::to_hex(&self.0.to_bytes())
    }

    /// Returns the public key.
    pub fn public(&self) -> BlsPublicKey {
        BlsPublicKey(self.0.sk_to_pk())
    }

    /// Signs a message. Deterministic.
    pub fn sign(&self, message: &[u8]) -> BlsSignature {
        BlsSignature(self.0.sign(message, SIGNATURE_SUITE, &[]))
    }

    /// Signs the own public key, under a suite that is used for nothing else.
    pub fn prove_possession(&self) -> BlsSignature {
        BlsSignature(self.0.sign(&self.public().to_bytes(), POSSESSION_SUITE, &[]))
    }

    /// Signs the own public key, followed by a digest of what the key is for. The message is longer than that of
    /// [`Self::prove_possession`], so neither proof serves as the other.
    pub fn prove_possession_for(&self, statement: &B256) -> BlsSignature {
        BlsSignature(self.0.sign(&possession_message(&self.public(), statement), POSSESSION_SUITE, &[]))
    }
}

impl std::fmt::Debug for BlsSecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlsSecretKey({:?})", self.public())
    }
}

/// A point of G2's prime-order group, not the identity.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BlsPublicKey(pub(crate) PublicKey);

impl BlsPublicKey {
    /// Decodes 96 compressed bytes and checks the group: about 160 µs.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let key = PublicKey::uncompress(bytes).ok()?;
        key.validate().ok()?;
        Some(Self(key))
    }

    /// Returns the compressed form, as in the genesis.
    pub fn to_bytes(&self) -> [u8; BLS_PUBLIC_KEY_BYTES] {
        self.0.compress()
    }
}

impl std::fmt::Debug for BlsPublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlsPublicKey({})", secret::to_hex(&self.to_bytes()))
    }
}

/// A point of G1's prime-order group, not the identity.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BlsSignature(pub(crate) Signature);

impl BlsSignature {
    /// Decodes 48 compressed bytes and checks the group: about 65 µs.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let signature = Signature::uncompress(bytes).ok()?;
        signature.validate(true).ok()?;
        Some(Self(signature))
    }

    /// Returns the compressed form, as in messages.
    pub fn to_bytes(&self) -> [u8; BLS_SIGNATURE_BYTES] {
        self.0.compress()
    }
}

impl std::fmt::Debug for BlsSignature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlsSignature({})", secret::to_hex(&self.to_bytes()))
    }
}

impl BorshSerialize for BlsSignature {
    fn serialize<W: borsh::io::Write>(&self, writer: &mut W) -> borsh::io::Result<()> {
        writer.write_all(&self.to_bytes())
    }
}

impl BorshDeserialize for BlsSignature {
    fn deserialize_reader<R: borsh::io::Read>(reader: &mut R) -> borsh::io::Result<Self> {
        let bytes = <[u8; BLS_SIGNATURE_BYTES]>::deserialize_reader(reader)?;
        Self::from_bytes(&bytes).ok_or_else(|| borsh::io::Error::new(borsh::io::ErrorKind::InvalidData, "not a BLS signature"))
    }
}

/// Returns the sum of signatures; `None` if there are none, or if the sum is the identity.
pub fn bls_aggregate(signatures: &[BlsSignature]) -> Option<BlsSignature> {
    sum(&signatures.iter().map(|signature| signature.0).collect::<Vec<_>>())
}

/// Returns the sum of compressed signatures. The group is checked only for the sum. If the sum verifies, it is the
/// aggregate of all signers' signatures, even if single parts are invalid. If not, the caller must check the signatures
/// one by one. Returns `None` as [`bls_aggregate`] does, and if a signature is not a point.
pub fn bls_combine(signatures: &[[u8; BLS_SIGNATURE_BYTES]]) -> Option<BlsSignature> {
    let point = |bytes: &[u8; BLS_SIGNATURE_BYTES]| Signature::uncompress(bytes).ok();
    sum(&signatures.iter().map(point).collect::<Option<Vec<_>>>()?)
}

fn sum(points: &[Signature]) -> Option<BlsSignature> {
    let points: Vec<&Signature> = points.iter().collect();
    let sum = AggregateSignature::aggregate(&points, false).ok()?.to_signature();
    sum.validate(true).ok()?;
    Some(BlsSignature(sum))
}

/// Returns whether `signature` is `key`'s signature of the message. Takes about 0.9 ms.
pub fn bls_verify(key: &BlsPublicKey, message: &[u8], signature: &BlsSignature) -> bool {
    verify_under(SIGNATURE_SUITE, key, message, signature)
}

/// Returns whether `signature` is the aggregate of all `keys` over one message. Only for keys with a proof of
/// possession.
pub fn bls_verify_aggregate(keys: &[&BlsPublicKey], message: &[u8], signature: &BlsSignature) -> bool {
    let points: Vec<&PublicKey> = keys.iter().map(|key| &key.0).collect();
    // An empty list is an error. Keys whose sum is the identity verify nothing.
    AggregatePublicKey::aggregate(&points, false)
        .is_ok_and(|sum| pairing::verify(SIGNATURE_SUITE, &sum.to_public_key(), message, &signature.0))
}

/// Returns whether `signature` is the sum of one signature by each key over its message. Takes about 0.5 ms per pair.
/// Only for keys with a proof of possession.
pub fn bls_verify_sum(signed: &[(&BlsPublicKey, &[u8])], signature: &BlsSignature) -> bool {
    let signed: Vec<_> = signed.iter().map(|(key, message)| (&key.0, *message)).collect();
    pairing::verify_sum(SIGNATURE_SUITE, &signed, &signature.0)
}

/// Returns whether `proof` shows that the owner of `key` has its secret.
pub fn verify_possession(key: &BlsPublicKey, proof: &BlsSignature) -> bool {
    verify_under(POSSESSION_SUITE, key, &key.to_bytes(), proof)
}

/// Returns whether `proof` shows that the owner of `key` has its secret, and has signed the statement with it.
pub fn verify_possession_for(key: &BlsPublicKey, statement: &B256, proof: &BlsSignature) -> bool {
    verify_under(POSSESSION_SUITE, key, &possession_message(key, statement), proof)
}

fn possession_message(key: &BlsPublicKey, statement: &B256) -> Vec<u8> {
    [key.to_bytes().as_slice(), statement.as_slice()].concat()
}

/// The types guarantee that both points are in their groups.
pub(crate) fn verify_under(suite: &[u8], key: &BlsPublicKey, message: &[u8], signature: &BlsSignature) -> bool {
    pairing::verify(suite, &key.0, message, &signature.0)
}
