//! One slot: its views, this validator's votes in them, and the certificates they make.
//!
//! ```text
//!            PREPARE            n − f PREP-VOTEs             n − f CONFIRM-ACKs
//!   view v ──────────▶ voted ───────────────────▶ confirmed ───────────────────▶ committed
//!      │                              └── all n, strong ─────────────────────────────▲
//!      └─ timer, or f + 1 TIMEOUTs ─▶ timed out ── n − f TIMEOUTs (TC) ─▶ view v + 1, whose leader proposes select(TC)
//! ```
//!
//! What always holds: `view` never falls, and votes are given in `view` only, so all views below are closed (P4); nothing is voted in
//! a view that was given up (N2); one value a view (N1); what a vote or a TIMEOUT says is on disk before it leaves.
//! The way from one view to the next is in [`views`].

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

/// Votes and TIMEOUTs of so many views are kept, from the current one on. Whoever is further ahead shows the way by certificate.
const VIEWS_KEPT: u32 = 8;
/// Most cuts that a slot holds on others' word; what is missing in the end is asked for by its digest.
const MAX_BODIES: usize = 64;

/// A slot that is not committed.
pub(crate) struct SlotState {
    pub slot: Slot,
    // ---- what must survive, see `SlotRecord`
    pub view: View,
    pub timed_out: bool,
    pub entered: Option<TimeoutQc>,
    pub proposed: Option<View>,
    voted: Option<(View, B256)>,
    prop: Option<(View, Known)>,
    conf: Option<PrepareQc>,
    /// The last record that says so.
    recorded: RecordId,
    // ---- what may be lost
    /// The first PREPARE of this view, with the certificates of all its copies.
    pub prepare: Option<(Known, SignedPrepare)>,
    is_accused: bool,
    are_tips_asked: bool,
    /// The cut proposed last, in any view: what the next slot's leader compares with (P26).
    pub seen: Option<Arc<Cut>>,
    tallies: BTreeMap<View, Tally>,
    timeouts: BTreeMap<View, BTreeMap<ValidatorIndex, Timeout>>,
    /// Cuts that TIMEOUTs brought.
    bodies: BTreeMap<B256, Arc<Cut>>,
    /// The value to propose whose cut is missing here, and how often it was asked for (P6).
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

/// When to act if nothing else happens (3.8).
#[derive(Default)]
pub(crate) struct Timers {
    /// The view is given up (V1, V2).
    pub view: Option<TimestampMs>,
    /// T_fast: CONFIRM without the last votes (C5).
    pub fast: Option<TimestampMs>,
    /// What is open is sent again (P12).
    pub resend: Option<TimestampMs>,
    /// The missing cut is asked for again.
    pub fetch: Option<TimestampMs>,
    /// The proposed cut's time is near enough to vote.
    pub early: Option<TimestampMs>,
    /// The next leader is told what it may have missed (P11).
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

/// Clears a timer that is due.
pub(crate) fn due(timer: &mut Option<TimestampMs>, now: TimestampMs) -> bool {
    timer.take_if(|at| *at <= now).is_some()
}

/// What a cut's tips are compared with: the value committed k slots before (P14).
#[derive(Clone, Copy)]
pub(crate) enum Anchor<'a> {
    /// There is none, in the first k slots.
    Start,
    Cut(&'a Cut),
    /// Committed, but its cut is not here yet.
    Unknown,
}

impl Anchor<'_> {
    /// A tip up to this position of its lane needs no certificate: it will be skipped (O2).
    pub fn position(&self, lane: ValidatorIndex) -> Position {
        match self {
            Self::Cut(cut) => cut.tips.get(lane.as_usize()).map_or(Position(0), |tip| tip.position),
            Self::Start | Self::Unknown => Position(0),
        }
    }
}

/// What another copy of a PREPARE shows besides. Certificates and the TC are not signed, so whoever passes a PREPARE on may have left some
/// out, or put a TC that names nobody in the place of the one that names this cut. Returns the certificates that are new.
fn complete(shown: &mut SignedPrepare, copy: SignedPrepare, committee: &Committee) -> Vec<Availability> {
    let mut news = Vec::new();
    for certificate in copy.available.iter() {
        let lane = certificate.tip.lane;
        match shown.available.binary_search_by_key(&lane, |known| known.tip.lane) {
            Err(place) => shown.available.insert(place, certificate.clone()),
            // The tip's own says more than its parent's.
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

/// C3: what a vote for a cut is worth here.
enum Support {
    Strong,
    /// These tips are not certified and not held.
    Lacking(Vec<Tip>),
    /// Its time is too far ahead until then.
    Early(TimestampMs),
    /// None; perhaps later, when the anchor is known.
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

    /// R4: goes on where the record ends. `digest` is that of `record.prop`.
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

    /// Writes down what must survive, and sends what relies on it when that is durable.
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

    /// C2: a justified PREPARE of its leader; `from` may have passed it on.
    pub fn take_prepare(
        &mut self,
        desk: &mut Desk,
        lanes: &mut dyn Lanes,
        from: ValidatorIndex,
        digest: B256,
        prepare: SignedPrepare,
    ) {
        if let Some(timeouts) = &prepare.timeouts {
            // It carries the reason to be in its view (Lemma 6).
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
        // Its leader asks again, or this validator comes back and is shown what it voted for (R4).
        if self.voted == Some((self.view, digest)) {
            self.repeat(desk, Question::Vote { slot: self.slot }, Self::vote_again);
        }
    }

    /// What was said before, to the leader, who may be this validator.
    fn repeat(&self, desk: &mut Desk, question: Question, say: impl Fn(&Self, &Desk) -> Option<Message>) {
        let leader = desk.schedule.leader(self.slot, self.view);
        if desk.me() != Some(leader) {
            desk.ask(leader, question);
        } else if let Some(message) = say(self, desk) {
            desk.inbox.push_back(message);
        }
    }

    /// The vote in this view, if it has left.
    pub fn vote_again(&self, desk: &Desk) -> Option<Message> {
        let (_, digest) = self.voted.filter(|(view, _)| *view == self.view && desk.is_durable(self.recorded))?;
        self.prepared(desk, digest, self.has_voted_strongly())
    }

    /// The acknowledgement in this view, if it has left.
    pub fn acknowledge_again(&self, desk: &Desk) -> Option<Message> {
        let conf = self.conf.as_ref().filter(|conf| conf.view == self.view && desk.is_durable(self.recorded))?;
        self.confirmed(desk, conf.cut)
    }

    /// C4: votes for the PREPARE of this view as soon as everything that the vote says is true. One value a view (N1), none in a view
    /// that was given up (N2).
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
            // P5: a weak vote is not reported in a TIMEOUT, so it can bind no later view to a cut whose tips may not exist.
            self.prop = Some((self.view, known));
        }
        self.promise(desk, self.votes_go_to(desk), vote);
    }

    /// C3: tips without certificates count in the first view only.
    pub fn awaits_bodies(&self) -> bool {
        self.view == View(0) && !self.timed_out && !self.has_voted_strongly()
    }

    /// What is proposed, or was voted for, names this tip.
    pub fn names(&self, tip: &Tip) -> bool {
        let cuts = [self.prepare.as_ref().map(|(known, _)| known), self.prop.as_ref().map(|(_, known)| known)];
        cuts.into_iter().flatten().any(|known| known.cut.names(tip))
    }

    /// Whether a certificate may bear this validator's signature: what was signed is here, or on disk and so here again.
    pub fn has_voted(&self) -> bool {
        self.voted.is_some() || self.conf.is_some()
    }

    /// Whose votes prepared this value in this view, if their certificate is the highest that was seen.
    pub fn prepared_by(&self, view: View, value: B256) -> Option<&[ValidatorIndex]> {
        let conf = self.conf.as_ref().filter(|conf| (conf.view, conf.cut) == (view, value))?;
        Some(&conf.proof.signers)
    }

    fn has_voted_strongly(&self) -> bool {
        self.prop.as_ref().is_some_and(|(view, _)| *view == self.view)
    }

    /// C3.
    fn support(&self, desk: &Desk, lanes: &dyn Lanes, anchor: Anchor<'_>, prepare: &SignedPrepare) -> Support {
        if !is_fresh(prepare, &desk.committee) {
            // Correct validators vouched for it in the view it was fresh in.
            return Support::Strong;
        }
        let until = TimestampMs(prepare.cut.time.0.saturating_sub(MAX_CLOCK_AHEAD_MS));
        if until > desk.now {
            return Support::Early(until);
        }
        let is_shown = |tip: &Tip| prepare.available.iter().any(|certificate| certificate.tip == *tip);
        // What was shown is known to the lanes, which are quicker to ask.
        let is_certified = |tip: &Tip| lanes.is_certified(tip) || is_shown(tip);
        // Y4: a body without a certified parent could stand on a chain that nobody vouches for, and is not asked for.
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

    /// C5, at the leader; all-to-all, at everybody.
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
            // Everybody has it from the votes.
            desk.inbox.push_back(Message::Confirm(certificate));
        } else if let Some(wait) = desk.fast_wait().filter(|_| view == self.view) {
            self.timers.fast = Some(desk.in_ms(wait));
        } else {
            desk.post(Recipients::All, Message::Confirm(certificate));
        }
    }

    /// C6. Having voted for it is not required, nor is knowing the cut (P25).
    pub fn take_confirm(&mut self, desk: &mut Desk, certificate: PrepareQc) {
        if certificate.view > self.view {
            // n − f validators are there.
            self.enter(desk, certificate.view);
        }
        if certificate.view < self.view || self.timed_out {
            return;
        }
        if let Some(conf) = self.conf.as_ref().filter(|conf| conf.view == certificate.view) {
            // N1: again for what was acknowledged, and for nothing else, whoever certified that.
            if conf.cut == certificate.cut {
                self.repeat(desk, Question::Acknowledgement { slot: self.slot }, Self::acknowledge_again);
            }
            return;
        }
        let Some(vote) = self.confirmed(desk, certificate.cut) else { return };
        self.conf = Some(certificate);
        self.promise(desk, self.votes_go_to(desk), vote);
    }

    /// C7, at the leader; all-to-all, at everybody.
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
        due(&mut self.timers.early, desk.now); // the vote is looked at again after every input
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

    /// P12: whatever waits for others goes out again.
    fn resend(&mut self, desk: &mut Desk) {
        self.send_open(desk, Recipients::All);
        self.timers.resend = Some(desk.in_ms(desk.config.resend_ms));
    }

    /// What waits for an answer.
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

    /// The most that [`SlotState::footprint`] says: a vote and an acknowledgement of everybody in the views that are kept, their TIMEOUTs,
    /// and the mail that waits for records.
    pub fn most_held(committee_size: usize) -> usize {
        1 + VIEWS_KEPT as usize * 3 * (committee_size + 1) + MAX_BODIES + 1 + 64
    }

    /// How many things are held that could become too many.
    pub fn footprint(&self) -> usize {
        let votes: usize = self.tallies.values().map(Tally::len).sum();
        let timeouts: usize = self.timeouts.values().map(BTreeMap::len).sum();
        1 + votes + timeouts + self.bodies.len()
    }
}
