//! Cache of compiled contract code by key, under `code/`.
//!
//! Entries may disappear at any time, and `code/` may be deleted. But `get` returns only what `put` stored:
//! each file has a checksum, and a file that does not match is deleted. (This protects against disk faults.
//! An attacker with write access to the data directory could replace the node itself.)

use crate::StoreError;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SUM_BYTES: usize = blake3::OUT_LEN;

/// Clones share one cache.
#[derive(Clone)]
pub struct CodeCache {
    shared: Arc<Shared>,
}

struct Shared {
    directory: PathBuf,
    limit: u64,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_key: BTreeMap<[u8; 32], Entry>,
    /// Keys by last use.
    by_use: BTreeMap<u64, [u8; 32]>,
    bytes: u64,
    uses: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    bytes: u64,
    used: u64,
}

impl CodeCache {
    /// Opens the cache in `directory`; deletes the least recently used files beyond `limit` bytes.
    pub fn open(directory: PathBuf, limit: u64) -> Result<Self, StoreError> {
        fs::create_dir_all(&directory).map_err(StoreError::io("create", &directory))?;
        let mut files = Vec::new();
        for file in fs::read_dir(&directory).map_err(StoreError::io("list", &directory))? {
            let file = file.map_err(StoreError::io("list", &directory))?;
            let Ok(metadata) = file.metadata() else { continue };
            match key_of(&file.path()) {
                Some(key) => files.push((metadata.modified().ok(), key, metadata.len())),
                // Left by a crash during `put`.
                None if file.path().extension().is_some_and(|extension| extension == "new") => {
                    let _ = fs::remove_file(file.path());
                }
                None => {}
            }
        }
        files.sort_unstable();
        let mut entries = Entries::default();
        files.into_iter().for_each(|(_, key, bytes)| entries.insert(key, bytes));
        let cache = Self { shared: Arc::new(Shared { directory, limit, entries: Mutex::new(entries) }) };
        cache.shrink(&mut cache.entries());
        Ok(cache)
    }

    /// Returns the content stored under `key`.
    pub fn get(&self, key: &[u8; 32]) -> Option<Vec<u8>> {
        let path = self.path(key);
        let mut bytes = fs::read(&path).ok()?;
        let content = bytes.get(SUM_BYTES..).filter(|content| sum(key, content) == bytes[..SUM_BYTES]);
        if content.is_none() {
            tracing::warn!(file = %path.display(), "deleted damaged compiled code");
            let _ = fs::remove_file(&path);
            self.entries().remove(key);
            return None;
        }
        self.entries().touch(key);
        Some(bytes.split_off(SUM_BYTES))
    }

    /// Returns true if `key` is stored. Does not read the file, so the content may be damaged.
    pub fn contains(&self, key: &[u8; 32]) -> bool {
        self.entries().by_key.contains_key(key)
    }

    /// Stores `content` under `key`, unless it exceeds the limit of the cache. Failures are only logged:
    /// callers do not depend on the cache.
    pub fn put(&self, key: &[u8; 32], content: &[u8]) {
        let bytes = (SUM_BYTES + content.len()) as u64;
        if bytes > self.shared.limit {
            return;
        }
        // Under the lock, so that no two threads write the same temporary file.
        let mut entries = self.entries();
        let path = self.path(key);
        let draft = path.with_extension("new");
        let whole = [&sum(key, content), content].concat();
        if let Err(error) = fs::write(&draft, whole).and_then(|()| fs::rename(&draft, &path)) {
            tracing::warn!(%error, file = %path.display(), "cannot cache compiled code");
            let _ = fs::remove_file(&draft);
            return;
        }
        entries.insert(*key, bytes);
        self.shrink(&mut entries);
    }

    fn shrink(&self, entries: &mut Entries) {
        while entries.bytes > self.shared.limit {
            let Some((_, &key)) = entries.by_use.first_key_value() else { return };
            let _ = fs::remove_file(self.path(&key));
            entries.remove(&key);
        }
    }

    fn path(&self, key: &[u8; 32]) -> PathBuf {
        let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.shared.directory.join(name)
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.shared.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn insert(&mut self, key: [u8; 32], bytes: u64) {
        self.remove(&key);
        self.uses += 1;
        self.by_key.insert(key, Entry { bytes, used: self.uses });
        self.by_use.insert(self.uses, key);
        self.bytes += bytes;
    }

    fn remove(&mut self, key: &[u8; 32]) {
        if let Some(entry) = self.by_key.remove(key) {
            self.by_use.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }

    fn touch(&mut self, key: &[u8; 32]) {
        if let Some(entry) = self.by_key.get(key) {
            self.insert(*key, entry.bytes);
        }
    }
}

/// Parses the key from a file name; `None` for other files.
fn key_of(path: &Path) -> Option<[u8; 32]> {
    let name = path.file_name()?.to_str()?;
    if name.len() != 64 || !name.is_ascii() {
        return None;
    }
    let mut key = [0; 32];
    for (byte, at) in key.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&name[at..at + 2], 16).ok()?;
    }
    Some(key)
}

fn sum(key: &[u8; 32], content: &[u8]) -> [u8; SUM_BYTES] {
    *blake3::keyed_hash(key, content).as_bytes()
}

impl std::fmt::Debug for CodeCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeCache").field("directory", &self.shared.directory).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(directory: &Path, limit: u64) -> CodeCache {
        CodeCache::open(directory.into(), limit).unwrap()
    }

    fn files(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn entries_survive_restart() {
        let directory = tempfile::tempdir().unwrap();
        let cache = open(directory.path(), 1000);
        assert_eq!(cache.get(&[1; 32]), None);
        assert!(!cache.contains(&[1; 32]));
        cache.put(&[1; 32], b"one");
        assert!(cache.contains(&[1; 32]));
        cache.put(&[2; 32], b"");
        cache.put(&[1; 32], b"one again");
        assert_eq!(cache.get(&[1; 32]).as_deref(), Some(b"one again".as_slice()));
        let cache = open(directory.path(), 1000);
        assert_eq!(cache.get(&[1; 32]).as_deref(), Some(b"one again".as_slice()));
        assert_eq!(cache.get(&[2; 32]).as_deref(), Some(b"".as_slice()));
    }

    #[test]
    fn least_recently_used_is_evicted() {
        let directory = tempfile::tempdir().unwrap();
        let cache = open(directory.path(), 3 * 132);
        (1..=3).for_each(|key| cache.put(&[key; 32], &[key; 100]));
        cache.get(&[1; 32]);
        cache.put(&[4; 32], &[4; 100]);
        assert_eq!((1..=4).filter(|&key| cache.get(&[key; 32]).is_some()).collect::<Vec<_>>(), [1, 3, 4]);
        assert_eq!(files(directory.path()), 3);
        cache.put(&[5; 32], &[5; 1000]);
        assert_eq!(cache.get(&[5; 32]), None, "larger than the whole cache");
        drop(open(directory.path(), 140));
        assert_eq!(files(directory.path()), 1, "a smaller limit holds from the start");
    }

    /// Every byte of a file is checked, and its name: `get` never returns anything else than what was stored.
    #[test]
    fn damaged_files_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let cache = open(directory.path(), 1000);
        for byte in 0..SUM_BYTES + 4 {
            cache.put(&[1; 32], b"code");
            let path = cache.path(&[1; 32]);
            let mut bytes = fs::read(&path).unwrap();
            bytes[byte] ^= 1;
            fs::write(&path, bytes).unwrap();
            assert_eq!(cache.get(&[1; 32]), None);
            assert!(!path.exists() && !cache.contains(&[1; 32]));
        }
        cache.put(&[1; 32], b"code");
        fs::rename(cache.path(&[1; 32]), cache.path(&[2; 32])).unwrap();
        assert_eq!(cache.get(&[2; 32]), None);
        fs::write(cache.path(&[3; 32]), "short").unwrap();
        assert_eq!(cache.get(&[3; 32]), None);
        fs::write(directory.path().join("half-written.new"), "x").unwrap();
        drop(open(directory.path(), 1000));
        assert_eq!(files(directory.path()), 0);
    }
}
