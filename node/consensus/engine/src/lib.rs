//! The interface of every ordering engine, and its vocabulary.
//!
//! An engine is a state machine without I/O. The caller applies one [`Input`] with [`Engine::handle`], then takes every
//! [`Output`] with [`Engine::poll`] until `None`, then waits for the next input or for [`Engine::deadline`]. Records that
//! became durable together may be applied before the outputs are taken, so that one message covers them. An engine
//! has no clock (time is an argument), no channel, no lock, no log and no source of randomness besides its seed.
//!
//! - **Recovery is construction.** An engine is built from its configuration, the committee, a seed, the records that
//!   it persisted and has not released, and the [`Resume`] point stored with the state. It then emits every [`Ordered`]
//!   after that point, identical to the first time.
//! - **Durable before visible.** A send that relies on a record leaves only after the matching [`Input::Durable`].
//! - **Trust is a type.** The engine's [`Verifier`] checks the bytes of peers, on any thread. The engine accepts only
//!   its results.

mod clock_leads;
mod committee;
mod journal;
mod pacing;
mod parameter;
mod token_bucket;

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::evidence::Evidence;
use corniche_types::{B256, Bytes, CommitIndex, TimestampMs, ValidatorIndex};
use std::{any::Any, collections::BTreeSet, sync::Arc};

pub use clock_leads::ClockLeads;
pub use committee::{Committee, Member, Scope};
pub use corniche_types::Resume;
pub use journal::{Journal, SPARE_RECORDS};
pub use pacing::stretched_ms;
pub use parameter::{DAY_MS, parameter_within};
pub use token_bucket::{BucketRate, TokenBucket, TokenBuckets};

/// An ordering engine. The crate documentation describes how to drive it.
pub trait Engine: Send {
    /// Applies one input. Never blocks and never fails: a peer's fault is reported as [`Output::Accuse`], or the
    /// message is dropped.
    fn handle(&mut self, now: TimestampMs, input: Input);

    /// Returns the next output, or `None` when there is nothing to do until the next input.
    fn poll(&mut self) -> Option<Output>;

    /// Time at which the caller must call `handle` with [`Input::Deadline`] if no other input arrives. Every input may
    /// change it.
    fn deadline(&self) -> Option<TimestampMs>;

    /// Milliseconds by which clocks of validators are ahead of the caller's ([`ClockLeads`]), for metrics. None by default.
    fn clock_leads(&self) -> Vec<(ValidatorIndex, u64)> {
        Vec::new()
    }
}

impl<E: Engine + ?Sized> Engine for Box<E> {
    fn handle(&mut self, now: TimestampMs, input: Input) {
        (**self).handle(now, input);
    }

    fn poll(&mut self) -> Option<Output> {
        (**self).poll()
    }

    fn deadline(&self) -> Option<TimestampMs> {
        (**self).deadline()
    }

    fn clock_leads(&self) -> Vec<(ValidatorIndex, u64)> {
        (**self).clock_leads()
    }
}

/// Checks the bytes of peers. Has no state; usable on any thread.
pub trait Verifier: Send + Sync {
    /// Estimates the time that [`Verifier::verify`] needs for `bytes`, in µs on an ordinary machine, from the first
    /// bytes and the length alone. It is an upper bound: higher than the real cost where only decoding could tell.
    /// Callers use it to share their threads fairly among peers.
    fn cost(&self, bytes: &[u8]) -> u64;

    /// Decodes and checks everything about `bytes` that can be checked without the engine's state.
    fn verify(&self, from: ValidatorIndex, bytes: &Bytes) -> Result<Verified, PeerFault>;
}

/// A message that an engine's own verifier accepted. The engine downcasts it to its message type.
#[derive(Clone)]
pub struct Verified(pub Arc<dyn Any + Send + Sync>);

impl std::fmt::Debug for Verified {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verified(..)")
    }
}

/// A peer sent data that is never valid.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct PeerFault(pub String);

/// Identifies one record that an engine asked to persist. The engine chooses it and never reuses it, not even after a
/// restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

impl Ticket {
    /// First ticket of a run of the engine. It contains the time, so that tickets stay unique even when earlier records
    /// are lost.
    pub fn first(now: TimestampMs) -> Self {
        Self(now.0.min(u64::MAX >> 20) << 20)
    }

    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The transactions of one proposer, opaque to engines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Encoded transactions (`corniche_admission::batch`); empty for an empty batch.
    pub bytes: Bytes,
}

/// Events that the caller passes to an engine.
#[derive(Debug)]
pub enum Input {
    /// Response to [`Output::WantBatch`]. It may come much later than the request.
    Batch(Batch),
    /// A peer's message that this engine's [`Verifier`] accepted.
    Message { from: ValidatorIndex, message: Verified },
    /// The record with this ticket is on disk.
    Durable(Ticket),
    /// [`Engine::deadline`] passed.
    Deadline,
    /// A connection to this validator was made. Messages sent before it may be lost.
    PeerUp(ValidatorIndex),
    /// The connection to this validator ended.
    PeerDown(ValidatorIndex),
    /// A certificate covers the state after this commit, which was delivered here. A quorum executed everything up to
    /// it, and validators that lack it can follow certified blocks. This is a hint about which data to keep for peers.
    /// It may be late or missing, but never early.
    Certified(CommitIndex),
    /// A datagram that came for the multicast group. Nothing about it was checked. Engines without a group ignore it.
    Packet(Bytes),
    /// The configuration service announced the sequencer of an epoch. The caller repeats the newest ones after each start.
    /// Engines without a group ignore it.
    Sequencer(SequencerKey),
}

/// Key with which this validator checks the packets of one sequencer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequencerKey {
    pub group: u32,
    /// Epoch of the group. It is not the epoch of the committee.
    pub epoch: u32,
    /// Suite of `aom/1`.
    pub suite: u8,
    /// This validator's tag key, or the public key of the sequencer, depending on the suite.
    pub key: Bytes,
}

/// Requests of an engine to its caller.
#[derive(Debug)]
pub enum Output {
    /// The engine could propose now. Respond with [`Input::Batch`] as soon as there is at least one transaction, within
    /// these limits. Without transactions, do not respond, unless a later commit is needed anyway: then respond with an
    /// empty batch, and the engine continues without transactions. At most one request is outstanding.
    WantBatch { bytes: u32, gas: u64 },
    /// Deliver `message` to these validators. Per validator, messages arrive in order while the connection lasts; a
    /// disconnect may lose them. `to` never includes the sender.
    Send { to: Recipients, message: Bytes },
    /// Append `record`, sync, then respond with [`Input::Durable`]. Records become durable in the order in which they
    /// were emitted.
    Persist(Ticket, Bytes),
    /// This record, and every record with a smaller ticket, is not needed any more.
    ReleaseBelow(Ticket),
    /// The next commit.
    Deliver(Ordered),
    /// A proposal (own ones included) was accepted with its transactions. A later commit will probably contain it,
    /// probably in the order of acceptance. A hint for speculative execution: it guarantees nothing, and correctness
    /// must not depend on it.
    Available { author: ValidatorIndex, batch: Batch },
    /// An own batch that will never be ordered: its transactions return to the pool.
    Requeue(Batch),
    /// From now on only these members propose; before the first one, all do. Users' transactions should go to them.
    Proposers(BTreeSet<ValidatorIndex>),
    /// A validator broke the rules. `evidence` is what it signed. `proof` convicts it, if the offence is punished.
    Accuse { validator: ValidatorIndex, offence: Offence, evidence: Vec<Bytes>, proof: Option<Box<Evidence>> },
    /// Another process signs with this validator's keys: the node must stop (validators.md §5, K5). Contains what shows it.
    Twin(String),
    /// Send this datagram to the address of the multicast group. It may be lost, like everything on that way.
    Multicast(Bytes),
    /// Ask the configuration service for the sequencer of this epoch. It responds with [`Input::Sequencer`], and installs one
    /// if there is none yet. The key may come at once, derived locally; it does not show that a sequencer serves the epoch. So
    /// the engine repeats this, also after each start, until the first authentic packet of the epoch arrives.
    /// `certificate` proves that a quorum agreed to start the epoch; empty for the first one.
    AskSequencer { epoch: u32, certificate: Bytes },
    /// For logs and tests; requires no action.
    Trace(TraceEvent),
}

/// Why a signer in another process gave no signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsigned {
    /// It never signs this. Nothing else may be asked for in its place.
    Refused,
    /// It does not respond. The same may be asked for again.
    Unavailable,
}

/// Recipients of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// Every other validator of the committee.
    All,
    One(ValidatorIndex),
}

impl Recipients {
    /// True if `validator`, which is not the sender, is one of them.
    pub fn includes(self, validator: ValidatorIndex) -> bool {
        match self {
            Self::All => true,
            Self::One(one) => one == validator,
        }
    }
}

/// Violations that a validator can be accused of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offence {
    /// Signed two different proposals for one slot.
    Equivocation,
    /// Signed a header share that does not verify.
    BadSignature,
    /// Sent a coin share that does not verify.
    BadCoinShare,
}

/// Something an engine did, shown to people who inspect an execution: logs, the ring buffer behind `corniche_getDag`,
/// the simulator. No behaviour may depend on it.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum TraceEvent {
    /// An own proposal was signed. It is not durable yet.
    Proposed(Vertex),
    /// A proposal (own ones included) was accepted, and its whole history is present.
    Accepted(Vertex),
    /// The leaders of a round became known, in rank order.
    Elected { round: u64, leaders: Vec<ValidatorIndex> },
    /// A leader slot was decided finally. `committed` is `None` for a skipped slot. `why` names the rule. The digest is
    /// that of the leader's own proposal if the engine commits proposals. It belongs to no [`Vertex`] if the engine
    /// commits cuts through lanes.
    Decided { round: u64, rank: u16, leader: ValidatorIndex, committed: Option<B256>, why: String },
    /// Any other event for the log; `name` is short and in kebab-case.
    Note { name: String, detail: String },
    /// The proposals that a committed leader slot orders were delivered as this commit. A slot waits for earlier slots,
    /// so this event may come long after the decision. It may repeat after a restart.
    Delivered { round: u64, rank: u16, commit: CommitIndex },
    /// Validators signed that they hold a proposal and everything below it in its lane. This node may lack the proposal
    /// itself.
    Held { vertex: VertexId, holders: Vec<ValidatorIndex> },
    /// Validators that agreed on a leader slot, in engines whose votes are messages: `voters`, and `confirmers` where a
    /// second step was needed. A node that learns only the result may not know the first step; then `voters` is empty.
    Agreed { round: u64, rank: u16, voters: Vec<ValidatorIndex>, confirmers: Vec<ValidatorIndex> },
}

/// Identifies a proposal. All validators use the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct VertexId {
    pub round: u64,
    pub author: ValidatorIndex,
    pub digest: B256,
}

/// A proposal, as shown in a [`TraceEvent`].
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Vertex {
    pub id: VertexId,
    pub parents: Vec<VertexId>,
    /// Size of its batch, in bytes.
    pub batch_bytes: u32,
    /// [`batch_digest`] of its batch. `None` for an empty batch, which no record refers to.
    pub batch_digest: Option<B256>,
}

/// BLAKE3 hash by which ordering records refer to a batch.
pub fn batch_digest(batch: &[u8]) -> B256 {
    B256::from(*blake3::hash(batch).as_bytes())
}

impl TraceEvent {
    pub fn note(name: &str, detail: String) -> Self {
        Self::Note { name: name.to_owned(), detail }
    }
}

/// One commit, identical at every validator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// Starts at 1 and has no gaps.
    pub index: CommitIndex,
    pub leader: ValidatorIndex,
    /// Never decreases.
    pub time: TimestampMs,
    pub randomness: B256,
    /// The non-empty batches with their authors, in order.
    pub batches: Vec<(ValidatorIndex, Batch)>,
    /// Another engine instance can resume *after* this commit from this data. It is a deterministic function of the
    /// commits up to this one. The node stores it in the same append as the state after this commit. The ordering
    /// record contains its hash.
    pub checkpoint: Bytes,
}
