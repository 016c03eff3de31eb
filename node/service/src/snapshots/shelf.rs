//! The snapshots of this node, shared by the thread that makes them and those that serve them.

use corniche_store::{
    DataDirectory, Identity, StoreError,
    snapshots::{self, StoredSnapshot},
};
use corniche_types::B256;
use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, Instant},
};

/// Number of newest snapshots that are kept. The newest one at the end of an epoch is kept, too.
const KEPT: usize = 3;
/// A snapshot that somebody read so lately is kept longer, so that a slow node can finish.
const READ_LATELY: Duration = Duration::from_secs(600);
/// Most snapshots that are kept because they are read.
const KEPT_FOR_READERS: usize = 2;

/// Snapshots of this node, newest first.
pub struct Shelf {
    data: DataDirectory,
    identity: Identity,
    held: RwLock<Vec<Arc<Held>>>,
}

/// A snapshot, and the time at which a peer last read a chunk of it.
pub struct Held {
    pub snapshot: StoredSnapshot,
    read: Mutex<Option<Instant>>,
}

impl Held {
    pub fn note_read(&self) {
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn is_read(&self) -> bool {
        let read = *self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.is_some_and(|at| at.elapsed() < READ_LATELY)
    }

    fn ends_epoch(&self) -> bool {
        self.snapshot.tail().ordering.next.is_some()
    }
}

impl Shelf {
    /// Opens the snapshots of a data directory, and removes what interrupted drafts left.
    ///
    /// # Errors
    ///
    /// Those of the disk.
    pub fn open(data: &Path, identity: Identity) -> Result<Self, StoreError> {
        let data = DataDirectory::new(data);
        snapshots::clean(&data)?;
        let held = snapshots::list(&data, identity)?.into_iter().map(Self::hold).collect();
        Ok(Self { data, identity, held: RwLock::new(held) })
    }

    fn hold(snapshot: StoredSnapshot) -> Arc<Held> {
        Arc::new(Held { snapshot, read: Mutex::default() })
    }

    pub fn data(&self) -> &DataDirectory {
        &self.data
    }

    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// All snapshots, newest first.
    pub fn all(&self) -> Vec<Arc<Held>> {
        self.held.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The snapshot with this manifest.
    pub fn find(&self, manifest: &B256) -> Option<Arc<Held>> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        held.iter().find(|held| held.snapshot.manifest_hash() == *manifest).cloned()
    }

    /// Adds a snapshot that was just made, and removes those that are not needed any more (Y1, Y13).
    pub fn add(&self, snapshot: StoredSnapshot) {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        held.retain(|other| other.snapshot.height() != snapshot.height());
        held.push(Self::hold(snapshot));
        held.sort_by_key(|held| std::cmp::Reverse(held.snapshot.height()));
        let newest_end = held.iter().find(|held| held.ends_epoch()).map(|held| held.snapshot.height());
        let (mut newest, mut read) = (0, 0);
        held.retain(|held| {
            newest += 1;
            if newest <= KEPT || Some(held.snapshot.height()) == newest_end {
                return true;
            }
            if held.is_read() && read < KEPT_FOR_READERS {
                read += 1;
                return true;
            }
            if let Err(error) = snapshots::remove(&held.snapshot) {
                tracing::warn!(%error, "cannot remove an old snapshot");
            }
            false
        });
    }
}
