//! The engine's state machine: inputs to rules, rules to outputs.
//!
//! Each step passes the input to the part that handles it, then calls [`Baxos::make_progress`]: values whose batches arrived are
//! accepted, decided slots are delivered, and a try starts if one is needed and back-off is over.

use crate::{
    config::{Config, decisions_at_once},
    message::{Answer, BATCH_TAG, Context, Message, Promise, RANDOMNESS_TAG, RequestId, Slot, Stamp, Tip, Value},
    record::{Record, RecordKey},
    repair::Recovered,
    round_trips::RoundTrips,
    rules::{Acceptor, Backoff, Wait},
    slots::{Attempt, WaitingPropose},
    verify::Checked,
};
use corniche_engine::{Committee, Engine, Input, Journal, Output, Recipients, Resume, Ticket, TraceEvent};
use corniche_lanes::{Action, Clocks, Decisions, Draws, EarlierRuns, Exchange, LaneContext, Lanes, Order, Silence};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, wire};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// A process whose timers are late by this time was stopped, ms.
const STOPPED_MS: u64 = 1_000;

/// Arguments of [`Baxos::new`].
pub struct Setup {
    pub config: Config,
    pub committee: Committee,
    pub me: ValidatorIndex,
    /// Back-off times are drawn from it. It is different in each process (X4).
    pub seed: u64,
    /// Records that were persisted and not released, in any order.
    pub records: Vec<(Ticket, Bytes)>,
    /// True if the caller knows that this validator never sent anything, from any disk.
    pub unsigned: bool,
    /// Position in the sequence of commits; may be ahead of the records.
    pub resume: Resume,
    pub now: TimestampMs,
}

/// The Baxos engine. See the crate documentation.
pub struct Baxos {
    pub(crate) config: Config,
    pub(crate) committee: Committee,
    pub(crate) context: Context,
    pub(crate) me: ValidatorIndex,
    pub(crate) now: TimestampMs,
    /// Start of this engine.
    pub(crate) run: TimestampMs,
    pub(crate) draws: Draws,
    pub(crate) order: Order<Slot>,
    pub(crate) exchange: Exchange,
    // ---- slots
    pub(crate) decisions: Decisions<Value>,
    pub(crate) acceptors: BTreeMap<Slot, Acceptor>,
    /// PROPOSEs to this acceptor whose batches are not on disk yet, the newest of each proposer.
    pub(crate) requests: BTreeMap<ValidatorIndex, WaitingPropose>,
    /// The try in progress.
    pub(crate) attempt: Option<Attempt>,
    /// The try in the slot after it, prepared with its value (P10).
    pub(crate) ahead: Option<Attempt>,
    /// Promises with values whose batches are not here yet.
    pub(crate) promises: BTreeMap<(Slot, ValidatorIndex), Promise>,
    /// The highest counter of a NACK, and its slot.
    pub(crate) refused: (Slot, u64),
    pub(crate) backoff: Backoff,
    /// Phases that ended by their timers at the highest l, less the decisions since then.
    pub(crate) late_phases: u32,
    /// No try starts before its end (P5).
    pub(crate) pause: Option<Wait>,
    /// Time of the last failure, or of the start.
    pub(crate) failed_at: TimestampMs,
    /// This validator helps with what others proposed after this wait. `None` if nothing waits.
    pub(crate) help: Option<Wait>,
    /// The next try starts at this time, if nothing changes before.
    pub(crate) start_at: Option<TimestampMs>,
    pub(crate) trips: RoundTrips,
    /// This process did not stand still since then.
    pub(crate) awake_since: TimestampMs,
    /// Open request for decisions: to whom, after which slot, and when.
    pub(crate) asked: Option<(ValidatorIndex, Slot, TimestampMs)>,
    // ---- disk and repair
    pub(crate) journal: Journal<RecordKey>,
    pub(crate) waiting: BTreeMap<Ticket, Vec<AfterDurable>>,
    pub(crate) silence: Silence<Slot>,
    /// Highest slots in use, as others report them after this start.
    pub(crate) earlier_runs: EarlierRuns<Slot>,
    pub(crate) certified: Slot,
    pub(crate) clocks: Clocks,
    /// Validators with a connection.
    pub(crate) connected: BTreeSet<ValidatorIndex>,
    pub(crate) resend_at: TimestampMs,
    pub(crate) status_at: TimestampMs,
    pub(crate) next_peer: usize,
    pub(crate) outputs: VecDeque<Output>,
}

/// An action that waits for a record.
pub(crate) enum AfterDurable {
    Batch(ValidatorIndex, Tip),
    /// The promise or the acceptance is on disk. `echo` as in [`Stamp`].
    Answer {
        to: ValidatorIndex,
        request: RequestId,
        answer: Answer,
        echo: TimestampMs,
    },
    /// The own promise for a try of this validator is on disk.
    Prepare(RequestId, Promise),
    /// The own promise for the next slot is on disk (P10).
    Propose(RequestId, Promise),
    Decided(Slot),
    /// The record that replaces the one of the silence is on disk.
    SilenceEnded,
}

impl Engine for Baxos {
    fn handle(&mut self, now: TimestampMs, input: Input) {
        self.now = self.now.max(now);
        if self.deadline().is_some_and(|deadline| deadline.0.saturating_add(STOPPED_MS) < self.now.0) {
            self.awake_since = self.now;
        }
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
                self.connected.insert(peer);
                self.greet(peer);
            }
            Input::PeerDown(peer) => {
                // Timers send again whatever else the connection lost.
                let actions = self.exchange.peer_down(peer);
                self.perform(actions);
                self.connected.remove(&peer);
                self.trips.forget(peer);
                self.asked = self.asked.filter(|(asked, ..)| *asked != peer);
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
        let timer = self.attempt.as_ref().and_then(|attempt| attempt.ends_at);
        [Some(self.resend_at), Some(self.status_at), timer, self.start_at, batch].into_iter().flatten().min()
    }
}

impl Baxos {
    /// Creates an engine, new or recovered.
    pub fn new(setup: Setup) -> Self {
        let Setup { config, committee, me, seed, records, unsigned, resume, now } = setup;
        let genesis = (config.genesis_time, config.genesis_randomness);
        let (order, context) = (Order::new(&resume, &committee, genesis, RANDOMNESS_TAG), Context::new(&committee));
        let mut journal = Journal::new(now);
        let lanes = Lanes::new(LaneContext::new(&committee, BATCH_TAG), order.tips());
        let recovered = Recovered::new(records, &mut journal, lanes, &order);
        let has_others = committee.votes(me) < committee.quorum();
        // X13: an acceptor without its promises could break them, also at the genesis (`Silence`).
        let has_lost = recovered.is_empty && !unsigned && has_others;
        let silence = if has_lost { Silence::Everywhere } else { recovered.silence };
        // Each member hears from each other one in half of this time.
        let fresh_ms = 2 * committee.size() as u64 * config.status_ms;
        let mut engine = Self {
            draws: Draws::new("corniche-baxos-draws", seed, me, now),
            decisions: Decisions::recovered(order.at(), recovered.decided),
            exchange: Exchange::new(config.lanes(), me, committee.size(), recovered.lanes, now),
            acceptors: recovered.acceptors,
            requests: BTreeMap::new(),
            attempt: None,
            ahead: None,
            promises: BTreeMap::new(),
            refused: (Slot(0), 0),
            backoff: Backoff::new(config.max_exponent),
            late_phases: 0,
            pause: None,
            failed_at: now,
            help: None,
            start_at: None,
            trips: RoundTrips::new(config.rtt_ms, fresh_ms),
            awake_since: now,
            asked: None,
            waiting: BTreeMap::new(),
            silence,
            earlier_runs: EarlierRuns::default(),
            certified: Slot(0),
            clocks: Clocks::new(me, fresh_ms),
            connected: BTreeSet::new(),
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
            Message::Prepare { request, sent } => self.handle_prepare(from, request, sent),
            Message::Propose { request, value, next, sent } => {
                self.handle_propose(from, WaitingPropose { request, value, next, echo: sent, since: self.now });
            }
            Message::Answer { request, answer, stamp } => {
                self.note_stamp(from, stamp);
                self.handle_answer(from, request, answer);
            }
            Message::Decided { first, values } => self.handle_decided(from, first, values),
            Message::CatchUp { after } => {
                self.send_decisions(from, after.next(), decisions_at_once(self.committee.size()));
            }
            Message::Status { decided, delivered, rtt_ms, time, echo } => {
                let actions = self.exchange.handle_delivered(from, delivered);
                self.perform(actions);
                self.handle_status(from, decided, rtt_ms, time, echo);
            }
            Message::AskHighest { run } => self.handle_ask_highest(from, run),
            Message::Highest { run, slot } => self.handle_highest(from, run, slot),
        }
    }

    fn handle_durable(&mut self, ticket: Ticket) {
        self.journal.durable(ticket);
        for action in self.waiting.remove(&ticket).unwrap_or_default() {
            match action {
                AfterDurable::Batch(author, tip) => {
                    let actions = self.exchange.handle_durable(author, tip, self.order.tips());
                    self.perform(actions);
                }
                AfterDurable::Answer { to, request, answer, echo } => self.send_answer(to, request, answer, echo),
                AfterDurable::Prepare(request, promise) => self.send_prepare(request, promise),
                AfterDurable::Propose(request, next) => self.send_propose(request, next),
                AfterDurable::Decided(slot) => {
                    self.decisions.mark_durable(slot);
                    // Proposers of this slot get the decision.
                    self.acceptors.remove(&slot);
                }
                AfterDurable::SilenceEnded => self.silence = Silence::Nowhere,
            }
        }
    }

    pub(crate) fn make_progress(&mut self) {
        // Answers of the own acceptor, and what follows from them, come without another input.
        loop {
            let before = self.outputs.len();
            self.accept_waiting_values();
            self.take_waiting_promises();
            self.deliver();
            self.end_silence();
            self.earlier_runs.bound(self.order.at(), self.order.tip(self.me));
            self.start_try();
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

    pub(crate) fn stamp(&self, echo: TimestampMs) -> Stamp {
        Stamp { echo, time: self.now }
    }

    /// Writes the current content of a record.
    pub(crate) fn persist(&mut self, key: RecordKey, then: Option<AfterDurable>) {
        let Some(record) = self.record(key) else { return };
        let ticket = self.journal.append(key);
        self.outputs.push_back(Output::Persist(ticket, wire::encode(&record).into()));
        self.waiting.entry(ticket).or_default().extend(then);
    }

    fn record(&self, key: RecordKey) -> Option<Record> {
        Some(match key {
            RecordKey::Started => Record::Started,
            RecordKey::Acceptor(slot) => Record::Acceptor { slot, acceptor: self.acceptors.get(&slot)?.clone() },
            RecordKey::Decided(slot) => Record::Decided { slot, value: self.decisions.get(slot)?.clone() },
            RecordKey::Batch(author, tip) => Record::Batch(self.exchange.lanes.get(author, &tip)?.clone()),
            RecordKey::Silent => Record::Silent(self.silence.record()?),
        })
    }

    /// l, for tests.
    pub fn exponent(&self) -> u32 {
        self.backoff.exponent()
    }

    /// RTT_max as this validator estimates it, for tests, ms.
    pub fn rtt_max_ms(&self) -> u64 {
        self.trips.max_ms(self.now)
    }

    /// Number of items held, for tests.
    pub fn footprint(&self) -> usize {
        let slots = self.decisions.count() + self.acceptors.len() + self.requests.len() + self.promises.len();
        slots + self.exchange.lanes.count() + self.exchange.wanted()
    }

    /// State for failed runs.
    pub fn describe(&self) -> String {
        let newest: Vec<_> = self.indices().map(|author| self.exchange.lanes.newest(author).number).collect();
        let delivered: Vec<_> = self.order.tips().iter().map(|tip| tip.number).collect();
        format!(
            "now {}, delivered {}, contiguous {}, floor {}, decided up to {:?}, acceptors {:?}, attempt {:?}, lanes {newest:?} delivered {delivered:?}, \
             requests {}, wanted {}, silence {:?}, l {}, RTT_max {}, back-off {:?}, start at {:?}, connected {:?}",
            self.now.0,
            self.order.at().0,
            self.decisions.contiguous().0,
            self.decisions.floor().0,
            self.decisions.last().map(|slot| slot.0),
            self.acceptors.iter().map(|(slot, acceptor)| (slot.0, acceptor.promised)).collect::<Vec<_>>(),
            self.attempt.as_ref().map(|attempt| (attempt.slot.0, attempt.proposer.attempt(), attempt.ends_at)),
            self.requests.len(),
            self.exchange.wanted(),
            self.silence,
            self.exponent(),
            self.rtt_max_ms(),
            self.pause,
            self.start_at,
            self.connected,
        )
    }
}
