//! Inputs and outputs of the pipeline.

use crate::blocks::BlockPlan;
use crate::epoch::{EpochStart, Seat};
use crate::execution::{Executed, VerifiedTransaction};
use crate::extension::{CommandResponse, Extension};
use crate::message::{PeerMessage, Request, Response};
use crate::restart::OrderingStart;
use corniche_admission::{PoolConfig, Refusal, Rotation};
use corniche_certify::{Keys as CertificateKeys, VerifiedCertificate};
use corniche_crypto::{CoinPublicKeys, CoinSecretShare, evidence::Evidence};
use corniche_engine::{Committee, Engine, Offence, Resume, SequencerKey, Ticket, TraceEvent, Verified};
use corniche_staking::{NoticeAuthor, VerifiedNotice};
use corniche_state::{CommittedBlock, State};
use corniche_types::{B256, Block, Bytes, Certificate, Epoch, Genesis, Height, KnownVersions, TimestampMs, ValidatorIndex};
use std::sync::Arc;

/// libp2p identity of a peer: an ed25519 public key.
pub type NodeKey = [u8; 32];

/// Builds the engine: at start from the stored records, again after following, and for each epoch.
pub type EngineFactory = Box<dyn Fn(EngineStart) -> Box<dyn Engine> + Send>;

/// Keys for certificates of a committee, and our own key if we are a member.
pub type CertificateKeyFactory = Arc<dyn Fn(&Committee) -> CertificateKeys + Send + Sync>;

/// Uses of a node's keys.
pub struct NodeKeys {
    pub certificates: CertificateKeyFactory,
    /// `None`: a full node. A node with a factory orders in epochs in which it is a member.
    pub engine: Option<EngineFactory>,
    /// Makes this validator's notices to the staking contract. `None`: a node without a validator's keys.
    pub notices: Option<NoticeAuthor>,
}

/// Beginning of an engine.
pub struct EngineStart {
    pub committee: Committee,
    pub epoch: EpochStart,
    /// Records that an engine of this epoch persisted and did not release.
    pub records: Vec<(Ticket, Bytes)>,
    /// True if the records are all that this validator signed in the epoch.
    pub has_all_records: bool,
    pub resume: Resume,
    /// `None`: the coin of the genesis, or an engine without a coin.
    pub coin: Option<CommitteeCoin>,
    pub now: TimestampMs,
}

/// Public keys of a committee's coin, with this member's share.
#[derive(Clone, Debug)]
pub struct CommitteeCoin {
    pub keys: CoinPublicKeys,
    /// `None` if this node has no share: its coin key is not the registered one, or it acknowledged a wrong dealing.
    pub share: Option<CoinSecretShare>,
}

/// Input of a node.
pub enum Input {
    /// Transaction from a user (`from` is `None`) or a peer. `reply` is copied to [`Output::Submitted`]; with
    /// `None` there is no response.
    Submit {
        transaction: VerifiedTransaction,
        from: Option<NodeKey>,
        reply: Option<u64>,
    },
    /// Command for the extension; `reply` is copied to [`Output::CommandDone`].
    Command {
        command: Bytes,
        reply: u64,
    },
    PeerUp {
        peer: NodeKey,
        /// Its index in the genesis. In later epochs its key decides.
        validator: Option<ValidatorIndex>,
    },
    PeerDown {
        peer: NodeKey,
    },
    /// The peer's engine is of this epoch, or its newest block if it has no engine.
    PeerEpoch {
        peer: NodeKey,
        epoch: Epoch,
        /// True if it asks for ours.
        wants_answer: bool,
    },
    /// A peer's notice to the staking contract, verified with [`crate::Pipeline::verify_notice`].
    Notice(VerifiedNotice),
    /// Message that the verifier of this epoch's engine accepted.
    Engine {
        from: ValidatorIndex,
        epoch: Epoch,
        message: Verified,
    },
    CertificateShare {
        /// Its index in this epoch.
        from: ValidatorIndex,
        epoch: Epoch,
        bytes: Bytes,
    },
    /// Certificate from a peer. One at or below [`crate::Pipeline::certified_height`] has no effect and need
    /// not be verified.
    Certificate {
        from: NodeKey,
        certificate: VerifiedCertificate,
    },
    /// Response to [`Output::Request`]; `None` if there was none.
    Response {
        from: NodeKey,
        response: Option<Response>,
    },
    /// A datagram for the multicast group; nothing about it was checked. Only where the genesis has a group.
    Packet(Bytes),
    /// Response to [`Output::AskSequencer`]; repeated after each start.
    Sequencer(SequencerKey),
    /// The engine's records with these tickets are durable, in this order.
    Durable(Vec<Ticket>),
    /// Result of [`Output::Execute`], in order.
    Executed(Box<Executed>),
    /// [`Output::Append`] of this height is durable.
    Appended(Height),
    /// [`Output::AppendCertificate`] of this height is durable.
    CertificateAppended(Height),
    /// Result of [`Output::ReadSafetyLog`].
    SafetyLog(Vec<(Ticket, Bytes)>),
    /// This validator may order and vote from now on; see [`Setup::may_vote`].
    MayVote,
    /// The node has other keys. They serve for notices at once, and for engine and certificates from the next epoch on (K1).
    Keys(Box<NodeKeys>),
    Deadline,
}

/// Output of a node.
pub enum Output {
    Submitted {
        reply: u64,
        result: Result<B256, Refusal>,
    },
    /// A command of [`Input::Command`] is done. Blocks that it made are appended.
    CommandDone(CommandResponse),
    /// One message for these peers.
    Send {
        to: Vec<NodeKey>,
        message: PeerMessage,
    },
    Request {
        to: NodeKey,
        request: Request,
    },
    /// Send a request to the multicast group. It may be lost.
    Multicast(Bytes),
    /// Respond with the sequencer's key for an epoch of the group ([`Input::Sequencer`]), and ask the sequencer to serve the
    /// epoch. The certificate proves that a quorum agreed to start it; empty for the first one. Repeated until packets arrive.
    AskSequencer {
        epoch: u32,
        certificate: Bytes,
    },
    /// The peer violated the protocol.
    Penalise {
        peer: NodeKey,
        fault: Fault,
    },
    Persist(Ticket, Bytes),
    ReleaseBelow(Ticket),
    /// Return all records of the safety log, after all outputs emitted before are done.
    ReadSafetyLog,
    /// Run the plan with [`crate::ExecutionStage`] and respond with [`Input::Executed`].
    Execute(Plan),
    /// Transactions that will probably be ordered soon, in this order: run them speculatively when idle (rule
    /// S1). Needs no response.
    Available {
        author: ValidatorIndex,
        transactions: Vec<Bytes>,
    },
    /// Append atomically, sync, publish, then respond with [`Input::Appended`].
    Append(Arc<CommittedBlock>),
    AppendCertificate(Certificate),
    AppendProgress(Resume),
    /// An epoch begins: messages of this committee are verified from now on.
    EpochStarted {
        committee: Committee,
        is_member: bool,
    },
    /// These nodes are validators to the network from now on. Only where epochs end.
    SeatsChanged(Vec<Seat>),
    /// A transaction entered the pool.
    Pending {
        transaction: VerifiedTransaction,
        /// True if a user submitted it to this node, false if it came from a peer.
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
    /// Keep this evidence for [`Setup::evidence`] of later starts.
    StoreEvidence(Box<Evidence>),
    Trace(TraceEvent),
    /// Something that the operator should know soon.
    Warn(String),
    /// A quorum certified a different block than ours, or f + 1 validators executed a different one. Store
    /// the signatures and stop: continuing would be unsafe. The reason is for the operator.
    Halt {
        halted: Halted,
        /// Evidence with the signatures of a quorum or of f + 1 validators. `None`: no block of ours was
        /// contradicted, so a restart is safe once the cause is fixed.
        certificate: Option<Certificate>,
    },
}

/// The node stopped because continuing would be unsafe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Halted {
    pub cause: HaltCause,
    /// For the operator.
    pub reason: String,
}

/// Cause of a halt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HaltCause {
    /// A fault of this node or of the network, or damaged data.
    Fault,
    /// Another process signs with this validator's keys (K5).
    Twin,
    /// The next epoch has a protocol version that this build does not know (U3). Nothing is wrong with the data.
    Outdated,
}

impl From<String> for Halted {
    fn from(reason: String) -> Self {
        Self { cause: HaltCause::Fault, reason }
    }
}

/// Block to execute.
#[derive(Clone, Debug)]
pub struct Plan {
    pub height: Height,
    pub block: BlockPlan,
}

/// Fault of a peer, for its score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

/// Reason why a transaction left the pool without being executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    Dropped(String),
    Replaced(B256),
}

/// Parts of a pipeline.
pub struct Setup {
    pub genesis: Arc<Genesis>,
    /// Versions that this build knows.
    pub known: KnownVersions,
    pub keys: NodeKeys,
    /// Evidence that was stored.
    pub evidence: Vec<Evidence>,
    /// `false`: a validator follows certified blocks, without an engine, until [`Input::MayVote`].
    pub may_vote: bool,
    /// True if this validator has signed nothing in its life (decision 0021).
    pub never_signed: bool,
    /// True if this validator may have signed headers of blocks that it lost (K4).
    pub lost_blocks: bool,
    /// Records of the safety log.
    pub records: Vec<(Ticket, Bytes)>,
    pub state: State,
    /// Newest stored block; `None`: genesis.
    pub head: Option<Block>,
    /// Hash of the head or of the genesis block.
    pub head_hash: B256,
    /// Base fee of the next block, used by admission.
    pub base_fee: u64,
    /// Where the engine continues.
    pub ordering: OrderingStart,
    /// Newest stored certificate.
    pub certificate: Option<Certificate>,
    /// Height up to which blocks are certified: that of the certificate, or of the snapshot with which the chain begins here.
    pub certified: Height,
    /// Hashes of stored blocks without a certificate, to be signed again.
    pub uncertified: Vec<(Height, B256)>,
    pub pool: PoolConfig,
    /// Number of states below the newest that stay readable. Local setting: execution reads only the newest
    /// state.
    pub recent_states: u64,
    /// Rotation of senders among validators, as of the head; `None`: this validator proposes every
    /// transaction that it receives.
    pub rotation: Option<Rotation>,
    /// `None` on a real network.
    pub extension: Option<Box<dyn Extension>>,
    pub now: TimestampMs,
}
