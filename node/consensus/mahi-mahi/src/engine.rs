//! The state machine: applies the rules to inputs and queues outputs.
//!
//! One step processes the input (place blocks, answer peers), then runs [`MahiMahi::make_progress`]: open coins, decide,
//! deliver, collect garbage, and propose if it is time. Outputs are queued and returned by `poll`.

mod blocks;
mod commits;
mod proposals;

use crate::{
    coin::Coins,
    config::Config,
    dag::Dag,
    decisions::Decisions,
    journal::{Journal, Record},
    keys::{Coin, Signatures, Signer},
    message::{Block, Content, Context, Message, Round},
    proposer::{BatchRequest, Proposer},
    repair::Repair,
    rules::Waves,
    serve::Service,
    siblings::{Equivocations, ExtraSiblings},
    state::Sequence,
    synchroniser::{Limits, Synchroniser, Weight},
    verify::{Checked, MahiVerifier},
};
use blocks::Origin;
use corniche_engine::{Batch, ClockLeads, Committee, Engine, Input, Output, Recipients, Resume, Ticket, TraceEvent};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Arguments of [`MahiMahi::new`].
pub struct Setup {
    pub config: Config,
    pub committee: Committee,
    /// This validator's keys. Without them the engine follows and answers, but never proposes.
    pub signer: Option<Arc<dyn Signer>>,
    pub signatures: Arc<dyn Signatures>,
    pub coin: Arc<dyn Coin>,
    /// Must differ at every start.
    pub seed: u64,
    /// Records that were persisted and not released, in any order.
    pub records: Vec<(Ticket, Bytes)>,
    /// The caller knows that this validator's key has signed nothing. It must forget that, durably, before the first
    /// record is written. Then a first incarnation that starts behind the peers' floor is not taken for a lost disk.
    pub unsigned: bool,
    /// Point in the sequence of commits to continue from; may be ahead of the records.
    pub resume: Resume,
    pub now: TimestampMs,
}

/// The Mahi-Mahi engine. See the crate documentation.
pub struct MahiMahi {
    pub(crate) config: Config,
    pub(crate) committee: Committee,
    pub(crate) context: Context,
    pub(crate) signer: Option<Arc<dyn Signer>>,
    pub(crate) signatures: Arc<dyn Signatures>,
    /// Reads responses that were requested.
    pub(crate) reader: MahiVerifier,
    pub(crate) now: TimestampMs,
    pub(crate) dag: Dag,
    pub(crate) coins: Coins,
    pub(crate) sequence: Sequence,
    pub(crate) synchroniser: Synchroniser,
    pub(crate) repair: Repair,
    pub(crate) service: Service,
    pub(crate) proposer: Option<Proposer>,
    journal: Journal,
    /// Blocks accepted while nothing may be recorded (K2), in order.
    postponed: Vec<Arc<Block>>,
    pub(crate) waves: Waves,
    decisions: Decisions,
    /// Rounds with blocks of a quorum whose coin is still closed.
    pub(crate) closed_coins: BTreeSet<Round>,
    /// The own block that is not durable yet.
    in_flight: Option<(Ticket, Arc<Block>)>,
    /// Own block whose signature is still to come, and the time at which it is asked for again.
    unsigned: Option<(Content, TimestampMs)>,
    /// Slots with a non-empty, undelivered batch.
    undelivered: BTreeSet<(Round, ValidatorIndex)>,
    /// Siblings in the DAG beyond the first of each slot.
    pub(crate) extra_siblings: ExtraSiblings,
    /// Authors that equivocated.
    pub(crate) equivocated: BTreeMap<ValidatorIndex, Equivocations>,
    /// Slots whose equivocation was reported.
    pub(crate) accused: BTreeSet<(Round, ValidatorIndex)>,
    /// P24: more than f validators are faulty; see `fault_bound`.
    pub(crate) is_halted: bool,
    clock_leads: ClockLeads,
    /// The DAG or a coin changed since the last decision pass.
    changed: bool,
    pub(crate) outputs: VecDeque<Output>,
}

impl Engine for MahiMahi {
    fn handle(&mut self, now: TimestampMs, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Batch(batch) => self.handle_batch(batch),
            Input::Message { from, message } => {
                if let Some(message) = message.0.downcast_ref::<Checked>() {
                    self.handle_message(from, message);
                }
            }
            Input::Durable(ticket) => self.handle_durable(ticket),
            Input::Deadline => self.handle_deadline(),
            Input::PeerUp(peer) => self.send_hello(peer),
            // Messages lost with the connection are requested after the reconnect; the synchroniser turns to other
            // peers by itself.
            Input::PeerDown(_) => {}
            // Retention follows from the floor, which is equal at every validator.
            Input::Certified(_) | Input::Packet(_) | Input::Sequencer(_) => {}
        }
        self.make_progress();
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<TimestampMs> {
        [self.synchroniser.deadline(), self.repair_deadline(), self.proposal_deadline()].into_iter().flatten().min()
    }

    fn clock_leads(&self) -> Vec<(ValidatorIndex, u64)> {
        self.clock_leads.milliseconds()
    }
}

impl MahiMahi {
    /// Recovery is construction (K1): rebuilds the DAG from the records, continues the sequence after `resume`, and
    /// asks the peers for the highest of this validator's own blocks.
    pub fn new(setup: Setup) -> Self {
        let Setup { config, committee, signer, signatures, coin, seed, records, unsigned, resume, now } = setup;
        let context = Context::new(&committee);
        let me = signer.as_ref().map(|signer| signer.index());
        let size = committee.size();
        let waves = config.waves(size);
        let no_records = records.is_empty();
        // The chain has commits, but this validator has no record: it lost the records of what it signed, if anything.
        let lost_records = no_records && !resume.is_genesis() && !unsigned;
        let limits = Limits {
            blocks: config.max_pending(size),
            weight: Weight { bytes: config.max_pending_bytes(committee.weights()), missing: 32 * Config::max_parents(size) },
            delay_ms: config.fetch_delay_ms,
            retry_ms: config.fetch_retry_ms,
            retry_cap_ms: config.heartbeat_ms.max(config.fetch_retry_ms),
        };
        let mut engine = Self {
            dag: Dag::new(committee.weights(), config.wave_length),
            reader: MahiVerifier::new(config.clone(), committee.clone(), signatures.clone()),
            coins: Coins::new(coin, &committee),
            sequence: Sequence::new(&resume, size, config.genesis_time),
            synchroniser: Synchroniser::new(size, me, limits),
            repair: Repair::new(seed, lost_records, no_records, now),
            service: Service::default(),
            proposer: me.map(|me| Proposer::new(me, &context, now)),
            journal: Journal::new(now),
            postponed: Vec::new(),
            waves,
            decisions: Decisions::new(waves),
            closed_coins: BTreeSet::new(),
            in_flight: None,
            unsigned: None,
            undelivered: BTreeSet::new(),
            accused: BTreeSet::new(),
            equivocated: BTreeMap::new(),
            extra_siblings: ExtraSiblings::new(size),
            is_halted: false,
            clock_leads: ClockLeads::default(),
            changed: true,
            outputs: VecDeque::new(),
            config,
            committee,
            context,
            signer,
            signatures,
            now,
        };
        engine.recover(records);
        engine.start_recovery();
        engine.make_progress();
        engine
    }

    pub(crate) fn me(&self) -> Option<ValidatorIndex> {
        self.proposer.as_ref().map(Proposer::me)
    }

    fn recover(&mut self, records: Vec<(Ticket, Bytes)>) {
        let mut blocks = Vec::new();
        for (ticket, record) in records {
            match Record::decode(&record) {
                Record::Block(signed) => {
                    let block = Block::trusted(signed, &self.context);
                    self.journal.recovered(ticket, block.round());
                    blocks.push(Arc::new(block));
                }
                Record::Silence(round) => {
                    self.journal.recovered(ticket, round);
                    self.keep_silent(round);
                }
            }
        }
        blocks.sort_unstable_by_key(|block| block.reference());
        for block in blocks {
            self.observe_own(&block);
            let author = block.author();
            self.insert_or_park(author, block, Origin::Recorded);
        }
    }

    fn handle_message(&mut self, from: ValidatorIndex, message: &Checked) {
        match message {
            Checked::Block(block) => self.handle_block(from, block.clone()),
            Checked::Hello(hello) => self.handle_hello(from, hello),
            Checked::Welcome { nonce, latest, named } => self.handle_welcome(from, *nonce, latest.clone(), *named),
            Checked::Fetch(fetch) => self.handle_fetch(from, fetch),
            Checked::Found { unread } => self.handle_found(from, unread),
            Checked::Coins(help) => self.handle_coin_help(from, help),
        }
    }

    fn handle_batch(&mut self, batch: Batch) {
        let limit = self.config.batch_bytes as usize;
        match &mut self.proposer {
            Some(proposer) if proposer.batch.is_none() && batch.bytes.len() <= limit => {
                proposer.batch_request = BatchRequest::None;
                proposer.batch = Some(batch);
            }
            // Not requested, or too large.
            _ => self.outputs.push_back(Output::Requeue(batch)),
        }
    }

    fn handle_deadline(&mut self) {
        if let Some(proposer) = self.proposer.as_mut().filter(|proposer| proposer.batch_request == BatchRequest::Fresh) {
            proposer.batch_request = BatchRequest::Overdue;
        }
        self.request_missing();
        self.serve_waiting();
        self.repair_if_due();
    }

    /// W1: the own block is durable. Only now it counts and is sent.
    fn handle_durable(&mut self, ticket: Ticket) {
        let Some((_, block)) = self.in_flight.take_if(|(expected, _)| *expected == ticket) else { return };
        let message = Message::Block(block.signed().clone()).encode();
        let siblings = self.siblings_to_send(&block);
        let before = self.proposer.as_ref().map_or(Round(0), |proposer| proposer.tip().round);
        if block.round() > self.sequence.floor() {
            self.insert_or_park(block.author(), block, Origin::Own);
        } else if !block.content().batch.is_empty() {
            self.outputs.push_back(Output::Requeue(Batch { bytes: block.content().batch.clone() }));
        }
        if self.committee.size() > 1 {
            let messages = siblings.into_iter().chain([message]);
            self.outputs.extend(messages.map(|message| Output::Send { to: Recipients::All, message }));
            self.send_skipped_shares(before);
        }
    }

    /// Parents of an own block that others probably lack: their author shows other validators other siblings.
    fn siblings_to_send(&self, block: &Block) -> Vec<Bytes> {
        let excluded = block.parents().iter().filter(|parent| self.is_excluded(parent.author));
        let siblings = excluded.filter_map(|parent| self.dag.get(parent));
        siblings.map(|sibling| Message::Block(sibling.signed().clone()).encode()).collect()
    }

    /// W2: a block is recorded before any own block that references it.
    fn record(&mut self, block: &Arc<Block>) {
        if !self.repair.may_record() {
            return self.postponed.push(block.clone());
        }
        let ticket = self.journal.append(block.round());
        self.outputs.push_back(Output::Persist(ticket, block.encode()));
    }

    /// K2: proposes nothing up to this round.
    fn keep_silent(&mut self, round: Round) {
        if let Some(proposer) = &mut self.proposer {
            proposer.highest_signed = proposer.highest_signed.max(round);
        }
    }

    /// Keeps silent in this incarnation and in later ones. Recorded before any other record: with records, a later incarnation does
    /// not know any more that an earlier one was forgotten.
    pub(crate) fn vow_silence(&mut self, round: Round) {
        self.keep_silent(round);
        let ticket = self.journal.append(round);
        self.outputs.push_back(Output::Persist(ticket, Record::encode_silence(round)));
    }

    pub(crate) fn record_postponed(&mut self) {
        for block in std::mem::take(&mut self.postponed) {
            self.record(&block);
        }
    }

    /// A coin can open without a new block.
    pub(crate) fn note_change(&mut self) {
        self.changed = true;
    }

    /// E3: runs after every input.
    fn make_progress(&mut self) {
        self.check_recovery();
        while std::mem::take(&mut self.changed) {
            self.extend_commits();
            self.update_coins();
        }
        self.propose_if_due();
    }

    pub(crate) fn trace(&mut self, event: TraceEvent) {
        self.outputs.push_back(Output::Trace(event));
    }

    /// Number of blocks in the DAG, of waiting blocks, and of verdicts not taken yet. For tests and metrics.
    pub fn footprint(&self) -> [usize; 3] {
        [self.dag.len(), self.synchroniser.count(), self.decisions.len()]
    }

    /// Bytes of blocks that wait for missing ancestors, and number of requested blocks.
    pub fn waiting(&self) -> [usize; 2] {
        let (weight, wanted) = self.synchroniser.weight();
        [weight.bytes, wanted]
    }

    /// Everything up to this round is final or pruned.
    pub fn floor(&self) -> Round {
        self.sequence.floor()
    }

    /// Round in which a block may be proposed next.
    pub fn clock(&self) -> Round {
        self.dag.clock()
    }
}
