//! Votes of this validator in a slot (C3, C4).

use super::{Anchor, SlotState};
use crate::{
    config::MAX_CLOCK_AHEAD_MS,
    message::{Availability, Message, Position, SignedPrepare, Statement, Tip, View, Vote},
    rules::is_fresh,
    slots::{Effect, Lanes, context::SlotContext},
};
use corniche_engine::{Recipients, Unsigned};
use corniche_types::{B256, TimestampMs};

/// C3: result of the check before a vote.
enum VoteCheck {
    Strong,
    /// These tips are neither certified nor held.
    MissingTips(Vec<Tip>),
    /// Its time is too far ahead until then.
    Early(TimestampMs),
    /// No vote now; perhaps later, when the anchor is known.
    None,
}

impl SlotState {
    /// C4: votes for the PREPARE of this view as soon as every claim of the vote is true. One value per view (N1), none
    /// in a view that was given up (N2).
    pub fn vote_if_ready(&mut self, ctx: &mut SlotContext, lanes: &dyn Lanes, anchor: Anchor<'_>) {
        let Some((known, prepare)) = &self.prepare else { return };
        let voted = self.voted.filter(|(view, _)| *view == self.view).map(|(_, value)| value);
        if self.timed_out || self.has_voted_strongly() || voted.is_some_and(|value| value != known.digest) {
            return;
        }
        let known = known.clone();
        let strong = match self.check_vote(ctx, lanes, anchor, prepare) {
            VoteCheck::Strong => true,
            VoteCheck::MissingTips(tips) => {
                if !std::mem::replace(&mut self.are_tips_requested, true) {
                    let from = ctx.schedule.leader(self.slot, self.view);
                    ctx.effects.extend(tips.into_iter().map(|tip| Effect::FetchTip { slot: self.slot, tip, from }));
                }
                if !ctx.config.weak_votes || voted.is_some() {
                    return;
                }
                false
            }
            VoteCheck::Early(until) => return self.timers.early = Some(until),
            VoteCheck::None => return,
        };
        let vote = self.prepare_vote(ctx, known.digest, strong);
        if matches!(vote, Err(Unsigned::Refused)) {
            return;
        }
        self.voted = Some((self.view, known.digest));
        if strong {
            // P5: a weak vote is not reported in a TIMEOUT, so it cannot oblige a later view to a cut whose tips may
            // not exist.
            self.prop = Some((self.view, known));
        }
        self.record_vote(ctx, vote);
    }

    /// Records a vote and sends it. Without a signature it counts as cast: a signer in another process may have made it, so a later
    /// TIMEOUT must report it (N4). It is sent when the leader asks again.
    pub(super) fn record_vote(&mut self, ctx: &mut SlotContext, vote: Result<Message, Unsigned>) {
        match vote {
            Ok(vote) => self.persist_and_send(ctx, self.vote_recipients(ctx), vote),
            Err(_) => self.persist(ctx),
        }
    }

    /// C3: checks the claims of a vote.
    fn check_vote(&self, ctx: &SlotContext, lanes: &dyn Lanes, anchor: Anchor<'_>, prepare: &SignedPrepare) -> VoteCheck {
        if !is_fresh(prepare, &ctx.committee) {
            // Correct validators checked it in the view in which it was fresh.
            return VoteCheck::Strong;
        }
        let until = TimestampMs(prepare.cut.time.0.saturating_sub(MAX_CLOCK_AHEAD_MS));
        if until > ctx.now {
            return VoteCheck::Early(until);
        }
        let tips = prepare.cut.tips.iter().filter(|tip| tip.position > anchor.position(tip.lane));
        let mut missing = Vec::new();
        for (tip, shown) in with_shown(tips, prepare.available.iter()) {
            if shown == Some(tip) || lanes.is_certified(tip) {
                continue;
            }
            // Y4: a body without a certified parent could be on a chain without any certificate, so it is not requested.
            let has_parent = tip.position == Position(1) || shown.is_some_and(|shown| shown.position.next() == tip.position);
            let is_allowed = prepare.view == View(0) && ctx.may_be_optimistic(self.slot, tip.lane);
            match anchor {
                Anchor::Unknown => return VoteCheck::None,
                _ if !is_allowed => return VoteCheck::None,
                _ if lanes.may_vote_strongly(tip) => {}
                _ if has_parent => missing.push(*tip),
                _ => return VoteCheck::None,
            }
        }
        if missing.is_empty() { VoteCheck::Strong } else { VoteCheck::MissingTips(missing) }
    }

    pub(super) fn prepare_vote(&self, ctx: &SlotContext, cut: B256, strong: bool) -> Result<Message, Unsigned> {
        let (slot, view) = (self.slot, self.view);
        let statement =
            if strong { Statement::PrepareVote { slot, view, cut } } else { Statement::WeakPrepareVote { slot, view, cut } };
        let share = ctx.share(slot, &statement)?;
        Ok(Message::PrepareVote { vote: Vote { slot, view, cut, share }, strong })
    }

    pub(super) fn confirm_ack(&self, ctx: &SlotContext, cut: B256) -> Result<Message, Unsigned> {
        let (slot, view) = (self.slot, self.view);
        let share = ctx.share(slot, &Statement::ConfirmAck { slot, view, cut })?;
        Ok(Message::ConfirmAck(Vote { slot, view, cut, share }))
    }

    pub(super) fn vote_recipients(&self, ctx: &SlotContext) -> Recipients {
        if ctx.config.all_to_all { Recipients::All } else { Recipients::One(ctx.schedule.leader(self.slot, self.view)) }
    }
}

/// Pairs each tip with the certified one that is shown for its lane. Both are in the order of lanes, so one pass finds all.
fn with_shown<'a>(
    tips: impl Iterator<Item = &'a Tip>,
    available: impl Iterator<Item = &'a Availability>,
) -> impl Iterator<Item = (&'a Tip, Option<&'a Tip>)> {
    let mut shown = available.map(|certificate| &certificate.tip).peekable();
    tips.map(move |tip| {
        while shown.next_if(|shown| shown.lane < tip.lane).is_some() {}
        (tip, shown.next_if(|shown| shown.lane == tip.lane))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Proof;
    use corniche_types::{Bytes, ValidatorIndex};

    #[test]
    fn one_pass_finds_all_shown_tips() {
        let tip = |lane| Tip { lane: ValidatorIndex(lane), position: Position(2), digest: B256::ZERO };
        let certified = |lane| Availability { tip: tip(lane), proof: Proof { signers: Vec::new(), seal: Bytes::new() } };
        let tips: Vec<Tip> = (0..900).filter(|lane| lane % 5 != 0).map(tip).collect();
        let available: Vec<_> = (0..1_000).filter(|lane| lane % 3 != 0).map(certified).collect();
        let mut read = 0;
        let pairs: Vec<_> = with_shown(tips.iter(), available.iter().inspect(|_| read += 1)).collect();
        let expected = tips.iter().map(|tip| (tip, available.iter().map(|shown| &shown.tip).find(|shown| *shown == tip)));
        assert!(pairs.into_iter().eq(expected));
        assert!(read <= available.len(), "{read}");
    }
}
