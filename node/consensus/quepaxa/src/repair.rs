//! Deliveries, retention, and what a validator needs after a restart, a lost disk or a lost connection.

use crate::{
    config::{MAX_CLOCK_ERROR_MS, decisions_at_once},
    engine::{Decision, QuePaxa},
    lanes::Lanes,
    message::{LaneBatch, Message, Slot, Tip, Value},
    order::Order,
    record::{Record, RecordKey},
    rules::Register,
};
use corniche_engine::{Batch, Journal, Output, Ticket, TraceEvent};
use corniche_types::{Bytes, CommitIndex, TimestampMs, ValidatorIndex, Votes, wire};
use std::collections::{BTreeMap, BTreeSet};

/// Number of decided slots whose batches are asked for at once.
const SLOTS_AT_ONCE: usize = 64;
/// A missing batch is asked for this often, then only if something still needs it.
const MAX_ATTEMPTS: usize = 64;

/// Slots in which this recorder gives no answer, because it lost its disk (X14).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    Nowhere,
    /// In slots up to this one: in no later one it can have answered before.
    Through(Slot),
    /// Until enough others report the slots in use.
    Everywhere,
}

impl Silence {
    /// Returns true if this validator may take part in a slot.
    pub fn allows(&self, slot: Slot) -> bool {
        match self {
            Self::Nowhere => true,
            Self::Through(last) => slot > *last,
            Self::Everywhere => false,
        }
    }
}

/// Lead of another validator's clock, ms, less the delay of the network.
pub(crate) struct Lead {
    pub ms: i64,
    noted_at: TimestampMs,
}

/// A batch that is missing.
pub(crate) struct Wanted {
    /// The validator that knows of it.
    source: ValidatorIndex,
    attempts: usize,
}

/// State from the records.
pub(crate) struct Recovered {
    pub is_empty: bool,
    pub lanes: Lanes,
    pub decided: BTreeMap<Slot, Decision>,
    pub registers: BTreeMap<Slot, Register>,
    pub own_values: BTreeMap<Slot, Value>,
    pub silence: Silence,
    pub floor: Slot,
}

impl Recovered {
    pub fn new(mut records: Vec<(Ticket, Bytes)>, journal: &mut Journal<RecordKey>, lanes: Lanes, order: &Order) -> Self {
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
        let Self { lanes, decided, registers, own_values, floor, .. } = &mut recovered;
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
                let (author, tip) = (batch.author, self.lanes.tip(&batch));
                self.lanes.insert(tip, batch);
                self.lanes.mark_durable(author, &tip);
                RecordKey::Batch(author, tip)
            }
            Record::Silent(slot) => {
                self.silence = slot.map_or(Silence::Everywhere, Silence::Through);
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
            let Some(decision) = self.decided.get(&slot) else { return };
            let value = decision.value.clone();
            let before = self.order.delivered(self.me);
            let lanes = self.indices().zip(&value.tips);
            let lanes = lanes.map(|(author, tip)| self.lanes.chain(author, *tip, self.order.delivered(author).number));
            let Ok(batches) = lanes.collect::<Result<Vec<_>, _>>() else { return self.want_next_batches() };
            let ordered = self.order.execute(slot, &value, batches.concat());
            let commit = CommitIndex(slot.0);
            self.outputs.push_back(Output::Trace(TraceEvent::Delivered { round: slot.0, rank: 0, commit }));
            self.outputs.push_back(Output::Deliver(ordered));
            self.registers.remove(&slot);
            self.own_values.remove(&slot);
            self.follow_lanes();
            self.return_displaced(before);
        }
    }

    /// Asks for the missing batches of the next slots.
    fn want_next_batches(&mut self) {
        let next = self.decided.range(self.order.slot().next()..).take(SLOTS_AT_ONCE);
        let tips = next.flat_map(|(_, decision)| self.indices().zip(decision.value.tips.iter().copied()));
        let missing = |(author, tip): (ValidatorIndex, Tip)| {
            let above = self.order.delivered(author).number;
            self.lanes.chain(author, tip, above).err().map(|missing| (author, missing))
        };
        let missing: BTreeSet<_> = tips.filter_map(missing).collect();
        missing.into_iter().for_each(|(author, tip)| self.want(author, tip, author));
    }

    /// A lane ends at least where it is delivered, and with the delivered batch there.
    fn follow_lanes(&mut self) {
        for author in self.indices() {
            let delivered = self.order.delivered(author);
            if self.lanes.newest(author).number <= delivered.number {
                self.lanes.extend(author, delivered);
            }
        }
    }

    /// After a lost disk, own batches may have numbers that were used before. Those that lost against earlier ones go back.
    fn return_displaced(&mut self, before: Tip) {
        let delivered = self.order.delivered(self.me);
        if delivered.number == before.number {
            return;
        }
        let kept = self.lanes.chain(self.me, delivered, before.number).unwrap_or_default();
        let kept: BTreeSet<Tip> = kept.iter().map(|batch| self.lanes.tip(batch)).collect();
        let own =
            self.lanes.above(self.me, before.number).filter(|(tip, _)| tip.number <= delivered.number && !kept.contains(tip));
        let displaced: Vec<Bytes> = own.map(|(_, bytes)| bytes.clone()).filter(|bytes| !bytes.is_empty()).collect();
        displaced.into_iter().for_each(|bytes| self.outputs.push_back(Output::Requeue(Batch { bytes })));
    }

    /// O6: forgets old slots, and the records that nobody needs.
    pub(crate) fn release(&mut self) {
        let (delivered, retain) = (self.order.slot().0, self.config.retain_slots);
        let certified = self.certified.0.min(delivered.saturating_sub(retain));
        let floor = Slot(certified.max(delivered.saturating_sub(4 * retain)));
        while self.floor < floor {
            self.floor = self.floor.next();
            let Some(decision) = self.decided.remove(&self.floor) else { continue };
            for (author, tip) in self.indices().zip(&decision.value.tips) {
                let released = &mut self.released[author.as_usize()];
                if tip.number > *released {
                    *released = tip.number;
                    self.lanes.release(author, tip.number);
                }
            }
        }
        // A batch that is still needed is asked for again.
        self.wanted
            .retain(|(author, tip), wanted| tip.number > self.released[author.as_usize()] && wanted.attempts < MAX_ATTEMPTS);
        self.release_records();
    }

    fn release_records(&mut self) {
        let Self { journal, decided, order, lanes, silence, floor, .. } = self;
        let is_settled =
            |slot: &Slot| slot <= floor || decided.get(slot).map_or(*slot <= order.slot(), |decision| decision.is_durable);
        let is_needed = |key: &RecordKey| match key {
            RecordKey::Started => true,
            RecordKey::Register(slot) | RecordKey::Own(slot) => !is_settled(slot),
            RecordKey::Decided(slot) => slot > floor && decided.contains_key(slot),
            RecordKey::Batch(author, tip) => lanes.get(*author, tip).is_some(),
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
    /// Own batches on disk that are not delivered.
    fn own_open_batches(&self) -> Vec<LaneBatch> {
        let delivered = self.order.delivered(self.me);
        let end = self.lanes.durable_tip(self.me, delivered);
        self.lanes.chain(self.me, end, delivered.number).unwrap_or_default()
    }

    pub(crate) fn announce_own_batches(&mut self) {
        self.own_open_batches().into_iter().for_each(|batch| self.broadcast(&Message::Batch(batch)));
    }

    pub(crate) fn greet(&mut self, peer: ValidatorIndex) {
        self.send_progress(peer);
        if self.silence == Silence::Everywhere {
            self.send(peer, &Message::AskHighest { run: self.run });
        }
        self.own_open_batches().into_iter().for_each(|batch| self.send(peer, &Message::Batch(batch)));
    }

    pub(crate) fn send_progress(&mut self, to: ValidatorIndex) {
        self.send(to, &Message::Progress { decided: self.contiguous, time: self.now });
    }

    pub(crate) fn note_clock(&mut self, from: ValidatorIndex, time: TimestampMs) {
        let ms = time.0.cast_signed().saturating_sub(self.now.0.cast_signed());
        self.clocks.insert(from, Lead { ms, noted_at: self.now });
    }

    /// Time that this validator proposes. A value is believed once it is proposed, and time never goes back, so one wrong clock would
    /// stop the time of the chain: a validator whose clock is far from the median takes the median. `None` before it knows the
    /// clocks of a majority. After its own clock jumped ahead, it has to hear them again.
    pub(crate) fn time(&self) -> Option<TimestampMs> {
        let majority = Votes(self.committee.total().0 / 2 + 1);
        // Each member sends its clock to each other one in this time, and with every answer.
        let rounds = 2 * self.committee.size() as u64 * self.config.status_ms;
        let is_fresh = |lead: &Lead| lead.noted_at.0.saturating_add(rounds) >= self.now.0;
        let others = self.clocks.iter().filter(|(_, lead)| is_fresh(lead)).map(|(member, lead)| (*member, lead.ms));
        let median = self.committee.weights().reached(others.chain([(self.me, 0)]), majority)?;
        let lead = if median.abs() > MAX_CLOCK_ERROR_MS { median } else { 0 };
        Some(TimestampMs(self.now.0.saturating_add_signed(lead)))
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
        let is_held = self.lanes.get(author, &tip).is_some();
        if !is_held && !self.wanted.contains_key(&(author, tip)) {
            self.wanted.insert((author, tip), Wanted { source, attempts: 0 });
            self.ask_for(author, tip);
        }
    }

    fn ask_for(&mut self, author: ValidatorIndex, tip: Tip) {
        let mut others: Vec<_> = self.connected.iter().copied().filter(|member| *member != self.me).collect();
        if others.is_empty() {
            others.extend(self.indices().filter(|member| *member != self.me));
        }
        let Some(wanted) = self.wanted.get_mut(&(author, tip)).filter(|_| !others.is_empty()) else { return };
        let to = match wanted.attempts {
            0 if others.contains(&wanted.source) => wanted.source,
            attempts => others[(attempts + tip.number as usize) % others.len()],
        };
        wanted.attempts += 1;
        self.send(to, &Message::FetchBatch { author, tip });
    }

    pub(crate) fn handle_deadline(&mut self) {
        if self.resend_at <= self.now {
            self.resend_at = TimestampMs(self.now.0.saturating_add(self.config.resend_ms));
            self.resend_requests();
            let wanted: Vec<_> = self.wanted.keys().copied().collect();
            wanted.into_iter().for_each(|(author, tip)| self.ask_for(author, tip));
            let delivered = self.order.delivered(self.me).number;
            if std::mem::replace(&mut self.delivered_before, delivered) == delivered {
                self.announce_own_batches();
            }
            if self.silence == Silence::Everywhere || self.time().is_none() {
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
        let slot = match self.silence {
            Silence::Everywhere => return,
            Silence::Through(last) => self.highest().max(last),
            Silence::Nowhere => self.highest(),
        };
        self.send(from, &Message::Highest { run, slot, time: self.now });
    }

    /// X14: the highest slot in which a recorder that lost its disk may have answered.
    ///
    /// A proposer opens slots up to `window` above the decided ones it knows. A decided slot is in the register of a quorum, and a
    /// quorum of reports has one of these registers.
    pub(crate) fn handle_highest(&mut self, from: ValidatorIndex, run: TimestampMs, slot: Slot) {
        if self.silence != Silence::Everywhere || run != self.run {
            return;
        }
        self.reports.insert(from, slot);
        if self.committee.weigh(self.reports.keys().copied()) < self.committee.quorum() {
            return;
        }
        let highest = self.reports.values().copied().max().unwrap_or_default().max(self.contiguous);
        self.silence = Silence::Through(Slot(highest.0 + self.config.window));
        self.reports.clear();
        self.note("votes-regained", format!("after a lost disk, from slot {} on", highest.0 + self.config.window + 1));
        self.persist(RecordKey::Silent, None);
    }

    /// Slots in which this recorder is silent are decided soon, also in an idle chain: its own empty batches need slots.
    pub(crate) fn end_silence(&mut self) {
        let Silence::Through(last) = self.silence else { return };
        if self.contiguous >= last {
            self.silence = Silence::Nowhere;
        } else if self.lanes.newest(self.me).number == self.order.delivered(self.me).number {
            self.add_own_batch(Bytes::new());
        }
    }
}
