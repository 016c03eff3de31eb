//! Key-value store for data that can be rebuilt.
//!
//! Backends are not trusted: they may fail, panic, lose or invent entries. Everything read from them is
//! checked against the log. [`PanicGuard`] converts panics to errors, and does not use the backend after a
//! panic.

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

/// Callback of [`Kv::scan`] for each entry; an error ends the scan.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<(), KvError>;

/// Failure of a backend. The reaction is always to rebuild from the log, so the text is only for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KvError(pub String);

/// Operations that a backend provides.
pub trait Kv: Send + Sync {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, KvError>;

    /// First entry whose key is `from` or greater.
    fn next(&self, from: &[u8]) -> Result<Option<Entry>, KvError>;

    /// Visits all entries whose key begins with `prefix`, in order of keys.
    fn scan(&self, prefix: u8, visit: Visit<'_>) -> Result<(), KvError>;

    /// Applies the batch atomically; durable on return. After a crash it may be missing, but never partial.
    fn apply(&self, batch: &Batch) -> Result<(), KvError>;
}

/// Opens or creates the backend's files in `directory`.
pub(crate) fn open(backend: Backend, directory: &Path, cache_bytes: u64) -> Result<PanicGuard, KvError> {
    let open = || -> Result<Box<dyn Kv>, KvError> {
        Ok(match backend {
            Backend::Sled => Box::new(SledKv::open(directory, cache_bytes)?),
            Backend::Redb => Box::new(RedbKv::open(directory, cache_bytes)?),
        })
    };
    catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|panic| Err(panicked(panic))).map(PanicGuard::new)
}

/// Wrapper that converts a backend's panics to errors.
pub(crate) struct PanicGuard {
    /// `None` only while being dropped.
    inner: Option<Box<dyn Kv>>,
    /// True after a panic: the backend's state may be inconsistent.
    failed: AtomicBool,
}

impl PanicGuard {
    pub(crate) fn new(inner: Box<dyn Kv>) -> Self {
        Self { inner: Some(inner), failed: AtomicBool::new(false) }
    }

    fn guard<T>(&self, call: impl FnOnce(&dyn Kv) -> Result<T, KvError>) -> Result<T, KvError> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(KvError("it panicked earlier".into()));
        }
        let inner = self.inner.as_deref().expect("taken only when dropped");
        catch_unwind(AssertUnwindSafe(|| call(inner))).unwrap_or_else(|panic| {
            self.failed.store(true, Ordering::Relaxed);
            Err(panicked(panic))
        })
    }
}

impl Kv for PanicGuard {
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

impl Drop for PanicGuard {
    fn drop(&mut self) {
        let inner = self.inner.take();
        // A panic of the backend while it closes must not stop the node.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(inner))) {
            tracing::error!(error = %panicked(panic), "the state backend failed while closing");
        }
    }
}

fn panicked(panic: Box<dyn std::any::Any + Send>) -> KvError {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    KvError(format!("the backend panicked: {message}"))
}

impl From<KvError> for String {
    fn from(error: KvError) -> Self {
        error.0
    }
}
