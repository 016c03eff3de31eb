//! Start-up, standing and catching up (R2, R5). None of it decides anything; answering is in `serve`.
//!
//! **Standing.** A validator whose disk was lost or put back from a backup must not vote twice in a slot, nor fork its lane. So on
//! every start it asks: how far have you come, and which is my highest car that you know (a signed car and a certificate: a liar can
//! withhold but not invent)? The README has the argument.

use crate::{
    config::Config,
    engine::Autobahn,
    message::{CommitQc, Cut, Message, NamedCar, Position, Slot, Standing},
    serve::Question,
    slots,
};
use corniche_engine::TraceEvent;
use corniche_types::{TimestampMs, ValidatorIndex};
use std::{collections::BTreeMap, sync::Arc};

/// Commits that are fetched ahead of what is executed, at most.
const MAX_UNEXECUTED: u64 = 256;

/// What has been asked of peers, and when to ask again.
pub struct Repair {
    nonce: u64,
    /// What others said since this start.
    answers: BTreeMap<ValidatorIndex, (Slot, Vec<Position>)>,
    /// Earlier lives are accounted for; since when.
    standing_since: Option<TimestampMs>,
    /// Our records do not tell all that we signed.
    forgot: bool,
    /// There was no record at the start, and there is none on disk yet.
    blank: bool,
    /// Nothing is signed about slots up to this one while the network moves without us: a life that we do not remember may have voted.
    doubtful: Slot,
    /// The highest own car that somebody knows, until it may be taken in.
    remembered: Option<Arc<NamedCar>>,
    /// When something was last committed or executed.
    progress_at: TimestampMs,
    /// When somebody was last told where we stand, if that is later, and how often since.
    told_at: TimestampMs,
    attempts: u32,
    /// The highest slot that is known to be committed, and who said so.
    known: (Slot, Option<ValidatorIndex>),
    /// When to ask for commits again.
    commits_at: Option<TimestampMs>,
    /// Whose turn it is to be told where we stand.
    turn: usize,
}

impl Repair {
    /// `forgot`: there was an earlier life and no record of it. `blank`: there was no record.
    pub fn new(seed: u64, forgot: bool, blank: bool, now: TimestampMs) -> Self {
        Self {
            // Time as well, in case the caller's seed is a constant; 0 means that nothing was asked.
            nonce: (seed.rotate_left(32) ^ now.0).max(1),
            answers: BTreeMap::new(),
            standing_since: None,
            forgot,
            blank,
            doubtful: Slot(0),
            remembered: None,
            progress_at: now,
            told_at: now,
            attempts: 0,
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

    /// The first record is on disk.
    pub fn born(&mut self) {
        self.blank = false;
    }

    pub fn progress(&mut self, now: TimestampMs) {
        if self.has_standing() {
            (self.progress_at, self.attempts) = (now, 0);
        }
    }

    pub fn describe(&self) -> String {
        let Self { standing_since, forgot, blank, doubtful, known, .. } = self;
        format!("standing {standing_since:?} forgot {forgot} blank {blank} doubtful {} known {known:?}", doubtful.0)
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
        if !self.repair.may_act() {
            self.slots.abstain(Slot(u64::MAX));
        }
        self.check_standing();
        self.greet_all();
    }

    fn greet_all(&mut self) {
        let me = self.me();
        self.committee.indices().filter(|peer| Some(*peer) != me).for_each(|peer| self.greet(peer));
    }

    pub(crate) fn greet(&mut self, peer: ValidatorIndex) {
        let standing = self.standing(peer, self.repair.nonce, true);
        self.send(peer, &Message::Standing(standing));
    }

    pub(crate) fn take_standing(&mut self, from: ValidatorIndex, standing: &Standing, yours: Option<&Arc<NamedCar>>) {
        if let Some(car) = yours.filter(|car| Some(car.lane()) == self.me()) {
            self.remember(car);
        }
        let committed = standing.committed.as_ref().map_or(Slot(0), |certificate| certificate.slot);
        if !standing.answer && standing.nonce == self.repair.nonce {
            self.repair.answers.insert(from, (committed, standing.lanes.clone()));
        }
        self.check_standing();
        self.learn_of_commit(Some(from), committed);
        if standing.answer {
            self.take_question(from, Question::Standing { nonce: standing.nonce });
        }
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
        if self.repair.answers.len() < needed.min(self.committee.size() - 1) {
            return;
        }
        self.repair.standing_since = Some(self.now);
        self.repair.progress(self.now);
        let highest = self.repair.answers.values().map(|(slot, _)| *slot).max().unwrap_or(Slot(0)).max(self.slots.committed());
        // A vote in slot s needed the commit of s − k, and that one votes of validators who had seen the one of s − 2k: one of them
        // answered. Up to k more may be missing to what it knows without gaps.
        let reached = Slot(highest.0.saturating_add(3 * self.config.open_slots));
        // Without Byzantine validators everybody's vote is needed for everything, so nobody can vote twice to an effect.
        let trusts_others = self.committee.faulty() > 0 && highest > Slot(0);
        self.slots.abstain(if trusts_others { reached } else { Slot(0) });
        if trusts_others && self.repair.forgot {
            self.lanes.abstain(&self.reported_positions());
        } else if trusts_others {
            self.repair.doubtful = reached;
        }
        if self.repair.blank {
            self.record_birth();
        }
        if let Some(car) = self.repair.remembered.take() {
            self.lanes.adopt_own(&car);
        }
        self.lanes.open_own(self.now);
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
        if self.repair.may_act() {
            if self.lanes.adopt_own(car) {
                self.learn_of_lost_life(car);
            }
            return;
        }
        // There was a life before this one.
        self.repair.forgot = true;
        let is_higher = |known: &Arc<NamedCar>| known.position() < car.position();
        if self.repair.remembered.as_ref().is_none_or(is_higher) {
            self.repair.remembered = Some(car.clone());
        }
    }

    /// A car of ours that our records lack: they are not the newest. What we sent was durable before.
    fn learn_of_lost_life(&mut self, car: &NamedCar) {
        if !self.repair.forgot {
            let detail = format!("{:?} is ours and not in our records", car.tip());
            self.trace(TraceEvent::note("history-lost", detail));
        }
        (self.repair.forgot, self.repair.standing_since) = (true, None);
        self.lanes.close_own();
        self.slots.abstain(Slot(u64::MAX));
        self.check_standing();
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

    /// Quick while starting or while something is on its way, slower with each attempt. An idle network tells one validator now and then,
    /// which needs no quorum and starts no slot.
    fn stall_deadline(&self) -> Option<TimestampMs> {
        if self.committee.size() == 1 {
            return None;
        }
        let soon = hasty(&self.config).saturating_mul(1 << self.repair.attempts.min(16)).min(self.config.status_ms);
        let wait = if self.is_busy() || !self.repair.has_standing() { soon } else { self.config.status_ms };
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
            self.slots.abstain(Slot(0));
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
        self.greet(others[self.repair.turn % others.len()]);
    }
}
