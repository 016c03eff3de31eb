//! State machine that combines pool, engine, builder, certifier and follower. The stages are in the
//! submodules; this file has their shared state and the main loop.

mod attesting;
mod backlog;
mod catch_up;
mod epochs;
mod evidence;
mod extension;
mod forwarding;
mod mode;
mod notices;
mod ordering;
mod peers;
mod reputation;
mod results;
mod silence;
mod upgrade;
mod users;

use crate::epoch::{CoinStatus, EpochStart};
use crate::execution::VerifiedTransaction;
use crate::extension::Extension;
use crate::follow::Follower;
use crate::io::{CertificateKeyFactory, EngineFactory, Input, NodeKey, NodeKeys, Output, Setup, TransactionStatus};
use crate::restart::OrderingStart;
use crate::safety::History;
use attesting::Attesting;
use backlog::Backlog;
use corniche_admission::{Event as PoolEvent, Pool};
use corniche_certify::{CertificateVerifier, Certifier, VerifiedCertificate};
use corniche_engine::{Committee, Input as EngineInput, Resume};
use corniche_state::{CommittedBlock, Snapshot, State};
use corniche_types::{
    Address, B256, Block, Certificate, CommitIndex, Epoch, Genesis, Height, KnownVersions, OrderingRecord, SignatureChecks,
    TimestampMs, ValidatorIndex, certified,
};
use evidence::PendingEvidence;
pub use evidence::is_useful;
use forwarding::Forwarding;
use mode::{Following, Mode, Ordering};
use notices::Notices;
pub use notices::verify_notice;
use silence::Silence;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use upgrade::Upgrade;

/// Maximum distance of execution ahead of the newest certificate, in blocks (design §3). Contracts can rely
/// on it: the state contains the header hashes up to this depth ([`certified`]).
pub const AHEAD_OF_CERTIFICATION: u64 = certified::DEPTH;

/// A connected peer.
#[derive(Clone, Copy)]
struct Peer {
    validator: Option<ValidatorIndex>,
    /// Its epoch, as it said.
    epoch: Epoch,
}

/// A node. See the crate documentation.
pub struct Pipeline {
    genesis: Arc<Genesis>,
    known: KnownVersions,
    upgrade: Upgrade,
    /// Our index in the running committee; `None`: no member.
    own: Option<ValidatorIndex>,
    certificate_keys: CertificateKeyFactory,
    engine_factory: Option<EngineFactory>,
    /// `false`: no engine is built yet.
    may_vote: bool,
    pool: Pool,
    /// Epoch in which the next block is ordered. The last block of an epoch belongs to it until that block's certificate is durable.
    epoch: EpochStart,
    committee: Committee,
    coin: CoinStatus,
    silence: Silence,
    evidence: PendingEvidence,
    history: History,
    /// Last complete commit of the epoch that is stored, where an engine of the epoch resumes.
    resume: Resume,
    /// Certificate of the last block of the epoch before, if this node was there.
    last_certificate_before: Option<Certificate>,
    certifier: Certifier,
    certificates: CertificateVerifier,
    follower: Follower,
    mode: Mode,
    state: State,
    recent_states: u64,
    base_fee: u64,
    peers: BTreeMap<NodeKey, Peer>,
    /// Blocks that are not executed yet.
    backlog: Backlog,
    /// Heights: given to execution ≥ executed ≥ appended.
    planned: Height,
    executing: Height,
    appended: Height,
    /// Ordering record of the newest appended block; `None`: genesis.
    appended_ordering: Option<OrderingRecord>,
    /// Hash of block `executing` once known; followed blocks must continue it.
    executed_hash: B256,
    executed: Height,
    certified: Height,
    newest_certificate: Option<Certificate>,
    /// Last complete commit of each block that is appended and not certified.
    uncertified_commits: BTreeMap<Height, CommitIndex>,
    /// Newest certificate received for a block that is not appended yet; it is not sent again before the next
    /// block.
    early_certificate: Option<VerifiedCertificate>,
    /// Blocks that are executed and being appended.
    appending: VecDeque<Arc<CommittedBlock>>,
    appending_info: BTreeMap<Height, (B256, Vec<(ValidatorIndex, VerifiedTransaction)>)>,
    /// Certificates of followed blocks, appended after their block.
    followed_certificates: BTreeMap<Height, VerifiedCertificate>,
    /// Time to look for a weak certificate: shares for blocks that this node lacks have arrived, and nothing
    /// has moved.
    share_check_at: Option<TimestampMs>,
    progress: CommitIndex,
    announce_at: Option<TimestampMs>,
    /// Time to send our shares again, because nothing was certified since.
    shares_at: Option<TimestampMs>,
    forwarding: Forwarding,
    attesting: Attesting,
    notices: Notices,
    /// Epoch of the reported seats, and whether they include the next committee.
    seats_of: Option<(Epoch, bool)>,
    /// `None` on a real network.
    extension: Option<Box<dyn Extension>>,
    out: VecDeque<Output>,
}

impl Pipeline {
    pub fn new(setup: Setup) -> Self {
        let OrderingStart { epoch, resume } = setup.ordering;
        let NodeKeys { certificates: certificate_keys, engine: engine_factory, notices: notice_author } = setup.keys;
        let is_entering = setup.head.as_ref().is_some_and(|head| EpochStart::after(&head.ordering) == Some(epoch));
        let (mut history, records) = History::read(epoch.epoch, &setup.records, setup.never_signed);
        let mut entry = (None, None);
        let head_height = setup.head.as_ref().map_or(Height(0), Block::height);
        let is_known = epoch.rules(&setup.genesis, head_height.next(), setup.known).is_some();
        if is_known && is_entering && engine_factory.is_some() && !history.has_records() {
            // The entry may have been lost with the power, and the validator may have known everything until then.
            (history, _) = History::read(Epoch(epoch.epoch.0 - 1), &setup.records, setup.never_signed);
            entry = history.enter(epoch.epoch, false, setup.now);
        }
        let committee = epoch.committee(&setup.genesis, &setup.state.latest());
        let keys = certificate_keys(&committee);
        let own = keys.own.as_ref().map(|key| key.index());
        let certificates = CertificateVerifier::new(committee.clone(), &keys);
        let certified = setup.certified;
        let mut certifier = Certifier::new(committee.clone(), keys).above(certified);
        let silence = if setup.lost_blocks { Silence::Waiting(None) } else { Silence::None };
        certifier.keep_silent(silence.through());
        for (height, hash) in setup.uncertified {
            certifier.executed(height, hash);
        }
        let head_ordering = setup.head.as_ref().map(|block| &block.ordering);
        let newest = head_ordering.map_or(setup.genesis.timestamp_ms, |head| head.time);
        let mut extension = setup.extension;
        if let Some(extension) = &mut extension {
            extension.start(newest, setup.now);
        }
        let is_sharded = setup.genesis.signatures == SignatureChecks::Sharded;
        let forwarding = Forwarding::new(own, &committee, is_sharded, setup.rotation, setup.now);
        let mut pipeline = Self {
            known: setup.known,
            upgrade: Upgrade::default(),
            own,
            mode: Mode::Following(Following::default()),
            certificate_keys,
            engine_factory,
            may_vote: setup.may_vote,
            pool: Pool::new(setup.pool),
            epoch,
            evidence: setup.evidence.into_iter().map(|it| ((it.epoch, it.offender), it)).collect(),
            coin: CoinStatus::of(epoch.epoch, &setup.state.latest()),
            silence,
            committee,
            history,
            last_certificate_before: None,
            certifier,
            certificates,
            follower: Follower::default(),
            state: setup.state,
            recent_states: setup.recent_states,
            base_fee: setup.base_fee,
            peers: BTreeMap::new(),
            backlog: Backlog::default(),
            planned: head_height,
            executing: head_height,
            executed: head_height,
            appended: head_height,
            progress: resume.index,
            resume,
            appended_ordering: setup.head.map(|block| block.ordering),
            executed_hash: setup.head_hash,
            certified,
            newest_certificate: setup.certificate,
            uncertified_commits: BTreeMap::new(),
            early_certificate: None,
            appending: VecDeque::new(),
            appending_info: BTreeMap::new(),
            followed_certificates: BTreeMap::new(),
            share_check_at: None,
            announce_at: None,
            shares_at: None,
            extension,
            forwarding,
            attesting: Attesting::default(),
            notices: Notices::new(notice_author, &setup.genesis),
            seats_of: None,
            out: VecDeque::new(),
            genesis: setup.genesis,
        };
        let (entered, release) = entry;
        pipeline.out.extend(entered.map(|(ticket, record)| Output::Persist(ticket, record)));
        pipeline.out.extend(release.map(Output::ReleaseBelow));
        pipeline.report_seats();
        if !is_known {
            // At once, with the sentence of the first time (U3).
            pipeline.halt_as_outdated(epoch);
            return pipeline;
        }
        if setup.may_vote {
            pipeline.start_ordering(setup.now, records);
        }
        pipeline.run_stages(setup.now);
        pipeline
    }

    /// Applies one input.
    pub fn handle(&mut self, now: TimestampMs, input: Input) {
        if self.mode.is_halted() {
            return;
        }
        self.rotate(now);
        match input {
            Input::Submit { transaction, from, reply } => self.submit(now, transaction, from, reply),
            Input::Command { command, reply } => self.command(now, &command, reply),
            Input::PeerUp { peer, validator } => self.peer_up(now, peer, validator),
            Input::PeerDown { peer } => self.peer_down(now, peer),
            Input::Notice(notice) => self.keep_notice(now, notice),
            Input::PeerEpoch { peer, epoch, wants_answer } => self.peer_epoch(now, peer, epoch, wants_answer),
            Input::Engine { from, epoch, message } if epoch == self.epoch.epoch => self.engine_message(now, from, message),
            Input::CertificateShare { from, epoch, bytes } if epoch == self.epoch.epoch => self.certifier.share(from, bytes),
            // The epoch has changed meanwhile.
            Input::Engine { .. } | Input::CertificateShare { .. } => {}
            Input::Certificate { from, certificate } => self.receive_certificate(from, certificate),
            Input::Response { from, response } => self.response(now, from, response),
            Input::Durable(tickets) => {
                for ticket in tickets {
                    self.engine_input(now, EngineInput::Durable(self.history.of_engine(ticket)));
                }
            }
            // Also with a full backlog: the engine itself bounds the packets that it holds.
            Input::Packet(datagram) => self.engine_input(now, EngineInput::Packet(datagram)),
            Input::Sequencer(key) => self.engine_input(now, EngineInput::Sequencer(key)),
            Input::Executed(executed) => self.executed(*executed),
            Input::Appended(height) => self.appended(now, height),
            Input::CertificateAppended(height) => self.certificate_appended(now, height),
            Input::SafetyLog(records) => self.rejoin(now, records),
            Input::MayVote => self.may_vote = true,
            Input::Keys(keys) => self.replace_keys(*keys),
            Input::Deadline => self.engine_deadline(now),
        }
        self.run_stages(now);
    }

    fn replace_keys(&mut self, keys: NodeKeys) {
        let NodeKeys { certificates, engine, notices } = keys;
        (self.certificate_keys, self.engine_factory) = (certificates, engine);
        self.notices.replace_author(notices);
    }

    /// Returns the next output.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// Time for the next [`Input::Deadline`].
    pub fn deadline(&self) -> Option<TimestampMs> {
        let engine = self.mode.ordering().and_then(|ordering| ordering.engine.deadline());
        let engine_timeout = self.engine_timeout();
        let epoch_step = self.epoch_step();
        // While blocks are being executed or appended there are no requests, so no deadline either.
        let follows = self.mode.is_following() && self.is_idle();
        let missing = follows.then(|| self.missing()).flatten();
        let follow = missing.and_then(|missing| self.follower.deadline(missing));
        let extension = self.extension.as_ref().and_then(|extension| extension.deadline());
        [
            engine,
            engine_timeout,
            epoch_step,
            self.notice_deadline(),
            follow,
            self.share_check_at,
            self.announce_at,
            self.shares_at,
            self.forwarding_deadline(),
            self.attesting.deadline(),
            self.silence_deadline(),
            self.upgrade.stops_at,
            extension,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Pool, for RPC queries about pending transactions.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Next nonce of `address`, with pending transactions counted.
    pub fn pending_nonce(&self, address: &Address) -> u64 {
        self.pool.pending_nonce(address, &self.view())
    }

    /// Number of ordered blocks that wait for execution.
    pub fn waiting_blocks(&self) -> usize {
        self.backlog.len()
    }

    /// True while this validator takes part in ordering; false while it follows certified blocks.
    pub fn is_ordering(&self) -> bool {
        self.mode.is_ordering()
    }

    /// Committee whose messages are verified now.
    pub fn committee(&self) -> &Committee {
        &self.committee
    }

    /// Coin of the running epoch.
    pub fn coin(&self) -> CoinStatus {
        self.coin
    }

    /// Milliseconds by which clocks of validators are ahead of this node's. None while it follows.
    pub fn clock_leads(&self) -> Vec<(ValidatorIndex, u64)> {
        self.mode.ordering().map(|ordering| ordering.engine.clock_leads()).unwrap_or_default()
    }

    /// Number of proofs against validators that the state does not have.
    pub fn pending_evidence(&self) -> usize {
        self.evidence.len()
    }

    /// Verifier of peers' certificates. Callers must use it before [`Input::Certificate`].
    pub fn certificate_verifier(&self) -> &CertificateVerifier {
        &self.certificates
    }

    /// Highest height certified here.
    pub fn certified_height(&self) -> Height {
        self.certified
    }

    /// Highest certified height claimed by a peer.
    pub fn target(&self) -> Height {
        self.follower.target()
    }

    /// Newest state visible to users.
    fn view(&self) -> Snapshot {
        self.state.at(self.appended).expect("invariant: the newest appended height is never pruned")
    }

    /// True if no block is being executed or appended.
    fn is_idle(&self) -> bool {
        self.appended == self.planned && self.backlog.is_empty()
    }

    /// Runs all stages until nothing changes.
    fn run_stages(&mut self, now: TimestampMs) {
        self.pool.tick(now);
        if let Some(extension) = &mut self.extension {
            extension.tick(now);
        }
        self.make_notices(now);
        self.update_silence(now);
        while self.drain_engine(now) {}
        self.drain_certifier(now);
        self.announce(now);
        self.follow(now);
        self.dispatch_plans();
        self.store_progress();
        self.forward_again(now);
        self.send_due_attestations(now);
        self.send_queued(now);
        // Before the responses, so that a client no longer finds a transaction that it dropped.
        self.report_dropped();
        self.poll_extension(now);
        self.stop_if_outdated(now);
    }

    /// Reports transactions that left the pool unexecuted.
    fn report_dropped(&mut self) {
        self.out.extend(self.pool.take_events().into_iter().map(dropped_output));
    }
}

/// Output for a transaction that left the pool unexecuted.
fn dropped_output(event: PoolEvent) -> Output {
    match event {
        PoolEvent::Dropped { hash, reason } => Output::Dropped { hash, status: TransactionStatus::Dropped(reason.to_string()) },
        PoolEvent::Replaced { hash, by } => Output::Dropped { hash, status: TransactionStatus::Replaced(by) },
    }
}
