//! What users gave to this node and is not executed yet, kept over a restart.
//!
//! The file is appended to before a user is answered, so killing the process loses nothing that was answered; it is not
//! synced, so the machine losing its power may. A record is a length (4 bytes, little endian), the first 4 bytes of the
//! digest of what follows, and the raw transaction. What is at the end and is not a whole record is cut. Records of
//! transactions that were executed or dropped meanwhile stay until they are more than the others; admitted again at the next
//! start, they are refused.

use corniche_crypto::VerifiedTransaction;
use corniche_types::{B256, Bytes};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Most bytes of transactions kept; more are not (the pool holds them all the same).
const MOST_BYTES: usize = 16 << 20;
/// Records that are not needed any more are left alone until they are so many bytes, and more than the others.
const SLACK_BYTES: usize = 1 << 20;
const HEAD: usize = 8;

/// The file and what is needed of it.
pub struct Journal {
    path: PathBuf,
    /// `None` after it could not be written.
    file: Option<File>,
    /// Of the file, and of what is needed of it.
    bytes: usize,
    needed_bytes: usize,
    /// By arrival.
    needed: BTreeMap<u64, Bytes>,
    places: BTreeMap<B256, u64>,
    next: u64,
}

impl Journal {
    /// Opens it in a data directory, with the transactions that were in it. They are to be given to admission again, and those
    /// that it takes come back here by [`Self::add`].
    pub fn open(data: &Path) -> io::Result<(Self, Vec<Bytes>)> {
        let path = data.join("pool.journal");
        let found = match fs::read(&path) {
            Ok(bytes) => records(&bytes.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut journal =
            Self { path, file: None, bytes: 0, needed_bytes: 0, needed: BTreeMap::new(), places: BTreeMap::new(), next: 0 };
        // Until admission has had its say, all of them are needed.
        journal.needed = (0..).zip(found.iter().cloned()).collect();
        journal.rewrite()?;
        journal.needed.clear();
        Ok((journal, found))
    }

    /// A user's transaction entered the pool.
    pub fn add(&mut self, transaction: &VerifiedTransaction) {
        let raw = transaction.transaction().raw();
        if self.needed_bytes + raw.len() > MOST_BYTES || self.places.contains_key(&transaction.hash()) {
            return;
        }
        self.places.insert(transaction.hash(), self.next);
        self.needed.insert(self.next, raw.clone());
        self.next += 1;
        self.needed_bytes += raw.len() + HEAD;
        self.bytes += raw.len() + HEAD;
        let written = self.file.as_mut().map_or(Ok(()), |file| file.write_all(&record(raw)));
        self.check(written);
    }

    /// It was executed, or left the pool.
    pub fn remove(&mut self, hash: &B256) {
        let Some(raw) = self.places.remove(hash).and_then(|place| self.needed.remove(&place)) else { return };
        self.needed_bytes -= raw.len() + HEAD;
        let garbage = self.bytes - self.needed_bytes;
        if garbage >= SLACK_BYTES.max(self.needed_bytes) {
            let written = self.rewrite();
            self.check(written);
        }
    }

    /// Without the disk the node goes on, and a restart would lose what is in the pool only.
    fn check(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            tracing::warn!(%error, "users' transactions cannot be kept over a restart any more");
            self.file = None;
        }
    }

    /// Writes what is needed beside the file, then puts it in its place.
    fn rewrite(&mut self) -> io::Result<()> {
        let content: Vec<u8> = self.needed.values().flat_map(record).collect();
        let beside = self.path.with_extension("new");
        fs::write(&beside, &content)?;
        fs::rename(&beside, &self.path)?;
        self.bytes = content.len();
        self.file = Some(OpenOptions::new().append(true).open(&self.path)?);
        Ok(())
    }
}

fn record(raw: &Bytes) -> Vec<u8> {
    let length = u32::try_from(raw.len()).expect("invariant: a transaction has at most 128 KiB");
    [&length.to_le_bytes(), &corniche_crypto::digest(raw).0[..4], raw].concat()
}

/// Whole records from the start, each once: a transaction that was admitted again stands there again.
fn records(bytes: &Bytes) -> Vec<Bytes> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + HEAD) {
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let end = at.saturating_add(HEAD).saturating_add(length);
        let Some(raw) = bytes.get(at + HEAD..end) else { break };
        let digest = corniche_crypto::digest(raw);
        if digest.0[..4] != head[4..] {
            break;
        }
        if seen.insert(digest) {
            found.push(Bytes(bytes.0.slice(at + HEAD..end)));
        }
        at = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::testing::transfer;

    fn raw(nonces: std::ops::Range<u64>) -> Vec<Bytes> {
        nonces.map(|nonce| transfer(nonce, 1).transaction().raw().clone()).collect()
    }

    fn reopened(directory: &Path) -> (Journal, Vec<Bytes>) {
        Journal::open(directory).unwrap()
    }

    #[test]
    fn what_was_added_is_there_after_the_process_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, found) = reopened(directory.path());
        assert!(found.is_empty());
        (0..5).for_each(|nonce| journal.add(&transfer(nonce, 1)));
        // Nobody closes it.
        std::mem::forget(journal);
        assert_eq!(reopened(directory.path()).1, raw(0..5));
        let (mut journal, found) = reopened(directory.path());
        assert_eq!(found, raw(0..5), "also when a start ended before admission had them");
        (0..5).for_each(|nonce| journal.add(&transfer(nonce, 1)));
        assert_eq!(reopened(directory.path()).1, raw(0..5), "each once");
    }

    #[test]
    fn a_torn_tail_is_cut_at_every_byte_and_what_comes_after_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = reopened(directory.path());
        (0..3).for_each(|nonce| journal.add(&transfer(nonce, 1)));
        let path = directory.path().join("pool.journal");
        let whole = fs::read(&path).unwrap();
        let two = raw(0..2).iter().map(|raw| raw.len() + HEAD).sum::<usize>();
        for cut in two..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let (mut journal, found) = reopened(directory.path());
            assert_eq!(found, raw(0..2), "cut at {cut}");
            journal.add(&transfer(9, 1));
            assert_eq!(reopened(directory.path()).1, [raw(0..2), raw(9..10)].concat());
        }
        let mut damaged = whole.clone();
        damaged[two + HEAD + 5] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert_eq!(reopened(directory.path()).1, raw(0..2));
        fs::write(&path, [0xff; 100]).unwrap();
        assert!(reopened(directory.path()).1.is_empty());
    }

    #[test]
    fn it_is_bounded_by_what_is_needed() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = reopened(directory.path());
        let kept = transfer(1_000_000, 1);
        journal.add(&kept);
        // Signing is slow: the same ones come and go.
        let some: Vec<_> = (0..50).map(|nonce| transfer(nonce, 1)).collect();
        let length = || fs::metadata(directory.path().join("pool.journal")).unwrap().len() as usize;
        let mut longest = 0;
        for _ in 0..400 {
            some.iter().for_each(|transaction| journal.add(transaction));
            some.iter().for_each(|transaction| journal.remove(&transaction.hash()));
            longest = longest.max(length());
        }
        assert!((SLACK_BYTES / 2..SLACK_BYTES * 2).contains(&longest), "{longest}");
        assert!(length() < longest, "it was written anew");
        assert!(journal.bytes == length() && journal.needed.len() == 1);
        assert_eq!(reopened(directory.path()).1.first(), Some(kept.transaction().raw()));
    }
}
