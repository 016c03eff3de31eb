//! Ordered transactions before execution.

use corniche_crypto::{Known, SignatureError, VerifiedTransaction};
use corniche_types::{B256, Bytes, SkipReason, Transaction, ValidatorIndex, keccak256};

/// One ordered transaction, after all checks that need no state.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Author of the batch: the tip goes to this validator's fee address.
    pub author: ValidatorIndex,
    /// Bytes as ordered.
    pub raw: Bytes,
    /// Result of [`verify_ordered`].
    pub verified: Result<VerifiedTransaction, SkipReason>,
}

impl Candidate {
    /// Returns keccak-256 of the bytes: the transaction's hash if they decode as a transaction.
    pub fn hash(&self) -> B256 {
        match &self.verified {
            Ok(transaction) => transaction.transaction().hash(),
            Err(_) => keccak256(&self.raw),
        }
    }
}

/// Decodes the bytes and makes the checks that need no state: encoding, chain and signature. A pure function of its
/// arguments.
pub fn verify_ordered(raw: &Bytes, chain_id: u64) -> Result<VerifiedTransaction, SkipReason> {
    verify_ordered_cached(raw, chain_id, |_| None)
}

/// Like [`verify_ordered`], but uses what is known about the transaction; see [`VerifiedTransaction::verify_cached`].
/// `known` changes only the cost, never the result.
pub fn verify_ordered_cached(
    raw: &Bytes,
    chain_id: u64,
    known: impl FnOnce(&B256) -> Option<Known>,
) -> Result<VerifiedTransaction, SkipReason> {
    let transaction = Transaction::decode(raw.clone()).map_err(|_| SkipReason::Undecodable)?;
    VerifiedTransaction::verify_cached(transaction, chain_id, known).map_err(|error| match error {
        SignatureError::InvalidChainId { .. } | SignatureError::Unprotected => SkipReason::WrongChain,
        SignatureError::HighS | SignatureError::Invalid => SkipReason::BadSignature,
    })
}
