//! redb: the second backend.

use super::{Batch, Entry, Kv, KvError, Visit};
use redb::{Database, ReadableDatabase, TableDefinition};
use std::path::Path;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("corniche");

/// One redb file with one table.
pub struct RedbKv {
    db: Database,
}

impl RedbKv {
    pub fn open(directory: &Path, cache_bytes: u64) -> Result<Self, KvError> {
        std::fs::create_dir_all(directory).map_err(|error| KvError(format!("{}: {error}", directory.display())))?;
        let cache = usize::try_from(cache_bytes).unwrap_or(usize::MAX);
        let db = Database::builder().set_cache_size(cache).create(directory.join("state.redb")).map_err(failed)?;
        // The table exists from here on, so reads need not check.
        let create = db.begin_write().map_err(failed)?;
        create.open_table(TABLE).map_err(failed)?;
        create.commit().map_err(failed)?;
        Ok(Self { db })
    }

    fn table(&self) -> Result<redb::ReadOnlyTable<&'static [u8], &'static [u8]>, KvError> {
        self.db.begin_read().map_err(failed)?.open_table(TABLE).map_err(failed)
    }
}

impl Kv for RedbKv {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        Ok(self.table()?.get(key).map_err(failed)?.map(|value| value.value().to_vec()))
    }

    fn next(&self, from: &[u8]) -> Result<Option<Entry>, KvError> {
        let entry = self.table()?.range(from..).map_err(failed)?.next().transpose().map_err(failed)?;
        Ok(entry.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())))
    }

    fn scan(&self, prefix: u8, visit: Visit<'_>) -> Result<(), KvError> {
        let from = [prefix];
        for entry in self.table()?.range(from.as_slice()..).map_err(failed)? {
            let (key, value) = entry.map_err(failed)?;
            if key.value().first() != Some(&prefix) {
                break;
            }
            visit(key.value(), value.value())?;
        }
        Ok(())
    }

    fn apply(&self, batch: &Batch) -> Result<(), KvError> {
        let transaction = self.db.begin_write().map_err(failed)?;
        {
            let mut table = transaction.open_table(TABLE).map_err(failed)?;
            for (key, value) in batch {
                match value {
                    Some(value) => table.insert(key.as_slice(), value.as_slice()).map_err(failed)?,
                    None => table.remove(key.as_slice()).map_err(failed)?,
                };
            }
        }
        transaction.commit().map_err(failed)
    }
}

fn failed(error: impl Into<redb::Error>) -> KvError {
    KvError(format!("redb: {}", error.into()))
}
