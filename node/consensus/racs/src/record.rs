//! Format of the records on disk. Crash recovery is not part of the thesis, so all of this is ours (§2, "persist before send").

use crate::{
    message::{Block, BlockId, LaneBatch, Tip, View},
    rules::State,
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::ValidatorIndex;

#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Record {
    /// The engine started: this validator has a disk.
    Started,
    /// Before every message that relies on it: a vote, a timeout, a block, a new view.
    State(Box<State>),
    /// Before a vote, and before the own proposal.
    Block(Block),
    /// The last committed block.
    Commit(BlockId),
    /// Before a vote for it, and before the own batch leaves.
    Batch(LaneBatch),
    /// After a lost disk: this validator is silent in views up to this one; in all if it is `None` (X14).
    Silent(Option<View>),
}

/// Key of a record: only the newest one of a key counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKey {
    Started,
    State,
    Block(BlockId),
    Commit,
    Batch(ValidatorIndex, Tip),
    Silent,
}
