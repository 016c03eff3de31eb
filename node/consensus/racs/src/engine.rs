//! The engine's state machine: inputs to rules, rules to outputs.
//!
//! Each step passes the input to the part that handles it, then calls [`Racs::make_progress`]: own statements that are on disk are
//! counted, messages whose blocks arrived are judged, blocks are proposed, committed blocks are delivered.

use crate::{
    chain::Chain,
    config::Config,
    message::{BATCH_TAG, BlockId, Context, Message, RANDOMNESS_TAG, Round, Tip, View},
    record::{Record, RecordKey},
    repair::Recovered,
    rules::{self, Coin, Replica, Silence, Statement},
    verify::Checked,
    views::{HeldKey, Timer, WantedBlock},
};
use corniche_engine::{Committee, Engine, Input, Journal, Output, Recipients, Resume, Ticket, TraceEvent};
use corniche_lanes::{Action, Clocks, EarlierRuns, Exchange, LaneContext, Lanes, Order, Repetition, Reports};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, wire};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Arguments of [`Racs::new`].
pub struct Setup {
    pub config: Config,
    pub committee: Committee,
    pub me: ValidatorIndex,
    /// Records that were persisted and not released, in any order.
    pub records: Vec<(Ticket, Bytes)>,
    /// True if the caller knows that this validator never sent anything, from any disk.
    pub unsigned: bool,
    /// Position in the sequence of commits; may be ahead of the records.
    pub resume: Resume,
    pub now: TimestampMs,
}

/// The SADL-RACS engine. See the crate documentation.
pub struct Racs {
    pub(crate) config: Config,
    pub(crate) committee: Committee,
    pub(crate) me: ValidatorIndex,
    pub(crate) now: TimestampMs,
    /// Start of this engine.
    pub(crate) run: TimestampMs,
    pub(crate) order: Order<BlockId>,
    // ---- RACS
    pub(crate) replica: Replica,
    /// The last state of the replica that was written.
    pub(crate) saved: rules::State,
    pub(crate) chain: Chain,
    /// Own statements on disk that are not counted yet.
    pub(crate) own: VecDeque<Statement>,
    /// Messages whose blocks are not here yet.
    pub(crate) held: BTreeMap<HeldKey, Message>,
    pub(crate) wanted: BTreeMap<BlockId, WantedBlock>,
    pub(crate) timer: Timer,
    /// The last committed round that this validator announced as leader.
    pub(crate) announced: Round,
    /// Validators that got the current view since the last timer.
    pub(crate) helped: BTreeSet<ValidatorIndex>,
    /// Validators that got an answer to their progress since the last timer.
    pub(crate) answered: BTreeSet<ValidatorIndex>,
    /// A validator with committed blocks for which there was no room.
    pub(crate) more_from: Option<ValidatorIndex>,
    // ---- SADL
    pub(crate) exchange: Exchange,
    /// lastCompletedRounds, as tips: a quorum holds each lane up to here.
    pub(crate) completed: Vec<Tip>,
    /// Tips that committed blocks cover.
    pub(crate) covered: Vec<Tip>,
    /// awaitingAcks: the own batch without a quorum of votes, and its voters.
    pub(crate) awaiting: Option<(Tip, BTreeSet<ValidatorIndex>)>,
    /// Sends `awaiting` again. A new voter is progress.
    pub(crate) repetition: Repetition<Option<(Tip, usize)>>,
    /// The completion of the last own batch is announced then (D7).
    pub(crate) tail_at: Option<TimestampMs>,
    // ---- disk and repair
    pub(crate) journal: Journal<RecordKey>,
    pub(crate) waiting: BTreeMap<Ticket, Vec<AfterDurable>>,
    /// The last block or state that is not on disk yet. Every statement waits for it.
    pub(crate) writing: Option<Ticket>,
    /// Views of the others, as they report them.
    pub(crate) reports: Reports<View>,
    /// Highest rounds in use, as others report them after this start.
    pub(crate) earlier_runs: EarlierRuns<Round>,
    /// Rounds up to this one are forgotten.
    pub(crate) floor: Round,
    pub(crate) certified: Round,
    pub(crate) clocks: Clocks,
    pub(crate) resend_at: TimestampMs,
    pub(crate) status_at: TimestampMs,
    /// State and committed round at the last time for sending again.
    pub(crate) mark: (rules::State, Round),
    pub(crate) next_peer: usize,
    pub(crate) outputs: VecDeque<Output>,
}

/// An action that waits for a record.
pub(crate) enum AfterDurable {
    Batch(ValidatorIndex, Tip),
    Say(rules::Output),
    /// Records below this one were needed by the state before.
    Release(Ticket),
}

impl Engine for Racs {
    fn handle(&mut self, now: TimestampMs, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Batch(batch) => {
                let actions = self.exchange.handle_own_batch(batch, self.now);
                self.perform(actions);
                self.await_votes();
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
            Input::Certified(commit) => self.certified = self.certified.max(Round(commit.0)),
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
        let timers = [Some(self.resend_at), Some(self.status_at), self.expires_at(), self.tail_at, self.batch_at()];
        timers.into_iter().flatten().min()
    }
}

impl Racs {
    /// Creates an engine, new or recovered.
    pub fn new(setup: Setup) -> Self {
        let Setup { config, committee, me, records, unsigned, resume, now } = setup;
        let genesis = (config.genesis_time, config.genesis_randomness);
        let (order, context) = (Order::new(&resume, &committee, genesis, RANDOMNESS_TAG), Context::new(&committee));
        let mut journal = Journal::new(now);
        let lanes = Lanes::new(LaneContext::new(&committee, BATCH_TAG), order.tips());
        let recovered = Recovered::new(context, records, &mut journal, lanes);
        let has_others = committee.votes(me) < committee.quorum();
        // X14: a validator without its state could contradict itself, also at the genesis (`corniche_lanes::Silence`).
        let has_lost = recovered.is_empty && !unsigned && has_others;
        let silence = if has_lost { Silence::Everywhere } else { recovered.silence };
        let coin = Coin::new(&committee, config.genesis_randomness);
        let mut replica = Replica::new(me, committee.clone(), coin, config.pipeline).with_silence(silence);
        if let Some(state) = recovered.state {
            replica = replica.with_state(state);
        }
        let max_blocks = config.max_blocks(committee.size());
        let chain = Chain::recover(context, recovered.blocks, order.at(), recovered.commit, max_blocks);
        let mut engine = Self {
            exchange: Exchange::new(config.lanes(), me, committee.size(), recovered.lanes, now),
            completed: order.tips().to_vec(),
            covered: order.tips().to_vec(),
            saved: replica.state().clone(),
            floor: order.at().rank.round,
            own: VecDeque::new(),
            held: BTreeMap::new(),
            wanted: BTreeMap::new(),
            timer: Timer::new(now),
            announced: Round(0),
            helped: BTreeSet::new(),
            answered: BTreeSet::new(),
            more_from: None,
            awaiting: None,
            repetition: Repetition::default(),
            tail_at: None,
            waiting: BTreeMap::new(),
            writing: None,
            reports: Reports::default(),
            earlier_runs: EarlierRuns::default(),
            certified: Round(0),
            // Each member sends its clock to each other one in half of this time, and with every vote.
            clocks: Clocks::new(me, 2 * committee.size() as u64 * config.status_ms),
            resend_at: TimestampMs(now.0.saturating_add(config.resend_ms)),
            status_at: TimestampMs(now.0.saturating_add(config.status_ms)),
            mark: (replica.state().clone(), Round(0)),
            next_peer: me.as_usize(),
            outputs: VecDeque::new(),
            run: now,
            replica,
            chain,
            config,
            committee,
            me,
            now,
            order,
            journal,
        };
        if has_lost {
            // The only record, so that a power cut cannot leave others without it.
            engine.persist(RecordKey::Silent, None);
            engine.note("disk-lost", "says nothing until members with a quorum of votes report their views".into());
        } else if recovered.is_empty {
            engine.persist(RecordKey::Started, None);
        }
        engine.resume();
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
                if let Some(batch) = self.exchange.lanes.get(author, &tip).cloned() {
                    self.send(from, &Message::Batch(batch));
                }
            }
            Message::BatchVote { tip } => self.handle_batch_vote(from, tip),
            Message::Completed { tip } => self.complete(from, tip),
            Message::Vote { block, time } => {
                self.note_clock(from, time);
                // Not one of the past, or of a disk that was lost.
                if block.rank.round > self.committed_round() && self.chain.holds(&block) {
                    self.judge(from, Statement::Vote { block });
                }
            }
            Message::FetchBlocks { block, above } => self.handle_fetch_blocks(from, block, above),
            Message::Blocks(blocks) => self.handle_blocks(from, blocks),
            Message::Progress { round, view, delivered, time } => {
                self.note_clock(from, time);
                self.handle_progress(from, round, view, delivered);
            }
            Message::Decided(blocks) => self.handle_decided(from, blocks),
            Message::AskView { run } => self.handle_ask_view(from, run),
            Message::InView { run, view, round, time } => {
                self.note_clock(from, time);
                self.handle_in_view(from, run, view, round);
            }
            Message::Leave { through } => self.handle_leave(through),
            message => self.handle_view_message(from, message),
        }
    }

    fn handle_durable(&mut self, ticket: Ticket) {
        self.journal.durable(ticket);
        self.writing = self.writing.filter(|last| *last > ticket);
        for action in self.waiting.remove(&ticket).unwrap_or_default() {
            match action {
                AfterDurable::Batch(author, tip) => self.handle_batch_durable(author, tip),
                AfterDurable::Say(output) => self.say(output),
                AfterDurable::Release(ticket) => self.outputs.push_back(Output::ReleaseBelow(ticket)),
            }
        }
    }

    pub(crate) fn make_progress(&mut self) {
        // Own statements, and what follows from them, come without another input.
        loop {
            let before = self.outputs.len();
            while let Some(statement) = self.own.pop_front() {
                self.judge(self.me, statement);
            }
            self.judge_held();
            self.propose_blocks();
            self.deliver();
            self.earlier_runs.bound(self.delivered_round(), self.order.tip(self.me));
            self.ask_for_more();
            self.end_silence();
            if self.outputs.len() == before && self.own.is_empty() {
                break;
            }
        }
        self.announce_commit();
        self.ask_for_batch();
        self.arm_timer();
        self.release();
    }

    // ---- outputs

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
            RecordKey::State => Record::State(Box::new(self.replica.state().clone())),
            RecordKey::Block(id) => Record::Block(self.chain.get(&id)?.clone()),
            RecordKey::Commit => Record::Commit(self.chain.committed()),
            RecordKey::Batch(author, tip) => Record::Batch(self.exchange.lanes.get(author, &tip)?.clone()),
            RecordKey::Silent => Record::Silent(self.replica.silence().record()?),
        })
    }

    /// Number of items held, for tests.
    pub fn footprint(&self) -> usize {
        let views = self.chain.count() + self.replica.count() + self.held.len() + self.wanted.len() + self.own.len();
        views + self.exchange.lanes.count() + self.exchange.wanted()
    }

    /// State for failed runs.
    pub fn describe(&self) -> String {
        let numbers = |tips: &[Tip]| tips.iter().map(|tip| tip.number).collect::<Vec<_>>();
        let state = self.replica.state();
        format!(
            "view {}{}, timed out {:?}, open {:?}, high {:?}, committed {:?}, delivered {} {:?}, completed {:?}, awaiting {:?}, held {:?}, \
             wanted {}, batches wanted {}, silence {:?}, fallbacks {}",
            state.view.0,
            if state.is_async { " async" } else { "" },
            state.timed_out,
            state.open,
            state.high.rank,
            self.chain.committed().rank,
            self.delivered_round().0,
            numbers(self.order.tips()),
            numbers(&self.completed),
            self.awaiting.as_ref().map(|(tip, voters)| (tip.number, voters.len())),
            self.held.keys().collect::<Vec<_>>(),
            self.wanted.len(),
            self.exchange.wanted(),
            self.replica.silence(),
            self.timer.fallbacks,
        )
    }
}
