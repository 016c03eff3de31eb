//! A whole committee on a virtual clock: engines, disks and a network that may delay, reorder, lose and partition.
//! Nothing sleeps, and a seed determines the run.
//!
//! Always checked: no honest validator shows two blocks for one round, and none sends a block before it is on its disk.
//! [`Cluster::assert_agreement`] compares everything that was delivered, checkpoints included.

use crate::crypto::{BadShares, FakeCoin, FakeKeys, FakeSignatures, committee};
use corniche_engine::{
    Batch, Committee, Engine, Input, Offence, Ordered, Output, Recipients, Resume, Ticket, TraceEvent, Verifier,
};
use corniche_mahi_mahi::{
    Coin, Config, MahiMahi, MahiVerifier, Setup, Signatures, Signer,
    message::{Context, Message, Round, SignedBlock},
};
pub use corniche_testkit::Random;
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex, wire};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Behaviour of a validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Honest,
    /// Signs a second sibling of every block and shows the two to different validators.
    Equivocator,
    /// Its coin shares are noise.
    BadShares,
    /// Controlled by the scenario; its messages are not checked.
    Byzantine,
}

/// The network between any two validators.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub min_ms: u64,
    pub max_ms: u64,
    /// Lost messages per thousand.
    pub loss: u64,
}

pub struct Node {
    pub role: Role,
    pub engine: Option<MahiMahi>,
    /// Durable records.
    pub disk: BTreeMap<Ticket, Bytes>,
    /// It never wrote a record. Durable, and false after the disk was lost.
    pub unsigned: bool,
    unsynced: BTreeMap<Ticket, Bytes>,
    /// Incremented at every start; events of earlier incarnations are dropped.
    incarnation: u64,
    pub log: Vec<Ordered>,
    /// Time of the first delivery of each commit.
    pub delivered_at: Vec<u64>,
    pub transactions: VecDeque<Bytes>,
    wants: bool,
    pub accused: Vec<(ValidatorIndex, Offence)>,
    pub requeued: usize,
    pub traces: Vec<TraceEvent>,
    /// Number of own blocks sent, and of other messages sent.
    pub sent_blocks: usize,
    pub sent_others: usize,
    pub persisted: usize,
}

enum Event {
    Arrives { from: usize, to: usize, incarnation: u64, bytes: Bytes },
    Synced { node: usize, incarnation: u64, ticket: Ticket },
}

/// The keys of a committee and its cryptography.
pub struct Keys {
    pub committee: Committee,
    pub signers: Vec<Arc<dyn Signer>>,
    pub signatures: Arc<dyn Signatures>,
    pub coin: Arc<dyn Coin>,
}

pub struct Cluster {
    pub config: Config,
    pub keys: Keys,
    pub nodes: Vec<Node>,
    pub now: u64,
    pub link: Link,
    pub disk_ms: u64,
    pub random: Random,
    /// Messages between different groups are lost.
    pub groups: Vec<u8>,
    /// How far each validator's clock is ahead of the time, ms. An incarnation's own time never goes back.
    pub ahead_ms: Vec<i64>,
    /// Messages of these validators are lost.
    pub muted: BTreeSet<usize>,
    /// Lost blocks per thousand, among blocks pushed by their authors.
    pub push_loss: u64,
    /// Pushed blocks of rounds above this one are lost.
    pub lost_above: Option<Round>,
    /// Every own block that was sent.
    pub archive: BTreeMap<(Round, ValidatorIndex), SignedBlock>,
    pub sent_bytes: usize,
    /// Nonce of each validator's last greeting.
    pub last_nonce: Vec<u64>,
    events: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    verifier: MahiVerifier,
    context: Context,
    /// The first block that each honest validator sent per round; a second one fails the test.
    shown: BTreeMap<(ValidatorIndex, Round), B256>,
    /// Number of peers' messages that the verifier rejected.
    pub faults: usize,
    /// Stops this node right after it asked to persist this many records, before they are durable.
    pub crash_at_persist: Option<(usize, usize)>,
}

impl Keys {
    pub fn fake(roles: &[Role]) -> Self {
        let signer = |(position, role): (usize, &Role)| -> Arc<dyn Signer> {
            let index = ValidatorIndex(u16::try_from(position).unwrap());
            match role {
                Role::BadShares => Arc::new(BadShares(index)),
                _ => Arc::new(FakeKeys(index)),
            }
        };
        let signers = roles.iter().enumerate().map(signer).collect();
        let (signatures, coin) = (Arc::new(FakeSignatures), Arc::new(FakeCoin::default()));
        Self { committee: committee(roles.len()), signers, signatures, coin }
    }
}

impl Cluster {
    pub fn honest(size: usize, config: Config, seed: u64) -> Self {
        Self::new(&vec![Role::Honest; size], config, seed)
    }

    pub fn new(roles: &[Role], config: Config, seed: u64) -> Self {
        Self::with_keys(roles, Keys::fake(roles), config, seed)
    }

    pub fn with_keys(roles: &[Role], keys: Keys, config: Config, seed: u64) -> Self {
        let verifier = MahiVerifier::new(config.clone(), keys.committee.clone(), keys.signatures.clone());
        let node = |role: &Role| Node {
            role: *role,
            engine: None,
            disk: BTreeMap::new(),
            unsigned: true,
            unsynced: BTreeMap::new(),
            incarnation: 0,
            log: Vec::new(),
            delivered_at: Vec::new(),
            transactions: VecDeque::new(),
            wants: false,
            accused: Vec::new(),
            requeued: 0,
            traces: Vec::new(),
            sent_blocks: 0,
            sent_others: 0,
            persisted: 0,
        };
        let mut cluster = Self {
            context: Context::new(&keys.committee),
            config,
            nodes: roles.iter().map(node).collect(),
            now: 1_000,
            link: Link { min_ms: 10, max_ms: 10, loss: 0 },
            disk_ms: 0,
            random: Random::new(seed),
            groups: vec![0; roles.len()],
            ahead_ms: vec![0; roles.len()],
            muted: BTreeSet::new(),
            push_loss: 0,
            lost_above: None,
            archive: BTreeMap::new(),
            sent_bytes: 0,
            last_nonce: vec![0; roles.len()],
            events: BTreeMap::new(),
            sequence: 0,
            verifier,
            keys,
            shown: BTreeMap::new(),
            faults: 0,
            crash_at_persist: None,
        };
        (0..roles.len()).for_each(|node| cluster.start(node, Resume::default()));
        cluster
    }

    /// (Re)starts a validator from its disk, at `resume`. It must deliver the commits after that point again.
    pub fn start(&mut self, node: usize, resume: Resume) {
        let records = self.nodes[node].disk.clone().into_iter().collect();
        let engine = MahiMahi::new(Setup {
            config: self.config.clone(),
            committee: self.keys.committee.clone(),
            signer: Some(self.keys.signers[node].clone()),
            signatures: self.keys.signatures.clone(),
            coin: self.keys.coin.clone(),
            seed: self.random.draw(),
            records,
            unsigned: self.nodes[node].unsigned,
            resume,
            now: self.clock(node),
        });
        let state = &mut self.nodes[node];
        (state.engine, state.wants, state.incarnation) = (Some(engine), false, state.incarnation + 1);
        self.drain(node);
        self.connect(node);
    }

    /// Notifies both ends of each connection.
    pub fn connect(&mut self, node: usize) {
        for peer in 0..self.nodes.len() {
            if peer != node && self.nodes[peer].engine.is_some() {
                self.input(peer, Input::PeerUp(index(node)));
                self.input(node, Input::PeerUp(index(peer)));
            }
        }
    }

    pub fn connect_all(&mut self) {
        (0..self.nodes.len())
            .filter(|node| self.nodes[*node].engine.is_some())
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|node| self.connect(node));
    }

    /// Powers a validator off; unsynced records are lost.
    pub fn crash(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        state.engine = None;
        state.incarnation += 1;
        state.unsynced.clear();
        for peer in 0..self.nodes.len() {
            self.input(peer, Input::PeerDown(index(node)));
        }
    }

    /// Resume point of a validator after its `commits`-th commit.
    pub fn resume_after(&self, node: usize, commits: usize) -> Resume {
        commits.checked_sub(1).map_or_else(Resume::default, |last| {
            let ordered = &self.nodes[node].log[last];
            Resume { index: ordered.index, checkpoint: ordered.checkpoint.clone() }
        })
    }

    pub fn engine(&self, node: usize) -> &MahiMahi {
        self.nodes[node].engine.as_ref().unwrap()
    }

    /// Restarts a validator with its state after `commits` commits. The log is kept for comparison.
    pub fn restart(&mut self, node: usize, commits: usize) {
        let resume = self.resume_after(node, commits);
        self.start(node, resume);
    }

    /// Submits a user's transaction to a validator.
    pub fn submit(&mut self, node: usize, transaction: &str) {
        self.nodes[node].transactions.push_back(Bytes::copy_from_slice(transaction.as_bytes()));
        self.answer_batch_request(node);
    }

    fn answer_batch_request(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        if !state.wants || state.transactions.is_empty() || state.engine.is_none() {
            return;
        }
        state.wants = false;
        let transactions: Vec<_> = state.transactions.drain(..state.transactions.len().min(50)).collect();
        let bytes = transactions.join(&b' ').into();
        self.input(node, Input::Batch(Batch { bytes }));
    }

    /// Time on a validator's clock.
    fn clock(&self, node: usize) -> TimestampMs {
        TimestampMs(self.now.saturating_add_signed(self.ahead_ms[node]))
    }

    pub fn input(&mut self, node: usize, input: Input) {
        let now = self.clock(node);
        if let Some(engine) = &mut self.nodes[node].engine {
            engine.handle(now, input);
            self.drain(node);
        }
    }

    fn drain(&mut self, node: usize) {
        while let Some(output) = self.nodes[node].engine.as_mut().and_then(Engine::poll) {
            match output {
                Output::WantBatch { .. } => self.nodes[node].wants = true,
                Output::Send { to, message } => self.send(node, to, message),
                Output::Persist(ticket, record) => {
                    if !self.persist(node, ticket, record) {
                        return;
                    }
                }
                Output::ReleaseBelow(ticket) => self.nodes[node].disk = self.nodes[node].disk.split_off(&ticket),
                Output::Deliver(ordered) => self.deliver(node, ordered),
                Output::Requeue(batch) => {
                    self.nodes[node].requeued += 1;
                    self.nodes[node].transactions.push_front(batch.bytes);
                }
                Output::Accuse { validator, offence, evidence } => {
                    self.check_evidence(validator, offence, &evidence);
                    self.nodes[node].accused.push((validator, offence));
                }
                Output::Available { .. } => {}
                Output::Trace(event) => self.nodes[node].traces.push(event),
            }
        }
        self.answer_batch_request(node);
    }

    /// Returns false if the power fails here.
    fn persist(&mut self, node: usize, ticket: Ticket, record: Bytes) -> bool {
        let state = &mut self.nodes[node];
        assert!(!state.disk.contains_key(&ticket), "{ticket:?} was used before");
        state.unsigned = false;
        state.unsynced.insert(ticket, record);
        state.persisted += 1;
        let event = Event::Synced { node, incarnation: state.incarnation, ticket };
        if self.crash_at_persist == Some((node, state.persisted)) {
            self.crash_at_persist = None;
            self.crash(node);
            return false;
        }
        self.schedule(self.disk_ms, event);
        true
    }

    fn deliver(&mut self, node: usize, ordered: Ordered) {
        let log = &mut self.nodes[node].log;
        let position = usize::try_from(ordered.index.0).unwrap();
        assert!(position <= log.len() + 1 || log.is_empty(), "commit {position} after {}", log.len());
        match log.get(position - 1) {
            Some(before) => assert_eq!(*before, ordered, "delivered differently after a restart"),
            None => {
                log.push(ordered);
                self.nodes[node].delivered_at.push(self.now);
            }
        }
    }

    fn check_evidence(&self, validator: ValidatorIndex, offence: Offence, evidence: &[Bytes]) {
        let blocks: Vec<SignedBlock> = evidence.iter().map(|bytes| wire::decode(bytes).unwrap()).collect();
        assert!(blocks.iter().all(|block| block.content.author == validator), "evidence names its author");
        if offence == Offence::Equivocation {
            assert_eq!(blocks[0].content.round, blocks[1].content.round);
            assert_ne!(blocks[0].content, blocks[1].content);
        }
        assert_ne!(self.nodes[validator.as_usize()].role, Role::Honest, "{validator} is accused and honest");
    }

    fn send(&mut self, from: usize, to: Recipients, message: Bytes) {
        let targets: Vec<usize> = match to {
            Recipients::All => (0..self.nodes.len()).filter(|peer| *peer != from).collect(),
            Recipients::One(peer) => vec![peer.as_usize()],
        };
        assert!(!targets.contains(&from), "sent to itself");
        let decoded: Message = wire::decode(&message).unwrap();
        let own_block = match decoded {
            Message::Block(block) if block.content.author == index(from) => Some(block),
            Message::Hello(hello) => {
                self.last_nonce[from] = hello.nonce;
                None
            }
            Message::Coins(help) => {
                self.check_shares(from, &help.shares);
                None
            }
            _ => None,
        };
        self.sent_bytes += message.len() * targets.len();
        let targets: Vec<usize> = match &own_block {
            Some(block) if self.lost_above.is_some_and(|round| block.content.round > round) => Vec::new(),
            Some(_) if self.push_loss > 0 => {
                targets.into_iter().filter(|_| self.random.below(1_000) >= self.push_loss).collect()
            }
            _ => targets,
        };
        if own_block.is_some() {
            self.nodes[from].sent_blocks += targets.len()
        } else {
            self.nodes[from].sent_others += targets.len()
        }
        match own_block {
            Some(block) if self.nodes[from].role == Role::Equivocator => self.equivocate(from, &targets, &block),
            Some(block) => {
                self.archive.insert((block.content.round, block.content.author), block.clone());
                self.check_proposal(from, &block);
                targets.iter().for_each(|target| self.transmit(from, *target, message.clone()));
            }
            None => targets.iter().for_each(|target| self.transmit(from, *target, message.clone())),
        }
    }

    /// C5: a share is sent only after the own block of that round, or of a later one.
    fn check_shares(&self, from: usize, shares: &[(Round, corniche_mahi_mahi::CoinShare)]) {
        let tip = self.archive.keys().rev().find(|(_, author)| *author == index(from)).map(|(round, _)| *round);
        let early = shares.iter().find(|(round, _)| Some(*round) > tip);
        assert!(early.is_none(), "validator {from}, at {tip:?}, gives its share of {early:?} early");
    }

    /// Checks I1 and W1.
    fn check_proposal(&mut self, from: usize, block: &SignedBlock) {
        if self.nodes[from].role == Role::Byzantine {
            return;
        }
        let digest = self.context.digest(&block.content);
        let first = *self.shown.entry((index(from), block.content.round)).or_insert(digest);
        assert_eq!(first, digest, "validator {from} signed two blocks for round {}", block.content.round);
        let record: Bytes = wire::encode(block).into();
        assert!(self.nodes[from].disk.values().rev().any(|durable| *durable == record), "sent before it was durable");
    }

    fn equivocate(&mut self, from: usize, targets: &[usize], block: &SignedBlock) {
        let mut sibling = block.clone();
        sibling.content.batch = [&b"sibling "[..], &sibling.content.batch].concat().into();
        sibling.content.parents[1..].reverse();
        sibling.signature = self.keys.signers[from].sign(&self.context.digest(&sibling.content));
        let both = [block, &sibling].map(|block| Message::Block(block.clone()).encode());
        for target in targets {
            match self.random.below(5) {
                0 => {}
                1 => both.iter().for_each(|message| self.transmit(from, *target, message.clone())),
                pick => self.transmit(from, *target, both[usize::from(pick > 2)].clone()),
            }
        }
    }

    pub fn transmit(&mut self, from: usize, to: usize, bytes: Bytes) {
        let lost =
            self.random.below(1_000) < self.link.loss || self.groups[from] != self.groups[to] || self.muted.contains(&from);
        let delay = self.link.min_ms + self.random.below(self.link.max_ms - self.link.min_ms + 1);
        if !lost {
            let incarnation = self.nodes[to].incarnation;
            self.schedule(delay, Event::Arrives { from, to, incarnation, bytes });
        }
    }

    fn schedule(&mut self, delay: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + delay, self.sequence), event);
    }

    /// Runs until this time.
    pub fn run_until(&mut self, time: u64) {
        while self.step(time) {}
        self.now = time;
    }

    pub fn run_for(&mut self, duration_ms: u64) {
        self.run_until(self.now + duration_ms);
    }

    /// Runs while `unfinished`, at most `limit_ms`. Returns false on timeout.
    pub fn run_while(&mut self, limit_ms: u64, mut unfinished: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + limit_ms;
        while unfinished(self) {
            if !self.step(end) {
                return false;
            }
        }
        true
    }

    fn step(&mut self, end: u64) -> bool {
        let due = |(node, state): (usize, &Node)| {
            let at = state.engine.as_ref()?.deadline()?.0;
            Some((at.saturating_add_signed(self.ahead_ms[node].saturating_neg()), node))
        };
        let deadlines = self.nodes.iter().enumerate().filter_map(due);
        let deadline = deadlines.min().filter(|(at, _)| *at <= end);
        let event = self.events.first_key_value().map(|((at, _), _)| *at).filter(|at| *at <= end);
        match (event, deadline) {
            (None, None) => return false,
            (Some(at), other) if other.is_none_or(|(deadline, _)| at <= deadline) => {
                let (_, event) = self.events.pop_first().unwrap();
                self.now = self.now.max(at);
                self.process(event);
            }
            (_, Some((at, node))) => {
                self.now = self.now.max(at);
                self.input(node, Input::Deadline);
            }
            (Some(_), None) => unreachable!("an event without a deadline before it happens first"),
        }
        true
    }

    fn process(&mut self, event: Event) {
        match event {
            Event::Arrives { from, to, incarnation, bytes } if self.nodes[to].incarnation == incarnation => {
                self.receive(from, to, &bytes)
            }
            Event::Synced { node, incarnation, ticket } if self.nodes[node].incarnation == incarnation => {
                let state = &mut self.nodes[node];
                if let Some(record) = state.unsynced.remove(&ticket) {
                    state.disk.insert(ticket, record);
                }
                self.input(node, Input::Durable(ticket));
            }
            _ => {}
        }
    }

    pub fn receive(&mut self, from: usize, to: usize, bytes: &Bytes) {
        match self.verifier.verify(index(from), bytes) {
            Ok(message) => self.input(to, Input::Message { from: index(from), message }),
            Err(fault) => {
                self.faults += 1;
                assert!(self.nodes[from].role != Role::Honest, "an honest message was refused: {fault}");
            }
        }
    }

    pub fn honest_nodes(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.nodes.iter().enumerate().filter(|(_, node)| node.role == Role::Honest)
    }

    /// Every honest log is a prefix of the longest, in every field, and no transaction is delivered twice.
    pub fn assert_agreement(&self) {
        let (_, longest) = self.honest_nodes().max_by_key(|(_, node)| node.log.len()).unwrap();
        for (position, node) in self.honest_nodes() {
            for (ours, theirs) in node.log.iter().zip(&longest.log) {
                assert_eq!(ours, theirs, "validator {position} diverges at commit {}", ours.index);
            }
        }
        let mut time = TimestampMs(0);
        for (position, ordered) in longest.log.iter().enumerate() {
            assert_eq!(ordered.index.0, position as u64 + 1);
            assert!(ordered.time >= time, "time goes back at commit {}", ordered.index);
            time = ordered.time;
        }
    }

    /// Transactions that a validator delivered, in order.
    pub fn delivered(&self, node: usize) -> Vec<String> {
        let batches = self.nodes[node].log.iter().flat_map(|ordered| &ordered.batches);
        let text = batches.map(|(_, batch)| String::from_utf8(batch.bytes.to_vec()).unwrap());
        text.flat_map(|text| text.split(' ').map(str::to_owned).collect::<Vec<_>>())
            .filter(|word| !word.is_empty() && word != "sibling")
            .collect()
    }

    /// Each of `transactions` was delivered exactly once at every honest validator.
    pub fn assert_delivered_once(&self, transactions: &BTreeSet<String>) {
        for (position, _) in self.honest_nodes() {
            let delivered = self.delivered(position);
            let unique: BTreeSet<_> = delivered.iter().cloned().collect();
            let missing: Vec<_> = transactions.difference(&unique).collect();
            assert!(missing.is_empty(), "validator {position} lacks {missing:?}");
            assert_eq!(delivered.len(), unique.len(), "validator {position} delivered something twice");
        }
    }

    pub fn total_sent(&self) -> usize {
        self.nodes.iter().map(|node| node.sent_blocks + node.sent_others).sum()
    }
}

pub fn index(node: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(node).unwrap())
}

/// Fast pacing, so that tests cover many rounds.
pub fn quick() -> Config {
    Config { min_round_ms: 0, parent_grace_ms: 2, heartbeat_ms: 1_000, gc_depth: 30, retain_rounds: 30, ..Config::default() }
}
