//! Turns committed cuts into deliveries, in slot order (O1–O5, N7), and prunes executed data (G1, G3).

use crate::{
    engine::Autobahn,
    journal::{AfterDurable, RecordKey},
    message::{CommitQc, Cut, Slot, Tip},
    record::Record,
};
use corniche_engine::{Output, TraceEvent};
use std::sync::Arc;

/// Number of committed slots whose cars are fetched ahead, in slot order (row 36: earlier slots are executed first).
const MAX_FETCH_AHEAD: u64 = 16;
/// Number of slots, in addition to `retain_slots`, by which execution may lag behind agreement. A validator that lags
/// further cannot get its missing data, and takes no part in agreement; otherwise its commits would pile up for ever.
pub(crate) const MAX_LAG: u64 = 256;
/// Factor of the retention limits for slots that no quorum is known to have executed.
pub(crate) const UNCERTIFIED_FACTOR: u64 = 4;

/// The committed value of a slot.
pub(crate) struct Commit {
    pub cut: Arc<Cut>,
    pub certificate: CommitQc,
    pub is_durable: bool,
    /// Urgency with which its cars were requested.
    fetch_urgency: FetchUrgency,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FetchUrgency {
    No,
    Early,
    /// As cars of the slot that is executed next.
    Next,
}

impl Commit {
    pub fn new(cut: Arc<Cut>, certificate: CommitQc, is_durable: bool) -> Self {
        Self { cut, certificate, is_durable, fetch_urgency: FetchUrgency::No }
    }
}

impl Autobahn {
    /// Returns true if execution lags so far behind agreement that no peer keeps the missing data.
    pub(crate) fn is_left_behind(&self) -> bool {
        let lag = self.slots.committed().0.saturating_sub(self.order.slot().0);
        lag > self.config.retain_slots.saturating_add(MAX_LAG)
    }

    /// C8: the commit must be durable before it is executed.
    pub(crate) fn handle_commit(&mut self, cut: Arc<Cut>, certificate: CommitQc) {
        let slot = certificate.slot;
        self.repair.progress(self.now);
        if self.commits.contains_key(&slot) || slot <= self.order.slot() {
            return;
        }
        let leader = self.schedule.leader(slot, certificate.view);
        let why = format!("{:?} in view {}", certificate.kind, certificate.view.0).to_lowercase();
        self.trace(TraceEvent::Decided { round: slot.0, rank: 0, leader, committed: Some(certificate.cut), why });
        let record = Record::Commit((*cut).clone(), certificate.clone());
        self.persist(RecordKey::Commit(slot), &record, Some(AfterDurable::Commit(slot)));
        self.commits.insert(slot, Commit::new(cut, certificate, false));
        self.is_fetch_due = true;
        self.drop_bodies();
    }

    /// Y4: drops bodies that no vote waits for, and that neither an open slot nor a committed one names.
    pub(crate) fn drop_bodies(&mut self) {
        let (slots, commits) = (&self.slots, self.commits.range(Slot(self.order.slot().0 + 1)..));
        let is_committed = |tip: &Tip| commits.clone().any(|(_, commit)| commit.cut.contains_tip(tip));
        self.lanes.drop_bodies(|slot| slots.awaits_bodies(Slot(slot.0)), |tip| slots.contains_tip(tip) || is_committed(tip));
    }

    /// O1: executes the next slot. Returns true if a slot was executed.
    pub(crate) fn execute_next(&mut self) -> bool {
        if self.is_halted || !self.repair.may_deliver() {
            return false;
        }
        if std::mem::take(&mut self.is_fetch_due) {
            self.fetch_committed();
        }
        let next = Slot(self.order.slot().0 + 1);
        let Some(commit) = self.commits.get(&next).filter(|commit| commit.is_durable) else { return false };
        let cut = commit.cut.clone();
        let Some(ordered) = self.order.execute(&cut, |tip| self.lanes.chain(tip)) else { return false };
        let detail = format!("{} with {} cars", ordered.index, ordered.batches.len());
        self.trace(TraceEvent::note("commit", detail));
        self.trace(TraceEvent::Delivered { round: next.0, rank: 0, commit: ordered.index });
        self.outputs.push_back(Output::Deliver(ordered));
        self.repair.progress(self.now);
        self.lanes.execute(&cut.tips);
        self.floors.push_back((next, self.order.executed().iter().map(|tip| tip.position).collect()));
        self.is_fetch_due = true;
        self.drop_bodies();
        self.collect_garbage();
        true
    }

    /// Fetches missing cars of committed slots, earlier slots first (Y3).
    fn fetch_committed(&mut self) {
        let executed = self.order.slot().0;
        let mut above: Vec<_> = self.order.executed().iter().map(|tip| tip.position).collect();
        for (slot, commit) in self.commits.range_mut(Slot(executed + 1)..=Slot(executed + MAX_FETCH_AHEAD)) {
            // Once ahead of its turn if there is room, and once when it is next, on the forks that earlier slots left.
            let urgency = if slot.0 == executed + 1 { FetchUrgency::Next } else { FetchUrgency::Early };
            if urgency > std::mem::replace(&mut commit.fetch_urgency, urgency) {
                // Y4, Y5: the certificate's signers hold the uncertified tips. Certified tips have their own signers,
                // who were asked when the cut was proposed. A validator that executed the slot holds everything.
                let mut sources = self.repair.holder_of(*slot).into_iter().collect::<Vec<_>>();
                sources.extend(&commit.certificate.proof.signers);
                sources.extend(self.committee.indices());
                for tip in &commit.cut.tips {
                    let above = above[tip.lane.as_usize()];
                    if urgency == FetchUrgency::Next {
                        self.lanes.fetch_history(self.now, *tip, above, &sources);
                    } else {
                        self.lanes.fetch_early(self.now, *tip, above, &sources);
                    }
                }
            }
            for (position, tip) in above.iter_mut().zip(&commit.cut.tips) {
                *position = tip.position.max(*position);
            }
        }
    }

    /// A certificate covers the state after this slot: a quorum executed it, and so honest others did.
    pub(crate) fn handle_certified(&mut self, slot: Slot) {
        self.certified = self.certified.max(slot);
        self.collect_garbage();
    }

    /// G1, G3: drops executed slots older than `retain_slots` or beyond the byte limit, from memory and disk. Slots are
    /// dropped as a whole, because a cut is useless without its cars. The cars of the last slot are always kept, and
    /// the commits that open slots need.
    ///
    /// Cars of slots without a certificate may exist nowhere else, so their limits are [`UNCERTIFIED_FACTOR`] times as
    /// high. The limits are absolute even so: validators with F votes may be silent for ever while as many more are down, and then no
    /// certificate comes.
    fn collect_garbage(&mut self) {
        let executed = self.order.slot();
        let below = |slots: u64| Slot(executed.0.saturating_sub(slots));
        let retained = self.config.retain_slots;
        let uncertified = below(retained.saturating_mul(UNCERTIFIED_FACTOR));
        let mut forgotten = below(retained).min(self.certified.max(uncertified));
        while self.floors.front().is_some_and(|(slot, _)| self.exceeds_retention(*slot)) {
            let (slot, positions) = self.floors.pop_front().expect("front exists");
            self.lanes.forget(&positions);
            forgotten = forgotten.max(slot);
        }
        forgotten = forgotten.min(below(2 * self.config.open_slots));
        if self.commits.first_key_value().is_some_and(|(slot, _)| *slot <= forgotten) {
            self.commits = self.commits.split_off(&Slot(forgotten.0 + 1));
        }
        self.release_records();
    }

    /// Returns true if the oldest retained slot must be dropped. With a certificate, each lane has its own byte limit:
    /// one that floods does not fill the others' share.
    fn exceeds_retention(&self, oldest: Slot) -> bool {
        let is_certified = oldest <= self.certified;
        let factor = if is_certified { 1 } else { UNCERTIFIED_FACTOR };
        let max_slots = self.config.retain_slots.saturating_mul(factor);
        let slots = self.floors.len() as u64;
        let is_large = if is_certified {
            self.lanes.max_retained_per_lane() > self.config.lane_bytes
        } else {
            let all = self.config.lane_bytes.saturating_mul(self.committee.size() as u64);
            self.lanes.retained() > all.saturating_mul(factor)
        };
        slots > max_slots || slots > 1 && is_large
    }
}
