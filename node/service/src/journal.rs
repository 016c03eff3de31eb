//! Journal of users' transactions that are not executed yet, kept over a restart.
//!
//! The file is appended before a user gets a response, so killing the process loses no acknowledged
//! transaction. It is not synced, so a power cut may. A record is a length (4 bytes, little endian), the
//! first 4 bytes of the digest of the rest, and the raw transaction. With [`DROPPED_FLAG`] in the length, the rest is
//! the hash of a transaction that left the pool unexecuted (replaced, evicted, expired) and must not return.
//! Records of executed transactions stay until they outweigh the others; at the next start admission refuses
//! them.
//!
//! Problems with this file never prevent a start: an unreadable file is moved aside, with a warning that
//! names it.

use corniche_crypto::VerifiedTransaction;
use corniche_types::{Address, B256, Bytes, keccak256};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Maximum bytes of kept transactions; further ones are only in the pool.
const MAX_BYTES: usize = 16 << 20;
/// Maximum bytes per sender, so that one cannot fill it for the others.
const MAX_BYTES_PER_SENDER: usize = 1 << 20;
/// Bytes of obsolete records at which the file is rewritten, if they also exceed the needed ones.
const SLACK_BYTES: usize = 1 << 20;
const HEADER_BYTES: usize = 8;
/// Flag in a record's length.
const DROPPED_FLAG: u32 = 1 << 31;

/// Journal file, and the records in it that are still needed.
pub struct Journal {
    path: PathBuf,
    /// `None` after a write error.
    file: Option<File>,
    /// Size of the file, and of its needed records.
    bytes: usize,
    needed_bytes: usize,
    needed_bytes_by_sender: BTreeMap<Address, usize>,
    /// By arrival.
    needed: BTreeMap<u64, (Address, Bytes)>,
    positions: BTreeMap<B256, u64>,
    next: u64,
}

impl Journal {
    /// Opens the journal of a data directory; returns its transactions. The caller submits them to admission
    /// again, and adds the accepted ones with [`Self::add`].
    pub fn open(data: &Path) -> (Self, Vec<Bytes>) {
        let path = data.join("pool.journal");
        let found = match fs::read(&path) {
            Ok(bytes) => {
                let (found, rest) = records(&bytes.into());
                if rest > 0 {
                    move_aside(&path, &format!("{rest} bytes at its end are no whole records"));
                }
                found
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                move_aside(&path, &format!("it cannot be read: {error}"));
                Vec::new()
            }
        };
        let mut journal = Self {
            path,
            file: None,
            bytes: 0,
            needed_bytes: 0,
            needed_bytes_by_sender: BTreeMap::new(),
            needed: BTreeMap::new(),
            positions: BTreeMap::new(),
            next: 0,
        };
        // Until admission has decided, all of them are needed.
        let written = journal.rewrite(&found);
        journal.check(written);
        (journal, found)
    }

    /// Deletes the journal of a data directory, so that no transaction of the last run returns.
    pub fn remove(data: &Path) -> io::Result<()> {
        match fs::remove_file(data.join("pool.journal")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Records a user's transaction that entered the pool.
    pub fn add(&mut self, transaction: &VerifiedTransaction) {
        let (raw, sender) = (transaction.transaction().raw(), transaction.sender());
        let length = raw.len() + HEADER_BYTES;
        let of_sender = self.needed_bytes_by_sender.get(&sender).copied().unwrap_or(0);
        let is_full = self.needed_bytes + length > MAX_BYTES || of_sender + length > MAX_BYTES_PER_SENDER;
        if is_full || self.positions.contains_key(&transaction.hash()) {
            return;
        }
        self.positions.insert(transaction.hash(), self.next);
        self.needed.insert(self.next, (sender, raw.clone()));
        self.next += 1;
        self.needed_bytes += length;
        self.needed_bytes_by_sender.insert(sender, of_sender + length);
        self.append(&record(raw));
    }

    /// Records that it was executed.
    pub fn executed(&mut self, hash: &B256) {
        if self.remove_needed(hash) {
            self.compact();
        }
    }

    /// Records that it left the pool unexecuted.
    pub fn dropped(&mut self, hash: &B256) {
        if self.remove_needed(hash) {
            self.append(&dropped_record(hash));
            self.compact();
        }
    }

    /// Returns true if it was needed.
    fn remove_needed(&mut self, hash: &B256) -> bool {
        let Some((sender, raw)) = self.positions.remove(hash).and_then(|position| self.needed.remove(&position)) else {
            return false;
        };
        let length = raw.len() + HEADER_BYTES;
        self.needed_bytes -= length;
        let of_sender = self.needed_bytes_by_sender.remove(&sender).unwrap_or(0).saturating_sub(length);
        if of_sender > 0 {
            self.needed_bytes_by_sender.insert(sender, of_sender);
        }
        true
    }

    fn append(&mut self, record: &[u8]) {
        self.bytes += record.len();
        let written = self.file.as_mut().map_or(Ok(()), |file| file.write_all(record));
        self.check(written);
    }

    /// Rewrites the file if most of it is obsolete.
    fn compact(&mut self) {
        let garbage = self.bytes - self.needed_bytes;
        if garbage >= SLACK_BYTES.max(self.needed_bytes) {
            let needed: Vec<Bytes> = self.needed.values().map(|(_, raw)| raw.clone()).collect();
            let written = self.rewrite(&needed);
            self.check(written);
        }
    }

    /// After a write error the node continues; a restart would lose only the transactions in the pool.
    fn check(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            let path = self.path.display();
            tracing::warn!(%error, "cannot write {path}: users' transactions are lost at a restart");
            self.file = None;
        }
    }

    /// Writes the needed records to a new file, then renames it.
    fn rewrite(&mut self, needed: &[Bytes]) -> io::Result<()> {
        let content: Vec<u8> = needed.iter().flat_map(record).collect();
        let temporary = self.path.with_extension("new");
        fs::write(&temporary, &content)?;
        fs::rename(&temporary, &self.path)?;
        self.bytes = content.len();
        self.file = Some(OpenOptions::new().append(true).open(&self.path)?);
        Ok(())
    }
}

/// Moves a file aside, for the operator.
fn move_aside(path: &Path, reason: &str) {
    let aside = path.with_extension("journal.broken");
    let (from, to) = (path.display(), aside.display());
    match fs::rename(path, &aside) {
        Ok(()) => tracing::warn!("{from}: {reason}; renamed to {to}"),
        Err(error) => tracing::warn!("{from}: {reason}; cannot rename it to {to}: {error}"),
    }
}

fn record(raw: &Bytes) -> Vec<u8> {
    let length = u32::try_from(raw.len()).expect("invariant: a transaction has at most 128 KiB");
    [&length.to_le_bytes(), &corniche_crypto::digest(raw).0[..4], raw].concat()
}

fn dropped_record(hash: &B256) -> Vec<u8> {
    let length = DROPPED_FLAG | B256::len_bytes() as u32;
    [&length.to_le_bytes(), &corniche_crypto::digest(&hash.0).0[..4], &hash.0].concat()
}

/// Transactions in the whole records from the start, in order and each once (a transaction admitted again has
/// several records); also returns the number of invalid bytes after them.
fn records(bytes: &Bytes) -> (Vec<Bytes>, usize) {
    let (mut found, mut positions) = (BTreeMap::new(), BTreeMap::new());
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + HEADER_BYTES) {
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let end = at.saturating_add(HEADER_BYTES).saturating_add((length & !DROPPED_FLAG) as usize);
        let Some(content) = bytes.get(at + HEADER_BYTES..end) else { break };
        if corniche_crypto::digest(content).0[..4] != head[4..] {
            break;
        }
        if length & DROPPED_FLAG == 0 {
            let position = *positions.entry(keccak256(content)).or_insert(at);
            found.insert(position, Bytes(bytes.0.slice(at + HEADER_BYTES..end)));
        } else if let Some(position) = B256::try_from(content).ok().and_then(|hash| positions.remove(&hash)) {
            found.remove(&position);
        }
        at = end;
    }
    (found.into_values().collect(), bytes.len() - at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{long_transfer, transfer};

    fn raw(nonces: std::ops::Range<u64>) -> Vec<Bytes> {
        nonces.map(|nonce| transfer(nonce, 1).transaction().raw().clone()).collect()
    }

    fn reopened(directory: &Path) -> (Journal, Vec<Bytes>) {
        Journal::open(directory)
    }

    #[test]
    fn journal_survives_crash() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, found) = reopened(directory.path());
        assert!(found.is_empty());
        (0..5).for_each(|nonce| journal.add(&transfer(nonce, 1)));
        // Not closed, as after a kill.
        std::mem::forget(journal);
        assert_eq!(reopened(directory.path()).1, raw(0..5));
        let (mut journal, found) = reopened(directory.path());
        assert_eq!(found, raw(0..5), "also when a start ended before admission had them");
        (0..5).for_each(|nonce| journal.add(&transfer(nonce, 1)));
        assert_eq!(reopened(directory.path()).1, raw(0..5), "each once");
    }

    #[test]
    fn torn_journal_tail_is_cut() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = reopened(directory.path());
        (0..3).for_each(|nonce| journal.add(&transfer(nonce, 1)));
        let path = directory.path().join("pool.journal");
        let whole = fs::read(&path).unwrap();
        let two = raw(0..2).iter().map(|raw| raw.len() + HEADER_BYTES).sum::<usize>();
        for cut in two..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let (mut journal, found) = reopened(directory.path());
            assert_eq!(found, raw(0..2), "cut at {cut}");
            journal.add(&transfer(9, 1));
            assert_eq!(reopened(directory.path()).1, [raw(0..2), raw(9..10)].concat());
        }
        let mut damaged = whole.clone();
        damaged[two + HEADER_BYTES + 5] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert_eq!(reopened(directory.path()).1, raw(0..2));
        fs::write(&path, [0xff; 100]).unwrap();
        assert!(reopened(directory.path()).1.is_empty());
    }

    #[test]
    fn journal_size_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = reopened(directory.path());
        let kept = transfer(1_000_000, 1);
        journal.add(&kept);
        // Signing is slow, so the same transactions are reused.
        let some: Vec<_> = (0..50).map(|nonce| transfer(nonce, 1)).collect();
        let length = || fs::metadata(directory.path().join("pool.journal")).unwrap().len() as usize;
        let mut longest = 0;
        for _ in 0..400 {
            some.iter().for_each(|transaction| journal.add(transaction));
            some.iter().for_each(|transaction| journal.executed(&transaction.hash()));
            longest = longest.max(length());
        }
        assert!((SLACK_BYTES / 2..SLACK_BYTES * 2).contains(&longest), "{longest}");
        assert!(length() < longest, "it was written anew");
        assert!(journal.bytes == length() && journal.needed.len() == 1);
        assert_eq!(reopened(directory.path()).1.first(), Some(kept.transaction().raw()));
    }

    #[test]
    fn dropped_transactions_are_not_restored() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = reopened(directory.path());
        let some: Vec<_> = (0..6).map(|nonce| transfer(nonce, 1)).collect();
        some.iter().for_each(|transaction| journal.add(transaction));
        [0, 2, 4].iter().for_each(|index: &usize| journal.dropped(&some[*index].hash()));
        journal.add(&some[2]);
        journal.dropped(&B256::repeat_byte(7));
        let expected = [1, 3, 5, 2].map(|nonce| some[nonce].transaction().raw().clone());
        assert_eq!(reopened(directory.path()).1, expected);
        assert_eq!(reopened(directory.path()).1, expected, "and stays so");
    }

    #[test]
    fn one_sender_does_not_fill_journal() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = reopened(directory.path());
        let long: Vec<_> = (0..12).map(|nonce| long_transfer(nonce, 100 << 10)).collect();
        long.iter().for_each(|transaction| journal.add(transaction));
        assert_eq!(reopened(directory.path()).1.len(), 10, "a mebibyte of them");
        let (mut journal, _) = reopened(directory.path());
        long.iter().for_each(|transaction| journal.add(transaction));
        journal.executed(&long[0].hash());
        journal.dropped(&long[1].hash());
        long[10..].iter().for_each(|transaction| journal.add(transaction));
        assert_eq!(journal.needed.len(), 10, "what left makes room");
    }

    #[test]
    fn broken_journal_is_renamed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool.journal");
        // A directory in place of the file.
        fs::create_dir_all(path.join("inside")).unwrap();
        let (mut journal, found) = reopened(directory.path());
        assert!(found.is_empty() && directory.path().join("pool.journal.broken/inside").is_dir());
        journal.add(&transfer(0, 1));
        fs::remove_dir_all(directory.path().join("pool.journal.broken")).unwrap();
        let good = fs::read(&path).unwrap();
        let bad = [&good[..], b"and something else"].concat();
        fs::write(&path, &bad).unwrap();
        assert_eq!(reopened(directory.path()).1, raw(0..1));
        assert_eq!(fs::read(directory.path().join("pool.journal.broken")).unwrap(), bad);
        assert_eq!(fs::read(&path).unwrap(), good);
        // If nothing can be written, the node runs without a journal.
        let nowhere = directory.path().join("nowhere");
        let (mut journal, found) = reopened(&nowhere);
        journal.add(&transfer(0, 1));
        assert!(found.is_empty() && journal.file.is_none());
    }
}
