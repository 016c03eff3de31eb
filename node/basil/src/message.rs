//! Messages between clients and replicas (§2). Channels authenticate their ends, so a reply that no third party sees has no
//! signature.

use crate::attestation::{Attestation, Decision, View};
use crate::certificate::{Decided, Proposal};
use crate::shards::{ClientId, Key, ReplicaId};
use crate::shared::Shared;
use crate::transaction::{SignedTransaction, Timestamp, TransactionId, Value, Version};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::Bytes;

/// Maximum number of transactions in one `Fetch`.
pub const MAX_FETCHED: usize = 64;

/// Maximum number of transactions in one `State`.
pub const MAX_STATE_TRANSACTIONS: usize = 64;

/// One end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub enum Peer {
    Client(ClientId),
    Replica(ReplicaId),
}

/// A value of a key, as one replica knows it.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Versioned {
    pub version: Version,
    pub value: Value,
}

/// The newest committed value below a timestamp.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Committed {
    /// Never written since the genesis: valid with f + 1 equal replies.
    Genesis(Value),
    /// Proven by the transaction that wrote it.
    Written(Shared<Decided>),
}

/// Why a replica votes Abort.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Conflict {
    /// A prepared transaction is in the way. The client can finish it.
    Prepared(Shared<SignedTransaction>),
    /// A committed one is: proof enough to abort.
    Committed(crate::certificate::Committed),
}

/// Everything that clients and replicas send.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Message {
    /// READ.
    Read { timestamp: Timestamp, key: Key },
    /// READ-REPLY: the newest versions below the timestamp.
    ReadReply { timestamp: Timestamp, key: Key, committed: Committed, prepared: Option<Versioned> },
    /// ABORT: the client will not commit at this timestamp.
    Abandon { timestamp: Timestamp },
    /// ST1.
    Prepare(Shared<SignedTransaction>),
    /// ST1R.
    Vote { vote: Attestation, conflict: Option<Conflict> },
    /// ST2, in view 0.
    Log(Shared<Proposal>),
    /// ST2R; also a view without a decision.
    Logged(Attestation),
    /// WRITEBACK. A replica also responds with it when somebody asks about a decided transaction.
    Writeback(Shared<Decided>),
    /// RP: asks for the furthest state of a transaction that does not finish.
    Recover(Shared<SignedTransaction>),
    /// Asks for transactions of which only the ids are known, or for their certificates. At most [`MAX_FETCHED`].
    Fetch(Vec<TransactionId>),
    /// Response to `Fetch`; a decided one comes as `Writeback`.
    Known(Shared<SignedTransaction>),
    /// InvokeFB: views of replicas, and a decision for those that have none.
    InvokeFallback { proposal: Shared<Proposal>, views: Vec<Attestation> },
    /// Asks for the transactions of a closed range (A5).
    AskClosed { from_us: u64, below_us: u64 },
    /// Response: transactions that may commit in the range.
    Closed { closed: Attestation, transactions: Vec<TransactionId> },
    /// ElectFb, to the leader of its view.
    Elect(Attestation),
    /// DecFb, from the leader of `view`.
    Decide { id: TransactionId, decision: Decision, view: View, elections: Vec<Attestation> },
    /// Response to a question about a time below the pruned prefix: nobody answers it any more.
    Pruned { below_us: u64 },
    /// Asks for the committed transactions that make the state of the shard at a time, those with ids above `after` (A6).
    AskState { below_us: u64, after: Option<TransactionId> },
    /// Response, in the order of ids. At most [`MAX_STATE_TRANSACTIONS`].
    State { below_us: u64, after: Option<TransactionId>, transactions: Vec<Shared<Decided>>, is_last: bool },
    /// Asks a replica of the shard that owns it for a constant, which its program needs (A1).
    AskConstant(Key),
    /// Response.
    Constant { key: Key, value: Bytes },
}
