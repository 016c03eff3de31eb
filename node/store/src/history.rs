//! Old states: what keys held before blocks wrote over them.
//!
//! | key | value |
//! |---|---|
//! | `A` address height | the account as it was before the block at this height; nothing, if there was none |
//! | `S` address slot height | the same of a slot |
//! | `H` | the lowest height that can be read, and the checkpoint's, over which there are rows |
//!
//! What a key held at some height is thus what the first row above that height says, and without one what the checkpoint holds: one look at
//! either, whatever the age. Rows come with the batch that moves the checkpoint over their block, and go with the batch that
//! moves it far enough ahead; which keys to forget, the block itself says, which is in the log. All of it can be rebuilt from there.
//!
//! Chosen against: what keys held *after* a block, which costs no reading when it is written, but keeps the whole state twice when
//! it is pruned, and cannot begin in the middle of a chain.

use crate::checkpoint;
use crate::kv::{Batch, Kv, KvError};
use crate::log::LogReader;
use crate::reader::{Recent, Shared, StoredBlock};
use crate::record::{self, BlockRecord};
use corniche_state::{Account, CommittedBlock, StateView};
use corniche_types::{Address, B256, Bytes, Height};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const FIRST: &[u8] = b"H";
/// Rows after which a batch forgets no further block; the next one goes on.
const FORGOTTEN_AT_ONCE: usize = 1 << 18;
/// Nothing can be read.
const NONE: u64 = u64::MAX;

/// How many old states are kept on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum History {
    /// None: those that are in memory are all there are.
    #[default]
    Off,
    /// Of so many blocks behind the head.
    Blocks(u64),
    /// All, from the genesis on.
    Archive,
}

impl std::str::FromStr for History {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match (word, word.parse()) {
            ("archive", _) => Ok(Self::Archive),
            (_, Ok(0)) => Ok(Self::Off),
            (_, Ok(blocks)) => Ok(Self::Blocks(blocks)),
            _ => Err(format!("{word:?} is neither a number of blocks nor \"archive\"")),
        }
    }
}

/// Brings what is on disk in line with the configuration when the checkpoint at `height` was opened; answers the lowest height
/// that can be read. `Err(None)`: it cannot be had but by building the checkpoint anew.
pub(crate) fn open(kv: &dyn Kv, history: History, height: Height) -> Result<Option<Height>, Option<KvError>> {
    let found: Option<(Height, Height)> = kv.get(FIRST)?.map(|bytes| checkpoint::decode(&bytes)).transpose()?;
    // A program that knows nothing of old states may have moved the checkpoint on since: then there is a gap.
    let known = found.filter(|(_, reached)| *reached == height).map(|(first, _)| first);
    match (history, known) {
        (History::Off, _) if found.is_none() => Ok(None),
        (History::Off, _) => {
            // From now on there are gaps.
            kv.apply(&Batch::from([(FIRST.to_vec(), None)]))?;
            Ok(None)
        }
        (History::Archive, known) if known.unwrap_or(height) > Height(0) => Err(None),
        (_, Some(known)) => Ok(Some(known)),
        (_, None) => {
            // What is older is not known. Rows of another time lie below this height, where nobody looks.
            kv.apply(&Batch::from([(FIRST.to_vec(), Some(checkpoint::encode(&(height, height))))]))?;
            Ok(Some(height))
        }
    }
}

/// Keeps old states, for whoever moves the checkpoint and for readers.
pub(crate) struct Keeper {
    history: History,
    /// The lowest height that can be read; [`NONE`] when there is none.
    first: AtomicU64,
}

impl Keeper {
    pub fn new(history: History, first: Option<Height>) -> Self {
        Self { history, first: AtomicU64::new(first.map_or(NONE, |first| first.0)) }
    }

    fn first(&self) -> u64 {
        self.first.load(Ordering::SeqCst)
    }

    /// Adds to the batch that moves the checkpoint from `reached` over `blocks` what these write over, and takes away what is too old.
    pub fn extend(
        &self,
        kv: &dyn Kv,
        log: &LogReader,
        batch: &mut Batch,
        blocks: &[Recent],
        reached: Height,
    ) -> Result<(), KvError> {
        let first = self.first();
        let Some(last) = blocks.last().filter(|_| first != NONE) else { return Ok(()) };
        let mut rows = rows(kv, blocks)?;
        // More than comes, or the disk would fill up.
        let forgotten_at_once = FORGOTTEN_AT_ONCE.max(2 * rows.len());
        batch.append(&mut rows);
        let wanted = match self.history {
            History::Blocks(kept) => last.block.height().0.saturating_sub(kept).min(reached.0),
            History::Off | History::Archive => first,
        };
        let (mut first_now, full) = (first, batch.len() + forgotten_at_once);
        while first_now < wanted && batch.len() < full {
            first_now += 1;
            let height = Height(first_now);
            // A block that cannot be read leaves rows behind where nobody looks.
            for (key, _) in block(kv, log, height)?.iter().flat_map(|block| checkpoint::entries(&block.changes)) {
                batch.insert(row_key(&key, height), None);
            }
        }
        batch.insert(FIRST.to_vec(), Some(checkpoint::encode(&(Height(first_now), last.block.height()))));
        // Readers know before the first row is gone.
        self.first.store(first_now, Ordering::SeqCst);
        Ok(())
    }

    /// The checkpoint goes back to `to`.
    pub fn take_back(&self, batch: &mut Batch, to: Height) {
        if self.first() != NONE {
            let first = self.first().min(to.0);
            batch.insert(FIRST.to_vec(), Some(checkpoint::encode(&(Height(first), to))));
            self.first.store(first, Ordering::SeqCst);
        }
    }
}

/// Takes the rows of a block that is taken from the checkpoint.
pub(crate) fn remove_rows(batch: &mut Batch, block: &StoredBlock) {
    for (key, _) in checkpoint::entries(&block.committed.changes) {
        batch.insert(row_key(&key, block.height()), None);
    }
}

/// What the blocks write over.
fn rows(kv: &dyn Kv, blocks: &[Recent]) -> Result<Batch, KvError> {
    let (mut rows, mut now) = (Batch::new(), Batch::new());
    for recent in blocks {
        for (key, value) in checkpoint::entries(&recent.block.committed.changes) {
            let before = match now.get(&key) {
                Some(before) => before.clone(),
                None => kv.get(&key)?,
            };
            if before != value {
                rows.insert(row_key(&key, recent.block.height()), Some(before.unwrap_or_default()));
                now.insert(key, value);
            }
        }
    }
    Ok(rows)
}

/// A block that the checkpoint has passed.
fn block(kv: &dyn Kv, log: &LogReader, height: Height) -> Result<Option<Box<CommittedBlock>>, KvError> {
    let Some(at) = checkpoint::block_position(kv, height)? else { return Ok(None) };
    Ok(match log.read(at).map(|payload| record::read_block_record(&payload)) {
        Ok(Ok(BlockRecord::Block(block))) if block.block.height() == height => Some(block),
        _ => None,
    })
}

/// Of what was written over at a height, by the key of what is there now.
fn row_key(state_key: &[u8], height: Height) -> Vec<u8> {
    let mut key = [state_key, &height.0.to_be_bytes()].concat();
    key[0].make_ascii_uppercase();
    key
}

/// The state as of one height, from disk.
pub(crate) struct OldState {
    shared: Arc<Shared>,
    height: Height,
    /// An answer was none.
    failed: AtomicBool,
}

impl OldState {
    /// `None` when it is not kept, or not on disk yet.
    pub fn new(shared: Arc<Shared>, height: Height) -> Option<Self> {
        let kept = shared.keeper.first() <= height.0 && height <= shared.checkpoint_height() && !shared.kv_has_failed();
        kept.then(|| Self { shared, height, failed: AtomicBool::new(false) })
    }

    /// What lay at a key of the checkpoint.
    fn read(&self, key: &[u8]) -> Option<Vec<u8>> {
        let read = || -> Result<Option<Vec<u8>>, KvError> {
            // In this order: what is written over in between then has a row.
            let now = self.shared.kv.get(key)?;
            let from = row_key(key, self.height.next());
            let row = self.shared.kv.next(&from)?;
            let row = row.filter(|(row, _)| row.len() == from.len() && row[..key.len()] == from[..key.len()]);
            Ok(match row {
                Some((_, before)) => (!before.is_empty()).then_some(before),
                None => now,
            })
        };
        let answer = read();
        if answer.is_err() || self.height.0 < self.shared.keeper.first() {
            self.failed.store(true, Ordering::Relaxed);
        }
        answer.ok().flatten()
    }

    fn decoded<T>(&self, found: Option<Vec<u8>>, decode: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        let decoded = decode(&found?);
        if decoded.is_none() {
            self.failed.store(true, Ordering::Relaxed);
        }
        decoded
    }
}

impl StateView for OldState {
    fn account(&self, address: &Address) -> Option<Account> {
        let found = self.read(&checkpoint::account_key(address));
        self.decoded(found, |bytes| checkpoint::decode(bytes).ok())
    }

    fn storage(&self, address: &Address, slot: &B256) -> B256 {
        let found = self.read(&checkpoint::storage_key(address, slot));
        self.decoded(found, |bytes| B256::try_from(bytes).ok()).unwrap_or_default()
    }

    /// Code is never written over.
    fn code(&self, hash: &B256) -> Option<Bytes> {
        let found = self.shared.kv.get(&checkpoint::code_key(hash));
        found.ok().flatten().map(Bytes::from)
    }

    /// Also when the state was forgotten meanwhile.
    fn interrupted(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::kv;

    #[test]
    fn rows_with_a_gap_behind_them_are_not_believed() {
        for backend in [Backend::Sled, Backend::Redb] {
            let directory = tempfile::tempdir().unwrap();
            let kv = kv::open(backend, directory.path(), 1 << 20).unwrap();
            let open = |history, height| open(&kv, history, Height(height)).ok().flatten();
            assert_eq!(open(History::Blocks(5), 3), Some(Height(3)));
            assert_eq!(open(History::Blocks(5), 3), Some(Height(3)), "as it was left");
            assert_eq!(open(History::Blocks(5), 9), Some(Height(9)), "somebody moved the checkpoint and wrote no rows");
            assert_eq!(open(History::Archive, 9), None, "to be built anew");
            assert_eq!(open(History::Off, 9), None);
            assert_eq!(open(History::Blocks(5), 9), Some(Height(9)));
        }
    }
}
