//! Errors of the store. Each message names what was found and what to do.

use crate::Identity;
use corniche_types::{B256, CommitIndex, Epoch, Height};
use std::io;
use std::path::{Path, PathBuf};

/// Grouped by cause: configuration or operator, disk, or a bug.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    // Configuration or operator.
    #[error("{path} is in use by another process ({holder}); a data directory belongs to one node")]
    InUse { path: PathBuf, holder: String },
    #[error(
        "{path} is not a Corniche data directory: it has no VERSION file but contains {entry:?}; name an empty directory \
         or a data directory"
    )]
    Foreign { path: PathBuf, entry: String },
    #[error("{path} belongs to another chain: it holds {found}, this node is configured for {expected}")]
    OtherChain { path: PathBuf, found: Identity, expected: Identity },
    #[error("{path} was written by a newer version: its schema is {found}, this build reads up to {supported}")]
    NewerSchema { path: PathBuf, found: u32, supported: u32 },
    #[error("{path} cannot be read as a VERSION file: {problem}; restore it from a backup")]
    BadVersion { path: PathBuf, problem: String },
    #[error(
        "{path} is missing although this directory has held a chain; restore it from a backup, or, to fetch the chain \
         again from peers, delete state/ and VERSION too and keep keys/ and safety/"
    )]
    BlocksMissing { path: PathBuf },
    #[error("{path} is damaged at byte {offset}, before its tail: {problem}; {advice}")]
    Damaged { path: PathBuf, offset: u64, problem: String, advice: &'static str },
    #[error("the block log contradicts itself at height {height}: {problem}; {advice}")]
    Contradiction { height: Height, problem: String, advice: &'static str },

    #[error(
        "block {height} was built under protocol version {found}, the genesis file says {expected} there; correct \"upgrades\" in the \
         genesis file, or, if this node missed the upgrade, delete blocks/, state/ and VERSION and keep keys/ and safety/: the node \
         then fetches the chain again from peers"
    )]
    Rules { height: Height, found: u32, expected: u32 },
    #[error("segment {segment}, byte {offset}: {problem}; was it written by a newer version? Use that one")]
    Unreadable { segment: u64, offset: u64, problem: String },

    // Disk.
    #[error("the disk is full: {path}; free some space and start the node again")]
    DiskFull { path: PathBuf },
    #[error("cannot {action} {path}: {source}")]
    Io { path: PathBuf, action: &'static str, source: io::Error },
    #[error("the snapshot {path} cannot be used: {problem}; delete it")]
    Snapshot { path: PathBuf, problem: String },
    #[error(
        "the block log in {path} begins at block {first}, and no snapshot of the state is left for what was before; to fetch the chain \
         again from peers, delete blocks/, state/ and VERSION and keep keys/ and safety/"
    )]
    NoBase { path: PathBuf, first: Height },
    #[error("the state under {path} cannot be built: {problem}")]
    State { path: PathBuf, problem: String },
    #[error("the store stopped after an earlier failure: {cause}; restart the node")]
    Stopped { cause: String },

    // Bugs.
    #[error("invariant: blocks are appended in order: expected height {expected}, found {found}")]
    Height { expected: Height, found: Height },
    #[error("invariant: a block names its parent: expected {expected}, found {found} at height {height}")]
    Parent { height: Height, expected: B256, found: B256 },
    #[error(
        "invariant: a certificate is stored for a block of ours: at height {height} ours is {ours:?}, certified {certified}"
    )]
    Certificate { height: Height, ours: Option<B256>, certified: B256 },
    #[error(
        "invariant: ordering never resumes earlier than before: block {height} says after {found:?}, known is {expected:?}"
    )]
    Resume { height: Height, expected: (Epoch, CommitIndex), found: (Epoch, CommitIndex) },
    #[error("invariant: a record has at most {limit} bytes, this one {size}")]
    RecordSize { size: usize, limit: usize },
}

impl StoreError {
    /// For `map_err`: the failed action and its file.
    pub(crate) fn io<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path: path.into() },
            _ => Self::Io { path: path.into(), action, source },
        }
    }
}
