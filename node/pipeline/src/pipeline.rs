//! The composition: one state machine over pool, engine, builder, certifier and follower.

use crate::blocks::{BlockBuilder, BlockPlan};
use crate::execution::{Executed, VerifiedTransaction};
use crate::follow::{Follower, check_response};
use crate::message::{FollowedBlock, PeerMessage, Request, Response};
use corniche_admission::{Event as PoolEvent, Pool, PoolConfig, Refusal};
use corniche_certify::{Certifier, Output as CertifierOutput};
use corniche_crypto::{BlsPublicKey, BlsSecretKey, verify_certificate};
use corniche_engine::{
    Batch, Committee, Engine, Input as EngineInput, Offence, Output as EngineOutput, Recipients, Resume, Ticket,
    TraceEvent, Verified,
};
use corniche_state::{CommittedBlock, Snapshot, State};
use corniche_types::{
    Address, B256, Block, Bytes, Certificate, CommitIndex, Genesis, Height, OrderingRecord, TimestampMs, ValidatorIndex,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Execution runs at most this many blocks ahead of the newest certificate (design §3).
pub const AHEAD_OF_CERTIFICATION: u64 = 64;
/// With this many ordered blocks waiting for execution, own proposals go empty.
const PLANS_WAITING: usize = 64;
/// A validator that lacks a certified block for this long, or [`AHEAD_OF_CERTIFICATION`] of them, follows.
const PATIENCE_MS: u64 = 1_000;
/// Empty commits after which the resume point is stored without a block.
const PROGRESS_COMMITS: u64 = 64;
/// A follower sends what is still in its pool to another validator after this long.
const FORWARD_MS: u64 = 3_000;
/// Most pooled transactions forwarded again at a time.
const FORWARD_AGAIN: usize = 256;

/// States of this many blocks below the newest stay readable.
const RECENT_STATES: u64 = 256;
/// Validators tell each other their newest certificate at most this often, so that one that lags learns of it.
const ANNOUNCE_MS: u64 = 1_000;

/// The libp2p identity of a peer: an ed25519 public key.
pub type NodeKey = [u8; 32];

/// Builds the engine: at start with the stored records, and again after following.
pub type EngineFactory = Box<dyn Fn(Vec<(Ticket, Bytes)>, Resume, TimestampMs) -> Box<dyn Engine> + Send>;

/// What happens to a node.
pub enum Input {
    /// A transaction from a user (`reply` is echoed in [`Output::Submitted`]) or from a peer (`None`).
    Submit { transaction: VerifiedTransaction, reply: Option<u64> },
    PeerUp { peer: NodeKey, validator: Option<ValidatorIndex> },
    PeerDown { peer: NodeKey },
    /// A message that the engine's verifier accepted.
    Engine { from: ValidatorIndex, message: Verified },
    CertificateShare { from: ValidatorIndex, bytes: Bytes },
    Certificate { from: NodeKey, certificate: Certificate },
    /// The answer to [`Output::Request`]; `None` when none came.
    Response { from: NodeKey, response: Option<Response> },
    /// The engine's record of this ticket is durable.
    Durable(Ticket),
    /// The answer to [`Output::Execute`], in order.
    Executed(Box<Executed>),
    /// [`Output::Append`] of this height is durable.
    Appended(Height),
    /// The answer to [`Output::ReadSafetyLog`].
    SafetyLog(Vec<(Ticket, Bytes)>),
    Deadline,
}

/// What a node owes the world.
pub enum Output {
    Submitted { reply: u64, result: Result<B256, Refusal> },
    Send { to: NodeKey, message: PeerMessage },
    Request { to: NodeKey, request: Request },
    /// The peer broke the rules.
    Penalise { peer: NodeKey, fault: Fault },
    Persist(Ticket, Bytes),
    ReleaseBelow(Ticket),
    /// Give everything that is in the safety log, after all that was emitted before.
    ReadSafetyLog,
    /// Run the plan through the [`crate::ExecutionStage`] and answer [`Input::Executed`].
    Execute(Plan),
    /// Append in one piece, sync, make visible, then answer [`Input::Appended`].
    Append(Arc<CommittedBlock>),
    AppendCertificate(Certificate),
    AppendProgress(Resume),
    /// A transaction entered the pool.
    Pending(VerifiedTransaction),
    /// A transaction left the pool without being executed.
    Dropped { hash: B256, status: TransactionStatus },
    Accuse { validator: ValidatorIndex, offence: Offence, evidence: Vec<Bytes> },
    Trace(TraceEvent),
    /// A quorum certified another block than ours. Remember the certificate and stop: going on would be unsafe. The reason
    /// is for the operator.
    Halt { reason: String, certificate: Certificate },
}

/// A block to execute.
#[derive(Clone, Debug)]
pub struct Plan {
    pub height: Height,
    pub block: BlockPlan,
}

/// A peer's fault, for its score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

/// Status of a transaction that is not in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    Pending,
    Ordered,
    Dropped(String),
    Replaced(B256),
}

/// Everything a pipeline is built from.
pub struct Setup {
    pub genesis: Arc<Genesis>,
    /// Our place in the committee with our key for certificates; `None` for a full node.
    pub validator: Option<(ValidatorIndex, BlsSecretKey)>,
    pub engine_factory: Option<EngineFactory>,
    /// Records of the safety log.
    pub records: Vec<(Ticket, Bytes)>,
    pub state: State,
    /// The newest stored block; `None`: genesis.
    pub head: Option<Block>,
    /// Hash of the head or of the genesis block.
    pub head_hash: B256,
    /// Base fee for the next block, as far as admission is concerned.
    pub base_fee: u64,
    pub resume: Resume,
    /// The newest stored certificate.
    pub certificate: Option<Certificate>,
    /// Hashes of stored blocks that have no certificate yet, to be signed again.
    pub uncertified: Vec<(Height, B256)>,
    pub pool: PoolConfig,
    pub now: TimestampMs,
}

/// A node. See the crate documentation.
pub struct Pipeline {
    genesis: Arc<Genesis>,
    committee: Committee,
    bls_keys: Vec<BlsPublicKey>,
    own: Option<ValidatorIndex>,
    engine_factory: Option<EngineFactory>,
    engine: Option<Box<dyn Engine>>,
    builder: BlockBuilder,
    pool: Pool,
    certifier: Certifier,
    follower: Follower,
    mode: Mode,
    state: State,
    base_fee: u64,
    peers: BTreeMap<NodeKey, Option<ValidatorIndex>>,
    /// Plans not yet given to execution.
    plans: VecDeque<Plan>,
    /// Heights: given to execution ≥ executed ≥ appended.
    planned: Height,
    executing: Height,
    appended: Height,
    appended_resume: Resume,
    /// Ordering record of the newest appended block; `None`: genesis.
    appended_ordering: Option<OrderingRecord>,
    /// Hash of block `executing` once known: what followed blocks must continue.
    executed_hash: B256,
    executed: Height,
    certified: Height,
    newest_certificate: Option<Certificate>,
    /// Executed, being appended.
    appending: VecDeque<Arc<CommittedBlock>>,
    appending_info: BTreeMap<Height, (B256, Vec<(ValidatorIndex, VerifiedTransaction)>)>,
    /// What followed blocks must execute to.
    expected: BTreeMap<Height, B256>,
    /// Certificates of followed blocks, appended after their block.
    followed_certificates: BTreeMap<Height, Certificate>,
    /// An unanswered `WantBatch`.
    wanted: Option<(u32, u64)>,
    /// `ReleaseBelow`s that wait until the state is durable that makes the records unnecessary.
    releases: VecDeque<(CommitIndex, Ticket)>,
    progress: CommitIndex,
    /// Since when a certified block is known that we have not appended.
    behind_since: Option<TimestampMs>,
    announce_at: Option<TimestampMs>,
    forward_at: Option<TimestampMs>,
    forward_turn: usize,
    out: VecDeque<Output>,
    halted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The engine's commits make the blocks.
    Ordering,
    /// Certified blocks of peers make the blocks.
    Following,
    /// Caught up; waiting for the safety log to build the engine.
    Rejoining,
}

impl Pipeline {
    pub fn new(setup: Setup) -> Self {
        let committee = Committee::from_genesis(&setup.genesis);
        let bls_keys = setup.genesis.validators.iter().map(|member| {
            BlsPublicKey::from_bytes(&member.bls_key).expect("invariant: the genesis was verified before")
        });
        let bls_keys = bls_keys.collect();
        let (own, bls_key) = setup.validator.map_or((None, None), |(index, key)| (Some(index), Some((index, key))));
        let mut certifier = Certifier::new(setup.genesis.chain_id, committee.clone(), bls_key);
        let certified = setup.certificate.as_ref().map_or(Height(0), |certificate| certificate.height);
        if let Some(certificate) = &setup.certificate {
            certifier.certificate(certificate.clone());
        }
        for (height, hash) in setup.uncertified {
            certifier.executed(height, hash);
        }
        let head_height = setup.head.as_ref().map_or(Height(0), Block::height);
        let engine = setup.engine_factory.as_ref().map(|build| build(setup.records, setup.resume.clone(), setup.now));
        let builder = BlockBuilder::new(&setup.genesis, setup.head.as_ref().map(|block| &block.ordering), setup.resume.clone());
        let mut pipeline = Self {
            builder,
            committee,
            bls_keys,
            own,
            mode: if engine.is_some() { Mode::Ordering } else { Mode::Following },
            engine_factory: setup.engine_factory,
            engine,
            pool: Pool::new(setup.pool),
            certifier,
            follower: Follower::default(),
            state: setup.state,
            base_fee: setup.base_fee,
            peers: BTreeMap::new(),
            plans: VecDeque::new(),
            planned: head_height,
            executing: head_height,
            executed: head_height,
            appended: head_height,
            progress: setup.resume.index,
            appended_resume: setup.resume,
            appended_ordering: setup.head.map(|block| block.ordering),
            executed_hash: setup.head_hash,
            certified,
            newest_certificate: setup.certificate,
            appending: VecDeque::new(),
            appending_info: BTreeMap::new(),
            expected: BTreeMap::new(),
            followed_certificates: BTreeMap::new(),
            wanted: None,
            releases: VecDeque::new(),
            behind_since: None,
            announce_at: None,
            forward_at: None,
            forward_turn: 0,
            out: VecDeque::new(),
            halted: false,
            genesis: setup.genesis,
        };
        pipeline.settle(setup.now);
        pipeline
    }

    /// Applies one input.
    pub fn handle(&mut self, now: TimestampMs, input: Input) {
        if self.halted {
            return;
        }
        match input {
            Input::Submit { transaction, reply } => self.submit(now, transaction, reply),
            Input::PeerUp { peer, validator } => self.peer_up(now, peer, validator),
            Input::PeerDown { peer } => self.peer_down(now, peer),
            Input::Engine { from, message } => self.engine_input(now, EngineInput::Message { from, message }),
            Input::CertificateShare { from, bytes } => self.certifier.share(from, bytes),
            Input::Certificate { from, certificate } => self.learn_certificate(from, certificate),
            Input::Response { from, response } => self.response(now, from, response),
            Input::Durable(ticket) => self.engine_input(now, EngineInput::Durable(ticket)),
            Input::Executed(executed) => self.executed(*executed),
            Input::Appended(height) => self.appended(height),
            Input::SafetyLog(records) => self.rejoin(now, records),
            Input::Deadline => self.engine_deadline(now),
        }
        self.settle(now);
    }

    /// The next thing owed.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When to come back with [`Input::Deadline`].
    pub fn deadline(&self) -> Option<TimestampMs> {
        let engine = self.engine.as_ref().and_then(|engine| engine.deadline());
        let patience = self.behind_since.filter(|_| self.mode == Mode::Ordering).map(|since| TimestampMs(since.0 + PATIENCE_MS));
        let following = self.mode == Mode::Following && self.follower.target() > self.planned;
        let follow = following.then(|| self.follower.deadline(self.planned.next())).flatten();
        [engine, patience, follow, self.announce_at, self.forward_at].into_iter().flatten().min()
    }

    /// The pool, for what RPC answers of pending transactions.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The nonce the next transaction of `address` should have, pending ones counted.
    pub fn pending_nonce(&self, address: &Address) -> u64 {
        self.pool.pending_nonce(address, &self.view())
    }

    /// The newest state that is visible to users.
    fn view(&self) -> Snapshot {
        self.state.at(self.appended).expect("invariant: the newest appended height is never pruned")
    }

    // ---- users -------------------------------------------------------------------------------------------------------

    fn submit(&mut self, now: TimestampMs, transaction: VerifiedTransaction, reply: Option<u64>) {
        let hash = transaction.hash();
        let result = self.pool.admit(transaction.clone(), &self.view(), self.base_fee, now);
        if result.is_ok() {
            self.out.push_back(Output::Pending(transaction.clone()));
            if self.own.is_none() {
                self.forward(&transaction);
                self.forward_at.get_or_insert(TimestampMs(now.0 + FORWARD_MS));
            }
        }
        if let Some(reply) = reply {
            self.out.push_back(Output::Submitted { reply, result: result.map(|()| hash) });
        }
    }

    /// A full node gives its users' transactions to one validator at a time: the same one for all of a sender's, so that
    /// they arrive in nonce order, and another one when nothing came of it.
    fn forward(&mut self, transaction: &VerifiedTransaction) {
        let validators: Vec<NodeKey> =
            self.peers.iter().filter_map(|(peer, validator)| validator.map(|_| *peer)).collect();
        if validators.is_empty() {
            return;
        }
        let turn = usize::from(transaction.sender()[19]) + self.forward_turn;
        let to = validators[turn % validators.len()];
        let message = PeerMessage::Transactions(vec![transaction.transaction().raw().clone()]);
        self.out.push_back(Output::Send { to, message });
    }

    fn forward_again(&mut self, now: TimestampMs) {
        if self.forward_at.is_none_or(|at| now < at) {
            return;
        }
        self.forward_turn += 1;
        let waiting = self.pool.waiting(FORWARD_AGAIN);
        for transaction in &waiting {
            self.forward(transaction);
        }
        self.forward_at = (!waiting.is_empty()).then_some(TimestampMs(now.0 + FORWARD_MS));
    }

    // ---- peers -------------------------------------------------------------------------------------------------------

    fn peer_up(&mut self, now: TimestampMs, peer: NodeKey, validator: Option<ValidatorIndex>) {
        self.peers.insert(peer, validator);
        self.follower.peer_up(peer);
        if let Some(certificate) = &self.newest_certificate {
            self.out.push_back(Output::Send { to: peer, message: PeerMessage::Certificate(certificate.clone()) });
        }
        if let Some(index) = validator {
            for share in self.certifier.own_shares() {
                self.out.push_back(Output::Send { to: peer, message: PeerMessage::CertificateShare(share) });
            }
            self.engine_input(now, EngineInput::PeerUp(index));
        }
    }

    fn peer_down(&mut self, now: TimestampMs, peer: NodeKey) {
        self.follower.peer_down(&peer);
        if let Some(Some(index)) = self.peers.remove(&peer) {
            self.engine_input(now, EngineInput::PeerDown(index));
        }
    }

    fn learn_certificate(&mut self, from: NodeKey, certificate: Certificate) {
        if certificate.height > self.certified && !self.certificate_is_valid(&certificate) {
            let fault = Fault("certificate that does not verify".into());
            self.out.push_back(Output::Penalise { peer: from, fault });
            return;
        }
        self.follower.claim(from, certificate.height);
        // One for a block that we have not executed yet comes again with the block.
        if certificate.height > self.certified && certificate.height <= self.appended {
            self.certifier.certificate(certificate);
        }
    }

    fn certificate_is_valid(&self, certificate: &Certificate) -> bool {
        let committee = &self.committee;
        let (chain, hash, model) = (committee.chain_id(), committee.hash(), committee.fault_model());
        verify_certificate(certificate, chain, &self.bls_keys, hash, model, committee.quorum()).is_ok()
    }

    fn send_to_validators(&mut self, to: Recipients, message: &PeerMessage) {
        let wanted = |index: ValidatorIndex| match to {
            Recipients::All => true,
            Recipients::One(one) => one == index,
        };
        for (peer, validator) in &self.peers {
            if validator.is_some_and(wanted) {
                self.out.push_back(Output::Send { to: *peer, message: message.clone() });
            }
        }
    }

    // ---- ordering ----------------------------------------------------------------------------------------------------

    fn engine_input(&mut self, now: TimestampMs, input: EngineInput) {
        if let Some(engine) = &mut self.engine {
            engine.handle(now, input);
        }
    }

    fn engine_deadline(&mut self, now: TimestampMs) {
        let due = |engine: &dyn Engine| engine.deadline().is_some_and(|deadline| deadline <= now);
        if self.engine.as_deref().is_some_and(due) {
            self.engine_input(now, EngineInput::Deadline);
        }
    }

    /// Drains the engine; true if there was anything.
    fn drain_engine(&mut self, now: TimestampMs) -> bool {
        let mut any = false;
        while let Some(output) = self.engine.as_mut().and_then(|engine| engine.poll()) {
            any = true;
            match output {
                EngineOutput::WantBatch { bytes, gas } => self.wanted = Some((bytes, gas)),
                EngineOutput::Send { to, message } => self.send_to_validators(to, &PeerMessage::Engine(message)),
                EngineOutput::Persist(ticket, record) => self.out.push_back(Output::Persist(ticket, record)),
                EngineOutput::ReleaseBelow(ticket) => {
                    self.releases.push_back((self.builder.complete().index, ticket));
                }
                EngineOutput::Deliver(commit) => self.builder.push(commit),
                EngineOutput::Requeue(batch) => self.pool.requeue(batch),
                EngineOutput::Accuse { validator, offence, evidence } => {
                    self.out.push_back(Output::Accuse { validator, offence, evidence });
                }
                EngineOutput::Trace(event) => self.out.push_back(Output::Trace(event)),
            }
        }
        any |= self.answer_want_batch(now);
        any
    }

    fn answer_want_batch(&mut self, now: TimestampMs) -> bool {
        let Some((bytes, gas)) = self.wanted else { return false };
        let overloaded = self.plans.len() >= PLANS_WAITING;
        let batch = if overloaded { None } else { self.pool.cut(bytes, gas, &self.view(), self.base_fee) };
        // An open block needs later commits to close, so rounds go on with empty proposals.
        let batch = batch.or_else(|| (self.builder.is_open() || overloaded).then(Batch::default));
        let Some(batch) = batch else { return false };
        self.wanted = None;
        self.engine_input(now, EngineInput::Batch(batch));
        true
    }

    // ---- execution, append, certification ------------------------------------------------------------------------------

    fn plan_blocks(&mut self) {
        while let Some(block) = self.builder.poll() {
            self.planned = self.planned.next();
            self.plans.push_back(Plan { height: self.planned, block });
        }
    }

    fn dispatch_plans(&mut self) {
        while let Some(plan) = self.plans.front() {
            let certified_through = self.followed_certificates.keys().next_back().copied().unwrap_or_default();
            if plan.height.0 > self.certified.max(certified_through).0 + AHEAD_OF_CERTIFICATION {
                return;
            }
            self.executing = plan.height;
            let plan = self.plans.pop_front().expect("front was there");
            self.out.push_back(Output::Execute(plan));
        }
    }

    fn executed(&mut self, executed: Executed) {
        let height = executed.committed.block.height();
        assert_eq!(height, self.executed.next(), "invariant: execution answers in order");
        if let Some(expected) = self.expected.remove(&height).filter(|expected| *expected != executed.hash) {
            let (_, certificate) = self.followed_certificates.pop_last().expect("invariant: followed blocks come certified");
            return self.halt(height, executed.hash, expected, certificate);
        }
        self.executed = height;
        self.executed_hash = executed.hash;
        let committed = Arc::new(executed.committed);
        self.appending_info.insert(height, (executed.hash, executed.returned));
        self.appending.push_back(committed.clone());
        self.out.push_back(Output::Append(committed));
    }

    fn appended(&mut self, height: Height) {
        while self.appending.front().is_some_and(|block| block.block.height() <= height) {
            let committed = self.appending.pop_front().expect("front was there");
            let height = committed.block.height();
            self.appended = height;
            self.appended_resume = committed.resume.clone();
            self.progress = self.progress.max(committed.resume.index);
            let (hash, returned) = self.appending_info.remove(&height).unwrap_or_default();
            self.base_fee = committed.block.header.base_fee_per_gas.unwrap_or(1);
            let executed: Vec<B256> = committed.receipts.iter().map(|receipt| receipt.transaction_hash).collect();
            let own = self.own;
            let returned: Vec<_> =
                returned.into_iter().filter(|(author, _)| Some(*author) == own).map(|(_, transaction)| transaction).collect();
            self.pool.on_block(&self.view(), self.base_fee, &executed, &returned);
            self.certifier.executed(height, hash);
            if let Some(certificate) = self.followed_certificates.remove(&height) {
                self.certifier.certificate(certificate);
            }
            self.appended_ordering = Some(committed.block.ordering.clone());
        }
        self.state.prune_below(Height(self.appended.0.saturating_sub(RECENT_STATES)));
        self.release();
    }

    fn release(&mut self) {
        let durable = self.progress;
        while self.releases.front().is_some_and(|(needed_until, _)| *needed_until <= durable) {
            let (_, ticket) = self.releases.pop_front().expect("front was there");
            self.out.push_back(Output::ReleaseBelow(ticket));
        }
    }

    /// Stores the resume point when many commits made no block. Appends are in order, so it is durable before what follows.
    fn store_progress(&mut self) {
        let complete = self.builder.complete();
        let quiet = !self.builder.is_open() && self.plans.is_empty() && self.appended == self.planned;
        if self.mode == Mode::Ordering && quiet && complete.index.0 >= self.progress.0 + PROGRESS_COMMITS {
            self.progress = complete.index;
            self.appended_resume = complete.clone();
            self.out.push_back(Output::AppendProgress(complete.clone()));
            self.release();
        }
    }

    fn drain_certifier(&mut self, now: TimestampMs) {
        while let Some(output) = self.certifier.poll() {
            match output {
                CertifierOutput::Broadcast(share) => {
                    self.send_to_validators(Recipients::All, &PeerMessage::CertificateShare(share));
                }
                CertifierOutput::Certified(certificate) => self.certified(now, certificate),
                CertifierOutput::Diverged { ours, certificate } => {
                    self.halt(certificate.height, ours, certificate.header_hash, certificate);
                }
                CertifierOutput::Accuse { validator, evidence } => {
                    let offence = Offence::BadSignature;
                    self.out.push_back(Output::Accuse { validator, offence, evidence: vec![evidence] });
                }
            }
        }
    }

    fn certified(&mut self, now: TimestampMs, certificate: Certificate) {
        if certificate.height <= self.certified {
            return;
        }
        self.certified = certificate.height;
        self.newest_certificate = Some(certificate.clone());
        self.announce_at.get_or_insert(TimestampMs(now.0 + ANNOUNCE_MS));
        // Validators make their own from the shares; whoever follows is told at once.
        let followers = self.peers.iter().filter(|(_, validator)| validator.is_none());
        for (peer, _) in followers {
            self.out.push_back(Output::Send { to: *peer, message: PeerMessage::Certificate(certificate.clone()) });
        }
        self.out.push_back(Output::AppendCertificate(certificate));
    }

    fn announce(&mut self, now: TimestampMs) {
        if self.announce_at.is_none_or(|at| now < at) {
            return;
        }
        self.announce_at = None;
        if let Some(certificate) = self.newest_certificate.clone() {
            self.send_to_validators(Recipients::All, &PeerMessage::Certificate(certificate));
        }
    }

    fn halt(&mut self, height: Height, ours: B256, certified: B256, certificate: Certificate) {
        self.halted = true;
        self.engine = None;
        let reason = format!("divergence at height {height}: certified header {certified}, ours {ours}");
        self.out.push_back(Output::Halt { reason, certificate });
    }

    // ---- following -----------------------------------------------------------------------------------------------------

    /// Decides between ordering and following, and asks for blocks.
    fn follow(&mut self, now: TimestampMs) {
        let target = self.follower.target();
        let lag = target.0.saturating_sub(self.appended.0);
        if lag == 0 {
            self.behind_since = None;
        } else {
            self.behind_since.get_or_insert(now);
        }
        let patience_over = self.behind_since.is_some_and(|since| now.0 >= since.0 + PATIENCE_MS);
        if self.mode == Mode::Ordering && (lag > AHEAD_OF_CERTIFICATION || (lag > 0 && patience_over)) {
            self.start_following();
        }
        if self.mode != Mode::Following {
            return;
        }
        let idle = self.appended == self.planned && self.plans.is_empty();
        if idle && lag == 0 && self.engine_factory.is_some() {
            self.mode = Mode::Rejoining;
            self.out.push_back(Output::ReadSafetyLog);
        } else if idle && lag > 0 {
            let from = self.planned.next();
            if let Some(peer) = self.follower.ask(now, from) {
                self.out.push_back(Output::Request { to: peer, request: Request::Blocks { from } });
            }
        }
    }

    fn start_following(&mut self) {
        self.mode = Mode::Following;
        self.engine = None;
        self.wanted = None;
        self.releases.clear();
        // What execution has taken already is finished; the rest comes again with the certified blocks.
        self.plans.clear();
        self.planned = self.executing;
        let detail = format!("at {}, others certified {}", self.appended, self.follower.target());
        self.out.push_back(Output::Trace(TraceEvent { name: "following", detail }));
    }

    fn response(&mut self, now: TimestampMs, from: NodeKey, response: Option<Response>) {
        let useful = self.mode == Mode::Following && self.planned == self.appended;
        let Some(response) = response.filter(|_| useful) else {
            return self.follower.answered(now, &from, false);
        };
        let empty = response.blocks.is_empty();
        let next = self.planned.next();
        match check_response(response, next, self.executed_hash, |certificate| self.certificate_is_valid(certificate)) {
            Ok((blocks, certificate)) => {
                self.follower.answered(now, &from, true);
                self.follow_blocks(blocks, certificate);
            }
            Err(problem) => {
                self.follower.answered(now, &from, false);
                if !empty {
                    self.out.push_back(Output::Penalise { peer: from, fault: Fault(problem) });
                }
            }
        }
    }

    fn follow_blocks(&mut self, blocks: Vec<FollowedBlock>, certificate: Certificate) {
        self.followed_certificates.insert(certificate.height, certificate);
        for followed in blocks {
            self.planned = self.planned.next();
            self.expected.insert(self.planned, followed.block.hash());
            let block = BlockPlan::of_block(&followed.block, followed.resume);
            self.plans.push_back(Plan { height: self.planned, block });
        }
    }

    /// Builds the engine anew where the last block ends. Its records keep us from proposing twice in one round.
    fn rejoin(&mut self, now: TimestampMs, records: Vec<(Ticket, Bytes)>) {
        let Some(build) = self.engine_factory.as_ref().filter(|_| self.mode == Mode::Rejoining) else { return };
        let resume = self.appended_resume.clone();
        self.builder = BlockBuilder::new(&self.genesis, self.appended_ordering.as_ref(), resume.clone());
        self.engine = Some(build(records, resume, now));
        self.mode = Mode::Ordering;
        self.behind_since = None;
        // What the old engine held may be lost; proposed twice, the second is skipped.
        self.pool.requeue_all();
        let connected: Vec<ValidatorIndex> = self.peers.values().filter_map(|validator| *validator).collect();
        for validator in connected {
            self.engine_input(now, EngineInput::PeerUp(validator));
        }
        let detail = format!("after height {}, commit {}", self.appended, self.appended_resume.index);
        self.out.push_back(Output::Trace(TraceEvent { name: "rejoined", detail }));
    }

    // ---- one round of everything ----------------------------------------------------------------------------------------

    /// Runs every stage until nothing moves.
    fn settle(&mut self, now: TimestampMs) {
        while self.drain_engine(now) {}
        self.plan_blocks();
        self.drain_certifier(now);
        self.announce(now);
        self.follow(now);
        self.dispatch_plans();
        self.store_progress();
        self.forward_again(now);
        for event in self.pool.take_events() {
            self.out.push_back(left_the_pool(event));
        }
    }
}

/// The status of a transaction that left the pool without being executed.
fn left_the_pool(event: PoolEvent) -> Output {
    match event {
        PoolEvent::Dropped { hash, reason } => Output::Dropped { hash, status: TransactionStatus::Dropped(reason.to_string()) },
        PoolEvent::Replaced { hash, by } => Output::Dropped { hash, status: TransactionStatus::Replaced(by) },
    }
}
