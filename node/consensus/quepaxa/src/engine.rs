//! The engine's state machine: inputs to rules, rules to outputs.
//!
//! Each step passes the input to the part that handles it, then calls [`QuePaxa::make_progress`]: requests whose batches arrived are
//! recorded, decided slots are delivered, slots are driven when their hedging delay is over.

use crate::{
    config::Config,
    message::{Answer, BATCH_TAG, Context, Message, Proposal, RANDOMNESS_TAG, RequestId, Slot, Tip, Value},
    record::{Record, RecordKey},
    repair::Recovered,
    rules::Register,
    schedules::{Leaders, Schedules},
    slots::{Driving, Hedge, Timing},
    verify::Checked,
};
use corniche_engine::{Committee, Engine, Input, Journal, Output, Recipients, Resume, Ticket, TraceEvent};
use corniche_lanes::{Action, Clocks, Decisions, Draws, EarlierRuns, Exchange, LaneContext, Lanes, Order, Silence};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, wire};
use std::{
    collections::{BTreeMap, VecDeque},
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
    pub(crate) order: Order<Slot, Schedules>,
    pub(crate) leaders: Leaders,
    pub(crate) exchange: Exchange,
    // ---- slots
    pub(crate) decisions: Decisions<Value>,
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
    // ---- disk and repair
    pub(crate) journal: Journal<RecordKey>,
    pub(crate) waiting: BTreeMap<Ticket, Vec<AfterDurable>>,
    /// The last write of each register that is not on disk yet.
    pub(crate) writing: BTreeMap<Slot, Ticket>,
    pub(crate) silence: Silence<Slot>,
    /// Highest slots in use, as others report them after this start.
    pub(crate) earlier_runs: EarlierRuns<Slot>,
    pub(crate) certified: Slot,
    pub(crate) clocks: Clocks,
    pub(crate) resend_at: TimestampMs,
    pub(crate) status_at: TimestampMs,
    pub(crate) next_peer: usize,
    pub(crate) outputs: VecDeque<Output>,
}

/// An action that waits for a record.
pub(crate) enum AfterDurable {
    Batch(ValidatorIndex, Tip),
    Answer {
        to: ValidatorIndex,
        request: RequestId,
        answer: Answer,
    },
    Drive(Slot),
    Decided(Slot),
    /// The record that replaces the one of the silence is on disk.
    SilenceEnded,
}

impl Engine for QuePaxa {
    fn handle(&mut self, now: TimestampMs, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Batch(batch) => {
                let actions = self.exchange.handle_own_batch(batch, self.now);
                self.perform(actions);
            }
            Input::Message { from, message } => {
                if let Ok(message) = message.0.downcast::<Checked>() {
                    self.handle_message(from, Arc::unwrap_or_clone(message).0);
                }
            }
            Input::Durable(ticket) => self.handle_durable(ticket),
            Input::Deadline => self.handle_deadline(),
            Input::PeerUp(peer) => {
                self.exchange.peer_up(peer);
                self.greet(peer);
            }
            // Timers send again whatever else the connection lost.
            Input::PeerDown(peer) => {
                let actions = self.exchange.peer_down(peer);
                self.perform(actions);
            }
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
        self.clocks.leads()
    }

    fn deadline(&self) -> Option<TimestampMs> {
        let batch = self.exchange.deadline(self.order.tips());
        let timers = [Some(self.resend_at), Some(self.status_at), self.next_hedge(), batch];
        timers.into_iter().flatten().min()
    }
}

impl QuePaxa {
    /// Creates an engine, new or recovered.
    pub fn new(setup: Setup) -> Self {
        let Setup { config, committee, me, seed, records, unsigned, resume, now } = setup;
        let genesis = (config.genesis_time, config.genesis_randomness);
        let (order, context) = (Order::new(&resume, &committee, genesis, RANDOMNESS_TAG), Context::new(&committee));
        let mut journal = Journal::new(now);
        let lanes = Lanes::new(LaneContext::new(&committee, BATCH_TAG), order.tips());
        let recovered = Recovered::new(records, &mut journal, lanes, &order, config.window);
        let has_others = committee.votes(me) < committee.quorum();
        // X14: a recorder without its registers could contradict itself, also at the genesis (`Silence`).
        let has_lost = recovered.is_empty && !unsigned && has_others;
        let silence = if has_lost { Silence::Everywhere } else { recovered.silence };
        let mut engine = Self {
            draws: Draws::new("corniche-quepaxa-draws", seed, me, now),
            leaders: Leaders::new(&committee, &config),
            decisions: Decisions::recovered(order.at(), recovered.decided),
            exchange: Exchange::new(config.lanes(), me, committee.size(), recovered.lanes, now),
            registers: recovered.registers,
            own_values: recovered.own_values,
            requests: BTreeMap::new(),
            driving: BTreeMap::new(),
            answers: BTreeMap::new(),
            hedges: BTreeMap::new(),
            timing: Timing::default(),
            waiting: BTreeMap::new(),
            writing: BTreeMap::new(),
            silence,
            earlier_runs: EarlierRuns::default(),
            certified: Slot(0),
            // Each member sends its clock to each other one in half of this time, and with every answer.
            clocks: Clocks::new(me, 2 * committee.size() as u64 * config.status_ms),
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
            Message::Batch(batch) => {
                let actions = self.exchange.handle_batch(from, batch, self.order.tips());
                self.perform(actions);
            }
            Message::FetchBatch { author, tip } => {
                if let Some(batch) = self.exchange.lanes.get(author, &tip).cloned() {
                    self.send(from, &Message::Batch(batch));
                }
            }
            Message::Record { request, proposal } => self.handle_record(from, request, proposal),
            Message::Answer { request, answer, time } => {
                self.note_clock(from, time);
                self.handle_answer(from, request, answer);
            }
            Message::Decided { first, values } => self.handle_decided(from, first, values),
            Message::Progress { decided, delivered, time } => {
                self.note_clock(from, time);
                self.handle_progress(from, decided, delivered);
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
                AfterDurable::Batch(author, tip) => {
                    let actions = self.exchange.handle_durable(author, tip, self.order.tips());
                    self.perform(actions);
                }
                AfterDurable::Answer { to, request, answer } => self.send_answer(to, request, answer),
                AfterDurable::Drive(slot) => self.send_requests(slot),
                AfterDurable::Decided(slot) => self.decisions.mark_durable(slot),
                AfterDurable::SilenceEnded => self.silence = Silence::Nowhere,
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
            self.earlier_runs.bound(self.order.at(), self.order.tip(self.me));
            self.drive_slots();
            if self.outputs.len() == before {
                break;
            }
        }
        self.outputs.extend(self.exchange.ask_for_batch(self.now, self.order.tips()));
        self.release();
    }

    /// Does what the exchange of batches asks for.
    pub(crate) fn perform(&mut self, actions: impl IntoIterator<Item = Action>) {
        for action in actions {
            match action {
                Action::Output(output) => self.outputs.push_back(output),
                Action::Persist(author, tip) => {
                    self.persist(RecordKey::Batch(author, tip), Some(AfterDurable::Batch(author, tip)));
                }
                Action::Broadcast(batch) => self.broadcast(&Message::Batch(batch)),
                Action::Fetch { to, author, tip } => self.send(to, &Message::FetchBatch { author, tip }),
            }
        }
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
            RecordKey::Decided(slot) => Record::Decided { slot, value: self.decisions.get(slot)?.clone() },
            RecordKey::Batch(author, tip) => Record::Batch(self.exchange.lanes.get(author, &tip)?.clone()),
            RecordKey::Silent => Record::Silent(self.silence.record()?),
        })
    }

    /// Number of items held, for tests.
    pub fn footprint(&self) -> usize {
        let slots =
            self.decisions.count() + self.registers.len() + self.requests.len() + self.driving.len() + self.own_values.len();
        slots + self.hedges.len() + self.answers.len() + self.exchange.lanes.count() + self.exchange.wanted()
    }

    /// State for failed runs.
    pub fn describe(&self) -> String {
        let driving: Vec<_> = self.driving.iter().map(|(slot, driving)| (slot.0, driving.step())).collect();
        let newest: Vec<_> = self.indices().map(|author| self.exchange.lanes.newest(author).number).collect();
        let delivered: Vec<_> = self.order.tips().iter().map(|tip| tip.number).collect();
        format!(
            "delivered {}, contiguous {}, floor {}, decided up to {:?}, registers {:?}, driving {driving:?}, lanes {newest:?} delivered {delivered:?}, \
             requests {}, wanted {}, silence {:?}",
            self.order.at().0,
            self.decisions.contiguous().0,
            self.decisions.floor().0,
            self.decisions.last().map(|slot| slot.0),
            self.registers.keys().map(|slot| slot.0).collect::<Vec<_>>(),
            self.requests.len(),
            self.exchange.wanted(),
            self.silence,
        )
    }
}
