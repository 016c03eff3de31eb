//! Snapshots on disk: the state after a block in chunks, with what a node needs to continue from it (validators.md §7).
//!
//! ```text
//!  snapshots/HEIGHT/   manifest   proves the chunks        chunks/INDEX   as they travel between nodes
//!                      tail       proves the block         codes/HASH     code of contracts
//! ```
//!
//! A snapshot is written beside its place and moved there when it is whole, so every snapshot under `snapshots/` is whole. A node that was
//! filled from a snapshot has no blocks below it. It keeps one, its *base*, from which the checkpoint can be built again. Any snapshot
//! at or above the first block in the log can be the base, so a newer one replaces an older one.

mod make;

pub use make::{Pace, make};

use crate::directory::{DataDirectory, sync_directory};
use crate::{Identity, StoreError};
use corniche_state::chunks::{Chunk, Manifest, Prefix};
use corniche_state::{Changes, CommittedBlock, Tree};
use corniche_types::{B256, Block, Bytes, Header, Height, SnapshotTail, header_hash, keccak256, wire};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const MANIFEST: &str = "manifest";
const TAIL: &str = "tail";
const CHUNKS: &str = "chunks";
const CODES: &str = "codes";

/// A whole snapshot on disk.
#[derive(Clone, Debug)]
pub struct StoredSnapshot {
    path: PathBuf,
    manifest: Manifest,
    manifest_bytes: Bytes,
    manifest_hash: B256,
    prefixes: Vec<Prefix>,
    tail: SnapshotTail,
}

impl StoredSnapshot {
    /// Opens the snapshot in a directory. Checks that its manifest is that of the block in its tail; chunks and codes are checked when
    /// they are read.
    ///
    /// # Errors
    ///
    /// A file is missing or damaged.
    pub fn open(path: &Path, identity: Identity) -> Result<Self, StoreError> {
        let damaged = |problem: String| StoreError::Snapshot { path: path.into(), problem };
        let manifest_bytes = read(&path.join(MANIFEST))?;
        let manifest = Manifest::decode(&manifest_bytes).map_err(|error| damaged(error.to_string()))?;
        let tail: SnapshotTail = wire::decode(&read(&path.join(TAIL))?).map_err(|error| damaged(format!("tail: {error}")))?;
        let header = &tail.header.0;
        if (Identity { chain_id: manifest.chain_id, genesis_hash: manifest.genesis_hash }) != identity {
            return Err(damaged("it belongs to another chain".into()));
        }
        if (manifest.height, manifest.header_hash) != (tail.height(), header_hash(header)) {
            return Err(damaged("manifest and tail are of different blocks".into()));
        }
        manifest.verify(&header.state_root).map_err(|error| damaged(error.to_string()))?;
        let (manifest_hash, prefixes) = (keccak256(&manifest_bytes), manifest.prefixes());
        Ok(Self { path: path.into(), manifest, manifest_bytes: manifest_bytes.into(), manifest_hash, prefixes, tail })
    }

    pub fn height(&self) -> Height {
        self.manifest.height
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Encoding of the manifest.
    pub fn manifest_bytes(&self) -> &Bytes {
        &self.manifest_bytes
    }

    /// keccak-256 of [`Self::manifest_bytes`]: the name of the snapshot among peers.
    pub fn manifest_hash(&self) -> B256 {
        self.manifest_hash
    }

    pub fn tail(&self) -> &SnapshotTail {
        &self.tail
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// At most `length` bytes of the encoded tail, from `offset` on. `None` if it ends before.
    pub fn tail_part(&self, offset: u64, length: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.path.join(TAIL);
        let read_part = || {
            let mut file = File::open(&path)?;
            if file.metadata()?.len() < offset {
                return Ok(None);
            }
            file.seek(SeekFrom::Start(offset))?;
            let mut bytes = Vec::new();
            file.take(length as u64).read_to_end(&mut bytes)?;
            Ok(Some(bytes))
        };
        read_part().map_err(StoreError::io("read", &path))
    }

    /// Bytes of a chunk, unchecked. `None` if the manifest has no such chunk.
    pub fn chunk(&self, index: usize) -> Result<Option<Vec<u8>>, StoreError> {
        if index >= self.manifest.chunks.len() {
            return Ok(None);
        }
        read(&chunk_path(&self.path, index)).map(Some)
    }

    /// A code, unchecked. `None` if the manifest does not have it.
    pub fn code(&self, hash: &B256) -> Result<Option<Vec<u8>>, StoreError> {
        if self.manifest.codes.binary_search_by_key(hash, |code| code.hash).is_err() {
            return Ok(None);
        }
        read(&code_path(&self.path, hash)).map(Some)
    }

    /// Reads the whole state, a chunk at a time, and checks it. The codes come first.
    ///
    /// # Errors
    ///
    /// A file is damaged or missing, or `visit` fails.
    pub fn load<E: From<StoreError>>(&self, mut visit: impl FnMut(Changes) -> Result<(), E>) -> Result<(), E> {
        let damaged = |problem: String| StoreError::Snapshot { path: self.path.clone(), problem };
        for code in &self.manifest.codes {
            let bytes = read(&code_path(&self.path, &code.hash))?;
            if keccak256(&bytes) != code.hash {
                return Err(damaged(format!("the code {} is not the one of that hash", code.hash)).into());
            }
            visit(Changes { code: [(code.hash, Bytes::from(bytes))].into(), ..Changes::default() })?;
        }
        for (index, (info, prefix)) in self.manifest.chunks.iter().zip(&self.prefixes).enumerate() {
            let bytes = read(&chunk_path(&self.path, index))?;
            let chunk = Chunk::verify(&bytes, *prefix, info).map_err(|error| damaged(format!("chunk {index}: {error}")))?;
            let changes = chunk.into_changes();
            let codes = changes.accounts.values().flatten().filter(|account| account.has_code());
            for hash in codes.map(|account| account.code_hash) {
                if self.manifest.codes.binary_search_by_key(&hash, |code| code.hash).is_err() {
                    return Err(damaged(format!("the code {hash} is missing")).into());
                }
            }
            visit(changes)?;
        }
        Ok(())
    }

    /// Reads everything and compares the root of the state with the block's.
    ///
    /// # Errors
    ///
    /// A file is damaged or missing.
    pub fn verify(&self) -> Result<(), StoreError> {
        let mut tree = Tree::default();
        self.load(|changes| {
            tree.apply(&changes);
            Ok::<_, StoreError>(())
        })?;
        let (found, expected) = (tree.root(), self.tail.header.0.state_root);
        if found == expected {
            return Ok(());
        }
        Err(StoreError::Snapshot { path: self.path.clone(), problem: format!("expected state root {expected}, got {found}") })
    }

    /// The block without its transactions and results, which no snapshot has.
    pub(crate) fn block(&self) -> CommittedBlock {
        let SnapshotTail { header, ordering, resume, .. } = &self.tail;
        let block = Block { header: header.0.clone(), ordering: ordering.clone(), ordered: Vec::new() };
        CommittedBlock { block, receipts: Vec::new(), changes: Changes::default(), resume: resume.clone() }
    }

    /// Header of the block, or of one shortly below it.
    pub(crate) fn header(&self, height: Height) -> Option<&Header> {
        if height == self.height() {
            return Some(&self.tail.header.0);
        }
        let below = &self.tail.below;
        let first = below.first()?.0.number;
        let header = &below.get(usize::try_from(height.0.checked_sub(first)?).ok()?)?.0;
        (header.number == height.0).then_some(header)
    }
}

/// The whole snapshots of a data directory, newest first. Damaged ones are skipped with a warning.
pub fn list(data: &DataDirectory, identity: Identity) -> Result<Vec<StoredSnapshot>, StoreError> {
    let mut found = Vec::new();
    for height in heights(data)? {
        let path = data.snapshots().join(height.to_string());
        match StoredSnapshot::open(&path, identity) {
            Ok(snapshot) => found.push(snapshot),
            Err(error) => tracing::warn!(%error, "a snapshot is not used"),
        }
    }
    Ok(found)
}

/// Removes a snapshot.
///
/// # Errors
///
/// Those of the disk.
pub fn remove(snapshot: &StoredSnapshot) -> Result<(), StoreError> {
    // Another name first: a removal that is interrupted leaves no snapshot with holes.
    let removed = snapshot.path.with_extension("removed");
    fs::rename(&snapshot.path, &removed).map_err(StoreError::io("rename", &snapshot.path))?;
    fs::remove_dir_all(&removed).map_err(StoreError::io("remove", &removed))
}

/// Removes what interrupted drafts and removals left under `snapshots/`.
///
/// # Errors
///
/// Those of the disk.
pub fn clean(data: &DataDirectory) -> Result<(), StoreError> {
    for path in entries(&data.snapshots())? {
        let is_left_over = path.extension().is_some_and(|extension| extension == "draft" || extension == "removed");
        if is_left_over {
            fs::remove_dir_all(&path).map_err(StoreError::io("remove", &path))?;
        }
    }
    Ok(())
}

/// Heights of the snapshots, newest first.
fn heights(data: &DataDirectory) -> Result<Vec<u64>, StoreError> {
    let paths = entries(&data.snapshots())?;
    let mut heights: Vec<u64> = paths.iter().filter_map(|path| path.file_name()?.to_str()?.parse().ok()).collect();
    heights.sort_unstable_by_key(|height| std::cmp::Reverse(*height));
    Ok(heights)
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, StoreError> {
    match fs::read_dir(directory) {
        Ok(entries) => {
            let entries: io::Result<Vec<_>> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
            entries.map_err(StoreError::io("list", directory))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(StoreError::io("list", directory)(error)),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    fs::read(path).map_err(StoreError::io("read", path))
}

fn chunk_path(directory: &Path, index: usize) -> PathBuf {
    directory.join(CHUNKS).join(index.to_string())
}

fn code_path(directory: &Path, hash: &B256) -> PathBuf {
    directory.join(CODES).join(format!("{hash:x}"))
}

/// A snapshot that is being written.
#[derive(Debug)]
pub struct SnapshotDraft {
    path: PathBuf,
}

impl SnapshotDraft {
    /// Begins a snapshot, or continues the one in this directory.
    ///
    /// # Errors
    ///
    /// Those of the disk, here and below.
    pub fn open(path: PathBuf) -> Result<Self, StoreError> {
        for part in [CHUNKS, CODES] {
            let part = path.join(part);
            fs::create_dir_all(&part).map_err(StoreError::io("create", &part))?;
        }
        Ok(Self { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write_manifest(&self, bytes: &[u8]) -> Result<(), StoreError> {
        write(&self.path.join(MANIFEST), bytes)
    }

    pub fn write_tail(&self, tail: &SnapshotTail) -> Result<(), StoreError> {
        write(&self.path.join(TAIL), &wire::encode(tail))
    }

    pub fn write_chunk(&self, index: usize, bytes: &[u8]) -> Result<(), StoreError> {
        write(&chunk_path(&self.path, index), bytes)
    }

    pub fn write_code(&self, hash: &B256, bytes: &[u8]) -> Result<(), StoreError> {
        write(&code_path(&self.path, hash), bytes)
    }

    /// Prepares for another manifest: keeps only chunks that it has too, under their new positions, and all codes. Until the new manifest
    /// is written, there is none.
    pub fn restart(&self, moves: &[(usize, usize)]) -> Result<(), StoreError> {
        for name in [MANIFEST, TAIL] {
            let path = self.path.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(StoreError::io("remove", &path)(error)),
                _ => {}
            }
        }
        let (chunks, before) = (self.path.join(CHUNKS), self.path.join("chunks.before"));
        if before.exists() {
            fs::remove_dir_all(&before).map_err(StoreError::io("remove", &before))?;
        }
        fs::rename(&chunks, &before).map_err(StoreError::io("rename", &chunks))?;
        fs::create_dir_all(&chunks).map_err(StoreError::io("create", &chunks))?;
        for (from, to) in moves {
            let from = before.join(from.to_string());
            fs::rename(&from, chunk_path(&self.path, *to)).map_err(StoreError::io("rename", &from))?;
        }
        fs::remove_dir_all(&before).map_err(StoreError::io("remove", &before))
    }

    pub fn read_manifest(&self) -> Option<Vec<u8>> {
        fs::read(self.path.join(MANIFEST)).ok()
    }

    pub fn read_tail(&self) -> Option<SnapshotTail> {
        wire::decode(&fs::read(self.path.join(TAIL)).ok()?).ok()
    }

    /// A chunk that was written, unchecked.
    pub fn read_chunk(&self, index: usize) -> Option<Vec<u8>> {
        fs::read(chunk_path(&self.path, index)).ok()
    }

    /// A code that was written, unchecked.
    pub fn read_code(&self, hash: &B256) -> Option<Vec<u8>> {
        fs::read(code_path(&self.path, hash)).ok()
    }

    /// Moves the finished snapshot to its place, durably.
    pub fn finish(self, data: &DataDirectory, height: Height) -> Result<PathBuf, StoreError> {
        let place = data.snapshots().join(height.0.to_string());
        for directory in [self.path.join(CHUNKS), self.path.join(CODES), self.path.clone()] {
            sync_directory(&directory)?;
        }
        fs::create_dir_all(data.snapshots()).map_err(StoreError::io("create", &data.snapshots()))?;
        sync_directory(data.root())?;
        if place.exists() {
            fs::remove_dir_all(&place).map_err(StoreError::io("remove", &place))?;
        }
        fs::rename(&self.path, &place).map_err(StoreError::io("rename", &self.path))?;
        sync_directory(&data.snapshots())?;
        Ok(place)
    }

    /// Removes everything that was written.
    pub fn discard(self) -> Result<(), StoreError> {
        fs::remove_dir_all(&self.path).map_err(StoreError::io("remove", &self.path))
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut file = File::create(path).map_err(StoreError::io("create", path))?;
    file.write_all(bytes).map_err(StoreError::io("write", path))?;
    file.sync_data().map_err(StoreError::io("sync", path))
}
