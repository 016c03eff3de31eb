//! Recovery (R5): finds out if records of an earlier incarnation are missing, and which votes it may have cast.

use super::Announcement;
use crate::{
    engine::Autobahn,
    keys::{Authored, Signer},
    message::{DiskId, HashedCar, Position, Slot, Tip},
};
use corniche_engine::{Output, TraceEvent};
use corniche_types::{ValidatorIndex, Votes};
use std::sync::Arc;

impl Autobahn {
    /// R5, see the README: if our records look whole, a quorum including ourselves is enough. If we know that we
    /// forgot, every quorum must contain an honest one of the respondents. All others are always enough.
    pub(super) fn check_recovery(&mut self) {
        if self.repair.is_recovered() {
            return;
        }
        let beyond_doubt = self.committee.beyond_doubt();
        let others = self.committee.quorum() - self.me().map_or(Votes(0), |me| self.committee.votes(me));
        let needed = if self.repair.lost_records { beyond_doubt.max(others) } else { others };
        let votes = self.committee.weigh(self.repair.responses.keys().copied());
        let is_enough = votes >= needed || self.repair.responses.len() >= self.committee.size() - 1;
        if !is_enough || !self.announce_disk_if_due() {
            return;
        }
        self.repair.recovered_at = Some(self.now);
        self.repair.progress(self.now);
        let highest =
            self.repair.responses.values().map(|(slot, _)| *slot).max().unwrap_or(Slot(0)).max(self.slots.committed());
        let reached = self.reached(highest);
        self.repair.uncertain_through = Slot(0);
        if self.repair.lost_records {
            self.extend_abstention(reached);
        } else if self.committee.max_faulty() > Votes(0) && !(self.repair.no_records && highest == Slot(0)) {
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

    /// Last slot in which an earlier incarnation may have voted, if this is the highest one that respondents had committed. A vote in
    /// slot s needed the commit of s − k, and that one needed votes of validators that had seen the commit of s − 2k. One of
    /// them responded. It may lack up to k commits without gaps.
    fn reached(&self, committed: Slot) -> Slot {
        Slot(committed.0.saturating_add(3 * self.config.open_slots))
    }

    /// K5 of validators.md: an earlier incarnation ended before the peers responded. A vote in a later slot is another process's.
    fn check_twin(&mut self, slot: Slot) {
        let first = &self.repair.first_committed;
        let beyond_doubt = self.committee.beyond_doubt();
        let votes = self.committee.weigh(first.keys().copied());
        let all_responded = first.len() >= self.committee.size() - 1;
        if self.repair.has_twin || votes < beyond_doubt && !all_responded {
            return;
        }
        let highest = first.values().max().copied().unwrap_or(Slot(0));
        if slot > self.reached(highest) {
            self.repair.has_twin = true;
            let detail = format!("a vote in slot {}, and no peer had committed more than slot {}", slot.0, highest.0);
            self.outputs.push_back(Output::Twin(detail));
        }
    }

    /// R5: permanent, so also after the next power cut.
    fn extend_abstention(&mut self, reached: Slot) {
        let mut abstention = self.repair.abstention.take().unwrap_or_default();
        // Without Byzantine validators, every decision needs all votes, so a double vote has no effect.
        if self.committee.max_faulty() > Votes(0) {
            abstention.slots = abstention.slots.max(reached);
            abstention.lanes.resize(self.committee.size(), Position(0));
            for (position, reported) in abstention.lanes.iter_mut().zip(self.reported_positions()) {
                *position = reported.max(*position);
            }
        }
        self.repair.abstention = Some(abstention.clone());
        self.record_abstention(abstention);
    }

    pub(super) fn abstain(&mut self) {
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
    pub(super) fn unannounced_signer(&self) -> Option<Arc<dyn Signer>> {
        self.signer.clone().filter(|_| self.repair.no_records && self.committee.max_faulty() > Votes(0))
    }

    pub(super) fn choose_disk_id(&mut self, signer: &dyn Signer) {
        let (validator, disk) = (signer.index(), self.repair.nonce);
        let signature = signer.sign(&Authored::Disk(disk), &self.context.disk_id(validator, disk));
        // Asked for again with the next response of a peer.
        let Some(signature) = signature else { return };
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

    /// Per lane, one position above the highest that others with F + 1 votes reported to hold: one of them is honest. An
    /// earlier incarnation may have voted up to there.
    fn reported_positions(&self) -> Vec<Position> {
        let reported = |lane: ValidatorIndex| {
            let responses = self.repair.responses.iter();
            let positions = responses.filter_map(|(peer, (_, lanes))| Some((*peer, *lanes.get(lane.as_usize())?)));
            let reached = self.committee.weights().reached(positions, self.committee.validity());
            reached.map_or(Position(0), Position::next)
        };
        self.committee.indices().map(reported).collect()
    }

    /// A peer knows a car of ours. If our records lack it, we adopt it only when that is safe: after a power cut
    /// before, we must look as now.
    pub(super) fn handle_own_car(&mut self, car: &Arc<HashedCar>) {
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
        self.check_twin(slot);
        if self.repair.may_act() && !self.repair.lost_records {
            self.handle_lost_records(format!("own vote in {slot:?} is missing in the records"));
        }
    }

    /// We had another disk, and no incarnation on this one knows what happened to it.
    pub(super) fn handle_own_disk(&mut self, peer_disk: DiskId) {
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
}
