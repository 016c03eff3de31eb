//! One slot: its views, this validator's votes in them, and the certificates they make.
//!
//! ```text
//!            PREPARE            n − f PREP-VOTEs             n − f CONFIRM-ACKs
//!   view v ──────────▶ voted ───────────────────▶ confirmed ───────────────────▶ committed
//!      │                              └── all n, strong ─────────────────────────────▲
//!      └─ timer, or f + 1 TIMEOUTs ─▶ timed out ── n − f TIMEOUTs (TC) ─▶ view v + 1, whose leader proposes select(TC)
//! ```
//!
//! Invariants: `view` never decreases, and votes are cast in `view` only, so all lower views are closed (P4). There is
//! no vote in a view that was given up (N2), and one value per view (N1). Votes and TIMEOUTs are durable before they
//! are sent. [`views`] contains the change from one view to the next.

mod views;

pub(crate) use views::Proposal;

use crate::{
    config::MAX_CLOCK_AHEAD_MS,
    message::{
        Availability, Cut, Message, Position, PrepareQc, SignedPrepare, Slot, Statement, Timeout, TimeoutQc, Tip, View, Vote,
    },
    rules::is_fresh,
    slots::{Effect, Lanes, Question, RecordId, SlotRecord, desk::Desk, tally::Tally},
};
use corniche_engine::{Committee, Recipients};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::{collections::BTreeMap, sync::Arc};

/// Number of views, from the current one on, whose votes and TIMEOUTs are kept. Validators further ahead show the way
/// by certificate.
const VIEWS_KEPT: u32 = 8;
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
    prop: Option<(View, Known)>,
    conf: Option<PrepareQc>,
    /// The last record of this state.
    recorded: RecordId,
    // ---- volatile state
    /// The first PREPARE of this view, with the certificates of all its copies.
    pub prepare: Option<(Known, SignedPrepare)>,
    is_accused: bool,
    are_tips_asked: bool,
    /// The last proposed cut, in any view: the next slot's leader compares with it (P26).
    pub seen: Option<Arc<Cut>>,
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
pub(crate) struct Known {
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
    pub remind: Option<TimestampMs>,
    /// The leader proposes below coverage (P10).
    pub coverage: Option<TimestampMs>,
}

impl Timers {
    pub fn next(&self) -> Option<TimestampMs> {
        let Self { view, fast, resend, fetch, early, remind, coverage } = self;
        [view, fast, resend, fetch, early, remind, coverage].into_iter().flatten().min().copied()
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
fn complete(shown: &mut SignedPrepare, copy: SignedPrepare, committee: &Committee) -> Vec<Availability> {
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

/// C3: result of the check before a vote.
enum Support {
    Strong,
    /// These tips are neither certified nor held.
    Lacking(Vec<Tip>),
    /// Its time is too far ahead until then.
    Early(TimestampMs),
    /// No vote now; perhaps later, when the anchor is known.
    None,
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
        let prop = prop.zip(digest).map(|((view, cut), digest)| (view, Known { digest, cut: Arc::new(cut) }));
        Self {
            slot,
            view,
            timed_out,
            entered,
            proposed,
            voted,
            seen: prop.as_ref().map(|(_, known)| known.cut.clone()),
            prop,
            conf,
            recorded: RecordId(0),
            prepare: None,
            is_accused: false,
            are_tips_asked: false,
            tallies: BTreeMap::new(),
            timeouts: BTreeMap::new(),
            bodies: BTreeMap::new(),
            wanted: None,
            timers: Timers::default(),
            since: None,
        }
    }

    /// Records the state that must survive, and sends `message` when the record is durable.
    pub fn promise(&mut self, desk: &mut Desk, to: Recipients, message: Message) {
        self.recorded = desk.record(SlotRecord {
            slot: self.slot,
            view: self.view,
            timed_out: self.timed_out,
            entered: self.entered.clone(),
            proposed: self.proposed,
            voted: self.voted,
            prop: self.prop.as_ref().map(|(view, known)| (*view, Cut::clone(&known.cut))),
            conf: self.conf.clone(),
        });
        desk.post_after(self.recorded, to, message);
    }

    // ---- PREPARE and PREP-VOTE (C2–C4) -----------------------------------------------------------------------------

    /// C2: processes a justified PREPARE of its leader; `from` may have forwarded it.
    pub fn take_prepare(
        &mut self,
        desk: &mut Desk,
        lanes: &mut dyn Lanes,
        from: ValidatorIndex,
        digest: B256,
        prepare: SignedPrepare,
    ) {
        if let Some(timeouts) = &prepare.timeouts {
            // It carries the proof for its view (Lemma 6).
            self.take_timed_out(desk, timeouts);
        }
        if prepare.view < self.view {
            return self.show_the_way(desk, from, prepare.view);
        }
        match &mut self.prepare {
            Some((first, shown)) if first.digest == digest => {
                self.are_tips_asked = false;
                let available = complete(shown, prepare, &desk.committee);
                available.iter().for_each(|certificate| lanes.learn(certificate)); // D7
                if !available.is_empty() {
                    desk.effects.push_back(Effect::Sync { cut: first.cut.clone(), available });
                }
            }
            Some((_, first)) if !self.is_accused => {
                let validator = desk.schedule.leader(self.slot, self.view);
                let evidence = Box::new([first.clone(), prepare]);
                desk.effects.push_back(Effect::Accuse { validator, evidence });
                self.is_accused = true;
            }
            Some(_) => {}
            None => {
                prepare.available.iter().for_each(|certificate| lanes.learn(certificate)); // D7
                let cut = Arc::new(prepare.cut.clone());
                desk.effects.push_back(Effect::Sync { cut: cut.clone(), available: prepare.available.clone() }); // Y2
                self.seen = Some(cut.clone());
                self.timers.remind = None;
                if desk.leads(self.slot, self.view) {
                    self.timers.resend = Some(desk.in_ms(desk.config.resend_ms));
                }
                self.prepare = Some((Known { digest, cut }, prepare));
            }
        }
        // Its leader asks again, or this validator restarted and is shown the value that it voted for (R4).
        if self.voted == Some((self.view, digest)) {
            self.repeat(desk, Question::Vote { slot: self.slot }, Self::vote_again);
        }
    }

    /// Repeats an earlier message to the leader, which may be this validator.
    fn repeat(&self, desk: &mut Desk, question: Question, say: impl Fn(&Self, &Desk) -> Option<Message>) {
        let leader = desk.schedule.leader(self.slot, self.view);
        if desk.me() != Some(leader) {
            desk.ask(leader, question);
        } else if let Some(message) = say(self, desk) {
            desk.inbox.push_back(message);
        }
    }

    /// The vote in this view, if it was sent.
    pub fn vote_again(&self, desk: &Desk) -> Option<Message> {
        let (_, digest) = self.voted.filter(|(view, _)| *view == self.view && desk.is_durable(self.recorded))?;
        self.prepared(desk, digest, self.has_voted_strongly())
    }

    /// The acknowledgement in this view, if it was sent.
    pub fn acknowledge_again(&self, desk: &Desk) -> Option<Message> {
        let conf = self.conf.as_ref().filter(|conf| conf.view == self.view && desk.is_durable(self.recorded))?;
        self.confirmed(desk, conf.cut)
    }

    /// C4: votes for the PREPARE of this view as soon as every claim of the vote is true. One value per view (N1), none
    /// in a view that was given up (N2).
    pub fn vote_if_ready(&mut self, desk: &mut Desk, lanes: &dyn Lanes, anchor: Anchor<'_>) {
        let Some((known, prepare)) = &self.prepare else { return };
        let voted = self.voted.filter(|(view, _)| *view == self.view).map(|(_, value)| value);
        if self.timed_out || self.has_voted_strongly() || voted.is_some_and(|value| value != known.digest) {
            return;
        }
        let known = known.clone();
        let strong = match self.support(desk, lanes, anchor, prepare) {
            Support::Strong => true,
            Support::Lacking(tips) => {
                if !std::mem::replace(&mut self.are_tips_asked, true) {
                    let from = desk.schedule.leader(self.slot, self.view);
                    desk.effects.extend(tips.into_iter().map(|tip| Effect::FetchTip { slot: self.slot, tip, from }));
                }
                if !desk.config.weak_votes || voted.is_some() {
                    return;
                }
                false
            }
            Support::Early(until) => return self.timers.early = Some(until),
            Support::None => return,
        };
        let Some(vote) = self.prepared(desk, known.digest, strong) else { return };
        self.voted = Some((self.view, known.digest));
        if strong {
            // P5: a weak vote is not reported in a TIMEOUT, so it cannot oblige a later view to a cut whose tips may
            // not exist.
            self.prop = Some((self.view, known));
        }
        self.promise(desk, self.votes_go_to(desk), vote);
    }

    /// C3: tips without certificates count in the first view only.
    pub fn awaits_bodies(&self) -> bool {
        self.view == View(0) && !self.timed_out && !self.has_voted_strongly()
    }

    /// Returns true if the proposal, or the value voted for, names this tip.
    pub fn names(&self, tip: &Tip) -> bool {
        let cuts = [self.prepare.as_ref().map(|(known, _)| known), self.prop.as_ref().map(|(_, known)| known)];
        cuts.into_iter().flatten().any(|known| known.cut.names(tip))
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

    /// C3: checks the claims of a vote.
    fn support(&self, desk: &Desk, lanes: &dyn Lanes, anchor: Anchor<'_>, prepare: &SignedPrepare) -> Support {
        if !is_fresh(prepare, &desk.committee) {
            // Correct validators checked it in the view in which it was fresh.
            return Support::Strong;
        }
        let until = TimestampMs(prepare.cut.time.0.saturating_sub(MAX_CLOCK_AHEAD_MS));
        if until > desk.now {
            return Support::Early(until);
        }
        let is_shown = |tip: &Tip| prepare.available.iter().any(|certificate| certificate.tip == *tip);
        // The lanes know all shown certificates, and are faster to query.
        let is_certified = |tip: &Tip| lanes.is_certified(tip) || is_shown(tip);
        // Y4: a body without a certified parent could be on a chain without any certificate, so it is not requested.
        let has_parent = |tip: &Tip| {
            let is_parent = |parent: &Tip| parent.lane == tip.lane && parent.position.next() == tip.position;
            tip.position == Position(1) || prepare.available.iter().any(|certificate| is_parent(&certificate.tip))
        };
        let mut lacking = Vec::new();
        for tip in prepare.cut.tips.iter().filter(|tip| tip.position > anchor.position(tip.lane) && !is_certified(tip)) {
            let is_allowed = prepare.view == View(0) && desk.may_be_optimistic(self.slot, tip.lane);
            match anchor {
                Anchor::Unknown => return Support::None,
                _ if !is_allowed => return Support::None,
                _ if lanes.vouches(tip) => {}
                _ if has_parent(tip) => lacking.push(*tip),
                _ => return Support::None,
            }
        }
        if lacking.is_empty() { Support::Strong } else { Support::Lacking(lacking) }
    }

    fn prepared(&self, desk: &Desk, cut: B256, strong: bool) -> Option<Message> {
        let (slot, view) = (self.slot, self.view);
        let statement =
            if strong { Statement::Prepared { slot, view, cut } } else { Statement::PreparedWeakly { slot, view, cut } };
        let share = desk.share(slot, &statement)?;
        Some(Message::Prepared { vote: Vote { slot, view, cut, share }, strong })
    }

    fn confirmed(&self, desk: &Desk, cut: B256) -> Option<Message> {
        let (slot, view) = (self.slot, self.view);
        let share = desk.share(slot, &Statement::Confirmed { slot, view, cut })?;
        Some(Message::Confirmed(Vote { slot, view, cut, share }))
    }

    fn votes_go_to(&self, desk: &Desk) -> Recipients {
        if desk.config.all_to_all { Recipients::All } else { Recipients::One(desk.schedule.leader(self.slot, self.view)) }
    }

    // ---- PrepareQC and CONFIRM-ACK (C5, C6) ------------------------------------------------------------------------

    /// C5, at the leader; with all-to-all, at every validator.
    pub fn take_prepared(&mut self, desk: &mut Desk, from: ValidatorIndex, vote: Vote, strong: bool) {
        let (slot, view, cut) = (self.slot, vote.view, vote.cut);
        if !self.counts_votes(desk, view) {
            return;
        }
        let tally = self.tallies.entry(view).or_default();
        if !tally.add_prepared(from, vote, strong) {
            return;
        }
        let quorum_since = tally.certificate.as_ref().map_or(desk.now, |(_, since)| *since);
        // Also after CONFIRM was sent.
        if let Some(commit) = desk.config.fast_path.then(|| tally.fast_certificate(desk, slot, view, cut)).flatten() {
            desk.fast_complete(desk.now.0 - quorum_since.0);
            return desk.announce(commit);
        }
        if tally.certificate.is_some() {
            return;
        }
        let Some(certificate) = tally.prepare_certificate(desk, slot, view, cut) else { return };
        tally.certificate = Some((certificate.clone(), desk.now));
        if desk.config.all_to_all {
            // Every validator makes the certificate from the votes.
            desk.inbox.push_back(Message::Confirm(certificate));
        } else if let Some(wait) = desk.fast_wait().filter(|_| view == self.view) {
            self.timers.fast = Some(desk.in_ms(wait));
        } else {
            desk.post(Recipients::All, Message::Confirm(certificate));
        }
    }

    /// C6. Requires neither an own vote for it nor its cut (P25).
    pub fn take_confirm(&mut self, desk: &mut Desk, certificate: PrepareQc) {
        if certificate.view > self.view {
            // n − f validators are in that view.
            self.enter(desk, certificate.view);
        }
        if certificate.view < self.view || self.timed_out {
            return;
        }
        if let Some(conf) = self.conf.as_ref().filter(|conf| conf.view == certificate.view) {
            // N1: repeats the acknowledgement of that value only, for any of its certificates.
            if conf.cut == certificate.cut {
                self.repeat(desk, Question::Acknowledgement { slot: self.slot }, Self::acknowledge_again);
            }
            return;
        }
        let Some(vote) = self.confirmed(desk, certificate.cut) else { return };
        self.conf = Some(certificate);
        self.promise(desk, self.votes_go_to(desk), vote);
    }

    /// C7, at the leader; with all-to-all, at every validator.
    pub fn take_confirmed(&mut self, desk: &mut Desk, from: ValidatorIndex, vote: Vote) {
        let (slot, view, cut) = (self.slot, vote.view, vote.cut);
        if !self.counts_votes(desk, view) {
            return;
        }
        let tally = self.tallies.entry(view).or_default();
        if tally.add_confirmed(from, vote)
            && let Some(commit) = tally.slow_certificate(desk, slot, view, cut)
        {
            desk.announce(commit);
        }
    }

    fn counts_votes(&self, desk: &Desk, view: View) -> bool {
        let me_too = desk.config.all_to_all && desk.me().is_some();
        self.is_near(view) && (me_too || desk.leads(self.slot, view))
    }

    fn is_near(&self, view: View) -> bool {
        view.0.checked_sub(self.view.0).is_some_and(|ahead| ahead < VIEWS_KEPT)
    }

    // ---- timers ----------------------------------------------------------------------------------------------------

    pub fn take_deadline(&mut self, desk: &mut Desk) {
        due(&mut self.timers.early, desk.now); // The vote is checked again after every input.
        if due(&mut self.timers.view, desk.now) {
            self.give_up(desk);
        }
        if due(&mut self.timers.fast, desk.now) {
            desk.fast_missed();
            self.send_confirm(desk, Recipients::All);
        }
        if due(&mut self.timers.resend, desk.now) {
            self.resend(desk);
        }
        if due(&mut self.timers.fetch, desk.now) {
            self.fetch_wanted(desk);
        }
    }

    /// P12: resends everything that waits for others.
    fn resend(&mut self, desk: &mut Desk) {
        self.send_open(desk, Recipients::All);
        self.timers.resend = Some(desk.in_ms(desk.config.resend_ms));
    }

    /// Sends all messages that wait for a response.
    pub fn send_open(&self, desk: &mut Desk, to: Recipients) {
        if let Some(timeout) = self.timed_out.then(|| self.timeout(desk)).flatten() {
            desk.post_after(self.recorded, to, timeout);
        } else if let Some((_, prepare)) = self.prepare.as_ref().filter(|_| desk.leads(self.slot, self.view)) {
            desk.post(to, Message::Prepare(prepare.clone()));
            if self.timers.fast.is_none() {
                self.send_confirm(desk, to);
            }
        }
    }

    fn send_confirm(&self, desk: &mut Desk, to: Recipients) {
        if let Some((certificate, _)) = self.tallies.get(&self.view).and_then(|tally| tally.certificate.clone()) {
            desk.post(to, Message::Confirm(certificate));
        }
    }

    /// Upper bound of [`SlotState::footprint`]: a vote and an acknowledgement of every validator in the kept views,
    /// their TIMEOUTs, and messages that wait for records.
    pub fn most_held(committee_size: usize) -> usize {
        1 + VIEWS_KEPT as usize * 3 * (committee_size + 1) + MAX_BODIES + 1 + 64
    }

    /// Number of held items that must stay bounded.
    pub fn footprint(&self) -> usize {
        let votes: usize = self.tallies.values().map(Tally::len).sum();
        let timeouts: usize = self.timeouts.values().map(BTreeMap::len).sum();
        1 + votes + timeouts + self.bodies.len()
    }
}
