//! Deliveries, retention, and what a validator needs after a restart, a lost disk or a lost connection.

use crate::{
    config::{decisions_at_once, decisions_for_request},
    engine::{AfterDurable, Baxos},
    message::{LaneBatch, Message, Slot, Stamp, Tip, Value},
    record::{Record, RecordKey},
    rules::Acceptor,
};
use corniche_engine::{Journal, Output, Ticket};
use corniche_lanes::{Lanes, Next, Order, Silence, retention_floor};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, wire};
use std::collections::BTreeMap;

/// Slots above the decided ones in which a proposer sends requests: the lowest that is not decided, and the next one (P10).
const OPEN_SLOTS: u64 = 2;

/// State from the records.
pub(crate) struct Recovered {
    pub is_empty: bool,
    pub lanes: Lanes,
    pub decided: BTreeMap<Slot, Value>,
    pub acceptors: BTreeMap<Slot, Acceptor>,
    pub silence: Silence<Slot>,
}

impl Recovered {
    pub fn new(mut records: Vec<(Ticket, Bytes)>, journal: &mut Journal<RecordKey>, lanes: Lanes, order: &Order<Slot>) -> Self {
        records.sort_unstable_by_key(|(ticket, _)| *ticket);
        let mut recovered = Self {
            is_empty: records.is_empty(),
            lanes,
            decided: BTreeMap::new(),
            acceptors: BTreeMap::new(),
            silence: Silence::Nowhere,
        };
        for (ticket, record) in records {
            let record = wire::decode(&record).expect("a record was encoded by this engine, and its log verifies checksums");
            let key = recovered.apply(record);
            journal.recovered(ticket, key);
        }
        let Self { lanes, decided, acceptors, silence, .. } = &mut recovered;
        *silence = silence.beside(decided.keys().next().copied(), order.at(), OPEN_SLOTS);
        lanes.find_ends(order.tips());
        acceptors.retain(|slot, _| *slot > order.at() && !decided.contains_key(slot));
        recovered
    }

    fn apply(&mut self, record: Record) -> RecordKey {
        match record {
            Record::Started => RecordKey::Started,
            Record::Acceptor { slot, acceptor } => {
                self.acceptors.insert(slot, acceptor);
                RecordKey::Acceptor(slot)
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
impl Baxos {
    /// Delivers decided slots in order, once their batches are here and their records are on disk.
    pub(crate) fn deliver(&mut self) {
        loop {
            let at = self.order.at().next();
            let Some(value) = self.decisions.durable(at) else { return };
            let batches = self.exchange.lanes.next_batches(&value.tips, self.order.tips());
            let Ok(batches) = batches else { return self.want_next_batches() };
            let next = Next { at, value, digest: self.context.value(at, value), leader: value.proposer };
            self.outputs.extend(self.order.deliver(&mut self.exchange, next, batches));
            // A proposer in the slot before prepares this one, although it is decided.
            self.acceptors.remove(&at);
        }
    }

    /// Asks for the missing batches of the next slots.
    fn want_next_batches(&mut self) {
        let missing = self.exchange.lanes.missing_next(self.decisions.waiting(self.order.at()), self.order.tips());
        missing.into_iter().for_each(|(author, tip)| self.want(author, tip, author));
    }

    /// Forgets old slots, and the records that nobody needs.
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
            RecordKey::Acceptor(slot) => !decisions.is_settled(*slot, order.at()),
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
impl Baxos {
    fn own_open_batches(&self) -> Vec<LaneBatch> {
        self.exchange.own_open_batches(self.order.tips())
    }

    pub(crate) fn announce_own_batches(&mut self) {
        self.own_open_batches().into_iter().for_each(|batch| self.broadcast(&Message::Batch(batch)));
    }

    pub(crate) fn greet(&mut self, peer: ValidatorIndex) {
        self.send_status(peer, None);
        if self.earlier_runs.needs_reports() {
            self.send(peer, &Message::AskHighest { run: self.run });
        }
        self.own_open_batches().into_iter().for_each(|batch| self.send(peer, &Message::Batch(batch)));
    }

    fn status(&self, echo: Option<TimestampMs>) -> Message {
        let (decided, delivered) = (self.decisions.contiguous(), self.order.tip(self.me).number);
        Message::Status { decided, delivered, rtt_ms: self.trips.own_max_ms(), time: self.now, echo }
    }

    fn send_status(&mut self, to: ValidatorIndex, echo: Option<TimestampMs>) {
        let status = self.status(echo);
        self.send(to, &status);
    }

    /// P9: an answer shows the round trip to its sender, also when it comes too late for its try.
    pub(crate) fn note_stamp(&mut self, from: ValidatorIndex, stamp: Stamp) {
        self.clocks.note(from, stamp.time, self.now);
        // A time in which this process stood still is none of the network.
        if stamp.echo >= self.awake_since {
            self.trips.measure(from, self.now.0.saturating_sub(stamp.echo.0));
        }
    }

    /// Time that this validator proposes. `None` before it knows the clocks of a majority.
    pub(crate) fn proposed_time(&self) -> Option<TimestampMs> {
        self.clocks.time(&self.committee, self.now)
    }

    pub(crate) fn handle_status(
        &mut self,
        from: ValidatorIndex,
        decided: Slot,
        rtt_ms: u64,
        time: TimestampMs,
        echo: Option<TimestampMs>,
    ) {
        self.trips.report(from, rtt_ms, self.now);
        match echo {
            Some(echo) => self.note_stamp(from, Stamp { echo, time }),
            None => {
                self.clocks.note(from, time, self.now);
                self.send_status(from, Some(time));
            }
        }
        if decided > self.decisions.contiguous() {
            self.catch_up(from);
        }
    }

    /// X12: asks for decisions, one validator at a time: all would send the same ones.
    pub(crate) fn catch_up(&mut self, from: ValidatorIndex) {
        let resend_ms = self.config.resend_ms;
        if self.asked.is_some_and(|(_, _, at)| self.now.0 < at.0.saturating_add(resend_ms)) {
            return;
        }
        let after = self.decisions.contiguous();
        self.asked = Some((from, after, self.now));
        self.send(from, &Message::CatchUp { after });
    }

    /// X12: sends decisions from this slot on, at most this many.
    pub(crate) fn send_decisions(&mut self, to: ValidatorIndex, first: Slot, most: usize) {
        let values = self.decisions.values_from(first, most);
        if !values.is_empty() {
            self.send(to, &Message::Decided { first, values });
        }
    }

    pub(crate) fn handle_decided(&mut self, from: ValidatorIndex, first: Slot, values: Vec<Value>) {
        let size = self.committee.size();
        let is_full = [decisions_at_once(size), decisions_for_request(size)].contains(&values.len());
        let before = self.decisions.contiguous();
        for (slot, value) in (first.0..).map(Slot).zip(&values) {
            self.decide(slot, value, "learned");
        }
        self.asked = self.asked.filter(|(peer, after, _)| (*peer, after.next()) != (from, first));
        // A response that taught nothing continues nothing: another one does.
        let contiguous = self.decisions.contiguous();
        if is_full && contiguous > before || first > contiguous.next() {
            self.catch_up(from);
        }
    }

    /// Asks for a batch, unless its author's copy may be on its way. An own one may be that of a twin.
    pub(crate) fn want(&mut self, author: ValidatorIndex, tip: Tip, source: ValidatorIndex) {
        let action = self.exchange.want(author, tip, source);
        self.outputs.extend(self.earlier_runs.check(&self.exchange, author, tip));
        self.perform(action);
    }

    pub(crate) fn handle_deadline(&mut self) {
        self.end_phase();
        if self.resend_at <= self.now {
            self.resend_at = TimestampMs(self.now.0.saturating_add(self.config.resend_ms));
            let actions = self.exchange.ask_again();
            self.perform(actions);
            let open = self.exchange.announce_again(self.order.tips());
            open.into_iter().for_each(|batch| self.broadcast(&Message::Batch(batch)));
            if self.earlier_runs.needs_reports() {
                self.broadcast(&Message::AskHighest { run: self.run });
            }
            if self.proposed_time().is_none() {
                let status = self.status(None);
                self.broadcast(&status);
            }
        }
        if self.status_at <= self.now {
            self.status_at = TimestampMs(self.now.0.saturating_add(self.config.status_ms));
            self.next_peer = (self.next_peer + 1) % self.committee.size();
            let peer = ValidatorIndex(u16::try_from(self.next_peer).unwrap_or_default());
            let slowest = self.trips.slowest().filter(|slowest| *slowest != peer);
            [Some(peer), slowest].into_iter().flatten().for_each(|peer| self.send_status(peer, None));
        }
    }

    /// An acceptor that lost its disk itself does not know its promises: it reports the highest slot that they may be of.
    pub(crate) fn handle_ask_highest(&mut self, from: ValidatorIndex, run: TimestampMs) {
        let Some(slot) = self.silence.report(self.highest()) else { return };
        self.send(from, &Message::Highest { run, slot });
    }

    /// X13: the highest slot in which a validator that lost its disk may have taken part.
    ///
    /// A proposer sends requests in a slot only if all slots up to two below it are decided. A decided slot is in the records of a
    /// quorum, and a quorum of reports has one of them.
    pub(crate) fn handle_highest(&mut self, from: ValidatorIndex, run: TimestampMs, slot: Slot) {
        if run != self.run {
            return;
        }
        let highest = self.earlier_runs.add(from, slot, &self.committee).filter(|_| self.silence == Silence::Everywhere);
        let Some(highest) = highest else { return };
        let last = Slot(highest.max(self.decisions.contiguous()).0 + OPEN_SLOTS);
        self.silence = Silence::Through(last);
        self.note("votes-regained", format!("after a lost disk, from slot {} on", last.next().0));
        self.persist(RecordKey::Silent, None);
    }

    /// Slots in which this validator is silent are decided soon, also in an idle chain: its own empty batches need slots, and others
    /// help with them.
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
