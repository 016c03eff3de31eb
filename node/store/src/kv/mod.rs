//! The key-value store that holds what can be rebuilt.
//!
//! A backend is trusted with nothing: it may fail, panic, lose or invent entries. What is read from it is checked against
//! the log, and [`Guarded`] turns its panics into errors, after which it is not asked again.

mod redb;
mod sled;

use crate::Backend;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

pub use self::redb::RedbKv;
pub use self::sled::SledKv;

/// New values by key; `None` removes the key.
pub type Batch = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// What [`Kv::scan`] calls for each entry; an error ends the scan.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<(), KvError>;

/// A backend failed. There is one reaction to all of them (build again from the log), so the words are for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KvError(pub String);

/// What the store needs of a backend.
pub trait Kv: Send + Sync {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError>;

    /// The first entry whose key is `from` or greater.
    fn next(&self, from: &[u8]) -> Result<Option<Entry>, KvError>;

    /// Shows every entry whose key begins with `prefix`, in order of keys.
    fn scan(&self, prefix: u8, visit: Visit<'_>) -> Result<(), KvError>;

    /// All of the batch or, after a crash, possibly nothing of it, but never a part. Durable on return.
    fn apply(&self, batch: &Batch) -> Result<(), KvError>;
}

/// Opens or creates the backend's files in `directory`.
pub(crate) fn open(backend: Backend, directory: &Path, cache_bytes: u64) -> Result<Guarded, KvError> {
    let open = || -> Result<Box<dyn Kv>, KvError> {
        Ok(match backend {
            Backend::Sled => Box::new(SledKv::open(directory, cache_bytes)?),
            Backend::Redb => Box::new(RedbKv::open(directory, cache_bytes)?),
        })
    };
    catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|panic| Err(panicked(panic))).map(Guarded::new)
}

/// A backend whose panics are errors.
pub(crate) struct Guarded {
    /// `None` only while being dropped.
    inner: Option<Box<dyn Kv>>,
    /// It panicked: its insides may be inconsistent.
    dead: AtomicBool,
}

impl Guarded {
    pub(crate) fn new(inner: Box<dyn Kv>) -> Self {
        Self { inner: Some(inner), dead: AtomicBool::new(false) }
    }

    fn guard<T>(&self, call: impl FnOnce(&dyn Kv) -> Result<T, KvError>) -> Result<T, KvError> {
        if self.dead.load(Ordering::Relaxed) {
            return Err(KvError("it panicked earlier".into()));
        }
        let inner = self.inner.as_deref().expect("taken only when dropped");
        catch_unwind(AssertUnwindSafe(|| call(inner))).unwrap_or_else(|panic| {
            self.dead.store(true, Ordering::Relaxed);
            Err(panicked(panic))
        })
    }
}

impl Kv for Guarded {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        self.guard(|kv| kv.get(key))
    }

    fn next(&self, from: &[u8]) -> Result<Option<Entry>, KvError> {
        self.guard(|kv| kv.next(from))
    }

    fn scan(&self, prefix: u8, visit: Visit<'_>) -> Result<(), KvError> {
        self.guard(|kv| kv.scan(prefix, visit))
    }

    fn apply(&self, batch: &Batch) -> Result<(), KvError> {
        self.guard(|kv| kv.apply(batch))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let inner = self.inner.take();
        // A backend that panics while it closes must not take the node along.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(inner))) {
            tracing::error!(error = %panicked(panic), "the state backend failed while closing");
        }
    }
}

fn panicked(panic: Box<dyn std::any::Any + Send>) -> KvError {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words");
    KvError(format!("the backend panicked: {words}"))
}

impl From<KvError> for String {
    fn from(error: KvError) -> Self {
        error.0
    }
}
