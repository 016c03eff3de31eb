//! Signatures of members under digests, for engines in which every member has one key.
//!
//! An engine has traits of its own, which know what is signed. It implements them for everything that implements the traits of this
//! crate: the keys of production ([`ed25519`]), and the modelled keys of `corniche-testkit`. An engine that needs threshold
//! signatures or a coin does not use this crate.

#[cfg(feature = "real-crypto")]
pub mod ed25519;

use corniche_types::{B256, ValidatorIndex};

/// An ed25519 signature.
pub type Signature = [u8; 64];

/// One member's secret, in this process or in another. Deterministic: a restarted node signs the same bytes.
pub trait DigestSigner: Send + Sync {
    /// Index of this member.
    fn member(&self) -> ValidatorIndex;
    /// `None` if the signer is unavailable.
    fn sign_digest(&self, digest: &B256) -> Option<Signature>;
}

/// The public keys of all members. All members must agree bit for bit on which signatures verify.
pub trait DigestSignatures: Send + Sync {
    fn verify_digest(&self, signer: ValidatorIndex, digest: &B256, signature: &Signature) -> bool;
}
