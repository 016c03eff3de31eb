//! The votes of one view, and the certificates they make. At most one vote of each kind per sender.

use super::context::SlotContext;
use crate::{
    keys::Share,
    message::{CommitKind, CommitQc, PrepareQc, Proof, Report, Slot, Timeout, TimeoutQc, View, Vote},
};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Tally {
    /// PREP-VOTEs, and true for strong ones.
    prepare_votes: BTreeMap<ValidatorIndex, (Vote, bool)>,
    /// CONFIRM-ACKs. Never mixed with PREP-VOTEs (N8).
    confirm_acks: BTreeMap<ValidatorIndex, Vote>,
    /// The prepared value's certificate, and its time.
    pub certificate: Option<(PrepareQc, TimestampMs)>,
}

impl Tally {
    /// Counts a sender's first vote. A weak vote may become strong for the same value. Returns true if the vote counts.
    pub fn add_prepare_vote(&mut self, from: ValidatorIndex, vote: Vote, strong: bool) -> bool {
        let counts = match self.prepare_votes.get(&from) {
            None => true,
            Some((first, was_strong)) => strong && !was_strong && first.cut == vote.cut,
        };
        if counts {
            self.prepare_votes.insert(from, (vote, strong));
        }
        counts
    }

    pub fn add_confirm_ack(&mut self, from: ValidatorIndex, vote: Vote) -> bool {
        let is_first = !self.confirm_acks.contains_key(&from);
        if is_first {
            self.confirm_acks.insert(from, vote);
        }
        is_first
    }

    /// C5: Q votes of either strength, F + 1 of them strong (row 21).
    pub fn prepare_certificate(&self, ctx: &SlotContext, slot: Slot, view: View, cut: B256) -> Option<PrepareQc> {
        let votes = || self.prepare_votes.iter().filter(move |(_, (vote, _))| vote.cut == cut);
        let weak: Vec<_> = votes().filter(|(_, (_, strong))| !strong).map(|(voter, _)| *voter).collect();
        let all = ctx.committee.weigh(votes().map(|(voter, _)| *voter));
        let strong = all - ctx.committee.weigh(weak.iter().copied());
        if all < ctx.committee.quorum() || strong < ctx.committee.validity() {
            return None;
        }
        let proof = combine(ctx, votes().map(|(voter, (vote, _))| (*voter, &vote.share)))?;
        Some(PrepareQc { slot, view, cut, weak, proof })
    }

    /// C5: all members voted strongly (P5).
    pub fn fast_certificate(&self, ctx: &SlotContext, slot: Slot, view: View, cut: B256) -> Option<CommitQc> {
        let votes = || self.prepare_votes.iter().filter(move |(_, (vote, strong))| *strong && vote.cut == cut);
        if votes().count() < ctx.committee.size() {
            return None;
        }
        let proof = combine(ctx, votes().map(|(voter, (vote, _))| (*voter, &vote.share)))?;
        Some(CommitQc { kind: CommitKind::Fast, slot, view, cut, proof })
    }

    /// C7: acknowledgements with Q votes.
    pub fn slow_certificate(&self, ctx: &SlotContext, slot: Slot, view: View, cut: B256) -> Option<CommitQc> {
        let votes = || self.confirm_acks.iter().filter(move |(_, vote)| vote.cut == cut);
        if ctx.committee.weigh(votes().map(|(voter, _)| *voter)) < ctx.committee.quorum() {
            return None;
        }
        let proof = combine(ctx, votes().map(|(voter, vote)| (*voter, &vote.share)))?;
        Some(CommitQc { kind: CommitKind::Slow, slot, view, cut, proof })
    }

    pub fn len(&self) -> usize {
        self.prepare_votes.len() + self.confirm_acks.len()
    }
}

/// V5: a TC of the first TIMEOUTs that have Q votes. The last one may overshoot Q, which [`select`](crate::rules::select) takes
/// into account.
pub(crate) fn timeout_certificate(
    ctx: &SlotContext,
    slot: Slot,
    view: View,
    timeouts: &BTreeMap<ValidatorIndex, Timeout>,
) -> Option<TimeoutQc> {
    let quorum = ctx.committee.quorum();
    if ctx.committee.weigh(timeouts.keys().copied()) < quorum {
        return None;
    }
    let senders = ctx.committee.take_votes(timeouts.keys().copied(), quorum).len();
    let chosen = || timeouts.iter().take(senders);
    let proof = combine(ctx, chosen().map(|(sender, timeout)| (*sender, &timeout.share)))?;
    let reports: Vec<Report> = chosen().map(|(_, timeout)| timeout.report).collect();
    let confirmed = chosen().filter_map(|(_, timeout)| timeout.confirmed.as_ref()).max_by_key(|certificate| certificate.view);
    Some(TimeoutQc { slot, view, reports, proof, confirmed: confirmed.cloned() })
}

fn combine<'a>(ctx: &SlotContext, shares: impl Iterator<Item = (ValidatorIndex, &'a Share)>) -> Option<Proof> {
    let shares: Vec<_> = shares.map(|(signer, share)| (signer, share.clone())).collect();
    let seal = ctx.signatures.combine(&shares)?;
    Some(Proof { signers: shares.into_iter().map(|(signer, _)| signer).collect(), seal })
}
