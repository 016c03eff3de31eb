//! Normal case: packets to log entries, REPLYs to finality, final slots to commits (N1–N3, §5.3).
//!
//! Every replica is the client of every slot: it accepts a slot when members with a quorum of votes replied with a log-hash that
//! equals its own at their slots. REPLYs are cumulative, because a log-hash proves the whole prefix.

use crate::{
    engine::{AfterDurable, Neobft},
    message::{Entry, Message, Slot, View},
    order::{BatchContent, Effect},
    record::Record,
};
use corniche_aom_receiver::{Delivery, Output as ReceiverOutput, Suspicion};
use corniche_engine::Output;
use corniche_types::{B256, Bytes, ValidatorIndex};
use std::collections::BTreeMap;

/// Maximum number of REPLYs of one member for slots that the own log has not reached.
const MAX_WAITING_REPLIES: usize = 128;

/// REPLYs in the current view.
#[derive(Default)]
pub(crate) struct Replies {
    /// Per member: the highest slot with the own log-hash.
    matched: BTreeMap<ValidatorIndex, Slot>,
    /// Per member: REPLYs that the own log cannot confirm yet.
    waiting: BTreeMap<ValidatorIndex, BTreeMap<Slot, B256>>,
    /// The newest REPLY of each member in a later view.
    later: BTreeMap<ValidatorIndex, (View, Slot, B256)>,
    /// The own REPLY that was sent last.
    sent: Option<(View, Slot, B256)>,
}

impl Replies {
    pub fn count(&self) -> usize {
        self.waiting.values().map(BTreeMap::len).sum()
    }

    /// The highest slot that a member replied for, with that member.
    pub fn highest(&self) -> Option<(Slot, ValidatorIndex)> {
        let waiting = self.waiting.iter().filter_map(|(member, waiting)| Some((*waiting.last_key_value()?.0, *member)));
        waiting.chain(self.matched.iter().map(|(member, slot)| (*slot, *member))).max()
    }

    /// Members whose newest REPLY is of a later view.
    pub fn ahead(&self, view: View) -> Option<ValidatorIndex> {
        self.later.iter().find(|(_, (later, ..))| *later > view).map(|(member, _)| *member)
    }

    /// A rollback: REPLYs match at most this slot now.
    pub fn roll_back(&mut self, to: Slot) {
        self.matched.values_mut().for_each(|slot| *slot = to.min(*slot));
    }

    /// A view begins: REPLYs of earlier views do not count. Returns the ones that came early.
    pub fn enter(&mut self, view: View) -> Vec<(ValidatorIndex, Slot, B256)> {
        let later = std::mem::take(&mut self.later);
        *self = Self::default();
        let mut early = Vec::new();
        for (member, (of, slot, hash)) in later {
            if of == view {
                early.push((member, slot, hash));
            } else if of > view {
                self.later.insert(member, (of, slot, hash));
            }
        }
        early
    }

    pub fn describe(&self) -> String {
        format!("{:?} waiting {:?} later {:?}", self.matched, self.waiting, self.later.keys().collect::<Vec<_>>())
    }
}

impl Neobft {
    /// Requests of the receiver: CONFIRMs to send (L4), and news about the sequencer (E1, E3).
    pub(crate) fn drain_receiver(&mut self) {
        while let Some(output) = self.receiver.poll() {
            match output {
                ReceiverOutput::Confirm { epoch, from, digests } => {
                    if self.is_forgetful() || epoch < self.promises.confirms_from {
                        // S5, pitfall 16: it may have confirmed other digests.
                        continue;
                    }
                    let statement = self.context.confirm(epoch, from, &digests);
                    let Some(signature) = self.sign(&statement) else { continue };
                    let last = from + digests.len() as u64;
                    let vote = corniche_aom_receiver::ConfirmVote { member: self.me, from, digests, signature };
                    // Pitfall 16.
                    let record = Record::Confirm { epoch, vote: vote.clone() };
                    let ticket = self.persist(&record, Some(AfterDurable::AomConfirm(epoch, vote)));
                    self.journal.confirm(ticket, epoch, last);
                }
                ReceiverOutput::Started => self.restart_requests(),
                ReceiverOutput::Suspect(suspicion) => {
                    let detail = match suspicion {
                        Suspicion::Jump { seq } => {
                            self.faults.jump = self.faults.jump.max(Some(seq));
                            format!("the sequence jumped to {seq}")
                        }
                        Suspicion::Equivocation { seq } => {
                            self.faults.equivocates = true;
                            format!("two packets have number {seq}")
                        }
                    };
                    self.suspect_sequencer(detail);
                }
            }
        }
    }

    /// N1, N3: takes packets from the receiver while the log has no unresolved slot.
    pub(crate) fn advance_log(&mut self) {
        while self.is_normal() && self.goal.is_none() {
            let slot = self.log.end().next();
            if slot.0 > self.log.finalized().0 + self.config.open_slots || slot.0 > self.log_start().0 + self.config.max_log() {
                return;
            }
            let Some(seq) = self.seq(slot).filter(|_| self.receiver.epoch() == self.view().epoch) else { return };
            if self.receiver.next() != seq {
                self.receiver.set_next(seq);
            }
            // G9: a decision that came before the log reached the slot.
            if let Some(proof) = self.gaps.get_mut(&slot).and_then(|gap| gap.drop.take()) {
                self.append(Entry::NoOp(proof));
                continue;
            }
            // G5: after a GAP-DROP neither a QUERY-REPLY nor a late packet counts, only the decision.
            if self.is_blocked(slot) {
                return;
            }
            match self.receiver.peek() {
                // N1: the receiver does not go back to numbers that it released.
                Some(Delivery::Packet(packet)) if packet.seq != seq => return,
                Some(Delivery::Packet(packet)) => {
                    let packet = packet.clone();
                    self.requests.note_in_log(&packet.payload, slot);
                    self.append(Entry::Request(packet));
                }
                Some(Delivery::Dropped) => return self.handle_drop_notification(slot),
                None => return,
            }
        }
    }

    /// Appends an entry and makes it durable.
    pub(crate) fn append(&mut self, entry: Entry) {
        let record_entry = entry.clone();
        let (before, _) = self.log.push(entry);
        let slot = self.log.end();
        let record = Record::Entry { slot, before, entry: record_entry };
        let ticket = self.persist(&record, Some(AfterDurable::Entry(slot)));
        self.journal.entry(slot, ticket);
        self.trace_entry(slot);
        self.match_replies();
        if let Some(seq) = self.seq(slot)
            && self.receiver.epoch() == self.view().epoch
        {
            self.receiver.set_next(seq + 1);
        }
    }

    /// Drops the log after `to`. Returns false if something final would be dropped: then the engine stops.
    pub(crate) fn roll_back(&mut self, to: Slot) -> bool {
        if !self.log.truncate(to) {
            self.halt(format!("rollback to slot {}, but slot {} is final", to.0, self.log.finalized().0));
            return false;
        }
        self.journal.truncate(to);
        self.replies.roll_back(to);
        self.hints.roll_back(to);
        true
    }

    pub(crate) fn handle_reply(&mut self, from: ValidatorIndex, view: View, slot: Slot, hash: B256) {
        if view > self.view() {
            self.replies.later.insert(from, (view, slot, hash));
        } else if view == self.view() {
            self.take_reply(from, slot, hash);
        }
    }

    pub(crate) fn take_reply(&mut self, from: ValidatorIndex, slot: Slot, hash: B256) {
        if slot <= self.log.finalized() {
            return;
        }
        if self.log.hash(slot) == Some(hash) {
            let matched = self.replies.matched.entry(from).or_default();
            *matched = slot.max(*matched);
            return;
        }
        let waiting = self.replies.waiting.entry(from).or_default();
        waiting.insert(slot, hash);
        if waiting.len() > MAX_WAITING_REPLIES {
            waiting.pop_first();
        }
    }

    /// Counts waiting REPLYs that the log has reached.
    pub(crate) fn match_replies(&mut self) {
        let end = self.log.end();
        for (member, waiting) in &mut self.replies.waiting {
            let matching = waiting.range(..=end).rev().find(|(slot, hash)| self.log.hash(**slot) == Some(**hash));
            if let Some(slot) = matching.map(|(slot, _)| *slot) {
                let matched = self.replies.matched.entry(*member).or_default();
                *matched = slot.max(*matched);
                *waiting = waiting.split_off(&slot.next());
            }
        }
    }

    /// C2: a slot is final when members with a quorum of votes replied with the own log-hash, in this view.
    pub(crate) fn update_finality(&mut self) {
        let mut named = self.replies.matched.clone();
        if self.has_entered && self.may_vote() {
            named.insert(self.me, self.log.durable());
        }
        let Some(slot) = self.committee.weights().reached(named, self.committee.quorum()) else { return };
        if slot > self.log.finalized() {
            self.log.finalize(slot);
            (self.progress_at, self.failed_views) = (self.now, 0);
            self.trust_leader();
            let finalized = self.log.finalized();
            self.sync.attested = self.sync.attested.split_off(&finalized.next());
            for waiting in self.replies.waiting.values_mut() {
                *waiting = waiting.split_off(&finalized.next());
            }
            if let Some(seq) = self.seq(finalized).filter(|_| self.receiver.epoch() == self.view().epoch) {
                self.receiver.release(seq);
                self.journal.release_confirms(self.view().epoch, seq);
            }
        }
    }

    /// Executes final and durable slots, in order (N3). A missing body blocks only this.
    pub(crate) fn execute(&mut self) {
        while !self.is_halted && self.order.slot() < self.log.finalized().min(self.log.durable()) {
            let slot = self.order.slot().next();
            let Some(effect) = self.effect(slot) else { return };
            let batch = match &effect {
                Effect::Batch { content: BatchContent::Inline(batch), .. } => batch.clone(),
                Effect::Batch { content: BatchContent::Body(body, holders), .. } => match self.bodies.get(body) {
                    Some(batch) => batch,
                    None => {
                        let (body, holders) = (*body, holders.clone());
                        return self.fetch_body(body, holders);
                    }
                },
                Effect::None | Effect::Clock { .. } => Bytes::new(),
            };
            let Some((entry, hash)) = self.log.get(slot).zip(self.log.hash(slot)) else { return };
            let ordered = self.order.execute(slot, entry, hash, &effect, batch);
            self.trace_commit(slot, ordered.leader, ordered.index);
            self.outputs.push_back(Output::Deliver(ordered));
            self.handle_executed(slot, hash, &effect);
        }
    }

    /// Sends one REPLY for the newest durable slot since the last one.
    pub(crate) fn send_reply(&mut self) {
        let slot = self.log.durable();
        let Some(hash) = self.log.hash(slot) else { return };
        let reply = (self.view(), slot, hash);
        if self.is_halted || !self.may_vote() || !self.has_entered || self.replies.sent == Some(reply) || slot == Slot(0) {
            return;
        }
        // A new view is confirmed by a REPLY even if it brings no new slot.
        self.replies.sent = Some(reply);
        let view = self.view();
        if self.is_sync_due(slot) {
            self.send_sync();
        } else {
            self.broadcast(&Message::Reply { view, slot, hash });
        }
    }
}
