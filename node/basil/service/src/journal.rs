//! A replica's records on disk (A7): a file of frames, which is replaced by a snapshot when most of it is outdated.
//!
//! ```text
//!   frame: length (u32, little-endian) ‖ blake3 of the content (first 8 bytes) ‖ content
//!   file:  identity of the replica, then lists of records
//! ```
//!
//! A crash may leave an incomplete frame at the end. Nothing after the last sync was visible to others, so it is cut. A frame that is
//! damaged before the end is an error: the replica may have signed what it contained.

use anyhow::{Context, bail, ensure};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_basil::record::Record;
use corniche_basil::shards::ReplicaId;
use corniche_types::{B256, wire};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// A file below this size is not replaced.
const MIN_REPLACED_BYTES: u64 = 32 << 20;
const HEAD_BYTES: usize = 12;
/// Maximum bytes of one frame.
const MAX_FRAME_BYTES: usize = 64 << 20;

/// Owner of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Identity {
    pub genesis: B256,
    pub replica: ReplicaId,
}

/// An open journal.
pub struct Journal {
    identity: Identity,
    directory: PathBuf,
    file: File,
    bytes: u64,
    /// Size directly after the last replacement.
    base_bytes: u64,
    /// Appended since the last sync.
    pending: Vec<Record>,
}

impl Journal {
    /// Opens or creates the journal in a directory. Returns all its records in order.
    ///
    /// # Errors
    ///
    /// Reading or writing fails, the journal is another replica's, or it is damaged.
    pub fn open(directory: &Path, identity: Identity) -> anyhow::Result<(Self, Vec<Record>)> {
        fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let path = directory.join(FILE);
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        file.try_lock().with_context(|| format!("{} is in use by another process", path.display()))?;
        let mut content = Vec::new();
        file.read_to_end(&mut content).with_context(|| format!("cannot read {}", path.display()))?;
        let (frames, valid) = frames(&content).with_context(|| {
            format!(
                "{} is damaged; move it away and start this replica without its data: it then counts as faulty until the \
                 transactions that it may have voted for are decided",
                path.display()
            )
        })?;
        if valid < content.len() {
            tracing::warn!(bytes = content.len() - valid, "an incomplete append at the end of the journal was cut");
            file.set_len(valid as u64)?;
            file.sync_data()?;
        }
        let mut frames = frames.into_iter();
        let mut journal = Self {
            identity,
            directory: directory.into(),
            file,
            bytes: valid as u64,
            base_bytes: valid as u64,
            pending: Vec::new(),
        };
        match frames.next() {
            Some(first) => {
                let found: Identity = wire::decode(first).with_context(|| format!("{} has no owner", path.display()))?;
                ensure!(
                    found == identity,
                    "{} belongs to replica {} of shard {} of the chain with the genesis {}; start each replica on its own directory",
                    path.display(),
                    found.replica.member,
                    found.replica.shard.0,
                    found.genesis
                );
            }
            None => {
                journal.write(&frame(&wire::encode(&identity)))?;
                sync_directory(directory)?;
            }
        }
        let mut records = Vec::new();
        for content in frames {
            records.append(&mut wire::decode(content).with_context(|| format!("{}: unknown record", path.display()))?);
        }
        Ok((journal, records))
    }

    /// Appends records. They are durable after the next [`Self::sync`].
    pub fn append(&mut self, records: Vec<Record>) {
        self.pending.extend(records);
    }

    /// # Errors
    ///
    /// Writing fails. The replica must not go on: it is unknown what is on disk.
    pub fn sync(&mut self) -> anyhow::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let content = frames_of(&std::mem::take(&mut self.pending));
        self.write(&content)
    }

    fn write(&mut self, content: &[u8]) -> anyhow::Result<()> {
        self.file.write_all(content).context("cannot append to the journal")?;
        self.file.sync_data().context("cannot sync the journal")?;
        self.bytes += content.len() as u64;
        Ok(())
    }

    /// True if a snapshot should replace the file: it doubled since the last one.
    pub fn is_due(&self) -> bool {
        self.bytes >= self.base_bytes.saturating_mul(2).max(MIN_REPLACED_BYTES)
    }

    /// Replaces everything by the records of a snapshot, at once even if the process stops meanwhile.
    ///
    /// # Errors
    ///
    /// Writing fails.
    pub fn replace(&mut self, records: &[Record]) -> anyhow::Result<()> {
        let (path, next) = (self.directory.join(FILE), self.directory.join(NEXT_FILE));
        let mut file = File::create(&next).with_context(|| format!("cannot create {}", next.display()))?;
        file.try_lock().with_context(|| format!("{} is in use by another process", next.display()))?;
        let content = [frame(&wire::encode(&self.identity)), frames_of(records)].concat();
        file.write_all(&content)?;
        file.sync_all()?;
        fs::rename(&next, &path).with_context(|| format!("cannot replace {}", path.display()))?;
        sync_directory(&self.directory)?;
        // Appends from here on go to the new file. Those that wait are in the snapshot, or are of a replica that was behind.
        self.pending.clear();
        self.file = OpenOptions::new().append(true).open(&path)?;
        drop(file);
        self.file.try_lock().with_context(|| format!("{} is in use by another process", path.display()))?;
        (self.bytes, self.base_bytes) = (content.len() as u64, content.len() as u64);
        Ok(())
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

const FILE: &str = "journal";
const NEXT_FILE: &str = "journal.next";
/// A frame ends after this size. So a usual append is one frame, and a crash leaves only that one incomplete.
const FRAME_BYTES: usize = 16 << 20;

/// Frames with all records.
fn frames_of(records: &[Record]) -> Vec<u8> {
    let (mut content, mut first, mut size) = (Vec::new(), 0, 0);
    for (index, record) in records.iter().enumerate() {
        size += borsh::object_length(record).expect("invariant: memory can be written");
        if size >= FRAME_BYTES || index + 1 == records.len() {
            content.extend(frame(&wire::encode(&records[first..=index].to_vec())));
            (first, size) = (index + 1, 0);
        }
    }
    content
}

fn frame(content: &[u8]) -> Vec<u8> {
    assert!(content.len() <= MAX_FRAME_BYTES, "invariant: a record has at most a transaction and its certificate");
    let length = u32::try_from(content.len()).expect("checked above").to_le_bytes();
    [&length, &blake3::hash(content).as_bytes()[..8], content].concat()
}

/// Contents of all frames, and the number of bytes that they take. The rest is an incomplete append.
fn frames(mut rest: &[u8]) -> anyhow::Result<(Vec<&[u8]>, usize)> {
    let (mut contents, total) = (Vec::new(), rest.len());
    loop {
        let valid = total - rest.len();
        let Some((head, after)) = rest.split_at_checked(HEAD_BYTES) else { return Ok((contents, valid)) };
        let length = u32::from_le_bytes(head[..4].try_into().expect("4 of 12 bytes")) as usize;
        if length > MAX_FRAME_BYTES {
            bail!("frame at {valid}: expected at most {MAX_FRAME_BYTES} bytes, got {length}");
        }
        let Some((content, next)) = after.split_at_checked(length) else { return Ok((contents, valid)) };
        if blake3::hash(content).as_bytes()[..8] != head[4..] {
            // Only the last append, and zeros that a file system left at the end of a file, have no meaning.
            let is_torn = next.is_empty() || rest.iter().all(|byte| *byte == 0);
            ensure!(is_torn, "frame at {valid}: the content differs from its checksum");
            return Ok((contents, valid));
        }
        contents.push(content);
        rest = next;
    }
}

fn sync_directory(directory: &Path) -> anyhow::Result<()> {
    File::open(directory)?.sync_all().with_context(|| format!("cannot sync {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_basil::shards::ShardId;

    const IDENTITY: Identity = Identity { genesis: B256::ZERO, replica: ReplicaId { shard: ShardId(1), member: 2 } };

    fn closed(below_us: u64) -> Record {
        Record::Closed { below_us }
    }

    fn open(directory: &Path) -> (Journal, Vec<Record>) {
        Journal::open(directory, IDENTITY).unwrap()
    }

    #[test]
    fn records_survive() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, records) = open(directory.path());
        assert_eq!(records, []);
        journal.append(vec![closed(1), closed(2)]);
        journal.sync().unwrap();
        journal.append(vec![closed(3)]);
        drop(journal);
        let (mut journal, records) = open(directory.path());
        assert_eq!(records, [closed(1), closed(2)], "the third one was not synced");
        let many: Vec<_> = (10..30).map(closed).collect();
        journal.replace(&many).unwrap();
        journal.append(vec![closed(99)]);
        journal.sync().unwrap();
        drop(journal);
        assert_eq!(open(directory.path()).1, [many, vec![closed(99)]].concat());
    }

    #[test]
    fn a_torn_append_is_cut_and_damage_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        let (mut journal, _) = open(directory.path());
        for below in 0..3 {
            journal.append(vec![closed(below)]);
            journal.sync().unwrap();
        }
        drop(journal);
        let whole = fs::read(&path).unwrap();
        let last = frames_of(&[closed(2)]).len();
        for cut in 1..last {
            fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            assert_eq!(open(directory.path()).1, [closed(0), closed(1)], "without the last {cut} bytes");
        }
        // Space that was allocated, and not written.
        fs::write(&path, [&whole[..], &[0; 100]].concat()).unwrap();
        assert_eq!(open(directory.path()).1.len(), 3);
        let mut damaged = whole.clone();
        damaged[whole.len() - last - 1] ^= 1;
        fs::write(&path, damaged).unwrap();
        let error = format!("{:#}", Journal::open(directory.path(), IDENTITY).map(drop).unwrap_err());
        assert!(error.contains("is damaged") && error.contains("checksum"), "{error}");
    }

    #[test]
    fn a_journal_has_one_owner() {
        let directory = tempfile::tempdir().unwrap();
        let (journal, _) = open(directory.path());
        let error = format!("{:#}", Journal::open(directory.path(), IDENTITY).map(drop).unwrap_err());
        assert!(error.contains("in use"), "{error}");
        drop(journal);
        let other = Identity { replica: ReplicaId { shard: ShardId(0), member: 2 }, ..IDENTITY };
        let error = Journal::open(directory.path(), other).map(drop).unwrap_err().to_string();
        assert!(error.contains("belongs to replica 2 of shard 1"), "{error}");
    }
}
