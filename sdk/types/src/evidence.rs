//! Evidence that a validator signed what no correct validator signs, even after a crash (`protocols/validators.md`, section 6).
//!
//! Each kind is two signed statements of one validator that contradict each other. Signed digests are compared, never signatures: a
//! second signature of one statement is no offence.
//!
//! Two cars at one position of a lane are no evidence: a validator that lost its disk may sign them honestly, and agreement does not
//! suffer.

use crate::{B256, Bytes, Epoch, FaultModel, Height, TimestampMs, ValidatorIndex, keccak256, wire};
use borsh::{BorshDeserialize, BorshSerialize};

/// Tags of what validators sign, also of statements that are no evidence. A statement's digest has the tag of its kind, and its signature that of the engine.
pub mod tags {
    /// Blocks of Mahi-Mahi, and their signatures.
    pub const BLOCK: &str = "corniche-mahi-mahi-block";
    /// Signatures of Autobahn by leaders.
    pub const AUTOBAHN: &str = "corniche-autobahn";
    /// Signatures of Autobahn for certificates.
    pub const AUTOBAHN_SHARE: &str = "corniche-autobahn-share";
    /// Autobahn's PREPARE.
    pub const PREPARE: &str = "corniche-autobahn-prepare";
    /// Autobahn's strong PREP-VOTE.
    pub const PREPARED: &str = "corniche-autobahn-prepared";
    /// Autobahn's weak PREP-VOTE.
    pub const PREPARED_WEAKLY: &str = "corniche-autobahn-prepared-weakly";
    /// Autobahn's CONFIRM-ACK.
    pub const CONFIRMED: &str = "corniche-autobahn-confirmed";
    /// Autobahn's TIMEOUT.
    pub const TIMED_OUT: &str = "corniche-autobahn-timed-out";
    /// Autobahn's cars. Two at one position are no evidence.
    pub const CAR: &str = "corniche-autobahn-car";
    /// Autobahn's VOTE for a car.
    pub const CAR_VOTE: &str = "corniche-autobahn-held";
    /// Autobahn's announcement of a disk.
    pub const DISK_ID: &str = "corniche-autobahn-birth";
    /// Notices to the staking contract, and their signatures.
    pub const NOTICE: &str = "corniche-notice";
}

/// Signed part of a block of Mahi-Mahi: its content, with hashes for what is large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Heading {
    /// Its author.
    pub author: ValidatorIndex,
    /// Its round.
    pub round: u64,
    /// Its author's clock.
    pub timestamp: TimestampMs,
    /// Hash of the encoded list, with the version byte.
    pub parents: B256,
    /// Hash of the encoded list, with the version byte.
    pub coin_shares: B256,
    /// Hash of the bytes, by which ordering records refer to the batch.
    pub batch: B256,
}

/// State of a slot of Autobahn at a validator that gave a view up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct SlotReport {
    /// View and value that it saw prepared last.
    pub confirmed: Option<(u32, B256)>,
    /// View and value of its last strong vote.
    pub voted: Option<(u32, B256)>,
}

/// Kind of a vote of Autobahn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub enum VoteKind {
    /// A strong PREP-VOTE.
    Prepared,
    /// A weak PREP-VOTE.
    PreparedWeakly,
    /// A CONFIRM-ACK.
    Confirmed,
}

/// A vote of Autobahn for a value of a slot.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct SlotVote {
    /// Its kind.
    pub kind: VoteKind,
    /// Digest of the value.
    pub cut: B256,
    /// ed25519 or BLS, as the genesis selects: 64 or 48 bytes.
    pub share: Bytes,
}

/// Two statements that contradict each other. Evidence has one form: blocks are ordered by their encodings, others by the digests of
/// their values.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Contradiction {
    /// Two blocks of Mahi-Mahi for one round.
    Blocks([(Heading, [u8; 64]); 2]),
    /// Two PREPAREs of Autobahn for one slot and view: digests of the values, and signatures.
    Prepares {
        /// The slot.
        slot: u64,
        /// The view.
        view: u32,
        /// Values and signatures.
        values: [(B256, [u8; 64]); 2],
    },
    /// Two votes of Autobahn for different values of one slot and view: both PREP-VOTEs, or both CONFIRM-ACKs.
    Votes {
        /// The slot.
        slot: u64,
        /// The view.
        view: u32,
        /// The votes.
        votes: [SlotVote; 2],
    },
    /// A vote of Autobahn, and a later TIMEOUT whose report does not name it or a later one.
    ForgottenVote {
        /// The slot.
        slot: u64,
        /// View of the vote: a strong PREP-VOTE, or a CONFIRM-ACK.
        voted_in: u32,
        /// The vote.
        vote: SlotVote,
        /// View that was given up.
        view: u32,
        /// Report in the TIMEOUT.
        report: SlotReport,
        /// Signature of the TIMEOUT.
        share: Bytes,
    },
    /// Shares of certificates for two headers of one height.
    Headers {
        /// The height.
        height: Height,
        /// Fault model of the certificates.
        fault_model: FaultModel,
        /// Hashes of the headers, and signatures with the BLS key.
        headers: [(B256, [u8; 48]); 2],
    },
}

impl Contradiction {
    /// Two blocks for one round, in either order. `None` if they do not contradict each other.
    pub fn of_blocks(one: (Heading, [u8; 64]), other: (Heading, [u8; 64])) -> Option<Self> {
        let mut blocks = [one, other];
        blocks.sort_by_key(|(heading, _)| wire::encode(heading));
        Some(Self::Blocks(blocks)).filter(|blocks| blocks.holds(one.0.author))
    }

    /// Two PREPAREs for one slot and view, in either order: digests of their values, and signatures. `None` if they do not
    /// contradict each other.
    pub fn of_prepares(slot: u64, view: u32, one: (B256, [u8; 64]), other: (B256, [u8; 64])) -> Option<Self> {
        let mut values = [one, other];
        values.sort_by_key(|(cut, _)| *cut);
        (one.0 != other.0).then_some(Self::Prepares { slot, view, values })
    }

    /// Shares for two headers of one height, in either order. `None` if they do not contradict each other.
    pub fn of_headers(height: Height, fault_model: FaultModel, one: (B256, [u8; 48]), other: (B256, [u8; 48])) -> Option<Self> {
        let mut headers = [one, other];
        headers.sort_by_key(|(hash, _)| *hash);
        (one.0 != other.0).then_some(Self::Headers { height, fault_model, headers })
    }

    /// Number of the kind in the contract's event `Convicted`.
    pub fn kind(&self) -> u8 {
        match self {
            Self::Blocks(_) => 0,
            Self::Prepares { .. } => 1,
            Self::Votes { .. } => 2,
            Self::ForgottenVote { .. } => 3,
            Self::Headers { .. } => 4,
        }
    }

    /// Returns whether no correct member with this index signs both statements. Does not check signatures.
    pub fn holds(&self, offender: ValidatorIndex) -> bool {
        match self {
            Self::Blocks([(one, _), (other, _)]) => {
                let is_own = one.author == offender && other.author == offender;
                is_own && one.round == other.round && wire::encode(one) < wire::encode(other)
            }
            Self::Prepares { values: [(one, _), (other, _)], .. } => one < other,
            Self::Headers { headers: [(one, _), (other, _)], .. } => one < other,
            Self::Votes { votes: [one, other], .. } => {
                let is_confirmed = |vote: &SlotVote| vote.kind == VoteKind::Confirmed;
                is_confirmed(one) == is_confirmed(other) && one.cut < other.cut
            }
            Self::ForgottenVote { voted_in, vote, view, report, .. } => {
                let reported = match vote.kind {
                    VoteKind::Prepared => report.voted,
                    VoteKind::Confirmed => report.confirmed,
                    // A weak vote is no promise to remember.
                    VoteKind::PreparedWeakly => return false,
                };
                // The last vote is reported: it may be a later one, in this view for one value only.
                let is_forgotten = match reported {
                    None => true,
                    Some((later, cut)) => later < *voted_in || later == *voted_in && cut != vote.cut,
                };
                voted_in <= view && is_forgotten
            }
        }
    }
}

/// Evidence against a member of a committee.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Evidence {
    /// Chain id.
    pub chain_id: u64,
    /// Epoch of the committee.
    pub epoch: Epoch,
    /// Index of the accused member in it.
    pub offender: ValidatorIndex,
    /// Its ed25519 key in that epoch.
    pub consensus_key: B256,
    /// Its BLS key in that epoch.
    pub bls_key: [u8; 96],
    /// The contradictory statements.
    pub contradiction: Contradiction,
}

impl Evidence {
    /// Identifies evidence: two for one offence may differ.
    pub fn id(&self) -> B256 {
        keccak256(wire::encode(self))
    }
}
