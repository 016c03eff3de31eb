//! Files of the ring, and the index of their rounds.
//!
//! A segment has the format of the logs (`segment.rs`), with one record per event: its round, then the event.
//! Unlike in the logs, nothing is refused: incomplete records are skipped, and segments without a valid
//! header are deleted.

use super::TraceRecord;
use crate::segment::{self, HEADER_BYTES, Header, Key, LogKind, RECORD_HEADER_BYTES, RecordHeader};
use crate::{Identity, StoreError};
use corniche_types::wire;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::ops::{Range, RangeInclusive};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of segments; the ring drops one at a time.
const SEGMENTS: u64 = 8;
/// Approximate size of a page, the unit of the index: each takes forty bytes of index.
const PAGE_BYTES: u64 = 64 << 10;
/// Size of the round in front of each event.
const ROUND_BYTES: usize = 8;

/// The one writer.
#[derive(Debug)]
pub(super) struct Ring {
    directory: PathBuf,
    identity: Identity,
    limit: u64,
    index: Arc<Mutex<Index>>,
}

/// Number of events that were not written, and the reason.
#[derive(Debug)]
pub(super) struct Failure {
    pub lost: u64,
    pub problem: String,
}

/// Segments, oldest first; new events go to the last one.
#[derive(Debug, Default)]
pub(super) struct Index {
    segments: VecDeque<Segment>,
}

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    sequence: u64,
    file: Arc<File>,
    key: Key,
    /// Offset of the next record.
    length: u64,
    pages: Vec<PageRounds>,
    /// Newest round of its records. Cached, because it is requested far more often than pages.
    newest: Option<u64>,
}

/// Consecutive records and the range of their rounds.
#[derive(Clone, Debug)]
struct PageRounds {
    offset: u64,
    length: u64,
    first: u64,
    last: u64,
}

/// Page to be read; its file stays readable after the ring has dropped the segment.
pub(super) struct Page {
    file: Arc<File>,
    key: Key,
    rounds: PageRounds,
}

pub(super) fn lock(index: &Mutex<Index>) -> MutexGuard<'_, Index> {
    // Every critical section leaves the index consistent.
    index.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ring {
    pub(super) fn open(directory: &Path, identity: Identity, limit: u64) -> Result<Self, StoreError> {
        fs::create_dir_all(directory).map_err(StoreError::io("create", directory))?;
        let mut index = Index::default();
        for (sequence, path) in list(directory)? {
            match Segment::load(&path, sequence, identity) {
                Ok(segment) => index.segments.push_back(segment),
                Err(problem) => {
                    tracing::warn!(file = %path.display(), problem, "deleted an unusable trace segment");
                    let _ = fs::remove_file(&path);
                }
            }
        }
        let ring = Self { directory: directory.into(), identity, limit, index: Arc::new(Mutex::new(index)) };
        ring.shrink(0);
        Ok(ring)
    }

    pub(super) fn index(&self) -> Arc<Mutex<Index>> {
        self.index.clone()
    }

    fn segment_bytes(&self) -> u64 {
        self.limit / SEGMENTS
    }

    /// Writes these events. An event that is too large for a segment is lost; after a failed write the
    /// remaining ones are lost too.
    pub(super) fn append(&mut self, records: &[TraceRecord]) -> Result<(), Failure> {
        let mut failure = None::<Failure>;
        let mut fail = |lost: usize, problem: String| match &mut failure {
            Some(failure) => failure.lost += lost as u64,
            None => failure = Some(Failure { lost: lost as u64, problem }),
        };
        let mut draft = Draft::default();
        for record in records {
            let Some(round) = record.round() else { continue };
            let event = wire::encode(record);
            let bytes = (RECORD_HEADER_BYTES + ROUND_BYTES + event.len()) as u64;
            if HEADER_BYTES as u64 + bytes > self.segment_bytes() {
                fail(1, format!("an event of {bytes} bytes is too large for a ring of {}", self.limit));
                continue;
            }
            if !self.has_room(draft.bytes.len() as u64 + bytes) {
                let full = std::mem::take(&mut draft);
                if let Err(error) = self.write(&full).and_then(|()| self.begin_segment()) {
                    fail(1 + full.rounds.len(), error.to_string());
                    continue;
                }
            }
            draft.add(round, &event);
        }
        if let Err(error) = self.write(&draft) {
            fail(draft.rounds.len(), error.to_string());
        }
        failure.map_or(Ok(()), Err)
    }

    /// True if `bytes` fit into the last segment.
    fn has_room(&self, bytes: u64) -> bool {
        lock(&self.index).segments.back().is_some_and(|segment| segment.length + bytes <= self.segment_bytes())
    }

    fn write(&self, draft: &Draft) -> Result<(), StoreError> {
        if draft.rounds.is_empty() {
            return Ok(());
        }
        let (file, key, offset, path) = {
            let index = lock(&self.index);
            let last = index.segments.back().expect("a draft is begun when there is room in a segment");
            (last.file.clone(), last.key, last.length, last.path.clone())
        };
        let mut bytes = draft.bytes.clone();
        for (_, range) in &draft.rounds {
            // Each record is its own group, because there are no syncs.
            segment::seal_record(&key, &mut bytes[range.clone()], offset + range.start as u64, 0);
        }
        // After a failure the next write uses the same offset: the failed bytes are not in the index.
        file.write_all_at(&bytes, offset).map_err(StoreError::io("write", &path))?;
        let mut index = lock(&self.index);
        let last = index.segments.back_mut().expect("only this thread removes segments");
        for (round, range) in &draft.rounds {
            last.note(*round, offset + range.start as u64, range.len() as u64);
        }
        Ok(())
    }

    fn begin_segment(&self) -> Result<(), StoreError> {
        self.shrink(self.segment_bytes());
        let sequence = lock(&self.index).segments.back().map_or(0, |last| last.sequence + 1);
        let segment = Segment::create(self.directory.join(format!("{sequence:012}.trace")), sequence, self.identity)?;
        lock(&self.index).segments.push_back(segment);
        Ok(())
    }

    /// Deletes the oldest segments until `more` bytes can be added.
    fn shrink(&self, more: u64) {
        let mut index = lock(&self.index);
        while index.segments.iter().map(|segment| segment.length).sum::<u64>() + more > self.limit {
            let Some(oldest) = index.segments.pop_front() else { return };
            let _ = fs::remove_file(&oldest.path);
        }
    }
}

/// Records to be written to the last segment.
#[derive(Default)]
struct Draft {
    bytes: Vec<u8>,
    rounds: Vec<(u64, Range<usize>)>,
}

impl Draft {
    fn add(&mut self, round: u64, event: &[u8]) {
        let start = self.bytes.len();
        self.bytes.resize(start + RECORD_HEADER_BYTES, 0);
        self.bytes.extend_from_slice(&round.to_le_bytes());
        self.bytes.extend_from_slice(event);
        self.rounds.push((round, start..self.bytes.len()));
    }
}

impl Index {
    /// Reads the few segments, not their pages.
    pub(super) fn newest_round(&self) -> Option<u64> {
        self.segments.iter().filter_map(|segment| segment.newest).max()
    }

    /// Pages that may contain events of these rounds, oldest first.
    pub(super) fn pages(&self, rounds: &RangeInclusive<u64>) -> Vec<Page> {
        let of_segment = |segment: &Segment| {
            let meets = |page: &&PageRounds| page.first <= *rounds.end() && *rounds.start() <= page.last;
            let page = |page: &PageRounds| Page { file: segment.file.clone(), key: segment.key, rounds: page.clone() };
            segment.pages.iter().filter(meets).map(page).collect::<Vec<_>>()
        };
        self.segments.iter().flat_map(of_segment).collect()
    }
}

impl Segment {
    fn create(path: PathBuf, sequence: u64, identity: Identity) -> Result<Self, StoreError> {
        let Identity { chain_id, genesis_hash } = identity;
        let nonce = segment::fresh_nonce();
        let kind = LogKind::Trace;
        let (bytes, key) = Header { kind, chain_id, genesis_hash, sequence, base: 0, history_lost: false, nonce }.encode();
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.map_err(StoreError::io("create", &path))?;
        file.write_all_at(&bytes, 0).map_err(StoreError::io("write", &path))?;
        let length = bytes.len() as u64;
        Ok(Self { path, sequence, file: Arc::new(file), key, length, pages: Vec::new(), newest: None })
    }

    /// Loads a segment of an earlier run; cuts it after the last whole record, so that writing can continue
    /// there.
    fn load(path: &Path, sequence: u64, identity: Identity) -> Result<Self, String> {
        let text = |error: io::Error| error.to_string();
        let bytes = fs::read(path).map_err(text)?;
        let (header, key) = Header::decode(&bytes)?;
        if (header.kind, header.sequence, header.identity()) != (LogKind::Trace, sequence, identity) {
            return Err("it is not a trace segment of this chain".into());
        }
        let file = Arc::new(File::options().read(true).write(true).open(path).map_err(text)?);
        let length = HEADER_BYTES as u64;
        let mut segment = Self { path: path.into(), sequence, file, key, length, pages: Vec::new(), newest: None };
        let mut records = Records::new(&key, &bytes[HEADER_BYTES..], HEADER_BYTES as u64);
        for payload in records.by_ref() {
            let Some(round) = bytes[HEADER_BYTES..][payload.clone()].first_chunk() else { continue };
            let offset = (HEADER_BYTES + payload.start - RECORD_HEADER_BYTES) as u64;
            segment.note(u64::from_le_bytes(*round), offset, (RECORD_HEADER_BYTES + payload.len()) as u64);
        }
        if records.damaged_bytes > 0 {
            tracing::warn!(file = %path.display(), bytes = records.damaged_bytes, "skipped damaged parts of the trace");
        }
        segment.file.set_len(segment.length).map_err(text)?;
        Ok(segment)
    }

    /// Adds a record at the end to the index.
    fn note(&mut self, round: u64, offset: u64, bytes: u64) {
        self.length = offset + bytes;
        self.newest = self.newest.max(Some(round));
        match self.pages.last_mut().filter(|page| page.length < PAGE_BYTES) {
            Some(page) => {
                // Damaged bytes in between belong to the page; reading skips them again.
                page.length = self.length - page.offset;
                page.first = page.first.min(round);
                page.last = page.last.max(round);
            }
            None => self.pages.push(PageRounds { offset, length: bytes, first: round, last: round }),
        }
    }
}

impl Page {
    /// Bytes of the page; empty if the disk fails.
    pub(super) fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.rounds.length).unwrap_or_default()];
        match self.file.read_exact_at(&mut bytes, self.rounds.offset) {
            Ok(()) => bytes,
            Err(error) => {
                tracing::warn!(%error, "cannot read a trace segment");
                Vec::new()
            }
        }
    }

    pub(super) fn records<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = TraceRecord> + 'a {
        let payloads = Records::new(&self.key, bytes, self.rounds.offset);
        payloads.filter_map(|payload| wire::decode(bytes[payload].get(ROUND_BYTES..)?).ok())
    }
}

/// Payloads of the whole records in a part of a segment that starts at offset `base`.
struct Records<'a> {
    key: &'a Key,
    bytes: &'a [u8],
    base: u64,
    at: usize,
    damaged_bytes: usize,
}

impl<'a> Records<'a> {
    fn new(key: &'a Key, bytes: &'a [u8], base: u64) -> Self {
        Self { key, bytes, base, at: 0, damaged_bytes: 0 }
    }

    fn payload_at(&self, at: usize) -> Option<Range<usize>> {
        let header = self.bytes.get(at..at + RECORD_HEADER_BYTES)?;
        let header = RecordHeader::parse(self.key, header, self.base + at as u64).ok()?;
        let start = at + RECORD_HEADER_BYTES;
        let payload = start..start + header.length();
        header.verify(self.key, self.bytes.get(payload.clone())?).ok()?;
        Some(payload)
    }
}

impl Iterator for Records<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let mut at = self.at;
        while at < self.bytes.len() {
            if let Some(payload) = self.payload_at(at) {
                self.damaged_bytes += at - self.at;
                self.at = payload.end;
                return Some(payload);
            }
            at = segment::find_marker(self.bytes, at + 1).unwrap_or(self.bytes.len());
        }
        self.damaged_bytes += self.bytes.len() - self.at;
        self.at = self.bytes.len();
        None
    }
}

/// Segment files by sequence number, ascending.
fn list(directory: &Path) -> Result<Vec<(u64, PathBuf)>, StoreError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(StoreError::io("list", directory))? {
        let path = entry.map_err(StoreError::io("list", directory))?.path();
        let stem = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".trace"));
        if let Some(sequence) = stem.and_then(|stem| stem.parse().ok()) {
            found.push((sequence, path));
        }
    }
    found.sort_unstable();
    Ok(found)
}
