//! Makes a snapshot of a pinned state while blocks are executed.
//!
//! Chunks need entries in the order of their tree keys, and a state does not fit into memory twice. So the entries are collected in 256
//! buckets by the first byte of their keys, which are written to files when they have too many bytes together. Then one bucket at a time
//! is sorted and cut, or several if together they are one chunk.

use super::{SnapshotDraft, StoredSnapshot, read};
use crate::directory::DataDirectory;
use crate::{Identity, StoreError};
use corniche_state::chunks::{ChunkInfo, CodeInfo, Entry, ItemBuffer, Manifest, Prefix, chunk_bytes, cut};
use corniche_state::{Snapshot, StateView};
use corniche_types::{B256, SnapshotTail, header_hash};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

const BUCKETS: usize = 256;
/// Depth of a bucket's prefix.
const BUCKET_DEPTH: u8 = 8;
/// Bytes of all buckets in memory at which they are written to their files.
const MEMORY_BYTES: usize = 16 << 20;
/// Entries between two calls of the pace.
const ENTRIES_PER_STEP: u64 = 4_096;

/// Called often while a snapshot is made, with the number of bytes written since the last call. It may wait, so that the node keeps its
/// disk and its processor. False: give up.
pub type Pace<'a> = &'a mut dyn FnMut(u64) -> bool;

/// Makes the snapshot of a state after the block in `tail`. `None` if `pace` gave up.
///
/// # Errors
///
/// Those of the disk.
pub fn make(
    data: &DataDirectory,
    identity: Identity,
    state: &Snapshot,
    tail: &SnapshotTail,
    pace: Pace<'_>,
) -> Result<Option<StoredSnapshot>, StoreError> {
    let height = tail.height();
    let path = data.snapshots().join(format!("{}.draft", height.0));
    if path.exists() {
        fs::remove_dir_all(&path).map_err(StoreError::io("remove", &path))?;
    }
    let draft = SnapshotDraft::open(path)?;
    let written = write_draft(&draft, identity, state, tail, pace);
    if !matches!(written, Ok(true)) {
        draft.discard()?;
        return written.map(|_| None);
    }
    let place = draft.finish(data, height)?;
    StoredSnapshot::open(&place, identity).map(Some)
}

fn write_draft(
    draft: &SnapshotDraft,
    identity: Identity,
    state: &Snapshot,
    tail: &SnapshotTail,
    pace: Pace<'_>,
) -> Result<bool, StoreError> {
    let directory = draft.path().join("buckets");
    let Some((buckets, code_hashes)) = Buckets::fill(&directory, state, pace)? else { return Ok(false) };
    let mut codes = Vec::with_capacity(code_hashes.len());
    for hash in code_hashes {
        let code = state.code(&hash).expect("invariant: a state has the code of each account");
        draft.write_code(&hash, &code)?;
        codes.push(CodeInfo { hash, length: u32::try_from(code.len()).expect("a code has less than 4 GiB") });
        if !pace(code.len() as u64) {
            return Ok(false);
        }
    }
    let mut chunks = Vec::<ChunkInfo>::new();
    let mut emit = |info: ChunkInfo, bytes: Vec<u8>| -> Result<(), Stopped> {
        draft.write_chunk(chunks.len(), &bytes)?;
        chunks.push(info);
        if pace(bytes.len() as u64) { Ok(()) } else { Err(Stopped::GivenUp) }
    };
    let limit = chunk_bytes(buckets.bytes.iter().sum());
    match buckets.cut(Prefix::ALL, 0..BUCKETS, limit, &mut emit) {
        Ok(()) => {}
        Err(Stopped::GivenUp) => return Ok(false),
        Err(Stopped::Failed(error)) => return Err(error),
    }
    if directory.exists() {
        fs::remove_dir_all(&directory).map_err(StoreError::io("remove", &directory))?;
    }
    let header = &tail.header.0;
    let Identity { chain_id, genesis_hash } = identity;
    let (height, header_hash) = (tail.height(), header_hash(header));
    let manifest = Manifest { chain_id, genesis_hash, height, header_hash, chunks, codes };
    manifest
        .verify(&header.state_root)
        .map_err(|error| StoreError::Snapshot { path: draft.path().into(), problem: error.to_string() })?;
    draft.write_manifest(&manifest.encode())?;
    draft.write_tail(tail)?;
    Ok(true)
}

/// Why cutting ended early.
enum Stopped {
    GivenUp,
    Failed(StoreError),
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// Entries by the first byte of their keys.
struct Buckets {
    directory: PathBuf,
    /// Entries that are not in the files.
    memory: Vec<Vec<u8>>,
    in_memory: usize,
    /// Bytes in the files and in memory.
    bytes: Vec<u64>,
}

impl Buckets {
    /// Collects all entries of a state. Also returns the hashes of all codes. `None` if `pace` gave up.
    fn fill(directory: &Path, state: &Snapshot, pace: Pace<'_>) -> Result<Option<(Self, BTreeSet<B256>)>, StoreError> {
        let mut buckets =
            Self { directory: directory.into(), memory: vec![Vec::new(); BUCKETS], in_memory: 0, bytes: vec![0; BUCKETS] };
        let (mut codes, mut entries, mut written) = (BTreeSet::new(), 0u64, 0);
        let (mut goes_on, mut failed) = (true, Ok(()));
        state.for_each_entry(|entry| {
            if !goes_on || failed.is_err() {
                return;
            }
            if let Entry::Account(_, account) = &entry
                && account.has_code()
            {
                codes.insert(account.code_hash);
            }
            buckets.push(&entry);
            if buckets.in_memory >= MEMORY_BYTES {
                written += buckets.in_memory as u64;
                failed = buckets.spill();
            }
            entries += 1;
            if entries.is_multiple_of(ENTRIES_PER_STEP) {
                goes_on = pace(std::mem::take(&mut written));
            }
        });
        failed?;
        Ok(goes_on.then_some((buckets, codes)))
    }

    fn push(&mut self, entry: &Entry) {
        let bucket = usize::from(entry.key().0[0]);
        let memory = &mut self.memory[bucket];
        let before = memory.len();
        entry.encode(memory);
        let length = memory.len() - before;
        self.in_memory += length;
        self.bytes[bucket] += length as u64;
    }

    /// Writes everything to the files.
    fn spill(&mut self) -> Result<(), StoreError> {
        fs::create_dir_all(&self.directory).map_err(StoreError::io("create", &self.directory))?;
        for (bucket, memory) in self.memory.iter_mut().enumerate() {
            let path = self.directory.join(bucket.to_string());
            let mut options = File::options();
            let mut file = options.append(true).create(true).open(&path).map_err(StoreError::io("open", &path))?;
            file.write_all(memory).map_err(StoreError::io("write", &path))?;
            memory.clear();
        }
        self.in_memory = 0;
        Ok(())
    }

    /// Bytes of a bucket.
    fn load(&self, bucket: usize) -> Result<Vec<u8>, StoreError> {
        let memory = &self.memory[bucket];
        if memory.len() as u64 == self.bytes[bucket] {
            return Ok(memory.clone());
        }
        let mut bytes = read(&self.directory.join(bucket.to_string()))?;
        bytes.extend_from_slice(memory);
        Ok(bytes)
    }

    /// Cuts the buckets of a prefix.
    fn cut(
        &self,
        prefix: Prefix,
        buckets: Range<usize>,
        limit: u64,
        emit: &mut impl FnMut(ChunkInfo, Vec<u8>) -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        let total: u64 = self.bytes[buckets.clone()].iter().sum();
        if total > limit && prefix.depth < BUCKET_DEPTH {
            let middle = buckets.start + buckets.len() / 2;
            self.cut(prefix.child(false), buckets.start..middle, limit, emit)?;
            return self.cut(prefix.child(true), middle..buckets.end, limit, emit);
        }
        let mut items = ItemBuffer::default();
        for bucket in buckets {
            let bytes = self.load(bucket)?;
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                items.push(&Entry::decode(&mut rest).ok_or_else(|| self.damaged(bucket))?);
            }
        }
        cut(items.sort(), prefix, limit, emit)
    }

    fn damaged(&self, bucket: usize) -> StoreError {
        StoreError::Snapshot { path: self.directory.join(bucket.to_string()), problem: "it changed while it was read".into() }
    }
}
