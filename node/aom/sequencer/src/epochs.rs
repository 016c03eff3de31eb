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
        let exists = directory.is_dir();
        let created = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        created.map_err(StartError::io("create", directory.display()))?;
        if let Some(parent) = directory.parent().filter(|parent| !exists && !parent.as_os_str().is_empty()) {
            sync_directory(parent)?;
        }
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

    /// Records epochs as used, durably. Fails without a change if one of them is not newer than the recorded one.
    pub fn use_epochs(&mut self, epochs: &[GroupEpoch]) -> Result<(), StartError> {
        let mut used = self.used.clone();
        for &GroupEpoch { chain_id, group, epoch } in epochs {
            if let Some(used) = used.insert((chain_id, group), epoch).filter(|used| *used >= epoch) {
                return Err(StartError::EpochUsed { chain_id, group, epoch, used });
            }
        }
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

fn read(path: &Path) -> Result<BTreeMap<(u64, u32), u32>, StartError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(StartError::io("read", path.display())(error)),
    };
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

    fn used(result: Result<(), StartError>) -> Option<u32> {
        match result {
            Ok(()) => None,
            Err(StartError::EpochUsed { used, .. }) => Some(used),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn epochs_are_used_once() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let mut marks = EpochMarks::open(&data).unwrap();
        assert_eq!(used(marks.use_epochs(&[epoch(1, 0), epoch(2, 5)])), None);
        assert_eq!(used(marks.use_epochs(&[epoch(1, 0)])), Some(0));
        // One refused group refuses all of them, and records nothing.
        assert_eq!(used(marks.use_epochs(&[epoch(1, 1), epoch(2, 4)])), Some(5));
        assert_eq!(used(marks.use_epochs(&[epoch(1, 1)])), None);
        assert!(matches!(EpochMarks::open(&data), Err(StartError::Locked { .. })));
        drop(marks);
        let mut marks = EpochMarks::open(&data).unwrap();
        assert_eq!(used(marks.use_epochs(&[epoch(2, 5)])), Some(5));
        assert_eq!(used(marks.use_epochs(&[epoch(1, 1)])), Some(1));
        assert_eq!(used(marks.use_epochs(&[epoch(1, u32::MAX)])), None);
        assert_eq!(used(marks.use_epochs(&[epoch(1, u32::MAX)])), Some(u32::MAX));
        let other_chain = GroupEpoch { chain_id: 87, group: 2, epoch: 5 };
        assert_eq!(used(marks.use_epochs(&[other_chain])), None);
    }

    #[test]
    fn damaged_records_are_refused() {
        for (text, line) in [("86 1\n", 1), ("86 1 2\n86 1 3\n", 2), ("86 1 2 3\n", 1), ("86 1 2\n\n", 2), ("x 1 2\n", 1)] {
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
        assert_eq!(used(marks.use_epochs(&[epoch(1, 0)])), None);
    }
}
