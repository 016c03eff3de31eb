//! What the engine needs from cryptography, as traits: the engine itself links no curve, so it builds for wasm32 and runs under
//! modelled cryptography. The real ones are in `real` (feature `real-crypto`).
//!
//! Two kinds of signatures: an author's under a car or a proposal (ed25519), and a *share* under a [`Statement`](crate::message::Statement),
//! which becomes part of a certificate. The genesis chooses what shares are: ed25519, and a certificate is their list; or BLS, and a
//! certificate is their sum.

use corniche_types::{B256, Bytes, ValidatorIndex};

/// An ed25519 signature.
pub type Signature = [u8; 64];

/// One validator's part of a certificate: an ed25519 signature or a compressed BLS12-381 G1 point.
pub type Share = Bytes;

/// This validator's secrets. Deterministic: a restarted node signs the same bytes.
pub trait Signer: Send + Sync {
    /// Which validator this is.
    fn index(&self) -> ValidatorIndex;
    /// Signs the digest of a car or of a proposal.
    fn sign(&self, digest: &B256) -> Signature;
    /// This validator's share under the digest of a statement.
    fn share(&self, digest: &B256) -> Share;
}

/// Everyone's public keys. All validators must agree bit for bit on which signatures verify. Validators named to these functions are in
/// the committee.
pub trait Signatures: Send + Sync {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool;
    fn verify_share(&self, signer: ValidatorIndex, digest: &B256, share: &Share) -> bool;
    /// Makes one seal of valid shares of distinct validators, given in ascending order of their indices. `None` when a share is malformed.
    fn combine(&self, shares: &[(ValidatorIndex, Share)]) -> Option<Bytes>;
    /// Checks that `seal` was combined of a share under each of these digests by its signer; signers are distinct and ascending.
    fn verify_seal(&self, signed: &[(ValidatorIndex, B256)], seal: &Bytes) -> bool;
}
