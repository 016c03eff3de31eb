//! The slots: agreement on cuts, several slots at once. A separate state machine without bytes, disks or clocks.
//!
//! It is driven like an engine: apply one [`Input`] with [`Slots::handle`], take every [`Effect`] with [`Slots::poll`]
//! until `None`, wait for the next input or for [`Slots::deadline`]. It queries the lanes below through the trait
//! [`Lanes`], passed with each input. The verifier checked all received messages: signatures, quorums, the shape of
//! certificates and of cuts. Rules of the protocol (tickets, `select`, views, one vote per view) are checked here, even
//! where that needs no state.

mod commits;
mod context;
mod interface;
mod leaders;
pub(crate) mod slot;
mod tally;
mod tickets;

use crate::{
    message::{CommitKind, CommitQc, Cut, Message, SignedPrepare, Slot, Tip, View},
    rules::{is_fresh, is_justified},
};
use commits::Commits;
use context::SlotContext;
use corniche_engine::{Recipients, TraceEvent};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
pub use interface::{Effect, Input, Lanes, RecordId, Request, Setup, SlotRecord};
use slot::{SlotState, due};
use std::{collections::BTreeMap, sync::Arc};

/// The state machine of all slots.
pub struct Slots {
    ctx: SlotContext,
    commits: Commits,
    /// Uncommitted slots with any state; at most up to [`Commits::horizon`].
    open: BTreeMap<Slot, SlotState>,
    /// The highest slot known to have been proposed.
    top: Slot,
    /// The highest slot reported as [`Effect::Behind`].
    behind: Slot,
    is_halted: bool,
}

impl Slots {
    /// Creates the slots, new or recovered (R4).
    pub fn new(setup: Setup) -> Self {
        let Setup { config, committee, signer, signatures, committed, anchors, commits, records, now } = setup;
        let open_slots = config.open_slots;
        let ctx = SlotContext::new(config, committee, signer, signatures, now);
        let anchors = anchors.into_iter().map(|cut| (ctx.context.cut(&cut), cut)).collect();
        let mut slots = Self {
            commits: Commits::new(open_slots, committed, anchors),
            ctx,
            open: BTreeMap::new(),
            top: committed,
            behind: Slot(0),
            is_halted: false,
        };
        for record in records {
            // A complaint alone does not prove that the slot was ever proposed.
            if record.view > View(0) || record.proposed.is_some() || record.voted.is_some() || record.conf.is_some() {
                slots.top = slots.top.max(record.slot);
            }
            let digest = record.prop.as_ref().map(|(_, cut)| slots.ctx.context.cut(cut));
            slots.open.insert(record.slot, SlotState::recovered(record, digest));
        }
        slots.catch_up(commits);
        slots.open = slots.open.split_off(&Slot(slots.commits.through().0 + 1));
        slots.open.values_mut().for_each(|state| state.resume(&slots.ctx));
        slots
    }

    /// Applies one input.
    pub fn handle(&mut self, now: TimestampMs, lanes: &mut dyn Lanes, input: Input) {
        self.ctx.now = self.ctx.now.max(now);
        match input {
            Input::Message { from, message } => self.handle_message(lanes, from, *message),
            Input::Lanes => {}
            Input::PeerUp(peer) => {
                self.ctx.leaders.peer_up(peer);
                let to = Recipients::One(peer);
                self.open.values().for_each(|state| state.send_pending(&mut self.ctx, to));
            }
            Input::PeerDown(peer) => {
                self.ctx.leaders.peer_down(peer);
                self.shorten_timers_of(peer);
            }
            Input::Durable(record) => self.ctx.durable(record),
            Input::Deadline => self.handle_deadline(),
            Input::CaughtUp(commits) => self.catch_up(commits),
        }
        self.make_progress(lanes);
    }

    /// Returns the next output.
    pub fn poll(&mut self) -> Option<Effect> {
        self.ctx.effects.pop_front()
    }

    /// Time at which the caller must pass [`Input::Deadline`] if no other input arrives. `None` if nothing is open and
    /// the lanes have no news (P10).
    pub fn deadline(&self) -> Option<TimestampMs> {
        let timers = self.open.values().filter_map(|state| state.timers.next());
        timers.chain(self.commits.fetch).chain(self.commits.gap).min().filter(|_| !self.is_halted)
    }

    /// Response to a peer after [`Effect::Requested`]; `None` if the data is not known any more.
    pub fn response(&self, request: Request) -> Option<Message> {
        let open = |slot: Slot| self.open.get(&slot);
        match request {
            Request::Cut { slot, cut } => self.cut(slot, cut).map(|cut| Message::Cut(Cut::clone(&cut))),
            Request::Commit { slot } => self.commits.certificate(slot).cloned().map(Message::Commit),
            Request::View { slot, view } => open(slot)?.view_proof(view),
            Request::Vote { slot } => open(slot)?.repeated_vote(&self.ctx),
            Request::Acknowledgement { slot } => open(slot)?.repeated_ack(&self.ctx),
        }
    }

    /// R5: from now on, the validator signs nothing about slots up to this one.
    pub fn abstain(&mut self, through: Slot) {
        self.ctx.abstain(through);
        // Views entered without the right to sign have no timer.
        self.open.values_mut().for_each(|state| state.resume(&self.ctx));
    }

    /// Every slot up to this one is committed, and its cut was delivered.
    pub fn committed(&self) -> Slot {
        self.commits.through()
    }

    /// Returns true if a vote in this slot may wait for the bodies of tips.
    pub fn awaits_bodies(&self, slot: Slot) -> bool {
        self.open.get(&slot).is_some_and(SlotState::awaits_bodies)
    }

    /// Returns true if this tip is part of an open slot's proposal, or of the value that this validator voted for
    /// there.
    pub fn contains_tip(&self, tip: &Tip) -> bool {
        self.open.values().any(|state| state.contains_tip(tip))
    }

    /// Number of held items that must stay bounded.
    pub fn footprint(&self) -> usize {
        self.open.values().map(SlotState::footprint).sum::<usize>() + self.commits.len() + self.ctx.waiting()
    }

    /// Debug output about the open slots.
    pub fn describe(&self) -> String {
        let open = self
            .open
            .values()
            .map(|state| format!("{}v{}{}", state.slot.0, state.view.0, if state.timed_out { "!" } else { "" }));
        format!("open {}, top {}", open.collect::<Vec<_>>().join(" "), self.top.0)
    }

    // ---- inputs ----------------------------------------------------------------------------------------------------

    /// Processes all consequences of an input, including messages to this validator itself.
    fn make_progress(&mut self, lanes: &mut dyn Lanes) {
        loop {
            while let (Some(me), Some(message)) = (self.ctx.me(), self.ctx.inbox.pop_front()) {
                self.handle_message(lanes, me, message);
            }
            if self.is_halted {
                return;
            }
            let is_quiet = self.is_quiet(lanes);
            for (slot, state) in self.open.iter_mut().filter(|(_, state)| !is_quiet || state.view > View(0)) {
                state.vote_if_ready(&mut self.ctx, lanes, self.commits.anchor(*slot));
            }
            self.drive_slots(lanes);
            self.commits.watch_gap(&self.ctx);
            if self.ctx.inbox.is_empty() {
                return;
            }
        }
    }

    fn handle_message(&mut self, lanes: &mut dyn Lanes, from: ValidatorIndex, message: Message) {
        if self.is_halted {
            return;
        }
        match message {
            Message::Prepare(prepare) => self.handle_prepare(lanes, from, prepare),
            Message::PrepareVote { vote, strong } => {
                self.with_slot(vote.slot, |state, ctx| state.handle_prepare_vote(ctx, from, vote, strong));
            }
            Message::Confirm(certificate) => {
                self.note_proposed(certificate.slot);
                self.with_slot(certificate.slot, |state, ctx| state.handle_confirm(ctx, certificate));
            }
            Message::ConfirmAck(vote) => self.with_slot(vote.slot, |state, ctx| state.handle_confirm_ack(ctx, from, vote)),
            Message::Commit(certificate) => self.commit(certificate, None),
            Message::Timeout(timeout) if self.commits.contains(timeout.slot) => self.offer_commit(from, timeout.slot),
            Message::Timeout(timeout) => self.with_slot(timeout.slot, |state, ctx| state.handle_timeout(ctx, from, timeout)),
            Message::TimeoutQc(certificate) => {
                self.note_proposed(certificate.slot);
                self.with_slot(certificate.slot, |state, ctx| state.handle_timeout_qc(ctx, &certificate));
            }
            Message::FetchCut { slot, cut } => self.handle_fetch_cut(from, slot, cut),
            Message::Cut(cut) => self.handle_cut(cut),
            _ => {}
        }
    }

    pub fn clock_leads(&self) -> Vec<(ValidatorIndex, u64)> {
        self.ctx.clock_leads.milliseconds()
    }

    /// C2: processes a PREPARE, with its certificates.
    fn handle_prepare(&mut self, lanes: &mut dyn Lanes, from: ValidatorIndex, prepare: SignedPrepare) {
        let slot = prepare.cut.slot;
        let digest = self.ctx.context.cut(&prepare.cut);
        if !is_justified(&prepare, digest, &self.ctx.config, &self.ctx.committee) {
            return;
        }
        if is_fresh(&prepare, &self.ctx.committee) {
            let leader = self.ctx.schedule.leader(slot, prepare.view);
            self.ctx.clock_leads.note(leader, prepare.cut.time, self.ctx.now);
        }
        if let Some(anchor) = &prepare.previous {
            self.commit(anchor.clone(), None);
        }
        if self.commits.contains(slot) {
            if self.commits.wants(slot, digest) {
                self.commits.complete(&mut self.ctx, &Arc::new(prepare.cut));
            }
            // Its leader does not know of the commit.
            return self.offer_commit(from, slot);
        }
        self.note_proposed(slot);
        self.with_slot(slot, |state, ctx| state.handle_prepare(ctx, lanes, from, digest, prepare));
    }

    /// C8: commits a slot; `cut` is its value, if the caller has it.
    fn commit(&mut self, certificate: CommitQc, cut: Option<Arc<Cut>>) {
        let CommitQc { slot, view, .. } = certificate;
        if slot > self.commits.horizon() {
            if slot > self.behind {
                self.behind = slot;
                self.ctx.effects.push_back(Effect::Behind { slot });
            }
            return;
        }
        let cut = cut.or_else(|| self.open.get(&slot)?.body(certificate.cut));
        let voted = self.ctx.me().is_some_and(|me| certificate.proof.signers.contains(&me));
        let is_lost = voted && !self.open.get(&slot).is_some_and(SlotState::has_voted);
        let agreed = (!self.commits.contains(slot)).then(|| self.agreed(&certificate));
        match self.commits.insert(&mut self.ctx, certificate, cut) {
            Ok(true) => {
                self.ctx.effects.extend(agreed.map(Effect::Trace));
                self.update_reputation(slot, view);
                self.open.remove(&slot);
                self.note_proposed(slot);
                if is_lost {
                    self.ctx.effects.push_back(Effect::LostVote { slot });
                }
            }
            Ok(false) => {}
            Err(certificates) => {
                self.is_halted = true;
                self.ctx.effects.push_back(Effect::ConflictingCommits { certificates });
            }
        }
    }

    /// Learns from a commit which leaders are reliable, and how long a view takes.
    fn update_reputation(&mut self, slot: Slot, view: View) {
        let state = self.open.get(&slot).filter(|state| state.view == view);
        if let Some(age) = state.and_then(|state| state.age(self.ctx.now)) {
            self.ctx.leaders.record_duration(age);
        }
        let schedule = self.ctx.schedule.clone();
        if view == View(0) {
            self.ctx.leaders.record_outcome(schedule.leader(slot, view), slot, true);
        }
        // After W views every leader has failed, so later ones add nothing.
        for failed in 0..view.0.min(self.ctx.committee.total().0) {
            let leader = schedule.leader(slot, View(failed));
            self.ctx.leaders.record_outcome(leader, slot, false);
            self.shorten_timers_of(leader);
        }
    }

    fn shorten_timers_of(&mut self, leader: ValidatorIndex) {
        for state in self.open.values_mut().filter(|state| self.ctx.schedule.leader(state.slot, state.view) == leader) {
            state.shorten_view_timer(&self.ctx);
        }
    }

    /// The validators that made this commit, for traces. The voters of the first step on the slow path are known only
    /// where CONFIRM was seen.
    fn agreed(&self, certificate: &CommitQc) -> TraceEvent {
        let CommitQc { kind, slot, view, cut, ref proof } = *certificate;
        let prepared = || self.open.get(&slot)?.prepared_by(view, cut);
        let (voters, confirmers) = match kind {
            CommitKind::Fast => (proof.signers.clone(), Vec::new()),
            CommitKind::Slow => (prepared().map(<[_]>::to_vec).unwrap_or_default(), proof.signers.clone()),
        };
        TraceEvent::Agreed { round: slot.0, rank: 0, voters, confirmers }
    }

    fn catch_up(&mut self, commits: Vec<(Cut, CommitQc)>) {
        for (cut, certificate) in commits {
            let (cut, value) = (Arc::new(cut), certificate.cut);
            self.commit(certificate, Some(cut.clone()));
            if self.commits.wants(cut.slot, value) {
                self.commits.complete(&mut self.ctx, &cut);
            }
        }
    }

    /// Row 34: a peer works on a committed slot.
    fn offer_commit(&mut self, peer: ValidatorIndex, slot: Slot) {
        if self.commits.certificate(slot).is_some() {
            self.ctx.queue_request(peer, Request::Commit { slot });
        } else if self.ctx.me() != Some(peer) {
            self.ctx.effects.push_back(Effect::Lagging { peer, slot });
        }
    }

    /// P6: responds to a request for a cut.
    fn handle_fetch_cut(&mut self, from: ValidatorIndex, slot: Slot, cut: B256) {
        if self.cut(slot, cut).is_some() {
            self.ctx.queue_request(from, Request::Cut { slot, cut });
        } else if self.commits.contains(slot) {
            self.offer_commit(from, slot);
        }
    }

    fn cut(&self, slot: Slot, digest: B256) -> Option<Arc<Cut>> {
        let committed = self.commits.body(slot, digest).cloned();
        committed.or_else(|| self.open.get(&slot)?.body(digest))
    }

    fn handle_cut(&mut self, cut: Cut) {
        let digest = self.ctx.context.cut(&cut);
        if self.commits.wants(cut.slot, digest) {
            self.commits.complete(&mut self.ctx, &Arc::new(cut));
        } else if let Some(state) = self.open.get_mut(&cut.slot) {
            state.handle_cut(digest, &cut);
        }
    }

    fn handle_deadline(&mut self) {
        self.open.values_mut().for_each(|state| state.handle_deadline(&mut self.ctx));
        if due(&mut self.commits.fetch, self.ctx.now) {
            self.commits.fetch_missing(&mut self.ctx);
        }
        if due(&mut self.commits.gap, self.ctx.now) {
            self.commits.request_gap(&mut self.ctx);
        }
    }

    /// A validator proposed this slot, so the next one may start (S1).
    fn note_proposed(&mut self, slot: Slot) {
        if slot <= self.commits.horizon() {
            self.top = self.top.max(slot);
        }
    }

    /// Runs `work` on a slot that is not committed and not out of reach.
    fn with_slot(&mut self, slot: Slot, work: impl FnOnce(&mut SlotState, &mut SlotContext)) {
        if !self.commits.contains(slot) && slot <= self.commits.horizon() {
            work(self.open.entry(slot).or_insert_with(|| SlotState::new(slot)), &mut self.ctx);
        }
    }
}
