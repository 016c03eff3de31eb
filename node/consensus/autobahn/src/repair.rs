//! Start-up, standing and catching up (R2, R5). No decision depends on this module; `serve` contains the responses.
//!
//! **Standing.** A validator whose disk was lost or restored from a backup must not vote twice in a slot, nor fork its
//! lane. So on every start it asks its peers three things: how far they have come, its own highest car that they know,
//! and the first disk that it announced to them. The latter two are signed: a liar can withhold but not invent them.
//! The README contains the argument.

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

/// Maximum number of commits fetched ahead of execution.
const MAX_UNEXECUTED: u64 = 256;

/// Knowledge about earlier lives from the records.
pub struct Past {
    /// There was an earlier life without a record.
    pub forgot: bool,
    /// There is no record of any life.
    pub blank: bool,
    pub birth: Option<Birth>,
    pub met: BTreeMap<ValidatorIndex, Birth>,
    pub silence: Option<Silence>,
}

/// State of requests to peers, and the times of retries.
pub struct Repair {
    nonce: u64,
    /// Responses of peers since this start.
    answers: BTreeMap<ValidatorIndex, (Slot, Vec<Position>)>,
    /// Time since when earlier lives are accounted for; `None` before.
    standing_since: Option<TimestampMs>,
    /// Our records do not contain all that we signed.
    forgot: bool,
    /// There was no record of a life at the start, and no such record is durable yet.
    blank: bool,
    /// Nothing is signed about slots up to this one while the network progresses without us: a forgotten life may have
    /// voted.
    doubtful: Slot,
    /// Never signed, also not in later lives.
    silence: Option<Silence>,
    /// This disk's identifier, and the progress of its announcement.
    birth: Option<Birth>,
    announcement: Announcement,
    /// The first disk that each peer announced, and whether its record is durable.
    met: BTreeMap<ValidatorIndex, (Birth, bool)>,
    /// Highest position of an own car that revealed a lost life.
    lost: Position,
    /// The highest own car that a peer knows, until it may be adopted.
    remembered: Option<Arc<NamedCar>>,
    /// Time of the last commit or execution.
    progress_at: TimestampMs,
    /// Time of the last status message, if later, and number of attempts since.
    told_at: TimestampMs,
    attempts: u32,
    /// Number of peers that still get our status after the last event, one after the other.
    untold: usize,
    peers: usize,
    /// The highest slot known to be committed, and the peer that reported it.
    known: (Slot, Option<ValidatorIndex>),
    /// Time of the next request for commits.
    commits_at: Option<TimestampMs>,
    /// The next peer that gets our status.
    turn: usize,
}

#[derive(PartialEq, Eq)]
enum Announcement {
    None,
    /// Its record is in progress.
    Recording,
    /// It is part of every request.
    Made,
}

impl Repair {
    pub fn new(seed: u64, past: Past, size: usize, now: TimestampMs) -> Self {
        let Past { forgot, blank, birth, met, silence } = past;
        Self {
            // Includes the time in case the caller's seed is constant. 0 means that nothing was requested.
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

    /// Returns true if our statements about our own past are reliable.
    pub fn is_witness(&self) -> bool {
        !self.forgot || self.has_standing()
    }

    /// A validator without knowledge of its past takes part in nothing.
    pub fn may_act(&self) -> bool {
        self.has_standing() || !(self.forgot || self.blank)
    }

    /// A life without a record does not deliver either: after a power cut, commits without records look like lost
    /// records.
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

    /// The disk to name in requests.
    pub fn announced(&self) -> Option<Birth> {
        self.birth.filter(|_| self.announcement == Announcement::Made)
    }

    /// The first disk that this peer announced.
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

    /// A peer that may hold this slot's data, because it reported a later one.
    pub fn informant(&self, slot: Slot) -> Option<ValidatorIndex> {
        self.known.1.filter(|_| slot <= self.known.0)
    }
}

/// Time without progress after which the network counts as stalled, ms.
fn hasty(config: &Config) -> u64 {
    config.fetch_retry_ms.saturating_mul(4)
}

impl Autobahn {
    pub(crate) fn start_greeting(&mut self) {
        // The signatures of earlier lives are unknown until the peers respond.
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

    /// A new connection: earlier messages may be lost. Resends at once, so that the peer need not wait for timers
    /// (P12).
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

    /// A peer that announces its disk gets a response when our record of it is durable: it relies on us to report it at
    /// every later start.
    fn take_greeting(&mut self, from: ValidatorIndex, nonce: u64, birth: Option<Birth>) {
        if !self.repair.is_witness() {
            return; // Its disk would not be recorded, and we must look after a power cut as if nothing had been received.
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

    /// R5, see the README: if our records look whole, a quorum including ourselves is enough. If we know that we
    /// forgot, every quorum must contain an honest one of the respondents.
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
        // A vote in slot s needed the commit of s − k, and that one needed votes of validators that had seen the commit
        // of s − 2k. One of them responded. It may lack up to k commits without gaps.
        let reached = Slot(highest.0.saturating_add(3 * self.config.open_slots));
        self.repair.doubtful = Slot(0);
        if self.repair.forgot {
            self.keep_silent(reached);
        } else if self.committee.faulty() > 0 && !(self.repair.blank && highest == Slot(0)) {
            // At the very beginning, no slot is doubtful for a first life.
            self.repair.doubtful = reached;
        }
        self.abstain();
        if self.repair.blank {
            self.record_life();
        }
        // Only after the record of our silence: with this car, our records look whole.
        if let Some(car) = self.repair.remembered.take() {
            self.lanes.adopt_own(&car);
        }
        self.lanes.open_own(self.now);
    }

    /// R5: permanent, so also after the next power cut.
    fn keep_silent(&mut self, reached: Slot) {
        let mut silence = self.repair.silence.take().unwrap_or_default();
        // Without Byzantine validators, every decision needs all votes, so a double vote has no effect.
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

    // ---- lost lives ----------------------------------------------------------------------------------------------------

    /// R5: before a first life signs anything, a quorum (with itself) must have recorded this disk's identifier. So
    /// others know of a lost disk even if they remember no other signature of it.
    fn is_announced(&mut self) -> bool {
        let Some(signer) = self.signer.clone().filter(|_| self.repair.blank && self.committee.faulty() > 0) else {
            return true;
        };
        if self.repair.announcement == Announcement::None {
            // Its record is durable before it is announced.
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

    /// Per lane, one position above the highest that f + 1 others reported to hold: one of them is honest. An earlier
    /// life may have voted up to there.
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

    /// A peer knows a car of ours. If our records lack it, we adopt it only when that is safe: after a power cut
    /// before, we must look as now.
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

    /// Returns true if our records lack this own car: they are outdated, because everything we sent was durable before.
    fn lacks(&self, car: &NamedCar) -> bool {
        let may_be_later = |own: Tip| car.position() >= own.position && car.tip() != own;
        self.lanes.own_tip().is_some_and(may_be_later) && self.lanes.get(&car.tip()).is_none()
    }

    /// Same check by a certificate or a commit: others hold an own car that our records lack. Must run before the own
    /// lane adopts it.
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

    /// Same check by a certificate with our signature, if our records contain no vote.
    pub(crate) fn notice_lost_vote(&mut self, slot: Slot) {
        if self.repair.may_act() && !self.repair.forgot {
            self.learn_of_lost_life(format!("a vote of ours in {slot:?} is not in our records"));
        }
    }

    /// We had another disk, and no life on this one knows what happened to it.
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

    // ---- catching up ---------------------------------------------------------------------------------------------------

    /// Learns that a slot was committed.
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

    /// Time of the next status messages: soon while starting or while work is pending, later with each attempt. At
    /// rest, all peers get the status once more, one after the other, in case the last message was lost; then there is
    /// silence.
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

    /// If the network does not progress without us, our doubts must not block it.
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
