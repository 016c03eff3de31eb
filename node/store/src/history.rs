//! Old states: values of keys before blocks overwrote them.
//!
//! | key | value |
//! |---|---|
//! | `A` address height | the account before the block at this height; empty if there was none |
//! | `S` address slot height | the slot before the block at this height |
//! | `H` | the lowest readable height, and the checkpoint's height up to which there are rows |
//!
//! So the value of a key at some height is in the first row above that height, or else in the checkpoint.
//! That takes one lookup in each, whatever the age. Rows are written with the batch that moves the checkpoint
//! over their block. They are deleted with the batch that moves it far enough ahead; the block in the log
//! says which keys to delete. All of it can be rebuilt from the log.
//!
//! Alternative not chosen: storing values *after* each block. That needs no reads when it is written. But it
//! keeps the whole state twice when old states are pruned, and cannot begin in the middle of a chain.

use crate::block::{Recent, StoredBlock};
use crate::checkpoint;
use crate::kv::{Batch, Kv, KvError};
use crate::log::LogReader;
use crate::record::{self, BlockRecord};
use corniche_state::CommittedBlock;
use corniche_types::Height;
use std::sync::atomic::{AtomicU64, Ordering};

const FIRST: &[u8] = b"H";
/// Number of row deletions after which a batch stops; the next batch continues.
const MAX_ROWS_DELETED_PER_BATCH: usize = 1 << 18;
/// Value of `first` if no height can be read.
const NONE: u64 = u64::MAX;

/// Number of old states kept on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum History {
    /// Only the states in memory.
    #[default]
    Off,
    /// States of this number of blocks behind the head.
    Blocks(u64),
    /// All states since the genesis.
    Archive,
}

impl std::str::FromStr for History {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("archive", _) => Ok(Self::Archive),
            (_, Ok(0)) => Ok(Self::Off),
            (_, Ok(blocks)) => Ok(Self::Blocks(blocks)),
            _ => Err(format!("{text:?} is neither a number of blocks nor \"archive\"")),
        }
    }
}

/// Adapts the rows on disk to the configuration after the checkpoint at `height` was opened; returns the
/// lowest readable height. `Err(None)`: the checkpoint must be rebuilt first.
pub(crate) fn open(kv: &dyn Kv, history: History, height: Height) -> Result<Option<Height>, Option<KvError>> {
    let found: Option<(Height, Height)> = kv.get(FIRST)?.map(|bytes| checkpoint::decode(&bytes)).transpose()?;
    // A version without support for old states may have moved the checkpoint since: then there is a gap.
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
            // Older states are unknown. Old rows may exist below this height, but are never read.
            kv.apply(&Batch::from([(FIRST.to_vec(), Some(checkpoint::encode(&(height, height))))]))?;
            Ok(Some(height))
        }
    }
}

/// Writes old states with each move of the checkpoint, and tells readers which ones exist.
pub(crate) struct HistoryStore {
    history: History,
    /// Lowest readable height; [`NONE`] if there is none.
    first: AtomicU64,
}

impl HistoryStore {
    pub fn new(history: History, first: Option<Height>) -> Self {
        Self { history, first: AtomicU64::new(first.map_or(NONE, |first| first.0)) }
    }

    /// Lowest readable height; above all heights if there is none.
    pub fn first(&self) -> u64 {
        self.first.load(Ordering::SeqCst)
    }

    /// Extends the batch that moves the checkpoint from `reached` over `blocks`: adds the overwritten values,
    /// deletes rows that are too old.
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
        // Deletes more rows than it adds, or the disk would fill up.
        let max_deleted = MAX_ROWS_DELETED_PER_BATCH.max(2 * rows.len());
        batch.append(&mut rows);
        let wanted = match self.history {
            History::Blocks(kept) => last.block.height().0.saturating_sub(kept).min(reached.0),
            History::Off | History::Archive => first,
        };
        let (mut first_now, full) = (first, batch.len() + max_deleted);
        while first_now < wanted && batch.len() < full {
            first_now += 1;
            let height = Height(first_now);
            // If a block cannot be read, its rows remain, but are never read.
            for (key, _) in block(kv, log, height)?.iter().flat_map(|block| checkpoint::entries(&block.changes)) {
                batch.insert(row_key(&key, height), None);
            }
        }
        batch.insert(FIRST.to_vec(), Some(checkpoint::encode(&(Height(first_now), last.block.height()))));
        // Readers must know before the first row is deleted.
        self.first.store(first_now, Ordering::SeqCst);
        Ok(())
    }

    /// Records that the checkpoint reverted to `to`.
    pub fn revert_to(&self, batch: &mut Batch, to: Height) {
        if self.first() != NONE {
            let first = self.first().min(to.0);
            batch.insert(FIRST.to_vec(), Some(checkpoint::encode(&(Height(first), to))));
            self.first.store(first, Ordering::SeqCst);
        }
    }
}

/// Deletes the rows of a block that is removed from the checkpoint.
pub(crate) fn remove_rows(batch: &mut Batch, block: &StoredBlock) {
    for (key, _) in checkpoint::entries(&block.committed.changes) {
        batch.insert(row_key(&key, block.height()), None);
    }
}

/// Rows with the values that the blocks overwrite.
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

/// Reads a block that is in the checkpoint.
fn block(kv: &dyn Kv, log: &LogReader, height: Height) -> Result<Option<Box<CommittedBlock>>, KvError> {
    let Some(at) = checkpoint::block_position(kv, height)? else { return Ok(None) };
    Ok(match log.read(at).map(|payload| record::read_block_record(&payload)) {
        Ok(Ok(BlockRecord::Block(block))) if block.block.height() == height => Some(block),
        _ => None,
    })
}

/// Key of the row for a value overwritten at a height, from the key of the current value.
pub(crate) fn row_key(state_key: &[u8], height: Height) -> Vec<u8> {
    let mut key = [state_key, &height.0.to_be_bytes()].concat();
    key[0].make_ascii_uppercase();
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::kv;

    #[test]
    fn rows_after_gap_are_ignored() {
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
