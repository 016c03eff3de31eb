//! Messages and what they contain. No message is signed: validators crash, but do not lie (§1), and links authenticate the sender.

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Committee, Scope};
pub use corniche_lanes::{LaneBatch, Slot, Tip};
use corniche_lanes::{LaneValue, MAX_DECISIONS, MAX_MEMBERS};
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex, wire};

/// Step of a slot: 4 · round + phase. A logical clock; it has nothing to do with time.
pub type Step = u64;

/// The decision of a slot (O5).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct Value {
    /// The proposer's clock.
    pub time: TimestampMs,
    #[borsh(deserialize_with = "wire::at_most::<MAX_MEMBERS, _, _>")]
    pub tips: Vec<Tip>,
    /// In the first slot of an epoch: the proposers of the next epoch, leader first (B4).
    #[borsh(deserialize_with = "wire::at_most::<MAX_MEMBERS, _, _>")]
    pub schedule: Vec<ValidatorIndex>,
}

impl LaneValue for Value {
    fn tips(&self) -> &[Tip] {
        &self.tips
    }

    fn time(&self) -> TimestampMs {
        self.time
    }
}

/// Compared as one number: priority, then proposer, then value (L1608).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct Proposal {
    pub priority: u128,
    pub proposer: ValidatorIndex,
    pub value: Value,
}

/// A recorder's answer: its step, the first proposal of that step, and the highest of the step before (R5).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Answer {
    pub step: Step,
    pub first: Proposal,
    pub highest_before: Option<Proposal>,
}

/// Names a request of a proposer. Answers to others do not count (P5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct RequestId {
    pub slot: Slot,
    pub step: Step,
    /// Start of the proposer's engine: after a restart it may propose with other priorities in the same step.
    pub run: TimestampMs,
}

#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Message {
    /// A batch, from its author or from another holder.
    Batch(LaneBatch),
    FetchBatch {
        author: ValidatorIndex,
        tip: Tip,
    },
    /// Proposer to recorder.
    Record {
        request: RequestId,
        proposal: Proposal,
    },
    /// Recorder to proposer.
    Answer {
        request: RequestId,
        answer: Answer,
        /// The recorder's clock.
        time: TimestampMs,
    },
    /// These consecutive slots are decided.
    Decided {
        first: Slot,
        #[borsh(deserialize_with = "wire::at_most::<MAX_DECISIONS, _, _>")]
        values: Vec<Value>,
    },
    /// The sender knows all decisions up to this slot, and asks for later ones. Its own batches up to the number `delivered` are delivered
    /// there. `time` is its clock.
    Progress {
        decided: Slot,
        delivered: u64,
        time: TimestampMs,
    },
    /// A validator that started asks for the highest slots in use, and for clocks that it misses. `run` is the start of its engine.
    AskHighest {
        run: TimestampMs,
    },
    /// Response: the highest slot in which the sender may have answered, or knows that others did, and its clock.
    Highest {
        run: TimestampMs,
        slot: Slot,
        time: TimestampMs,
    },
}

impl Message {
    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }
}

/// Context of the randomness.
pub(crate) const RANDOMNESS_TAG: &str = "corniche-quepaxa-randomness";
/// Tag of the digests of batches.
pub(crate) const BATCH_TAG: &str = "corniche-quepaxa-batch";

/// Context of the digests of decisions.
#[derive(Clone, Copy, Debug)]
pub struct Context(Scope);

impl Context {
    pub fn new(committee: &Committee) -> Self {
        Self(Scope::new(committee))
    }

    /// Digest of a decision, from which randomness is made.
    pub fn value(&self, slot: Slot, value: &Value) -> B256 {
        self.0.digest("corniche-quepaxa-value", &(slot, value))
    }
}
