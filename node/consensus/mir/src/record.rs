//! Format of the records on disk (column "persist before sending" of section 2), and what they say together.

use crate::message::{
    CheckpointCertificate, Context, EpochCertificate, EpochChange, EpochNumber, PreparedCertificate, Proposal, Sn,
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{B256, Bytes, ValidatorIndex, wire};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Record {
    /// All promises so far. Later records add to it; earlier ones are obsolete except those about numbers that are kept.
    Promises(Box<Promises>),
    /// A batch was accepted in an epoch (N3). The body is in an earlier record if it is absent, except that of the null batch.
    Accepted {
        epoch: EpochNumber,
        sn: Sn,
        digest: B256,
        proposal: Option<Proposal>,
    },
    /// The body of a batch that was not proposed to this member.
    Body(Proposal),
    /// N5.
    Prepared(PreparedCertificate),
    /// N6. Not waited for: see the README.
    Committed {
        sn: Sn,
        digest: B256,
    },
    /// U1: the member left its epoch for this one.
    Left(EpochNumber),
    /// The member voted for a configuration.
    Echoed {
        epoch: EpochNumber,
        config: B256,
    },
    Entered(EpochCertificate),
    Stable(CheckpointCertificate),
}

impl Record {
    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }

    /// The number that the record is about.
    pub fn sn(&self) -> Option<Sn> {
        match self {
            Self::Accepted { sn, .. } | Self::Committed { sn, .. } => Some(*sn),
            Self::Body(proposal) => Some(proposal.sn),
            Self::Prepared(certificate) => Some(certificate.sn),
            Self::Promises(_) | Self::Left(_) | Self::Echoed { .. } | Self::Entered(_) | Self::Stable(_) => None,
        }
    }
}

/// Everything that a member must not forget, besides what it knows about numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Promises {
    /// Certificate of the current epoch; absent in epoch 0.
    pub certificate: Option<EpochCertificate>,
    /// The epoch that the member left for; absent in normal mode.
    pub target: Option<EpochNumber>,
    /// The newest configuration that the member voted for.
    pub echoed: Option<(EpochNumber, B256)>,
    pub stable: Option<CheckpointCertificate>,
    /// The member lost a disk, and does not know yet what it may have signed (X9).
    pub has_lost_disk: bool,
    /// After a lost disk: no votes in epochs up to this one, and about numbers up to this one (T3).
    pub silent: Option<(EpochNumber, Sn)>,
}

impl Promises {
    pub fn epoch(&self) -> EpochNumber {
        self.certificate.as_ref().map(|certificate| certificate.config.epoch).unwrap_or_default()
    }

    /// w: the last stable checkpoint.
    pub fn stable(&self) -> Sn {
        self.stable.as_ref().map(|checkpoint| checkpoint.sn).unwrap_or_default()
    }

    /// False if the member left its epoch.
    pub fn is_normal(&self) -> bool {
        self.target.is_none()
    }

    /// X9: true if the member cannot have lost a vote of this epoch.
    pub fn remembers(&self, epoch: EpochNumber) -> bool {
        !self.has_lost_disk && self.silent.is_none_or(|(until, _)| epoch > until)
    }

    /// X2, X9: true if the member may vote about batches in its epoch.
    pub fn may_vote(&self) -> bool {
        self.is_normal() && self.remembers(self.epoch())
    }

    /// X2, X7: true if the member may vote for a configuration of this epoch. It votes for at most one of an epoch, and for none of an
    /// epoch before the one that it left for.
    pub fn may_echo(&self, epoch: EpochNumber) -> bool {
        let least = self.target.unwrap_or(self.epoch().plus(1));
        epoch >= least && self.echoed.is_none_or(|(echoed, _)| epoch > echoed) && self.remembers(epoch)
    }

    /// U2: the EPOCH-CHANGE contains every certificate above the stable checkpoint (X2). Not signed yet.
    pub fn change(
        &self,
        sender: ValidatorIndex,
        target: EpochNumber,
        prepared: &BTreeMap<Sn, PreparedCertificate>,
    ) -> EpochChange {
        let (certificate, checkpoint) = (self.certificate.clone(), self.stable.clone());
        EpochChange {
            sender,
            target,
            certificate,
            checkpoint,
            prepared: prepared.values().cloned().collect(),
            signature: [0; 64],
        }
    }

    /// A later epoch begins. It ends an attempt to reach it or an earlier one.
    pub fn enter(&mut self, certificate: EpochCertificate) {
        let epoch = certificate.config.epoch;
        self.target = self.target.filter(|target| *target > epoch);
        self.certificate = Some(certificate);
    }
}

/// Contents of the records of earlier incarnations.
#[derive(Default)]
pub struct Recovered {
    pub promises: Promises,
    /// Accepted digests with their epochs; the newest epoch counts.
    pub accepted: BTreeMap<Sn, (EpochNumber, B256)>,
    pub prepared: BTreeMap<Sn, PreparedCertificate>,
    pub committed: BTreeMap<Sn, B256>,
    pub bodies: Vec<(B256, Proposal)>,
}

impl Recovered {
    /// Applies the next record, in the order in which they were written.
    pub fn apply(&mut self, record: Record, context: &Context) {
        match record {
            Record::Promises(promises) => self.promises = *promises,
            Record::Accepted { epoch, sn, digest, proposal } => {
                self.accepted.insert(sn, (epoch, digest));
                self.bodies.extend(proposal.map(|proposal| (digest, proposal)));
            }
            Record::Body(proposal) => self.bodies.push((context.proposal(&proposal), proposal)),
            Record::Prepared(certificate) => _ = self.prepared.insert(certificate.sn, certificate),
            Record::Committed { sn, digest } => _ = self.committed.insert(sn, digest),
            Record::Left(target) => self.promises.target = Some(target),
            Record::Echoed { epoch, config } => self.promises.echoed = Some((epoch, config)),
            Record::Entered(certificate) => self.promises.enter(certificate),
            Record::Stable(checkpoint) => self.promises.stable = Some(checkpoint),
        }
    }
}
