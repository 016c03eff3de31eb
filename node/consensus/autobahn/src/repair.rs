//! Start-up, recovery and catching up (R2, R5). No decision depends on this module; `serve` contains the responses.
//!
//! **Recovery.** A validator whose disk was lost or restored from a backup must not vote twice in a slot, nor fork its
//! lane. So on every start it asks its peers three things: how far they have come, its own highest car that they know,
//! and the first disk that it announced to them. The latter two are signed: a liar can withhold but not invent them.
//! The README contains the argument.

mod recovery;

use crate::{
    config::Config,
    engine::Autobahn,
    message::{CommitQc, Cut, DiskId, HashedCar, Message, Position, Slot, Status},
    record::{Abstention, Record},
    serve::Request,
    slots,
};
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
    /// Highest slot that each peer had committed when it responded first since this start.
    first_committed: BTreeMap<ValidatorIndex, Slot>,
    /// A twin was reported.
    has_twin: bool,
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
            first_committed: BTreeMap::new(),
            has_twin: false,
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
            self.repair.first_committed.entry(from).or_insert(committed);
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
