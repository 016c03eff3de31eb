//! Cryptography that certification needs, as traits, so that simulations can use a model. The real
//! implementation is BLS ([`Keys::bls`]).

use corniche_crypto::{
    BLS_SIGNATURE_BYTES, BlsPublicKey, BlsSecretKey, BlsSignature, bls_combine, bls_verify, bls_verify_aggregate,
};
use corniche_engine::Committee;
use corniche_types::{B256, Height, ValidatorIndex};
use std::sync::Arc;

/// Share, or combined shares of a quorum: a compressed BLS12-381 G1 point.
pub type Signature = [u8; BLS_SIGNATURE_BYTES];

/// This validator's signing key for headers. Deterministic: a restarted node signs the same bytes.
pub trait Signer: Send + Sync {
    /// Index of this validator.
    fn index(&self) -> ValidatorIndex;
    /// Signs a header: the bytes of its certificate. `None` if the signer refuses or does not answer: then there is no share.
    fn sign(&self, height: Height, header_hash: B256, message: &[u8]) -> Option<Signature>;
}

/// Public keys of the committee. All validators passed to these functions are in the committee.
pub trait Signatures: Send + Sync {
    /// Verifies a single share.
    fn verify_share(&self, signer: ValidatorIndex, message: &[u8], share: &Signature) -> bool;
    /// Combines shares of distinct validators and verifies the result. `None` if it is invalid: then at least
    /// one share is false.
    fn combine(&self, message: &[u8], shares: &[(ValidatorIndex, Signature)]) -> Option<Signature>;
    /// Like [`Self::combine`] where this node's own share is a quorum: a share that it made itself needs no
    /// verification.
    fn combine_own(&self, message: &[u8], own: (ValidatorIndex, Signature)) -> Option<Signature> {
        self.combine(message, &[own])
    }
    /// Verifies a combination of shares of exactly these validators.
    fn verify(&self, message: &[u8], signers: &[ValidatorIndex], combined: &Signature) -> bool;
}

/// Keys of one node.
#[derive(Clone)]
pub struct Keys {
    pub committee: Arc<dyn Signatures>,
    /// `None` at full nodes.
    pub own: Option<Arc<dyn Signer>>,
}

impl Keys {
    /// The committee's BLS keys, which must have been verified before (`corniche_crypto::verify_genesis`),
    /// and our own key.
    pub fn bls(committee: &Committee, own: Option<(ValidatorIndex, BlsSecretKey)>) -> Self {
        let parse = |bytes: &[u8]| BlsPublicKey::from_bytes(bytes).expect("invariant: the genesis' keys were verified");
        let keys = committee.members().map(|(_, member)| parse(&member.bls_key)).collect();
        let own = own.map(|(index, key)| Self::signer(index, key));
        Self { committee: Arc::new(BlsSignatures { keys }), own }
    }

    /// A member's signing key in this process.
    pub fn signer(index: ValidatorIndex, key: BlsSecretKey) -> Arc<dyn Signer> {
        Arc::new(BlsSigner { index, key })
    }
}

struct BlsSigner {
    index: ValidatorIndex,
    key: BlsSecretKey,
}

impl Signer for BlsSigner {
    fn index(&self) -> ValidatorIndex {
        self.index
    }

    fn sign(&self, _: Height, _: B256, message: &[u8]) -> Option<Signature> {
        Some(self.key.sign(message).to_bytes())
    }
}

struct BlsSignatures {
    /// Indexed by validator.
    keys: Vec<BlsPublicKey>,
}

impl BlsSignatures {
    fn verify_aggregate(&self, message: &[u8], signers: impl Iterator<Item = ValidatorIndex>, sum: &BlsSignature) -> bool {
        let keys: Vec<&BlsPublicKey> = signers.map(|signer| &self.keys[signer.as_usize()]).collect();
        bls_verify_aggregate(&keys, message, sum)
    }
}

impl Signatures for BlsSignatures {
    fn verify_share(&self, signer: ValidatorIndex, message: &[u8], share: &Signature) -> bool {
        BlsSignature::from_bytes(share).is_some_and(|share| bls_verify(&self.keys[signer.as_usize()], message, &share))
    }

    fn combine(&self, message: &[u8], shares: &[(ValidatorIndex, Signature)]) -> Option<Signature> {
        let sum = bls_combine(&shares.iter().map(|(_, share)| *share).collect::<Vec<_>>())?;
        self.verify_aggregate(message, shares.iter().map(|(signer, _)| *signer), &sum).then(|| sum.to_bytes())
    }

    fn combine_own(&self, _: &[u8], (_, share): (ValidatorIndex, Signature)) -> Option<Signature> {
        Some(share)
    }

    fn verify(&self, message: &[u8], signers: &[ValidatorIndex], combined: &Signature) -> bool {
        let sum = BlsSignature::from_bytes(combined);
        sum.is_some_and(|sum| self.verify_aggregate(message, signers.iter().copied(), &sum))
    }
}
