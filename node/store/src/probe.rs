//! Hook into every disk operation of the logs. Tests use it to record operations, to fail them, or to
//! simulate power cuts.

use corniche_types::Height;
use std::io;
use std::path::Path;

/// Operation that is about to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Creation of a segment file.
    Create {
        path: &'a Path,
    },
    Write {
        path: &'a Path,
        offset: u64,
        bytes: &'a [u8],
    },
    /// `fdatasync` of a file.
    Sync {
        path: &'a Path,
    },
    /// `fsync` of a directory, which makes created files durable.
    SyncDirectory {
        path: &'a Path,
    },
    /// Truncation of a torn tail.
    Cut {
        path: &'a Path,
        length: u64,
    },
    /// Deletion of a released segment.
    Remove {
        path: &'a Path,
    },
    /// Publication of a new head to readers. Not a disk operation; an error here has no effect.
    Publish {
        head: Height,
    },
}

/// Called before each operation; an error replaces the operation.
pub trait Probe: Send + Sync {
    fn before(&self, step: &Step<'_>) -> io::Result<()>;
}
