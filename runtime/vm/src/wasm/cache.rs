//! Compiled modules, kept: in memory for the contracts in use, through [`ModuleCache`] for those of other days.
//!
//! An artefact is machine code that wasmtime maps and runs, so it must come from this node only. It is stored behind the blake3 hash of
//! itself, checked before use: that finds damage, not malice, and whoever can write the cache could as well replace the binary.

use super::contract::{CodeId, CompiledContract};
use alloy_primitives::B256;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Where compiled artefacts outlive the process. The key covers everything an artefact depends on, so entries never become wrong, only
/// useless, and may be dropped at any time. Failures are silence: the module is compiled again.
pub trait ModuleCache: Send + Sync {
    fn get(&self, key: &B256) -> Option<Vec<u8>>;

    /// Whether there is an entry, intact or not. Cheaper than [`Self::get`] where entries are large.
    fn contains(&self, key: &B256) -> bool {
        self.get(key).is_some()
    }

    fn put(&self, key: &B256, artefact: &[u8]);
}

/// Keeps nothing.
pub struct NoCache;

impl ModuleCache for NoCache {
    fn get(&self, _key: &B256) -> Option<Vec<u8>> {
        None
    }

    fn put(&self, _key: &B256, _artefact: &[u8]) {}
}

/// Puts the hash in front.
pub(super) fn seal(artefact: &[u8]) -> Vec<u8> {
    [corniche_crypto::digest(artefact).as_slice(), artefact].concat()
}

/// The artefact, when the hash in front is its own.
pub(super) fn unseal(sealed: &[u8]) -> Option<&[u8]> {
    let (hash, artefact) = sealed.split_at_checked(32)?;
    (corniche_crypto::digest(artefact) == hash).then_some(artefact)
}

/// The contracts used last, bounded by the bytes of their machine code.
pub(super) struct Recent {
    inner: Mutex<Entries>,
    capacity_bytes: usize,
}

#[derive(Default)]
struct Entries {
    by_id: BTreeMap<CodeId, (u64, CompiledContract)>,
    /// Last use to code; the first is the next to go.
    by_use: BTreeMap<u64, CodeId>,
    uses: u64,
    bytes: usize,
}

impl Recent {
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

    /// The same without counting as a use.
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
        // The newest stays whatever its size.
        while entries.bytes > self.capacity_bytes && entries.by_use.len() > 1 {
            let Some((_, oldest)) = entries.by_use.pop_first() else { break };
            let Some((used, old)) = entries.by_id.get_mut(&oldest) else { continue };
            // Runs on waiting instances do not come by here: they only leave a sign, which is good for one more round.
            if oldest == id || old.take_sign_of_use() {
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
    fn a_damaged_artefact_is_not_opened() {
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
