//! Where a node's blocks come from: its engine, or peers.

use crate::blocks::BlockBuilder;
use corniche_certify::WeakCertificate;
use corniche_engine::{Engine, Ticket};
use corniche_types::{B256, CommitIndex, Height, TimestampMs};
use std::collections::{BTreeMap, VecDeque};

/// Source of the next blocks.
#[expect(clippy::large_enum_variant, reason = "a node has one")]
pub(super) enum Mode {
    Ordering(Ordering),
    Following(Following),
    /// Caught up; waiting for the safety log to build the engine.
    Rejoining,
    /// Continuing would be unsafe. The node handles no input.
    Halted,
}

/// Blocks are cut from the engine's commits.
pub(super) struct Ordering {
    pub engine: Box<dyn Engine>,
    pub builder: BlockBuilder,
    /// Pending `WantBatch`: bytes and gas.
    pub wanted_batch: Option<(u32, u64)>,
    /// `ReleaseBelow`s that wait until the state that makes the records unnecessary is durable.
    pub releases: VecDeque<(CommitIndex, Ticket)>,
    /// Time since when a certified block is known that is not appended, without any progress.
    pub stuck_since: Option<TimestampMs>,
}

/// Blocks come from peers, certified or with the shares of f + 1 validators.
#[derive(Default)]
pub(super) struct Following {
    /// Expected hashes of blocks that are not executed yet.
    pub expected: BTreeMap<Height, B256>,
    /// Covers blocks without a certificate. Replaced only after they are executed.
    pub weak_certificate: Option<WeakCertificate>,
}

impl Ordering {
    pub fn new(engine: Box<dyn Engine>, builder: BlockBuilder) -> Self {
        Self { engine, builder, wanted_batch: None, releases: VecDeque::new(), stuck_since: None }
    }
}

impl Mode {
    pub fn ordering(&self) -> Option<&Ordering> {
        match self {
            Self::Ordering(ordering) => Some(ordering),
            Self::Following(_) | Self::Rejoining | Self::Halted => None,
        }
    }

    pub fn ordering_mut(&mut self) -> Option<&mut Ordering> {
        match self {
            Self::Ordering(ordering) => Some(ordering),
            Self::Following(_) | Self::Rejoining | Self::Halted => None,
        }
    }

    pub fn following(&self) -> Option<&Following> {
        match self {
            Self::Following(following) => Some(following),
            Self::Ordering(_) | Self::Rejoining | Self::Halted => None,
        }
    }

    pub fn following_mut(&mut self) -> Option<&mut Following> {
        match self {
            Self::Following(following) => Some(following),
            Self::Ordering(_) | Self::Rejoining | Self::Halted => None,
        }
    }

    pub fn is_ordering(&self) -> bool {
        self.ordering().is_some()
    }

    pub fn is_following(&self) -> bool {
        self.following().is_some()
    }

    pub fn is_halted(&self) -> bool {
        matches!(self, Self::Halted)
    }
}
