//! Synchronisation, checkpoints, catching up, and garbage (S1–S5).

use crate::{
    engine::{AfterDurable, Neobft},
    keys::Signature,
    lost_disk::LostDisk,
    message::{CheckpointCertificate, DropProof, Entry, Message, Slot, Statement, Value, View, ViewCertificate},
    order::Effect,
    record::Record,
    rules::{is_quorum, votes_for},
};
use corniche_aom_receiver::OrderingCertificate;
use corniche_engine::{BucketRate, Output, Ticket, TokenBuckets};
use corniche_types::{B256, TimestampMs, ValidatorIndex, wire};
use std::collections::{BTreeMap, BTreeSet};

/// An overdue answer is waited for twice as long as the one before, up to 2^this times `query_ms`.
const MAX_DOUBLINGS: u32 = 5;
/// Number of checkpoints beyond the last stable one for which votes are held.
const MAX_CHECKPOINTS: u64 = 16;
/// Number of slots after the log's end for which packets with damaged vectors are noted.
const MAX_ATTESTED: u64 = 64;
/// Slots by which the floor of the log rises at once.
const RELEASE_STEP: u64 = 16;
/// Responses per second and peer, in units of `fetch_bytes`.
const RESPONSES_PER_SECOND: u64 = 16;
/// Cost of a response besides its bytes.
const RESPONSE_COST: u64 = 512;

/// State of synchronisation.
pub(crate) struct Sync {
    /// Votes for checkpoints above the stable one.
    votes: BTreeMap<Slot, BTreeMap<ValidatorIndex, (B256, Signature)>>,
    /// Stable checkpoints in the log, for laggards.
    stable: BTreeMap<Slot, CheckpointCertificate>,
    /// A stable checkpoint that the log has not reached.
    pending: Option<CheckpointCertificate>,
    /// A certificate covers the commits up to this one.
    certified: Slot,
    /// Gap certificates for slots where the log has a packet.
    pub drops: BTreeMap<Slot, DropProof>,
    /// Packets in QUERY-REPLYs that the own key does not confirm.
    pub attested: BTreeMap<Slot, BTreeMap<ValidatorIndex, Value>>,
    /// The slot that a QUERY was sent for.
    pub queried: Slot,
    /// The end of the log when it was checked last.
    end: Slot,
    /// The last slot that a SYNC was sent for.
    synced: Slot,
    /// Drop notifications and slots since the start of the window (V1).
    pub dropped: u64,
    /// The slot that was counted last.
    pub newest_dropped: Slot,
    window: (TimestampMs, Slot),
    /// After a lost disk, until the replica knows what it may have promised.
    pub lost: Option<LostDisk>,
    /// Limits of responses.
    buckets: TokenBuckets,
}

/// A certified point of the log that the own log does not contain.
pub(crate) struct Goal {
    pub slot: Slot,
    hash: B256,
    /// The view that is entered there.
    certificate: Option<ViewCertificate>,
    /// The checkpoint, if it is one.
    checkpoint: Option<CheckpointCertificate>,
    /// Entries from here on were fetched.
    after: Slot,
    pub entries: Vec<Entry>,
    peer: Option<ValidatorIndex>,
    /// Time at which an answer is overdue. Each overdue answer doubles the wait for the next ones.
    overdue_at: TimestampMs,
    attempts: u32,
    /// The peer has answered since an answer was overdue.
    has_answered: bool,
}

impl Goal {
    /// The view that is entered there.
    pub fn view(&self) -> Option<View> {
        self.certificate.as_ref().map(|certificate| certificate.confirmed.view)
    }
}

impl Sync {
    /// `lost_at`: start of an engine that lost its disk.
    pub fn new(lost_at: Option<TimestampMs>) -> Self {
        Self {
            votes: BTreeMap::new(),
            stable: BTreeMap::new(),
            pending: None,
            certified: Slot(0),
            drops: BTreeMap::new(),
            attested: BTreeMap::new(),
            queried: Slot(0),
            end: Slot(0),
            synced: Slot(0),
            dropped: 0,
            newest_dropped: Slot(0),
            window: (TimestampMs(0), Slot(0)),
            lost: lost_at.map(LostDisk::new),
            buckets: TokenBuckets::default(),
        }
    }

    pub fn count(&self) -> usize {
        self.votes.values().map(BTreeMap::len).sum::<usize>() + self.stable.len() + self.attested.len() + self.drops.len()
    }
}

impl Neobft {
    /// S1: every N slots.
    pub(crate) fn is_sync_due(&self, slot: Slot) -> bool {
        slot.0 / self.config.sync_slots > self.sync.synced.0 / self.config.sync_slots
    }

    /// SYNC: the REPLY, and the gap certificates of this view that may be missing elsewhere.
    pub(crate) fn send_sync(&mut self) {
        let (view, slot) = (self.view(), self.log.durable());
        let Some(hash) = self.log.hash(slot).filter(|_| self.may_vote() && self.has_entered) else { return };
        let from = self.log.finalized().0.saturating_sub(self.config.sync_slots);
        let drops = self.log.after(Slot(from.max(self.promises.start().0))).filter_map(|(_, entry)| match entry {
            Entry::NoOp(proof) if proof.committed && proof.view == view => Some(proof.clone()),
            _ => None,
        });
        let drops = drops.take(2 * self.config.sync_slots as usize).collect();
        self.sync.synced = slot;
        self.broadcast(&Message::Sync { view, slot, hash, drops });
    }

    /// S2: takes the drops; the slot counts as a REPLY, so that the sync-point is the last final slot.
    pub(crate) fn handle_sync(&mut self, from: ValidatorIndex, view: View, slot: Slot, hash: B256, drops: Vec<DropProof>) {
        if view == self.view() {
            drops.into_iter().for_each(|proof| self.take_drop(proof));
        }
        self.handle_reply(from, view, slot, hash);
    }

    // ---- queries -----------------------------------------------------------------------------------------------------------

    /// Returns false if this peer used up its share of responses.
    pub(crate) fn may_respond(&mut self, peer: ValidatorIndex) -> bool {
        let share = u64::from(self.config.fetch_bytes) + RESPONSE_COST;
        let rate = BucketRate::shared(RESPONSES_PER_SECOND * share, share, self.committee.size());
        self.sync.buckets.refill(peer, rate, self.now)
    }

    /// Charges a peer that may have a response for it.
    pub(crate) fn charge(&mut self, peer: ValidatorIndex, bytes: usize) {
        self.sync.buckets.spend(peer, RESPONSE_COST + bytes as u64);
    }

    /// G2: the entries from a slot on, as many as fit, with the newest checkpoint among them.
    pub(crate) fn handle_query(&mut self, peer: ValidatorIndex, from: Slot) {
        if from <= self.log.floor() || from > self.log.end() || !self.may_respond(peer) {
            return;
        }
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for (_, entry) in self.log.after(from.before()) {
            let size = borsh::object_length(entry).unwrap_or(usize::MAX);
            if bytes + size > self.config.fetch_bytes as usize && !entries.is_empty() {
                break;
            }
            bytes += size;
            entries.push(entry.clone());
        }
        let last = Slot(from.0 + entries.len() as u64 - 1);
        let checkpoint = self.sync.stable.range(from..=last).next_back().map(|(_, certificate)| certificate.clone());
        self.charge(peer, bytes);
        let view = self.view();
        self.send(peer, Message::QueryReply { view, from, entries, checkpoint });
    }

    /// G3: takes entries that prove themselves, or fetches towards a certified point.
    pub(crate) fn handle_query_reply(
        &mut self,
        peer: ValidatorIndex,
        view: View,
        from: Slot,
        entries: Vec<Entry>,
        checkpoint: Option<CheckpointCertificate>,
    ) {
        checkpoint.into_iter().for_each(|certificate| self.learn_checkpoint(certificate));
        if self.goal.is_some() {
            return self.take_fetched(peer, from, entries);
        }
        if view != self.view() || !self.is_normal() {
            return;
        }
        for (slot, entry) in (from.0..).map(Slot).zip(entries) {
            match entry {
                Entry::NoOp(proof) if proof.slot == slot => self.take_drop(proof),
                Entry::Request(certificate)
                    if slot > self.log.end()
                        && self.fits(&certificate, slot)
                        && (self.is_authentic(&certificate) || self.is_attested(peer, slot, &certificate)) =>
                {
                    self.receiver.insert(self.now, certificate);
                }
                _ => {}
            }
        }
        self.advance_log();
    }

    /// Pitfall 6: the vector may be damaged for this replica only. Then members with F + 1 votes must have the packet in their logs:
    /// one of them is correct and verified its own tag.
    fn is_attested(&mut self, peer: ValidatorIndex, slot: Slot, certificate: &OrderingCertificate) -> bool {
        if slot.0 > self.log.end().0 + MAX_ATTESTED {
            return false;
        }
        let value = self.context.value(certificate);
        let attested = self.sync.attested.entry(slot).or_default();
        attested.insert(peer, value);
        let members = attested.iter().filter(|(_, of)| **of == value).map(|(member, _)| *member);
        self.committee.weigh(members) >= self.committee.validity()
    }

    // ---- catching up -------------------------------------------------------------------------------------------------------

    /// Fetches the log up to a certified point. A later point replaces an earlier one.
    pub(crate) fn set_goal(
        &mut self,
        slot: Slot,
        hash: B256,
        certificate: Option<ViewCertificate>,
        checkpoint: Option<CheckpointCertificate>,
    ) {
        let is_known = self.goal.as_ref().is_some_and(|goal| {
            let view = certificate.as_ref().map(|certificate| certificate.confirmed.view);
            (goal.view(), goal.slot) >= (view, slot)
        });
        if is_known || slot < self.log.finalized() {
            return;
        }
        let after = self.log.finalized();
        self.goal = Some(Goal {
            slot,
            hash,
            certificate,
            checkpoint,
            after,
            entries: Vec::new(),
            peer: None,
            overdue_at: self.now,
            attempts: 0,
            has_answered: false,
        });
        self.fetch_next(None);
    }

    /// The log contains the goal by now: fetched entries must not replace what follows it.
    pub(crate) fn end_covered_goal(&mut self) {
        let log = &self.log;
        // A checkpoint may have replaced the log beyond it.
        let is_covered = |goal: &mut Goal| goal.slot < log.floor() || log.hash(goal.slot) == Some(goal.hash);
        let Some(goal) = self.goal.take_if(is_covered) else { return };
        goal.checkpoint.into_iter().for_each(|checkpoint| self.learn_checkpoint(checkpoint));
        goal.certificate.into_iter().for_each(|certificate| self.handle_certificate(certificate));
    }

    /// Requests the next entries, from the same peer as before or from the next one.
    fn fetch_next(&mut self, peer: Option<ValidatorIndex>) {
        let Some(peer) = peer.or_else(|| self.take_peer()) else { return };
        let Some(goal) = &mut self.goal else { return };
        goal.peer = Some(peer);
        let wait = self.config.query_ms << goal.attempts.min(MAX_DOUBLINGS);
        goal.overdue_at = TimestampMs(self.now.0.saturating_add(wait));
        let from = Slot(goal.after.0 + goal.entries.len() as u64 + 1);
        self.send(peer, Message::Query { from });
    }

    fn take_fetched(&mut self, peer: ValidatorIndex, from: Slot, entries: Vec<Entry>) {
        let Some(goal) = self.goal.as_mut().filter(|goal| goal.peer == Some(peer)) else { return };
        if from.0 != goal.after.0 + goal.entries.len() as u64 + 1 {
            return;
        }
        let missing = usize::try_from((goal.slot.0 + 1).saturating_sub(from.0)).unwrap_or(usize::MAX);
        goal.has_answered = !entries.is_empty();
        // A peer sends as much as fits, except at the end of its log. Another one is asked for the rest, so that a faulty one
        // cannot send single entries.
        let bytes: usize = entries.iter().map(|entry| borsh::object_length(entry).unwrap_or_default()).sum();
        let is_full = bytes + self.config.max_entry_bytes(self.committee.size()) > self.config.fetch_bytes as usize;
        goal.entries.extend(entries.into_iter().take(missing));
        if goal.after.0 + (goal.entries.len() as u64) < goal.slot.0 {
            return self.fetch_next(Some(peer).filter(|_| is_full));
        }
        let Some(goal) = self.goal.take() else { return };
        let Some(mut hash) = self.log.hash(goal.after) else { return };
        for (slot, entry) in (goal.after.0 + 1..).map(Slot).zip(&goal.entries) {
            hash = self.context.log_hash(hash, slot, entry);
        }
        if hash == goal.hash {
            self.replace_log(goal.after, goal.entries, None, goal.certificate);
            goal.checkpoint.into_iter().for_each(|checkpoint| self.learn_checkpoint(checkpoint));
        } else {
            // A lie, or a log that was rolled back meanwhile.
            self.set_goal(goal.slot, goal.hash, goal.certificate, goal.checkpoint);
        }
    }

    /// A peer that answered before may have used up the asker's share: it is asked once more for the same. Then another peer is
    /// asked for everything, because the entries may be lies.
    fn check_goal(&mut self) {
        self.end_covered_goal();
        let finalized = self.log.finalized();
        let Some(goal) = self.goal.as_mut().filter(|goal| goal.overdue_at <= self.now) else { return };
        goal.attempts += 1;
        let peer = goal.peer.filter(|_| std::mem::take(&mut goal.has_answered));
        if peer.is_none() {
            goal.entries.clear();
            goal.after = finalized;
        }
        self.fetch_next(peer);
    }

    /// Replaces the log after `after` with these entries, from the first that differs. Enters the view of the certificate, except
    /// with a merged log, which belongs to that view but begins another one.
    pub(crate) fn replace_log(
        &mut self,
        after: Slot,
        mut entries: Vec<Entry>,
        confirmed: Option<crate::message::Confirmed>,
        certificate: Option<ViewCertificate>,
    ) {
        let Some(mut hash) = self.log.hash(after) else { return };
        let mut same = 0;
        for (slot, entry) in (after.0 + 1..).map(Slot).zip(&entries) {
            hash = self.context.log_hash(hash, slot, entry);
            if self.log.hash(slot) != Some(hash) {
                break;
            }
            same += 1;
        }
        let keep = Slot(after.0 + same);
        entries.drain(..same as usize);
        for entry in &mut entries {
            // A packet that this replica received itself convinces others.
            if let Entry::Request(packet) = entry
                && let Some(own) = self.own_packet(packet).cloned()
            {
                *packet = own;
            }
        }
        if !self.roll_back(keep) {
            return;
        }
        let before = self.log.end_hash();
        let record = Record::Replaced {
            from: keep.next(),
            before,
            entries: entries.clone(),
            confirmed,
            certificate: certificate.clone(),
        };
        entries.into_iter().for_each(|entry| _ = self.log.push(entry));
        let end = self.log.end();
        let ticket = self.persist(&record, Some(AfterDurable::Entry(end)));
        (keep.0 + 1..=end.0).for_each(|slot| self.journal.entry(Slot(slot), ticket));
        self.match_replies();
        if let Some(certificate) = certificate.filter(|_| confirmed.is_none()) {
            self.enter(certificate);
        }
    }

    /// Learns how far others are, on every new connection and while something is pending.
    pub(crate) fn send_progress(&mut self, to: ValidatorIndex, asks: bool) {
        let slot = if self.may_vote() && self.has_entered { self.log.durable() } else { Slot(0) };
        let hash = self.log.hash(slot).unwrap_or_default();
        let (view, certificate, checkpoint) =
            (self.view(), self.promises.certificate.clone(), self.promises.checkpoint.clone());
        let left = (!self.is_forgetful()).then(|| self.promises.target.unwrap_or(view).max(view));
        self.send(to, Message::Progress { view, left, slot, hash, certificate, checkpoint, asks });
    }

    pub(crate) fn resend_progress(&mut self) {
        let end = self.log.end();
        let is_stuck = end == std::mem::replace(&mut self.sync.end, end);
        if is_stuck && let Some(pending) = self.sync.pending.take().filter(|pending| pending.slot > end) {
            let (slot, hash) = (pending.slot, pending.hash);
            self.set_goal(slot, hash, None, Some(pending));
        }
        if self.goal.is_some() {
            self.check_goal();
        } else if is_stuck
            && let Some((slot, member)) = self.replies.highest().filter(|(slot, _)| *slot > end && self.is_normal())
        {
            self.note("behind", format!("log ends at {}, member {member} is at {}", end.0, slot.0));
            self.send(member, Message::Query { from: end.next() });
            // A faulty member may pretend to be ahead, so another one is asked, too.
            if let Some(peer) = self.take_peer().filter(|peer| *peer != member) {
                self.send(peer, Message::Query { from: end.next() });
            }
        }
        if let Some(member) = self.replies.ahead(self.view()) {
            self.send_progress(member, true);
        }
        let is_pending = self.log.finalized() < end || !self.is_normal() || self.is_forgetful();
        if is_pending && let Some(peer) = self.take_peer() {
            self.send_progress(peer, true);
        }
        if self.log.finalized() < end && is_stuck {
            self.send_sync();
        }
        if is_stuck {
            let (slot, hash) = (self.order.slot(), self.order.state().hash);
            self.vote_checkpoint(slot, hash, true);
        }
        if let Some(vote) = self.receiver.stuck_confirm().cloned() {
            let epoch = self.receiver.epoch();
            self.broadcast(&Message::Confirm { epoch, vote, asks: true });
        }
    }

    // ---- checkpoints -------------------------------------------------------------------------------------------------------

    /// S4: every N slots, after execution.
    fn vote_checkpoint(&mut self, slot: Slot, hash: B256, again: bool) {
        let last = Slot(slot.0 / self.config.sync_slots * self.config.sync_slots);
        let (slot, hash) = if again { (last, self.log.hash(last).unwrap_or_default()) } else { (slot, hash) };
        let is_stable = self.promises.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.slot >= slot);
        if slot != last || slot == Slot(0) || is_stable || hash == B256::ZERO {
            return;
        }
        let Some(signature) = self.sign(&Statement::Checkpoint { slot, hash }) else { return };
        self.broadcast(&Message::Checkpoint { slot, hash, signature });
        self.handle_checkpoint(self.me, slot, hash, signature);
    }

    pub(crate) fn handle_checkpoint(&mut self, from: ValidatorIndex, slot: Slot, hash: B256, signature: Signature) {
        let stable = self.promises.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.slot.0);
        let interval = self.config.sync_slots;
        let most = stable.max(self.log.finalized().0) + MAX_CHECKPOINTS * interval;
        if !slot.0.is_multiple_of(interval) || slot.0 > most {
            return;
        }
        if slot.0 <= stable {
            // The sender missed the others' votes.
            if from != self.me
                && let Some(certificate) = self.sync.stable.get(&slot).cloned()
            {
                let (view, hash) = (self.view(), B256::ZERO);
                let message = Message::Progress {
                    view,
                    left: None,
                    slot: Slot(0),
                    hash,
                    certificate: None,
                    checkpoint: Some(certificate),
                    asks: false,
                };
                self.send(from, message);
            }
            return;
        }
        let votes = self.sync.votes.entry(slot).or_default();
        votes.insert(from, (hash, signature));
        let votes = votes_for(votes, &hash);
        if is_quorum(&votes, &self.committee) {
            self.learn_checkpoint(CheckpointCertificate { slot, hash, votes });
        }
    }

    /// A stable checkpoint: its slots are final.
    pub(crate) fn learn_checkpoint(&mut self, certificate: CheckpointCertificate) {
        let CheckpointCertificate { slot, hash, .. } = certificate;
        if self.promises.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.slot >= slot) {
            return;
        }
        if slot <= self.log.floor() {
            return;
        }
        match self.log.hash(slot) {
            Some(own) if own == hash => {}
            Some(_) if slot <= self.log.finalized() => return self.halt(format!("another checkpoint of slot {}", slot.0)),
            // The log will reach it, unless it is stuck.
            None if self.is_normal() && self.goal.is_none() => {
                self.sync.pending = Some(certificate);
                return;
            }
            _ => return self.set_goal(slot, hash, None, Some(certificate)),
        }
        self.log.finalize(slot);
        self.sync.votes = self.sync.votes.split_off(&slot.next());
        self.sync.stable.insert(slot, certificate.clone());
        self.persist(&Record::Checkpoint(certificate.clone()), None);
        self.promises.checkpoint = Some(certificate);
        self.collect_garbage();
    }

    /// The log may have reached the checkpoint that was learnt earlier.
    pub(crate) fn take_pending_checkpoint(&mut self) {
        let end = self.log.end();
        if let Some(pending) = self.sync.pending.take_if(|pending| pending.slot <= end) {
            self.learn_checkpoint(pending);
        }
    }

    /// Called for every executed slot.
    pub(crate) fn handle_executed(&mut self, slot: Slot, hash: B256, effect: &Effect) {
        self.note_own_request(effect);
        // The group delivered the request, with an effect or without one.
        if let Effect::Batch { author, id, .. } | Effect::Clock { author, batch: Some(id), .. } = effect {
            self.requests.remove_copy(*author, *id);
        }
        if let Effect::Batch { author, id, content, .. } = effect {
            if *author == self.me {
                self.requests.remove(*id);
            }
            if let crate::order::BatchContent::Body(body, _) = content {
                self.bodies.keep_for(slot, *body);
            }
        }
        self.hints.forget(slot);
        self.drop_expired();
        self.vote_checkpoint(slot, hash, false);
        self.collect_garbage();
    }

    pub(crate) fn handle_certified(&mut self, slot: Slot) {
        self.sync.certified = self.sync.certified.max(slot);
        self.collect_garbage();
    }

    /// Forgets executed slots more than `retain_slots` below the stable checkpoint; four times as many while no certificate shows
    /// that a quorum executed them.
    fn collect_garbage(&mut self) {
        let Some(stable) = self.promises.checkpoint.as_ref().map(|checkpoint| checkpoint.slot) else { return };
        let executed = self.order.slot();
        let retain = self.config.retain_slots;
        let below = |slots: u64| executed.0.saturating_sub(slots);
        let floor = below(retain).min(self.sync.certified.0.max(below(4 * retain))).min(stable.0);
        if floor < self.log.floor().0 + RELEASE_STEP {
            return;
        }
        self.log.release(Slot(floor));
        self.gaps = self.gaps.split_off(&Slot(floor + 1));
        self.promises.forget_gaps(Slot(floor));
        self.sync.stable = self.sync.stable.split_off(&Slot(floor));
        for body in self.bodies.release(Slot(floor)) {
            self.journal.drop_body(&body);
        }
        self.persist_promises();
    }

    /// Writes all promises again, so that earlier records can be released.
    pub(crate) fn persist_promises(&mut self) {
        let record = Record::Promises(Box::new(self.promises.clone()));
        let ticket = self.persist(&record, None);
        self.waiting.insert(ticket, AfterDurable::Promises(ticket));
    }

    pub(crate) fn release_records(&mut self, promises: Ticket) {
        self.journal.set_promises(promises);
        if let Some(first) = self.journal.release(self.log.floor()) {
            self.outputs.push_back(Output::ReleaseBelow(first));
        }
    }

    /// V1: too many drops over ten seconds.
    pub(crate) fn check_drop_rate(&mut self) {
        const WINDOW_MS: u64 = 10_000;
        const MIN_SLOTS: u64 = 100;
        let (since, start) = self.sync.window;
        if self.now.0 < since.0.saturating_add(WINDOW_MS) {
            return;
        }
        let slots = self.log.end().0.saturating_sub(start.0);
        let dropped = std::mem::take(&mut self.sync.dropped);
        self.sync.window = (self.now, self.log.end());
        self.faults.loses = since.0 > 0
            && slots >= MIN_SLOTS
            && dropped.saturating_mul(1_000_000) > slots.saturating_mul(self.config.max_drops);
        if self.faults.loses {
            self.suspect_sequencer(format!("{dropped} of {slots} packets were lost"));
        }
    }

    /// Members that hold a body, in the order in which they are asked.
    pub(crate) fn other_members(&self, first: &[ValidatorIndex]) -> Vec<ValidatorIndex> {
        let known: BTreeSet<_> = first.iter().collect();
        let others = self.committee.indices().filter(|member| !known.contains(member));
        first.iter().copied().chain(others).filter(|member| *member != self.me).collect()
    }

    /// The certificate that asks for an epoch's sequencer (E2).
    pub(crate) fn epoch_certificate(&self) -> corniche_types::Bytes {
        self.promises.certificate.as_ref().map(|certificate| wire::encode(certificate).into()).unwrap_or_default()
    }
}
