//! View changes of a slot (V1–V7).

use super::{HashedCut, MAX_BODIES, SlotState, Timers};
use crate::{
    message::{Cut, Message, Report, Statement, Timeout, TimeoutQc, View},
    rules::select,
    slots::{Request, context::SlotContext, tally::timeout_certificate},
};
use corniche_engine::Recipients;
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::sync::Arc;

/// Proposal of the leader of a view above 0.
pub(crate) enum Proposal {
    /// The winner of the TC is proposed again.
    Winner(HashedCut),
    /// The TC has no winner: the leader proposes a cut of its own.
    Fresh,
}

impl SlotState {
    /// V1, in view 0: starts the timers, because the ticket is held and there is news to propose.
    pub fn start_timers(&mut self, ctx: &SlotContext) {
        if ctx.signer(self.slot).is_none() {
            return;
        }
        if self.timed_out {
            self.timers.resend.get_or_insert(ctx.in_ms(ctx.config.resend_ms));
        } else if self.timers.view.is_none() {
            self.start_view_timer(ctx);
            let quarter = ctx.view_timeout(self.slot, self.view) / 4;
            self.timers.forward_to_leader = self.prepare.is_none().then(|| ctx.in_ms(quarter));
            if self.prepare.is_some() && ctx.is_leader(self.slot, self.view) {
                self.timers.resend.get_or_insert(ctx.in_ms(ctx.config.resend_ms));
            }
        }
    }

    /// P10, in view 0: stops the timers, because there is no news any more. A TIMEOUT stays valid but is not repeated, and
    /// neither is a proposal without news.
    pub fn stop_timers(&mut self) {
        let Timers { fast, early, .. } = self.timers;
        self.timers = Timers { fast, early, ..Timers::default() };
        self.since = None;
    }

    /// V1. The caller has checked that the validator may sign.
    fn start_view_timer(&mut self, ctx: &SlotContext) {
        self.since = Some(ctx.now);
        self.timers.view = Some(ctx.in_ms(ctx.view_timeout(self.slot, self.view)));
    }

    /// Shortens the running timer if this validator has come to distrust the leader since the timer started.
    pub fn shorten_view_timer(&mut self, ctx: &SlotContext) {
        if let (Some(at), Some(since)) = (&mut self.timers.view, self.since) {
            *at = (*at).min(TimestampMs(since.0.saturating_add(ctx.view_timeout(self.slot, self.view))));
        }
    }

    /// Time since the timer of this view started, ms. `None` if it has no timer.
    pub fn age(&self, now: TimestampMs) -> Option<u64> {
        self.since.map(|since| now.0.saturating_sub(since.0))
    }

    /// R4: restarts timers after a restart of the node. A TIMEOUT is sent again at once.
    pub fn resume(&mut self, ctx: &SlotContext) {
        if ctx.signer(self.slot).is_none() {
            // R5: without the right to sign, no timer has an effect.
            self.timers = Timers::default();
        } else if self.timed_out {
            self.timers.resend = Some(ctx.now);
        } else if self.view > View(0) {
            self.start_view_timer(ctx);
        }
    }

    /// Enters a view and closes all lower ones.
    pub(super) fn enter_view(&mut self, ctx: &SlotContext, view: View) {
        debug_assert!(view > self.view, "a view is never entered again");
        self.view = view;
        self.timed_out = false;
        if let Some((known, _)) = self.prepare.take().filter(|_| self.bodies.len() < MAX_BODIES) {
            self.bodies.insert(known.digest, known.cut);
        }
        self.is_accused = false;
        self.are_tips_requested = false;
        self.wanted = None;
        self.tallies = self.tallies.split_off(&view);
        self.timeouts = self.timeouts.split_off(&view);
        self.timers = Timers::default();
        self.since = None;
        if ctx.signer(self.slot).is_some() {
            self.start_view_timer(ctx);
        }
    }

    /// V2: sends TIMEOUT. After this the validator casts no vote in this view.
    pub(super) fn time_out(&mut self, ctx: &mut SlotContext) {
        if ctx.signer(self.slot).is_none() {
            return;
        }
        self.timed_out = true;
        self.timers = Timers { resend: Some(ctx.in_ms(ctx.config.resend_ms)), ..Timers::default() };
        // Also without a signature: it may come later, and is sent then.
        self.persist(ctx);
        if let Some(timeout) = self.timeout(ctx) {
            ctx.note("timeout", self.slot, self.view);
            ctx.send_after(self.recorded, Recipients::All, timeout);
        }
    }

    /// N4: returns a TIMEOUT that reports exactly conf and prop.
    pub(super) fn timeout(&self, ctx: &SlotContext) -> Option<Message> {
        let (slot, view) = (self.slot, self.view);
        let report = Report {
            confirmed: self.conf.as_ref().map(|conf| (conf.view, conf.cut)),
            voted: self.prop.as_ref().map(|(view, known)| (*view, known.digest)),
        };
        let share = ctx.share(slot, &Statement::Timeout { slot, view, report }).ok()?;
        let mut cuts: Vec<Cut> = self.prop.iter().map(|(_, known)| Cut::clone(&known.cut)).collect();
        if let Some((_, value)) = report.confirmed.filter(|(_, value)| report.voted.is_none_or(|(_, voted)| voted != *value)) {
            cuts.extend(self.body(value).map(|cut| Cut::clone(&cut)));
        }
        Some(Message::Timeout(Timeout { slot, view, report, share, confirmed: self.conf.clone(), cuts }))
    }

    /// V3–V5: handles a peer's TIMEOUT.
    pub fn handle_timeout(&mut self, ctx: &mut SlotContext, from: ValidatorIndex, timeout: Timeout) {
        let view = timeout.view;
        if view < self.view {
            return self.send_view_proof(ctx, from, view);
        }
        if !self.is_near(view) {
            return;
        }
        for cut in &timeout.cuts {
            let named = [timeout.report.confirmed, timeout.report.voted].into_iter().flatten().map(|(_, value)| value);
            self.store_cut(ctx.context.cut(cut), cut, named);
        }
        let senders = self.timeouts.entry(view).or_default();
        senders.entry(from).or_insert(timeout);
        let votes = ctx.committee.weigh(senders.keys().copied());
        if votes >= ctx.committee.validity() && (view > self.view || !self.timed_out) {
            // V4, P4: one of the senders is correct. The views between are closed, too.
            if view > self.view {
                self.enter_view(ctx, view);
            }
            self.time_out(ctx);
        }
        // V5.
        let certificate = self.timeouts.get(&view).and_then(|timeouts| timeout_certificate(ctx, self.slot, view, timeouts));
        if let Some(certificate) = certificate {
            self.handle_timeout_qc(ctx, &certificate);
            let leader = ctx.schedule.leader(self.slot, self.view);
            ctx.send(Recipients::One(leader), Message::TimeoutQc(certificate)); // P11
        }
    }

    /// V5: handles a TC, formed here or received.
    pub fn handle_timeout_qc(&mut self, ctx: &mut SlotContext, certificate: &TimeoutQc) {
        if certificate.view >= self.view {
            self.enter_view(ctx, View(certificate.view.0.saturating_add(1)));
            let winner = select(certificate, &ctx.committee);
            self.bodies.retain(|value, _| Some(*value) == winner);
            self.entered = Some(certificate.clone());
            ctx.note("view", self.slot, self.view);
        }
    }

    /// P12: queues the proof that view `peer_view` was left, for a peer that is still in it.
    pub(super) fn send_view_proof(&self, ctx: &mut SlotContext, to: ValidatorIndex, peer_view: View) {
        if self.view_proof(peer_view).is_some() {
            ctx.queue_request(to, Request::View { slot: self.slot, view: peer_view });
        }
    }

    /// Returns the proof that view `peer_view` was left: the TC, or the PrepareQC of a later view.
    pub fn view_proof(&self, peer_view: View) -> Option<Message> {
        let conf = self.conf.as_ref().filter(|conf| conf.view > peer_view);
        match (&self.entered, conf) {
            (Some(entered), conf) if entered.view >= peer_view && conf.is_none_or(|conf| conf.view <= entered.view) => {
                Some(Message::TimeoutQc(entered.clone()))
            }
            (_, Some(conf)) => Some(Message::Confirm(conf.clone())),
            _ => None,
        }
    }

    // ---- proposing in a later view (V6) ----------------------------------------------------------------------------

    /// Returns this validator's proposal as leader of its view, until it has proposed there. If the winner's cut is missing,
    /// starts to fetch it and returns `None`.
    pub fn next_proposal(&mut self, ctx: &mut SlotContext) -> Option<Proposal> {
        let entered = self.entered.as_ref().filter(|entered| View(entered.view.0 + 1) == self.view)?;
        let is_own = ctx.is_leader(self.slot, self.view) && ctx.signer(self.slot).is_some();
        if !is_own || self.timed_out || self.proposed.is_some_and(|view| view >= self.view) {
            return None;
        }
        let Some(digest) = select(entered, &ctx.committee) else { return Some(Proposal::Fresh) };
        if let Some(cut) = self.body(digest) {
            self.wanted = None;
            self.timers.fetch = None;
            return Some(Proposal::Winner(HashedCut { digest, cut }));
        }
        if self.wanted.is_none() {
            self.wanted = Some((digest, 0));
            self.fetch_wanted(ctx);
        }
        None
    }

    /// P6: requests the winner's cut. Validators that certified or reported the value voted for it, so they hold its cut.
    pub(super) fn fetch_wanted(&mut self, ctx: &mut SlotContext) {
        let (Some((digest, attempts)), Some(entered)) = (&mut self.wanted, &self.entered) else { return };
        let names = |named: Option<(View, B256)>| named.is_some_and(|(_, value)| value == *digest);
        let reporters = entered.proof.signers.iter().zip(&entered.reports).filter(|(_, report)| names(report.voted));
        let certifiers = entered.confirmed.iter().filter(|certificate| certificate.cut == *digest);
        let holders: Vec<_> = reporters
            .map(|(sender, _)| *sender)
            .chain(certifiers.flat_map(|certificate| certificate.proof.signers.iter().copied()))
            .collect();
        ctx.request_cut(self.slot, *digest, &holders, *attempts);
        *attempts += 1;
        self.timers.fetch = Some(ctx.in_ms(ctx.config.fetch_retry_ms));
    }

    /// Returns a cut of this slot by its digest, if it is held.
    pub fn body(&self, digest: B256) -> Option<Arc<Cut>> {
        let prepared = self.prepare.iter().map(|(known, _)| known);
        let known = self.prop.iter().map(|(_, known)| known).chain(prepared).find(|known| known.digest == digest);
        known.map(|known| known.cut.clone()).or_else(|| self.bodies.get(&digest).cloned())
    }

    /// Handles CUT-REPLY.
    pub fn handle_cut(&mut self, digest: B256, cut: &Cut) {
        self.store_cut(digest, cut, self.wanted.map(|(wanted, _)| wanted).into_iter());
    }

    fn store_cut(&mut self, digest: B256, cut: &Cut, mut named: impl Iterator<Item = B256>) {
        let is_wanted = self.wanted.is_some_and(|(wanted, _)| wanted == digest);
        if cut.slot == self.slot && named.any(|value| value == digest) && (is_wanted || self.bodies.len() < MAX_BODIES) {
            self.bodies.entry(digest).or_insert_with(|| Arc::new(cut.clone()));
        }
    }
}
