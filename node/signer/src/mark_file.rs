//! The file `MARKS`: two records of 20 KiB, written in turn.
//!
//! ```text
//! version u8 │ sequence u64, little-endian │ borsh of Record │ zeros │ blake3 of everything before, 32 bytes
//! ```
//!
//! A record is synced before anything that relies on it leaves. A write that a crash interrupts damages only the older record,
//! so one damaged record is normal. The file appears complete: it is written as `MARKS.new` and renamed.
//!
//! A disk that damages the newer record later, without an error, brings the older one back. No file can tell this from an
//! interrupted write. Use a disk or file system with checksums.

use crate::marks::Record;
use borsh::BorshDeserialize;
use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Name of the file in the directory of marks.
pub const FILE_NAME: &str = "MARKS";

const LOCK_NAME: &str = "LOCK";
const VERSION: u8 = 1;
/// A multiple of 4 KiB that holds the largest record, which has 17.4 KiB.
const RECORD_BYTES: usize = 20 * 1024;
const CHECKSUM_BYTES: usize = 32;
const RECORDS: u64 = 2;

/// Why marks cannot be read or written. Nothing may be signed then.
#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    /// Another signer uses the directory.
    #[error("lock {path}: another signer uses this directory; stop it first")]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// No record is intact.
    #[error(
        "read {path}: expected an intact record, got two damaged ones; move the file away and start with --from-epoch N, where N is an epoch in which these keys have signed nothing"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// A newer program wrote the file.
    #[error("read {path}: expected version {VERSION}, got {found}; start the program that wrote the file, or a newer one")]
    Version {
        /// The file.
        path: PathBuf,
        /// Version of the record.
        found: u8,
    },
    /// An earlier write failed, so the content of the file is unknown.
    #[error("write {path}: an earlier write failed; check the disk and restart the signer")]
    Failed {
        /// The file.
        path: PathBuf,
    },
    /// The operating system reports an error.
    #[error("{operation} {path}: {source}")]
    Io {
        /// Failed operation.
        operation: &'static str,
        /// File or directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

impl MarkError {
    fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { operation, path: path.to_owned(), source }
    }
}

/// The file, and a lock on its directory until it is dropped.
#[derive(Debug)]
pub struct MarkFile {
    directory: PathBuf,
    path: PathBuf,
    /// `None` until the first record is written.
    file: Option<File>,
    /// Sequence number of the newest record.
    sequence: u64,
    /// After a failed sync, a later one may succeed without the lost bytes. So no record is written any more.
    has_failed: bool,
    _lock: File,
}

impl MarkFile {
    /// Locks a directory, which it creates if necessary, and reads the newest record. The record is `None` only if the file does
    /// not exist.
    pub fn open(directory: &Path) -> Result<(Self, Option<Record>), MarkError> {
        let exists = directory.is_dir();
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory).map_err(MarkError::io("create", directory))?;
        if let Some(parent) = directory.parent().filter(|parent| !exists && !parent.as_os_str().is_empty()) {
            sync_directory(parent)?;
        }
        let lock = lock(&directory.join(LOCK_NAME))?;
        let path = directory.join(FILE_NAME);
        let (file, sequence, record) = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(mut file) => {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).map_err(MarkError::io("read", &path))?;
                let (sequence, record) = newest(&bytes, &path)?;
                (Some(file), sequence, Some(record))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (None, 0, None),
            Err(error) => return Err(MarkError::io("open", &path)(error)),
        };
        Ok((Self { directory: directory.to_owned(), path, file, sequence, has_failed: false, _lock: lock }, record))
    }

    /// Writes a record over the older one, durably. After an error, all further writes fail.
    pub fn write(&mut self, record: &Record) -> Result<(), MarkError> {
        if std::mem::replace(&mut self.has_failed, true) {
            return Err(MarkError::Failed { path: self.path.clone() });
        }
        let sequence = self.sequence + 1;
        match &self.file {
            Some(file) => {
                let offset = sequence % RECORDS * RECORD_BYTES as u64;
                file.write_all_at(&encode(sequence, record), offset).map_err(MarkError::io("write", &self.path))?;
                file.sync_data().map_err(MarkError::io("sync", &self.path))?;
            }
            None => self.file = Some(self.create(record)?),
        }
        (self.sequence, self.has_failed) = (sequence, false);
        Ok(())
    }

    /// Both records of a new file are the first one.
    fn create(&self, record: &Record) -> Result<File, MarkError> {
        let draft = self.directory.join(format!("{FILE_NAME}.new"));
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(MarkError::io("remove", &draft)(error)),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let mut file = options.open(&draft).map_err(MarkError::io("create", &draft))?;
        let records = [encode(0, record), encode(1, record)].concat();
        file.write_all(&records).map_err(MarkError::io("write", &draft))?;
        file.sync_all().map_err(MarkError::io("sync", &draft))?;
        fs::rename(&draft, &self.path).map_err(MarkError::io("rename", &draft))?;
        sync_directory(&self.directory)?;
        Ok(file)
    }
}

fn lock(path: &Path) -> Result<File, MarkError> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path).map_err(MarkError::io("open", path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(MarkError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(MarkError::io("lock", path)(error)),
    }
}

fn sync_directory(path: &Path) -> Result<(), MarkError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(MarkError::io("sync the directory", path))
}

/// Returns the newest intact record and its sequence number.
fn newest(bytes: &[u8], path: &Path) -> Result<(u64, Record), MarkError> {
    let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
    let mut newest = None;
    // This program writes no file of another length.
    if records.len() as u64 == RECORDS && rest.is_empty() {
        for (place, record) in (0..RECORDS).zip(records) {
            match decode(record) {
                Decoded::Intact(sequence, record) if sequence % RECORDS == place => {
                    newest = newest.filter(|(other, _)| *other > sequence).or(Some((sequence, *record)));
                }
                Decoded::OtherVersion(found) => return Err(MarkError::Version { path: path.to_owned(), found }),
                Decoded::Intact(..) | Decoded::Damaged => {}
            }
        }
    }
    newest.ok_or_else(|| MarkError::Damaged { path: path.to_owned() })
}

enum Decoded {
    Intact(u64, Box<Record>),
    /// Intact, but of another version, whose content this program cannot know.
    OtherVersion(u8),
    Damaged,
}

fn encode(sequence: u64, record: &Record) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    let content = borsh::to_vec(&(VERSION, sequence, record)).expect("invariant: writing into memory does not fail");
    let (padded, checksum) = bytes.split_at_mut(RECORD_BYTES - CHECKSUM_BYTES);
    let place = padded.get_mut(..content.len()).expect("invariant: the largest record fits");
    place.copy_from_slice(&content);
    checksum.copy_from_slice(corniche_crypto::digest(padded).as_slice());
    bytes
}

fn decode(bytes: &[u8; RECORD_BYTES]) -> Decoded {
    let (content, checksum) = bytes.split_at(RECORD_BYTES - CHECKSUM_BYTES);
    if corniche_crypto::digest(content).as_slice() != checksum {
        return Decoded::Damaged;
    }
    let (version, mut content) = (content[0], &content[1..]);
    if version != VERSION {
        return Decoded::OtherVersion(version);
    }
    match <(u64, Box<Record>)>::deserialize(&mut content) {
        Ok((sequence, record)) if content.iter().all(|byte| *byte == 0) => Decoded::Intact(sequence, record),
        _ => Decoded::Damaged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn record(round: u64) -> Record {
        Record::with_round(round)
    }

    /// A file after records of these rounds.
    fn written(rounds: &[u64]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let (mut file, found) = MarkFile::open(directory.path()).unwrap();
        assert_eq!(found, None);
        rounds.iter().for_each(|round| file.write(&record(*round)).unwrap());
        let path = directory.path().join(FILE_NAME);
        (directory, path)
    }

    fn reopened(directory: &Path) -> Result<Option<Record>, MarkError> {
        MarkFile::open(directory).map(|(_, found)| found)
    }

    #[test]
    fn newest_record_counts() {
        for last in 1..6 {
            let rounds: Vec<u64> = (1..=last).collect();
            let (directory, path) = written(&rounds);
            assert_eq!(reopened(directory.path()).unwrap(), Some(record(last)));
            let metadata = fs::metadata(&path).unwrap();
            assert_eq!((metadata.len(), metadata.permissions().mode() & 0o777), (40_960, 0o600));
        }
    }

    #[test]
    fn largest_record_fits() {
        let directory = tempfile::tempdir().unwrap();
        let (mut file, _) = MarkFile::open(directory.path()).unwrap();
        let largest = Record::largest();
        (0..3).for_each(|_| file.write(&largest).unwrap());
        drop(file);
        let content = borsh::to_vec(&(VERSION, 0u64, &largest)).unwrap().len() + CHECKSUM_BYTES;
        assert_eq!((content, RECORD_BYTES), (17_830, 20_480));
        assert_eq!(reopened(directory.path()).unwrap(), Some(largest));
    }

    #[test]
    fn writing_continues_after_reopening() {
        let (directory, _) = written(&[1, 2, 3]);
        let (mut file, _) = MarkFile::open(directory.path()).unwrap();
        file.write(&record(4)).unwrap();
        drop(file);
        assert_eq!(reopened(directory.path()).unwrap(), Some(record(4)));
    }

    #[test]
    fn flipped_byte_loses_only_its_record() {
        let (_directory, path) = written(&[1, 2, 3]);
        let bytes = fs::read(&path).unwrap();
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            // Record 3 is in the second half.
            let expected = if place < RECORD_BYTES { 3 } else { 2 };
            assert_eq!(newest(&damaged, &path).unwrap(), (expected, record(expected)), "byte {place}");
        }
    }

    #[test]
    fn interrupted_write_leaves_last_record() {
        let (_directory, path) = written(&[1, 2]);
        let before = fs::read(&path).unwrap();
        let after = encode(3, &record(3));
        for length in 0..=RECORD_BYTES {
            let mut cut = before.clone();
            cut[RECORD_BYTES..RECORD_BYTES + length].copy_from_slice(&after[..length]);
            let expected = if length == RECORD_BYTES { 3 } else { 2 };
            assert_eq!(newest(&cut, &path).unwrap(), (expected, record(expected)), "{length} bytes");
        }
    }

    #[test]
    fn interrupted_creation_leaves_no_file() {
        let (directory, path) = written(&[1]);
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(directory.path().join("MARKS.new"), &bytes[..5_000]).unwrap();
        let (mut file, found) = MarkFile::open(directory.path()).unwrap();
        assert_eq!(found, None);
        file.write(&record(2)).unwrap();
        drop(file);
        assert_eq!(reopened(directory.path()).unwrap(), Some(record(2)));
    }

    #[test]
    fn damaged_file_is_never_fresh() {
        let (directory, path) = written(&[1, 2, 3]);
        let bytes = fs::read(&path).unwrap();
        let mut damaged = bytes.clone();
        (damaged[100], damaged[RECORD_BYTES + 100]) = (damaged[100] ^ 1, damaged[RECORD_BYTES + 100] ^ 1);
        let swapped = [&bytes[RECORD_BYTES..], &bytes[..RECORD_BYTES]].concat();
        for content in [damaged, Vec::new(), bytes[..RECORD_BYTES].to_vec(), [&bytes[..], &[0]].concat(), swapped] {
            fs::write(&path, content).unwrap();
            let error = reopened(directory.path()).unwrap_err();
            assert!(matches!(error, MarkError::Damaged { .. }), "{error}");
            assert!(error.to_string().contains("--from-epoch"));
        }
    }

    #[test]
    fn unknown_version_is_refused() {
        let (directory, path) = written(&[1, 2]);
        let mut bytes = fs::read(&path).unwrap();
        // An intact record of a newer program.
        bytes[0] = 2;
        let checksum = RECORD_BYTES - CHECKSUM_BYTES;
        let digest = corniche_crypto::digest(&bytes[..checksum]);
        bytes[checksum..RECORD_BYTES].copy_from_slice(digest.as_slice());
        fs::write(&path, bytes).unwrap();
        assert!(matches!(reopened(directory.path()), Err(MarkError::Version { found: 2, .. })));
    }

    #[test]
    fn directory_has_one_user() {
        let (directory, _) = written(&[1]);
        let first = MarkFile::open(directory.path()).unwrap();
        assert!(matches!(MarkFile::open(directory.path()), Err(MarkError::Locked { .. })));
        drop(first);
        assert_eq!(reopened(directory.path()).unwrap(), Some(record(1)));
    }

    #[test]
    fn failed_write_is_final() {
        let (directory, path) = written(&[1]);
        let (mut file, _) = MarkFile::open(directory.path()).unwrap();
        file.file = Some(File::open(&path).unwrap());
        assert!(matches!(file.write(&record(2)), Err(MarkError::Io { operation: "write", .. })));
        assert!(matches!(file.write(&record(3)), Err(MarkError::Failed { .. })));
        drop(file);
        assert_eq!(reopened(directory.path()).unwrap(), Some(record(1)));
    }

    #[test]
    fn record_has_fixed_encoding() {
        let bytes = encode(3, &record(4));
        assert_eq!((bytes[0], &bytes[1..9]), (1, &3u64.to_le_bytes()[..]));
        let digest = corniche_crypto::digest(&bytes);
        assert_eq!(
            digest.to_string(),
            "0x62e2c3b212190cc91752ff3033213cbe2d75c685e2bcb16ec70235d43287e77e",
            "changing the format needs a new version"
        );
    }
}
