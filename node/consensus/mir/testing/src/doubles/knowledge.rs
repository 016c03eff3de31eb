//! Data that the doubles have seen, and the certificates that they can make from it.

use crate::FakeKeys;
use corniche_engine::Committee;
use corniche_mir::{
    Signature,
    message::{Context, EpochChange, EpochConfig, EpochNumber, Message, NULL, PreparedCertificate, Sn, Statement},
};
use corniche_types::{B256, ValidatorIndex};
use std::collections::{BTreeMap, BTreeSet};

/// Remembered numbers and epochs below the highest ones.
const RETAINED_NUMBERS: u64 = 128;
const RETAINED_EPOCHS: u64 = 8;

type Signed = BTreeMap<ValidatorIndex, Signature>;

pub struct Knowledge {
    committee: Committee,
    context: Context,
    members: BTreeSet<ValidatorIndex>,
    prepares: BTreeMap<(Sn, EpochNumber, B256), Signed>,
    echoes: BTreeMap<(EpochNumber, B256), Signed>,
    /// Batches for which a correct validator sent COMMIT.
    commits: BTreeMap<Sn, B256>,
    changes: BTreeMap<(EpochNumber, ValidatorIndex), EpochChange>,
    /// The first digest with a certificate.
    prepared: BTreeMap<(Sn, EpochNumber), B256>,
    configs: BTreeMap<EpochNumber, B256>,
    /// Set if two certificates contradict each other.
    pub contradiction: Option<String>,
}

impl Knowledge {
    pub fn new(committee: &Committee, members: BTreeSet<ValidatorIndex>) -> Self {
        Self {
            committee: committee.clone(),
            context: Context::new(committee),
            members,
            prepares: BTreeMap::new(),
            echoes: BTreeMap::new(),
            commits: BTreeMap::new(),
            changes: BTreeMap::new(),
            prepared: BTreeMap::new(),
            configs: BTreeMap::new(),
            contradiction: None,
        }
    }

    /// Learns from a message of `from`.
    pub fn learn(&mut self, from: ValidatorIndex, message: &Message) {
        match message {
            Message::PrePrepare { epoch, proposal, signature } => {
                self.learn_prepare(from, *epoch, proposal.sn, self.context.proposal(proposal), *signature);
            }
            Message::Prepare { epoch, sn, digest, signature } => self.learn_prepare(from, *epoch, *sn, *digest, *signature),
            Message::Commit { sn, digest, .. } if !self.members.contains(&from) => _ = self.commits.insert(*sn, *digest),
            Message::Echo { epoch, config, signature } => {
                self.echoes.entry((*epoch, *config)).or_default().insert(from, *signature);
                self.check_configuration(*epoch, *config);
            }
            Message::EpochChange(change) => {
                for certificate in &change.prepared {
                    let PreparedCertificate { epoch, sn, digest, votes } = certificate;
                    votes.iter().for_each(|(voter, signature)| self.learn_prepare(*voter, *epoch, *sn, *digest, *signature));
                }
                self.changes.insert((change.target, change.sender), (**change).clone());
            }
            _ => {}
        }
        self.forget();
    }

    fn learn_prepare(&mut self, from: ValidatorIndex, epoch: EpochNumber, sn: Sn, digest: B256, signature: Signature) {
        self.prepares.entry((sn, epoch, digest)).or_default().insert(from, signature);
        if self.certificate(epoch, sn, digest).is_some() {
            let first = *self.prepared.entry((sn, epoch)).or_insert(digest);
            if first != digest {
                self.contradiction = Some(format!("agreement: two batches of number {sn} are prepared in epoch {epoch}"));
            }
        }
    }

    /// Makes a certificate if enough validators voted, with the votes of all members.
    fn certificate(&self, epoch: EpochNumber, sn: Sn, digest: B256) -> Option<PreparedCertificate> {
        let mut votes = self.prepares.get(&(sn, epoch, digest))?.clone();
        votes.extend(self.signed_by_members(&Statement::Prepare { epoch, sn, digest }));
        let is_quorum = self.committee.weigh(votes.keys().copied()) >= self.committee.quorum();
        is_quorum.then(|| PreparedCertificate { epoch, sn, digest, votes: votes.into_iter().collect() })
    }

    fn check_configuration(&mut self, epoch: EpochNumber, config: B256) {
        let votes = self.echoes.get(&(epoch, config)).into_iter().flat_map(BTreeMap::keys).copied();
        let all: BTreeSet<_> = votes.chain(self.members.iter().copied()).collect();
        if self.committee.weigh(all) >= self.committee.quorum() && *self.configs.entry(epoch).or_insert(config) != config {
            self.contradiction = Some(format!("agreement: epoch {epoch} has two configurations"));
        }
    }

    fn signed_by_members(&self, statement: &Statement) -> Signed {
        let digest = self.context.digest(statement);
        self.members.iter().map(|member| (*member, FakeKeys(*member).sign_digest(&digest))).collect()
    }

    fn forget(&mut self) {
        let newest = self.prepares.last_key_value().map(|((sn, ..), _)| *sn).unwrap_or_default();
        let old = newest.minus(RETAINED_NUMBERS);
        if self.prepares.first_key_value().is_some_and(|((sn, ..), _)| *sn < old) {
            self.prepares = self.prepares.split_off(&(old, EpochNumber(0), B256::ZERO));
            self.prepared = self.prepared.split_off(&(old, EpochNumber(0)));
            self.commits = self.commits.split_off(&old);
        }
        let newest = self.changes.last_key_value().map(|((epoch, _), _)| *epoch).unwrap_or_default();
        let old = EpochNumber(newest.0.saturating_sub(RETAINED_EPOCHS));
        self.changes = self.changes.split_off(&(old, ValidatorIndex(0)));
    }

    /// The newest EPOCH-CHANGEs for an epoch.
    pub fn changes(&self, epoch: EpochNumber) -> BTreeMap<ValidatorIndex, EpochChange> {
        let of_epoch = self.changes.range((epoch, ValidatorIndex(0))..=(epoch, ValidatorIndex(u16::MAX)));
        of_epoch.map(|((_, sender), change)| (*sender, change.clone())).collect()
    }

    /// All certificates that the members can make, one for each number: that of the highest epoch before `target`.
    pub fn certificates(&self, stable: Sn, window: u64, target: EpochNumber) -> Vec<PreparedCertificate> {
        let mut newest: BTreeMap<Sn, PreparedCertificate> = BTreeMap::new();
        let kept = (stable.next(), EpochNumber(0))..(stable.plus(window).next(), EpochNumber(0));
        for ((sn, epoch), digest) in self.prepared.range(kept).filter(|((_, epoch), _)| *epoch < target) {
            newest.extend(self.certificate(*epoch, *sn, *digest).map(|certificate| (*sn, certificate)));
        }
        newest.into_values().collect()
    }

    /// Number of batches with a COMMIT that a configuration does not list.
    pub fn dropped(&self, config: &EpochConfig) -> usize {
        let listed = |sn: Sn| config.listed.get((sn.0 - config.start.0 - 1) as usize).copied().unwrap_or(NULL);
        self.commits.iter().filter(|(sn, digest)| **sn > config.start && listed(**sn) != **digest).count()
    }
}
