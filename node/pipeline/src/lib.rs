//! Path of a transaction, composed without I/O: admission, ordering engine, block building, execution and
//! certification, and following blocks that others certified.
//!
//! ```text
//! submit ─▶ pool ─▶ engine ─▶ builder ─▶ ExecutionStage ─▶ append ─▶ certifier ─▶ certificate
//!                     ▲                        ▲                         │
//!                     └── resume ── follower ──┘ ◀── blocks of peers ◀───┘
//! ```
//!
//! [`Pipeline`] is one state machine on one thread: `handle` one [`Input`], then `poll` every [`Output`],
//! then wait for the next input or the `deadline`. The two slow stages are outputs that run elsewhere and are
//! answered with inputs. Execution is [`Output::Execute`], run by [`ExecutionStage`], or by its halves
//! [`Runner`] and [`Sealer`] on a thread each. Durable appends are [`Output::Append`], run by the store.
//!
//! [`Driver`] is the loop around it: it passes each output to one of the [`Effects`], and groups the writes.
//! `corniche node` implements the effects with threads, files and sockets, the simulator with virtual time.
//! Invariants:
//!
//! - A block is visible (receipts, state, `latest`) only after [`Input::Appended`]; its header is signed only
//!   then.
//! - Plans are executed in order, at most [`AHEAD_OF_CERTIFICATION`] blocks ahead of the newest certificate.
//! - A certificate for a different header than ours halts the node ([`Output::Halt`]). So do f + 1 signatures
//!   on a different header than a followed block executes to.
//! - A validator forwards its users' transactions to the validator that owns their sender. It proposes them
//!   itself only at its turn (decision 0013).
//! - A full node is the same pipeline without an engine: it only follows. A validator that has fallen behind
//!   follows until it has caught up. Then it builds its engine anew at the resume point of the last block.
//!   A validator that may not vote yet ([`Setup::may_vote`]) begins the same way.
//! - A validator also follows blocks that f + 1 others signed, if without it there is no quorum. They count
//!   as certified only when a quorum has signed them, like all others (decision 0019).
//! - Batches contain only transactions, and notices to the staking contract, unless the pipeline has an [`Extension`], which a
//!   real network has not. Every other entry is skipped.
//!
//! Modules in layers, lowest first; each uses only modules in its row or above:
//!
//! | module | content |
//! |---|---|
//! | `attested` | senders that other validators attested |
//! | `epoch` | beginning of an epoch |
//! | `extension`, `blocks` | extension point for development chains; cuts blocks from the order |
//! | `execution`, `message` | execution stage; messages between nodes |
//! | `restart`, `safety` | point where a node continues; records of the safety log with their epochs |
//! | `io` | inputs and outputs of the pipeline |
//! | `check`, `writes` | checks of peers' messages; group commit |
//! | `follow` | chooses peers to request blocks from |
//! | `pipeline` | the state machine |
//! | `driver` | the loop around it |

mod attested;
mod blocks;
mod check;
mod driver;
mod epoch;
mod execution;
mod extension;
mod follow;
mod io;
mod message;
mod pipeline;
mod restart;
mod safety;
mod writes;

pub use attested::AttestedSenders;
pub use blocks::{BlockBuilder, BlockPlan};
pub use check::Checks;
pub use corniche_certify::{
    CertificateVerifier, Keys as CertificateKeys, Signature as CertificateSignature, Signatures as CertificateSignatures,
    Signer as HeaderSigner, VerifiedCertificate,
};
pub use corniche_staking::{AuthorKeys, NoticeAuthor, NoticeSigner, Statement as NoticeStatement, VerifiedNotice};
pub use driver::{Driver, Effects, Event};
pub use epoch::{ChainBase, CoinStatus, EpochStart, Seat, fee_addresses, is_one_validator, version_votes};
pub use execution::{Executed, ExecutionStage, ExecutionStart, Runner, Sealer, UnsealedBlock, dealing_checks, verify_all};
pub use extension::{BlockSettings, CommandResponse, Directive, Directives, Extension};
pub use io::{
    CertificateKeyFactory, CommitteeCoin, EngineFactory, EngineStart, Fault, HaltCause, Halted, Input, NodeKey, NodeKeys,
    Output, Plan, Setup, TransactionStatus,
};
pub use message::{BlockSource, FollowedBlock, MAX_FORWARDED_TRANSACTIONS, Part, PeerMessage, Request, Response, serve_blocks};
pub use pipeline::{AHEAD_OF_CERTIFICATION, Pipeline, is_useful, verify_notice};
pub use restart::{OrderingStart, RestartPoint};
pub use writes::Write;
