//! Agreement about one sequence number in one epoch (N2–N6): counts votes, and judges nothing else. No I/O, no time.

use crate::{
    keys::Signature,
    message::{EpochNumber, PreparedCertificate, Sn},
};
use corniche_engine::Committee;
use corniche_types::{B256, ValidatorIndex, Votes};
use std::collections::BTreeMap;

/// Steps that a member made, each in order, each once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    #[default]
    Idle,
    /// N3: a batch was accepted; its record is not on disk.
    Accepted,
    /// The own PREPARE is visible.
    Preparing,
    /// N5: prepared; the certificate is not on disk.
    Prepared,
    /// The own COMMIT is visible.
    Committing,
}

/// One sequence number in the current epoch.
#[derive(Clone, Debug, Default)]
pub struct Instance {
    /// Digest of the leader's proposal, or of the listed batch. Perhaps not accepted yet (N4).
    pub offered: Option<B256>,
    pub step: Step,
    prepares: BTreeMap<ValidatorIndex, (B256, Signature)>,
    commits: BTreeMap<ValidatorIndex, B256>,
}

impl Instance {
    /// The accepted digest.
    pub fn accepted(&self) -> Option<B256> {
        self.offered.filter(|_| self.step >= Step::Accepted)
    }

    /// Counts a member's PREPARE. Returns the earlier one if it contradicts this one: then only the first counts (N8).
    pub fn add_prepare(&mut self, from: ValidatorIndex, digest: B256, signature: Signature) -> Option<(B256, Signature)> {
        let first = *self.prepares.entry(from).or_insert((digest, signature));
        (first.0 != digest).then_some(first)
    }

    /// Counts a member's COMMIT; its first one counts (N8).
    pub fn add_commit(&mut self, from: ValidatorIndex, digest: B256) {
        self.commits.entry(from).or_insert(digest);
    }

    /// N5: a certificate if PREPAREs for the accepted digest came from members with a quorum of votes, this one included: its own
    /// PREPARE is visible.
    pub fn prepared(&self, epoch: EpochNumber, sn: Sn, committee: &Committee) -> Option<PreparedCertificate> {
        let digest = self.offered.filter(|_| self.step == Step::Preparing)?;
        let matching = || self.prepares.iter().filter(|(_, (of, _))| *of == digest);
        let is_quorum = committee.weigh(matching().map(|(member, _)| *member)) >= committee.quorum();
        let votes = || matching().map(|(member, (_, signature))| (*member, *signature)).collect();
        is_quorum.then(|| PreparedCertificate { epoch, sn, digest, votes: votes() })
    }

    /// N6: true if members with a quorum of votes sent COMMITs for this digest.
    pub fn is_committed(&self, digest: B256, committee: &Committee) -> bool {
        is_backed(&self.commits, digest, committee.quorum(), committee)
    }

    /// Members that voted for this digest, so they have its body.
    pub fn holders(&self, digest: B256) -> impl Iterator<Item = ValidatorIndex> {
        self.prepares.iter().filter(move |(_, (of, _))| *of == digest).map(|(member, _)| *member)
    }

    /// The last vote of a member for this digest that came here: [`Step::Preparing`], [`Step::Committing`], or none.
    pub fn step_of(&self, member: ValidatorIndex, digest: B256) -> Step {
        let prepare = self.prepares.get(&member).map(|(of, _)| (*of, Step::Preparing));
        let commit = self.commits.get(&member).map(|of| (*of, Step::Committing));
        [commit, prepare].into_iter().flatten().find(|(of, _)| *of == digest).map(|(_, step)| step).unwrap_or_default()
    }

    pub fn own_prepare(&self, me: ValidatorIndex) -> Option<(B256, Signature)> {
        self.prepares.get(&me).copied()
    }

    /// Number of held votes.
    pub fn count(&self) -> usize {
        1 + self.prepares.len() + self.commits.len()
    }
}

/// True if members with `needed` votes name this digest.
pub fn is_backed(named: &BTreeMap<ValidatorIndex, B256>, digest: B256, needed: Votes, committee: &Committee) -> bool {
    committee.weigh(named.iter().filter(|(_, of)| **of == digest).map(|(member, _)| *member)) >= needed
}
