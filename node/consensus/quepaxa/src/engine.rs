//! The engine's state machine: inputs to rules, rules to outputs.
//!
//! Each step passes the input to the part that handles it, then calls [`QuePaxa::make_progress`]: requests whose batches arrived are
//! recorded, decided slots are delivered, slots are driven when their hedging delay is over.

use crate::{
    config::{Config, MAX_AHEAD},
    lanes::Lanes,
    message::{Answer, Context, LaneBatch, Message, Proposal, RequestId, Slot, Tip, Value},
    order::Order,
    record::{Record, RecordKey},
    repair::{Lead, Recovered, Silence, Wanted},
    rules::Register,
    slots::{Driving, Hedge, Timing},
    verify::Checked,
};
use corniche_engine::{
    Batch, Committee, Engine, Input, Journal, Output, Recipients, Resume, Ticket, TraceEvent, Vertex, VertexId, batch_digest,
};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, wire};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Arguments of [`QuePaxa::new`].
pub struct Setup {
    pub config: Config,
    pub committee: Committee,
    pub me: ValidatorIndex,
    /// Priorities are drawn from it. It is secret, and different in each process (X13).
    pub seed: u64,
    /// Records that were persisted and not released, in any order.
    pub records: Vec<(Ticket, Bytes)>,
    /// True if the caller knows that this validator never sent anything, from any disk.
    pub unsigned: bool,
    /// Position in the sequence of commits; may be ahead of the records.
    pub resume: Resume,
    pub now: TimestampMs,
}

/// The QuePaxa engine. See the crate documentation.
pub struct QuePaxa {
    pub(crate) config: Config,
    pub(crate) committee: Committee,
    pub(crate) context: Context,
    pub(crate) me: ValidatorIndex,
    pub(crate) now: TimestampMs,
    /// Start of this engine.
    pub(crate) run: TimestampMs,
    pub(crate) draws: Draws,
    pub(crate) order: Order,
    pub(crate) lanes: Lanes,
    // ---- slots
    /// Decisions above the floor.
    pub(crate) decided: BTreeMap<Slot, Decision>,
    /// All slots up to this one are decided.
    pub(crate) contiguous: Slot,
    pub(crate) registers: BTreeMap<Slot, Register>,
    /// Requests to this recorder whose batches are not on disk yet, the newest of each proposer.
    pub(crate) requests: BTreeMap<(Slot, ValidatorIndex), (RequestId, Proposal)>,
    pub(crate) driving: BTreeMap<Slot, Driving>,
    /// Answers with proposals whose batches are not here yet.
    pub(crate) answers: BTreeMap<(Slot, ValidatorIndex), (RequestId, Answer)>,
    /// Values that this validator proposed, or will propose once they are on disk (X2).
    pub(crate) own_values: BTreeMap<Slot, Value>,
    pub(crate) hedges: BTreeMap<Slot, Hedge>,
    pub(crate) timing: Timing,
    // ---- batches
    /// The engine asked for a batch.
    pub(crate) wants: bool,
    pub(crate) next_batch_at: TimestampMs,
    pub(crate) wanted: BTreeMap<(ValidatorIndex, Tip), Wanted>,
    // ---- disk and repair
    pub(crate) journal: Journal<RecordKey>,
    pub(crate) waiting: BTreeMap<Ticket, Vec<AfterDurable>>,
    /// The last write of each register that is not on disk yet.
    pub(crate) writing: BTreeMap<Slot, Ticket>,
    pub(crate) silence: Silence,
    /// Highest slots in use, as others report them.
    pub(crate) reports: BTreeMap<ValidatorIndex, Slot>,
    /// Slots up to this one are forgotten.
    pub(crate) floor: Slot,
    /// Highest number of each lane in forgotten slots.
    pub(crate) released: Vec<u64>,
    pub(crate) certified: Slot,
    /// Leads of the others' clocks.
    pub(crate) clocks: BTreeMap<ValidatorIndex, Lead>,
    /// Validators with a connection.
    pub(crate) connected: BTreeSet<ValidatorIndex>,
    /// Number of the last own batch that was delivered at the last timer.
    pub(crate) delivered_before: u64,
    pub(crate) resend_at: TimestampMs,
    pub(crate) status_at: TimestampMs,
    pub(crate) next_peer: usize,
    pub(crate) outputs: VecDeque<Output>,
}

pub(crate) struct Decision {
    pub value: Value,
    pub is_durable: bool,
}

/// An action that waits for a record.
pub(crate) enum AfterDurable {
    Batch(ValidatorIndex, Tip),
    /// Made by this engine, so it is sent to all.
    OwnBatch(Tip),
    Answer {
        to: ValidatorIndex,
        request: RequestId,
        answer: Answer,
    },
    Drive(Slot),
    Decided(Slot),
}

/// Random numbers that nobody else can predict (X13).
pub(crate) struct Draws {
    key: [u8; 32],
    count: u64,
}

impl Draws {
    fn new(seed: u64, me: ValidatorIndex, run: TimestampMs) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"corniche-quepaxa-draws").update(&seed.to_le_bytes());
        hasher.update(&me.0.to_le_bytes()).update(&run.0.to_le_bytes());
        Self { key: *hasher.finalize().as_bytes(), count: 0 }
    }

    pub fn draw(&mut self) -> u128 {
        self.count += 1;
        let hash = blake3::keyed_hash(&self.key, &self.count.to_le_bytes());
        let (half, _) = hash.as_bytes().split_at(16);
        half.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
    }
}

impl Engine for QuePaxa {
    fn handle(&mut self, now: TimestampMs, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Batch(batch) => self.handle_own_batch(batch),
            Input::Message { from, message } => {
                if let Ok(message) = message.0.downcast::<Checked>() {
                    self.handle_message(from, Arc::unwrap_or_clone(message).0);
                }
            }
            Input::Durable(ticket) => self.handle_durable(ticket),
            Input::Deadline => self.handle_deadline(),
            Input::PeerUp(peer) => {
                self.connected.insert(peer);
                self.greet(peer);
            }
            // Timers send again whatever the connection lost.
            Input::PeerDown(peer) => _ = self.connected.remove(&peer),
            Input::Certified(commit) => self.certified = self.certified.max(Slot(commit.0)),
            // This engine has no group.
            Input::Packet(_) | Input::Sequencer(_) => {}
        }
        self.make_progress();
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn clock_leads(&self) -> Vec<(ValidatorIndex, u64)> {
        self.clocks.iter().map(|(member, lead)| (*member, u64::try_from(lead.ms).unwrap_or(0))).collect()
    }

    fn deadline(&self) -> Option<TimestampMs> {
        let batch = (!self.wants && self.may_batch()).then_some(self.next_batch_at);
        let timers = [Some(self.resend_at), Some(self.status_at), self.next_hedge(), batch];
        timers.into_iter().flatten().min()
    }
}

impl QuePaxa {
    /// Creates an engine, new or recovered.
    pub fn new(setup: Setup) -> Self {
        let Setup { config, committee, me, seed, records, unsigned, resume, now } = setup;
        let (order, context) = (Order::new(&resume, &committee, &config), Context::new(&committee));
        let mut journal = Journal::new(now);
        let lanes = Lanes::new(context, &order.state().delivered);
        let recovered = Recovered::new(records, &mut journal, lanes, &order);
        let has_others = committee.votes(me) < committee.quorum();
        // X14: a recorder without its registers could contradict itself.
        let has_lost = recovered.is_empty && !unsigned && has_others;
        let silence = if has_lost { Silence::Everywhere } else { recovered.silence };
        let mut engine = Self {
            draws: Draws::new(seed, me, now),
            contiguous: order.slot(),
            floor: recovered.floor,
            released: vec![0; committee.size()],
            lanes: recovered.lanes,
            decided: recovered.decided,
            registers: recovered.registers,
            own_values: recovered.own_values,
            requests: BTreeMap::new(),
            driving: BTreeMap::new(),
            answers: BTreeMap::new(),
            hedges: BTreeMap::new(),
            timing: Timing::default(),
            wants: false,
            next_batch_at: now,
            wanted: BTreeMap::new(),
            waiting: BTreeMap::new(),
            writing: BTreeMap::new(),
            silence,
            reports: BTreeMap::new(),
            certified: Slot(0),
            clocks: BTreeMap::new(),
            connected: BTreeSet::new(),
            delivered_before: 0,
            resend_at: TimestampMs(now.0.saturating_add(config.resend_ms)),
            status_at: TimestampMs(now.0.saturating_add(config.status_ms)),
            next_peer: me.as_usize(),
            outputs: VecDeque::new(),
            run: now,
            config,
            committee,
            context,
            me,
            now,
            order,
            journal,
        };
        if has_lost {
            // The only record, so that a power cut cannot leave others without it.
            engine.persist(RecordKey::Silent, None);
            engine.note("disk-lost", "gives no answer until members with a quorum of votes report the slots in use".into());
        } else if recovered.is_empty {
            engine.persist(RecordKey::Started, None);
        }
        engine.announce_own_batches();
        engine.make_progress();
        engine
    }

    pub(crate) fn indices(&self) -> impl Iterator<Item = ValidatorIndex> + use<> {
        self.committee.indices()
    }

    fn handle_message(&mut self, from: ValidatorIndex, message: Message) {
        match message {
            Message::Batch(batch) => self.handle_batch(from, batch),
            Message::FetchBatch { author, tip } => {
                if let Some(batch) = self.lanes.get(author, &tip).cloned() {
                    self.send(from, &Message::Batch(batch));
                }
            }
            Message::Record { request, proposal } => self.handle_record(from, request, proposal),
            Message::Answer { request, answer, time } => {
                self.note_clock(from, time);
                self.handle_answer(from, request, answer);
            }
            Message::Decided { first, values } => self.handle_decided(from, first, values),
            Message::Progress { decided, time } => {
                self.note_clock(from, time);
                self.handle_progress(from, decided);
            }
            Message::AskHighest { run } => self.handle_ask_highest(from, run),
            Message::Highest { run, slot, time } => {
                self.note_clock(from, time);
                self.handle_highest(from, run, slot);
            }
        }
    }

    fn handle_durable(&mut self, ticket: Ticket) {
        self.journal.durable(ticket);
        self.writing.retain(|_, last| *last > ticket);
        for action in self.waiting.remove(&ticket).unwrap_or_default() {
            match action {
                AfterDurable::Batch(author, tip) => self.handle_batch_durable(author, tip, false),
                AfterDurable::OwnBatch(tip) => self.handle_batch_durable(self.me, tip, true),
                AfterDurable::Answer { to, request, answer } => self.send_answer(to, request, answer),
                AfterDurable::Drive(slot) => self.send_requests(slot),
                AfterDurable::Decided(slot) => {
                    if let Some(decision) = self.decided.get_mut(&slot) {
                        decision.is_durable = true;
                    }
                }
            }
        }
    }

    pub(crate) fn make_progress(&mut self) {
        // Answers of the own recorder, and what follows from them, come without another input.
        loop {
            let before = self.outputs.len();
            self.record_waiting_requests();
            self.take_waiting_answers();
            self.deliver();
            self.end_silence();
            self.drive_slots();
            if self.outputs.len() == before {
                break;
            }
        }
        self.ask_for_batch();
        self.release();
    }

    // ---- batches

    /// The own lane has room for another batch.
    fn may_batch(&self) -> bool {
        let open = self.lanes.newest(self.me).number.saturating_sub(self.order.delivered(self.me).number);
        open < self.config.open_batches
    }

    fn ask_for_batch(&mut self) {
        if !self.wants && self.may_batch() && self.next_batch_at <= self.now {
            self.wants = true;
            self.outputs.push_back(Output::WantBatch { bytes: self.config.batch_bytes, gas: self.config.batch_gas });
        }
    }

    /// An empty batch asks for a commit without transactions, so it is one like any other.
    fn handle_own_batch(&mut self, batch: Batch) {
        self.wants = false;
        self.next_batch_at = TimestampMs(self.now.0.saturating_add(self.config.batch_pause_ms(batch.bytes.len())));
        self.add_own_batch(batch.bytes);
    }

    /// Extends the own lane.
    pub(crate) fn add_own_batch(&mut self, bytes: Bytes) {
        let Tip { number, digest: parent } = self.lanes.newest(self.me);
        let batch = LaneBatch { author: self.me, number: number + 1, parent, bytes };
        let tip = self.context.tip(&batch);
        if let Some(vertex) = self.vertex(&batch, tip) {
            self.outputs.push_back(Output::Trace(TraceEvent::Proposed(vertex)));
        }
        self.store(tip, batch, AfterDurable::OwnBatch(tip));
        self.lanes.extend(self.me, tip);
    }

    /// Adds a batch, and writes it. Returns true if it is new.
    fn store(&mut self, tip: Tip, batch: LaneBatch, then: AfterDurable) -> bool {
        let author = batch.author;
        let is_new = self.lanes.insert(tip, batch);
        if is_new {
            self.wanted.remove(&(author, tip));
            self.persist(RecordKey::Batch(author, tip), Some(then));
        }
        is_new
    }

    fn handle_batch_durable(&mut self, author: ValidatorIndex, tip: Tip, is_new: bool) {
        self.lanes.mark_durable(author, &tip);
        let Some(batch) = self.lanes.get(author, &tip).cloned() else { return };
        self.accept(&batch, tip);
        if is_new {
            self.broadcast(&Message::Batch(batch));
        }
    }

    fn handle_batch(&mut self, from: ValidatorIndex, batch: LaneBatch) {
        let (author, tip) = (batch.author, self.context.tip(&batch));
        let is_wanted = self.wanted.contains_key(&(author, tip));
        let delivered = self.order.delivered(author).number;
        let fits = batch.number > delivered
            && batch.number <= delivered + MAX_AHEAD
            && self.lanes.count_above(author, delivered) < MAX_AHEAD;
        if !is_wanted && (author == self.me || from != author || !fits) {
            return;
        }
        let is_new = self.store(tip, batch, AfterDurable::Batch(author, tip));
        // A lane that goes back begins again: its author lost its disk. A batch that was asked for may be older.
        if from == author && !is_wanted && (is_new || tip.number > self.lanes.newest(author).number) {
            self.lanes.extend(author, tip);
        }
    }

    fn accept(&mut self, batch: &LaneBatch, tip: Tip) {
        let Some(vertex) = self.vertex(batch, tip) else { return };
        self.outputs.push_back(Output::Trace(TraceEvent::Accepted(vertex)));
        if !batch.bytes.is_empty() && batch.number > self.order.delivered(batch.author).number {
            let batch_bytes = Batch { bytes: batch.bytes.clone() };
            self.outputs.push_back(Output::Available { author: batch.author, batch: batch_bytes });
        }
    }

    /// A batch as it is shown to people: its round is its number in the lane.
    fn vertex(&self, batch: &LaneBatch, tip: Tip) -> Option<Vertex> {
        let id = VertexId { round: tip.number, author: batch.author, digest: tip.digest };
        let parent = VertexId { round: tip.number.checked_sub(1)?, author: batch.author, digest: batch.parent };
        let parents = if parent.round > 0 { vec![parent] } else { Vec::new() };
        let digest = (!batch.bytes.is_empty()).then(|| batch_digest(&batch.bytes));
        let batch_bytes = u32::try_from(batch.bytes.len()).unwrap_or(u32::MAX);
        Some(Vertex { id, parents, batch_bytes, batch_digest: digest })
    }

    // ---- outputs

    pub(crate) fn send(&mut self, to: ValidatorIndex, message: &Message) {
        if to != self.me {
            self.outputs.push_back(Output::Send { to: Recipients::One(to), message: message.encode() });
        }
    }

    pub(crate) fn broadcast(&mut self, message: &Message) {
        if self.committee.size() > 1 {
            self.outputs.push_back(Output::Send { to: Recipients::All, message: message.encode() });
        }
    }

    pub(crate) fn note(&mut self, name: &str, detail: String) {
        self.outputs.push_back(Output::Trace(TraceEvent::note(name, detail)));
    }

    /// Writes the current content of a record.
    pub(crate) fn persist(&mut self, key: RecordKey, then: Option<AfterDurable>) -> Option<Ticket> {
        let record = self.record(key)?;
        let ticket = self.journal.append(key);
        self.outputs.push_back(Output::Persist(ticket, wire::encode(&record).into()));
        self.waiting.entry(ticket).or_default().extend(then);
        Some(ticket)
    }

    fn record(&self, key: RecordKey) -> Option<Record> {
        Some(match key {
            RecordKey::Started => Record::Started,
            RecordKey::Register(slot) => Record::Register { slot, register: self.registers.get(&slot)?.clone() },
            RecordKey::Own(slot) => Record::Own { slot, value: self.own_values.get(&slot)?.clone() },
            RecordKey::Decided(slot) => Record::Decided { slot, value: self.decided.get(&slot)?.value.clone() },
            RecordKey::Batch(author, tip) => Record::Batch(self.lanes.get(author, &tip)?.clone()),
            RecordKey::Silent => match self.silence {
                Silence::Nowhere => return None,
                Silence::Through(slot) => Record::Silent(Some(slot)),
                Silence::Everywhere => Record::Silent(None),
            },
        })
    }

    /// Number of items held, for tests.
    pub fn footprint(&self) -> usize {
        let slots =
            self.decided.len() + self.registers.len() + self.requests.len() + self.driving.len() + self.own_values.len();
        slots + self.hedges.len() + self.answers.len() + self.lanes.count() + self.wanted.len()
    }

    /// State for failed runs.
    pub fn describe(&self) -> String {
        let driving: Vec<_> = self.driving.iter().map(|(slot, driving)| (slot.0, driving.step())).collect();
        let newest: Vec<_> = self.indices().map(|author| self.lanes.newest(author).number).collect();
        let delivered: Vec<_> = self.order.state().delivered.iter().map(|tip| tip.number).collect();
        format!(
            "delivered {}, contiguous {}, floor {}, decided up to {:?}, registers {:?}, driving {driving:?}, lanes {newest:?} delivered {delivered:?}, \
             requests {}, wanted {}, silence {:?}, wants {}",
            self.order.slot().0,
            self.contiguous.0,
            self.floor.0,
            self.decided.last_key_value().map(|(slot, _)| slot.0),
            self.registers.keys().map(|slot| slot.0).collect::<Vec<_>>(),
            self.requests.len(),
            self.wanted.len(),
            self.silence,
            self.wants,
        )
    }
}
