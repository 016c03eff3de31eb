//! Senders that this process recovered from signatures lately. A transaction comes several times: from a user or a peer, in a
//! proposal, in a block, and in further proposals if its owner seems to be late. Recovering its sender costs more than anything
//! else about it, and the pool knows it only between admission and execution.

use corniche_crypto::VerifiedTransaction;
use corniche_types::{Address, B256};
use lru::LruCache;
use std::{
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
};

/// Maximum number of remembered senders, about 100 bytes each: those of several seconds.
const MAX_SENDERS: NonZeroUsize = NonZeroUsize::new(32_768).expect("above 0");

/// Senders by transaction hash, which covers the signature. So the sender of a hash never changes.
pub struct RecoveredSenders(Mutex<LruCache<B256, Address>>);

impl Default for RecoveredSenders {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MAX_SENDERS)))
    }
}

impl RecoveredSenders {
    pub fn record(&self, transaction: &VerifiedTransaction) {
        // An impersonated sender has no signature.
        if !transaction.is_impersonated() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).put(transaction.hash(), transaction.sender());
        }
    }

    pub fn sender(&self, hash: &B256) -> Option<Address> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).peek(hash).copied()
    }
}
