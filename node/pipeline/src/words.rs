//! What goes into a pipeline and what comes out of it.

use crate::blocks::BlockPlan;
use crate::dev::{Clock, DevOrder, Start};
use crate::execution::{Executed, VerifiedTransaction};
use crate::message::{PeerMessage, Request, Response};
use corniche_admission::{PoolConfig, Refusal, Rotation};
use corniche_certify::{Keys as CertificateKeys, VerifiedCertificate};
use corniche_engine::{Engine, Offence, Resume, Ticket, TraceEvent, Verified};
use corniche_state::{CommittedBlock, State};
use corniche_types::{B256, Block, Bytes, Certificate, Genesis, Height, TimestampMs, ValidatorIndex};
use std::sync::Arc;

/// The libp2p identity of a peer: an ed25519 public key.
pub type NodeKey = [u8; 32];

/// Builds the engine: at start with the stored records, and again after following.
pub type EngineFactory = Box<dyn Fn(Vec<(Ticket, Bytes)>, Resume, TimestampMs) -> Box<dyn Engine> + Send>;

/// What happens to a node.
pub enum Input {
    /// A transaction from a user (`from` is `None`) or from a peer. `reply` is echoed in [`Output::Submitted`]; with `None`
    /// nobody waits for an answer.
    Submit {
        transaction: VerifiedTransaction,
        from: Option<NodeKey>,
        reply: Option<u64>,
    },
    /// What a development chain is told; `reply` is echoed in [`Output::Obeyed`].
    Dev {
        order: DevOrder,
        reply: u64,
    },
    PeerUp {
        peer: NodeKey,
        validator: Option<ValidatorIndex>,
    },
    PeerDown {
        peer: NodeKey,
    },
    /// A message that the engine's verifier accepted.
    Engine {
        from: ValidatorIndex,
        message: Verified,
    },
    CertificateShare {
        from: ValidatorIndex,
        bytes: Bytes,
    },
    /// A certificate from a peer. One at or below [`crate::Pipeline::certified_height`] says nothing and need not be verified for this.
    Certificate {
        from: NodeKey,
        certificate: VerifiedCertificate,
    },
    /// The answer to [`Output::Request`]; `None` when none came.
    Response {
        from: NodeKey,
        response: Option<Response>,
    },
    /// The engine's record of this ticket is durable.
    Durable(Ticket),
    /// The answer to [`Output::Execute`], in order.
    Executed(Box<Executed>),
    /// [`Output::Append`] of this height is durable.
    Appended(Height),
    /// The answer to [`Output::ReadSafetyLog`].
    SafetyLog(Vec<(Ticket, Bytes)>),
    /// This validator may order and vote from now on; see [`Setup::may_vote`].
    MayVote,
    Deadline,
}

/// What a node owes the world.
pub enum Output {
    Submitted {
        reply: u64,
        result: Result<B256, Refusal>,
    },
    /// The last block that [`Input::Dev`] asked for is appended: its hash; none where none was to be made. Of
    /// [`DevOrder::Drop`]: a transaction that left the pool, if any did. Or why nothing was done.
    Obeyed {
        reply: u64,
        result: Result<Option<B256>, &'static str>,
    },
    /// [`DevOrder::Quiet`]: no block is under way. The chain's clock is this, and this its newest block.
    Quiet {
        reply: u64,
        clock: Clock,
        height: Height,
    },
    Send {
        to: NodeKey,
        message: PeerMessage,
    },
    Request {
        to: NodeKey,
        request: Request,
    },
    /// The peer broke the rules.
    Penalise {
        peer: NodeKey,
        fault: Fault,
    },
    Persist(Ticket, Bytes),
    ReleaseBelow(Ticket),
    /// Give everything that is in the safety log, after all that was emitted before.
    ReadSafetyLog,
    /// Run the plan through the [`crate::ExecutionStage`] and answer [`Input::Executed`].
    Execute(Plan),
    /// These will probably be ordered soon, in this order: run them early if there is nothing better to do (rule S1). Owes
    /// nothing.
    Available {
        author: ValidatorIndex,
        transactions: Vec<Bytes>,
    },
    /// Append in one piece, sync, make visible, then answer [`Input::Appended`].
    Append(Arc<CommittedBlock>),
    AppendCertificate(Certificate),
    AppendProgress(Resume),
    /// A transaction entered the pool.
    Pending {
        transaction: VerifiedTransaction,
        /// A user gave it to this node; otherwise a peer did.
        from_user: bool,
    },
    /// A transaction left the pool without being executed.
    Dropped {
        hash: B256,
        status: TransactionStatus,
    },
    Accuse {
        validator: ValidatorIndex,
        offence: Offence,
        evidence: Vec<Bytes>,
    },
    Trace(TraceEvent),
    /// A quorum certified another block than ours, or f + 1 validators executed another. Remember the signatures and stop: going on
    /// would be unsafe. The reason is for the operator.
    Halt {
        reason: String,
        /// Evidence, with the signatures of a quorum or of f + 1 validators. `None`: no block of ours was contradicted, so a restart is
        /// safe once the cause is mended.
        certificate: Option<Certificate>,
    },
}

/// A block to execute.
#[derive(Clone, Debug)]
pub struct Plan {
    pub height: Height,
    pub block: BlockPlan,
}

/// A peer's fault, for its score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

/// How a transaction left the pool without being executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    Dropped(String),
    Replaced(B256),
}

/// Everything a pipeline is built from.
pub struct Setup {
    pub genesis: Arc<Genesis>,
    /// The committee's keys for certificates, and ours; without one of our own this is a full node.
    pub certificate_keys: CertificateKeys,
    pub engine_factory: Option<EngineFactory>,
    /// `false`: a validator follows certified blocks, without an engine, until [`Input::MayVote`].
    pub may_vote: bool,
    /// Records of the safety log.
    pub records: Vec<(Ticket, Bytes)>,
    pub state: State,
    /// The newest stored block; `None`: genesis.
    pub head: Option<Block>,
    /// Hash of the head or of the genesis block.
    pub head_hash: B256,
    /// Base fee for the next block, as far as admission is concerned.
    pub base_fee: u64,
    pub resume: Resume,
    /// The newest stored certificate.
    pub certificate: Option<Certificate>,
    /// Hashes of stored blocks that have no certificate yet, to be signed again.
    pub uncertified: Vec<(Height, B256)>,
    pub pool: PoolConfig,
    /// States of this many blocks below the newest stay readable. A local matter: execution reads the newest only.
    pub recent_states: u64,
    /// Whose transactions this validator proposes, as of the head; `None`: whatever it is given.
    pub rotation: Option<Rotation>,
    /// A development chain, see [`crate::dev`], and how it begins.
    pub dev: Option<Start>,
    pub now: TimestampMs,
}
