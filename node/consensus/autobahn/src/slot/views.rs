//! View changes of a slot (V1–V7).

use super::{Known, MAX_BODIES, SlotState, Timers};
use crate::{
    message::{Cut, Message, Report, Statement, Timeout, TimeoutQc, View},
    rules::select,
    slots::{Question, desk::Desk, tally::timeout_certificate},
};
use corniche_engine::Recipients;
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::sync::Arc;

/// Proposal of the leader of a view above 0.
pub(crate) enum Proposal {
    /// The winner of the TC is proposed again.
    Winner(Known),
    /// The TC has no winner: the leader proposes a cut of its own.
    Fresh,
}

impl SlotState {
    /// V1, in view 0: starts the timers, because the ticket is held and there is news to propose.
    pub fn arm(&mut self, desk: &Desk) {
        if desk.signer(self.slot).is_none() {
            return;
        }
        if self.timed_out {
            self.timers.resend.get_or_insert(desk.in_ms(desk.config.resend_ms));
        } else if self.timers.view.is_none() {
            self.start_view_timer(desk);
            let quarter = desk.view_timeout(self.slot, self.view) / 4;
            self.timers.remind = self.prepare.is_none().then(|| desk.in_ms(quarter));
            if self.prepare.is_some() && desk.leads(self.slot, self.view) {
                self.timers.resend.get_or_insert(desk.in_ms(desk.config.resend_ms));
            }
        }
    }

    /// P10, in view 0: stops the timers, because there is no news any more. A TIMEOUT stays valid but is not repeated, and
    /// neither is a proposal without news.
    pub fn disarm(&mut self) {
        let Timers { fast, early, .. } = self.timers;
        self.timers = Timers { fast, early, ..Timers::default() };
        self.since = None;
    }

    /// V1. The caller has checked that the validator may sign.
    fn start_view_timer(&mut self, desk: &Desk) {
        self.since = Some(desk.now);
        self.timers.view = Some(desk.in_ms(desk.view_timeout(self.slot, self.view)));
    }

    /// Shortens the running timer if this validator has come to distrust the leader since the timer started.
    pub fn shorten_view_timer(&mut self, desk: &Desk) {
        if let (Some(at), Some(since)) = (&mut self.timers.view, self.since) {
            *at = (*at).min(TimestampMs(since.0.saturating_add(desk.view_timeout(self.slot, self.view))));
        }
    }

    /// Time since the timer of this view started, ms. `None` if it has no timer.
    pub fn age(&self, now: TimestampMs) -> Option<u64> {
        self.since.map(|since| now.0.saturating_sub(since.0))
    }

    /// R4: restarts timers after a restart of the node. A TIMEOUT is sent again at once.
    pub fn resume(&mut self, desk: &Desk) {
        if desk.signer(self.slot).is_none() {
            // R5: without the right to sign, no timer has an effect.
            self.timers = Timers::default();
        } else if self.timed_out {
            self.timers.resend = Some(desk.now);
        } else if self.view > View(0) {
            self.start_view_timer(desk);
        }
    }

    /// Enters a view and closes all lower ones.
    pub(super) fn enter(&mut self, desk: &Desk, view: View) {
        debug_assert!(view > self.view, "a view is never entered again");
        self.view = view;
        self.timed_out = false;
        if let Some((known, _)) = self.prepare.take().filter(|_| self.bodies.len() < MAX_BODIES) {
            self.bodies.insert(known.digest, known.cut);
        }
        self.is_accused = false;
        self.are_tips_asked = false;
        self.wanted = None;
        self.tallies = self.tallies.split_off(&view);
        self.timeouts = self.timeouts.split_off(&view);
        self.timers = Timers::default();
        self.since = None;
        if desk.signer(self.slot).is_some() {
            self.start_view_timer(desk);
        }
    }

    /// V2: sends TIMEOUT. After this the validator casts no vote in this view.
    pub(super) fn give_up(&mut self, desk: &mut Desk) {
        if desk.signer(self.slot).is_none() {
            return;
        }
        self.timed_out = true;
        self.timers = Timers { resend: Some(desk.in_ms(desk.config.resend_ms)), ..Timers::default() };
        if let Some(timeout) = self.timeout(desk) {
            desk.note("timeout", self.slot, self.view);
            self.promise(desk, Recipients::All, timeout);
        }
    }

    /// N4: returns a TIMEOUT that reports exactly conf and prop.
    pub(super) fn timeout(&self, desk: &Desk) -> Option<Message> {
        let (slot, view) = (self.slot, self.view);
        let report = Report {
            confirmed: self.conf.as_ref().map(|conf| (conf.view, conf.cut)),
            voted: self.prop.as_ref().map(|(view, known)| (*view, known.digest)),
        };
        let share = desk.share(slot, &Statement::TimedOut { slot, view, report })?;
        let mut cuts: Vec<Cut> = self.prop.iter().map(|(_, known)| Cut::clone(&known.cut)).collect();
        if let Some((_, value)) = report.confirmed.filter(|(_, value)| report.voted.is_none_or(|(_, voted)| voted != *value)) {
            cuts.extend(self.body(value).map(|cut| Cut::clone(&cut)));
        }
        Some(Message::Timeout(Timeout { slot, view, report, share, confirmed: self.conf.clone(), cuts }))
    }

    /// V3–V5: handles a peer's TIMEOUT.
    pub fn take_timeout(&mut self, desk: &mut Desk, from: ValidatorIndex, timeout: Timeout) {
        let view = timeout.view;
        if view < self.view {
            return self.show_the_way(desk, from, view);
        }
        if !self.is_near(view) {
            return;
        }
        for cut in &timeout.cuts {
            let named = [timeout.report.confirmed, timeout.report.voted].into_iter().flatten().map(|(_, value)| value);
            self.keep_body(desk.context.cut(cut), cut, named);
        }
        let senders = self.timeouts.entry(view).or_default();
        senders.entry(from).or_insert(timeout);
        let count = senders.len();
        if count >= desk.committee.validity() && (view > self.view || !self.timed_out) {
            // V4, P4: one of the f + 1 senders is correct. The views between are closed, too.
            if view > self.view {
                self.enter(desk, view);
            }
            self.give_up(desk);
        }
        // V5.
        let certificate = self.timeouts.get(&view).and_then(|timeouts| timeout_certificate(desk, self.slot, view, timeouts));
        if let Some(certificate) = certificate {
            self.take_timed_out(desk, &certificate);
            let leader = desk.schedule.leader(self.slot, self.view);
            desk.post(Recipients::One(leader), Message::TimedOut(certificate)); // P11
        }
    }

    /// V5: handles a TC, formed here or received.
    pub fn take_timed_out(&mut self, desk: &mut Desk, certificate: &TimeoutQc) {
        if certificate.view >= self.view {
            self.enter(desk, View(certificate.view.0.saturating_add(1)));
            let winner = select(&certificate.reports, desk.committee.overlap());
            self.bodies.retain(|value, _| Some(*value) == winner);
            self.entered = Some(certificate.clone());
            desk.note("view", self.slot, self.view);
        }
    }

    /// P12: queues the proof that `their` view was left, for a peer that is still in it.
    pub(super) fn show_the_way(&self, desk: &mut Desk, to: ValidatorIndex, their: View) {
        if self.way_from(their).is_some() {
            desk.ask(to, Question::View { slot: self.slot, view: their });
        }
    }

    /// Returns the proof that `their` view was left: the TC, or the PrepareQC of a later view.
    pub fn way_from(&self, their: View) -> Option<Message> {
        let conf = self.conf.as_ref().filter(|conf| conf.view > their);
        match (&self.entered, conf) {
            (Some(entered), conf) if entered.view >= their && conf.is_none_or(|conf| conf.view <= entered.view) => {
                Some(Message::TimedOut(entered.clone()))
            }
            (_, Some(conf)) => Some(Message::Confirm(conf.clone())),
            _ => None,
        }
    }

    // ---- proposing in a later view (V6) ----------------------------------------------------------------------------

    /// Returns this validator's proposal as leader of its view, until it has proposed there. If the winner's cut is missing,
    /// starts to fetch it and returns `None`.
    pub fn next_proposal(&mut self, desk: &mut Desk) -> Option<Proposal> {
        let entered = self.entered.as_ref().filter(|entered| View(entered.view.0 + 1) == self.view)?;
        let is_mine = desk.leads(self.slot, self.view) && desk.signer(self.slot).is_some();
        if !is_mine || self.timed_out || self.proposed.is_some_and(|view| view >= self.view) {
            return None;
        }
        let Some(digest) = select(&entered.reports, desk.committee.overlap()) else { return Some(Proposal::Fresh) };
        if let Some(cut) = self.body(digest) {
            self.wanted = None;
            self.timers.fetch = None;
            return Some(Proposal::Winner(Known { digest, cut }));
        }
        if self.wanted.is_none() {
            self.wanted = Some((digest, 0));
            self.fetch_wanted(desk);
        }
        None
    }

    /// P6: requests the winner's cut. Validators that certified or reported the value voted for it, so they hold its cut.
    pub(super) fn fetch_wanted(&mut self, desk: &mut Desk) {
        let (Some((digest, attempts)), Some(entered)) = (&mut self.wanted, &self.entered) else { return };
        let names = |named: Option<(View, B256)>| named.is_some_and(|(_, value)| value == *digest);
        let reporters = entered.proof.signers.iter().zip(&entered.reports).filter(|(_, report)| names(report.voted));
        let certifiers = entered.confirmed.iter().filter(|certificate| certificate.cut == *digest);
        let holders: Vec<_> = reporters
            .map(|(sender, _)| *sender)
            .chain(certifiers.flat_map(|certificate| certificate.proof.signers.iter().copied()))
            .collect();
        desk.ask_for_cut(self.slot, *digest, &holders, *attempts);
        *attempts += 1;
        self.timers.fetch = Some(desk.in_ms(desk.config.fetch_retry_ms));
    }

    /// Returns a cut of this slot by its digest, if it is held.
    pub fn body(&self, digest: B256) -> Option<Arc<Cut>> {
        let prepared = self.prepare.iter().map(|(known, _)| known);
        let known = self.prop.iter().map(|(_, known)| known).chain(prepared).find(|known| known.digest == digest);
        known.map(|known| known.cut.clone()).or_else(|| self.bodies.get(&digest).cloned())
    }

    /// Handles CUT-REPLY.
    pub fn take_cut(&mut self, digest: B256, cut: &Cut) {
        self.keep_body(digest, cut, self.wanted.map(|(wanted, _)| wanted).into_iter());
    }

    fn keep_body(&mut self, digest: B256, cut: &Cut, mut named: impl Iterator<Item = B256>) {
        let is_wanted = self.wanted.is_some_and(|(wanted, _)| wanted == digest);
        if cut.slot == self.slot && named.any(|value| value == digest) && (is_wanted || self.bodies.len() < MAX_BODIES) {
            self.bodies.entry(digest).or_insert_with(|| Arc::new(cut.clone()));
        }
    }
}
