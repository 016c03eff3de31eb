//! Events of transactions that leave the pool without being executed.

use crate::Refusal;
use corniche_types::B256;

/// A transaction left the pool without being executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Dropped { hash: B256, reason: DropReason },
    Replaced { hash: B256, by: B256 },
}

impl Event {
    pub fn hash(&self) -> B256 {
        match self {
            Self::Dropped { hash, .. } | Self::Replaced { hash, .. } => *hash,
        }
    }
}

/// Reason why a transaction was dropped.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum DropReason {
    #[error("another transaction with nonce {nonce} was executed")]
    Superseded { nonce: u64 },
    #[error("insufficient funds for gas * price + value")]
    InsufficientFunds,
    #[error("sender not an eoa")]
    SenderNotEoa,
    #[error("txpool is full of transactions that pay more")]
    Evicted,
    #[error("account limit exceeded")]
    AccountLimit,
    #[error("waited too long for the nonces before it")]
    Expired,
    #[error("proposed several times without being ordered")]
    Lost,
    #[error("dropped on request")]
    Requested,
    /// A block returned it, and the pool refused it.
    #[error(transparent)]
    Refused(Refusal),
}
