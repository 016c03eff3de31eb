//! Messages and what they contain. No message is signed: validators crash, but do not lie, and links authenticate the sender.

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Committee, Scope};
pub use corniche_lanes::{LaneBatch, Tip};
use corniche_lanes::{LaneValue, MAX_DECISIONS, MAX_MEMBERS, Position};
use corniche_types::{B256, Bytes, CommitIndex, TimestampMs, ValidatorIndex, wire};

/// Tag of the digests of batches.
pub(crate) const BATCH_TAG: &str = "corniche-racs-batch";
/// Context of the randomness.
pub(crate) const RANDOMNESS_TAG: &str = "corniche-racs-randomness";

/// Number of a view. The first one is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct View(pub u64);

impl View {
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Position in the log: that of a block is one above that of its parent. The first one is 1, and the genesis has 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Round(pub u64);

impl Round {
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Compared lexicographically (X0). The level is 0 for a leader's block, 1 and 2 for blocks of the fallback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Rank {
    pub view: View,
    pub level: u8,
    pub round: Round,
}

/// Identifies a block. The default is the genesis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct BlockId {
    pub rank: Rank,
    pub proposer: ValidatorIndex,
    pub digest: B256,
}

impl Position for BlockId {
    fn index(&self) -> CommitIndex {
        CommitIndex(self.rank.round.0)
    }
}

/// Content of a block (D5).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Value {
    /// The proposer's clock.
    pub time: TimestampMs,
    #[borsh(deserialize_with = "wire::at_most::<MAX_MEMBERS, _, _>")]
    pub tips: Vec<Tip>,
}

impl LaneValue for Value {
    fn tips(&self) -> &[Tip] {
        &self.tips
    }

    fn time(&self) -> TimestampMs {
        self.time
    }
}

#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Block {
    pub rank: Rank,
    pub proposer: ValidatorIndex,
    pub parent: BlockId,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Message {
    /// D2: a batch, from its author or from another holder.
    Batch(LaneBatch),
    FetchBatch {
        author: ValidatorIndex,
        tip: Tip,
    },
    /// D3: the sender has the receiver's batch on disk.
    BatchVote {
        tip: Tip,
    },
    /// D7: a quorum holds the sender's batches up to this one.
    Completed {
        tip: Tip,
    },
    /// S3: a leader's block, and the last one that it committed.
    Propose {
        block: Block,
        commit: BlockId,
    },
    /// S5. `time` is the sender's clock.
    Vote {
        block: BlockId,
        time: TimestampMs,
    },
    /// S6 without a next block: this one is committed.
    Commit {
        block: BlockId,
    },
    /// S7.
    Timeout {
        view: View,
        high: BlockId,
    },
    /// A1, A3, A4: a block of the fallback. Level 2 comes with its parent of level 1.
    ProposeAsync {
        block: Block,
        parent: Option<Block>,
    },
    /// A2.
    VoteAsync {
        block: BlockId,
    },
    /// A5.
    Complete {
        block: BlockId,
    },
    /// A6, to the leader of this view.
    NewView {
        view: View,
        high: BlockId,
    },
    /// To a validator that is still in an earlier view (J1).
    Ahead {
        view: View,
        high: BlockId,
    },
    /// Asks for the blocks of a chain above a round, up to this block.
    FetchBlocks {
        block: BlockId,
        above: Round,
    },
    /// Response: the lowest of them, ascending.
    Blocks(#[borsh(deserialize_with = "wire::at_most::<MAX_DECISIONS, _, _>")] Vec<Block>),
    /// The sender has committed up to this round, is in this view, and asks for more. Its own batches up to the number `delivered` are
    /// delivered there. `time` is its clock.
    Progress {
        round: Round,
        view: View,
        delivered: u64,
        time: TimestampMs,
    },
    /// Response: these consecutive blocks are committed.
    Decided(#[borsh(deserialize_with = "wire::at_most::<MAX_DECISIONS, _, _>")] Vec<Block>),
    /// A validator that started asks for the views and rounds of the others, and for clocks that it misses. `run` is the start of its engine.
    AskView {
        run: TimestampMs,
    },
    /// Response: the highest view in which the sender may have taken part, the highest round in use there unless it lost its disk, and its
    /// clock.
    InView {
        run: TimestampMs,
        view: View,
        round: Option<Round>,
        time: TimestampMs,
    },
    /// A validator that lost its disk asks the others to leave the views in which it is silent (X14).
    Leave {
        through: View,
    },
}

impl Message {
    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }
}

/// Context of all digests: blocks belong to one committee.
#[derive(Clone, Copy, Debug)]
pub struct Context(Scope);

impl Context {
    pub fn new(committee: &Committee) -> Self {
        Self(Scope::new(committee))
    }

    pub fn id(&self, block: &Block) -> BlockId {
        let Block { rank, proposer, .. } = *block;
        BlockId { rank, proposer, digest: self.0.digest("corniche-racs-block", block) }
    }

    /// Random number of a view, equal at all validators (M8, X9). Everybody can know it before: only the network must not.
    pub(crate) fn coin(&self, seed: B256, view: View) -> u64 {
        let digest = self.0.digest("corniche-racs-coin", &(seed, view));
        digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}
