//! All messages between replicas, the requests in packets, and the statements that replicas sign.
//!
//! Packets come from the multicast group and have the format `aom/1`; their payload is a [`Request`]. All other messages use
//! the authenticated links between members, so the sender is known. A message has a signature only if others must be able to
//! check it later.

use crate::keys::{Signature, Signatures, Signer};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_aom_receiver::{ConfirmVote, OrderingCertificate};
use corniche_engine::{Committee, Scope, batch_digest};
use corniche_types::{B256, Bytes, MAX_VALIDATORS, TimestampMs, ValidatorIndex, wire};
use std::fmt;

/// Maximum number of log entries in one message.
pub const MAX_ENTRIES: usize = 4_096;

/// Position in the log, starting at 1 without gaps. Slot s becomes commit s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Slot(pub u64);

impl Slot {
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Saturates at the beginning.
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

/// ⟨epoch of the sequencer, leader number⟩, ordered by the epoch first. The leader of ⟨e, l⟩ is member l mod n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct View {
    pub epoch: u32,
    pub leader: u32,
}

impl View {
    pub fn next_leader(self) -> Self {
        Self { leader: self.leader.saturating_add(1), ..self }
    }

    pub fn next_epoch(self) -> Self {
        Self { epoch: self.epoch.saturating_add(1), ..self }
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "⟨{}, {}⟩", self.epoch, self.leader)
    }
}

// ---- requests --------------------------------------------------------------------------------------------------------------

/// REQUEST: the payload of a packet. Signed by its author, a member.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Request {
    pub author: ValidatorIndex,
    pub content: Content,
    /// The author's clock.
    pub time: TimestampMs,
    pub signature: Signature,
}

/// Identifies an author's batch. Ascending per author, never reused.
pub type RequestId = u64;

#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Content {
    /// Only claims the author's time.
    Clock,
    /// A batch that fits into a packet.
    Inline { id: RequestId, expires: TimestampMs, batch: Bytes },
    /// A batch that members with F + 1 votes have on disk.
    Reference {
        body: BodyId,
        #[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")]
        holders: Votes,
    },
}

/// Identifies the body of a large batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct BodyId {
    pub author: ValidatorIndex,
    pub id: RequestId,
    /// The request has no effect in a slot after this time.
    pub expires: TimestampMs,
    pub digest: B256,
    pub bytes: u32,
}

impl BodyId {
    pub fn of(author: ValidatorIndex, id: RequestId, expires: TimestampMs, batch: &[u8]) -> Self {
        let bytes = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        Self { author, id, expires, digest: batch_digest(batch), bytes }
    }
}

impl Content {
    /// Identifier and expiry of a batch; `None` for a clock.
    pub fn batch(&self) -> Option<(RequestId, TimestampMs)> {
        match self {
            Self::Clock => None,
            Self::Inline { id, expires, .. } => Some((*id, *expires)),
            Self::Reference { body, .. } => Some((body.id, body.expires)),
        }
    }
}

// ---- the log ---------------------------------------------------------------------------------------------------------------

/// Signatures of distinct members under one statement.
pub type Votes = Vec<(ValidatorIndex, Signature)>;

/// One slot of the log.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Entry {
    Request(OrderingCertificate),
    NoOp(DropProof),
}

/// Decision about a slot: the digest of the packet's payload, or a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub enum Value {
    Drop,
    Receive { epoch: u32, seq: u64, digest: B256 },
}

/// Proof that a slot is a NO-OP.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct DropProof {
    pub view: View,
    pub slot: Slot,
    /// True for GAP-COMMITs (gap certificate); false for the leader's decision and GAP-PREPAREs.
    pub committed: bool,
    #[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")]
    pub votes: Votes,
}

/// Content of a VIEW-CONFIRM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct Confirmed {
    pub view: View,
    /// L_e: last slot before the view's epoch. Slot = base + seq.
    pub base: Slot,
    /// Last slot of the merged log, and its log-hash.
    pub slot: Slot,
    pub hash: B256,
}

/// VIEW-CONFIRMs of members with a quorum of votes. For the first view of an epoch it is the epoch certificate (V7).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct ViewCertificate {
    pub confirmed: Confirmed,
    #[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")]
    pub votes: Votes,
}

/// CHECKPOINTs of members with a quorum of votes (S4).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct CheckpointCertificate {
    pub slot: Slot,
    pub hash: B256,
    #[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")]
    pub votes: Votes,
}

/// VIEW-CHANGE of one replica.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct ViewChange {
    pub sender: ValidatorIndex,
    pub target: View,
    /// Certificate of the last view in which the sender was normal; absent for the first view.
    pub certificate: Option<ViewCertificate>,
    /// The newest checkpoint in the sender's log; absent before the first.
    pub checkpoint: Option<CheckpointCertificate>,
    /// Slot and log-hash after which `entries` begin: those of the checkpoint or of the log's beginning. A replica that followed
    /// certified commits may begin later; its log counts as far as another one contains this point.
    pub after: Slot,
    pub after_hash: B256,
    /// The sender's log after `after`.
    #[borsh(deserialize_with = "wire::at_most::<MAX_ENTRIES, _, _>")]
    pub entries: Vec<Entry>,
    /// Drops that the sender knows to be prepared in its last normal view.
    #[borsh(deserialize_with = "wire::at_most::<MAX_ENTRIES, _, _>")]
    pub prepared: Vec<DropProof>,
    pub signature: Signature,
}

/// Reason for a GAP-DECISION.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum GapEvidence {
    /// One GAP-RECV.
    Receive(OrderingCertificate),
    /// GAP-DROPs with a quorum of votes.
    Drop(#[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")] Votes),
}

// ---- the wire --------------------------------------------------------------------------------------------------------------

/// Vote of one step of gap agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct GapVote {
    pub view: View,
    pub slot: Slot,
    pub value: Value,
    pub signature: Signature,
}

#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Message {
    /// REPLY, cumulative: the sender's log is durable up to this slot, with this log-hash.
    Reply {
        view: View,
        slot: Slot,
        hash: B256,
    },
    /// SYNC: a REPLY with the gap certificates of this view (S1).
    Sync {
        view: View,
        slot: Slot,
        hash: B256,
        #[borsh(deserialize_with = "wire::at_most::<MAX_ENTRIES, _, _>")]
        drops: Vec<DropProof>,
    },
    /// QUERY for the slots from `from` on (pitfall 19: a range).
    Query {
        from: Slot,
    },
    /// QUERY-REPLY: entries of the sender's log from `from` on, and the newest checkpoint among them.
    QueryReply {
        view: View,
        from: Slot,
        #[borsh(deserialize_with = "wire::at_most::<MAX_ENTRIES, _, _>")]
        entries: Vec<Entry>,
        checkpoint: Option<CheckpointCertificate>,
    },
    GapFind {
        view: View,
        slot: Slot,
    },
    GapReceive {
        view: View,
        slot: Slot,
        certificate: OrderingCertificate,
    },
    GapDrop {
        view: View,
        slot: Slot,
        signature: Signature,
    },
    GapDecision {
        view: View,
        slot: Slot,
        evidence: GapEvidence,
        signature: Signature,
    },
    GapPrepare(GapVote),
    GapCommit(GapVote),
    /// The sender suspects the leader or the sequencer, and would move to this view.
    Suspect {
        view: View,
    },
    /// From its sender, or from the leader of its target before VIEW-START.
    ViewChange(Box<ViewChange>),
    /// The VIEW-CHANGEs of the merge, by their signatures. The leader sent each of them before.
    ViewStart {
        view: View,
        #[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")]
        changes: Votes,
    },
    ViewConfirm {
        confirmed: Confirmed,
        signature: Signature,
    },
    Checkpoint {
        slot: Slot,
        hash: B256,
        signature: Signature,
    },
    /// The sender's progress. `left`: the view that it is in or moves to; absent while it does not know what it promised (S5).
    /// `asks`: the receiver should respond with its own.
    Progress {
        view: View,
        left: Option<View>,
        slot: Slot,
        hash: B256,
        certificate: Option<ViewCertificate>,
        checkpoint: Option<CheckpointCertificate>,
        asks: bool,
    },
    /// The body of a large batch, from its author or in response to `FetchBody`.
    Body {
        body: BodyId,
        batch: Bytes,
    },
    /// "I have this body on disk."
    Holding {
        body: BodyId,
        signature: Signature,
    },
    FetchBody {
        body: BodyId,
    },
    /// A request that its author sends on the links as well, because the group did not deliver it in time (C3).
    Copy(Bytes),
    /// CONFIRM of a Byzantine network. `asks`: the receiver should respond with its own for these numbers.
    Confirm {
        epoch: u32,
        vote: ConfirmVote,
        asks: bool,
    },
}

impl Message {
    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }
}

/// Everything that a replica signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    Request(B256),
    Holding(BodyId),
    Confirm { group: u32, epoch: u32, digests: B256 },
    GapDrop { view: View, slot: Slot },
    GapDecision { view: View, slot: Slot, value: Value },
    GapPrepare { view: View, slot: Slot, value: Value },
    GapCommit { view: View, slot: Slot, value: Value },
    ViewChange(B256),
    ViewConfirm(Confirmed),
    Checkpoint { slot: Slot, hash: B256 },
}

/// Computes digests for one committee and group.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    scope: Scope,
    pub group: u32,
}

impl Context {
    pub fn new(committee: &Committee, group: u32) -> Self {
        Self { scope: Scope::new(committee), group }
    }

    /// Digest of a statement. Each kind has its own tag; the group separates groups of one committee.
    pub fn digest(&self, statement: &Statement) -> B256 {
        let group = self.group;
        match statement {
            Statement::Request(digest) => self.scope.digest("corniche-neobft-request", &(group, digest)),
            Statement::Holding(body) => self.scope.digest("corniche-neobft-holding", &(group, body)),
            Statement::Confirm { group, epoch, digests } => {
                self.scope.digest("corniche-neobft-confirm", &(*group, *epoch, digests))
            }
            Statement::GapDrop { view, slot } => self.scope.digest("corniche-neobft-gap-drop", &(group, view, slot)),
            Statement::GapDecision { view, slot, value } => {
                self.scope.digest("corniche-neobft-gap-decision", &(group, view, slot, value))
            }
            Statement::GapPrepare { view, slot, value } => {
                self.scope.digest("corniche-neobft-gap-prepare", &(group, view, slot, value))
            }
            Statement::GapCommit { view, slot, value } => {
                self.scope.digest("corniche-neobft-gap-commit", &(group, view, slot, value))
            }
            Statement::ViewChange(digest) => self.scope.digest("corniche-neobft-view-change", &(group, digest)),
            Statement::ViewConfirm(confirmed) => self.scope.digest("corniche-neobft-view-confirm", &(group, confirmed)),
            Statement::Checkpoint { slot, hash } => self.scope.digest("corniche-neobft-checkpoint", &(group, slot, hash)),
        }
    }

    pub fn sign(&self, statement: &Statement, signer: &dyn Signer) -> Option<Signature> {
        signer.sign(statement, &self.digest(statement))
    }

    pub fn verify(&self, signer: ValidatorIndex, statement: &Statement, signature: &Signature, keys: &dyn Signatures) -> bool {
        keys.verify(signer, &self.digest(statement), signature)
    }

    /// Statement of the author of a request.
    pub fn request(&self, author: ValidatorIndex, content: &Content, time: TimestampMs) -> Statement {
        Statement::Request(self.scope.digest("corniche-neobft-content", &(author, content, time)))
    }

    /// Statement of a member that confirms digests (pitfall 8: with group and epoch).
    pub fn confirm(&self, epoch: u32, from: u64, digests: &[[u8; 32]]) -> Statement {
        let digests = self.scope.digest("corniche-neobft-confirmed", &(from, digests));
        Statement::Confirm { group: self.group, epoch, digests }
    }

    /// Statement of the sender of a VIEW-CHANGE.
    pub fn view_change(&self, change: &ViewChange) -> Statement {
        let ViewChange { sender, target, certificate, checkpoint, after, after_hash, entries, prepared, signature: _ } = change;
        let content = (sender, target, certificate, checkpoint, after, after_hash, entries, prepared);
        Statement::ViewChange(self.scope.digest("corniche-neobft-view-change-content", &content))
    }

    /// Log-hash before slot 1.
    pub fn genesis_hash(&self) -> B256 {
        self.scope.digest("corniche-neobft-log", &self.group)
    }

    /// N1: log-hash after an entry. Equal for all proofs of one entry.
    pub fn log_hash(&self, before: B256, slot: Slot, entry: &Entry) -> B256 {
        let value = match entry {
            Entry::Request(certificate) => self.value(certificate),
            Entry::NoOp(_) => Value::Drop,
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update(before.as_slice()).update(&slot.0.to_le_bytes()).update(&wire::encode(&value));
        B256::from(*hasher.finalize().as_bytes())
    }

    /// The decision for this packet.
    pub fn value(&self, certificate: &OrderingCertificate) -> Value {
        let OrderingCertificate { epoch, seq, .. } = *certificate;
        Value::Receive { epoch, seq, digest: B256::from(certificate.digest(self.group)) }
    }
}
