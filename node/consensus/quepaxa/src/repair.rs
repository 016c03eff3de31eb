//! Deliveries, retention, and what a validator needs after a restart, a lost disk or a lost connection.

use crate::{
    config::decisions_at_once,
    engine::{AfterDurable, QuePaxa},
    message::{LaneBatch, Message, Slot, Tip, Value},
    record::{Record, RecordKey},
    rules::Register,
    schedules::Schedules,
};
use corniche_engine::{Journal, Output, Ticket};
use corniche_lanes::{Lanes, Next, Order, Silence, retention_floor};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, wire};
use std::collections::BTreeMap;

/// State from the records.
pub(crate) struct Recovered {
    pub is_empty: bool,
    pub lanes: Lanes,
    pub decided: BTreeMap<Slot, Value>,
    pub registers: BTreeMap<Slot, Register>,
    pub own_values: BTreeMap<Slot, Value>,
    pub silence: Silence<Slot>,
}

impl Recovered {
    /// `window` is the number of open slots.
    pub fn new(
        mut records: Vec<(Ticket, Bytes)>,
        journal: &mut Journal<RecordKey>,
        lanes: Lanes,
        order: &Order<Slot, Schedules>,
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
        };
        for (ticket, record) in records {
            let record = wire::decode(&record).expect("a record was encoded by this engine, and its log verifies checksums");
            let key = recovered.apply(record);
            journal.recovered(ticket, key);
        }
        let Self { lanes, decided, registers, own_values, silence, .. } = &mut recovered;
        *silence = silence.beside(decided.keys().next().copied(), order.at(), window);
        lanes.find_ends(order.tips());
        registers.retain(|slot, _| *slot > order.at() && !decided.contains_key(slot));
        own_values.retain(|slot, _| *slot > order.at() && !decided.contains_key(slot));
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
                self.decided.insert(slot, value);
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
    /// O2: decided slots in order, once all their batches are here and their records are on disk.
    pub(crate) fn deliver(&mut self) {
        loop {
            let at = self.order.at().next();
            let Some(value) = self.decisions.durable(at) else { return };
            let batches = self.exchange.lanes.next_batches(&value.tips, self.order.tips());
            let Ok(batches) = batches else { return self.want_next_batches() };
            let leader = self.leaders.execute(at, value, &mut self.order);
            let next = Next { at, value, digest: self.context.value(at, value), leader };
            self.outputs.extend(self.order.deliver(&mut self.exchange, next, batches));
            self.registers.remove(&at);
            self.own_values.remove(&at);
        }
    }

    /// Asks for the missing batches of the next slots.
    fn want_next_batches(&mut self) {
        let missing = self.exchange.lanes.missing_next(self.decisions.waiting(self.order.at()), self.order.tips());
        missing.into_iter().for_each(|(author, tip)| self.want(author, tip, author));
    }

    /// O6: forgets old slots, and the records that nobody needs.
    pub(crate) fn release(&mut self) {
        let floor = retention_floor(self.order.at().0, self.certified.0, self.config.retain_slots);
        self.decisions.release(Slot(floor), &mut self.exchange);
        self.exchange.release_wanted();
        self.release_records();
    }

    fn release_records(&mut self) {
        let Self { journal, decisions, order, exchange, silence, .. } = self;
        let is_needed = |key: &RecordKey| match key {
            RecordKey::Started => true,
            RecordKey::Register(slot) | RecordKey::Own(slot) => !decisions.is_settled(*slot, order.at()),
            RecordKey::Decided(slot) => decisions.contains(*slot),
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
        self.exchange.own_open_batches(self.order.tips())
    }

    pub(crate) fn announce_own_batches(&mut self) {
        self.own_open_batches().into_iter().for_each(|batch| self.broadcast(&Message::Batch(batch)));
    }

    pub(crate) fn greet(&mut self, peer: ValidatorIndex) {
        self.send_progress(peer);
        if self.earlier_runs.needs_reports() {
            self.send(peer, &Message::AskHighest { run: self.run });
        }
        self.own_open_batches().into_iter().for_each(|batch| self.send(peer, &Message::Batch(batch)));
    }

    pub(crate) fn send_progress(&mut self, to: ValidatorIndex) {
        let (decided, delivered) = (self.decisions.contiguous(), self.order.tip(self.me).number);
        self.send(to, &Message::Progress { decided, delivered, time: self.now });
    }

    pub(crate) fn note_clock(&mut self, from: ValidatorIndex, time: TimestampMs) {
        self.clocks.note(from, time, self.now);
    }

    /// Time that this validator proposes. `None` before it knows the clocks of a majority.
    pub(crate) fn proposed_time(&self) -> Option<TimestampMs> {
        self.clocks.time(&self.committee, self.now)
    }

    /// The peer with more decisions sends them.
    pub(crate) fn handle_progress(&mut self, from: ValidatorIndex, decided: Slot, delivered: u64) {
        let actions = self.exchange.handle_delivered(from, delivered);
        self.perform(actions);
        if decided > self.decisions.contiguous() {
            return self.send_progress(from);
        }
        let first = decided.next();
        let values = self.decisions.values_from(first, decisions_at_once(self.committee.size()));
        if !values.is_empty() {
            self.send(from, &Message::Decided { first, values });
        }
    }

    pub(crate) fn handle_decided(&mut self, from: ValidatorIndex, first: Slot, values: Vec<Value>) {
        let is_full = values.len() == decisions_at_once(self.committee.size());
        for (slot, value) in (first.0..).map(Slot).zip(&values) {
            self.decide(slot, value, "learned");
        }
        if is_full {
            self.send_progress(from);
        }
    }

    /// Asks for a batch, unless its author's copy may be on its way. An own one may be that of a twin.
    pub(crate) fn want(&mut self, author: ValidatorIndex, tip: Tip, source: ValidatorIndex) {
        let action = self.exchange.want(author, tip, source);
        self.outputs.extend(self.earlier_runs.check(&self.exchange, author, tip));
        self.perform(action);
    }

    pub(crate) fn handle_deadline(&mut self) {
        if self.resend_at <= self.now {
            self.resend_at = TimestampMs(self.now.0.saturating_add(self.config.resend_ms));
            self.resend_requests();
            let actions = self.exchange.ask_again();
            self.perform(actions);
            let open = self.exchange.announce_again(self.order.tips());
            open.into_iter().for_each(|batch| self.broadcast(&Message::Batch(batch)));
            if self.earlier_runs.needs_reports() || self.proposed_time().is_none() {
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
        if run != self.run {
            return;
        }
        let highest = self.earlier_runs.add(from, slot, &self.committee).filter(|_| self.silence == Silence::Everywhere);
        let Some(highest) = highest.map(|highest| highest.max(self.decisions.contiguous())) else { return };
        self.silence = Silence::Through(Slot(highest.0 + self.config.window));
        self.note("votes-regained", format!("after a lost disk, from slot {} on", highest.0 + self.config.window + 1));
        self.persist(RecordKey::Silent, None);
    }

    /// Slots in which this recorder is silent are decided soon, also in an idle chain: its own empty batches need slots.
    pub(crate) fn end_silence(&mut self) {
        if self.silence.begin_end(self.order.at()) {
            self.persist(RecordKey::Started, Some(AfterDurable::SilenceEnded));
        }
        let Silence::Through(last) = self.silence else { return };
        let is_idle = self.exchange.lanes.newest(self.me).number == self.order.tip(self.me).number;
        if self.decisions.contiguous() < last && is_idle {
            let actions = self.exchange.add_own_batch(Bytes::new());
            self.perform(actions);
        }
    }
}
