//! Messages and what they contain. No message is signed: validators crash, but do not lie (§1), and links authenticate the sender.

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Committee, Scope};
pub use corniche_lanes::{LaneBatch, Slot, Tip};
use corniche_lanes::{LaneValue, MAX_DECISIONS, MAX_MEMBERS};
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex, wire};

/// Number of a proposer's attempt in one slot. Two proposers never use the same one (X2): first the counter is compared, then the
/// proposer. The first counter is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct Try {
    pub counter: u64,
    pub proposer: ValidatorIndex,
}

/// The decision of a slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct Value {
    /// The validator that made this value. Others may propose it again (P2).
    pub proposer: ValidatorIndex,
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

/// A value that an acceptor accepted, and in which try.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct Accepted {
    pub attempt: Try,
    pub value: Value,
}

/// Names a request of a proposer: a slot and a try. An answer to any other request does not count (X3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct RequestId {
    pub slot: Slot,
    pub attempt: Try,
}

/// A promise to take part in no lower try, with what was accepted before (A1).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Promise {
    pub attempt: Try,
    pub accepted: Option<Accepted>,
}

/// Times in an acceptor's answer: of the network (P9), and of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Stamp {
    /// The time in the request, plus the time for which the acceptor waited for batches.
    pub echo: TimestampMs,
    /// The acceptor's clock.
    pub time: TimestampMs,
}

/// An acceptor's answer.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Answer {
    /// PROMISE: the accepted value with the highest try, if there is one.
    Promise(Option<Accepted>),
    /// ACCEPT, with the PROMISE for the next slot if the request asked for one (P10).
    Accept { next: Option<Promise> },
    /// NACK: the acceptor promised this higher try (M9).
    Refuse { promised: Try },
}

#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Message {
    /// A batch, from its author or from another holder.
    Batch(LaneBatch),
    FetchBatch {
        author: ValidatorIndex,
        tip: Tip,
    },
    /// PREPARE. `sent` is the proposer's clock.
    Prepare {
        request: RequestId,
        sent: TimestampMs,
    },
    /// PROPOSE. `next` is the try of a PREPARE for the next slot (P10).
    Propose {
        request: RequestId,
        value: Value,
        next: Option<Try>,
        sent: TimestampMs,
    },
    /// PROMISE, ACCEPT or NACK.
    Answer {
        request: RequestId,
        answer: Answer,
        stamp: Stamp,
    },
    /// DECIDE: these consecutive slots are decided.
    Decided {
        first: Slot,
        #[borsh(deserialize_with = "wire::at_most::<MAX_DECISIONS, _, _>")]
        values: Vec<Value>,
    },
    /// Asks for decisions after this slot (X12).
    CatchUp {
        after: Slot,
    },
    /// The sender knows all decisions up to this slot, and measured this maximum of its own round-trip times, in ms; 0 if it
    /// measured none. Its own batches up to the number `delivered` are delivered there. `time` is its clock. Without `echo` it asks for a
    /// response, whose `echo` is this time.
    Status {
        decided: Slot,
        delivered: u64,
        rtt_ms: u64,
        time: TimestampMs,
        echo: Option<TimestampMs>,
    },
    /// An acceptor that lost its disk asks for the highest slots in use. `run` is the start of its engine.
    AskHighest {
        run: TimestampMs,
    },
    /// Response: the highest slot in which the sender may have answered, or knows that others did.
    Highest {
        run: TimestampMs,
        slot: Slot,
    },
}

impl Message {
    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }
}

/// Context of the randomness.
pub(crate) const RANDOMNESS_TAG: &str = "corniche-baxos-randomness";
/// Tag of the digests of batches.
pub(crate) const BATCH_TAG: &str = "corniche-baxos-batch";

/// Context of the digests of decisions.
#[derive(Clone, Copy, Debug)]
pub struct Context(Scope);

impl Context {
    pub fn new(committee: &Committee) -> Self {
        Self(Scope::new(committee))
    }

    /// Digest of a decision, from which randomness is made.
    pub fn value(&self, slot: Slot, value: &Value) -> B256 {
        self.0.digest("corniche-baxos-value", &(slot, value))
    }
}
