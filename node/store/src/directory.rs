//! Data directory: layout, owner and lock.
//!
//! ```text
//!  VERSION   schema, chain id, genesis hash        LOCK     held by the running node
//!  keys/     0700                                  safety/  safety log      blocks/  block log
//!  state/    checkpoint and indices                code/    compiled code   explorer/
//!  trace/    recent events of the engine           VALIDATOR   written by the node: validator of this directory
//!  evidence/ proofs against validators, until the chain has them
//!  epochs/   committees of all epochs, for clients that follow the chain by certificates
//!  snapshots/   states for other nodes, and for this one if it lacks the blocks before    sync/   one that is being fetched
//!  UNSIGNED  written with new keys: they have signed nothing; removed before the first safety record
//! ```
//!
//! Only `state/`, `code/` and `explorer/`, which are rebuilt, and `trace/` and `evidence/`, which are optional, may be
//! deleted. `VERSION` is written last when a directory is created, so a directory with `VERSION` once had all
//! parts.

use crate::{Backend, StoreError};
use corniche_types::{B256, Epoch, Genesis};
use fs4::fs_std::FileExt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Schema version of the whole data directory. Directories with a newer schema are refused.
pub const SCHEMA: u32 = 1;

/// Names allowed in a directory without `VERSION`: the node's own, and files that operators put beside them.
const KNOWN_NAMES: [&str; 15] = [
    "LOCK",
    "VALIDATOR",
    UNSIGNED,
    "keys",
    "safety",
    "blocks",
    "state",
    "code",
    "trace",
    "evidence",
    "epochs",
    "snapshots",
    "sync",
    "explorer",
    "lost+found",
];
/// See [`DataDirectory::unsigned`].
const UNSIGNED: &str = "UNSIGNED";
const KNOWN_ENDINGS: [&str; 7] = [".toml", ".json", ".log", ".pid", ".txt", ".journal", ".journal.broken"];

/// Chain of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub chain_id: u64,
    pub genesis_hash: B256,
}

impl Identity {
    pub fn of(genesis: &Genesis) -> Self {
        Self { chain_id: genesis.chain_id, genesis_hash: genesis.hash() }
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "chain {} with genesis {}", self.chain_id, self.genesis_hash)
    }
}

/// Free disk space, compared with the two limits in the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Enough,
    /// Admission should stop.
    Low,
    /// The node should shut down cleanly while it still can.
    Exhausted,
}

/// Paths of a data directory, and its small files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataDirectory {
    root: PathBuf,
}

impl DataDirectory {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn keys(&self) -> PathBuf {
        self.root.join("keys")
    }

    pub fn safety(&self) -> PathBuf {
        self.root.join("safety")
    }

    pub fn blocks(&self) -> PathBuf {
        self.root.join("blocks")
    }

    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// File with the reason why the key-value store failed while the node ran.
    pub(crate) fn failed_marker(&self, backend: Backend) -> PathBuf {
        self.state().join(format!("{}.failed", backend.name()))
    }

    /// File that exists while a backend is being opened and loaded: if that ends the process, the next start does
    /// not try it again.
    pub(crate) fn opening_marker(&self, backend: Backend) -> PathBuf {
        self.state().join(format!("{}.opening", backend.name()))
    }

    pub fn code(&self) -> PathBuf {
        self.root.join("code")
    }

    pub fn trace(&self) -> PathBuf {
        self.root.join("trace")
    }

    /// Evidence that this node still has to report.
    pub fn evidence(&self) -> PathBuf {
        self.root.join("evidence")
    }

    pub fn epochs(&self) -> PathBuf {
        self.root.join("epochs")
    }

    /// Whole snapshots of the state, by height.
    pub fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    /// The snapshot that is being fetched from peers.
    pub fn sync(&self) -> PathBuf {
        self.root.join("sync")
    }

    pub fn explorer(&self) -> PathBuf {
        self.root.join("explorer")
    }

    pub fn version(&self) -> PathBuf {
        self.root.join("VERSION")
    }

    /// File with a validator's consensus key. While it exists, that key has signed nothing. The
    /// command that creates the key creates the file. It is removed, durably, before the first record enters `safety/`. So a lost disk loses the
    /// statement too, and a directory without the file may belong to a validator that forgot what it signed.
    pub fn unsigned(&self) -> PathBuf {
        self.root.join(UNSIGNED)
    }

    /// Removes [`Self::unsigned`] if it exists. The removal survives a power cut.
    pub(crate) fn remove_unsigned(&self) -> Result<(), StoreError> {
        let path = self.unsigned();
        match fs::remove_file(&path) {
            Ok(()) => {
                let root = File::open(&self.root).map_err(StoreError::io("open", &self.root))?;
                root.sync_all().map_err(StoreError::io("sync", &self.root))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(StoreError::io("remove", &path)(error)),
        }
    }

    /// Makes `keys/` accessible only to its owner; creates it if needed.
    pub fn protect_keys(&self) -> Result<PathBuf, StoreError> {
        let keys = self.keys();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&keys).map_err(StoreError::io("create", &keys))?;
        let owner_only = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&keys, owner_only).map_err(StoreError::io("set the permissions of", &keys))?;
        Ok(keys)
    }

    /// Free bytes for a user without privileges.
    pub fn free_bytes(&self) -> Result<u64, StoreError> {
        fs4::available_space(&self.root).map_err(StoreError::io("ask for the free space of", &self.root))
    }

    /// Returns whether the directory has no chain yet, and no snapshot with which one begins.
    pub fn is_empty(&self) -> bool {
        let is_empty = |directory: &Path| fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none());
        !self.version().exists() && is_empty(&self.blocks()) && is_empty(&self.snapshots())
    }

    /// Locks the directory. Refuses a directory of something else before changing anything in it.
    pub fn claim(&self) -> Result<Lock, StoreError> {
        fs::create_dir_all(&self.root).map_err(StoreError::io("create", &self.root))?;
        if !self.version().exists() {
            self.refuse_foreign()?;
        }
        Lock::take(self.root.join("LOCK"))
    }

    fn refuse_foreign(&self) -> Result<(), StoreError> {
        let entries = fs::read_dir(&self.root).map_err(StoreError::io("list", &self.root))?;
        for entry in entries {
            let entry = entry.map_err(StoreError::io("list", &self.root))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let known = KNOWN_NAMES.contains(&name.as_str()) || KNOWN_ENDINGS.iter().any(|ending| name.ends_with(ending));
            if !known && !name.starts_with("VERSION") {
                return Err(StoreError::Foreign { path: self.root.clone(), entry: name });
            }
        }
        Ok(())
    }

    /// Identity of the chain in this directory; `None` if it is new.
    pub(crate) fn identity(&self) -> Result<Option<Identity>, StoreError> {
        let path = self.version();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io("read", &path)(error)),
        };
        let version = parse_version(&text).map_err(|problem| StoreError::BadVersion { path: path.clone(), problem })?;
        if version.schema > SCHEMA {
            return Err(StoreError::NewerSchema { path: self.root.clone(), found: version.schema, supported: SCHEMA });
        }
        version.identity.map(Some).ok_or_else(|| StoreError::BadVersion { path, problem: "it has no chain identity".into() })
    }

    /// Creates missing parts, except for the logs.
    pub(crate) fn create_parts(&self) -> Result<(), StoreError> {
        self.protect_keys()?;
        for part in [self.safety(), self.blocks(), self.state(), self.code()] {
            fs::create_dir_all(&part).map_err(StoreError::io("create", &part))?;
        }
        sync_directory(&self.root)
    }

    /// Last step of creating a directory.
    pub(crate) fn write_version(&self, identity: &Identity) -> Result<(), StoreError> {
        let text = format!("schema {SCHEMA}\nchain_id {}\ngenesis {}\n", identity.chain_id, identity.genesis_hash);
        write_whole(&self.root, "VERSION", text.as_bytes())
    }

    /// Lists the consensus keys that sign in this data directory, durably: one for each line of the text.
    pub fn write_validator(&self, keys: &str) -> Result<(), StoreError> {
        write_whole(&self.root, "VALIDATOR", keys.as_bytes())
    }

    /// Reads the consensus keys that sign in this data directory. `None` if there are none yet.
    pub fn read_validator(&self) -> Result<Option<String>, StoreError> {
        let path = self.root.join("VALIDATOR");
        match fs::read_to_string(&path) {
            Ok(keys) => Ok(Some(keys).filter(|keys| !keys.trim().is_empty())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", &path)(error)),
        }
    }

    /// Stores evidence against a validator under a name, durably.
    pub fn write_evidence(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let directory = self.evidence();
        fs::create_dir_all(&directory).map_err(StoreError::io("create", &directory))?;
        sync_directory(&self.root)?;
        write_whole(&directory, name, bytes)
    }

    /// Writes what is kept of an epoch's committee, durably.
    pub fn write_committee(&self, epoch: Epoch, bytes: &[u8]) -> Result<(), StoreError> {
        let directory = self.epochs();
        fs::create_dir_all(&directory).map_err(StoreError::io("create", &directory))?;
        sync_directory(&self.root)?;
        write_whole(&directory, &epoch.0.to_string(), bytes)
    }

    /// Reads what is kept of an epoch's committee.
    pub fn read_committee(&self, epoch: Epoch) -> Option<Vec<u8>> {
        fs::read(self.epochs().join(epoch.0.to_string())).ok()
    }

    /// Writes the change of committees at the end of an epoch, durably.
    pub fn write_epoch_change(&self, epoch: Epoch, bytes: &[u8]) -> Result<(), StoreError> {
        let directory = self.epochs();
        fs::create_dir_all(&directory).map_err(StoreError::io("create", &directory))?;
        sync_directory(&self.root)?;
        write_whole(&directory, &change_name(epoch), bytes)
    }

    /// Reads the change of committees at the end of an epoch.
    pub fn read_epoch_change(&self, epoch: Epoch) -> Option<Vec<u8>> {
        fs::read(self.epochs().join(change_name(epoch))).ok()
    }

    /// Reads all evidence, with the paths of the files. Unfinished drafts may be among them after a crash.
    pub fn read_evidence(&self) -> Result<Vec<(PathBuf, Vec<u8>)>, StoreError> {
        let directory = self.evidence();
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::io("read", &directory)(error)),
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.map_err(StoreError::io("read", &directory))?.path();
            if !path.is_file() {
                continue;
            }
            let bytes = fs::read(&path).map_err(StoreError::io("read", &path))?;
            files.push((path, bytes));
        }
        files.sort();
        Ok(files)
    }
}

fn change_name(epoch: Epoch) -> String {
    format!("change-{}", epoch.0)
}

/// Writes a file, or none, durably.
fn write_whole(directory: &Path, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
    let draft = directory.join(format!("{name}.new"));
    let mut file = File::create(&draft).map_err(StoreError::io("create", &draft))?;
    file.write_all(bytes).map_err(StoreError::io("write", &draft))?;
    file.sync_all().map_err(StoreError::io("sync", &draft))?;
    fs::rename(&draft, directory.join(name)).map_err(StoreError::io("rename", &draft))?;
    sync_directory(directory)
}

/// Makes creations, renames and removals of files in the directory durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(StoreError::io("sync the directory", path))
}

struct Version {
    schema: u32,
    /// `None` only for a schema that this build cannot read.
    identity: Option<Identity>,
}

fn parse_version(text: &str) -> Result<Version, String> {
    let mut lines = text.lines();
    let mut field = |name: &str| {
        let line = lines.next().unwrap_or_default();
        let value = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' '));
        value.map(str::to_owned).ok_or_else(|| format!("expected \"{name} ...\", found {line:?}"))
    };
    let schema = field("schema")?.parse().map_err(|error| format!("schema: {error}"))?;
    if schema > SCHEMA {
        return Ok(Version { schema, identity: None });
    }
    let chain_id = field("chain_id")?.parse().map_err(|error| format!("chain_id: {error}"))?;
    let genesis_hash = field("genesis")?.parse().map_err(|error| format!("genesis: {error}"))?;
    Ok(Version { schema, identity: Some(Identity { chain_id, genesis_hash }) })
}

/// Exclusive lock on a data directory, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    fn take(path: PathBuf) -> Result<Self, StoreError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(StoreError::io("open", &path))?;
        if !FileExt::try_lock_exclusive(&file).map_err(StoreError::io("lock", &path))? {
            let mut holder = String::new();
            // The file may be empty for a moment; the process id is only a hint.
            let _ = file.take(64).read_to_string(&mut holder);
            let holder = if holder.trim().is_empty() { "unknown".into() } else { format!("process {}", holder.trim()) };
            let path = path.parent().unwrap_or(&path).into();
            return Err(StoreError::InUse { path, holder });
        }
        file.set_len(0).map_err(StoreError::io("write", &path))?;
        write!(file, "{}", std::process::id()).map_err(StoreError::io("write", &path))?;
        Ok(Self { _file: file })
    }
}
