//! Record of used epochs: the file `EPOCHS`, one line `CHAIN_ID GROUP EPOCH` for each group (Q5).
//!
//! The file is replaced as a whole: written under another name, synced, renamed, and then the directory is synced.

use crate::StartError;
use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, TryLockError},
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

const FILE_NAME: &str = "EPOCHS";
const LOCK_NAME: &str = "LOCK";

/// Epoch of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupEpoch {
    /// Chain.
    pub chain_id: u64,
    /// Group.
    pub group: u32,
    /// Epoch.
    pub epoch: u32,
}

/// The highest used epoch of each group, and a lock on the data directory until it is dropped.
#[derive(Debug)]
pub struct EpochMarks {
    directory: PathBuf,
    used: BTreeMap<(u64, u32), u32>,
    _lock: File,
}

impl EpochMarks {
    /// Locks a data directory, which it creates if necessary, and reads the record.
    pub fn open(directory: &Path) -> Result<Self, StartError> {
        create(directory)?;
        let path = directory.join(LOCK_NAME);
        let file = File::options().write(true).create(true).truncate(false).open(&path);
        let lock = file.map_err(StartError::io("open", path.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StartError::Locked { path }),
            Err(TryLockError::Error(error)) => return Err(StartError::io("lock", path.display())(error)),
        }
        let used = read(&directory.join(FILE_NAME))?;
        Ok(Self { directory: directory.to_owned(), used, _lock: lock })
    }

    /// Returns the highest used epoch of a group.
    pub fn used(&self, chain_id: u64, group: u32) -> Option<u32> {
        self.used.get(&(chain_id, group)).copied()
    }

    /// Records an epoch as used, durably. After an error the record on disk may have it or not.
    ///
    /// # Panics
    /// If the epoch is not above the recorded one.
    pub fn record(&mut self, epoch: GroupEpoch) -> Result<(), StartError> {
        let GroupEpoch { chain_id, group, epoch } = epoch;
        let mut used = self.used.clone();
        let before = used.insert((chain_id, group), epoch);
        assert!(before.is_none_or(|before| before < epoch), "invariant: no epoch is used twice (Q5)");
        self.write(&used)?;
        self.used = used;
        Ok(())
    }

    fn write(&self, used: &BTreeMap<(u64, u32), u32>) -> Result<(), StartError> {
        let text: String = used.iter().map(|((chain_id, group), epoch)| format!("{chain_id} {group} {epoch}\n")).collect();
        let draft = self.directory.join(format!("{FILE_NAME}.new"));
        let written = File::create(&draft).and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        written.map_err(StartError::io("write", draft.display()))?;
        fs::rename(&draft, self.directory.join(FILE_NAME)).map_err(StartError::io("rename", draft.display()))?;
        sync_directory(&self.directory)
    }
}

/// Creates a directory of mode 0700 and its ancestors, each durably: otherwise a crash could take the record with them.
fn create(directory: &Path) -> Result<(), StartError> {
    if directory.is_dir() {
        return Ok(());
    }
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create(parent)?;
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(StartError::io("create", directory.display())(error)),
        _ => sync_directory(parent),
    }
}

fn read(path: &Path) -> Result<BTreeMap<(u64, u32), u32>, StartError> {
    let text = match fs::read(path) {
        // Other bytes become characters that no line contains.
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(StartError::io("read", path.display())(error)),
    };
    // A cut line could have a lower epoch.
    if !text.ends_with('\n') {
        return Err(StartError::Damaged { path: path.to_owned(), line: text.lines().count().max(1) });
    }
    let mut used = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let damaged = || StartError::Damaged { path: path.to_owned(), line: index + 1 };
        let (group, epoch) = parse(line).ok_or_else(damaged)?;
        if used.insert(group, epoch).is_some() {
            return Err(damaged());
        }
    }
    Ok(used)
}

fn parse(line: &str) -> Option<((u64, u32), u32)> {
    let mut words = line.split(' ');
    let group = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let epoch = words.next()?.parse().ok()?;
    words.next().is_none().then_some((group, epoch))
}

fn sync_directory(path: &Path) -> Result<(), StartError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(StartError::io("sync", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(group: u32, epoch: u32) -> GroupEpoch {
        GroupEpoch { chain_id: 86, group, epoch }
    }

    #[test]
    fn marks_survive() {
        let directory = tempfile::tempdir().unwrap();
        // Neither the directory nor its parents exist.
        let data = directory.path().join("a/b/data");
        let mut marks = EpochMarks::open(&data).unwrap();
        assert_eq!(marks.used(86, 1), None);
        for used in [epoch(1, 0), epoch(2, 5), epoch(1, u32::MAX), GroupEpoch { chain_id: 87, ..epoch(2, 3) }] {
            marks.record(used).unwrap();
        }
        assert!(matches!(EpochMarks::open(&data), Err(StartError::Locked { .. })));
        drop(marks);
        let marks = EpochMarks::open(&data).unwrap();
        let used = [(86, 1), (86, 2), (87, 2), (87, 1)].map(|(chain_id, group)| marks.used(chain_id, group));
        assert_eq!(used, [Some(u32::MAX), Some(5), Some(3), None]);
    }

    #[test]
    #[should_panic(expected = "no epoch is used twice")]
    fn epochs_are_used_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut marks = EpochMarks::open(directory.path()).unwrap();
        marks.record(epoch(1, 3)).unwrap();
        let _ = marks.record(epoch(1, 3));
    }

    /// A file in the place of a directory, at each level.
    #[test]
    fn directory_must_be_possible() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), "").unwrap();
        for data in ["file", "file/data", "file/a/data"] {
            let error = EpochMarks::open(&directory.path().join(data)).unwrap_err().to_string();
            assert!(error.contains("file"), "{error}");
        }
    }

    #[test]
    fn damaged_records_are_refused() {
        for (text, line) in [
            (&b"86 1\n"[..], 1),
            (b"86 1 2\n86 1 3\n", 2),
            (b"86 1 2 3\n", 1),
            (b"86 1 2\n\n", 2),
            (b"x 1 2\n", 1),
            (b"86 1 4294967296\n", 1),
            (b"86 1 -1\n", 1),
            // Cut: the epoch could be 23.
            (b"86 1 2", 1),
            (b"86 1 2\n86 2 2", 2),
            // A crash of the file system can leave an empty file, or other bytes.
            (b"", 1),
            (b"86 1 2\n86 2 \xff\n", 2),
            (b"\0\0\0\0\0\0\0\0", 1),
        ] {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join(FILE_NAME), text).unwrap();
            match EpochMarks::open(directory.path()) {
                Err(StartError::Damaged { line: found, .. }) => assert_eq!(found, line, "{text:?}"),
                other => panic!("{text:?}: {other:?}"),
            }
        }
    }

    /// A crash before the rename leaves a draft, which counts for nothing.
    #[test]
    fn drafts_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("EPOCHS.new"), "86 1").unwrap();
        let mut marks = EpochMarks::open(directory.path()).unwrap();
        assert_eq!(marks.used(86, 1), None);
        marks.record(epoch(1, 0)).unwrap();
    }
}
