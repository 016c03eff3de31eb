//! Engine messages: ed25519 over a digest that names what is signed, and for whom.

use crate::secret::{self, SecretError};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{B256, Epoch, wire};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

/// Stands in front of everything that is signed, so that no signature means anything in another place.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize)]
pub struct Domain {
    /// What kind of thing this is, for instance `corniche-mahi-mahi-block`.
    pub tag: &'static str,
    /// Which chain it is for.
    pub chain_id: u64,
    /// Which committee of it is meant.
    pub epoch: Epoch,
    /// That committee's keys, as a hash ([`Genesis::committee_hash`](corniche_types::Genesis::committee_hash)).
    pub committee_hash: B256,
}

impl Domain {
    /// blake3 of the encoding of (domain, payload): the 32 bytes that are signed.
    pub fn digest<T: BorshSerialize>(&self, payload: &T) -> B256 {
        crate::digest(&wire::encode(&(self, payload)))
    }
}

/// A payload beside a signature that nobody has checked yet.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Signed<T: BorshSerialize + BorshDeserialize> {
    /// What was signed, if it was.
    pub payload: T,
    /// ed25519 over [`Domain::digest`].
    pub signature: [u8; 64],
}

/// The signature does not fit the payload, the key and the domain.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("signature does not verify")]
pub struct SignatureInvalid;

impl<T: BorshSerialize + BorshDeserialize> Signed<T> {
    /// Signs a payload of our own.
    pub fn sign(payload: T, key: &ConsensusKey, domain: &Domain) -> Self {
        let signature = key.0.sign(domain.digest(&payload).as_slice()).to_bytes();
        Self { payload, signature }
    }

    /// Signs an own payload, which needs no checking.
    pub fn sign_verified(payload: T, key: &ConsensusKey, domain: &Domain) -> Verified<T> {
        Verified(Self::sign(payload, key, domain))
    }

    /// The one place where a signed message becomes a verified one. Strict: every implementation that follows it accepts
    /// the same signatures, and none by keys of small order.
    pub fn verify(self, public: &ConsensusPublicKey, domain: &Domain) -> Result<Verified<T>, SignatureInvalid> {
        let signature = Signature::from_bytes(&self.signature);
        let digest = domain.digest(&self.payload);
        public.0.verify_strict(digest.as_slice(), &signature).map_err(|_| SignatureInvalid)?;
        Ok(Verified(self))
    }
}

/// A payload whose signature was checked under the expected key and domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified<T: BorshSerialize + BorshDeserialize>(Signed<T>);

impl<T: BorshSerialize + BorshDeserialize> Verified<T> {
    /// For sending and storing.
    pub fn signed(&self) -> &Signed<T> {
        &self.0
    }

    /// For sending, when it is not needed any more.
    pub fn into_signed(self) -> Signed<T> {
        self.0
    }

    /// What was signed, without the signature.
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
    /// Every seed is a key.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(SigningKey::from_bytes(&seed))
    }

    /// Reads what [`Self::to_hex`] wrote. Every 32 bytes are a key.
    pub fn from_hex(text: &str) -> Result<Self, SecretError> {
        Ok(Self::from_seed(secret::from_hex(text)?))
    }

    /// The secret itself, for a key file.
    pub fn to_hex(&self) -> String {
        secret::to_hex(self.0.as_bytes())
    }

    /// As the genesis lists it.
    pub fn public(&self) -> B256 {
        B256::new(self.0.verifying_key().to_bytes())
    }

    /// For checking what it signed.
    pub fn public_key(&self) -> ConsensusPublicKey {
        ConsensusPublicKey(self.0.verifying_key())
    }
}

impl std::fmt::Debug for ConsensusKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConsensusKey({})", self.public())
    }
}

/// A validator's public key for engine messages: a point of the curve that is not of small order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsensusPublicKey(VerifyingKey);

impl ConsensusPublicKey {
    /// `None` for what is no point of the curve, and for points of small order.
    pub fn parse(bytes: &B256) -> Option<Self> {
        VerifyingKey::from_bytes(&bytes.0).ok().filter(|key| !key.is_weak()).map(Self)
    }

    /// As the genesis lists it.
    pub fn to_bytes(&self) -> B256 {
        B256::new(self.0.to_bytes())
    }
}
