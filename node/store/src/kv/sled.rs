//! sled 0.34: the default backend.

use super::{Batch, Entry, Kv, KvError, Visit};
use std::path::Path;
use std::time::{Duration, Instant};

/// Timeout for opening. sled closes its files on another thread, some time after it is dropped. Only an
/// earlier instance in this process can hold them, because the data directory has its own lock. So waiting is
/// correct, and treating the files as damaged is not.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// One sled tree.
pub struct SledKv {
    db: sled::Db,
}

impl SledKv {
    pub fn open(directory: &Path, cache_bytes: u64) -> Result<Self, KvError> {
        // No periodic flush: each batch is flushed, and nothing else is written.
        let config = sled::Config::new().path(directory).cache_capacity(cache_bytes).flush_every_ms(None);
        let deadline = Instant::now() + OPEN_TIMEOUT;
        loop {
            match config.open() {
                Err(error) if is_locked(&error) && Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                opened => return Ok(Self { db: opened? }),
            }
        }
    }
}

impl Kv for SledKv {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        Ok(self.db.get(key)?.map(|value| value.to_vec()))
    }

    fn next(&self, from: &[u8]) -> Result<Option<Entry>, KvError> {
        let entry = self.db.range(from..).next().transpose()?;
        Ok(entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }

    fn scan(&self, prefix: u8, visit: Visit<'_>) -> Result<(), KvError> {
        for entry in self.db.scan_prefix([prefix]) {
            let (key, value) = entry?;
            visit(&key, &value)?;
        }
        Ok(())
    }

    fn apply(&self, batch: &Batch) -> Result<(), KvError> {
        let mut changes = sled::Batch::default();
        for (key, value) in batch {
            match value {
                Some(value) => changes.insert(key.as_slice(), value.as_slice()),
                None => changes.remove(key.as_slice()),
            }
        }
        self.db.apply_batch(changes)?;
        self.db.flush()?;
        self.free_replaced_pages(batch.len())
    }
}

impl SledKv {
    /// sled frees only a few replaced pages per operation, and a batch is one operation, however large. With
    /// batches alone, 400,000 entries of 41 bytes used 1.2 GB; with these reads, 63 MB.
    fn free_replaced_pages(&self, entries: usize) -> Result<(), KvError> {
        for _ in 0..entries {
            self.db.contains_key([])?;
        }
        Ok(())
    }
}

fn is_locked(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(error) if error.to_string().contains("could not acquire lock"))
}

impl From<sled::Error> for KvError {
    fn from(error: sled::Error) -> Self {
        Self(format!("sled: {error}"))
    }
}
