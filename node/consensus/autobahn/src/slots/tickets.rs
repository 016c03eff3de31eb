//! Start of slots: conditions, time and content (S1–S7, C1, P10, P11, P26).
//!
//! A slot's ticket has two halves. A PREPARE of the previous slot, or of any later one, proves that it is the slot's
//! turn. The certificate of the commit k slots before proves that at most k slots are open. The first half only
//! concerns progress and is not shown to others.

use super::slot::{Anchor, Proposal, SlotState, due};
use super::{Lanes, Slots};
use crate::keys::Authored;
use crate::message::{Availability, Cut, Message, Position, SignedPrepare, Slot, TimeoutQc, Tip, View};
use corniche_engine::Recipients;
use corniche_types::{ValidatorIndex, Votes};

impl Slots {
    /// Arms timers, proposes, and reminds leaders. Nothing that is not due changes.
    pub(super) fn drive_slots(&mut self, lanes: &mut dyn Lanes) {
        let last = Slot(self.top.0.max(self.commits.through().0) + 1);
        let is_quiet = self.is_quiet(lanes);
        for slot in (self.commits.through().0 + 1..=last.0).map(Slot) {
            if self.commits.contains(slot) || !self.has_anchor(slot) {
                continue; // Committed, or S2: too many slots are open.
            }
            if self.open.get(&slot).is_some_and(|state| state.view > View(0)) {
                self.propose_in_later_view(lanes, slot);
            } else {
                self.drive_first_view(lanes, slot, slot == last, is_quiet);
            }
        }
    }

    /// `is_next`: as far as is known here, neither this slot nor a later one was proposed.
    fn drive_first_view(&mut self, lanes: &mut dyn Lanes, slot: Slot, is_next: bool, is_quiet: bool) {
        // P10: without news there is no timer; otherwise an idle network would complain for ever. Later slots prove
        // news, unless all is quiet.
        let is_idle = if is_next { !self.has_news(lanes, slot, false, Votes(1)) } else { is_quiet };
        if is_idle && !(is_next && self.may_propose_news(lanes, slot)) {
            if let Some(state) = self.open.get_mut(&slot) {
                state.stop_timers();
            }
            return;
        }
        let state = self.open.entry(slot).or_insert_with(|| SlotState::new(slot));
        state.start_timers(&self.ctx);
        if due(&mut state.timers.forward_to_leader, self.ctx.now) {
            self.forward_to_leader(lanes, slot);
        }
        if !self.is_free_next_proposal(slot) {
            return;
        }
        // C1, with the fallback of P10.
        let coverage = self.ctx.config.coverage(&self.ctx.committee);
        let covered = !is_next || self.has_news(lanes, slot, true, coverage);
        let Some(state) = self.open.get_mut(&slot) else { return };
        let wait = *state.timers.coverage.get_or_insert(self.ctx.in_ms(self.ctx.config.coverage_wait_ms));
        if covered || wait <= self.ctx.now {
            let (cut, available) = self.fresh_cut(lanes, slot, View(0));
            self.propose(View(0), cut, available, None);
        }
    }

    fn is_free_next_proposal(&self, slot: Slot) -> bool {
        let is_open = |state: &SlotState| state.view == View(0) && !state.timed_out && state.proposed.is_none();
        self.ctx.is_leader(slot, View(0))
            && self.ctx.signer(slot).is_some()
            && self.has_anchor_certificate(slot)
            && self.open.get(&slot).is_none_or(is_open)
    }

    /// A leader sees news earlier than others: its own cars, and uncertified ones.
    fn may_propose_news(&self, lanes: &dyn Lanes, slot: Slot) -> bool {
        self.is_free_next_proposal(slot) && self.has_news(lanes, slot, true, Votes(1))
    }

    /// V6: proposes in a view above 0.
    fn propose_in_later_view(&mut self, lanes: &mut dyn Lanes, slot: Slot) {
        if !self.has_anchor_certificate(slot) {
            return;
        }
        let Some(state) = self.open.get_mut(&slot) else { return };
        let (view, timeouts) = (state.view, state.entered.clone());
        match state.next_proposal(&mut self.ctx) {
            // C3: its tips need no certificates again.
            Some(Proposal::Winner(known)) => self.propose(view, Cut::clone(&known.cut), Vec::new(), timeouts),
            Some(Proposal::Fresh) => {
                let (cut, available) = self.fresh_cut(lanes, slot, view);
                self.propose(view, cut, available, timeouts);
            }
            None => {}
        }
    }

    /// Signs a PREPARE. The only place that does, and once per view (N10).
    fn propose(&mut self, view: View, cut: Cut, available: Vec<Availability>, timeouts: Option<TimeoutQc>) {
        let slot = cut.slot;
        let (Some(signer), Some(state)) = (self.ctx.signer(slot), self.open.get_mut(&slot)) else { return };
        assert!(state.proposed.is_none_or(|proposed| proposed < view), "N10: one PREPARE per view, ever");
        state.proposed = Some(view);
        let cut_digest = self.ctx.context.cut(&cut);
        let digest = self.ctx.context.prepare(slot, view, cut_digest);
        let signature = signer.sign(&Authored::Prepare { slot, view, cut: cut_digest }, &digest);
        // Refused: the view is over for this leader, which asks for no other PREPARE of it.
        let Some(signature) = signature else { return };
        let previous = slot.0.checked_sub(self.ctx.config.open_slots).map(Slot);
        let previous = previous.and_then(|previous| self.commits.certificate(previous)).cloned();
        let prepare = SignedPrepare { view, cut, signature, available, previous, timeouts };
        state.timers.coverage = None;
        self.ctx.note("prepare", slot, view);
        state.persist_and_send(&mut self.ctx, Recipients::All, Message::Prepare(prepare));
    }

    /// Row 11: one tip of every lane, the highest allowed one, with the certificates that a voter may need.
    fn fresh_cut(&self, lanes: &dyn Lanes, slot: Slot, view: View) -> (Cut, Vec<Availability>) {
        let anchor = self.commits.anchor(slot);
        let (mut tips, mut available) = (Vec::new(), Vec::new());
        for lane in self.ctx.committee.indices() {
            // C3: only certified tips in later views.
            let (tip, certificate) = self.tip(lanes, slot, lane, view == View(0));
            if tip.position > anchor.position(lane) {
                available.extend(certificate.cloned());
            }
            tips.push(tip);
        }
        let value = slot.0.checked_sub(self.ctx.config.open_slots).and_then(|anchor| self.commits.certificate(Slot(anchor)));
        (Cut { slot, anchor: value.map(|qc| qc.cut).unwrap_or_default(), time: self.ctx.now, tips }, available)
    }

    /// A lane's highest tip, and its certificate or that of its parent.
    fn tip<'a>(
        &self,
        lanes: &'a dyn Lanes,
        slot: Slot,
        lane: ValidatorIndex,
        optimistic: bool,
    ) -> (Tip, Option<&'a Availability>) {
        let certified = lanes.certified(lane);
        let position = certified.map_or(Position(0), |certificate| certificate.tip.position);
        if optimistic
            && self.ctx.may_be_optimistic(slot, lane)
            && let Some((tip, parent)) = lanes.optimistic(lane).filter(|(tip, _)| tip.position > position)
        {
            return (tip, parent);
        }
        match certified {
            Some(certificate) => (certificate.tip, Some(certificate)),
            None => (Tip { lane, position, digest: self.ctx.context.lane_start(lane) }, None),
        }
    }

    /// Returns true if the owners of the lanes with a tip above that of the previous slot have at least `min` votes (P26).
    fn has_news(&self, lanes: &dyn Lanes, slot: Slot, optimistic: bool, min: Votes) -> bool {
        let committee = &self.ctx.committee;
        committee.weigh(committee.take_votes(self.lanes_with_news(lanes, slot, optimistic), min)) >= min
    }

    fn lanes_with_news(&self, lanes: &dyn Lanes, slot: Slot, optimistic: bool) -> impl Iterator<Item = ValidatorIndex> {
        let known = self.baseline(slot).zip(self.last_cut());
        let is_above = move |lane: &ValidatorIndex| {
            let above = known.map(|(before, last)| before.position(*lane).max(last.position(*lane)));
            above.is_some_and(|above| self.tip(lanes, slot, *lane, optimistic).0.position > above)
        };
        self.ctx.committee.indices().filter(is_above)
    }

    /// P10: returns true if no slot is missing, and no known, certified or proposed tip is above the last delivered
    /// cut. Slots that are proposed in this state rest until there is something to commit.
    pub(super) fn is_quiet(&self, lanes: &dyn Lanes) -> bool {
        let Some(last) = self.last_cut().filter(|_| !self.commits.has_gap()) else { return false };
        let is_above = |tip: &Tip| tip.position > last.position(tip.lane);
        let mut certified = self.ctx.committee.indices().filter_map(|lane| lanes.certified(lane));
        let mut proposed = self.open.values().filter_map(|state| state.last_proposed.as_ref()).flat_map(|cut| &cut.tips);
        !certified.any(|certificate| is_above(&certificate.tip)) && !proposed.any(is_above)
    }

    /// The last delivered cut.
    fn last_cut(&self) -> Option<Anchor<'_>> {
        match self.commits.through() {
            Slot(0) => Some(Anchor::Start),
            through => self.commits.cut(through).map(|cut| Anchor::Cut(cut)),
        }
    }

    /// The cut of the previous slot: the committed one, otherwise the last proposed one. `None` while only its
    /// certificate is known.
    fn baseline(&self, slot: Slot) -> Option<Anchor<'_>> {
        let before = Slot(slot.0 - 1);
        if before == Slot(0) {
            return Some(Anchor::Start);
        }
        let proposed = || self.open.get(&before).and_then(|state| state.last_proposed.as_ref());
        let cut = if self.commits.contains(before) { self.commits.cut(before) } else { proposed() };
        cut.map(|cut| Anchor::Cut(cut))
    }

    /// S1, S2: the half of the ticket that safety needs.
    fn has_anchor(&self, slot: Slot) -> bool {
        slot.0.checked_sub(self.ctx.config.open_slots).is_none_or(|anchor| anchor == 0 || self.commits.contains(Slot(anchor)))
    }

    fn has_anchor_certificate(&self, slot: Slot) -> bool {
        let anchor = slot.0.saturating_sub(self.ctx.config.open_slots);
        anchor == 0 || self.commits.certificate(Slot(anchor)).is_some()
    }

    /// P11: a leader that has not proposed may lack its ticket, or the news. Reminds it once per slot, after a quarter
    /// of the view's time: in good intervals nothing is forwarded.
    fn forward_to_leader(&mut self, lanes: &dyn Lanes, slot: Slot) {
        let leader = self.ctx.schedule.leader(slot, View(0));
        if self.ctx.me() == Some(leader) {
            return;
        }
        let to = Recipients::One(leader);
        let before = Slot(slot.0 - 1);
        if let Some(anchor) =
            slot.0.checked_sub(self.ctx.config.open_slots).and_then(|anchor| self.commits.certificate(Slot(anchor)))
        {
            self.ctx.send(to, Message::Commit(anchor.clone()));
        }
        if let Some(commit) = self.commits.certificate(before) {
            self.ctx.send(to, Message::Commit(commit.clone()));
        } else if let Some((_, prepare)) = self.open.get(&before).and_then(|state| state.prepare.as_ref()) {
            self.ctx.send(to, Message::Prepare(prepare.clone()));
        }
        let news = self.lanes_with_news(lanes, slot, false);
        let certificates: Vec<_> = news.filter_map(|lane| lanes.certified(lane)).cloned().collect();
        certificates.into_iter().for_each(|certificate| self.ctx.send(to, Message::Available(certificate)));
    }
}
