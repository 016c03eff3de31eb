//! The interface of every ordering engine, and its words.
//!
//! An engine is a state machine without I/O. The caller applies one [`Input`] with [`Engine::handle`], then takes every
//! [`Output`] with [`Engine::poll`] until `None`, then waits for the next input or for [`Engine::deadline`]. Nothing else
//! exists: no clock (time is an argument), no channel, no lock, no log of its own, no randomness besides the seed.
//!
//! - **Recovery is construction.** An engine is built from its configuration, the committee, a seed, the records it asked
//!   to persist and has not released, and the [`Resume`] point stored beside the state. It then emits every
//!   [`Ordered`] after that point, the same ones as before.
//! - **Durable before visible.** A send that relies on a record leaves only after the matching [`Input::Durable`].
//! - **Trust is a type.** Peers' bytes are checked by the engine's [`Verifier`], on any thread; the engine takes only what
//!   the verifier returned.

mod allowance;
mod committee;

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{B256, Bytes, CommitIndex, TimestampMs, ValidatorIndex};
use std::{any::Any, sync::Arc};

pub use allowance::{Allowance, Allowances, Rate};
pub use committee::{Committee, Member, Scope};
pub use corniche_types::Resume;

/// An ordering engine. See the crate documentation for how it is driven.
pub trait Engine: Send {
    /// Applies one input. Never blocks, never fails: what a peer got wrong comes out as [`Output::Accuse`] or is dropped.
    fn handle(&mut self, now: TimestampMs, input: Input);

    /// The next thing the caller owes, or `None` when there is nothing to do until the next input.
    fn poll(&mut self) -> Option<Output>;

    /// When to call `handle` with [`Input::Deadline`] if nothing else happens; changes with every input.
    fn deadline(&self) -> Option<TimestampMs>;
}

/// Checks peers' bytes, without state, on any thread.
pub trait Verifier: Send + Sync {
    /// Estimate of what [`Verifier::verify`] takes for `bytes`, µs on an ordinary machine, from the first bytes and the length alone. Not
    /// less than it takes; more where decoding would be needed to know. Callers share their threads among peers by it.
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

/// A peer sent something that is never valid.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct PeerFault(pub String);

/// Identifies one record an engine asked to persist. Chosen by the engine, never reused, also not across restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

impl Ticket {
    /// The first of a life. Time stands in it, so that tickets are not reused even when the records of earlier lives are lost.
    pub fn first(now: TimestampMs) -> Self {
        Self(now.0.min(u64::MAX >> 20) << 20)
    }

    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A proposer's transactions, opaque to engines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Encoded transactions (`corniche_admission::batch`); empty for an empty batch.
    pub bytes: Bytes,
}

/// What happens to an engine.
#[derive(Debug)]
pub enum Input {
    /// The answer to [`Output::WantBatch`]. May come much later than asked.
    Batch(Batch),
    /// A peer's message that this engine's [`Verifier`] accepted.
    Message { from: ValidatorIndex, message: Verified },
    /// The record of this ticket is on disk.
    Durable(Ticket),
    /// [`Engine::deadline`] passed.
    Deadline,
    /// A connection to this validator was made. Messages sent before it may be lost.
    PeerUp(ValidatorIndex),
    /// The connection to this validator ended.
    PeerDown(ValidatorIndex),
    /// A certificate covers the state after this commit, which was delivered here: a quorum executed everything up to it, and validators
    /// that lack it can follow certified blocks. A hint for what to keep for others; may be late or left out, never early.
    Certified(CommitIndex),
}

/// What an engine owes the world.
#[derive(Debug)]
pub enum Output {
    /// The engine could propose now. Answer with [`Input::Batch`] as soon as there is at least one transaction, holding at
    /// most this much; do not answer while there is none, but with an empty batch when a later commit is wanted all the same: the engine
    /// then goes on without transactions. At most one is outstanding.
    WantBatch { bytes: u32, gas: u64 },
    /// Deliver `message` to these validators, in order per validator while the connection lasts; loss on disconnect is
    /// allowed. The sender itself is never in `to`.
    Send { to: Recipients, message: Bytes },
    /// Append `record`, sync, then answer [`Input::Durable`]. Records become durable in the order they were emitted.
    Persist(Ticket, Bytes),
    /// This record, and every one with a smaller ticket, is not needed any more.
    ReleaseBelow(Ticket),
    /// The next commit.
    Deliver(Ordered),
    /// A proposal, an own one too, was taken in with its transactions: a later commit will probably hold them, probably in the
    /// order in which proposals are taken in. A hint for running them early; owes nothing, and nothing may depend on it.
    Available { author: ValidatorIndex, batch: Batch },
    /// An own batch that will never be ordered: its transactions go back to the pool.
    Requeue(Batch),
    /// Proof or strong evidence that a validator broke the rules.
    Accuse { validator: ValidatorIndex, offence: Offence, evidence: Vec<Bytes> },
    /// For logs and tests; owes nothing.
    Trace(TraceEvent),
}

/// Whom a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipients {
    /// Every other validator of the committee.
    All,
    One(ValidatorIndex),
}

/// What a validator did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offence {
    /// Signed two different proposals for one slot.
    Equivocation,
    /// Signed a header share that does not verify.
    BadSignature,
    /// Sent a coin share that does not verify.
    BadCoinShare,
}

/// Something an engine did, for people who want to see an execution: logs, the ring behind `corniche_getDag`, the simulator.
/// Nothing may depend on it.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum TraceEvent {
    /// An own proposal was signed; it is not durable yet.
    Proposed(Vertex),
    /// A proposal, an own one too, was taken in with its whole history.
    Accepted(Vertex),
    /// The leaders of a round became known, in the order of their ranks.
    Elected { round: u64, leaders: Vec<ValidatorIndex> },
    /// A leader slot got its final verdict: what it committed, or `None` for skipped. `why` names the rule. The digest is that of the
    /// leader's own proposal where the engine commits those, and of no [`Vertex`] where it commits cuts through lanes.
    Decided { round: u64, rank: u16, leader: ValidatorIndex, committed: Option<B256>, why: String },
    /// Anything else worth a log line; `name` is short and in kebab-case.
    Note { name: String, detail: String },
    /// What a committed leader slot orders was delivered, as this commit. A slot waits for its turn, so this may come long after the
    /// verdict; a restart may tell it again.
    Delivered { round: u64, rank: u16, commit: CommitIndex },
    /// Validators signed that they hold a proposal and everything below it in its lane. The proposal itself may not be here.
    Held { vertex: VertexId, holders: Vec<ValidatorIndex> },
    /// Who agreed on what a leader slot commits, where votes are messages: who voted, and who confirmed where a second step was needed.
    /// Whoever learns only of the result may not know of the first step; then it is empty.
    Agreed { round: u64, rank: u16, voters: Vec<ValidatorIndex>, confirmers: Vec<ValidatorIndex> },
}

/// A proposal's name: the same at every validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct VertexId {
    pub round: u64,
    pub author: ValidatorIndex,
    pub digest: B256,
}

/// A proposal as a [`TraceEvent`] shows it.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Vertex {
    pub id: VertexId,
    pub parents: Vec<VertexId>,
    /// Bytes of its batch.
    pub batch_bytes: u32,
    /// [`batch_digest`] of its batch. `None` for an empty one, which no record names.
    pub batch_digest: Option<B256>,
}

/// What ordering records name a batch by: its blake3.
pub fn batch_digest(batch: &[u8]) -> B256 {
    B256::from(*blake3::hash(batch).as_bytes())
}

impl TraceEvent {
    pub fn note(name: &str, detail: String) -> Self {
        Self::Note { name: name.to_owned(), detail }
    }
}

/// One commit: the same at every validator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// Without gaps, from 1.
    pub index: CommitIndex,
    pub leader: ValidatorIndex,
    /// Never decreases.
    pub time: TimestampMs,
    pub randomness: B256,
    /// The non-empty batches, in order, with their authors.
    pub batches: Vec<(ValidatorIndex, Batch)>,
    /// From here another engine instance can resume *after* this commit: a deterministic function of the commits up to
    /// this one. Stored in the same append as the state this commit led to, and its hash is in the ordering record.
    pub checkpoint: Bytes,
}
