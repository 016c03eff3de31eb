//! Notices: messages of validators to the contract, in batches (validators.md §2.7).
//!
//! A notice is an entry of a batch. It begins with a byte with which no transaction begins. It costs no fee and has no
//! receipt. Its effect depends on the state alone, so all validators agree on it (N3): a notice that is late, repeated or badly
//! signed has none. Its proposer need not be its author.

use crate::{
    Slots, ValidatorId,
    calendar::{self, Announcement},
    record::{Attendance, Header, KeyOwner, PastCommittee, Phase, Validator},
};
use alloy_primitives::{B256, Bytes, keccak256};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_crypto::{ConsensusKey, ConsensusPublicKey, Domain, Signed, Verified};
use corniche_types::{Epoch, StakingParameters, TimestampMs};

/// First byte of a notice in a batch (N1).
const MARKER: u8 = 0x7e;

/// Tag of what the author signs.
const TAG: &str = "corniche-notice";

/// Announcements that take effect in a block, and notices of a batch that may be in a block (N2).
pub const MAX_ANNOUNCEMENTS: usize = 128;

/// A notice whose signature is not verified.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Notice {
    chain_id: u64,
    epoch: Epoch,
    signed: Signed<Statement>,
}

/// Payload that the author signs with its consensus key, for the running epoch and its committee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Statement {
    /// Validator that makes the statement.
    pub author: ValidatorId,
    /// Content of the statement.
    pub body: NoticeBody,
}

/// Kinds of notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum NoticeBody {
    /// The author is ready for the next epoch (S12).
    Announce {
        /// Highest protocol version that its node knows.
        version: u32,
    },
}

/// A notice that had an effect on the state with which it was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedNotice {
    chain_id: u64,
    epoch: Epoch,
    signed: Verified<Statement>,
}

impl Notice {
    /// Decodes an entry of a batch; `None` if it is no notice. A notice has one encoding.
    pub fn decode(entry: &[u8]) -> Option<Self> {
        let (marker, rest) = entry.split_first()?;
        (*marker == MARKER).then(|| borsh::from_slice(rest).ok()).flatten()
    }

    /// Verifies a notice for the running epoch: what the contract lacks, signed with the author's registered key. `None` if it
    /// would have no effect.
    pub fn verify<S: Slots>(self, slots: &mut S, chain_id: u64) -> Result<Option<VerifiedNotice>, S::Error> {
        let Statement { author, .. } = self.signed.payload;
        let is_missing = self.is_missing(slots, chain_id)?;
        let Some(committee) = PastCommittee::load(slots, self.epoch)?.filter(|_| is_missing) else { return Ok(None) };
        let Some(key) = ConsensusPublicKey::parse(&Validator::new(author).keys(slots)?.consensus) else { return Ok(None) };
        let verified = self.signed.verify(&key, &domain(chain_id, &committee)).ok();
        Ok(verified.map(|signed| VerifiedNotice { chain_id, epoch: self.epoch, signed }))
    }

    /// Returns whether a notice is for this chain and this epoch.
    pub fn is_for(&self, chain_id: u64, epoch: Epoch) -> bool {
        (self.chain_id, self.epoch) == (chain_id, epoch)
    }

    /// Returns whether the contract lacks what the author states, and may still take it. Does not check the signature.
    pub fn is_missing<S: Slots>(&self, slots: &mut S, chain_id: u64) -> Result<bool, S::Error> {
        let Statement { author, body } = self.signed.payload;
        Ok(self.chain_id == chain_id && is_missing(slots, self.epoch, author, body)?)
    }
}

impl VerifiedNotice {
    /// Signs the announcement of the validator with this key; `None` if the key is not registered, or if there is nothing to
    /// announce now. `now` is the time of a block.
    pub fn announce<S: Slots>(
        slots: &mut S,
        parameters: &StakingParameters,
        key: &ConsensusKey,
        chain_id: u64,
        version: u32,
        now: TimestampMs,
    ) -> Result<Option<Self>, S::Error> {
        let header = Header::load(slots)?;
        if calendar::announcement_time(header.start, parameters).is_none_or(|from| now < from) {
            return Ok(None);
        }
        let Some(author) = registered(slots, key)? else { return Ok(None) };
        let body = NoticeBody::Announce { version };
        let committee = PastCommittee::load(slots, header.epoch)?;
        let is_missing = is_missing(slots, header.epoch, author, body)?;
        Ok(committee.filter(|_| is_missing).map(|committee| {
            let signed = Signed::sign_verified(Statement { author, body }, key, &domain(chain_id, &committee));
            Self { chain_id, epoch: header.epoch, signed }
        }))
    }

    /// Applies a notice at the end of a block with this time. Returns whether it had an effect.
    pub fn apply<S: Slots>(&self, slots: &mut S, parameters: &StakingParameters, now: TimestampMs) -> Result<bool, S::Error> {
        let Statement { author, body: NoticeBody::Announce { version } } = self.statement();
        Ok(calendar::announce(slots, parameters, author, version, now)? == Announcement::Taken)
    }

    /// Returns the entry for a batch.
    pub fn encode(&self) -> Bytes {
        let notice = Notice { chain_id: self.chain_id, epoch: self.epoch, signed: self.signed.signed().clone() };
        let mut entry = vec![MARKER];
        notice.serialize(&mut entry).expect("a vector accepts all bytes");
        entry.into()
    }

    /// Returns what the author stated.
    pub fn statement(&self) -> Statement {
        self.signed.signed().payload
    }

    /// Returns whether a later state still lacks what the author stated.
    pub fn is_missing<S: Slots>(&self, slots: &mut S) -> Result<bool, S::Error> {
        let Statement { author, body } = self.statement();
        is_missing(slots, self.epoch, author, body)
    }
}

/// Returns whether the contract lacks a statement, and may still take it.
fn is_missing<S: Slots>(slots: &mut S, epoch: Epoch, author: ValidatorId, body: NoticeBody) -> Result<bool, S::Error> {
    let header = Header::load(slots)?;
    if header.epoch != epoch || Validator::new(author).status(slots)?.is_none() {
        return Ok(false);
    }
    match body {
        NoticeBody::Announce { .. } => {
            Ok(header.phase == Phase::Open && Attendance::load(slots, author)?.announced_in != Some(epoch))
        }
    }
}

/// Returns the validator that has registered this key and not replaced it since.
fn registered<S: Slots>(slots: &mut S, key: &ConsensusKey) -> Result<Option<ValidatorId>, S::Error> {
    let public: B256 = key.public();
    let Some(KeyOwner { id, .. }) = KeyOwner::load(slots, keccak256(public))? else { return Ok(None) };
    Ok((Validator::new(id).keys(slots)?.consensus == public).then_some(id))
}

fn domain(chain_id: u64, committee: &PastCommittee) -> Domain {
    Domain { tag: TAG, chain_id, epoch: committee.epoch, committee_hash: committee.hash }
}
