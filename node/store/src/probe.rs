//! A look at every step the logs take on disk, from which tests record them, fail them or cut the power between them.

use corniche_types::Height;
use std::io;
use std::path::Path;

/// One step, about to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A new segment file.
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
    /// `fsync` of a directory, after which the files created in it stay there.
    SyncDirectory {
        path: &'a Path,
    },
    /// A torn tail is cut.
    Cut {
        path: &'a Path,
        length: u64,
    },
    /// A released segment is deleted.
    Remove {
        path: &'a Path,
    },
    /// Readers are about to see this head. Not a step on disk; an error here has no effect.
    Publish {
        head: Height,
    },
}

/// Called before each step; an error takes the place of the step.
pub trait Probe: Send + Sync {
    fn before(&self, step: &Step<'_>) -> io::Result<()>;
}
