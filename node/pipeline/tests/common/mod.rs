//! Nodes in memory on a virtual clock, with real pool, execution and certification; the ordering engine is
//! scripted.
#![allow(dead_code)]

use alloy_consensus::TxEip1559;
use borsh::BorshSerialize;
use corniche_admission::{PoolConfig, Rotation, batch};
use corniche_certify::{Signature, Signatures};
use corniche_crypto::evidence::Evidence;
use corniche_crypto::{BlsSecretKey, CoinKey, ConsensusKey, EthereumKey, Known, VerifiedTransaction};
use corniche_engine::{Batch, Engine, Input as EngineInput, Ordered, Output as EngineOutput, Resume, Ticket, TraceEvent};
use corniche_executor::verify_ordered_cached;
use corniche_pipeline::{
    AttestedSenders, AuthorKeys, BlockSource, CertificateKeyFactory, CertificateKeys, ChainBase, EngineFactory, EngineStart,
    ExecutionStage, ExecutionStart, FollowedBlock, Halted, Input, NodeKey, NodeKeys, NoticeAuthor, Output, PeerMessage,
    Pipeline, Plan, Request, Response, RestartPoint, Setup, serve_blocks,
};
use corniche_staking::genesis_changes;
use corniche_state::{CommittedBlock, State, Tree};
use corniche_types::{
    Address, B256, Bytes, Certificate, CommitIndex, EngineConfig, FeeRules, Genesis, GenesisAccount, GenesisStake, Header,
    Height, KnownVersions, ProtocolRules, STAKING_ADDRESS, SignatureChecks, StakingParameters, TimestampMs, Transaction,
    TxKind, U256, ValidatorIndex, ValidatorInfo, header_hash, keccak256, wire,
};
use corniche_vm::{Vm, VmConfig, wasm::NoCache};
use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

pub const CHAIN: u64 = 7;

pub fn user() -> EthereumKey {
    EthereumKey::from_bytes(&[3; 32]).unwrap()
}

/// Another funded user, for numbers below [`USERS`].
pub fn user_number(number: u8) -> EthereumKey {
    EthereumKey::from_bytes(&[100 + number; 32]).unwrap()
}

pub const USERS: u8 = 24;

pub fn bls_key(index: usize) -> BlsSecretKey {
    BlsSecretKey::from_seed([40 + index as u8; 32])
}

pub fn consensus_key(index: usize) -> ConsensusKey {
    ConsensusKey::from_seed([80 + index as u8; 32])
}

/// Coin key of a node.
pub fn coin_key(index: usize) -> CoinKey {
    CoinKey::from_seed([index as u8 + 1; 32])
}

/// Makes the notices of a node.
pub fn notice_author(index: usize) -> NoticeAuthor {
    let version = KnownVersions::default().highest();
    let keys = AuthorKeys::new(consensus_key(index), Some(coin_key(index)));
    NoticeAuthor { keys: vec![keys], chain_id: CHAIN, version }
}

/// Identity of a node in its network.
pub fn network_key(index: usize) -> ConsensusKey {
    ConsensusKey::from_seed([200 + index as u8; 32])
}

/// Signatures of certificates for all nodes of a test, which are in one thread: what one of them verified, the others need not verify
/// again. That was a third of the time.
struct SharedSignatures {
    signatures: Arc<dyn Signatures>,
    committee: B256,
}

thread_local! {
    /// Verified combinations, by the hash of everything that was verified.
    static VERIFIED: RefCell<BTreeMap<B256, Signature>> = RefCell::default();
}

impl SharedSignatures {
    fn verified<T: BorshSerialize>(&self, what: T, verify: impl FnOnce() -> Option<Signature>) -> Option<Signature> {
        let hash = keccak256(wire::encode(&(self.committee, what)));
        let known = VERIFIED.with_borrow(|verified| verified.get(&hash).copied());
        known.or_else(|| verify().inspect(|combined| _ = VERIFIED.with_borrow_mut(|all| all.insert(hash, *combined))))
    }
}

impl Signatures for SharedSignatures {
    fn verify_share(&self, signer: ValidatorIndex, message: &[u8], share: &Signature) -> bool {
        self.signatures.verify_share(signer, message, share)
    }

    fn combine(&self, message: &[u8], shares: &[(ValidatorIndex, Signature)]) -> Option<Signature> {
        let ordered: BTreeMap<_, _> = shares.iter().copied().collect();
        let combined = self.verified((message, &ordered), || self.signatures.combine(message, shares))?;
        let signers: Vec<_> = ordered.into_keys().collect();
        self.verified((message, signers, combined), || Some(combined))
    }

    fn combine_own(&self, message: &[u8], own: (ValidatorIndex, Signature)) -> Option<Signature> {
        self.signatures.combine_own(message, own)
    }

    fn verify(&self, message: &[u8], signers: &[ValidatorIndex], combined: &Signature) -> bool {
        let verify = || self.signatures.verify(message, signers, combined).then_some(*combined);
        self.verified((message, signers, combined), verify).is_some()
    }
}

/// Maximum number of nodes of a test.
pub const NODES: usize = 16;

pub fn node_key(index: usize) -> NodeKey {
    // Tests ask for each message, and a key takes as long as a signature.
    static KEYS: LazyLock<[NodeKey; NODES]> = LazyLock::new(|| std::array::from_fn(|index| network_key(index).public().0));
    KEYS[index]
}

pub fn genesis(validators: usize) -> Genesis {
    let member = |index: usize| ValidatorInfo {
        consensus_key: B256::with_last_byte(index as u8 + 1),
        bls_key: Bytes::copy_from_slice(&bls_key(index).public().to_bytes()),
        bls_proof: Bytes::copy_from_slice(&bls_key(index).prove_possession().to_bytes()),
        network_key: B256::with_last_byte(index as u8 + 1),
        fee_address: Address::with_last_byte(0xf0 + index as u8),
        votes: corniche_types::Votes(1),
        stake: None,
    };
    let rich = GenesisAccount { balance: U256::from(10u128.pow(24)), ..GenesisAccount::default() };
    Genesis {
        protocol_version: ProtocolRules::LATEST.version,
        upgrades: Vec::new(),
        chain_id: CHAIN,
        currency: "TST".into(),
        timestamp_ms: TimestampMs(1_000_000),
        block_ms: 0,
        block_gas_limit: 30_000_000,
        batch_bytes: 1 << 20,
        batch_gas: 30_000_000,
        epoch_blocks: 1_000,
        fees: FeeRules { initial_base_fee: 1_000, target_gas_per_second: 1_000_000 },
        engine: EngineConfig { name: "scripted".into(), parameters: Default::default() },
        validators: (0..validators).map(member).collect(),
        coin_shares: vec![Bytes::new(); validators],
        coin_public_key: Bytes::new(),
        accounts: (0..USERS).map(user_number).chain([user()]).map(|user| (user.address(), rich.clone())).collect(),
        signatures: SignatureChecks::Everyone,
        staking: None,
        coin_draft: None,
        multicast: None,
    }
}

/// Adds stake for every validator, with epochs of this length. Its owner is the user with the validator's number, from 1.
pub fn add_stake(genesis: &mut Genesis, staking: StakingParameters) {
    genesis.staking = Some(staking);
    for (number, validator) in (1u8..).zip(&mut genesis.validators) {
        let coin_key = coin_key(usize::from(number) - 1).public().to_vec().into();
        validator.stake = Some(GenesisStake { owner: user_number(number).address(), coin_key });
        validator.fee_address = Address::repeat_byte(0xf0 + number);
    }
}

/// Genesis with version 1 of the rules: blocks are not bounded in bytes, nor batches in gas.
pub fn first_rules(genesis: Genesis) -> Genesis {
    Genesis { protocol_version: 1, ..genesis }
}

/// Call of the staking contract.
pub fn call_staking(user: &EthereumKey, nonce: u64, value: U256, input: Vec<u8>) -> VerifiedTransaction {
    let raw = user.sign(TxEip1559 {
        chain_id: CHAIN,
        nonce,
        gas_limit: 2_000_000,
        max_fee_per_gas: 1_000_000,
        max_priority_fee_per_gas: 10,
        to: TxKind::Call(STAKING_ADDRESS),
        value,
        input: input.into(),
        ..TxEip1559::default()
    });
    VerifiedTransaction::verify(Transaction::decode(raw).unwrap(), CHAIN).unwrap()
}

pub fn transfer(nonce: u64) -> VerifiedTransaction {
    transfer_from(&user(), nonce, 10)
}

pub fn transfer_from(user: &EthereumKey, nonce: u64, tip: u128) -> VerifiedTransaction {
    transfer_for(user, nonce, 100_000 * tip, tip)
}

/// Transaction that fills a block: it declares all of the block's gas.
pub fn whole_block(nonce: u64) -> VerifiedTransaction {
    let raw = user().sign(TxEip1559 {
        chain_id: CHAIN,
        nonce,
        gas_limit: 30_000_000,
        max_fee_per_gas: 1_000_000,
        max_priority_fee_per_gas: 10,
        to: TxKind::Call(Address::repeat_byte(0xaa)),
        value: U256::from(1),
        ..TxEip1559::default()
    });
    VerifiedTransaction::verify(Transaction::decode(raw).unwrap(), CHAIN).unwrap()
}

/// Transaction with this many bytes of input, which it cannot pay for: it is in a block and skipped.
pub fn large(nonce: u64, bytes: usize) -> Bytes {
    user().sign(TxEip1559 {
        chain_id: CHAIN,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 1_000_000,
        to: TxKind::Call(Address::repeat_byte(0xaa)),
        input: vec![7; bytes].into(),
        ..TxEip1559::default()
    })
}

/// Transfer with this maximum fee and tip per gas.
pub fn transfer_for(user: &EthereumKey, nonce: u64, max_fee_per_gas: u128, tip: u128) -> VerifiedTransaction {
    let raw = user.sign(TxEip1559 {
        chain_id: CHAIN,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas,
        max_priority_fee_per_gas: tip,
        to: TxKind::Call(Address::repeat_byte(0xaa)),
        value: U256::from(1),
        ..TxEip1559::default()
    });
    VerifiedTransaction::verify(Transaction::decode(raw).unwrap(), CHAIN).unwrap()
}

/// Engine for tests of the other stages: every batch it gets is a commit at once.
struct Scripted {
    next: u64,
    now: TimestampMs,
    wanting: bool,
    out: VecDeque<EngineOutput>,
    /// Commits that the test injects.
    script: Script,
    messages: Arc<AtomicUsize>,
    certified: Arc<AtomicU64>,
    /// True after an empty batch: it wants the next one later.
    rests: bool,
}

pub type Script = Arc<Mutex<VecDeque<Vec<Bytes>>>>;

impl Scripted {
    fn commit(&mut self, batch: Batch) {
        let batches = if batch.bytes.is_empty() { Vec::new() } else { vec![(ValidatorIndex(0), batch)] };
        self.out.push_back(EngineOutput::Deliver(Ordered {
            index: CommitIndex(self.next),
            leader: ValidatorIndex(0),
            time: self.now,
            randomness: B256::with_last_byte(self.next as u8),
            batches,
            checkpoint: self.next.to_be_bytes().to_vec().into(),
        }));
        self.next += 1;
    }
}

impl Engine for Scripted {
    fn handle(&mut self, now: TimestampMs, input: EngineInput) {
        self.now = now;
        if std::mem::take(&mut self.rests) {
            self.wanting = false;
        }
        if let EngineInput::Batch(batch) = input {
            self.rests = batch.bytes.is_empty();
            self.wanting = self.rests;
            self.commit(batch);
        } else if let EngineInput::Message { message, .. } = input {
            self.messages.fetch_add(1, Ordering::Relaxed);
            let raw: &Vec<Bytes> = message.0.downcast_ref().expect("what a test sends");
            self.commit(Batch { bytes: batch::encode(raw).unwrap() });
        } else if let EngineInput::Certified(commit) = input {
            assert!(commit.0 < self.next, "only what was delivered is certified");
            self.certified.store(commit.0, Ordering::Relaxed);
        }
        let script = std::mem::take(&mut *self.script.lock().unwrap());
        script.into_iter().for_each(|raw| self.commit(Batch { bytes: batch::encode(&raw).unwrap() }));
    }

    fn poll(&mut self) -> Option<EngineOutput> {
        if let Some(output) = self.out.pop_front() {
            return Some(output);
        }
        if self.wanting {
            return None;
        }
        self.wanting = true;
        Some(EngineOutput::WantBatch { bytes: 1 << 20, gas: 30_000_000 })
    }

    fn deadline(&self) -> Option<TimestampMs> {
        let rests = self.rests.then_some(TimestampMs(self.now.0 + 1));
        if self.script.lock().unwrap().is_empty() { rests } else { Some(self.now) }
    }
}

/// Number of states below the newest that a node here keeps.
pub const RECENT_STATES: u64 = 4;

/// Node with its disk and its executor; the test acts as its network.
pub struct Node {
    pub key: NodeKey,
    pub pipeline: Pipeline,
    pub state: State,
    pub stage: ExecutionStage,
    pub script: Script,
    /// Number of messages that the scripted engine got; each is a commit.
    pub messages: Arc<AtomicUsize>,
    /// Last commit that was reported as certified to the scripted engine.
    pub certified_commit: Arc<AtomicU64>,
    pub disk: Disk,
    pub sent: Vec<(NodeKey, PeerMessage)>,
    pub requests: Vec<(NodeKey, Request)>,
    pub executed_plans: usize,
    /// Transactions that were in the pool.
    pooled: BTreeMap<B256, VerifiedTransaction>,
    pub attested: AttestedSenders,
    /// Number of ordered transactions whose signatures this node had to check.
    pub checked_in_blocks: usize,
    pub penalties: Vec<(NodeKey, String)>,
    /// Nodes that it treats as validators in its network.
    pub seats: Vec<NodeKey>,
    pub halted: Option<Halted>,
    pub warnings: Vec<String>,
    pub traces: Vec<String>,
    /// Appends wait while this is set.
    pub slow_disk: bool,
    pub waiting_appends: VecDeque<Arc<CommittedBlock>>,
    /// Executions wait while this is set.
    pub slow_processor: bool,
    pub waiting_plans: VecDeque<Plan>,
    pub now: TimestampMs,
}

/// State that survives a crash.
#[derive(Clone, Default)]
pub struct Disk {
    pub records: BTreeMap<Ticket, Bytes>,
    pub blocks: Vec<Arc<CommittedBlock>>,
    pub certificates: BTreeMap<Height, Certificate>,
    pub progress: Option<Resume>,
    pub evidence: Vec<Evidence>,
    /// True if this validator proposes every transaction that it receives.
    pub without_buckets: bool,
    /// True if the validator has signed nothing in its life.
    pub never_signed: bool,
    /// The validator may have signed headers of blocks that are not here.
    pub lost_blocks: bool,
    /// Versions that the build of the next start knows.
    pub known: KnownVersions,
    /// Highest version that it announces (U5).
    pub max_version: Option<u32>,
    /// Compiled code is missing, so a start does not vote before [`Input::MayVote`].
    pub compiles: bool,
}

impl Disk {
    fn at(&self, height: Height) -> Option<&CommittedBlock> {
        self.blocks.get(usize::try_from(height.0).ok()?.checked_sub(1)?).map(Arc::as_ref)
    }
}

impl BlockSource for Disk {
    fn block(&self, height: Height) -> Option<FollowedBlock> {
        let committed = self.at(height)?;
        Some(FollowedBlock { block: committed.block.clone(), resume: committed.resume.clone() })
    }

    fn header(&self, height: Height) -> Option<Header> {
        Some(self.at(height)?.block.header.clone())
    }

    fn certificate_from(&self, height: Height) -> Option<Certificate> {
        self.certificates.range(height..).next().map(|(_, certificate)| certificate.clone())
    }
}

impl Node {
    /// Validator with a scripted engine, or a full node (`None`).
    pub fn new(number: u8, genesis: &Genesis, validator: Option<u16>) -> Self {
        Self::with_state_of(number, genesis, genesis, validator)
    }

    /// Like `new`, but executes on the accounts of another genesis: a node with a wrong state.
    pub fn with_state_of(number: u8, genesis: &Genesis, accounts: &Genesis, validator: Option<u16>) -> Self {
        Self::scripted(number, genesis, accounts, validator, Disk { without_buckets: true, ..Disk::default() })
    }

    /// A validator without compiled code, which may not vote yet.
    pub fn compiling(number: u8, genesis: &Genesis, validator: u16) -> Self {
        let disk = Disk { without_buckets: true, compiles: true, ..Disk::default() };
        Self::scripted(number, genesis, genesis, Some(validator), disk)
    }

    fn scripted(number: u8, genesis: &Genesis, accounts: &Genesis, validator: Option<u16>, disk: Disk) -> Self {
        let script = Script::default();
        let engine_script = script.clone();
        let messages = Arc::new(AtomicUsize::new(0));
        let engine_messages = messages.clone();
        let certified_commit = Arc::new(AtomicU64::new(0));
        let engine_certified = certified_commit.clone();
        let factory: EngineFactory = Box::new(move |EngineStart { resume, now, .. }| {
            Box::new(Scripted {
                next: resume.index.0 + 1,
                now,
                wanting: false,
                out: VecDeque::new(),
                script: engine_script.clone(),
                messages: engine_messages.clone(),
                certified: engine_certified.clone(),
                rests: false,
            })
        });
        let own = validator.map(|index| (index, factory));
        let started = Self::start(number, genesis, accounts, own, disk, TimestampMs(2_000_000));
        Self { script, messages, certified_commit, ..started }
    }

    /// Starts from the content of the disk.
    pub fn start(
        number: u8,
        genesis: &Genesis,
        accounts: &Genesis,
        validator: Option<(u16, EngineFactory)>,
        disk: Disk,
        now: TimestampMs,
    ) -> Self {
        let genesis = Arc::new(genesis.clone());
        let (state, mut tree) = (State::default(), Tree::default());
        let changes = genesis_changes(accounts);
        state.apply(Height(0), &changes);
        tree.apply(&changes);
        for block in &disk.blocks {
            state.apply(block.block.height(), &block.changes);
            tree.apply(&block.changes);
        }
        let newest = disk.blocks.last().map(|block| block.block.clone());
        let stored = newest.as_ref().and(disk.blocks.last()).map(|block| block.resume.clone()).unwrap_or_default();
        let resume = disk.progress.clone().filter(|progress| progress.place() > stored.place()).unwrap_or(stored);
        let certificate = disk.certificates.values().next_back().cloned();
        let certified = certificate.as_ref().map_or(0, |certificate| certificate.height.0);
        let own = validator.as_ref().map(|(index, _)| bls_key(usize::from(*index)));
        let down = disk.blocks.iter().rev().map(|block| block.block.header.clone());
        let rotation = (!disk.without_buckets).then(|| Rotation::from_headers(down));
        let height = Height(disk.blocks.len() as u64);
        let genesis_header = genesis.header(Tree::default().apply(&genesis_changes(&genesis)));
        let header = |height| disk.at(height).map_or_else(|| genesis_header.clone(), |block| block.block.header.clone());
        let block = |height: Height| &disk.blocks[height.0 as usize - 1];
        let ordering = |height| (block(height).block.ordering.clone(), block(height).resume.clone());
        let restart = RestartPoint::new(ChainBase::genesis(&genesis), height, Height(certified), resume, header, ordering);
        let RestartPoint { head, epoch, ordering, gas_in_second, hashes, uncertified } = restart;
        let attested = AttestedSenders::new(&ordering.epoch.committee(&genesis, &state.latest()));
        let certificate_keys: CertificateKeyFactory = Arc::new(move |committee| {
            let is_own = |member: &ValidatorInfo, own: &BlsSecretKey| member.bls_key[..] == own.public().to_bytes()[..];
            let own = own.as_ref().and_then(|own| {
                let (index, _) = committee.members().find(|(_, member)| is_own(member, own))?;
                Some((index, own.clone()))
            });
            let keys = CertificateKeys::bls(committee, own);
            let committee = Arc::new(SharedSignatures { signatures: keys.committee, committee: committee.hash() });
            CertificateKeys { committee, ..keys }
        });
        let highest = disk.known.highest();
        let version = disk.max_version.map_or(highest, |max| highest.min(max));
        let pipeline = Pipeline::new(Setup {
            genesis: genesis.clone(),
            known: disk.known,
            keys: NodeKeys {
                certificates: certificate_keys,
                notices: validator.as_ref().map(|(index, _)| NoticeAuthor { version, ..notice_author(usize::from(*index)) }),
                engine: validator.map(|(_, factory)| factory),
            },
            evidence: disk.evidence.clone(),
            may_vote: !disk.compiles,
            never_signed: disk.never_signed,
            lost_blocks: disk.lost_blocks,
            records: disk.records.iter().map(|(ticket, record)| (*ticket, record.clone())).collect(),
            state: state.clone(),
            head: newest,
            head_hash: header_hash(&head),
            base_fee: 1_000,
            ordering,
            certificate,
            certified: Height(certified),
            uncertified,
            pool: PoolConfig::from_genesis(&genesis),
            recent_states: RECENT_STATES,
            rotation,
            extension: None,
            now,
        });
        let start = ExecutionStart { state: state.clone(), tree, head, epoch, known: disk.known, gas_in_second, hashes };
        Self {
            key: [number; 32],
            pipeline,
            state,
            stage: ExecutionStage::new(genesis.clone(), vm_of(&genesis), start),
            script: Script::default(),
            messages: Arc::default(),
            certified_commit: Arc::default(),
            disk,
            sent: Vec::new(),
            requests: Vec::new(),
            executed_plans: 0,
            pooled: BTreeMap::new(),
            attested,
            checked_in_blocks: 0,
            penalties: Vec::new(),
            seats: Vec::new(),
            halted: None,
            warnings: Vec::new(),
            traces: Vec::new(),
            slow_disk: false,
            waiting_appends: VecDeque::new(),
            slow_processor: false,
            waiting_plans: VecDeque::new(),
            now,
        }
    }

    pub fn submit(&mut self, transaction: VerifiedTransaction) {
        self.handle(Input::Submit { transaction, from: None, reply: None });
    }

    pub fn handle(&mut self, input: Input) {
        self.pipeline.handle(self.now, input);
        self.drain();
    }

    /// Passes a peer's certificate to the node, verified as in the binary.
    pub fn learn(&mut self, from: NodeKey, certificate: Certificate) {
        let certificate =
            self.pipeline.certificate_verifier().verify(certificate).expect("nodes send certificates that verify");
        self.handle(Input::Certificate { from, certificate });
    }

    fn drain(&mut self) {
        while let Some(output) = self.pipeline.poll() {
            match output {
                Output::Execute(plan) => {
                    self.waiting_plans.push_back(plan);
                    if !self.slow_processor {
                        self.execute_waiting();
                    }
                }
                Output::Append(block) => {
                    self.waiting_appends.push_back(block);
                    if !self.slow_disk {
                        self.finish_appends();
                    }
                }
                Output::AppendCertificate(certificate) => {
                    let height = certificate.height;
                    self.disk.certificates.insert(height, certificate);
                    self.pipeline.handle(self.now, Input::CertificateAppended(height));
                }
                Output::Send { to, message } => self.sent.extend(to.into_iter().map(|to| (to, message.clone()))),
                Output::Request { to, request } => self.requests.push((to, request)),
                Output::Penalise { peer, fault } => self.penalties.push((peer, fault.0)),
                Output::Persist(ticket, record) => {
                    self.disk.never_signed = false;
                    self.disk.records.insert(ticket, record);
                    self.pipeline.handle(self.now, Input::Durable(vec![ticket]));
                }
                Output::AppendProgress(resume) => self.disk.progress = Some(resume),
                Output::StoreEvidence(evidence) => self.disk.evidence.push(*evidence),
                Output::Trace(TraceEvent::Note { name, .. }) => self.traces.push(name),
                Output::Warn(warning) => self.warnings.push(warning),
                Output::ReleaseBelow(ticket) => self.disk.records = self.disk.records.split_off(&ticket),
                Output::ReadSafetyLog => {
                    let records = self.disk.records.iter().map(|(ticket, record)| (*ticket, record.clone())).collect();
                    self.pipeline.handle(self.now, Input::SafetyLog(records));
                }
                Output::Pending { transaction, .. } => _ = self.pooled.insert(transaction.hash(), transaction),
                Output::SeatsChanged(seats) => self.seats = seats.into_iter().map(|seat| seat.network_key).collect(),
                Output::Halt { halted, .. } => self.halted = Some(halted),
                _ => {}
            }
        }
    }

    fn execute_waiting(&mut self) {
        while let Some(plan) = self.waiting_plans.pop_front() {
            self.executed_plans += 1;
            let (pooled, attested, checked) = (&self.pooled, &self.attested, &mut self.checked_in_blocks);
            let mut known = |hash: &B256| {
                let attested = || attested.sender(hash).map(Known::Attested);
                let known = pooled.get(hash).cloned().map(Known::Verified).or_else(attested);
                *checked += usize::from(known.is_none());
                known
            };
            let executed = self.stage.execute(plan.block, |ordered, chain_id| {
                ordered.iter().map(|ordered| verify_ordered_cached(&ordered.raw, chain_id, &mut known)).collect()
            });
            self.pipeline.handle(self.now, Input::Executed(Box::new(executed)));
        }
    }

    pub fn finish_plans(&mut self) {
        self.execute_waiting();
        self.drain();
    }

    pub fn finish_appends(&mut self) {
        while let Some(block) = self.waiting_appends.pop_front() {
            let height = block.block.height();
            self.disk.blocks.push(block);
            self.pipeline.handle(self.now, Input::Appended(height));
        }
        self.drain();
    }

    /// Advances the clock and handles what is due.
    pub fn wait(&mut self, ms: u64) {
        self.now.0 += ms;
        self.handle(Input::Deadline);
    }

    /// Response of this node to a follower.
    pub fn answer(&self, request: Request) -> Response {
        serve_blocks(request, &self.disk)
    }

    pub fn hashes(&self) -> Vec<B256> {
        self.disk.blocks.iter().map(|committed| committed.block.hash()).collect()
    }

    pub fn connect(&mut self, other: &Self, validator: Option<u16>) {
        self.handle(Input::PeerUp { peer: other.key, validator: validator.map(ValidatorIndex) });
    }
}

/// Exchanges all messages between two nodes until both are idle.
pub fn exchange(a: &mut Node, b: &mut Node) {
    for _ in 0..1_000 {
        if a.sent.is_empty() && b.sent.is_empty() && a.requests.is_empty() && b.requests.is_empty() {
            return;
        }
        carry(a, b);
        carry(b, a);
    }
    panic!("the two never become quiet");
}

fn carry(from: &mut Node, to: &mut Node) {
    for (_, message) in std::mem::take(&mut from.sent) {
        match message {
            PeerMessage::Certificate(certificate) => to.learn(from.key, certificate),
            PeerMessage::Transactions(raw) => {
                for raw in raw {
                    let transaction = VerifiedTransaction::verify(Transaction::decode(raw).unwrap(), CHAIN).unwrap();
                    to.handle(Input::Submit { transaction, from: Some(from.key), reply: None });
                }
            }
            PeerMessage::Engine(_)
            | PeerMessage::EpochEngine(..)
            | PeerMessage::Epoch { .. }
            | PeerMessage::CertificateShare(_)
            | PeerMessage::Notice(_)
            | PeerMessage::Attestations(_) => {}
        }
    }
    for (_, request) in std::mem::take(&mut from.requests) {
        let response = Some(to.answer(request));
        let key = to.key;
        from.handle(Input::Response { from: key, response });
    }
}

/// Virtual machine for one thread. A default one reserves eleven terabytes of addresses, too many for a dozen nodes in a process.
pub fn vm() -> Vm {
    vm_of(&genesis(1))
}

fn vm_of(genesis: &Genesis) -> Vm {
    let staking = genesis.staking.clone().map(Arc::new);
    Vm::new(&VmConfig { executors: 1, callers: 1, staking, ..VmConfig::default() }, Arc::new(NoCache)).unwrap()
}
