//! The engine's signatures as traits. The engine itself links no curve of the committee, so it runs with modelled keys.

use crate::message::Statement;
use corniche_types::{B256, ValidatorIndex};

/// An ed25519 signature.
pub type Signature = [u8; 64];

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
