//! Evidence that a validator signed what no correct validator signs, even after a crash (`protocols/validators.md`, section 6).
//!
//! Each kind is two signed statements of one validator that contradict each other. Signed digests are compared, never signatures: a
//! second signature of one statement is no offence. The check needs the evidence, the committee's hash and the hash of the
//! validator's keys, so engines, the staking contract and clients use the same one.
//!
//! Two cars at one position of a lane are no evidence: a validator that lost its disk may sign them honestly, and agreement does not
//! suffer. Two headers at one height are none yet: a validator whose results were wrong signs others after a repair.

use crate::{
    bls::{BLS_PUBLIC_KEY_BYTES, BlsPublicKey, BlsSignature, bls_verify},
    signed::{ConsensusPublicKey, Domain, Signed},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{B256, Bytes, Epoch, TimestampMs, ValidatorIndex, keccak256, wire};

/// Tags of what validators sign. A statement's digest has the tag of its kind, and its signature that of the engine.
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
    /// ed25519 or BLS, as the genesis says: 64 or 48 bytes.
    pub share: Bytes,
}

/// Two statements that contradict each other. Pairs are ordered by their digests, so that evidence has one form.
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
}

/// Kind of an offence, as in the events of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum OffenceKind {
    /// [`Contradiction::Blocks`]
    Blocks = 0,
    /// [`Contradiction::Prepares`]
    Prepares = 1,
    /// [`Contradiction::Votes`]
    Votes = 2,
    /// [`Contradiction::ForgottenVote`]
    ForgottenVote = 3,
}

impl Contradiction {
    /// Two blocks for one round, in either order. `None` if they do not contradict each other.
    pub fn of_blocks(one: (Heading, [u8; 64]), other: (Heading, [u8; 64])) -> Option<Self> {
        let mut blocks = [one, other];
        blocks.sort_by_key(|(heading, _)| encoded(heading));
        Some(Self::Blocks(blocks)).filter(|blocks| blocks.holds(one.0.author))
    }

    /// Two PREPAREs for one slot and view, in either order: digests of their values, and signatures. `None` if they do not
    /// contradict each other.
    pub fn of_prepares(slot: u64, view: u32, one: (B256, [u8; 64]), other: (B256, [u8; 64])) -> Option<Self> {
        let mut values = [one, other];
        values.sort_by_key(|(cut, _)| *cut);
        Some(Self::Prepares { slot, view, values }).filter(|prepares| prepares.holds(ValidatorIndex::default()))
    }

    /// Returns the kind.
    pub fn kind(&self) -> OffenceKind {
        match self {
            Self::Blocks(_) => OffenceKind::Blocks,
            Self::Prepares { .. } => OffenceKind::Prepares,
            Self::Votes { .. } => OffenceKind::Votes,
            Self::ForgottenVote { .. } => OffenceKind::ForgottenVote,
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
    pub bls_key: [u8; BLS_PUBLIC_KEY_BYTES],
    /// What it signed.
    pub contradiction: Contradiction,
}

/// Why evidence proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvidenceError {
    /// The keys are not those of the accused member.
    #[error("the keys are not those of the validator in this epoch")]
    Keys,
    /// The statements agree, or are not in the canonical order.
    #[error("the statements do not contradict each other, or are in the wrong order")]
    NoContradiction,
    /// A signature does not match.
    #[error("a signature does not match its statement")]
    Signature,
}

impl Evidence {
    /// Identifies evidence: two for one offence may differ.
    pub fn id(&self) -> B256 {
        keccak256(wire::encode(self))
    }

    /// Checks that the validator with keys of this hash ([`signing_hash`]) signed both statements in the epoch of the committee with this
    /// hash. Takes up to 2 ms for BLS signatures.
    pub fn check(&self, committee_hash: B256, expected_keys: B256) -> Result<(), EvidenceError> {
        if signing_hash(&self.consensus_key, &self.bls_key) != expected_keys {
            return Err(EvidenceError::Keys);
        }
        let key = ConsensusPublicKey::parse(&self.consensus_key).ok_or(EvidenceError::Keys)?;
        let signer = Signer { chain_id: self.chain_id, epoch: self.epoch, committee_hash, key, bls_key: &self.bls_key };
        if !self.contradiction.holds(self.offender) {
            return Err(EvidenceError::NoContradiction);
        }
        if signer.signed(&self.contradiction) { Ok(()) } else { Err(EvidenceError::Signature) }
    }
}

/// Hash of both keys that sign for a committee, by which the contract remembers them.
pub fn signing_hash(consensus_key: &B256, bls_key: &[u8; BLS_PUBLIC_KEY_BYTES]) -> B256 {
    keccak256([consensus_key.as_slice(), bls_key].concat())
}

impl Contradiction {
    /// Returns whether no correct member with this index signs both statements. Does not check signatures.
    pub fn holds(&self, offender: ValidatorIndex) -> bool {
        match self {
            Self::Blocks([(one, _), (other, _)]) => {
                let is_own = one.author == offender && other.author == offender;
                is_own && one.round == other.round && encoded(one) < encoded(other)
            }
            Self::Prepares { values: [(one, _), (other, _)], .. } => one < other,
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

fn encoded<T: BorshSerialize>(value: &T) -> Vec<u8> {
    wire::encode(value)
}

/// The accused member in its epoch.
struct Signer<'a> {
    chain_id: u64,
    epoch: Epoch,
    committee_hash: B256,
    key: ConsensusPublicKey,
    bls_key: &'a [u8; BLS_PUBLIC_KEY_BYTES],
}

impl Signer<'_> {
    fn domain(&self, tag: &'static str) -> Domain {
        Domain { tag, chain_id: self.chain_id, epoch: self.epoch, committee_hash: self.committee_hash }
    }

    fn signed(&self, contradiction: &Contradiction) -> bool {
        match contradiction {
            Contradiction::Blocks(blocks) => blocks
                .iter()
                .all(|(heading, signature)| self.has_signed(tags::BLOCK, self.domain(tags::BLOCK).digest(heading), signature)),
            Contradiction::Prepares { slot, view, values } => values.iter().all(|(cut, signature)| {
                let digest = self.domain(tags::PREPARE).digest(&(slot, view, cut));
                self.has_signed(tags::AUTOBAHN, digest, signature)
            }),
            Contradiction::Votes { slot, view, votes } => votes.iter().all(|vote| self.has_voted(*slot, *view, vote)),
            Contradiction::ForgottenVote { slot, voted_in, vote, view, report, share } => {
                let timeout = self.domain(tags::TIMED_OUT).digest(&(slot, view, report));
                self.has_voted(*slot, *voted_in, vote) && self.has_shared(timeout, share)
            }
        }
    }

    fn has_voted(&self, slot: u64, view: u32, vote: &SlotVote) -> bool {
        let tag = match vote.kind {
            VoteKind::Prepared => tags::PREPARED,
            VoteKind::PreparedWeakly => tags::PREPARED_WEAKLY,
            VoteKind::Confirmed => tags::CONFIRMED,
        };
        self.has_shared(self.domain(tag).digest(&(slot, view, vote.cut)), &vote.share)
    }

    /// A share of a certificate, with either key.
    fn has_shared(&self, digest: B256, share: &[u8]) -> bool {
        match <&[u8; 64]>::try_from(share) {
            Ok(signature) => self.has_signed(tags::AUTOBAHN_SHARE, digest, signature),
            Err(_) => self.has_signed_bls(&share_message(&self.domain(tags::AUTOBAHN_SHARE), &digest), share),
        }
    }

    fn has_signed(&self, tag: &'static str, digest: B256, signature: &[u8; 64]) -> bool {
        Signed { payload: digest, signature: *signature }.verify(&self.key, &self.domain(tag)).is_ok()
    }

    fn has_signed_bls(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = BlsPublicKey::from_bytes(self.bls_key);
        let signature = BlsSignature::from_bytes(signature);
        key.zip(signature).is_some_and(|(key, signature)| bls_verify(&key, message, &signature))
    }
}

/// Message for a BLS signature of a digest under a domain. The same keys sign headers, whose messages begin otherwise.
pub fn share_message(domain: &Domain, digest: &B256) -> Vec<u8> {
    [domain.tag.as_bytes(), domain.digest(digest).as_slice()].concat()
}
