//! Deliveries, retention, and what a validator needs after a restart, a lost disk or a lost connection.

use crate::{
    config::decisions_at_once,
    engine::{AfterDurable, Decision, QuePaxa},
    message::{LaneBatch, Message, Slot, Tip, Value},
    order::Order,
    record::{Record, RecordKey},
    rules::Register,
};
use corniche_engine::{Journal, Output, Ticket, TraceEvent};
use corniche_lanes::{Lanes, Silence};
use corniche_types::{Bytes, CommitIndex, TimestampMs, ValidatorIndex, wire};
use std::collections::BTreeMap;

/// Number of decided slots whose batches are asked for at once.
const SLOTS_AT_ONCE: usize = 64;

/// State from the records.
pub(crate) struct Recovered {
    pub is_empty: bool,
    pub lanes: Lanes,
    pub decided: BTreeMap<Slot, Decision>,
    pub registers: BTreeMap<Slot, Register>,
    pub own_values: BTreeMap<Slot, Value>,
    pub silence: Silence<Slot>,
    pub floor: Slot,
}

impl Recovered {
    /// `window` is the number of open slots.
    pub fn new(
        mut records: Vec<(Ticket, Bytes)>,
        journal: &mut Journal<RecordKey>,
        lanes: Lanes,
        order: &Order,
        window: u64,
    ) -> Self {
        records.sort_unstable_by_key(|(ticket, _)| *ticket);
        let mut recovered = Self {
            is_empty: records.is_empty(),
            lanes,
            decided: BTreeMap::new(),
            registers: BTreeMap::new(),
            own_values: BTreeMap::new(),
            silence: Silence::Nowhere,
            floor: order.slot(),
        };
        for (ticket, record) in records {
            let record = wire::decode(&record).expect("a record was encoded by this engine, and its log verifies checksums");
            let key = recovered.apply(record);
            journal.recovered(ticket, key);
        }
        let Self { lanes, decided, registers, own_values, floor, silence, .. } = &mut recovered;
        // A chain that is executed again beside older records. Up to the first decision this recorder has answered and forgotten.
        let first = decided.keys().next().filter(|first| first.0 > order.slot().0 + window + 1);
        if let (Some(first), Silence::Nowhere) = (first, &silence) {
            *silence = Silence::Through(Slot(first.0 - 1));
        }
        lanes.find_ends(&order.state().delivered);
        // Slots before a gap are of no use for others.
        while floor.0 > 0 && decided.contains_key(floor) {
            floor.0 -= 1;
        }
        decided.retain(|slot, _| *slot > *floor);
        registers.retain(|slot, _| *slot > order.slot() && !decided.contains_key(slot));
        own_values.retain(|slot, _| *slot > order.slot() && !decided.contains_key(slot));
        recovered
    }

    fn apply(&mut self, record: Record) -> RecordKey {
        match record {
            Record::Started => RecordKey::Started,
            Record::Register { slot, register } => {
                self.registers.insert(slot, register);
                RecordKey::Register(slot)
            }
            Record::Own { slot, value } => {
                self.own_values.insert(slot, value);
                RecordKey::Own(slot)
            }
            Record::Decided { slot, value } => {
                self.decided.insert(slot, Decision { value, is_durable: true });
                RecordKey::Decided(slot)
            }
            Record::Batch(batch) => {
                let author = batch.author;
                RecordKey::Batch(author, self.lanes.recover(batch))
            }
            Record::Silent(slot) => {
                self.silence = Silence::recovered(slot);
                RecordKey::Silent
            }
        }
    }
}

/// Deliveries.
impl QuePaxa {
    /// O2: decided slots in order, once all their batches are here.
    pub(crate) fn deliver(&mut self) {
        self.advance_contiguous();
        loop {
            let slot = self.order.slot().next();
            // A commit may outlive a power cut in the caller's store. Then this validator must know the decision, too: it does not
            // answer in delivered slots.
            let Some(decision) = self.decided.get(&slot).filter(|decision| decision.is_durable) else { return };
            let value = decision.value.clone();
            let before = self.order.delivered(self.me);
            let batches = self.exchange.lanes.next_batches(&value.tips, &self.order.state().delivered);
            let Ok(batches) = batches else { return self.want_next_batches() };
            let ordered = self.order.execute(slot, &value, batches);
            let commit = CommitIndex(slot.0);
            self.outputs.push_back(Output::Trace(TraceEvent::Delivered { round: slot.0, rank: 0, commit }));
            self.outputs.push_back(Output::Deliver(ordered));
            self.registers.remove(&slot);
            self.own_values.remove(&slot);
            let delivered = &self.order.state().delivered;
            self.exchange.lanes.follow(delivered);
            self.outputs.extend(self.exchange.displaced(before, delivered));
        }
    }

    /// Asks for the missing batches of the next slots.
    fn want_next_batches(&mut self) {
        let next = self.decided.range(self.order.slot().next()..).take(SLOTS_AT_ONCE);
        let tips = next.map(|(_, decision)| decision.value.tips.as_slice());
        let missing = self.exchange.lanes.missing(tips, &self.order.state().delivered);
        missing.into_iter().for_each(|(author, tip)| self.want(author, tip, author));
    }

    /// O6: forgets old slots, and the records that nobody needs.
    pub(crate) fn release(&mut self) {
        let (delivered, retain) = (self.order.slot().0, self.config.retain_slots);
        let certified = self.certified.0.min(delivered.saturating_sub(retain));
        let floor = Slot(certified.max(delivered.saturating_sub(4 * retain)));
        while self.floor < floor {
            self.floor = self.floor.next();
            let Some(decision) = self.decided.remove(&self.floor) else { continue };
            self.exchange.release(&decision.value.tips);
        }
        self.exchange.release_wanted();
        self.release_records();
    }

    fn release_records(&mut self) {
        let Self { journal, decided, order, exchange, silence, floor, .. } = self;
        let is_settled =
            |slot: &Slot| slot <= floor || decided.get(slot).map_or(*slot <= order.slot(), |decision| decision.is_durable);
        let is_needed = |key: &RecordKey| match key {
            RecordKey::Started => true,
            RecordKey::Register(slot) | RecordKey::Own(slot) => !is_settled(slot),
            RecordKey::Decided(slot) => slot > floor && decided.contains_key(slot),
            RecordKey::Batch(author, tip) => exchange.lanes.get(*author, tip).is_some(),
            RecordKey::Silent => *silence != Silence::Nowhere,
        };
        let rewritten = journal.records_to_rewrite(is_needed);
        let released = journal.release(is_needed);
        for key in rewritten {
            self.persist(key, None);
        }
        self.outputs.extend(released.map(Output::ReleaseBelow));
    }
}

/// Peers.
impl QuePaxa {
    fn own_open_batches(&self) -> Vec<LaneBatch> {
        self.exchange.own_open_batches(&self.order.state().delivered)
    }

    pub(crate) fn announce_own_batches(&mut self) {
        self.own_open_batches().into_iter().for_each(|batch| self.broadcast(&Message::Batch(batch)));
    }

    pub(crate) fn greet(&mut self, peer: ValidatorIndex) {
        self.send_progress(peer);
        if self.reached.is_none() {
            self.send(peer, &Message::AskHighest { run: self.run });
        }
        self.own_open_batches().into_iter().for_each(|batch| self.send(peer, &Message::Batch(batch)));
    }

    pub(crate) fn send_progress(&mut self, to: ValidatorIndex) {
        self.send(to, &Message::Progress { decided: self.contiguous, time: self.now });
    }

    pub(crate) fn note_clock(&mut self, from: ValidatorIndex, time: TimestampMs) {
        self.clocks.note(from, time, self.now);
    }

    /// Time that this validator proposes. `None` before it knows the clocks of a majority.
    pub(crate) fn proposed_time(&self) -> Option<TimestampMs> {
        self.clocks.time(&self.committee, self.now)
    }

    /// The peer with more decisions sends them.
    pub(crate) fn handle_progress(&mut self, from: ValidatorIndex, decided: Slot) {
        if decided > self.contiguous {
            return self.send_progress(from);
        }
        let first = decided.next();
        let values: Vec<Value> = (first.0..=self.contiguous.0)
            .map_while(|slot| self.decided.get(&Slot(slot)))
            .map(|decision| decision.value.clone())
            .take(decisions_at_once(self.committee.size()))
            .collect();
        if !values.is_empty() {
            self.send(from, &Message::Decided { first, values });
        }
    }

    pub(crate) fn handle_decided(&mut self, from: ValidatorIndex, first: Slot, values: Vec<Value>) {
        let is_full = values.len() == decisions_at_once(self.committee.size());
        for (slot, value) in (first.0..).map(Slot).zip(values) {
            self.decide(slot, value, "learned");
        }
        if is_full {
            self.send_progress(from);
        }
    }

    /// Asks for a batch, at once the first time.
    pub(crate) fn want(&mut self, author: ValidatorIndex, tip: Tip, source: ValidatorIndex) {
        let action = self.exchange.want(author, tip, source);
        if author == self.me && action.is_some() {
            self.check_twin(tip);
        }
        self.perform(action);
    }

    pub(crate) fn handle_deadline(&mut self) {
        if self.resend_at <= self.now {
            self.resend_at = TimestampMs(self.now.0.saturating_add(self.config.resend_ms));
            self.resend_requests();
            let actions = self.exchange.ask_again();
            self.perform(actions);
            let open = self.exchange.announce_again(&self.order.state().delivered);
            open.into_iter().for_each(|batch| self.broadcast(&Message::Batch(batch)));
            if self.silence == Silence::Everywhere || self.proposed_time().is_none() {
                self.broadcast(&Message::AskHighest { run: self.run });
            }
        }
        if self.status_at <= self.now {
            self.status_at = TimestampMs(self.now.0.saturating_add(self.config.status_ms));
            self.next_peer = (self.next_peer + 1) % self.committee.size();
            let peer = ValidatorIndex(u16::try_from(self.next_peer).unwrap_or_default());
            self.send_progress(peer);
        }
    }

    /// A recorder that lost its disk itself does not know its registers: it reports the highest slot that they may be of.
    pub(crate) fn handle_ask_highest(&mut self, from: ValidatorIndex, run: TimestampMs) {
        let Some(slot) = self.silence.report(self.highest()) else { return };
        self.send(from, &Message::Highest { run, slot, time: self.now });
    }

    /// X14: the highest slot in which an earlier run of this validator may have answered.
    ///
    /// A proposer opens slots up to `window` above the decided ones it knows. A decided slot is in the register of a quorum, and a
    /// quorum of reports has one of these registers.
    pub(crate) fn handle_highest(&mut self, from: ValidatorIndex, run: TimestampMs, slot: Slot) {
        if self.reached.is_some() || run != self.run {
            return;
        }
        self.reports.insert(from, slot);
        if self.committee.weigh(self.reports.keys().copied()) < self.committee.quorum() {
            return;
        }
        let highest = self.reports.values().copied().max().unwrap_or_default().max(self.contiguous);
        self.reached = Some(highest);
        self.reports.clear();
        if self.silence != Silence::Everywhere {
            return;
        }
        self.silence = Silence::Through(Slot(highest.0 + self.config.window));
        self.note("votes-regained", format!("after a lost disk, from slot {} on", highest.0 + self.config.window + 1));
        self.persist(RecordKey::Silent, None);
    }

    /// An earlier run had delivered no slot above those that a quorum reported, and no batch of it was further above its last
    /// delivered one than an engine allows.
    pub(crate) fn bound_earlier_runs(&mut self) {
        if self.last_of_earlier_runs.is_none() && self.reached.is_some_and(|reached| self.order.slot() >= reached) {
            // One more, because the empty batch of `end_silence` does not wait for room.
            self.last_of_earlier_runs = Some(self.order.delivered(self.me).number + self.config.open_batches + 1);
        }
    }

    /// K5 of validators.md: others name a batch of this validator that is not here. Batches are on disk before they are sent, so
    /// an earlier run made it and lost its disk, or another process makes batches.
    fn check_twin(&mut self, tip: Tip) {
        if let Some(last) = self.last_of_earlier_runs.filter(|last| tip.number > *last) {
            let detail = format!("own batch {} is not here, and no earlier run had made more than {last}", tip.number);
            self.outputs.push_back(Output::Twin(detail));
        }
    }

    /// Slots in which this recorder is silent are decided soon, also in an idle chain: its own empty batches need slots.
    pub(crate) fn end_silence(&mut self) {
        if self.silence.begin_end(self.order.slot()) {
            self.persist(RecordKey::Started, Some(AfterDurable::SilenceEnded));
        }
        let Silence::Through(last) = self.silence else { return };
        if self.contiguous < last && self.exchange.lanes.newest(self.me).number == self.order.delivered(self.me).number {
            let actions = self.exchange.add_own_batch(Bytes::new());
            self.perform(actions);
        }
    }
}
