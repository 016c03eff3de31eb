//! The replicated state of the engine: the position in the sequence of commits. It is a function of the decided values, so its
//! encoding, the checkpoint, is equal at every validator.

use crate::{
    config::Config,
    message::{Context, LaneBatch, Slot, Tip, Value},
    rules::{epoch_of, exploring, first_slot, is_exploring},
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
    /// Schedule that the first slot of the current epoch decided, for the next one; and the one before it, for the current epoch.
    pub next_schedule: Vec<ValidatorIndex>,
    pub schedule: Vec<ValidatorIndex>,
}

/// Turns decided values into the sequence of deliveries.
pub struct Order {
    context: Context,
    committee: Committee,
    epoch_slots: u64,
    tune_leader: bool,
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
                next_schedule: Vec::new(),
                schedule: Vec::new(),
            }
        } else {
            wire::decode(&resume.checkpoint).expect("a checkpoint was encoded by this engine, or a certificate covers its hash")
        };
        assert_eq!(state.slot.0, resume.index.0, "the checkpoint belongs to the commit it is stored with");
        assert_eq!(state.delivered.len(), committee.size(), "the checkpoint belongs to this committee");
        let (context, committee) = (Context::new(committee), committee.clone());
        Self { context, committee, epoch_slots: config.epoch_slots, tune_leader: config.tune_leader, state }
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

    /// L1, X1: the proposers of a slot, leader first. `decided` is the value of a slot that is decided, and not delivered yet.
    /// `None` if the slot with the schedule is not decided yet.
    pub fn schedule<'a>(&self, slot: Slot, decided: impl Fn(Slot) -> Option<&'a Value>) -> Option<Vec<ValidatorIndex>> {
        let epoch = epoch_of(slot, self.epoch_slots);
        if !self.tune_leader {
            return Some(self.committee.indices().collect());
        }
        if is_exploring(epoch, &self.committee) {
            return Some(exploring(epoch, &self.committee));
        }
        let source = first_slot(epoch - 1, self.epoch_slots);
        let delivered = epoch_of(self.slot(), self.epoch_slots);
        let schedule = match self.slot() {
            at if at < source => decided(source)?.schedule.clone(),
            _ if delivered == epoch => self.state.schedule.clone(),
            _ => self.state.next_schedule.clone(),
        };
        // A proposer that did not know of the epoch's end may have proposed none.
        Some(if self.is_permutation(&schedule) { schedule } else { exploring(epoch, &self.committee) })
    }

    fn is_permutation(&self, schedule: &[ValidatorIndex]) -> bool {
        let mut sorted = schedule.to_vec();
        sorted.sort_unstable();
        sorted.into_iter().eq(self.committee.indices())
    }

    /// Executes the next slot. `batches` are those of all authors above the delivered ones up to the tips of the value, by author
    /// and number. Values of different proposers may go backwards; then an author has none.
    pub fn execute(&mut self, slot: Slot, value: &Value, batches: Vec<LaneBatch>) -> Ordered {
        assert_eq!(slot, self.slot().next(), "slots are executed in order");
        let leader = self.schedule(slot, |_| None).and_then(|schedule| schedule.first().copied()).unwrap_or_default();
        let state = &mut self.state;
        let epoch = epoch_of(slot, self.epoch_slots);
        if slot == first_slot(epoch, self.epoch_slots) {
            state.schedule = std::mem::replace(&mut state.next_schedule, value.schedule.clone());
        }
        state.slot = slot;
        advance(&mut state.delivered, &value.tips);
        state.time = state.time.max(value.time);
        state.randomness = chained(state.randomness, self.context.value(slot, value));
        let full = batches.into_iter().filter(|batch| !batch.bytes.is_empty());
        let batches = full.map(|batch| (batch.author, Batch { bytes: batch.bytes })).collect();
        Ordered {
            index: CommitIndex(slot.0),
            leader,
            time: self.state.time,
            randomness: self.state.randomness,
            batches,
            checkpoint: wire::encode(&self.state).into(),
        }
    }
}

/// A proposer can try several values and propose the one it likes: this randomness can be biased.
fn chained(before: B256, value: B256) -> B256 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"corniche-quepaxa-randomness").update(before.as_slice()).update(value.as_slice());
    B256::from(*hasher.finalize().as_bytes())
}
