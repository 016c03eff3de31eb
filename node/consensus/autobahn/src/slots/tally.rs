//! The votes of one view, and the certificates they make. At most one vote of each kind per sender.

use super::desk::Desk;
use crate::{
    keys::Share,
    message::{CommitKind, CommitQc, PrepareQc, Proof, Report, Slot, Timeout, TimeoutQc, View, Vote},
};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Tally {
    /// PREP-VOTEs, and true for strong ones.
    prepared: BTreeMap<ValidatorIndex, (Vote, bool)>,
    /// CONFIRM-ACKs. Never mixed with PREP-VOTEs (N8).
    confirmed: BTreeMap<ValidatorIndex, Vote>,
    /// The prepared value's certificate, and its time.
    pub certificate: Option<(PrepareQc, TimestampMs)>,
}

impl Tally {
    /// Counts a sender's first vote. A weak vote may become strong for the same value. Returns true if the vote counts.
    pub fn add_prepared(&mut self, from: ValidatorIndex, vote: Vote, strong: bool) -> bool {
        let counts = match self.prepared.get(&from) {
            None => true,
            Some((first, was_strong)) => strong && !was_strong && first.cut == vote.cut,
        };
        if counts {
            self.prepared.insert(from, (vote, strong));
        }
        counts
    }

    pub fn add_confirmed(&mut self, from: ValidatorIndex, vote: Vote) -> bool {
        let is_first = !self.confirmed.contains_key(&from);
        if is_first {
            self.confirmed.insert(from, vote);
        }
        is_first
    }

    /// C5: n − f votes of either strength, f + 1 of them strong (row 21).
    pub fn prepare_certificate(&self, desk: &Desk, slot: Slot, view: View, cut: B256) -> Option<PrepareQc> {
        let votes = || self.prepared.iter().filter(move |(_, (vote, _))| vote.cut == cut);
        let weak: Vec<_> = votes().filter(|(_, (_, strong))| !strong).map(|(voter, _)| *voter).collect();
        let count = votes().count();
        if count < desk.committee.quorum() || count - weak.len() < desk.committee.validity() {
            return None;
        }
        let proof = combine(desk, votes().map(|(voter, (vote, _))| (*voter, &vote.share)))?;
        Some(PrepareQc { slot, view, cut, weak, proof })
    }

    /// C5: all n voted strongly (P5).
    pub fn fast_certificate(&self, desk: &Desk, slot: Slot, view: View, cut: B256) -> Option<CommitQc> {
        let votes = || self.prepared.iter().filter(move |(_, (vote, strong))| *strong && vote.cut == cut);
        if votes().count() < desk.committee.size() {
            return None;
        }
        let proof = combine(desk, votes().map(|(voter, (vote, _))| (*voter, &vote.share)))?;
        Some(CommitQc { kind: CommitKind::Fast, slot, view, cut, proof })
    }

    /// C7: n − f acknowledgements.
    pub fn slow_certificate(&self, desk: &Desk, slot: Slot, view: View, cut: B256) -> Option<CommitQc> {
        let votes = || self.confirmed.iter().filter(move |(_, vote)| vote.cut == cut);
        if votes().count() < desk.committee.quorum() {
            return None;
        }
        let proof = combine(desk, votes().map(|(voter, vote)| (*voter, &vote.share)))?;
        Some(CommitQc { kind: CommitKind::Slow, slot, view, cut, proof })
    }

    pub fn len(&self) -> usize {
        self.prepared.len() + self.confirmed.len()
    }
}

/// V5: a TC of exactly n − f TIMEOUTs, so that at most one value can be repeated often enough in
/// [`select`](crate::rules::select).
pub(crate) fn timeout_certificate(
    desk: &Desk,
    slot: Slot,
    view: View,
    timeouts: &BTreeMap<ValidatorIndex, Timeout>,
) -> Option<TimeoutQc> {
    let quorum = desk.committee.quorum();
    if timeouts.len() < quorum {
        return None;
    }
    let chosen = || timeouts.iter().take(quorum);
    let proof = combine(desk, chosen().map(|(sender, timeout)| (*sender, &timeout.share)))?;
    let reports: Vec<Report> = chosen().map(|(_, timeout)| timeout.report).collect();
    let confirmed = chosen().filter_map(|(_, timeout)| timeout.confirmed.as_ref()).max_by_key(|certificate| certificate.view);
    Some(TimeoutQc { slot, view, reports, proof, confirmed: confirmed.cloned() })
}

fn combine<'a>(desk: &Desk, shares: impl Iterator<Item = (ValidatorIndex, &'a Share)>) -> Option<Proof> {
    let shares: Vec<_> = shares.map(|(signer, share)| (signer, share.clone())).collect();
    let seal = desk.signatures.combine(&shares)?;
    Some(Proof { signers: shares.into_iter().map(|(signer, _)| signer).collect(), seal })
}
