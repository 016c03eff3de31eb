//! The engine's cryptography as traits. The engine itself links no curve, so it builds for wasm32 and runs with
//! modelled cryptography. The real implementations are in `real` (feature `real-crypto`).
//!
//! There are two kinds of signatures: an author's under a car or a proposal (ed25519), and a *share* under a
//! `message::Statement`, which becomes part of a certificate. The genesis selects the kind of
//! shares: ed25519, where a certificate is the list of shares, or BLS, where it is their sum.

use crate::message::{Position, Slot, Statement, View};
use corniche_engine::Unsigned;
use corniche_types::{B256, Bytes, ValidatorIndex};

/// An ed25519 signature.
pub type Signature = [u8; 64];

/// One validator's part of a certificate: an ed25519 signature or a compressed BLS12-381 G1 point.
pub type Share = Bytes;

/// Statement that a validator signs as its author.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authored {
    /// A car of its lane.
    Car { position: Position, parent: B256, batch: B256 },
    /// A PREPARE as the leader: the digest of its cut.
    Prepare { slot: Slot, view: View, cut: B256 },
    /// The announcement of its disk.
    Disk(u64),
}

/// This validator's secrets, in this process or in another. Deterministic: a restarted node signs the same bytes. Without a signature
/// the validator abstains.
pub trait Signer: Send + Sync {
    /// Index of this validator.
    fn index(&self) -> ValidatorIndex;
    /// Signs the digest of what it authors.
    fn sign(&self, authored: &Authored, digest: &B256) -> Option<Signature>;
    /// This validator's share under a statement and its digest.
    fn share(&self, statement: &Statement, digest: &B256) -> Result<Share, Unsigned>;
}

/// The public keys of all validators. All validators must agree bit for bit on which signatures verify. Validators
/// passed to these methods must be members of the committee.
pub trait Signatures: Send + Sync {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool;
    fn verify_share(&self, signer: ValidatorIndex, digest: &B256, share: &Share) -> bool;
    /// Combines valid shares of distinct validators, in ascending order of their indices, into one seal. `None` if a
    /// share is malformed.
    fn combine(&self, shares: &[(ValidatorIndex, Share)]) -> Option<Bytes>;
    /// Checks that `seal` combines a share of each signer under its digest. Signers are distinct and ascending.
    fn verify_seal(&self, signed: &[(ValidatorIndex, B256)], seal: &Bytes) -> bool;
}
