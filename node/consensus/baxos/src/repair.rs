//! Deliveries, retention, and what a validator needs after a restart, a lost disk or a lost connection.

use crate::{
    config::{decisions_at_once, decisions_for_request},
    engine::{AfterDurable, Baxos, Decision},
    message::{LaneBatch, Message, Slot, Stamp, Tip, Value},
    order::Order,
    record::{Record, RecordKey},
    rules::Acceptor,
};
use corniche_engine::{Journal, Output, Ticket, TraceEvent};
use corniche_lanes::{Lanes, Silence};
use corniche_types::{Bytes, CommitIndex, TimestampMs, ValidatorIndex, wire};
use std::collections::BTreeMap;

/// Number of decided slots whose batches are asked for at once.
const SLOTS_AT_ONCE: usize = 64;
/// Slots above the decided ones in which a proposer sends requests: the lowest that is not decided, and the next one (P10).
const OPEN_SLOTS: u64 = 2;

/// State from the records.
pub(crate) struct Recovered {
    pub is_empty: bool,
    pub lanes: Lanes,
    pub decided: BTreeMap<Slot, Decision>,
    pub acceptors: BTreeMap<Slot, Acceptor>,
    pub silence: Silence<Slot>,
    pub floor: Slot,
}

impl Recovered {
    pub fn new(mut records: Vec<(Ticket, Bytes)>, journal: &mut Journal<RecordKey>, lanes: Lanes, order: &Order) -> Self {
        records.sort_unstable_by_key(|(ticket, _)| *ticket);
        let mut recovered = Self {
            is_empty: records.is_empty(),
            lanes,
            decided: BTreeMap::new(),
            acceptors: BTreeMap::new(),
            silence: Silence::Nowhere,
            floor: order.slot(),
        };
        for (ticket, record) in records {
            let record = wire::decode(&record).expect("a record was encoded by this engine, and its log verifies checksums");
            let key = recovered.apply(record);
            journal.recovered(ticket, key);
        }
        let Self { lanes, decided, acceptors, floor, silence, .. } = &mut recovered;
        // A chain that is executed again beside older records. Up to the first decision this acceptor has answered and forgotten.
        // Two slots are open at a time (P10).
        let first = decided.keys().next().filter(|first| first.0 > order.slot().0 + 3);
        if let (Some(first), Silence::Nowhere) = (first, &silence) {
            *silence = Silence::Through(Slot(first.0 - 1));
        }
        lanes.find_ends(&order.state().delivered);
        // Slots before a gap are of no use for others.
        while floor.0 > 0 && decided.contains_key(floor) {
            floor.0 -= 1;
        }
        decided.retain(|slot, _| *slot > *floor);
        acceptors.retain(|slot, _| *slot > order.slot() && !decided.contains_key(slot));
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
impl Baxos {
    /// Delivers decided slots in order, once their batches are here and their records are on disk. A validator that delivered a slot
    /// takes no part in it any more, so it must be able to tell others the decision.
    pub(crate) fn deliver(&mut self) {
        self.advance_contiguous();
        loop {
            let slot = self.order.slot().next();
            let Some(decision) = self.decided.get(&slot).filter(|decision| decision.is_durable) else { return };
            let value = decision.value.clone();
            let before = self.order.delivered(self.me);
            let batches = self.exchange.lanes.next_batches(&value.tips, &self.order.state().delivered);
            let Ok(batches) = batches else { return self.want_next_batches() };
            let ordered = self.order.execute(slot, &value, batches);
            let commit = CommitIndex(slot.0);
            self.outputs.push_back(Output::Trace(TraceEvent::Delivered { round: slot.0, rank: 0, commit }));
            self.outputs.push_back(Output::Deliver(ordered));
            // A proposer in the slot before prepares this one, although it is decided.
            self.acceptors.remove(&slot);
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

    /// Forgets old slots, and the records that nobody needs.
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
            RecordKey::Acceptor(slot) => !is_settled(slot),
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
impl Baxos {
    fn own_open_batches(&self) -> Vec<LaneBatch> {
        self.exchange.own_open_batches(&self.order.state().delivered)
    }

    pub(crate) fn announce_own_batches(&mut self) {
        self.own_open_batches().into_iter().for_each(|batch| self.broadcast(&Message::Batch(batch)));
    }

    pub(crate) fn greet(&mut self, peer: ValidatorIndex) {
        self.send_status(peer, None);
        if self.silence == Silence::Everywhere {
            self.send(peer, &Message::AskHighest { run: self.run });
        }
        self.own_open_batches().into_iter().for_each(|batch| self.send(peer, &Message::Batch(batch)));
    }

    fn status(&self, echo: Option<TimestampMs>) -> Message {
        Message::Status { decided: self.contiguous, rtt_ms: self.trips.own_max_ms(), time: self.now, echo }
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
        if decided > self.contiguous {
            self.catch_up(from);
        }
    }

    /// X12: asks for decisions, one validator at a time: all would send the same ones.
    pub(crate) fn catch_up(&mut self, from: ValidatorIndex) {
        let resend_ms = self.config.resend_ms;
        if self.asked.is_some_and(|(_, _, at)| self.now.0 < at.0.saturating_add(resend_ms)) {
            return;
        }
        let after = self.contiguous;
        self.asked = Some((from, after, self.now));
        self.send(from, &Message::CatchUp { after });
    }

    /// X12: sends decisions from this slot on, at most this many.
    pub(crate) fn send_decisions(&mut self, to: ValidatorIndex, first: Slot, most: usize) {
        let known = (first.0..).map_while(|slot| self.decided.get(&Slot(slot)));
        let values: Vec<Value> = known.map(|decision| decision.value.clone()).take(most).collect();
        if !values.is_empty() {
            self.send(to, &Message::Decided { first, values });
        }
    }

    pub(crate) fn handle_decided(&mut self, from: ValidatorIndex, first: Slot, values: Vec<Value>) {
        let size = self.committee.size();
        let is_full = [decisions_at_once(size), decisions_for_request(size)].contains(&values.len());
        let before = self.contiguous;
        for (slot, value) in (first.0..).map(Slot).zip(values) {
            self.decide(slot, value, "learned");
        }
        self.asked = self.asked.filter(|(peer, after, _)| (*peer, after.next()) != (from, first));
        // A response that taught nothing continues nothing: another one does.
        if is_full && self.contiguous > before || first > self.contiguous.next() {
            self.catch_up(from);
        }
    }

    /// Asks for a batch, at once the first time.
    pub(crate) fn want(&mut self, author: ValidatorIndex, tip: Tip, source: ValidatorIndex) {
        let action = self.exchange.want(author, tip, source);
        self.perform(action);
    }

    pub(crate) fn handle_deadline(&mut self) {
        self.end_phase();
        if self.resend_at <= self.now {
            self.resend_at = TimestampMs(self.now.0.saturating_add(self.config.resend_ms));
            let actions = self.exchange.ask_again();
            self.perform(actions);
            let open = self.exchange.announce_again(&self.order.state().delivered);
            open.into_iter().for_each(|batch| self.broadcast(&Message::Batch(batch)));
            if self.silence == Silence::Everywhere {
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
        if self.silence != Silence::Everywhere || run != self.run {
            return;
        }
        self.reports.insert(from, slot);
        if self.committee.weigh(self.reports.keys().copied()) < self.committee.quorum() {
            return;
        }
        let highest = self.reports.values().copied().max().unwrap_or_default().max(self.contiguous);
        let last = Slot(highest.0 + OPEN_SLOTS);
        self.silence = Silence::Through(last);
        self.reports.clear();
        self.note("votes-regained", format!("after a lost disk, from slot {} on", last.next().0));
        self.persist(RecordKey::Silent, None);
    }

    /// Slots in which this validator is silent are decided soon, also in an idle chain: its own empty batches need slots, and others
    /// help with them.
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
