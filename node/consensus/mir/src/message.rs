//! All messages between members, and the statements that members sign.
//!
//! Links are authenticated, so the sender of a message is known. A message has a signature only if others must be able to check
//! it later: PREPARE, CHECKPOINT, EPOCH-CHANGE and ECHO become parts of certificates; COMMIT does not.

use crate::keys::{Signature, Signatures, Signer};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Committee, Scope, batch_digest};
use corniche_types::{B256, Bytes, MAX_VALIDATORS, TimestampMs, ValidatorIndex, wire};
use std::fmt;

/// Maximum of the `window` parameter, and so of lists of sequence numbers in messages.
pub const MAX_WINDOW: usize = 1_024;
/// Digest of the null batch (3.7): it has no body, and is delivered as an empty commit.
pub const NULL: B256 = B256::ZERO;

/// Sequence number of a batch, starting at 1 without gaps. Number s becomes commit s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Sn(pub u64);

impl Sn {
    pub fn next(self) -> Self {
        self.plus(1)
    }

    pub fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }

    /// Saturates at zero, which is before the first number.
    pub fn minus(self, count: u64) -> Self {
        Self(self.0.saturating_sub(count))
    }
}

impl fmt::Display for Sn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of a Mir epoch. It is not the epoch of the committee.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct EpochNumber(pub u64);

impl EpochNumber {
    pub fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }
}

impl fmt::Display for EpochNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Signatures of distinct members under one statement, by ascending member.
pub type Votes = Vec<(ValidatorIndex, Signature)>;

/// A leader's batch. Its digest does not cover the epoch, because a later epoch may propose it again (U8).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Proposal {
    pub sn: Sn,
    pub author: ValidatorIndex,
    /// The author's clock.
    pub time: TimestampMs,
    /// Empty if there was nothing to propose.
    pub batch: Bytes,
}

/// Configuration of an epoch (§5.4.2), and the batches that it begins with.
///
/// Every number up to `start` is decided. The numbers from there to `first` are proposed again with these digests, and leaders
/// propose fresh batches from `first` on.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct EpochConfig {
    pub epoch: EpochNumber,
    /// EL(e), ascending.
    #[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")]
    pub leaders: Vec<ValidatorIndex>,
    pub start: Sn,
    /// Empty after a gracious change.
    #[borsh(deserialize_with = "wire::at_most::<MAX_WINDOW, _, _>")]
    pub listed: Vec<B256>,
    pub first: Sn,
    /// The last number; `None` in a stable epoch.
    pub last: Option<Sn>,
}

/// A configuration with ECHOs of members with a quorum of votes. At most one exists for each epoch.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct EpochCertificate {
    pub config: EpochConfig,
    #[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")]
    pub votes: Votes,
}

/// PREPAREs of members with a quorum of votes.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct PreparedCertificate {
    pub epoch: EpochNumber,
    pub sn: Sn,
    pub digest: B256,
    #[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")]
    pub votes: Votes,
}

/// CHECKPOINTs of members with a quorum of votes (K2).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct CheckpointCertificate {
    pub sn: Sn,
    /// Hash of the whole log up to `sn` (M16).
    pub hash: B256,
    #[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")]
    pub votes: Votes,
}

/// EPOCH-CHANGE of one member (U1, U2).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct EpochChange {
    pub sender: ValidatorIndex,
    pub target: EpochNumber,
    /// The last configuration that the sender knows; absent for epoch 0.
    pub certificate: Option<EpochCertificate>,
    /// The last stable checkpoint; absent before the first.
    pub checkpoint: Option<CheckpointCertificate>,
    /// Per number above the checkpoint: the certificate of the highest epoch in which the sender prepared a batch. Ascending.
    #[borsh(deserialize_with = "wire::at_most::<MAX_WINDOW, _, _>")]
    pub prepared: Vec<PreparedCertificate>,
    pub signature: Signature,
}

impl EpochChange {
    /// h: the last stable checkpoint.
    pub fn stable(&self) -> Sn {
        self.checkpoint.as_ref().map(|checkpoint| checkpoint.sn).unwrap_or_default()
    }
}

/// A primary's configuration, and for an ungracious change the EPOCH-CHANGEs that it is computed from (U5).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct NewEpoch {
    pub config: EpochConfig,
    /// Digests of the EPOCH-CHANGEs, by ascending sender. Empty for a gracious change.
    #[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")]
    pub changes: Vec<(ValidatorIndex, B256)>,
}

/// A member's progress (HELLO, T1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Status {
    /// The last epoch whose configuration the sender knows.
    pub epoch: EpochNumber,
    /// The epoch that the sender would move to; equal to `epoch` if it suspects nobody.
    pub wants: EpochNumber,
    pub delivered: Sn,
    pub stable: Sn,
    /// After a lost disk: the sender needs an ungracious change to this epoch, or a later one.
    pub seeks: Option<EpochNumber>,
    /// The receiver should send what the sender lacks, and its own status.
    pub asks: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Message {
    /// PRE-PREPARE with the leader's own PREPARE.
    PrePrepare {
        epoch: EpochNumber,
        proposal: Proposal,
        signature: Signature,
    },
    Prepare {
        epoch: EpochNumber,
        sn: Sn,
        digest: B256,
        signature: Signature,
    },
    Commit {
        epoch: EpochNumber,
        sn: Sn,
        digest: B256,
    },
    Checkpoint {
        sn: Sn,
        hash: B256,
        signature: Signature,
    },
    StableCheckpoint(CheckpointCertificate),
    /// From its sender, or from a primary that refers to it.
    EpochChange(Box<EpochChange>),
    NewEpoch(Box<NewEpoch>),
    /// Asks a member for its own EPOCH-CHANGE, or a primary for those of other members that it refers to.
    FetchChanges {
        epoch: EpochNumber,
        #[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")]
        members: Vec<ValidatorIndex>,
    },
    /// Vote for a configuration.
    Echo {
        epoch: EpochNumber,
        config: B256,
        signature: Signature,
    },
    Epoch(Box<EpochCertificate>),
    Status(Status),
    /// Digests of batches that are committed at the sender.
    Committed(#[borsh(deserialize_with = "wire::at_most::<MAX_WINDOW, _, _>")] Vec<(Sn, B256)>),
    FetchBody {
        sn: Sn,
        digest: B256,
    },
    Body(Proposal),
}

impl Message {
    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }
}

/// Everything that a member signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    Prepare { epoch: EpochNumber, sn: Sn, digest: B256 },
    Checkpoint { sn: Sn, hash: B256 },
    EpochChange(B256),
    Echo { epoch: EpochNumber, config: B256 },
}

/// Computes digests for one committee.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    scope: Scope,
}

impl Context {
    pub fn new(committee: &Committee) -> Self {
        Self { scope: Scope::new(committee) }
    }

    /// Digest of a statement. Each kind has its own tag.
    pub fn digest(&self, statement: &Statement) -> B256 {
        match statement {
            Statement::Prepare { epoch, sn, digest } => self.scope.digest("corniche-mir-prepare", &(epoch, sn, digest)),
            Statement::Checkpoint { sn, hash } => self.scope.digest("corniche-mir-checkpoint", &(sn, hash)),
            Statement::EpochChange(digest) => self.scope.digest("corniche-mir-epoch-change", digest),
            Statement::Echo { epoch, config } => self.scope.digest("corniche-mir-echo", &(epoch, config)),
        }
    }

    pub fn sign(&self, statement: &Statement, signer: &dyn Signer) -> Option<Signature> {
        signer.sign(statement, &self.digest(statement))
    }

    pub fn verify(&self, signer: ValidatorIndex, statement: &Statement, signature: &Signature, keys: &dyn Signatures) -> bool {
        keys.verify(signer, &self.digest(statement), signature)
    }

    pub fn proposal(&self, proposal: &Proposal) -> B256 {
        let Proposal { sn, author, time, batch } = proposal;
        self.scope.digest("corniche-mir-proposal", &(sn, author, time, batch_digest(batch)))
    }

    pub fn config(&self, config: &EpochConfig) -> B256 {
        self.scope.digest("corniche-mir-config", config)
    }

    /// Digest of an EPOCH-CHANGE's content, which its sender signs.
    pub fn change(&self, change: &EpochChange) -> B256 {
        let EpochChange { sender, target, certificate, checkpoint, prepared, signature: _ } = change;
        self.scope.digest("corniche-mir-change", &(sender, target, certificate, checkpoint, prepared))
    }

    /// Hash of the log before number 1.
    pub fn genesis_hash(&self) -> B256 {
        self.scope.digest("corniche-mir-log", &())
    }

    /// Hash of the log after a number (M16).
    pub fn log_hash(&self, before: B256, sn: Sn, digest: B256) -> B256 {
        self.scope.digest("corniche-mir-log-entry", &(before, sn, digest))
    }
}
