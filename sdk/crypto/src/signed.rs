//! Engine messages: ed25519 signatures of a digest that includes a domain.

use crate::secret::{self, SecretError};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{B256, Epoch, wire};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

/// Prefix of everything that is signed, so that a signature is valid in one context only.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize)]
pub struct Domain {
    /// Kind of the message, for instance `corniche-mahi-mahi-block`.
    pub tag: &'static str,
    /// Chain id.
    pub chain_id: u64,
    /// Epoch of the committee.
    pub epoch: Epoch,
    /// Hash of the committee's keys ([`Genesis::committee_hash`](corniche_types::Genesis::committee_hash)).
    pub committee_hash: B256,
}

impl Domain {
    /// Returns the 32 bytes that are signed: blake3 of the encoding of (domain, payload).
    pub fn digest<T: BorshSerialize>(&self, payload: &T) -> B256 {
        crate::digest(&wire::encode(&(self, payload)))
    }
}

/// A payload with a signature that is not verified.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Signed<T: BorshSerialize + BorshDeserialize> {
    /// The payload.
    pub payload: T,
    /// ed25519 over [`Domain::digest`].
    pub signature: [u8; 64],
}

/// The signature does not match the payload, the key and the domain.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("signature does not verify")]
pub struct SignatureInvalid;

impl<T: BorshSerialize + BorshDeserialize> Signed<T> {
    /// Signs a payload.
    pub fn sign(payload: T, key: &ConsensusKey, domain: &Domain) -> Self {
        let signature = key.sign(&payload, domain);
        Self { payload, signature }
    }

    /// Verifies the signature; no other function creates a verified message from a signed one. Verification is strict:
    /// all conforming implementations accept the same signatures, and none by keys of small order.
    pub fn verify(self, public: &ConsensusPublicKey, domain: &Domain) -> Result<Verified<T>, SignatureInvalid> {
        let signature = Signature::from_bytes(&self.signature);
        let digest = domain.digest(&self.payload);
        public.0.verify_strict(digest.as_slice(), &signature).map_err(|_| SignatureInvalid)?;
        Ok(Verified(self))
    }
}

/// A payload whose signature was verified with the expected key and domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified<T: BorshSerialize + BorshDeserialize>(Signed<T>);

impl<T: BorshSerialize + BorshDeserialize> Verified<T> {
    /// Returns the signed message, for sending and storing.
    pub fn signed(&self) -> &Signed<T> {
        &self.0
    }

    /// Converts into the signed message.
    pub fn into_signed(self) -> Signed<T> {
        self.0
    }

    /// Returns the payload without the signature.
    pub fn into_payload(self) -> T {
        self.0.payload
    }
}

impl<T: BorshSerialize + BorshDeserialize> std::ops::Deref for Verified<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.payload
    }
}

/// A validator's secret key for engine messages.
#[derive(Clone)]
pub struct ConsensusKey(SigningKey);

impl ConsensusKey {
    /// Signs a payload under a domain: the signature of a [`Signed`].
    pub fn sign<T: BorshSerialize>(&self, payload: &T, domain: &Domain) -> [u8; 64] {
        self.0.sign(domain.digest(payload).as_slice()).to_bytes()
    }

    /// Creates a key from a seed; every seed is valid.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(SigningKey::from_bytes(&seed))
    }

    /// Parses the output of [`Self::to_hex`]. All 32-byte values are valid.
    pub fn from_hex(text: &str) -> Result<Self, SecretError> {
        Ok(Self::from_seed(secret::from_hex(text)?))
    }

    /// Returns the secret, for a key file.
    pub fn to_hex(&self) -> String {
        secret::to_hex(self.0.as_bytes())
    }

    /// Returns the public key, as in the genesis.
    pub fn public(&self) -> B256 {
        B256::new(self.0.verifying_key().to_bytes())
    }

    /// Returns the public key, for verification.
    pub fn public_key(&self) -> ConsensusPublicKey {
        ConsensusPublicKey(self.0.verifying_key())
    }
}

impl std::fmt::Debug for ConsensusKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConsensusKey({})", self.public())
    }
}

/// A validator's public key for engine messages: a point of the curve without small order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsensusPublicKey(VerifyingKey);

impl ConsensusPublicKey {
    /// Returns `None` for an invalid point, and for points of small order.
    pub fn parse(bytes: &B256) -> Option<Self> {
        VerifyingKey::from_bytes(&bytes.0).ok().filter(|key| !key.is_weak()).map(Self)
    }

    /// Returns the bytes, as in the genesis.
    pub fn to_bytes(&self) -> B256 {
        B256::new(self.0.to_bytes())
    }
}
