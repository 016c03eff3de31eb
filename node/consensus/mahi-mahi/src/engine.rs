//! The state machine: applies the rules to inputs and queues outputs.
//!
//! One step processes the input (place blocks, answer peers), then runs [`MahiMahi::make_progress`]: open coins, decide,
//! deliver, collect garbage, and propose if it is time. Outputs are queued and returned by `poll`.

use crate::{
    coin::Coins,
    config::Config,
    dag::Dag,
    decisions::Decisions,
    journal::{Journal, Record},
    keys::{Coin, Signatures, Signer},
    message::{Block, BlockRef, Content, Context, Message, Round, SignedBlock},
    proposer::{BatchRequest, Proposer},
    repair::Repair,
    rules::{Decision, Slot, Verdict, Waves},
    serve::Service,
    siblings::{Equivocations, ExtraSiblings},
    state::Sequence,
    synchroniser::{Limits, Synchroniser, Weight},
    verify::{Checked, MahiVerifier},
};
use corniche_engine::{Batch, Committee, Engine, Input, Offence, Output, Recipients, Resume, Ticket, TraceEvent};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// If the oldest undecided slot is this many floor depths back, rounds continue at the heartbeat only.
const MAX_OPEN_DEPTHS: u64 = 4;

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
    /// The DAG or a coin changed since the last decision pass.
    changed: bool,
    pub(crate) outputs: VecDeque<Output>,
}

/// Origin of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Received from a peer; not recorded yet.
    Peer,
    /// Own block; just became durable.
    Own,
    /// Accepted in an earlier incarnation: durable, and already reported.
    Recorded,
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
            Input::Certified(_) => {}
        }
        self.make_progress();
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<TimestampMs> {
        [self.synchroniser.deadline(), self.repair_deadline(), self.proposal_deadline()].into_iter().flatten().min()
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
        let lost_records = no_records && resume.index.0 > 0 && !unsigned;
        let limits = Limits {
            blocks: config.max_pending(size),
            weight: Weight { bytes: config.max_pending_bytes(size), missing: 32 * Config::max_parents(size) },
            delay_ms: config.fetch_delay_ms,
            retry_ms: config.fetch_retry_ms,
            retry_cap_ms: config.heartbeat_ms.max(config.fetch_retry_ms),
        };
        let mut engine = Self {
            dag: Dag::new(size, committee.quorum(), config.wave_length),
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
            undelivered: BTreeSet::new(),
            accused: BTreeSet::new(),
            equivocated: BTreeMap::new(),
            extra_siblings: ExtraSiblings::new(size),
            is_halted: false,
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

    /// E1: processes a block whose own bytes are valid.
    pub(crate) fn handle_block(&mut self, from: ValidatorIndex, block: Arc<Block>) {
        let reference = block.reference();
        if self.proposer.as_ref().is_some_and(|own| own.me() == block.author() && block.round() > own.highest_signed) {
            self.handle_lost_records(&block);
        }
        self.observe_own(&block);
        if self.is_known(&reference) {
            return;
        }
        if reference.round > self.horizon() {
            return self.synchroniser.note_far_block(self.now, reference);
        }
        self.synchroniser.reached(&reference);
        self.report_sibling(&block);
        if !self.is_surplus(&reference) {
            self.insert_or_park(from, block, Origin::Peer);
        }
    }

    /// Returns true if the block is in the DAG, pending, or at or below the floor.
    pub(crate) fn is_known(&self, reference: &BlockRef) -> bool {
        reference.round <= self.sequence.floor() || self.dag.contains(reference) || self.synchroniser.is_pending(reference)
    }

    /// Highest round whose blocks are kept. An author may sign blocks of any round. An honest author is this far ahead
    /// only of a validator that must fetch the rounds between first, and fetches these blocks with them.
    pub(crate) fn horizon(&self) -> Round {
        self.dag.clock().max(self.sequence.floor() + 1) + self.config.window()
    }

    /// E8 across incarnations: notes the round of an own block that this incarnation did not know.
    fn observe_own(&mut self, block: &Block) {
        if let Some(proposer) = self.proposer.as_mut().filter(|proposer| proposer.me() == block.author()) {
            proposer.highest_signed = proposer.highest_signed.max(block.round());
        }
    }

    /// V8: inserts a block into the DAG if its history is complete; otherwise parks it.
    fn insert_or_park(&mut self, from: ValidatorIndex, block: Arc<Block>, origin: Origin) {
        let present = |parent: &BlockRef| parent.round <= self.sequence.floor() || self.dag.contains(parent);
        let missing: BTreeSet<_> = block.parents().iter().filter(|parent| !present(parent)).copied().collect();
        if missing.is_empty() {
            self.accept(block, origin);
        } else {
            // An equivocator's block is not in transit: its author showed a sibling.
            let is_late = |parent: &BlockRef| self.is_excluded(parent.author);
            let urgent = missing.iter().filter(|parent| is_late(parent)).copied().collect::<Vec<_>>();
            if self.synchroniser.add_pending(self.now, from, block, missing) {
                urgent.iter().for_each(|parent| self.synchroniser.expedite(self.now, parent));
            }
        }
    }

    /// E2: inserts a block, and all pending blocks that become complete by it.
    fn accept(&mut self, block: Arc<Block>, origin: Origin) {
        let mut ready = VecDeque::from([(block, origin)]);
        while let Some((block, origin)) = ready.pop_front() {
            let reference = block.reference();
            let is_extra = self.dag.siblings(reference.round, reference.author).next().is_some();
            if !self.dag.insert(block.clone()) {
                continue;
            }
            if is_extra {
                self.note_equivocator(&reference);
                let most = self.config.max_extra_bytes(self.committee.size());
                let mut accounts = self.synchroniser.needed_by(&reference).collect::<Vec<_>>().into_iter();
                let account = accounts.find(|account| self.extra_siblings.has_room(*account, most)).unwrap_or(reference.author);
                self.extra_siblings.add(reference, account, block.weight());
            }
            if origin == Origin::Peer {
                self.record(&block);
            }
            if origin != Origin::Recorded {
                self.trace(TraceEvent::Accepted(block.vertex()));
            }
            self.check_fault_bound(&block);
            self.changed = true;
            self.decisions.block_arrived(reference.round);
            self.repair.progress(self.now);
            if !block.content().batch.is_empty() && self.is_awaited(reference) {
                self.undelivered.insert((reference.round, reference.author));
                if origin != Origin::Recorded {
                    let batch = Batch { bytes: block.content().batch.clone() };
                    self.outputs.push_back(Output::Available { author: reference.author, batch });
                }
            }
            let refused = if reference.round > self.sequence.floor() { self.coins.add_block(&block) } else { Vec::new() };
            self.accuse_of_bad_shares(refused);
            self.track_closed_coin(reference.round);
            if let Some(proposer) = &mut self.proposer {
                proposer.accepted(&self.dag, reference);
            }
            ready.extend(self.synchroniser.arrived(&reference).into_iter().map(|block| (block, Origin::Peer)));
        }
    }

    fn track_closed_coin(&mut self, round: Round) {
        if self.dag.authors_at(round) >= self.committee.quorum() && self.coins.opened(round).is_none() {
            self.closed_coins.insert(round);
        }
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

    fn is_awaited(&self, reference: BlockRef) -> bool {
        reference.round > self.sequence.floor() && !self.sequence.is_delivered(reference.round, reference.author)
    }

    pub(crate) fn accuse_of_bad_shares(&mut self, blocks: Vec<Arc<Block>>) {
        for block in blocks {
            let (validator, evidence) = (block.author(), vec![block.encode()]);
            self.outputs.push_back(Output::Accuse { validator, offence: Offence::BadCoinShare, evidence });
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

    /// D0 and D7: decides slots and delivers commits.
    fn extend_commits(&mut self) {
        if self.is_halted || !self.repair.may_deliver() && self.me().is_some() {
            return;
        }
        self.trace_elected();
        let order = |round: Round| self.coins.opened(self.waves.certify_round(round)).map(|coin| coin.order.as_slice());
        let decided = self.decisions.decide(&self.dag, order, self.sequence.next());
        decided.iter().for_each(|decision| self.trace_decided(decision));
        let floor = self.sequence.floor();
        while let slot = self.sequence.next()
            && let Some(verdict) = self.decisions.take(slot)
        {
            self.sequence.advance_to(self.waves.after(slot));
            if let Verdict::Commit(leader) = verdict {
                self.commit(slot, leader);
            }
        }
        if self.sequence.floor() > floor {
            self.collect_garbage();
        }
    }

    fn trace_elected(&mut self) {
        for coin in self.coins.take_opened() {
            self.closed_coins.remove(&coin);
            let Some(round) = self.decisions.coin_opened(coin).filter(|round| *round >= self.sequence.next().round) else {
                continue;
            };
            let order = self.coins.opened(coin).map_or(&[][..], |opened| &opened.order);
            let leaders = order.iter().take(usize::from(self.waves.leaders)).copied().collect();
            self.trace(TraceEvent::Elected { round: round.0, leaders });
        }
    }

    fn trace_decided(&mut self, decision: &Decision) {
        let Decision { slot, leader, verdict, .. } = *decision;
        let committed = match verdict {
            Verdict::Commit(block) => Some(block.digest),
            Verdict::Skip => None,
        };
        let why = decision.why(self.committee.size());
        self.trace(TraceEvent::Decided { round: slot.round.0, rank: slot.rank, leader, committed, why });
    }

    fn commit(&mut self, slot: Slot, leader: BlockRef) {
        let leader = self.dag.get(&leader).expect("a verdict names a block of the DAG").clone();
        let coin = self.coins.opened(self.waves.certify_round(leader.round()));
        let randomness = coin.expect("a slot is decided only when its coin is open").seed;
        let commit = self.sequence.commit(&self.dag, &leader, randomness, self.config.gc_depth);
        for block in &commit.blocks {
            self.undelivered.remove(&(block.round(), block.author()));
        }
        let detail = format!("{} {:?}, {} blocks", commit.ordered.index, leader.reference(), commit.blocks.len());
        self.trace(TraceEvent::note("commit", detail));
        self.trace(TraceEvent::Delivered { round: slot.round.0, rank: slot.rank, commit: commit.ordered.index });
        self.outputs.push_back(Output::Deliver(commit.ordered));
    }

    /// G1–G4: drops old data after the floor moved.
    fn collect_garbage(&mut self) {
        let floor = self.sequence.floor();
        let kept = self.undelivered.split_off(&(floor + 1, ValidatorIndex(0)));
        let lost = std::mem::replace(&mut self.undelivered, kept);
        let me = self.me();
        for (round, author) in lost.into_iter().filter(|(_, author)| Some(*author) == me) {
            // G4: validity holds for transactions, not for blocks.
            let batches = self.dag.siblings(round, author).map(|block| block.content().batch.clone());
            self.outputs.extend(batches.filter(|bytes| !bytes.is_empty()).map(|bytes| Output::Requeue(Batch { bytes })));
        }
        self.accused = self.accused.split_off(&(floor + 1, ValidatorIndex(0)));
        if let Some(proposer) = &mut self.proposer {
            proposer.raise_floor(floor);
        }
        for block in self.synchroniser.raise_floor(floor) {
            self.accept(block, Origin::Peer);
        }
        let retained = floor - self.config.retain_rounds;
        self.postponed.retain(|block| block.round() > retained);
        self.dag.prune(retained);
        self.extra_siblings.prune(retained);
        self.coins.prune(retained);
        self.service.raise_floor(floor);
        self.closed_coins = self.closed_coins.split_off(&(floor + 1));
        if let Some(ticket) = self.journal.release(retained) {
            self.outputs.push_back(Output::ReleaseBelow(ticket));
        }
    }

    fn propose_if_due(&mut self) {
        let excluded = self.excluded();
        let Some(proposer) = &mut self.proposer else { return };
        proposer.observe_clock(self.now, &self.dag, &excluded);
        if self.may_propose_at().is_none_or(|at| at > self.now) {
            return;
        }
        let due = self.must_propose();
        let Some(proposer) = &mut self.proposer else { return };
        if let Some(batch) = proposer.batch.take() {
            return self.propose(batch);
        }
        match proposer.batch_request {
            BatchRequest::None => {
                proposer.batch_request = BatchRequest::Fresh;
                let (bytes, gas) = (self.config.batch_bytes, self.config.batch_gas);
                self.outputs.push_back(Output::WantBatch { bytes, gas });
            }
            BatchRequest::Overdue if due => self.propose(Batch::default()),
            BatchRequest::Fresh | BatchRequest::Overdue => {}
        }
    }

    fn may_propose_at(&self) -> Option<TimestampMs> {
        self.next_proposal().map(|(_, at)| at)
    }

    /// Round and time of the next proposal; see [`Proposer::next`]. `None` before a quorum reported what it knows of
    /// earlier incarnations, and while an own block is not durable yet.
    fn next_proposal(&self) -> Option<(Round, TimestampMs)> {
        if self.in_flight.is_some() || self.is_halted {
            return None;
        }
        let proposer = self.proposer.as_ref()?;
        let (round, at) = proposer.next(&self.dag, &self.config, self.sequence.floor(), &self.excluded())?;
        let at = at.max(self.repair.allowed_at(&self.config, round, proposer.since(round))?);
        // Chance leaves no slot open for so long: more than f validators are faulty. The memory must not fill up
        // meanwhile.
        let stretched = self.dag.clock() > self.sequence.next().round + MAX_OPEN_DEPTHS * self.config.gc_depth;
        Some((round, if stretched { at.max(proposer.heartbeat_at(&self.config)) } else { at }))
    }

    /// A batch waits to be ordered, or a peer waits for a higher round: rounds must continue.
    pub(crate) fn is_busy(&self) -> bool {
        // There is a block of the round we could propose in: a peer is one round ahead and may need our block.
        !self.undelivered.is_empty() || self.dag.top() >= self.dag.clock() || self.dag.clock() <= self.service.awaited()
    }

    fn must_propose(&self) -> bool {
        let heartbeat = self.proposer.as_ref().map(|proposer| proposer.heartbeat_at(&self.config));
        self.is_busy() || heartbeat.is_some_and(|at| at <= self.now)
    }

    fn proposal_deadline(&self) -> Option<TimestampMs> {
        let at = self.may_propose_at()?;
        let proposer = self.proposer.as_ref()?;
        match proposer.batch_request {
            _ if proposer.batch.is_some() => Some(at),
            BatchRequest::None => Some(at),
            BatchRequest::Fresh | BatchRequest::Overdue if self.is_busy() => Some(at),
            BatchRequest::Fresh | BatchRequest::Overdue => Some(at.max(proposer.heartbeat_at(&self.config))),
        }
    }

    /// E5, E10. The only place that signs blocks. The round is above every round signed before (I1).
    fn propose(&mut self, batch: Batch) {
        let Some((round, _)) = self.next_proposal() else { return };
        let excluded = self.excluded();
        let (Some(proposer), Some(signer)) = (&mut self.proposer, &self.signer) else { return };
        assert!(round > proposer.highest_signed, "I1: one own block per round, ever");
        let content = Content {
            author: proposer.me(),
            round,
            timestamp: self.now,
            parents: proposer.parents(&self.dag, &self.context, round, &excluded),
            coin_share: signer.coin_share(&self.context.coin_message(round)),
            batch: batch.bytes,
        };
        let signature = signer.sign(&self.context.digest(&content));
        let block = Arc::new(Block::trusted(SignedBlock { content, signature }, &self.context));
        proposer.proposed(self.now, round);
        self.repair.clear_uncertain();
        self.trace(TraceEvent::Proposed(block.vertex()));
        let ticket = self.journal.append(round);
        self.outputs.push_back(Output::Persist(ticket, block.encode()));
        self.in_flight = Some((ticket, block));
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
