//! The engine's signatures as traits. The engine itself links no curve of the committee, so it runs with modelled keys.

use crate::message::Statement;
pub use corniche_committee_keys::Signature;
use corniche_committee_keys::{DigestSignatures, DigestSigner};
use corniche_types::{B256, ValidatorIndex};

/// This validator's secret, in this process or in another. Deterministic: a restarted node signs the same bytes.
pub trait Signer: Send + Sync {
    /// Index of this validator.
    fn index(&self) -> ValidatorIndex;
    /// Signs the digest of a statement. Without a signature the validator abstains.
    fn sign(&self, statement: &Statement, digest: &B256) -> Option<Signature>;
}

/// The public keys of all validators. All validators must agree bit for bit on which signatures verify.
pub trait Signatures: Send + Sync {
    fn verify(&self, signer: ValidatorIndex, digest: &B256, signature: &Signature) -> bool;
}

impl<T: DigestSigner + ?Sized> Signer for T {
    fn index(&self) -> ValidatorIndex {
        self.member()
    }

    fn sign(&self, _: &Statement, digest: &B256) -> Option<Signature> {
        self.sign_digest(digest)
    }
}

impl<T: DigestSignatures + ?Sized> Signatures for T {
    fn verify(&self, signer: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        self.verify_digest(signer, digest, signature)
    }
}
