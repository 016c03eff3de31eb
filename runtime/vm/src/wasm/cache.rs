//! Caches of compiled modules: recently used contracts in memory, others through [`ModuleCache`].
//!
//! An artefact is machine code that wasmtime maps and runs, so it must come from this node only. It is stored after its
//! blake3 hash, which is checked before use. This detects damage, not attacks: an attacker who can write the cache
//! could as well replace the binary.

use super::contract::CompiledContract;
use crate::warm_code::CodeId;
use alloy_primitives::B256;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Persistent storage of compiled artefacts. The key covers everything that an artefact depends on, so entries never
/// become wrong, only unused, and may be deleted at any time. Failures are ignored: the module is compiled again.
pub trait ModuleCache: Send + Sync {
    fn get(&self, key: &B256) -> Option<Vec<u8>>;

    /// Returns whether an entry exists, intact or not. Cheaper than [`Self::get`] for large entries.
    fn contains(&self, key: &B256) -> bool {
        self.get(key).is_some()
    }

    fn put(&self, key: &B256, artefact: &[u8]);
}

/// Stores nothing.
pub struct NoCache;

impl ModuleCache for NoCache {
    fn get(&self, _key: &B256) -> Option<Vec<u8>> {
        None
    }

    fn put(&self, _key: &B256, _artefact: &[u8]) {}
}

/// Prepends the hash.
pub(super) fn seal(artefact: &[u8]) -> Vec<u8> {
    [corniche_crypto::digest(artefact).as_slice(), artefact].concat()
}

/// Returns the artefact if the hash matches.
pub(super) fn unseal(sealed: &[u8]) -> Option<&[u8]> {
    let (hash, artefact) = sealed.split_at_checked(32)?;
    (corniche_crypto::digest(artefact) == hash).then_some(artefact)
}

/// The most recently used contracts, bounded by the bytes of their machine code.
pub(super) struct ContractCache {
    inner: Mutex<LruEntries>,
    capacity_bytes: usize,
}

#[derive(Default)]
struct LruEntries {
    by_id: BTreeMap<CodeId, (u64, CompiledContract)>,
    /// Code by last use; the first is evicted next.
    by_use: BTreeMap<u64, CodeId>,
    uses: u64,
    bytes: usize,
}

impl ContractCache {
    pub fn new(capacity_bytes: usize) -> Self {
        Self { inner: Mutex::default(), capacity_bytes }
    }

    pub fn get(&self, id: &CodeId) -> Option<CompiledContract> {
        let mut entries = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = &mut *entries;
        let (used, contract) = entries.by_id.get_mut(id)?;
        entries.by_use.remove(used);
        entries.uses += 1;
        *used = entries.uses;
        entries.by_use.insert(entries.uses, *id);
        Some(contract.clone())
    }

    /// Like [`get`](Self::get), without counting as a use.
    pub fn peek(&self, id: &CodeId) -> Option<CompiledContract> {
        let entries = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        entries.by_id.get(id).map(|(_, contract)| contract.clone())
    }

    pub fn insert(&self, id: CodeId, contract: CompiledContract) {
        let mut entries = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = &mut *entries;
        entries.uses += 1;
        entries.bytes += contract.bytes();
        entries.by_use.insert(entries.uses, id);
        if let Some((used, old)) = entries.by_id.insert(id, (entries.uses, contract)) {
            entries.by_use.remove(&used);
            entries.bytes -= old.bytes();
        }
        // The newest stays, even if it exceeds the capacity.
        while entries.bytes > self.capacity_bytes && entries.by_use.len() > 1 {
            let Some((_, oldest)) = entries.by_use.pop_first() else { break };
            let Some((used, old)) = entries.by_id.get_mut(&oldest) else { continue };
            // Runs on kept instances do not access this cache. They only set a flag, which saves the contract from one
            // eviction.
            if oldest == id || old.take_used() {
                entries.uses += 1;
                *used = entries.uses;
                entries.by_use.insert(entries.uses, oldest);
            } else if let Some((_, old)) = entries.by_id.remove(&oldest) {
                entries.bytes -= old.bytes();
            }
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).by_id.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_artefact_is_rejected() {
        let sealed = seal(b"machine code");
        assert_eq!(unseal(&sealed), Some(&b"machine code"[..]));
        for at in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert_eq!(unseal(&damaged), None);
        }
        assert_eq!(unseal(&sealed[..31]), None);
    }
}
