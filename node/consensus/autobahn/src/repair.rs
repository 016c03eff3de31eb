//! Start-up, standing and catching up (R2, R5). None of it decides anything; answering is in `serve`.
//!
//! **Standing.** A validator whose disk was lost or put back from a backup must not vote twice in a slot, nor fork its lane. So on
//! every start it asks: how far have you come, which is my highest car that you know, and which disk did I have when we first met (signed
//! things: a liar can withhold but not invent)? The README has the argument.

use crate::{
    config::Config,
    engine::Autobahn,
    journal::Silence,
    message::{Birth, CommitQc, Cut, Message, NamedCar, Position, Slot, Standing, Tip},
    serve::Question,
    slots,
};
use corniche_engine::TraceEvent;
use corniche_types::{TimestampMs, ValidatorIndex};
use std::{collections::BTreeMap, sync::Arc};

/// Commits that are fetched ahead of what is executed, at most.
const MAX_UNEXECUTED: u64 = 256;

/// What the records tell of earlier lives.
pub struct Past {
    /// There was an earlier life and no record of it.
    pub forgot: bool,
    /// There is no record of any life.
    pub blank: bool,
    pub birth: Option<Birth>,
    pub met: BTreeMap<ValidatorIndex, Birth>,
    pub silence: Option<Silence>,
}

/// What has been asked of peers, and when to ask again.
pub struct Repair {
    nonce: u64,
    /// What others said since this start.
    answers: BTreeMap<ValidatorIndex, (Slot, Vec<Position>)>,
    /// Earlier lives are accounted for; since when.
    standing_since: Option<TimestampMs>,
    /// Our records do not tell all that we signed.
    forgot: bool,
    /// There was no record of a life at the start, and there is none on disk yet.
    blank: bool,
    /// Nothing is signed about slots up to this one while the network moves without us: a life that we do not remember may have voted.
    doubtful: Slot,
    /// What is not signed for good, in later lives either.
    silence: Option<Silence>,
    /// This disk's name, and how far others were told of it.
    birth: Option<Birth>,
    announcement: Announcement,
    /// The first disk of each peer that we were told of; and whether that is on ours.
    met: BTreeMap<ValidatorIndex, (Birth, bool)>,
    /// The highest position of an own car that told us of a lost life.
    lost: Position,
    /// The highest own car that somebody knows, until it may be taken in.
    remembered: Option<Arc<NamedCar>>,
    /// When something was last committed or executed.
    progress_at: TimestampMs,
    /// When somebody was last told where we stand, if that is later, and how often since.
    told_at: TimestampMs,
    attempts: u32,
    /// Peers that are to be told where we stand since something happened, one after the other.
    untold: usize,
    peers: usize,
    /// The highest slot that is known to be committed, and who said so.
    known: (Slot, Option<ValidatorIndex>),
    /// When to ask for commits again.
    commits_at: Option<TimestampMs>,
    /// Whose turn it is to be told where we stand.
    turn: usize,
}

#[derive(PartialEq, Eq)]
enum Announcement {
    None,
    /// On its way to the disk.
    Recording,
    /// In every question.
    Made,
}

impl Repair {
    pub fn new(seed: u64, past: Past, size: usize, now: TimestampMs) -> Self {
        let Past { forgot, blank, birth, met, silence } = past;
        Self {
            // Time as well, in case the caller's seed is a constant; 0 means that nothing was asked.
            nonce: (seed.rotate_left(32) ^ now.0).max(1),
            answers: BTreeMap::new(),
            standing_since: None,
            forgot,
            blank,
            doubtful: Slot(0),
            silence,
            announcement: if birth.is_some() && !blank { Announcement::Made } else { Announcement::None },
            birth,
            met: met.into_iter().map(|(peer, birth)| (peer, (birth, true))).collect(),
            lost: Position(0),
            remembered: None,
            progress_at: now,
            told_at: now,
            attempts: 0,
            untold: 0,
            peers: size - 1,
            known: (Slot(0), None),
            commits_at: None,
            turn: 0,
        }
    }

    fn has_standing(&self) -> bool {
        self.standing_since.is_some()
    }

    /// What we say of our own past can be relied on.
    pub fn is_witness(&self) -> bool {
        !self.forgot || self.has_standing()
    }

    /// Whoever does not know itself takes part in nothing.
    pub fn may_act(&self) -> bool {
        self.has_standing() || !(self.forgot || self.blank)
    }

    /// Nor does a life without a record deliver: after a power cut, commits without records look like records that were lost.
    pub fn may_deliver(&self) -> bool {
        !self.blank && self.may_act()
    }

    /// The first record of this life is on disk.
    pub fn born(&mut self) {
        self.blank = false;
    }

    pub fn progress(&mut self, now: TimestampMs) {
        if self.has_standing() {
            (self.progress_at, self.attempts, self.untold) = (now, 0, self.peers);
        }
    }

    pub fn birth(&self) -> Option<Birth> {
        self.birth
    }

    /// For questions.
    pub fn announced(&self) -> Option<Birth> {
        self.birth.filter(|_| self.announcement == Announcement::Made)
    }

    /// What we can tell a peer of its past.
    pub fn met(&self, peer: ValidatorIndex) -> Option<Birth> {
        self.met.get(&peer).map(|(birth, _)| *birth)
    }

    pub fn silence(&self) -> Option<Silence> {
        self.silence.clone()
    }

    pub fn describe(&self) -> String {
        let Self { standing_since, forgot, blank, doubtful, silence, known, .. } = self;
        let silent = silence.as_ref().map(|silence| silence.slots.0);
        format!(
            "standing {standing_since:?} forgot {forgot} blank {blank} doubtful {} silent {silent:?} known {known:?}",
            doubtful.0
        )
    }

    /// Who may hold what this slot committed, because it told of a later one.
    pub fn informant(&self, slot: Slot) -> Option<ValidatorIndex> {
        self.known.1.filter(|_| slot <= self.known.0)
    }
}

/// How long nothing may happen before that is taken for standing still, ms.
fn hasty(config: &Config) -> u64 {
    config.fetch_retry_ms.saturating_mul(4)
}

impl Autobahn {
    pub(crate) fn start_greeting(&mut self) {
        // What earlier lives signed is known only when others have said what they saw.
        self.slots.abstain(Slot(u64::MAX));
        self.check_standing();
        self.greet_all();
    }

    fn greet_all(&mut self) {
        let me = self.me();
        self.committee.indices().filter(|peer| Some(*peer) != me).for_each(|peer| self.greet(peer));
    }

    fn greet(&mut self, peer: ValidatorIndex) {
        let standing = self.standing(peer, self.repair.nonce, true);
        self.send(peer, &Message::Standing(standing));
    }

    /// A connection: what was sent before may be lost, and whoever waited for it need not wait for timers too (P12).
    pub(crate) fn meet(&mut self, peer: ValidatorIndex) {
        self.greet(peer);
        self.lanes.send_open(peer);
        self.tell_slots(slots::Input::PeerUp(peer));
        self.repair.untold = self.repair.peers;
    }

    pub(crate) fn take_standing(&mut self, from: ValidatorIndex, standing: &Standing, yours: Option<&Arc<NamedCar>>) {
        if let Some(car) = yours.filter(|car| Some(car.lane()) == self.me()) {
            self.remember(car);
        }
        if let Some(met) = standing.met.filter(|met| Some(met.validator) == self.me()) {
            self.remember_disk(met);
        }
        let committed = standing.committed.as_ref().map_or(Slot(0), |certificate| certificate.slot);
        if !standing.answer && standing.nonce == self.repair.nonce {
            self.repair.answers.insert(from, (committed, standing.lanes.clone()));
        }
        self.check_standing();
        self.learn_of_commit(Some(from), committed);
        if standing.answer {
            self.take_greeting(from, standing.nonce, standing.birth);
        }
    }

    /// Whoever names its disk is answered when that is on ours: it relies on our telling so whenever it asks again.
    fn take_greeting(&mut self, from: ValidatorIndex, nonce: u64, birth: Option<Birth>) {
        if !self.repair.is_witness() {
            return; // It would hear nothing, and we are to look as if nothing had been.
        }
        match (birth, self.repair.met.get(&from)) {
            (Some(birth), None) => {
                self.repair.met.insert(from, (birth, false));
                self.record_met(birth, nonce);
            }
            (Some(_), Some((_, false))) => {}
            _ => self.take_question(from, Question::Standing { nonce }),
        }
    }

    pub(crate) fn has_met(&mut self, peer: ValidatorIndex, nonce: u64) {
        self.repair.met.entry(peer).and_modify(|(_, is_durable)| *is_durable = true);
        self.take_question(peer, Question::Standing { nonce });
    }

    /// R5, see the README: a quorum counting ourselves is enough for one whose records look whole. One that knows better needs so many
    /// others that every quorum holds an honest one of them.
    fn check_standing(&mut self) {
        if self.repair.has_standing() {
            return;
        }
        let beyond_doubt = self.committee.faulty() + self.committee.validity();
        let others = self.committee.quorum() - usize::from(self.me().is_some());
        let needed = if self.repair.forgot { beyond_doubt.max(others) } else { others };
        if self.repair.answers.len() < needed.min(self.committee.size() - 1) || !self.is_announced() {
            return;
        }
        self.repair.standing_since = Some(self.now);
        self.repair.progress(self.now);
        let highest = self.repair.answers.values().map(|(slot, _)| *slot).max().unwrap_or(Slot(0)).max(self.slots.committed());
        // A vote in slot s needed the commit of s − k, and that one votes of validators who had seen the one of s − 2k: one of them
        // answered. Up to k more may be missing to what it knows without gaps.
        let reached = Slot(highest.0.saturating_add(3 * self.config.open_slots));
        self.repair.doubtful = Slot(0);
        if self.repair.forgot {
            self.keep_silent(reached);
        } else if self.committee.faulty() > 0 && !(self.repair.blank && highest == Slot(0)) {
            // At the very beginning a first life has nothing to doubt.
            self.repair.doubtful = reached;
        }
        self.abstain();
        if self.repair.blank {
            self.record_life();
        }
        // After the record of our silence: with this car, our records look whole.
        if let Some(car) = self.repair.remembered.take() {
            self.lanes.adopt_own(&car);
        }
        self.lanes.open_own(self.now);
    }

    /// R5: for good, so also after the next power cut.
    fn keep_silent(&mut self, reached: Slot) {
        let mut silence = self.repair.silence.take().unwrap_or_default();
        // Without Byzantine validators everybody's vote is needed for everything, so nobody can vote twice to an effect.
        if self.committee.faulty() > 0 {
            silence.slots = silence.slots.max(reached);
            silence.lanes.resize(self.committee.size(), Position(0));
            for (position, reported) in silence.lanes.iter_mut().zip(self.reported_positions()) {
                *position = reported.max(*position);
            }
        }
        self.repair.silence = Some(silence.clone());
        self.record_silence(silence);
    }

    fn abstain(&mut self) {
        let silence = self.repair.silence().unwrap_or_default();
        self.lanes.abstain(&silence.lanes);
        self.slots.abstain(silence.slots.max(self.repair.doubtful));
    }

    // ---- lives that were lost ------------------------------------------------------------------------------------------

    /// R5: before a first life signs anything, others have this disk's name on theirs, as many as it needs to begin. So a disk that
    /// was lost is known to them, also when nothing else was signed that they remember.
    fn is_announced(&mut self) -> bool {
        let Some(signer) = self.signer.clone().filter(|_| self.repair.blank && self.committee.faulty() > 0) else {
            return true;
        };
        if self.repair.announcement == Announcement::None {
            // Its name is on the disk before it is given.
            self.repair.announcement = Announcement::Recording;
            if self.repair.birth.is_some() {
                self.announce_birth();
            } else {
                let (validator, disk) = (signer.index(), self.repair.nonce);
                let signature = signer.sign(&self.context.birth(validator, disk));
                let birth = Birth { validator, disk, signature };
                self.repair.birth = Some(birth);
                self.record_birth(birth);
            }
            return false;
        }
        self.repair.announcement == Announcement::Made
    }

    pub(crate) fn announce_birth(&mut self) {
        self.repair.announcement = Announcement::Made;
        self.repair.nonce = self.repair.nonce.wrapping_add(1).max(1);
        self.repair.answers.clear();
        self.greet_all();
    }

    /// Per lane, the highest position that f + 1 others said they hold: one of them is honest. An earlier life may have voted that far and
    /// one further.
    fn reported_positions(&self) -> Vec<Position> {
        let place = self.committee.faulty();
        let reported = |lane: ValidatorIndex| {
            let of_lane = self.repair.answers.values().filter_map(|(_, lanes)| lanes.get(lane.as_usize()));
            let mut positions: Vec<_> = of_lane.copied().collect();
            positions.sort_unstable_by(|one, other| other.cmp(one));
            positions.get(place).map_or(Position(0), |position| position.next())
        };
        self.committee.indices().map(reported).collect()
    }

    /// A car of ours that somebody knows. It is taken in once nothing worse can come: if power fails before, we must look as we do now.
    fn remember(&mut self, car: &Arc<NamedCar>) {
        if self.repair.may_act() && !self.lacks(car) {
            self.lanes.adopt_own(car);
            return;
        }
        let is_higher = |known: &Arc<NamedCar>| known.position() < car.position();
        if self.repair.remembered.as_ref().is_none_or(is_higher) {
            self.repair.remembered = Some(car.clone());
        }
        self.learn_of_lost_life(format!("{:?} is ours and not in our records", car.tip()));
    }

    /// An own car of which the records know nothing: they are not the newest. What we sent was durable before.
    fn lacks(&self, car: &NamedCar) -> bool {
        let may_be_later = |own: Tip| car.position() >= own.position && car.tip() != own;
        self.lanes.own_tip().is_some_and(may_be_later) && self.lanes.get(&car.tip()).is_none()
    }

    /// The same by a certificate or a commit: others hold an own car that our records lack. Called before the own lane takes it for its own.
    pub(crate) fn notice_lost_cars(&mut self) {
        let (Some(me), Some(own)) = (self.me(), self.lanes.own_tip()) else { return };
        let certified = self.lanes.certified(me).map(|certificate| certificate.tip);
        let known = certified.into_iter().chain([self.lanes.executed(me)]).max_by_key(|tip| tip.position);
        let is_lost = |tip: &Tip| tip.position > own.position.max(self.repair.lost);
        if let Some(tip) = known.filter(is_lost).filter(|_| self.repair.may_act()) {
            self.repair.lost = tip.position;
            self.learn_of_lost_life(format!("{tip:?} is ours and not in our records"));
        }
    }

    /// The same by a certificate that bears our signature, when our records know of no vote.
    pub(crate) fn notice_lost_vote(&mut self, slot: Slot) {
        if self.repair.may_act() && !self.repair.forgot {
            self.learn_of_lost_life(format!("a vote of ours in {slot:?} is not in our records"));
        }
    }

    /// We had another disk, and no life on this one knows what became of it.
    fn remember_disk(&mut self, met: Birth) {
        let is_other = self.repair.birth.is_none_or(|birth| birth.disk != met.disk);
        if is_other && !self.repair.forgot && self.repair.silence.is_none() {
            self.learn_of_lost_life(format!("we were met with disk {:x}", met.disk));
        }
    }

    fn learn_of_lost_life(&mut self, detail: String) {
        if !self.repair.forgot {
            self.trace(TraceEvent::note("history-lost", detail));
        }
        let acted = self.repair.may_act();
        (self.repair.forgot, self.repair.standing_since, self.repair.doubtful) = (true, None, Slot(0));
        if acted {
            self.lanes.close_own();
            self.slots.abstain(Slot(u64::MAX));
            self.check_standing();
        }
    }

    // ---- commits that others have --------------------------------------------------------------------------------------

    /// A slot was committed.
    pub(crate) fn learn_of_commit(&mut self, from: Option<ValidatorIndex>, slot: Slot) {
        if slot > self.repair.known.0 {
            self.repair.known = (slot, from.or(self.repair.known.1));
        }
        if self.is_behind() && self.repair.commits_at.is_none() {
            self.ask_for_commits(from);
        }
    }

    fn is_behind(&self) -> bool {
        let committed = self.slots.committed();
        self.repair.known.0 > committed && committed.0 - self.order.slot().0 < MAX_UNEXECUTED && self.repair.may_act()
    }

    fn ask_for_commits(&mut self, whom: Option<ValidatorIndex>) {
        let me = self.me();
        let others: Vec<_> = self.committee.indices().filter(|peer| Some(*peer) != me).collect();
        if let Some(peer) = whom.or_else(|| others.get(self.repair.turn % others.len().max(1)).copied()) {
            let above = self.slots.committed();
            self.send(peer, &Message::FetchCommits { above });
        }
        self.repair.turn += 1;
        self.repair.commits_at = Some(TimestampMs(self.now.0 + self.config.fetch_retry_ms));
    }

    /// SLOT-REPLY.
    pub(crate) fn take_commits(&mut self, from: ValidatorIndex, commits: Vec<(Cut, CommitQc)>) {
        let before = self.slots.committed();
        if let Some(last) = commits.last().map(|(cut, _)| cut.slot) {
            self.learn_of_commit(Some(from), last);
        }
        self.tell_slots(slots::Input::CaughtUp(commits));
        if self.slots.committed() > before {
            self.repair.known.1 = Some(from);
            self.repair.commits_at = None;
            if self.is_behind() {
                self.ask_for_commits(Some(from));
            }
        }
    }

    // ---- timers --------------------------------------------------------------------------------------------------------

    /// Quick while starting or while something is on its way, slower with each attempt. When things have come to rest, everybody is told once
    /// more, one after the other, in case the last message was lost; then there is silence.
    fn stall_deadline(&self) -> Option<TimestampMs> {
        let is_starting = !self.repair.has_standing();
        if self.committee.size() == 1 || !is_starting && !self.is_busy() && self.repair.untold == 0 {
            return None;
        }
        let soon = hasty(&self.config).saturating_mul(1 << self.repair.attempts.min(16)).min(self.config.status_ms);
        let wait = if is_starting || self.is_busy() { soon } else { self.config.status_ms };
        Some(TimestampMs(self.repair.progress_at.max(self.repair.told_at).0.saturating_add(wait)))
    }

    fn is_busy(&self) -> bool {
        self.slots.committed() > self.order.slot() || self.slots.deadline().is_some() || self.is_behind()
    }

    /// When nothing moves without us, our doubts must not be what stops it.
    fn doubt_deadline(&self) -> Option<TimestampMs> {
        let since = self.repair.standing_since.filter(|_| self.repair.doubtful > Slot(0))?;
        Some(TimestampMs(since.max(self.repair.progress_at).0.saturating_add(hasty(&self.config))))
    }

    pub(crate) fn repair_deadline(&self) -> Option<TimestampMs> {
        let commits = self.repair.commits_at.filter(|_| self.is_behind());
        [self.stall_deadline(), self.doubt_deadline(), commits].into_iter().flatten().min()
    }

    /// Called at every deadline.
    pub(crate) fn repair_if_due(&mut self) {
        if self.doubt_deadline().is_some_and(|at| at <= self.now) {
            self.repair.doubtful = Slot(0);
            self.abstain();
            self.tell_slots(slots::Input::Lanes);
        }
        if self.repair.commits_at.take_if(|at| *at <= self.now).is_some() && self.is_behind() {
            self.ask_for_commits(None);
        }
        if self.stall_deadline().is_some_and(|at| at <= self.now) {
            let busy = self.is_busy() || !self.repair.has_standing();
            self.repair.told_at = self.now;
            self.repair.attempts = self.repair.attempts.saturating_add(1);
            if busy { self.greet_all() } else { self.greet_next() }
        }
    }

    fn greet_next(&mut self) {
        let me = self.me();
        let others: Vec<_> = self.committee.indices().filter(|peer| Some(*peer) != me).collect();
        self.repair.turn += 1;
        self.repair.untold = self.repair.untold.saturating_sub(1);
        self.greet(others[self.repair.turn % others.len()]);
    }
}
