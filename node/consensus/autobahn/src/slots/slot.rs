//! One slot: its views, this validator's votes in them, and the certificates they make.
//!
//! ```text
//!            PREPARE               Q PREP-VOTEs                Q CONFIRM-ACKs
//!   view v ──────────▶ voted ───────────────────▶ confirmed ───────────────────▶ committed
//!      │                              └── all, strong ───────────────────────────────▲
//!      └─ timer, or F + 1 TIMEOUTs ─▶ timed out ── Q TIMEOUTs (TC) ─▶ view v + 1, whose leader proposes select(TC)
//! ```
//! The numbers are votes of the senders.
//!
//! Invariants: `view` never decreases, and votes are cast in `view` only, so all lower views are closed (P4). There is
//! no vote in a view that was given up (N2), and one value per view (N1). Votes and TIMEOUTs are durable before they
//! are sent. [`views`] contains the change from one view to the next.

mod views;
mod votes;

pub(crate) use views::Proposal;

use super::{Effect, Lanes, RecordId, Request, SlotRecord, context::SlotContext, tally::Tally};
use crate::{
    message::{Availability, Cut, Message, Position, PrepareQc, SignedPrepare, Slot, Timeout, TimeoutQc, Tip, View, Vote},
    rules::is_fresh,
};
use corniche_engine::{Committee, Recipients, Unsigned};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::{collections::BTreeMap, sync::Arc};

/// Number of views, from the current one on, whose votes and TIMEOUTs are kept. Validators further ahead show the way
/// by certificate.
const RETAINED_VIEWS: u32 = 8;
/// Maximum number of cuts that a slot holds only because others sent them; missing ones are requested by digest.
const MAX_BODIES: usize = 64;

/// A slot that is not committed.
pub(crate) struct SlotState {
    pub slot: Slot,
    // ---- durable state, see `SlotRecord`
    pub view: View,
    pub timed_out: bool,
    pub entered: Option<TimeoutQc>,
    pub proposed: Option<View>,
    voted: Option<(View, B256)>,
    prop: Option<(View, HashedCut)>,
    conf: Option<PrepareQc>,
    /// The last record of this state.
    recorded: RecordId,
    // ---- volatile state
    /// The first PREPARE of this view, with the certificates of all its copies.
    pub prepare: Option<(HashedCut, SignedPrepare)>,
    is_accused: bool,
    are_tips_requested: bool,
    /// The last proposed cut, in any view: the next slot's leader compares with it (P26).
    pub last_proposed: Option<Arc<Cut>>,
    tallies: BTreeMap<View, Tally>,
    timeouts: BTreeMap<View, BTreeMap<ValidatorIndex, Timeout>>,
    /// Cuts from TIMEOUTs.
    bodies: BTreeMap<B256, Arc<Cut>>,
    /// The value to propose if its cut is missing here, and the number of requests for it (P6).
    wanted: Option<(B256, usize)>,
    pub timers: Timers,
    /// When the timer of this view started.
    since: Option<TimestampMs>,
}

/// A cut and its digest.
#[derive(Clone)]
pub(crate) struct HashedCut {
    pub digest: B256,
    pub cut: Arc<Cut>,
}

/// Times at which to act if no other event happens (3.8).
#[derive(Default)]
pub(crate) struct Timers {
    /// Gives up the view (V1, V2).
    pub view: Option<TimestampMs>,
    /// T_fast: sends CONFIRM without the last votes (C5).
    pub fast: Option<TimestampMs>,
    /// Resends open messages (P12).
    pub resend: Option<TimestampMs>,
    /// Requests the missing cut again.
    pub fetch: Option<TimestampMs>,
    /// The proposed cut's time is near enough to vote.
    pub early: Option<TimestampMs>,
    /// Reminds the next leader of what it may have missed (P11).
    pub forward_to_leader: Option<TimestampMs>,
    /// The leader proposes below coverage (P10).
    pub coverage: Option<TimestampMs>,
}

impl Timers {
    pub fn next(&self) -> Option<TimestampMs> {
        let Self { view, fast, resend, fetch, early, forward_to_leader, coverage } = self;
        [view, fast, resend, fetch, early, forward_to_leader, coverage].into_iter().flatten().min().copied()
    }
}

/// Clears a timer that is due. Returns true if it was due.
pub(crate) fn due(timer: &mut Option<TimestampMs>, now: TimestampMs) -> bool {
    timer.take_if(|at| *at <= now).is_some()
}

/// Reference for a cut's tips: the value committed k slots before (P14).
#[derive(Clone, Copy)]
pub(crate) enum Anchor<'a> {
    /// No anchor, in the first k slots.
    Start,
    Cut(&'a Cut),
    /// Committed, but its cut is missing here.
    Unknown,
}

impl Anchor<'_> {
    /// Tips up to this position of the lane need no certificate: they will be skipped (O2).
    pub fn position(&self, lane: ValidatorIndex) -> Position {
        match self {
            Self::Cut(cut) => cut.tips.get(lane.as_usize()).map_or(Position(0), |tip| tip.position),
            Self::Start | Self::Unknown => Position(0),
        }
    }
}

/// Adds the proofs of another copy of a PREPARE. Certificates and the TC are not signed, so a forwarding validator may
/// have left some out, or replaced the TC that names this cut with one that names none. Returns the new certificates.
fn merge_proofs(shown: &mut SignedPrepare, copy: SignedPrepare, committee: &Committee) -> Vec<Availability> {
    let mut news = Vec::new();
    for certificate in copy.available.iter() {
        let lane = certificate.tip.lane;
        match shown.available.binary_search_by_key(&lane, |known| known.tip.lane) {
            Err(place) => shown.available.insert(place, certificate.clone()),
            // The tip's own certificate proves more than its parent's.
            Ok(place) if shown.available[place].tip.position < certificate.tip.position => {
                shown.available[place] = certificate.clone();
            }
            Ok(_) => continue,
        }
        news.push(certificate.clone());
    }
    if is_fresh(shown, committee) && !is_fresh(&copy, committee) {
        shown.timeouts = copy.timeouts;
    }
    news
}

impl SlotState {
    pub fn new(slot: Slot) -> Self {
        let record = SlotRecord {
            slot,
            view: View(0),
            timed_out: false,
            entered: None,
            proposed: None,
            voted: None,
            prop: None,
            conf: None,
        };
        Self::recovered(record, None)
    }

    /// R4: continues from the record. `digest` is that of `record.prop`.
    pub fn recovered(record: SlotRecord, digest: Option<B256>) -> Self {
        let SlotRecord { slot, view, timed_out, entered, proposed, voted, prop, conf } = record;
        let prop = prop.zip(digest).map(|((view, cut), digest)| (view, HashedCut { digest, cut: Arc::new(cut) }));
        Self {
            slot,
            view,
            timed_out,
            entered,
            proposed,
            voted,
            last_proposed: prop.as_ref().map(|(_, known)| known.cut.clone()),
            prop,
            conf,
            recorded: RecordId(0),
            prepare: None,
            is_accused: false,
            are_tips_requested: false,
            tallies: BTreeMap::new(),
            timeouts: BTreeMap::new(),
            bodies: BTreeMap::new(),
            wanted: None,
            timers: Timers::default(),
            since: None,
        }
    }

    /// Records the state that must survive, and sends `message` when the record is durable.
    pub fn persist_and_send(&mut self, ctx: &mut SlotContext, to: Recipients, message: Message) {
        self.persist(ctx);
        ctx.send_after(self.recorded, to, message);
    }

    fn persist(&mut self, ctx: &mut SlotContext) {
        self.recorded = ctx.record(SlotRecord {
            slot: self.slot,
            view: self.view,
            timed_out: self.timed_out,
            entered: self.entered.clone(),
            proposed: self.proposed,
            voted: self.voted,
            prop: self.prop.as_ref().map(|(view, known)| (*view, Cut::clone(&known.cut))),
            conf: self.conf.clone(),
        });
    }

    // ---- PREPARE and PREP-VOTE (C2–C4) -----------------------------------------------------------------------------

    /// C2: processes a justified PREPARE of its leader; `from` may have forwarded it.
    pub fn handle_prepare(
        &mut self,
        ctx: &mut SlotContext,
        lanes: &mut dyn Lanes,
        from: ValidatorIndex,
        digest: B256,
        prepare: SignedPrepare,
    ) {
        if let Some(timeouts) = &prepare.timeouts {
            // It carries the proof for its view (Lemma 6).
            self.handle_timeout_qc(ctx, timeouts);
        }
        if prepare.view < self.view {
            return self.send_view_proof(ctx, from, prepare.view);
        }
        match &mut self.prepare {
            Some((first, shown)) if first.digest == digest => {
                self.are_tips_requested = false;
                let available = merge_proofs(shown, prepare, &ctx.committee);
                available.iter().for_each(|certificate| lanes.learn(certificate)); // D7
                if !available.is_empty() {
                    ctx.effects.push_back(Effect::Sync { cut: first.cut.clone(), available });
                }
            }
            Some((_, first)) if !self.is_accused => {
                let validator = ctx.schedule.leader(self.slot, self.view);
                let evidence = Box::new([first.clone(), prepare]);
                ctx.effects.push_back(Effect::Accuse { validator, evidence });
                self.is_accused = true;
            }
            Some(_) => {}
            None => {
                prepare.available.iter().for_each(|certificate| lanes.learn(certificate)); // D7
                let cut = Arc::new(prepare.cut.clone());
                ctx.effects.push_back(Effect::Sync { cut: cut.clone(), available: prepare.available.clone() }); // Y2
                self.last_proposed = Some(cut.clone());
                self.timers.forward_to_leader = None;
                if ctx.is_leader(self.slot, self.view) {
                    self.timers.resend = Some(ctx.in_ms(ctx.config.resend_ms));
                }
                self.prepare = Some((HashedCut { digest, cut }, prepare));
            }
        }
        // Its leader asks again, or this validator restarted and is shown the value that it voted for (R4).
        if self.voted == Some((self.view, digest)) {
            self.repeat(ctx, Request::Vote { slot: self.slot }, Self::repeated_vote);
        }
    }

    /// Repeats an earlier message to the leader, which may be this validator.
    fn repeat(&self, ctx: &mut SlotContext, request: Request, say: impl Fn(&Self, &SlotContext) -> Option<Message>) {
        let leader = ctx.schedule.leader(self.slot, self.view);
        if ctx.me() != Some(leader) {
            ctx.queue_request(leader, request);
        } else if let Some(message) = say(self, ctx) {
            ctx.inbox.push_back(message);
        }
    }

    /// The vote in this view, if it was sent.
    pub fn repeated_vote(&self, ctx: &SlotContext) -> Option<Message> {
        let (_, digest) = self.voted.filter(|(view, _)| *view == self.view && ctx.is_durable(self.recorded))?;
        self.prepare_vote(ctx, digest, self.has_voted_strongly()).ok()
    }

    /// The acknowledgement in this view, if it was sent.
    pub fn repeated_ack(&self, ctx: &SlotContext) -> Option<Message> {
        let conf = self.conf.as_ref().filter(|conf| conf.view == self.view && ctx.is_durable(self.recorded))?;
        self.confirm_ack(ctx, conf.cut).ok()
    }

    /// C3: tips without certificates count in the first view only.
    pub fn awaits_bodies(&self) -> bool {
        self.view == View(0) && !self.timed_out && !self.has_voted_strongly()
    }

    /// Returns true if the proposal, or the value voted for, names this tip.
    pub fn contains_tip(&self, tip: &Tip) -> bool {
        let cuts = [self.prepare.as_ref().map(|(known, _)| known), self.prop.as_ref().map(|(_, known)| known)];
        cuts.into_iter().flatten().any(|known| known.cut.contains_tip(tip))
    }

    /// Returns true if a certificate may contain this validator's signature: signed statements are in memory, or
    /// recovered from disk.
    pub fn has_voted(&self) -> bool {
        self.voted.is_some() || self.conf.is_some()
    }

    /// The validators that prepared this value in this view, if their certificate is the highest seen.
    pub fn prepared_by(&self, view: View, value: B256) -> Option<&[ValidatorIndex]> {
        let conf = self.conf.as_ref().filter(|conf| (conf.view, conf.cut) == (view, value))?;
        Some(&conf.proof.signers)
    }

    fn has_voted_strongly(&self) -> bool {
        self.prop.as_ref().is_some_and(|(view, _)| *view == self.view)
    }

    // ---- PrepareQC and CONFIRM-ACK (C5, C6) ------------------------------------------------------------------------

    /// C5, at the leader; with all-to-all, at every validator.
    pub fn handle_prepare_vote(&mut self, ctx: &mut SlotContext, from: ValidatorIndex, vote: Vote, strong: bool) {
        let (slot, view, cut) = (self.slot, vote.view, vote.cut);
        if !self.counts_votes(ctx, view) {
            return;
        }
        let tally = self.tallies.entry(view).or_default();
        if !tally.add_prepare_vote(from, vote, strong) {
            return;
        }
        let quorum_since = tally.certificate.as_ref().map_or(ctx.now, |(_, since)| *since);
        // Also after CONFIRM was sent.
        if let Some(commit) = ctx.config.fast_path.then(|| tally.fast_certificate(ctx, slot, view, cut)).flatten() {
            ctx.fast_complete(ctx.now.0 - quorum_since.0);
            return ctx.announce_commit(commit);
        }
        if tally.certificate.is_some() {
            return;
        }
        let Some(certificate) = tally.prepare_certificate(ctx, slot, view, cut) else { return };
        tally.certificate = Some((certificate.clone(), ctx.now));
        if ctx.config.all_to_all {
            // Every validator makes the certificate from the votes.
            ctx.inbox.push_back(Message::Confirm(certificate));
        } else if let Some(wait) = ctx.fast_wait().filter(|_| view == self.view) {
            self.timers.fast = Some(ctx.in_ms(wait));
        } else {
            ctx.send(Recipients::All, Message::Confirm(certificate));
        }
    }

    /// C6. Requires neither an own vote for it nor its cut (P25).
    pub fn handle_confirm(&mut self, ctx: &mut SlotContext, certificate: PrepareQc) {
        if certificate.view > self.view {
            // A quorum is in that view.
            self.enter_view(ctx, certificate.view);
        }
        if certificate.view < self.view || self.timed_out {
            return;
        }
        if let Some(conf) = self.conf.as_ref().filter(|conf| conf.view == certificate.view) {
            // N1: repeats the acknowledgement of that value only, for any of its certificates.
            if conf.cut == certificate.cut {
                self.repeat(ctx, Request::Acknowledgement { slot: self.slot }, Self::repeated_ack);
            }
            return;
        }
        let vote = self.confirm_ack(ctx, certificate.cut);
        if !matches!(vote, Err(Unsigned::Refused)) {
            self.conf = Some(certificate);
            self.record_vote(ctx, vote);
        }
    }

    /// C7, at the leader; with all-to-all, at every validator.
    pub fn handle_confirm_ack(&mut self, ctx: &mut SlotContext, from: ValidatorIndex, vote: Vote) {
        let (slot, view, cut) = (self.slot, vote.view, vote.cut);
        if !self.counts_votes(ctx, view) {
            return;
        }
        let tally = self.tallies.entry(view).or_default();
        if tally.add_confirm_ack(from, vote)
            && let Some(commit) = tally.slow_certificate(ctx, slot, view, cut)
        {
            ctx.announce_commit(commit);
        }
    }

    fn counts_votes(&self, ctx: &SlotContext, view: View) -> bool {
        let me_too = ctx.config.all_to_all && ctx.me().is_some();
        self.is_near(view) && (me_too || ctx.is_leader(self.slot, view))
    }

    fn is_near(&self, view: View) -> bool {
        view.0.checked_sub(self.view.0).is_some_and(|ahead| ahead < RETAINED_VIEWS)
    }

    // ---- timers ----------------------------------------------------------------------------------------------------

    pub fn handle_deadline(&mut self, ctx: &mut SlotContext) {
        due(&mut self.timers.early, ctx.now); // The vote is checked again after every input.
        if due(&mut self.timers.view, ctx.now) {
            self.time_out(ctx);
        }
        if due(&mut self.timers.fast, ctx.now) {
            ctx.fast_missed();
            self.send_confirm(ctx, Recipients::All);
        }
        if due(&mut self.timers.resend, ctx.now) {
            self.resend(ctx);
        }
        if due(&mut self.timers.fetch, ctx.now) {
            self.fetch_wanted(ctx);
        }
    }

    /// P12: resends everything that waits for others.
    fn resend(&mut self, ctx: &mut SlotContext) {
        self.send_pending(ctx, Recipients::All);
        self.timers.resend = Some(ctx.in_ms(ctx.config.resend_ms));
    }

    /// Sends all messages that wait for a response.
    pub fn send_pending(&self, ctx: &mut SlotContext, to: Recipients) {
        if let Some(timeout) = self.timed_out.then(|| self.timeout(ctx)).flatten() {
            ctx.send_after(self.recorded, to, timeout);
        } else if let Some((_, prepare)) = self.prepare.as_ref().filter(|_| ctx.is_leader(self.slot, self.view)) {
            ctx.send(to, Message::Prepare(prepare.clone()));
            if self.timers.fast.is_none() {
                self.send_confirm(ctx, to);
            }
        }
    }

    fn send_confirm(&self, ctx: &mut SlotContext, to: Recipients) {
        if let Some((certificate, _)) = self.tallies.get(&self.view).and_then(|tally| tally.certificate.clone()) {
            ctx.send(to, Message::Confirm(certificate));
        }
    }

    /// Upper bound of [`SlotState::footprint`]: a vote and an acknowledgement of every validator in the kept views,
    /// their TIMEOUTs, and messages that wait for records.
    pub fn max_footprint(committee_size: usize) -> usize {
        1 + RETAINED_VIEWS as usize * 3 * (committee_size + 1) + MAX_BODIES + 1 + 64
    }

    /// Number of held items that must stay bounded.
    pub fn footprint(&self) -> usize {
        let votes: usize = self.tallies.values().map(Tally::len).sum();
        let timeouts: usize = self.timeouts.values().map(BTreeMap::len).sum();
        1 + votes + timeouts + self.bodies.len()
    }
}
