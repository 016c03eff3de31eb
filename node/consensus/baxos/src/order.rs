//! The replicated state of the engine: the position in the sequence of commits. It is a function of the decided values, so its
//! encoding, the checkpoint, is equal at every validator.

use crate::{
    config::Config,
    message::{Context, LaneBatch, Slot, Tip, Value},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Batch, Committee, Ordered, Resume};
use corniche_lanes::advance;
use corniche_types::{B256, CommitIndex, TimestampMs, ValidatorIndex, wire};

/// Content of [`Ordered::checkpoint`].
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Checkpoint {
    pub slot: Slot,
    /// The last delivered batch of each lane.
    pub delivered: Vec<Tip>,
    pub time: TimestampMs,
    pub randomness: B256,
}

/// Turns decided values into the sequence of deliveries.
pub struct Order {
    context: Context,
    state: Checkpoint,
}

impl Order {
    /// Starts from the genesis, or from a checkpoint of this engine, which a certificate covers or this node wrote.
    pub fn new(resume: &Resume, committee: &Committee, config: &Config) -> Self {
        let state = if resume.checkpoint.is_empty() {
            Checkpoint {
                slot: Slot(0),
                delivered: vec![Tip::default(); committee.size()],
                time: config.genesis_time,
                randomness: config.genesis_randomness,
            }
        } else {
            wire::decode(&resume.checkpoint).expect("a checkpoint was encoded by this engine, or a certificate covers its hash")
        };
        assert_eq!(state.slot.0, resume.index.0, "the checkpoint belongs to the commit it is stored with");
        assert_eq!(state.delivered.len(), committee.size(), "the checkpoint belongs to this committee");
        Self { context: Context::new(committee), state }
    }

    pub fn state(&self) -> &Checkpoint {
        &self.state
    }

    /// The last delivered slot.
    pub fn slot(&self) -> Slot {
        self.state.slot
    }

    /// The last delivered batch of a lane.
    pub fn delivered(&self, author: ValidatorIndex) -> Tip {
        self.state.delivered[author.as_usize()]
    }

    /// Executes the next slot. `batches` are those of all authors above the delivered ones up to the tips of the value, by author
    /// and number. Values of different proposers may go backwards; then an author has none.
    pub fn execute(&mut self, slot: Slot, value: &Value, batches: Vec<LaneBatch>) -> Ordered {
        assert_eq!(slot, self.slot().next(), "slots are executed in order");
        let state = &mut self.state;
        state.slot = slot;
        advance(&mut state.delivered, &value.tips);
        state.time = state.time.max(value.time);
        state.randomness = chained(state.randomness, self.context.value(slot, value));
        let full = batches.into_iter().filter(|batch| !batch.bytes.is_empty());
        let batches = full.map(|batch| (batch.author, Batch { bytes: batch.bytes })).collect();
        Ordered {
            index: CommitIndex(slot.0),
            leader: value.proposer,
            time: state.time,
            randomness: state.randomness,
            batches,
            checkpoint: wire::encode(&*state).into(),
        }
    }
}

/// A proposer can try several values and propose the one it likes: this randomness can be biased.
fn chained(before: B256, value: B256) -> B256 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"corniche-baxos-randomness").update(before.as_slice()).update(value.as_slice());
    B256::from(*hasher.finalize().as_bytes())
}
