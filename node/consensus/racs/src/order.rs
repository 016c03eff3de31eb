//! The replicated state of the engine: the position in the sequence of commits. It is a function of the committed blocks, so its
//! encoding, the checkpoint, is equal at every validator.

use crate::{
    config::Config,
    message::{Block, BlockId, Context, LaneBatch, Round, Tip},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Batch, Committee, Ordered, Resume};
use corniche_lanes::advance;
use corniche_types::{B256, CommitIndex, TimestampMs, ValidatorIndex, wire};

/// Content of [`Ordered::checkpoint`].
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Checkpoint {
    /// The last delivered block.
    pub block: BlockId,
    /// C: the last delivered batch of each lane (D6).
    pub delivered: Vec<Tip>,
    pub time: TimestampMs,
    pub randomness: B256,
}

/// Turns committed blocks into the sequence of deliveries.
pub struct Order {
    context: Context,
    state: Checkpoint,
}

impl Order {
    /// Starts from the genesis, or from a checkpoint of this engine, which a certificate covers or this node wrote.
    pub fn new(resume: &Resume, committee: &Committee, config: &Config) -> Self {
        let state = if resume.checkpoint.is_empty() {
            Checkpoint {
                block: BlockId::default(),
                delivered: vec![Tip::default(); committee.size()],
                time: config.genesis_time,
                randomness: config.genesis_randomness,
            }
        } else {
            wire::decode(&resume.checkpoint).expect("a checkpoint was encoded by this engine, or a certificate covers its hash")
        };
        assert_eq!(state.block.rank.round.0, resume.index.0, "the checkpoint belongs to the commit it is stored with");
        assert_eq!(state.delivered.len(), committee.size(), "the checkpoint belongs to this committee");
        Self { context: Context::new(committee), state }
    }

    pub fn state(&self) -> &Checkpoint {
        &self.state
    }

    /// The last delivered round.
    pub fn round(&self) -> Round {
        self.state.block.rank.round
    }

    /// The last delivered batch of a lane.
    pub fn delivered(&self, author: ValidatorIndex) -> Tip {
        self.state.delivered[author.as_usize()]
    }

    /// Executes the next block. `batches` are those of all authors above the delivered ones up to the tips of its value, by author and
    /// number (D6). Vectors of different proposers may go backwards (X12); then an author has none.
    pub fn execute(&mut self, block: &Block, batches: Vec<LaneBatch>) -> Ordered {
        // I4, theorem 2: one block per position, and no gaps.
        assert_eq!(block.parent, self.state.block, "blocks are executed in order");
        let (id, state) = (self.context.id(block), &mut self.state);
        state.block = id;
        advance(&mut state.delivered, &block.value.tips);
        state.time = state.time.max(block.value.time);
        state.randomness = chained(state.randomness, id.digest);
        let full = batches.into_iter().filter(|batch| !batch.bytes.is_empty());
        let batches = full.map(|batch| (batch.author, Batch { bytes: batch.bytes })).collect();
        Ordered {
            index: CommitIndex(id.rank.round.0),
            leader: block.proposer,
            time: self.state.time,
            randomness: self.state.randomness,
            batches,
            checkpoint: wire::encode(&self.state).into(),
        }
    }
}

/// A proposer can try several values and propose the one it likes: this randomness can be biased.
fn chained(before: B256, block: B256) -> B256 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"corniche-racs-randomness").update(before.as_slice()).update(block.as_slice());
    B256::from(*hasher.finalize().as_bytes())
}
