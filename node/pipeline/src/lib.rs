//! The path of a transaction, composed without I/O: admission, the ordering engine, block building, execution and
//! certification, and following blocks that others certified.
//!
//! ```text
//! submit ─▶ pool ─▶ engine ─▶ builder ─▶ ExecutionStage ─▶ append ─▶ certifier ─▶ certificate
//!                     ▲                        ▲                         │
//!                     └── resume ── follower ──┘ ◀── blocks of peers ◀───┘
//! ```
//!
//! [`Pipeline`] is one state machine on one thread: `handle` one [`Input`], then `poll` every [`Output`], then wait for the
//! next input or the `deadline`. The two slow stages are outputs that the rim runs elsewhere and answers: execution
//! ([`Output::Execute`], run by [`ExecutionStage`], or by its halves [`Runner`] and [`Sealer`] on a thread each) and durable
//! appends ([`Output::Append`], run by the store). What always holds:
//!
//! - A block is visible (receipts, state, `latest`) only after [`Input::Appended`]; its header is signed only then.
//! - Plans are executed in order, at most [`AHEAD_OF_CERTIFICATION`] blocks ahead of the newest certificate.
//! - A certificate for another header than ours halts the node ([`Output::Halt`]), and so do f + 1 signatures on another header than
//!   a followed block executes to.
//! - What users give a validator it passes on to the one that owns their sender, and proposes itself only when its turn has
//!   come (decision 0013).
//! - A full node is the same pipeline without an engine: it only follows. A validator that has fallen behind follows until it
//!   has caught up, then builds its engine anew at the resume point that the last block covers. One that may not vote yet
//!   ([`Setup::may_vote`]) begins in that way.
//! - A validator also follows blocks that f + 1 others signed, where nobody certifies without it. They count as certified only when a
//!   quorum signed them, like any other (decision 0019).

mod blocks;
pub mod dev;
mod execution;
mod follow;
mod message;
mod pipeline;
mod words;

pub use blocks::{BlockBuilder, BlockPlan};
pub use corniche_certify::{
    CertificateVerifier, Keys as CertificateKeys, Signature as CertificateSignature, Signatures as CertificateSignatures,
    VerifiedCertificate,
};
pub use execution::{Executed, ExecutionStage, ExecutionStart, Ran, Runner, Sealer, verify_all};
pub use message::{BlockSource, FORWARDED_TRANSACTIONS, FollowedBlock, Part, PeerMessage, Request, Response, answer};
pub use pipeline::{AHEAD_OF_CERTIFICATION, Pipeline};
pub use words::{EngineFactory, Fault, Input, NodeKey, Output, Plan, Setup, TransactionStatus};
