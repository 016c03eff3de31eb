//! Opening a log: finds its segments, and cuts what an interrupted write left.

use super::{Segment, Settings};
use crate::StoreError;
use crate::directory::sync_directory;
use crate::probe::Step;
use crate::segment::{self, HEADER_BYTES, Header, Key, TailState};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Sequence numbers of the segment files, in ascending order without gaps.
pub(super) fn list(settings: &Settings) -> Result<Vec<u64>, StoreError> {
    let directory = &settings.directory;
    let mut sequences = Vec::new();
    for entry in fs::read_dir(directory).map_err(StoreError::io("list", directory))? {
        let entry = entry.map_err(StoreError::io("list", directory))?;
        let name = entry.file_name();
        let number: Option<u64> =
            name.to_str().and_then(|name| name.strip_suffix(".log")).and_then(|number| number.parse().ok());
        sequences.extend(number);
    }
    sequences.sort_unstable();
    // The oldest segments may have been deleted.
    let first = sequences.first().copied().unwrap_or(0);
    for (&sequence, expected) in sequences.iter().zip(first..) {
        if sequence != expected {
            return Err(settings.damaged(&settings.path(expected), 0, "the segment is missing"));
        }
    }
    Ok(sequences)
}

/// Removes the last segment if its creation was interrupted. It has no records then, because the header is
/// synced first.
pub(super) fn remove_incomplete_segment(settings: &Settings, sequence: u64) -> Result<bool, StoreError> {
    let path = settings.path(sequence);
    let length = fs::metadata(&path).map_err(StoreError::io("read", &path))?.len();
    if length > HEADER_BYTES as u64 {
        return Ok(false);
    }
    let bytes = fs::read(&path).map_err(StoreError::io("read", &path))?;
    if Header::decode(&bytes).is_ok() {
        return Ok(false);
    }
    tracing::warn!(file = %path.display(), length, "removed a segment with an incomplete header");
    settings.probe("remove", &path, &Step::Remove { path: &path })?;
    fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
    settings.probe("sync the directory of", &path, &Step::SyncDirectory { path: &settings.directory })?;
    sync_directory(&settings.directory)?;
    Ok(true)
}

pub(super) fn read_header(settings: &Settings, sequence: u64) -> Result<Segment, StoreError> {
    let path = settings.path(sequence);
    let file = File::open(&path).map_err(StoreError::io("open", &path))?;
    let mut bytes = [0; HEADER_BYTES];
    let (header, key) = match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => Header::decode(&bytes).map_err(|problem| settings.damaged(&path, 0, problem))?,
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            return Err(settings.damaged(&path, 0, "its header is incomplete"));
        }
        Err(error) => return Err(StoreError::io("read", &path)(error)),
    };
    if header.identity() != settings.identity {
        return Err(StoreError::OtherChain { path, found: header.identity(), expected: settings.identity });
    }
    if header.kind != settings.kind || header.sequence != sequence {
        let problem = format!("it is segment {} of the {:?} log, in a wrong place", header.sequence, header.kind);
        return Err(settings.damaged(&path, 0, problem));
    }
    Ok(Segment { header, key })
}

/// Cuts the last segment after its last whole record, if the rest can be a torn tail. Returns the number of
/// bytes cut.
pub(super) fn cut_tail(settings: &Settings, path: &Path, key: &Key) -> Result<u64, StoreError> {
    let bytes = fs::read(path).map_err(StoreError::io("read", path))?;
    let mut offset = HEADER_BYTES;
    let flaw = loop {
        if offset == bytes.len() {
            return Ok(0);
        }
        match segment::record_at(key, &bytes, offset) {
            Ok(record) => offset = record.payload.end,
            Err(flaw) => break flaw,
        }
    };
    if let TailState::Damaged { witness } = segment::classify_tail(key, &bytes, offset) {
        let problem = format!("{flaw}, but records written after it was synced follow at byte {witness}");
        return Err(settings.damaged(path, offset, problem));
    }
    let cut = (bytes.len() - offset) as u64;
    tracing::warn!(file = %path.display(), offset, cut, %flaw, "truncated a torn tail");
    settings.probe("cut", path, &Step::Cut { path, length: offset as u64 })?;
    let file = File::options().write(true).open(path).map_err(StoreError::io("open", path))?;
    file.set_len(offset as u64).map_err(StoreError::io("cut", path))?;
    settings.probe("sync", path, &Step::Sync { path })?;
    file.sync_all().map_err(StoreError::io("sync", path))?;
    Ok(cut)
}
