//! Cache of valid seals. A certificate arrives many times: with the next car, in the PREPAREs of several slots, from
//! peers that forward it or request data. Checking its shares is the main cost.

use corniche_types::{B256, Bytes, ValidatorIndex};
use std::sync::{Mutex, PoisonError};

/// Cache entries per validator of the committee: more than it has certificates in transit.
const ENTRIES_PER_VALIDATOR: usize = 64;

/// Valid seals, by the digest of all inputs of a check. Only valid ones are stored. An evicted entry (two with one
/// place: the later one stays) or a missing one is checked again, with no other effect.
pub struct SealCache {
    entries: Mutex<Vec<B256>>,
}

impl SealCache {
    pub fn new(committee_size: usize) -> Self {
        Self { entries: Mutex::new(vec![B256::ZERO; ENTRIES_PER_VALIDATOR * committee_size.max(1)]) }
    }

    /// Returns true if `seal` is valid for these signers and digests, from the cache or by calling `check`.
    pub fn is_valid(&self, signed: &[(ValidatorIndex, B256)], seal: &Bytes, check: impl FnOnce() -> bool) -> bool {
        let key = cache_key(signed, seal);
        let (head, _) = key.split_first_chunk().expect("a digest is longer");
        let index = u64::from_le_bytes(*head) as usize;
        // Other threads may check the same seal meanwhile, which is harmless.
        if self.with_entry(index, |cached| *cached == key) {
            return true;
        }
        let valid = check();
        if valid {
            self.with_entry(index, |cached| *cached = key);
        }
        valid
    }

    fn with_entry<R>(&self, index: usize, work: impl FnOnce(&mut B256) -> R) -> R {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let index = index % entries.len();
        work(&mut entries[index])
    }
}

/// Cache key of a check. The number of signers separates the signers from the seal.
fn cache_key(signed: &[(ValidatorIndex, B256)], seal: &Bytes) -> B256 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(signed.len() as u64).to_le_bytes());
    for (signer, digest) in signed {
        hasher.update(&signer.0.to_le_bytes()).update(digest.as_slice());
    }
    hasher.update(seal);
    B256::from(*hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_seals_are_cached() {
        let seals = SealCache::new(4);
        let seal = Bytes::from_static(b"seal");
        let [one, other] = [1, 2].map(|byte| (ValidatorIndex(u16::from(byte)), B256::with_last_byte(byte)));
        let is_cached = |signed: &[_], seal: &Bytes| seals.is_valid(signed, seal, || false);
        assert!(!is_cached(&[one, other], &seal));
        assert!(!is_cached(&[one, other], &seal), "a bad seal is not noted");
        assert!(seals.is_valid(&[one, other], &seal, || true));
        assert!(is_cached(&[one, other], &seal));
        let others: [(Vec<_>, Bytes); 6] = [
            (vec![one], seal.clone()),
            (vec![other, one], seal.clone()),
            (vec![one, (other.0, one.1)], seal.clone()),
            (vec![one, (ValidatorIndex(3), other.1)], seal.clone()),
            (vec![one, other], Bytes::from_static(b"sea")),
            // The seal starts where the signers end.
            (vec![one], [&other.0.0.to_le_bytes()[..], other.1.as_slice(), &seal].concat().into()),
        ];
        for (number, (signed, seal)) in others.iter().enumerate() {
            assert!(!is_cached(signed, seal), "case {number}");
        }
        assert!(is_cached(&[one, other], &seal), "and none of them took its place");
    }

    #[test]
    fn seal_cache_size_is_bounded() {
        let seals = SealCache::new(1);
        let signed = |number: u16| [(ValidatorIndex(number), B256::ZERO)];
        for number in 0..10_000 {
            assert!(seals.is_valid(&signed(number), &Bytes::new(), || true));
        }
        assert_eq!(seals.entries.lock().unwrap().len(), ENTRIES_PER_VALIDATOR);
        assert!(seals.is_valid(&signed(9_999), &Bytes::new(), || false));
    }
}
