//! Start-up, recovery and catching up (R2, R5). No decision depends on this module; `serve` contains the responses.
//!
//! **Recovery.** A validator whose disk was lost or restored from a backup must not vote twice in a slot, nor fork its
//! lane. So on every start it asks its peers three things: how far they have come, its own highest car that they know,
//! and the first disk that it announced to them. The latter two are signed: a liar can withhold but not invent them.
//! The README contains the argument.

use crate::{
    config::Config,
    engine::Autobahn,
    journal::{Abstention, Record},
    keys::Signer,
    message::{CommitQc, Cut, DiskId, HashedCar, Message, Position, Slot, Status, Tip},
    serve::Request,
    slots,
};
use corniche_engine::TraceEvent;
use corniche_types::{TimestampMs, ValidatorIndex};
use std::{collections::BTreeMap, sync::Arc};

/// Maximum number of commits fetched ahead of execution.
const MAX_UNEXECUTED: u64 = 256;

/// Knowledge about earlier incarnations from the records.
pub struct RecordedHistory {
    /// There was an earlier incarnation without a record.
    pub lost_records: bool,
    /// There is no record of any incarnation.
    pub no_records: bool,
    /// Nothing was signed before this incarnation's first record.
    pub is_unsigned: bool,
    pub disk_id: Option<DiskId>,
    pub peer_disk: BTreeMap<ValidatorIndex, DiskId>,
    pub abstention: Option<Abstention>,
}

/// State of requests to peers, and the times of retries.
pub struct Repair {
    nonce: u64,
    /// Responses of peers since this start.
    responses: BTreeMap<ValidatorIndex, (Slot, Vec<Position>)>,
    /// Time since when earlier incarnations are accounted for; `None` before.
    recovered_at: Option<TimestampMs>,
    /// Our records do not contain all that we signed.
    lost_records: bool,
    /// There was no record of an incarnation at the start, and no such record is durable yet.
    no_records: bool,
    /// Nothing is signed about slots up to this one while the network progresses without us: a forgotten incarnation may have
    /// voted.
    uncertain_through: Slot,
    /// Never signed, also not in later incarnations.
    abstention: Option<Abstention>,
    /// Nothing was signed before this disk's identifier was recorded.
    is_unsigned: bool,
    /// This disk's identifier, and the progress of its announcement.
    disk_id: Option<DiskId>,
    announcement: Announcement,
    /// The first disk that each peer announced, and whether its record is durable.
    peer_disk: BTreeMap<ValidatorIndex, (DiskId, bool)>,
    /// Highest position of an own car that revealed a lost incarnation.
    lost: Position,
    /// The highest own car that a peer knows, until it may be adopted.
    own_car_to_adopt: Option<Arc<HashedCar>>,
    /// Time of the last commit or execution.
    progress_at: TimestampMs,
    /// Time of the last status message, if later, and number of attempts since.
    status_sent_at: TimestampMs,
    attempts: u32,
    /// Number of peers that still get our status after the last event, one after the other.
    statuses_due: usize,
    peers: usize,
    /// The highest slot known to be committed, and the peer that reported it.
    known: (Slot, Option<ValidatorIndex>),
    /// Time of the next request for commits.
    commits_at: Option<TimestampMs>,
    /// The next peer that gets our status.
    next_peer: usize,
}

#[derive(PartialEq, Eq)]
enum Announcement {
    /// The identifier is not announced; if there is one, its record is durable.
    None,
    /// Its record is in progress.
    Recording,
    /// It is part of every request.
    Made,
}

impl Repair {
    pub fn new(seed: u64, past: RecordedHistory, size: usize, now: TimestampMs) -> Self {
        let RecordedHistory { lost_records, no_records, is_unsigned, disk_id, peer_disk, abstention } = past;
        Self {
            // Includes the time in case the caller's seed is constant. 0 means that nothing was requested.
            nonce: (seed.rotate_left(32) ^ now.0).max(1),
            responses: BTreeMap::new(),
            recovered_at: None,
            lost_records,
            no_records,
            uncertain_through: Slot(0),
            abstention,
            is_unsigned,
            announcement: if disk_id.is_some() && !no_records { Announcement::Made } else { Announcement::None },
            disk_id,
            peer_disk: peer_disk.into_iter().map(|(peer, disk_id)| (peer, (disk_id, true))).collect(),
            lost: Position(0),
            own_car_to_adopt: None,
            progress_at: now,
            status_sent_at: now,
            attempts: 0,
            statuses_due: 0,
            peers: size - 1,
            known: (Slot(0), None),
            commits_at: None,
            next_peer: 0,
        }
    }

    fn is_recovered(&self) -> bool {
        self.recovered_at.is_some()
    }

    /// Returns true if our statements about our own past are reliable.
    pub fn is_witness(&self) -> bool {
        !self.lost_records || self.is_recovered()
    }

    /// A validator without knowledge of its past takes part in nothing.
    pub fn may_act(&self) -> bool {
        self.is_recovered() || !(self.lost_records || self.no_records)
    }

    /// An incarnation without a record does not deliver either: after a power cut, commits without records look like lost
    /// records.
    pub fn may_deliver(&self) -> bool {
        !self.no_records && self.may_act()
    }

    /// The first record of this incarnation is on disk.
    pub fn mark_started(&mut self) {
        self.no_records = false;
    }

    pub fn progress(&mut self, now: TimestampMs) {
        if self.is_recovered() {
            (self.progress_at, self.attempts, self.statuses_due) = (now, 0, self.peers);
        }
    }

    pub fn disk_id(&self) -> Option<DiskId> {
        self.disk_id
    }

    /// The record of this disk's identifier.
    pub fn disk_record(&self, disk_id: DiskId) -> Record {
        if self.is_unsigned && !self.lost_records { Record::FirstDisk(disk_id) } else { Record::DiskId(disk_id) }
    }

    /// The disk to name in requests.
    pub fn announced(&self) -> Option<DiskId> {
        self.disk_id.filter(|_| self.announcement == Announcement::Made)
    }

    /// The first disk that this peer announced.
    pub fn peer_disk(&self, peer: ValidatorIndex) -> Option<DiskId> {
        self.peer_disk.get(&peer).map(|(disk_id, _)| *disk_id)
    }

    pub fn abstention(&self) -> Option<Abstention> {
        self.abstention.clone()
    }

    pub fn describe(&self) -> String {
        let Self { recovered_at, lost_records, no_records, uncertain_through, abstention, known, .. } = self;
        let silent = abstention.as_ref().map(|abstention| abstention.slots.0);
        format!(
            "recovered at {recovered_at:?}, lost records {lost_records}, no records {no_records}, uncertain through {}, abstains through {silent:?}, known {known:?}",
            uncertain_through.0
        )
    }

    /// A peer that may hold this slot's data, because it reported a later one.
    pub fn holder_of(&self, slot: Slot) -> Option<ValidatorIndex> {
        self.known.1.filter(|_| slot <= self.known.0)
    }
}

/// Time without progress after which the network counts as stalled, ms.
fn stall_timeout_ms(config: &Config) -> u64 {
    config.fetch_retry_ms.saturating_mul(4)
}

impl Autobahn {
    pub(crate) fn start_recovery(&mut self) {
        // The signatures of earlier incarnations are unknown until the peers respond.
        self.slots.abstain(Slot(u64::MAX));
        let is_new = self.repair.is_unsigned && self.repair.disk_id.is_none();
        if let Some(signer) = self.unannounced_signer().filter(|_| is_new) {
            // Before any other record: the first one ends what the caller knows, and this one replaces that knowledge.
            self.choose_disk_id(signer.as_ref());
        }
        self.check_recovery();
        self.broadcast_status();
    }

    fn broadcast_status(&mut self) {
        let me = self.me();
        self.committee.indices().filter(|peer| Some(*peer) != me).for_each(|peer| self.send_status(peer));
    }

    fn send_status(&mut self, peer: ValidatorIndex) {
        let status = self.status(peer, self.repair.nonce, true);
        self.send(peer, &Message::Status(status));
    }

    /// A new connection: earlier messages may be lost. Resends at once, so that the peer need not wait for timers
    /// (P12).
    pub(crate) fn handle_peer_up(&mut self, peer: ValidatorIndex) {
        self.send_status(peer);
        self.lanes.send_pending(peer);
        self.step_slots(slots::Input::PeerUp(peer));
        self.repair.statuses_due = self.repair.peers;
    }

    pub(crate) fn handle_status(&mut self, from: ValidatorIndex, status: &Status, receiver_car: Option<&Arc<HashedCar>>) {
        if let Some(car) = receiver_car.filter(|car| Some(car.lane()) == self.me()) {
            self.handle_own_car(car);
        }
        if let Some(peer_disk) = status.peer_disk.filter(|peer_disk| Some(peer_disk.validator) == self.me()) {
            self.handle_own_disk(peer_disk);
        }
        let committed = status.committed.as_ref().map_or(Slot(0), |certificate| certificate.slot);
        if !status.wants_response && status.nonce == self.repair.nonce {
            self.repair.responses.insert(from, (committed, status.lanes.clone()));
        }
        self.check_recovery();
        self.note_commit(Some(from), committed);
        if status.wants_response {
            self.handle_status_request(from, status.nonce, status.disk_id);
        }
    }

    /// A peer that announces its disk gets a response when our record of it is durable: it relies on us to report it at
    /// every later start.
    fn handle_status_request(&mut self, from: ValidatorIndex, nonce: u64, disk_id: Option<DiskId>) {
        if !self.repair.is_witness() {
            return; // Its disk would not be recorded, and we must look after a power cut as if nothing had been received.
        }
        match (disk_id, self.repair.peer_disk.get(&from)) {
            (Some(disk_id), None) => {
                self.repair.peer_disk.insert(from, (disk_id, false));
                self.record_peer_disk(disk_id, nonce);
            }
            (Some(_), Some((_, false))) => {}
            _ => self.handle_request(from, Request::Status { nonce }),
        }
    }

    pub(crate) fn handle_peer_disk_durable(&mut self, peer: ValidatorIndex, nonce: u64) {
        self.repair.peer_disk.entry(peer).and_modify(|(_, is_durable)| *is_durable = true);
        self.handle_request(peer, Request::Status { nonce });
    }

    /// R5, see the README: if our records look whole, a quorum including ourselves is enough. If we know that we
    /// forgot, every quorum must contain an honest one of the respondents.
    fn check_recovery(&mut self) {
        if self.repair.is_recovered() {
            return;
        }
        let beyond_doubt = self.committee.max_faulty() + self.committee.validity_threshold();
        let others = self.committee.quorum() - usize::from(self.me().is_some());
        let needed = if self.repair.lost_records { beyond_doubt.max(others) } else { others };
        if self.repair.responses.len() < needed.min(self.committee.size() - 1) || !self.announce_disk_if_due() {
            return;
        }
        self.repair.recovered_at = Some(self.now);
        self.repair.progress(self.now);
        let highest =
            self.repair.responses.values().map(|(slot, _)| *slot).max().unwrap_or(Slot(0)).max(self.slots.committed());
        // A vote in slot s needed the commit of s − k, and that one needed votes of validators that had seen the commit
        // of s − 2k. One of them responded. It may lack up to k commits without gaps.
        let reached = Slot(highest.0.saturating_add(3 * self.config.open_slots));
        self.repair.uncertain_through = Slot(0);
        if self.repair.lost_records {
            self.extend_abstention(reached);
        } else if self.committee.max_faulty() > 0 && !(self.repair.no_records && highest == Slot(0)) {
            // At the very beginning, no slot is uncertain for a first incarnation.
            self.repair.uncertain_through = reached;
        }
        self.abstain();
        if self.repair.no_records {
            self.record_started();
        }
        // Only after the record of our silence: with this car, our records look whole.
        if let Some(car) = self.repair.own_car_to_adopt.take() {
            self.lanes.adopt_own_car(&car);
        }
        self.lanes.open_own_lane(self.now);
    }

    /// R5: permanent, so also after the next power cut.
    fn extend_abstention(&mut self, reached: Slot) {
        let mut abstention = self.repair.abstention.take().unwrap_or_default();
        // Without Byzantine validators, every decision needs all votes, so a double vote has no effect.
        if self.committee.max_faulty() > 0 {
            abstention.slots = abstention.slots.max(reached);
            abstention.lanes.resize(self.committee.size(), Position(0));
            for (position, reported) in abstention.lanes.iter_mut().zip(self.reported_positions()) {
                *position = reported.max(*position);
            }
        }
        self.repair.abstention = Some(abstention.clone());
        self.record_abstention(abstention);
    }

    fn abstain(&mut self) {
        let abstention = self.repair.abstention().unwrap_or_default();
        self.lanes.abstain(&abstention.lanes);
        self.slots.abstain(abstention.slots.max(self.repair.uncertain_through));
    }

    // ---- lost incarnations ----------------------------------------------------------------------------------------------------

    /// R5: before a first incarnation signs anything, a quorum (with itself) must have recorded this disk's identifier. So
    /// others know of a lost disk even if they remember no other signature of it. Call it when a quorum is present:
    /// records the identifier, then announces it. Returns true if it was announced or need not be.
    fn announce_disk_if_due(&mut self) -> bool {
        let Some(signer) = self.unannounced_signer() else { return true };
        match self.repair.announcement {
            Announcement::None if self.repair.disk_id.is_some() => self.announce_disk(),
            Announcement::None => self.choose_disk_id(signer.as_ref()),
            Announcement::Recording => {}
            Announcement::Made => return true,
        }
        false
    }

    /// The signer of a first incarnation in a committee with Byzantine members.
    fn unannounced_signer(&self) -> Option<Arc<dyn Signer>> {
        self.signer.clone().filter(|_| self.repair.no_records && self.committee.max_faulty() > 0)
    }

    fn choose_disk_id(&mut self, signer: &dyn Signer) {
        let (validator, disk) = (signer.index(), self.repair.nonce);
        let signature = signer.sign(&self.context.disk_id(validator, disk));
        let disk_id = DiskId { validator, disk, signature };
        (self.repair.disk_id, self.repair.announcement) = (Some(disk_id), Announcement::Recording);
        self.record_disk_id(disk_id);
    }

    pub(crate) fn handle_disk_id_durable(&mut self) {
        self.repair.announcement = Announcement::None;
        self.check_recovery();
    }

    fn announce_disk(&mut self) {
        self.repair.announcement = Announcement::Made;
        self.repair.nonce = self.repair.nonce.wrapping_add(1).max(1);
        self.repair.responses.clear();
        self.broadcast_status();
    }

    /// Per lane, one position above the highest that f + 1 others reported to hold: one of them is honest. An earlier
    /// incarnation may have voted up to there.
    fn reported_positions(&self) -> Vec<Position> {
        let place = self.committee.max_faulty();
        let reported = |lane: ValidatorIndex| {
            let of_lane = self.repair.responses.values().filter_map(|(_, lanes)| lanes.get(lane.as_usize()));
            let mut positions: Vec<_> = of_lane.copied().collect();
            positions.sort_unstable_by(|one, other| other.cmp(one));
            positions.get(place).map_or(Position(0), |position| position.next())
        };
        self.committee.indices().map(reported).collect()
    }

    /// A peer knows a car of ours. If our records lack it, we adopt it only when that is safe: after a power cut
    /// before, we must look as now.
    fn handle_own_car(&mut self, car: &Arc<HashedCar>) {
        if self.repair.may_act() && !self.is_missing(car) {
            self.lanes.adopt_own_car(car);
            return;
        }
        let is_higher = |known: &Arc<HashedCar>| known.position() < car.position();
        if self.repair.own_car_to_adopt.as_ref().is_none_or(is_higher) {
            self.repair.own_car_to_adopt = Some(car.clone());
        }
        self.handle_lost_records(format!("own car {:?} is missing in the records", car.tip()));
    }

    /// Returns true if our records lack this own car: they are outdated, because everything we sent was durable before.
    fn is_missing(&self, car: &HashedCar) -> bool {
        let may_be_later = |own: Tip| car.position() >= own.position && car.tip() != own;
        self.lanes.own_tip().is_some_and(may_be_later) && self.lanes.get(&car.tip()).is_none()
    }

    /// Same check by a certificate or a commit: others hold an own car that our records lack. Must run before the own
    /// lane adopts it.
    pub(crate) fn detect_lost_cars(&mut self) {
        let (Some(me), Some(own)) = (self.me(), self.lanes.own_tip()) else { return };
        let certified = self.lanes.certified(me).map(|certificate| certificate.tip);
        let known = certified.into_iter().chain([self.lanes.executed(me)]).max_by_key(|tip| tip.position);
        let is_lost = |tip: &Tip| tip.position > own.position.max(self.repair.lost);
        if let Some(tip) = known.filter(is_lost).filter(|_| self.repair.may_act()) {
            self.repair.lost = tip.position;
            self.handle_lost_records(format!("own car {tip:?} is missing in the records"));
        }
    }

    /// Same check by a certificate with our signature, if our records contain no vote.
    pub(crate) fn detect_lost_vote(&mut self, slot: Slot) {
        if self.repair.may_act() && !self.repair.lost_records {
            self.handle_lost_records(format!("own vote in {slot:?} is missing in the records"));
        }
    }

    /// We had another disk, and no incarnation on this one knows what happened to it.
    fn handle_own_disk(&mut self, peer_disk: DiskId) {
        let is_other = self.repair.disk_id.is_none_or(|disk_id| disk_id.disk != peer_disk.disk);
        if is_other && !self.repair.lost_records && self.repair.abstention.is_none() {
            self.handle_lost_records(format!("a peer knows another disk of this validator, {:x}", peer_disk.disk));
        }
    }

    fn handle_lost_records(&mut self, detail: String) {
        if !self.repair.lost_records {
            self.trace(TraceEvent::note("history-lost", detail));
        }
        let acted = self.repair.may_act();
        (self.repair.lost_records, self.repair.recovered_at, self.repair.uncertain_through) = (true, None, Slot(0));
        if acted {
            self.lanes.close_own_lane();
            self.slots.abstain(Slot(u64::MAX));
            self.check_recovery();
        }
    }

    // ---- catching up ---------------------------------------------------------------------------------------------------

    /// Learns that a slot was committed.
    pub(crate) fn note_commit(&mut self, from: Option<ValidatorIndex>, slot: Slot) {
        if slot > self.repair.known.0 {
            self.repair.known = (slot, from.or(self.repair.known.1));
        }
        if self.is_behind() && self.repair.commits_at.is_none() {
            self.request_commits(from);
        }
    }

    fn is_behind(&self) -> bool {
        let committed = self.slots.committed();
        self.repair.known.0 > committed && committed.0 - self.order.slot().0 < MAX_UNEXECUTED && self.repair.may_act()
    }

    fn request_commits(&mut self, peer: Option<ValidatorIndex>) {
        let me = self.me();
        let others: Vec<_> = self.committee.indices().filter(|peer| Some(*peer) != me).collect();
        if let Some(peer) = peer.or_else(|| others.get(self.repair.next_peer % others.len().max(1)).copied()) {
            let above = self.slots.committed();
            self.send(peer, &Message::FetchCommits { above });
        }
        self.repair.next_peer += 1;
        self.repair.commits_at = Some(TimestampMs(self.now.0 + self.config.fetch_retry_ms));
    }

    /// SLOT-REPLY.
    pub(crate) fn handle_commits(&mut self, from: ValidatorIndex, commits: Vec<(Cut, CommitQc)>) {
        let before = self.slots.committed();
        if let Some(last) = commits.last().map(|(cut, _)| cut.slot) {
            self.note_commit(Some(from), last);
        }
        self.step_slots(slots::Input::CaughtUp(commits));
        if self.slots.committed() > before {
            self.repair.known.1 = Some(from);
            self.repair.commits_at = None;
            if self.is_behind() {
                self.request_commits(Some(from));
            }
        }
    }

    // ---- timers --------------------------------------------------------------------------------------------------------

    /// Time of the next status messages: soon while starting or while work is pending, later with each attempt. At
    /// rest, all peers get the status once more, one after the other, in case the last message was lost; then there is
    /// silence.
    fn stall_deadline(&self) -> Option<TimestampMs> {
        let is_starting = !self.repair.is_recovered();
        if self.committee.size() == 1 || !is_starting && !self.is_busy() && self.repair.statuses_due == 0 {
            return None;
        }
        let soon = stall_timeout_ms(&self.config).saturating_mul(1 << self.repair.attempts.min(16)).min(self.config.status_ms);
        let wait = if is_starting || self.is_busy() { soon } else { self.config.status_ms };
        Some(TimestampMs(self.repair.progress_at.max(self.repair.status_sent_at).0.saturating_add(wait)))
    }

    fn is_busy(&self) -> bool {
        self.slots.committed() > self.order.slot() || self.slots.deadline().is_some() || self.is_behind()
    }

    /// If the network does not progress without us, our doubts must not block it.
    fn uncertain_deadline(&self) -> Option<TimestampMs> {
        let since = self.repair.recovered_at.filter(|_| self.repair.uncertain_through > Slot(0))?;
        Some(TimestampMs(since.max(self.repair.progress_at).0.saturating_add(stall_timeout_ms(&self.config))))
    }

    pub(crate) fn repair_deadline(&self) -> Option<TimestampMs> {
        let commits = self.repair.commits_at.filter(|_| self.is_behind());
        [self.stall_deadline(), self.uncertain_deadline(), commits].into_iter().flatten().min()
    }

    /// Called at every deadline.
    pub(crate) fn repair_if_due(&mut self) {
        if self.uncertain_deadline().is_some_and(|at| at <= self.now) {
            self.repair.uncertain_through = Slot(0);
            self.abstain();
            self.step_slots(slots::Input::Lanes);
        }
        if self.repair.commits_at.take_if(|at| *at <= self.now).is_some() && self.is_behind() {
            self.request_commits(None);
        }
        if self.stall_deadline().is_some_and(|at| at <= self.now) {
            let busy = self.is_busy() || !self.repair.is_recovered();
            self.repair.status_sent_at = self.now;
            self.repair.attempts = self.repair.attempts.saturating_add(1);
            if busy { self.broadcast_status() } else { self.send_next_status() }
        }
    }

    fn send_next_status(&mut self) {
        let me = self.me();
        let others: Vec<_> = self.committee.indices().filter(|peer| Some(*peer) != me).collect();
        self.repair.next_peer += 1;
        self.repair.statuses_due = self.repair.statuses_due.saturating_sub(1);
        self.send_status(others[self.repair.next_peer % others.len()]);
    }
}
