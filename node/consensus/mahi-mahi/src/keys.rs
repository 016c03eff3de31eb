//! The engine's cryptography as traits. The engine itself links no curve, so it builds for wasm32 and runs with
//! modelled cryptography. The real implementations are in `real` (feature `real-crypto`).

use corniche_engine::Unsigned;
use corniche_types::{B256, ValidatorIndex, evidence::Heading};

/// An ed25519 signature.
pub type Signature = [u8; 64];
/// One share of a round's coin: a compressed BLS12-381 G1 point.
pub type CoinShare = [u8; 48];
/// One validator's shares of a round's coin: one per vote.
pub type CoinShares = Vec<CoinShare>;
/// The combined threshold signature of a round's coin, unique per message.
pub type CoinValue = [u8; 48];

/// This validator's secrets, in this process or in another. Both operations are deterministic: a restarted node signs the same bytes.
pub trait Signer: Send + Sync {
    /// Index of this validator.
    fn index(&self) -> ValidatorIndex;
    /// Signs a block's digest. The block has this heading.
    ///
    /// # Errors
    ///
    /// There is no signature, or not yet: the validator does not propose.
    fn sign(&self, heading: &Heading, digest: &B256) -> Result<Signature, Unsigned>;
    /// This validator's shares of the coin for `message`.
    fn coin_shares(&self, message: &[u8]) -> CoinShares;
}

/// The public signing keys of all validators. All validators must agree bit for bit on which signatures verify.
pub trait Signatures: Send + Sync {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool;
}

/// The public side of the threshold coin.
pub trait Coin: Send + Sync {
    /// Combines the shares of distinct validators with a threshold of votes and verifies the result, unless the committee has
    /// one validator. Returns `None` if it does not verify; then at least one share is bad.
    fn combine(&self, message: &[u8], shares: &[(ValidatorIndex, CoinShares)]) -> Option<CoinValue>;
    /// Checks a value that a peer combined.
    fn verify(&self, message: &[u8], value: &CoinValue) -> bool;
    /// Checks that these are all shares of one validator.
    fn verify_shares(&self, author: ValidatorIndex, message: &[u8], shares: &[CoinShare]) -> bool;
}
