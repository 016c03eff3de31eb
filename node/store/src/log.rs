//! Log: segment files in a directory, with one writer that appends groups and any number of readers.

mod opening;

use crate::directory::sync_directory;
use crate::probe::{Probe, Step};
use crate::segment::{self, HEADER_BYTES, Header, Key, LogKind, MAX_RECORD_BYTES, RECORD_HEADER_BYTES, RecordHeader};
use crate::{Identity, StoreError};
use borsh::{BorshDeserialize, BorshSerialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Position of a record, or of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub(crate) struct Position {
    pub segment: u64,
    pub offset: u64,
}

impl Position {
    /// Position after a record at this position.
    pub(crate) fn after(self, payload: usize) -> Self {
        Self { offset: self.offset + (RECORD_HEADER_BYTES + payload) as u64, ..self }
    }
}

/// Settings of a log.
pub(crate) struct Settings {
    pub kind: LogKind,
    pub directory: PathBuf,
    pub identity: Identity,
    pub segment_bytes: u64,
    /// True if a commit waits for `fdatasync`.
    pub sync: bool,
    pub probe: Option<Arc<dyn Probe>>,
}

impl Settings {
    fn path(&self, sequence: u64) -> PathBuf {
        self.directory.join(format!("{sequence:012}.log"))
    }

    fn probe(&self, action: &'static str, path: &Path, step: &Step<'_>) -> Result<(), StoreError> {
        self.probe.as_ref().map_or(Ok(()), |probe| probe.before(step)).map_err(StoreError::io(action, path))
    }

    fn damaged(&self, path: &Path, offset: usize, problem: impl ToString) -> StoreError {
        let advice = match self.kind {
            LogKind::Safety => {
                "delete safety/; the node then does not vote until it has learned from a quorum what it signed last. Do not \
                 restore safety/ from a backup: an older copy lacks the newest signatures"
            }
            LogKind::Blocks | LogKind::Trace => BLOCKS_ADVICE,
        };
        StoreError::Damaged { path: path.into(), offset: offset as u64, problem: problem.to_string(), advice }
    }
}

pub(crate) const BLOCKS_ADVICE: &str = "restore the file from a backup, or, to fetch the chain again from peers, delete \
                                        blocks/, state/ and VERSION and keep keys/ and safety/";

struct Segment {
    header: Header,
    key: Key,
}

/// Reads records by position. Clones share the list of segments with the writer.
#[derive(Clone)]
pub(crate) struct LogReader {
    settings: Arc<Settings>,
    segments: Arc<RwLock<BTreeMap<u64, Segment>>>,
}

impl LogReader {
    fn segments(&self) -> RwLockReadGuard<'_, BTreeMap<u64, Segment>> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn segments_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<u64, Segment>> {
        self.segments.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, sequence: u64) -> Option<Key> {
        self.segments().get(&sequence).map(|segment| segment.key)
    }

    /// Payload of the record at `position`.
    pub(crate) fn read(&self, position: Position) -> Result<Vec<u8>, StoreError> {
        let (key, header, payload) = self.read_start(position, usize::MAX)?;
        header.verify(&key, &payload).map_err(|flaw| self.damaged(position, &flaw))?;
        Ok(payload)
    }

    /// Reads at most `limit` bytes from the start of the payload. They are *unchecked*, because the checksum
    /// covers the whole payload: use it only for content that can be verified by itself.
    pub(crate) fn read_unchecked(&self, position: Position, limit: usize) -> Result<Vec<u8>, StoreError> {
        self.read_start(position, limit).map(|(.., payload)| payload)
    }

    fn read_start(&self, position: Position, limit: usize) -> Result<(Key, RecordHeader, Vec<u8>), StoreError> {
        let path = self.settings.path(position.segment);
        let key = self.key(position.segment);
        let key = key.ok_or_else(|| self.damaged(position, &"the segment is not part of the log"))?;
        let file = File::open(&path).map_err(StoreError::io("open", &path))?;
        let mut header = [0; RECORD_HEADER_BYTES];
        let short = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.damaged(position, &segment::RecordError::Incomplete),
            _ => StoreError::io("read", &path)(error),
        };
        file.read_exact_at(&mut header, position.offset).map_err(short)?;
        let header = RecordHeader::parse(&key, &header, position.offset).map_err(|flaw| self.damaged(position, &flaw))?;
        let mut payload = vec![0; header.length().min(limit)];
        file.read_exact_at(&mut payload, position.offset + RECORD_HEADER_BYTES as u64).map_err(short)?;
        Ok((key, header, payload))
    }

    fn damaged(&self, position: Position, problem: &dyn ToString) -> StoreError {
        self.settings.damaged(&self.settings.path(position.segment), position.offset as usize, problem.to_string())
    }

    /// All records from `position` on; the default position means the oldest record.
    pub(crate) fn records_from(&self, position: Position) -> Records {
        Records { log: self.clone(), next: position, loaded: None }
    }

    /// Lowest height at which the log can have a block.
    pub(crate) fn first_height(&self) -> u64 {
        self.segments().values().next().map_or(0, |segment| segment.header.base)
    }

    /// Oldest segment, if each of its blocks is below a height, and the height from which the log has blocks without it. `None`: it has
    /// others, or is the active one.
    pub(crate) fn oldest_below(&self, height: u64) -> Option<(u64, u64)> {
        let segments = self.segments();
        let next = segments.values().nth(1).filter(|next| next.header.base <= height)?;
        Some((next.header.sequence - 1, next.header.base))
    }

    /// Start of the segment that would contain the block at `height`.
    pub(crate) fn segment_of(&self, height: u64) -> Position {
        let segments = self.segments();
        let holder = segments.values().rev().find(|segment| segment.header.base <= height);
        Position { segment: holder.map_or(0, |segment| segment.header.sequence), offset: 0 }
    }
}

/// One record read in order.
pub(crate) struct LogRecord {
    pub at: Position,
    pub after: Position,
    pub payload: Vec<u8>,
}

/// Iterates over the records of a log. The tail was cut when the log was opened, so any incomplete record is
/// damage.
pub(crate) struct Records {
    log: LogReader,
    next: Position,
    loaded: Option<Loaded>,
}

struct Loaded {
    sequence: u64,
    key: Key,
    bytes: Vec<u8>,
}

impl Records {
    pub(crate) fn next(&mut self) -> Result<Option<LogRecord>, StoreError> {
        loop {
            if self.loaded.is_none() && !self.load()? {
                return Ok(None);
            }
            let Some(loaded) = &self.loaded else { continue };
            let offset = self.next.offset as usize;
            if offset == loaded.bytes.len() {
                self.next = Position { segment: loaded.sequence + 1, offset: 0 };
                self.loaded = None;
                continue;
            }
            let record = segment::record_at(&loaded.key, &loaded.bytes, offset)
                .map_err(|flaw| self.log.settings.damaged(&self.log.settings.path(loaded.sequence), offset, flaw))?;
            let payload = loaded.bytes[record.payload].to_vec();
            let at = self.next;
            self.next = at.after(payload.len());
            return Ok(Some(LogRecord { at, after: self.next, payload }));
        }
    }

    /// Loads the segment of `next`, or the oldest one after it; returns false at the end of the log.
    fn load(&mut self) -> Result<bool, StoreError> {
        let segments = self.log.segments();
        let Some((&sequence, segment)) = segments.range(self.next.segment..).next() else { return Ok(false) };
        let key = segment.key;
        drop(segments);
        if sequence != self.next.segment {
            self.next = Position { segment: sequence, offset: 0 };
        }
        self.next.offset = self.next.offset.max(HEADER_BYTES as u64);
        let path = self.log.settings.path(sequence);
        let bytes = fs::read(&path).map_err(StoreError::io("read", &path))?;
        if self.next.offset > bytes.len() as u64 {
            return Err(self.log.settings.damaged(&path, bytes.len(), "the file is shorter than it was"));
        }
        self.loaded = Some(Loaded { sequence, key, bytes });
        Ok(true)
    }
}

/// Result of opening a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// True if there was no segment and the first one was created.
    pub created: bool,
    /// Bytes of a torn tail that were cut.
    pub cut_bytes: u64,
}

/// Writer of a log.
pub(crate) struct Log {
    reader: LogReader,
    file: File,
    path: PathBuf,
    sequence: u64,
    key: Key,
    /// Length of the active segment in bytes; all of it is durable.
    length: u64,
    /// Records appended since the last commit.
    group: Vec<u8>,
}

impl Log {
    /// Opens the log and cuts a torn tail; creates the first segment, with `base`, if there is none.
    pub(crate) fn open(settings: Settings, base: u64, history_lost_if_created: bool) -> Result<(Self, Found), StoreError> {
        let reader = LogReader { settings: Arc::new(settings), segments: Arc::default() };
        let mut found = Found::default();
        let mut sequences = opening::list(&reader.settings)?;
        let mut first_sequence = 0;
        if let Some(&last) = sequences.last()
            && opening::remove_incomplete_segment(&reader.settings, last)?
        {
            first_sequence = last;
            sequences.pop();
        }
        for &sequence in &sequences {
            let segment = opening::read_header(&reader.settings, sequence)?;
            reader.segments_mut().insert(sequence, segment);
        }
        let Some(&last) = sequences.last() else {
            found.created = true;
            let header = reader.header(first_sequence, base, history_lost_if_created);
            return Ok((Self::create(reader, header)?, found));
        };
        let key = reader.key(last).expect("the segment was just listed");
        let path = reader.settings.path(last);
        found.cut_bytes = opening::cut_tail(&reader.settings, &path, &key)?;
        let file = File::options().read(true).write(true).open(&path).map_err(StoreError::io("open", &path))?;
        let length = file.metadata().map_err(StoreError::io("read", &path))?.len();
        Ok((Self { reader, file, path, sequence: last, key, length, group: Vec::new() }, found))
    }

    fn create(reader: LogReader, header: Header) -> Result<Self, StoreError> {
        let settings = &reader.settings;
        let path = settings.path(header.sequence);
        let (bytes, key) = header.encode();
        settings.probe("create", &path, &Step::Create { path: &path })?;
        let file =
            File::options().read(true).write(true).create_new(true).open(&path).map_err(StoreError::io("create", &path))?;
        settings.probe("write", &path, &Step::Write { path: &path, offset: 0, bytes: &bytes })?;
        file.write_all_at(&bytes, 0).map_err(StoreError::io("write", &path))?;
        settings.probe("sync", &path, &Step::Sync { path: &path })?;
        file.sync_all().map_err(StoreError::io("sync", &path))?;
        settings.probe("sync the directory of", &path, &Step::SyncDirectory { path: &settings.directory })?;
        sync_directory(&settings.directory)?;
        let sequence = header.sequence;
        reader.segments_mut().insert(sequence, Segment { header, key });
        Ok(Self { file, path, sequence, key, length: bytes.len() as u64, group: Vec::new(), reader })
    }

    pub(crate) fn reader(&self) -> LogReader {
        self.reader.clone()
    }

    /// True if the header of the active segment marks lost history.
    pub(crate) fn history_lost(&self) -> bool {
        self.reader.segments().get(&self.sequence).is_some_and(|segment| segment.header.history_lost)
    }

    /// Bytes appended since the last commit.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.group.len()
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Position of the next group: everything before it is durable.
    pub(crate) fn end(&self) -> Position {
        Position { segment: self.sequence, offset: self.length }
    }

    /// Restarts the log with an empty segment whose header marks lost history. The oldest segments are
    /// removed first, so that a crash in between leaves a log that still ends too early, or none.
    pub(crate) fn restart_empty(&mut self) -> Result<(), StoreError> {
        self.group.clear();
        self.remove_through(self.sequence)?;
        self.remove(self.sequence)?;
        let header = self.reader.header(self.sequence + 1, 0, true);
        *self = Self::create(self.reader.clone(), header)?;
        Ok(())
    }

    /// Adds a record to the group; `write` appends its payload. If the record starts a new segment, `base`
    /// and `history_lost` go into its header. Returns the position of the record and the length of its
    /// payload.
    pub(crate) fn append(
        &mut self,
        base: u64,
        history_lost: bool,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(Position, usize), StoreError> {
        if self.group.is_empty() && self.length >= self.reader.settings.segment_bytes {
            let header = self.reader.header(self.sequence + 1, base, history_lost);
            *self = Self::create(self.reader.clone(), header)?;
        }
        let start = self.group.len();
        self.group.resize(start + RECORD_HEADER_BYTES, 0);
        write(&mut self.group);
        let size = self.group.len() - start - RECORD_HEADER_BYTES;
        if size > MAX_RECORD_BYTES {
            self.group.truncate(start);
            return Err(StoreError::RecordSize { size, limit: MAX_RECORD_BYTES });
        }
        segment::seal_record(&self.key, &mut self.group, self.length, start);
        Ok((Position { segment: self.sequence, offset: self.length + start as u64 }, size))
    }

    /// Makes the group durable. After an error the log must not be used any more.
    pub(crate) fn commit(&mut self) -> Result<(), StoreError> {
        if self.group.is_empty() {
            return Ok(());
        }
        let (settings, path) = (&self.reader.settings, self.path.as_path());
        settings.probe("write", path, &Step::Write { path, offset: self.length, bytes: &self.group })?;
        self.file.write_all_at(&self.group, self.length).map_err(StoreError::io("write", path))?;
        if settings.sync {
            settings.probe("sync", path, &Step::Sync { path })?;
            self.file.sync_data().map_err(StoreError::io("sync", path))?;
        }
        self.length += self.group.len() as u64;
        self.group.clear();
        // Releases the memory of a huge group.
        self.group.shrink_to(1 << 20);
        Ok(())
    }

    /// Truncates the log at `end`, durably. Uncommitted records are dropped too.
    pub(crate) fn cut(&mut self, end: Position) -> Result<(), StoreError> {
        self.group.clear();
        let later: Vec<u64> = self.reader.segments().range(end.segment + 1..).map(|(&sequence, _)| sequence).collect();
        // Newest first, because a crash could otherwise leave a gap.
        for sequence in later.into_iter().rev() {
            self.remove(sequence)?;
        }
        let settings = self.reader.settings.clone();
        let (path, key) = (settings.path(end.segment), self.reader.key(end.segment));
        self.key = key.ok_or_else(|| self.reader.damaged(end, &"the segment is not part of the log"))?;
        self.file = File::options().read(true).write(true).open(&path).map_err(StoreError::io("open", &path))?;
        settings.probe("cut", &path, &Step::Cut { path: &path, length: end.offset })?;
        self.file.set_len(end.offset).map_err(StoreError::io("cut", &path))?;
        if settings.sync {
            settings.probe("sync", &path, &Step::Sync { path: &path })?;
            self.file.sync_all().map_err(StoreError::io("sync", &path))?;
        }
        (self.path, self.sequence, self.length) = (path, end.segment, end.offset);
        Ok(())
    }

    fn remove(&self, sequence: u64) -> Result<(), StoreError> {
        let settings = &self.reader.settings;
        let path = settings.path(sequence);
        settings.probe("remove", &path, &Step::Remove { path: &path })?;
        fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
        settings.probe("sync the directory of", &path, &Step::SyncDirectory { path: &settings.directory })?;
        sync_directory(&settings.directory)?;
        self.reader.segments_mut().remove(&sequence);
        Ok(())
    }

    /// Deletes the oldest segments up to and including `sequence`, except the active one. Each deletion is
    /// made durable before the next, because a crash could otherwise leave a gap.
    pub(crate) fn remove_through(&mut self, sequence: u64) -> Result<(), StoreError> {
        let oldest: Vec<u64> = self.reader.segments().range(..=sequence).map(|(&sequence, _)| sequence).collect();
        for sequence in oldest.into_iter().filter(|&sequence| sequence < self.sequence) {
            self.remove(sequence)?;
        }
        Ok(())
    }
}

impl LogReader {
    fn header(&self, sequence: u64, base: u64, history_lost: bool) -> Header {
        let Identity { chain_id, genesis_hash } = self.settings.identity;
        let (kind, nonce) = (self.settings.kind, segment::fresh_nonce());
        Header { kind, chain_id, genesis_hash, sequence, base, history_lost, nonce }
    }
}

#[cfg(test)]
mod tests;
