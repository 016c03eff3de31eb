//! Follows the committee from epoch to epoch (validators.md, section 8), for nodes and for [light clients](crate::LightClient).
//!
//! Members of a committee have proven to the staking contract that they have the secrets of their BLS keys, and a quorum of the old
//! committee executed that contract. So a client need not check the proofs (L3), but it must never skip an epoch (L4).

use crate::{CertificateError, FinalBlock, bls::BlsPublicKey, certificate::CommitteeKeys};
use corniche_types::{
    B256, Certificate, Epoch, EpochChange, FaultModel, Header, LightMember, NextEpoch, RecordHead, Votes, Weights, header_hash,
    keccak256, light_root,
};
use std::{collections::BTreeSet, sync::Arc};

/// Most members of a committee.
pub const MAX_MEMBERS: usize = 300;

/// Why an epoch change is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EpochChangeError {
    /// Its certificate is invalid.
    #[error("epoch change: {0}")]
    Certificate(#[from] CertificateError),
    /// The certificate is for another block.
    #[error("epoch change: the certificate is not for this header")]
    Header,
    /// The head is not the one in the header, or cannot be decoded.
    #[error("epoch change: the header does not contain the hash of this head")]
    Head,
    /// The block is not the last one of the epoch.
    #[error("epoch change: block {0} is not the last one of its epoch")]
    NotLast(u64),
    /// The members are not those that the block names.
    #[error("epoch change: expected members with the root in the block, got others")]
    Members,
    /// A BLS key is invalid, or a committee has one twice, no member or too many.
    #[error("epoch change: the next committee is invalid")]
    Committee,
}

/// Why a block is not final.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FinalityError {
    /// The certificate is of an epoch before the trusted one, or of one that is not known yet.
    #[error("certificate: the committee of epoch {0} is not known")]
    UnknownEpoch(u64),
    /// Members of a committee sign nothing outside their epoch. They may have left, and anybody may have their keys.
    #[error("certificate: block {height} is not of epoch {epoch}")]
    OtherEpoch {
        /// Height in the certificate.
        height: u64,
        /// Epoch in the certificate.
        epoch: u64,
    },
    /// The certificate is invalid.
    #[error("certificate: {0}")]
    Certificate(#[from] CertificateError),
}

/// Committees of a chain, one for each epoch, from a trusted one on.
#[derive(Clone, Debug)]
pub struct Committees {
    /// Last block before the epoch of the trusted committee; `None` if that is the first one.
    before: Option<u64>,
    /// The trusted one, and those of later epochs but the newest: with the last block of their epoch, without a gap.
    past: Vec<(CommitteeKeys, u64)>,
    newest: CommitteeKeys,
}

impl Committees {
    /// Starts with a trusted committee, such as that of the genesis.
    pub fn new(trusted: CommitteeKeys) -> Self {
        Self { before: None, past: Vec::new(), newest: trusted }
    }

    /// Starts with a trusted committee whose epoch begins after this block.
    pub fn after(block: u64, trusted: CommitteeKeys) -> Self {
        Self { before: Some(block), ..Self::new(trusted) }
    }

    /// Returns the committee of the newest known epoch.
    pub fn newest(&self) -> &CommitteeKeys {
        &self.newest
    }

    /// Last block before the newest known epoch. `None` in the first epoch.
    pub fn newest_after(&self) -> Option<u64> {
        self.past.last().map_or(self.before, |(_, last)| Some(*last))
    }

    /// Returns the committee of an epoch. `None` if the epoch is before the trusted one, or not known yet.
    pub fn of(&self, epoch: Epoch) -> Option<&CommitteeKeys> {
        let position = self.position(epoch)?;
        Some(self.past.get(position).map_or(&self.newest, |(committee, _)| committee))
    }

    /// Returns the last block of an epoch. `None` if its committee is not known, or no later one is.
    pub fn last_block(&self, epoch: Epoch) -> Option<u64> {
        self.past.get(self.position(epoch)?).map(|(_, last)| *last)
    }

    /// Position of an epoch, counted from the trusted one. The newest follows the past ones.
    fn position(&self, epoch: Epoch) -> Option<usize> {
        let trusted = self.newest.epoch().0 - self.past.len() as u64;
        let position = usize::try_from(epoch.0.checked_sub(trusted)?).ok()?;
        (position <= self.past.len()).then_some(position)
    }

    /// Returns the block in a certificate, after verifying a quorum's signature. Only the committee of the block's epoch can sign it.
    pub fn certified(&self, certificate: &Certificate) -> Result<FinalBlock, FinalityError> {
        let (epoch, height) = (certificate.epoch, certificate.height.0);
        let position = self.position(epoch).ok_or(FinalityError::UnknownEpoch(epoch.0))?;
        let (committee, last) =
            self.past.get(position).map_or((&self.newest, u64::MAX), |(committee, last)| (committee, *last));
        let after = position.checked_sub(1).map_or(self.before, |before| Some(self.past[before].1));
        if height > last || after.is_some_and(|after| height <= after) {
            return Err(FinalityError::OtherEpoch { height, epoch: epoch.0 });
        }
        Ok(FinalBlock::certified(committee, certificate)?)
    }

    /// Adds the next committee, if the newest one signed it.
    pub fn advance(&mut self, change: &EpochChange) -> Result<(), EpochChangeError> {
        let next = self.newest.advance(change)?;
        let last = change.header.number;
        if self.newest_after().is_some_and(|after| last <= after) {
            return Err(EpochChangeError::NotLast(last));
        }
        self.past.push((std::mem::replace(&mut self.newest, next), last));
        Ok(())
    }
}

impl From<CommitteeKeys> for Committees {
    fn from(trusted: CommitteeKeys) -> Self {
        Self::new(trusted)
    }
}

impl CommitteeKeys {
    /// Returns the next committee, if this one signed it (L2). Takes one pairing, and a subgroup check for each new key.
    pub fn advance(&self, change: &EpochChange) -> Result<Self, EpochChangeError> {
        self.verify(&change.certificate)?;
        let EpochChange { header, head, certificate, members } = change;
        if header_hash(header) != certificate.header_hash || header.number != certificate.height.0 {
            return Err(EpochChangeError::Header);
        }
        let next = following_epoch(header, head, self.epoch())?;
        if next.light_root == self.light_root() {
            return Ok(Self { epoch: self.epoch().next(), committee_hash: next.committee_hash, ..self.clone() });
        }
        let members = members.as_ref().ok_or(EpochChangeError::Members)?;
        Self::of_members(self.chain_id, self.fault_model, self.epoch().next(), &next, members)
    }

    /// Returns the committee of an epoch that a trusted block names. Takes a subgroup check for each key.
    pub(crate) fn of_members(
        chain_id: u64,
        fault_model: FaultModel,
        epoch: Epoch,
        named: &NextEpoch,
        members: &[LightMember],
    ) -> Result<Self, EpochChangeError> {
        if light_root(fault_model, members) != named.light_root {
            return Err(EpochChangeError::Members);
        }
        let (keys, weights) = parse(fault_model, members).ok_or(EpochChangeError::Committee)?;
        Ok(Self { chain_id, epoch, committee_hash: named.committee_hash, fault_model, keys, weights })
    }

    /// Hash of the BLS keys and votes.
    pub fn light_root(&self) -> B256 {
        light_root(self.fault_model, &self.members())
    }

    /// BLS keys and votes, by index.
    pub fn members(&self) -> Vec<LightMember> {
        let members = self.keys.iter().zip(self.weights.indices());
        members.map(|(key, index)| LightMember { bls_key: key.to_bytes(), votes: self.weights.of(index) }).collect()
    }
}

/// Returns the epoch that the last block of an epoch names. The caller must trust the header.
pub(crate) fn following_epoch(header: &Header, head: &[u8], epoch: Epoch) -> Result<NextEpoch, EpochChangeError> {
    if header.extra_data.as_ref() != keccak256(head).as_slice() {
        return Err(EpochChangeError::Head);
    }
    let head = RecordHead::decode(head).filter(|head| head.epoch == epoch).ok_or(EpochChangeError::Head)?;
    head.next.ok_or(EpochChangeError::NotLast(header.number))
}

fn parse(fault_model: FaultModel, members: &[LightMember]) -> Option<(Arc<[BlsPublicKey]>, Weights)> {
    let distinct: BTreeSet<_> = members.iter().map(|member| member.bls_key).collect();
    let is_sound = (1..=MAX_MEMBERS).contains(&members.len())
        && distinct.len() == members.len()
        && members.iter().all(|member| member.votes > Votes(0));
    if !is_sound {
        return None;
    }
    let keys = members.iter().map(|member| BlsPublicKey::from_bytes(&member.bls_key)).collect::<Option<_>>()?;
    Some((keys, Weights::new(members.iter().map(|member| member.votes), fault_model)))
}
