//! Drops: QUERY, and the agreement on one slot (G1–G11, §5.4).

use crate::{
    engine::{AfterDurable, Neobft},
    keys::Signature,
    message::{DropProof, Entry, GapEvidence, GapVote, Message, Slot, Statement, Value, View},
    record::Record,
    rules::{is_quorum, votes_for},
};
use corniche_aom_receiver::OrderingCertificate;
use corniche_engine::Recipients;
use corniche_types::ValidatorIndex;
use std::collections::BTreeMap;

/// Maximum distance of a gap's slot from the last final one.
const MAX_AHEAD: u64 = 2_048;
/// Maximum number of slots for which a leader runs agreement at once.
const MAX_FINDS: usize = 64;

/// Agreement on one slot of the current view. Dropped with the log's entry, or when the view ends (V8).
#[derive(Default)]
pub(crate) struct Gap {
    /// This replica leads the view and looks for the packet (G4).
    is_finding: bool,
    /// The leader looks for the packet, and waits for this replica's answer (G5).
    is_asked: bool,
    /// A record of the own GAP-DROP was written; true once it is on disk.
    pub block: Option<bool>,
    /// GAP-DROPs, at the leader.
    drops: BTreeMap<ValidatorIndex, Signature>,
    /// The packet, from GAP-RECVs and the own receiver, at the leader. The first one decides. The decision is repeated with each in
    /// turn (pitfall 6).
    received: BTreeMap<ValidatorIndex, OrderingCertificate>,
    /// Sender of the certificate that was repeated last.
    shown: Option<ValidatorIndex>,
    /// The leader's decision.
    decision: Option<(Value, Signature, GapEvidence)>,
    /// The record of the own GAP-DECISION or GAP-PREPARE is on disk.
    has_voted: bool,
    prepares: BTreeMap<ValidatorIndex, (Value, Signature)>,
    is_prepared: bool,
    /// The record of the own GAP-COMMIT is on disk.
    has_prepared: bool,
    commits: BTreeMap<ValidatorIndex, (Value, Signature)>,
    /// Value with a quorum of GAP-COMMITs.
    committed: Option<Value>,
    /// A gap certificate for a slot that the log has not reached.
    pub drop: Option<DropProof>,
}

impl Gap {
    pub fn describe(&self) -> String {
        format!(
            "find {} asked {} drops {:?} decision {:?} prepares {:?} commits {:?} committed {:?}",
            self.is_finding,
            self.is_asked,
            self.drops.keys().collect::<Vec<_>>(),
            self.decision.as_ref().map(|(value, ..)| value),
            self.prepares.keys().collect::<Vec<_>>(),
            self.commits.keys().collect::<Vec<_>>(),
            self.committed
        )
    }
}

impl Neobft {
    /// Returns true if this replica sent GAP-DROP for the slot and no decision to receive is committed.
    pub(crate) fn is_blocked(&self, slot: Slot) -> bool {
        let is_received = self.gaps.get(&slot).is_some_and(|gap| matches!(gap.committed, Some(Value::Receive { .. })));
        self.promises.blocked.contains(&slot) && !is_received
    }

    /// The gap of a slot, if messages about it count: in this view, while normal, near the log's end. It may be final here: a
    /// leader that lost the packet needs the others' votes even so.
    fn gap(&mut self, view: View, slot: Slot) -> Option<&mut Gap> {
        let is_near = slot > self.log.floor() && slot.0 <= self.log.finalized().0 + MAX_AHEAD;
        (view == self.view() && self.is_normal() && is_near && slot > self.promises.start())
            .then(|| self.gaps.entry(slot).or_default())
    }

    /// G1, G4: the receiver reports that the packet of the next slot is lost.
    pub(crate) fn handle_drop_notification(&mut self, slot: Slot) {
        // Repeated until the slot is resolved.
        if self.sync.newest_dropped != slot {
            self.sync.newest_dropped = slot;
            self.sync.dropped += 1;
        }
        if self.is_leader() {
            let numbers = self.receiver.dropped(MAX_FINDS);
            let base = self.base().0;
            numbers.into_iter().for_each(|seq| self.find(Slot(base + seq)));
        } else if self.sync.queried < slot {
            self.sync.queried = slot;
            let leader = self.leader();
            self.send(leader, Message::Query { from: slot });
        }
    }

    /// G4.
    fn find(&mut self, slot: Slot) {
        let view = self.view();
        let may_vote = self.may_vote();
        let Some(gap) = self.gap(view, slot).filter(|gap| may_vote && !gap.is_finding) else { return };
        gap.is_finding = true;
        gap.is_asked = true;
        self.broadcast(&Message::GapFind { view, slot });
        self.respond_to_find(slot);
    }

    pub(crate) fn handle_gap_find(&mut self, view: View, slot: Slot) {
        if view != self.view() || !self.is_normal() {
            return;
        }
        let leader = self.leader();
        match self.log.get(slot).cloned() {
            Some(Entry::Request(certificate)) => self.send(leader, Message::GapReceive { view, slot, certificate }),
            // The leader missed the decision.
            Some(Entry::NoOp(_)) => self.handle_query(leader, slot),
            None => {
                if let Some(gap) = self.gap(view, slot) {
                    gap.is_asked = true;
                    self.respond_to_find(slot);
                }
            }
        }
    }

    /// G5: GAP-RECV if the packet is here, GAP-DROP after a drop notification, otherwise nothing yet.
    fn respond_to_find(&mut self, slot: Slot) {
        let Some(seq) = self.seq(slot).filter(|_| self.receiver.epoch() == self.view().epoch) else { return };
        let (view, leader) = (self.view(), self.leader());
        if self.promises.blocked.contains(&slot) {
            self.gaps.entry(slot).or_default().is_asked = false;
            return self.sign_gap_drop(slot);
        }
        if let Some(certificate) = self.receiver.get(seq).cloned() {
            self.gaps.entry(slot).or_default().is_asked = false;
            if self.is_leader() {
                self.gaps.entry(slot).or_default().received.insert(self.me, certificate);
                return self.decide(slot);
            }
            return self.send(leader, Message::GapReceive { view, slot, certificate });
        }
        if self.receiver.is_dropped(seq) && self.may_vote() && self.log.get(slot).is_none() {
            self.gaps.entry(slot).or_default().is_asked = false;
            self.promises.blocked.insert(slot);
            self.sign_gap_drop(slot);
        }
    }

    /// Signs a GAP-DROP, and sends it when its record is on disk. A repeated one needs no other record.
    fn sign_gap_drop(&mut self, slot: Slot) {
        let view = self.view();
        if !self.may_vote() {
            return;
        }
        let Some(signature) = self.sign(&Statement::GapDrop { view, slot }) else { return };
        let block = &mut self.gaps.entry(slot).or_default().block;
        match *block {
            Some(true) => self.send_gap_drop(view, slot, signature),
            Some(false) => {}
            None => {
                *block = Some(false);
                self.persist(&Record::Blocked { view, slot }, Some(AfterDurable::GapDrop(view, slot, signature)));
            }
        }
    }

    pub(crate) fn send_gap_drop(&mut self, view: View, slot: Slot, signature: Signature) {
        if view != self.view() || !self.may_vote() {
            return;
        }
        self.gaps.entry(slot).or_default().block = Some(true);
        if self.is_leader() {
            return self.handle_gap_drop(self.me, view, slot, signature);
        }
        let leader = self.leader();
        self.send(leader, Message::GapDrop { view, slot, signature });
    }

    pub(crate) fn handle_gap_receive(
        &mut self,
        from: ValidatorIndex,
        view: View,
        slot: Slot,
        certificate: OrderingCertificate,
    ) {
        if view != self.view() || !self.is_leader() || !self.is_valid_for(&certificate, slot) {
            return;
        }
        let Some(gap) = self.gap(view, slot).filter(|gap| gap.is_finding && gap.committed.is_none()) else { return };
        // G6: the first valid one decides.
        gap.received.entry(from).or_insert(certificate);
        self.decide(slot);
    }

    /// Pitfall 6: others may be unable to check the certificate that decided. The decision's signature covers only its value.
    fn show_spare(&mut self, slot: Slot) {
        let Some(gap) = self.gaps.get_mut(&slot) else { return };
        let Some((value, _, GapEvidence::Receive(evidence))) = &mut gap.decision else { return };
        let equal = || gap.received.iter().filter(|(_, other)| self.context.value(other) == *value);
        let next = equal().find(|(member, _)| gap.shown.is_none_or(|shown| **member > shown)).or_else(|| equal().next());
        if let Some((member, spare)) = next {
            evidence.clone_from(spare);
            gap.shown = Some(*member);
        }
    }

    /// Pitfall 5: only GAP-DROPs of exactly this view.
    pub(crate) fn handle_gap_drop(&mut self, from: ValidatorIndex, view: View, slot: Slot, signature: Signature) {
        if !self.is_leader() {
            return;
        }
        let Some(gap) = self.gap(view, slot).filter(|gap| gap.is_finding) else { return };
        gap.drops.insert(from, signature);
        self.decide(slot);
    }

    /// G6: the leader decides at one packet, or at GAP-DROPs with a quorum of votes.
    fn decide(&mut self, slot: Slot) {
        let view = self.view();
        let voted = self.promises.voted.get(&slot).copied();
        if !self.may_vote() {
            return;
        }
        let Some(gap) = self.gaps.get(&slot).filter(|gap| gap.is_finding && gap.decision.is_none()) else { return };
        let is_quorum = self.committee.weigh(gap.drops.keys().copied()) >= self.committee.quorum();
        let receive =
            |certificate: &OrderingCertificate| (self.context.value(certificate), GapEvidence::Receive(certificate.clone()));
        let drops = || gap.drops.iter().map(|(member, signature)| (*member, *signature)).collect();
        let drop = is_quorum.then(|| (Value::Drop, GapEvidence::Drop(drops())));
        // After a restart only the value that was decided before.
        let choice =
            gap.received.values().map(receive).chain(drop).find(|(value, _)| voted.is_none_or(|voted| voted == *value));
        let Some((value, evidence)) = choice else { return };
        let Some(signature) = self.sign(&Statement::GapDecision { view, slot, value }) else { return };
        if let Some(gap) = self.gaps.get_mut(&slot) {
            gap.decision = Some((value, signature, evidence));
        }
        self.promises.voted.insert(slot, value);
        self.persist(&Record::Voted { view, slot, value }, Some(AfterDurable::Voted(view, slot)));
    }

    /// The record of the own GAP-DECISION or GAP-PREPARE is on disk.
    pub(crate) fn handle_voted(&mut self, view: View, slot: Slot) {
        if let Some(gap) = self.gaps.get_mut(&slot).filter(|_| view == self.promises.view()) {
            gap.has_voted = true;
            self.send_decision(view, slot);
            self.send_prepare(view, slot);
        }
    }

    /// The record of the own GAP-COMMIT is on disk.
    pub(crate) fn handle_prepared(&mut self, view: View, slot: Slot) {
        if let Some(gap) = self.gaps.get_mut(&slot).filter(|_| view == self.promises.view()) {
            gap.has_prepared = true;
            self.send_commit(view, slot);
        }
    }

    fn has_voted(&self, slot: Slot) -> bool {
        self.gaps.get(&slot).is_some_and(|gap| gap.has_voted)
    }

    fn send_decision(&mut self, view: View, slot: Slot) {
        if view != self.view() || !self.may_vote() || !self.is_leader() || !self.has_voted(slot) {
            return;
        }
        let Some((_, signature, evidence)) = self.gaps.get(&slot).and_then(|gap| gap.decision.clone()) else { return };
        if let GapEvidence::Receive(certificate) = &evidence {
            self.receiver.insert(self.now, certificate.clone());
        }
        self.broadcast(&Message::GapDecision { view, slot, evidence, signature });
        self.check_prepared(slot);
    }

    /// G7.
    pub(crate) fn handle_gap_decision(&mut self, view: View, slot: Slot, evidence: GapEvidence, signature: Signature) {
        if let GapEvidence::Receive(certificate) = &evidence
            && (view != self.view() || !self.is_valid_for(certificate, slot))
        {
            return;
        }
        let value = match &evidence {
            GapEvidence::Receive(certificate) => self.context.value(certificate),
            GapEvidence::Drop(_) => Value::Drop,
        };
        let voted = self.promises.voted.get(&slot).copied();
        let may_vote = self.may_vote();
        let Some(gap) = self.gap(view, slot) else { return };
        match &gap.decision {
            // Only the first decision of a slot counts. A repeated one asks for the votes again.
            Some((first, ..)) if *first != value => return,
            Some(_) => {
                self.send_prepare(view, slot);
                return self.send_commit(view, slot);
            }
            None => {}
        }
        if voted.is_some_and(|voted| voted != value) {
            return;
        }
        if let GapEvidence::Receive(certificate) = &evidence {
            let certificate = certificate.clone();
            gap.decision = Some((value, signature, evidence));
            // Not while blocked, see `advance_log`.
            self.receiver.insert(self.now, certificate);
        } else {
            gap.decision = Some((value, signature, evidence));
        }
        if may_vote {
            self.promises.voted.insert(slot, value);
            self.persist(&Record::Voted { view, slot, value }, Some(AfterDurable::Voted(view, slot)));
        }
        self.check_prepared(slot);
        self.check_committed(slot);
    }

    fn send_prepare(&mut self, view: View, slot: Slot) {
        // G7, pitfall 1: the leader's decision is its vote.
        if view != self.view() || !self.may_vote() || self.is_leader() || !self.has_voted(slot) {
            return;
        }
        let Some(value) = self.promises.voted.get(&slot).copied() else { return };
        let Some(signature) = self.sign(&Statement::GapPrepare { view, slot, value }) else { return };
        let vote = GapVote { view, slot, value, signature };
        self.broadcast(&Message::GapPrepare(vote));
        self.handle_gap_prepare(self.me, vote);
    }

    pub(crate) fn handle_gap_prepare(&mut self, from: ValidatorIndex, vote: GapVote) {
        let GapVote { view, slot, value, signature } = vote;
        let Some(gap) = self.gap(view, slot) else { return };
        gap.prepares.entry(from).or_insert((value, signature));
        self.check_prepared(slot);
    }

    /// G8: the decision and GAP-PREPAREs of others, together with a quorum of votes.
    fn check_prepared(&mut self, slot: Slot) {
        let (view, leader) = (self.view(), self.leader());
        let Some(gap) = self.gaps.get_mut(&slot).filter(|gap| !gap.is_prepared) else { return };
        let Some((value, signature, _)) = gap.decision.clone() else { return };
        let mut votes = votes_for(&gap.prepares, &value);
        votes.retain(|(member, _)| *member != leader);
        votes.push((leader, signature));
        votes.sort_unstable_by_key(|(member, _)| *member);
        if !is_quorum(&votes, &self.committee) {
            return;
        }
        gap.is_prepared = true;
        if value == Value::Drop {
            let proof = DropProof { view, slot, committed: false, votes };
            self.promises.prepared.insert(slot, proof.clone());
            self.persist(&Record::Prepared(proof), Some(AfterDurable::Prepared(view, slot)));
        } else {
            self.persist(&Record::Voted { view, slot, value }, Some(AfterDurable::Prepared(view, slot)));
        }
    }

    fn send_commit(&mut self, view: View, slot: Slot) {
        if view != self.view() || !self.may_vote() {
            return;
        }
        let Some((value, ..)) = self.gaps.get(&slot).filter(|gap| gap.has_prepared).and_then(|gap| gap.decision.clone()) else {
            return;
        };
        let Some(signature) = self.sign(&Statement::GapCommit { view, slot, value }) else { return };
        let vote = GapVote { view, slot, value, signature };
        self.broadcast(&Message::GapCommit(vote));
        self.handle_gap_commit(self.me, vote);
    }

    pub(crate) fn handle_gap_commit(&mut self, from: ValidatorIndex, vote: GapVote) {
        let GapVote { view, slot, value, signature } = vote;
        let Some(gap) = self.gap(view, slot) else { return };
        gap.commits.entry(from).or_insert((value, signature));
        self.check_committed(slot);
    }

    /// G9.
    fn check_committed(&mut self, slot: Slot) {
        let view = self.view();
        let Some(gap) = self.gaps.get_mut(&slot).filter(|gap| gap.committed.is_none()) else { return };
        let values: Vec<Value> = gap.commits.values().map(|(value, _)| *value).collect();
        for value in values {
            let votes = votes_for(&gap.commits, &value);
            if !is_quorum(&votes, &self.committee) {
                continue;
            }
            gap.committed = Some(value);
            gap.received.clear();
            if value == Value::Drop {
                self.take_drop(DropProof { view, slot, committed: true, votes });
            }
            return;
        }
    }

    /// G9, S2: a gap certificate of this view. Rolls the log back if it has a packet there.
    pub(crate) fn take_drop(&mut self, proof: DropProof) {
        let slot = proof.slot;
        if proof.view != self.view() || !proof.committed || !self.is_normal() || slot <= self.promises.start() {
            return;
        }
        if slot > self.log.end() {
            if let Some(gap) = self.gap(proof.view, slot) {
                (gap.committed, gap.drop) = (Some(Value::Drop), Some(proof));
            }
            return;
        }
        if matches!(self.log.get(slot), Some(Entry::Request(_))) {
            self.sync.drops.insert(slot, proof);
        }
    }

    /// Rolls the log back to before the first dropped slot, and appends the rest again. All drops of one step together: each
    /// rollback writes the rest of the log again.
    pub(crate) fn apply_drops(&mut self) {
        let mut drops = std::mem::take(&mut self.sync.drops);
        drops.retain(|slot, proof| proof.view == self.view() && matches!(self.log.get(*slot), Some(Entry::Request(_))));
        let Some(first) = drops.first_key_value().map(|(slot, _)| *slot).filter(|_| self.is_normal()) else { return };
        if first <= self.log.finalized() {
            return self.halt(format!("final slot {} is dropped", first.0));
        }
        let after = first.before();
        let entries = self.log.after(after).map(|(slot, entry)| drops.remove(&slot).map_or_else(|| entry.clone(), Entry::NoOp));
        let entries = entries.collect();
        self.note("rollback", format!("to slot {}: the next one is dropped", after.0));
        self.replace_log(after, entries, None, None);
    }

    /// Answers GAP-FINDs for which the receiver knows more now, and decides at the leader.
    pub(crate) fn drive_gaps(&mut self) {
        if !self.is_normal() {
            return;
        }
        let asked: Vec<Slot> = self.gaps.iter().filter(|(_, gap)| gap.is_asked).map(|(slot, _)| *slot).collect();
        asked.into_iter().for_each(|slot| self.respond_to_find(slot));
        let finding: Vec<Slot> =
            self.gaps.iter().filter(|(_, gap)| gap.is_finding && gap.decision.is_none()).map(|(slot, _)| *slot).collect();
        for slot in finding {
            let late = self.seq(slot).and_then(|seq| self.receiver.get(seq)).cloned();
            if let (Some(gap), Some(packet)) = (self.gaps.get_mut(&slot), late) {
                gap.received.entry(self.me).or_insert(packet);
                self.decide(slot);
            }
        }
        self.advance_log();
    }

    /// Repeats QUERYs and the messages of unresolved gaps (Theorem 2).
    pub(crate) fn resend_gaps(&mut self) {
        if !self.is_normal() {
            return;
        }
        let view = self.view();
        let finalized = self.log.finalized();
        let open = self.gaps.range(finalized.next()..).filter(|(_, gap)| gap.committed.is_none());
        let slots: Vec<Slot> = open.map(|(slot, _)| *slot).collect();
        for slot in slots.into_iter().take(MAX_FINDS) {
            let Some(gap) = self.gaps.get(&slot) else { continue };
            let (is_finding, is_decided) = (gap.is_finding, gap.decision.is_some());
            if self.is_leader() && is_decided {
                self.show_spare(slot);
                self.send_decision(view, slot);
            } else if is_finding {
                self.send_to(Recipients::All, &Message::GapFind { view, slot });
                self.respond_to_find(slot);
            } else if is_decided {
                self.send_prepare(view, slot);
            }
            self.send_commit(view, slot);
        }
        let next = self.log.end().next();
        let is_missing = self.seq(next).is_some_and(|seq| self.receiver.is_dropped(seq)) || self.is_blocked(next);
        if is_missing && let Some(peer) = self.take_peer() {
            // The leader first, the others in turn: anyone's certificate is as good.
            let leader = self.leader();
            self.send(if self.is_leader() { peer } else { leader }, Message::Query { from: next });
            self.send(peer, Message::Query { from: next });
        }
    }
}
