//! Mahi-Mahi as the subject of scenarios, on a network that may delay, reorder, lose and partition.
//!
//! Always checked: no honest validator shows two blocks for one round, none sends a block before it is on its disk, and none is
//! accused. [`Cluster::assert_agreement`] compares everything that was delivered, checkpoints included.

use crate::crypto::{BadShares, FakeCoin, FakeKeys, FakeSignatures, committee};
use corniche_engine::{Committee, Input, Offence, Resume, Verifier};
use corniche_mahi_mahi::{
    Coin, Config, MahiMahi, MahiVerifier, Setup, Signatures, Signer,
    message::{CoinHelp, Context, Message, Round, SignedBlock},
};
pub use corniche_testkit::Random;
use corniche_testkit::{
    Adversary, Delivery, EngineStart, Links, Micros, Observed, Packet, Records, ScenarioCluster, Sending, Subject, View, texts,
};
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex, Votes, wire};
use std::{
    cell::{RefCell, RefMut},
    collections::{BTreeMap, BTreeSet},
    ops::{Deref, DerefMut},
    rc::Rc,
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

/// The network between any two validators. Messages overtake each other.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub min_ms: u64,
    pub max_ms: u64,
    /// Lost messages per thousand.
    pub loss: u64,
}

/// The keys of a committee and its cryptography.
pub struct Keys {
    pub committee: Committee,
    pub signers: Vec<Arc<dyn Signer>>,
    pub signatures: Arc<dyn Signatures>,
    pub coin: Arc<dyn Coin>,
}

impl Keys {
    pub fn fake(roles: &[Role]) -> Self {
        let signer = |(position, role): (usize, &Role)| -> Arc<dyn Signer> {
            match role {
                Role::BadShares => Arc::new(BadShares(index(position), Votes(1))),
                _ => Arc::new(FakeKeys(index(position), Votes(1))),
            }
        };
        let signers = roles.iter().enumerate().map(signer).collect();
        let (signatures, coin) = (Arc::new(FakeSignatures), Arc::new(FakeCoin::default()));
        Self { committee: committee(roles.len()), signers, signatures, coin }
    }
}

/// The committee, its network, and everything that was sent.
pub struct Network {
    /// Applies to engines that start from now on.
    pub config: Config,
    keys: Keys,
    context: Context,
    pub roles: Vec<Role>,
    pub link: Link,
    random: Random,
    /// Messages between different groups are lost; connections stay up.
    pub groups: Vec<u8>,
    /// Messages of these validators are lost.
    pub muted: BTreeSet<usize>,
    /// Lost blocks per thousand, among blocks pushed by their authors.
    pub push_loss: u64,
    /// Pushed blocks of rounds above this one are lost.
    pub lost_above: Option<Round>,
    /// Every own block that was sent.
    pub archive: BTreeMap<(Round, ValidatorIndex), SignedBlock>,
    pub sent_bytes: usize,
    /// Number of own blocks that each validator sent, and of its other messages.
    pub sent_blocks: Vec<usize>,
    pub sent_others: Vec<usize>,
    /// Nonce of each validator's last greeting.
    pub last_nonce: Vec<u64>,
    /// The first block that each honest validator sent per round; a second one fails the test.
    shown: BTreeMap<(ValidatorIndex, Round), B256>,
}

impl Network {
    /// C5: a share is sent only after the own block of that round, or of a later one.
    fn check_shares(&self, from: usize, help: &CoinHelp) {
        let tip = self.archive.keys().rev().find(|(_, author)| *author == index(from)).map(|(round, _)| *round);
        let early = help.shares().map(|(round, _)| round).find(|round| Some(*round) > tip);
        assert!(early.is_none(), "validator {from}, at {tip:?}, gives its share of {early:?} early");
    }

    /// Checks I1 and W1.
    fn check_proposal(&mut self, from: usize, records: &Records, block: &SignedBlock) {
        if self.roles[from] == Role::Byzantine {
            return;
        }
        let digest = self.context.digest(&block.content);
        let first = *self.shown.entry((index(from), block.content.round)).or_insert(digest);
        assert_eq!(first, digest, "validator {from} signed two blocks for round {}", block.content.round);
        let record: Bytes = wire::encode(block).into();
        assert!(records.values().rev().any(|durable| *durable == record), "sent before it was durable");
    }

    /// Shows siblings to the others: one of them, the other, both, or none.
    fn equivocate(&mut self, from: usize, to: &[usize], block: &SignedBlock) -> Vec<(Vec<usize>, Bytes)> {
        let mut sibling = block.clone();
        sibling.content.batch = [&b"sibling "[..], &sibling.content.batch].concat().into();
        sibling.content.parents[1..].reverse();
        sibling.signature = self.context.sign(&sibling.content, &*self.keys.signers[from]).expect("test keys sign all");
        let both = [block, &sibling].map(|block| Message::Block(block.clone()).encode());
        let mut shown = vec![Vec::new(), Vec::new()];
        for to in to {
            let pick = self.random.below(5);
            shown[0].extend([1, 2].contains(&pick).then_some(*to));
            shown[1].extend([1, 3, 4].contains(&pick).then_some(*to));
        }
        shown.into_iter().zip(both).collect()
    }

    fn is_lost(&mut self, from: usize, to: usize) -> bool {
        self.random.below(1_000) < self.link.loss || self.groups[from] != self.groups[to] || self.muted.contains(&from)
    }

    /// Recipients that the push of a block is not lost for.
    fn pushed_to(&mut self, to: &[usize], block: &SignedBlock) -> Vec<usize> {
        match self.lost_above {
            Some(round) if block.content.round > round => Vec::new(),
            _ if self.push_loss == 0 => to.to_vec(),
            _ => to.iter().copied().filter(|_| self.random.below(1_000) >= self.push_loss).collect(),
        }
    }
}

impl Subject for Network {
    type Engine = MahiMahi;
    type Message = Message;
    const RESUBMITS: bool = true;
    const RECORDS_SENT: bool = false;

    fn committee(&self) -> &Committee {
        &self.keys.committee
    }

    fn start(&mut self, me: usize, start: EngineStart) -> MahiMahi {
        let EngineStart { seed, records, unsigned, resume, now } = start;
        let (config, committee) = (self.config.clone(), self.keys.committee.clone());
        let (signatures, coin) = (self.keys.signatures.clone(), self.keys.coin.clone());
        let signer = Some(self.keys.signers[me].clone());
        MahiMahi::new(Setup { config, committee, signer, signatures, coin, seed, records, unsigned, resume, now })
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        let signatures = self.keys.signatures.clone();
        Arc::new(MahiVerifier::new(self.config.clone(), self.keys.committee.clone(), signatures))
    }

    fn decode(message: &Bytes) -> Message {
        wire::decode(message).unwrap()
    }

    fn on_send(&mut self, sending: &Sending<'_>, message: &Message) -> Vec<(Vec<usize>, Bytes)> {
        let Sending { from, to, message: bytes, records, .. } = *sending;
        assert!(!to.contains(&from), "sent to itself");
        self.sent_bytes += bytes.len() * to.len();
        let mut sent = match message {
            Message::Block(block) if block.content.author == index(from) => {
                let to = self.pushed_to(to, block);
                self.sent_blocks[from] += to.len();
                if self.roles[from] == Role::Equivocator {
                    self.equivocate(from, &to, block)
                } else {
                    self.archive.insert((block.content.round, block.content.author), block.clone());
                    self.check_proposal(from, records, block);
                    vec![(to, bytes.clone())]
                }
            }
            other => {
                match other {
                    Message::Hello(hello) => self.last_nonce[from] = hello.nonce,
                    Message::Coins(help) => self.check_shares(from, help),
                    _ => {}
                }
                self.sent_others[from] += to.len();
                vec![(to.to_vec(), bytes.clone())]
            }
        };
        sent.iter_mut().for_each(|(to, _)| to.retain(|to| !self.is_lost(from, *to)));
        sent
    }

    fn on_accused(&mut self, validator: ValidatorIndex, offence: Offence, evidence: &[Bytes]) {
        let blocks: Vec<SignedBlock> = evidence.iter().map(|bytes| wire::decode(bytes).unwrap()).collect();
        assert!(blocks.iter().all(|block| block.content.author == validator), "evidence names its author");
        if offence == Offence::Equivocation {
            assert_eq!(blocks[0].content.round, blocks[1].content.round);
            assert_ne!(blocks[0].content, blocks[1].content);
        }
        assert_ne!(self.roles[validator.as_usize()], Role::Honest, "{validator} is accused and honest");
    }

    fn on_refused(&mut self, from: usize, fault: &str) {
        assert!(self.roles[from] != Role::Honest, "an honest message was refused: {fault}");
    }
}

/// Delays every message by itself.
struct RandomDelays(Rc<RefCell<Network>>);

impl Adversary<Packet> for RandomDelays {
    fn delivery(&mut self, _: &mut View<'_>, _: usize, _: usize, _: &Packet) -> Delivery {
        let mut network = self.0.borrow_mut();
        let Link { min_ms, max_ms, .. } = network.link;
        Delivery::Delayed(Micros::from_millis(min_ms + network.random.below(max_ms - min_ms + 1)))
    }
}

pub struct Cluster {
    inner: ScenarioCluster<Network>,
    pub random: Random,
}

impl Deref for Cluster {
    type Target = ScenarioCluster<Network>;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.inner
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
        let mut cluster = Self::powered_off(roles, keys, config, seed);
        cluster.simulation.start_all();
        cluster
    }

    pub fn powered_off(roles: &[Role], keys: Keys, config: Config, seed: u64) -> Self {
        let size = roles.len();
        let random = Random::new(seed);
        let network = Network {
            context: Context::new(&keys.committee),
            config,
            keys,
            roles: roles.to_vec(),
            link: Link { min_ms: 10, max_ms: 10, loss: 0 },
            random: random.fork("network"),
            groups: vec![0; size],
            muted: BTreeSet::new(),
            push_loss: 0,
            lost_above: None,
            archive: BTreeMap::new(),
            sent_bytes: 0,
            sent_blocks: vec![0; size],
            sent_others: vec![0; size],
            last_nonce: vec![0; size],
            shown: BTreeMap::new(),
        };
        let mut inner = ScenarioCluster::new(network, Links::uniform(size, Micros::ZERO), seed);
        inner.simulation.set_adversary(Some(Box::new(RandomDelays(inner.subject.clone()))));
        Self { inner, random }
    }

    pub fn network(&self) -> RefMut<'_, Network> {
        self.subject.borrow_mut()
    }

    pub fn signer(&self, node: usize) -> Arc<dyn Signer> {
        self.network().keys.signers[node].clone()
    }

    /// An own block that was sent.
    pub fn block(&self, round: u64, author: usize) -> SignedBlock {
        self.network().archive[&(Round(round), index(author))].clone()
    }

    /// Virtual time, ms.
    pub fn now(&self) -> u64 {
        self.simulation.now().timestamp().0
    }

    /// Number of own blocks that a validator sent.
    pub fn sent_blocks(&self, node: usize) -> usize {
        self.network().sent_blocks[node]
    }

    /// Number of other messages that a validator sent.
    pub fn sent_others(&self, node: usize) -> usize {
        self.network().sent_others[node]
    }

    pub fn all_sent_others(&self) -> usize {
        self.network().sent_others.iter().sum()
    }

    pub fn total_sent(&self) -> usize {
        let blocks: usize = self.network().sent_blocks.iter().sum();
        blocks + self.all_sent_others()
    }

    pub fn submit(&mut self, node: usize, transaction: &str) {
        self.inner.submit(node, transaction);
    }

    pub fn set_disk_ms(&mut self, sync_ms: u64) {
        self.simulation.disks.sync = Micros::from_millis(sync_ms);
    }

    /// Greetings between a validator and all others, as after lost connections.
    pub fn connect(&mut self, node: usize) {
        for peer in (0..self.size()).filter(|peer| *peer != node) {
            if self.simulation.is_up(peer) {
                self.input(peer, Input::PeerUp(index(node)));
                self.input(node, Input::PeerUp(index(peer)));
            }
        }
    }

    pub fn connect_all(&mut self) {
        for node in 0..self.size() {
            if self.simulation.is_up(node) {
                self.connect(node);
            }
        }
    }

    pub fn crash(&mut self, node: usize) {
        self.simulation.crash(node);
    }

    /// Starts a validator that is off from its disk, at `resume`. It must deliver the commits after that point again.
    pub fn start(&mut self, node: usize, resume: Resume) {
        self.restart_at(node, resume);
    }

    /// Restarts a validator with its state after `commits` commits. The log is kept for comparison.
    pub fn restart(&mut self, node: usize, commits: usize) {
        let resume = self.resume_after(node, commits);
        self.start(node, resume);
    }

    /// Runs while `unfinished`, at most `limit_ms`. Returns false on timeout.
    pub fn run_while(&mut self, limit_ms: u64, mut unfinished: impl FnMut(&Self) -> bool) -> bool {
        let end = self.simulation.now() + Micros::from_millis(limit_ms);
        while unfinished(self) {
            if !self.simulation.step_until(end) {
                return !unfinished(self);
            }
        }
        true
    }

    pub fn honest_nodes(&self) -> impl Iterator<Item = (usize, &Observed<Message>)> {
        let honest = move |node: &usize| self.network().roles[*node] == Role::Honest;
        (0..self.size()).filter(honest).map(move |node| (node, self.seen(node)))
    }

    /// Every honest log is a prefix of the longest, in every field, and time never goes back.
    pub fn assert_agreement(&self) {
        self.assert_equal_logs(self.honest_nodes().map(|(node, _)| node));
        let (_, longest) = self.honest_nodes().max_by_key(|(_, seen)| seen.log.len()).unwrap();
        let mut time = TimestampMs(0);
        for (position, (_, ordered)) in longest.log.iter().enumerate() {
            assert_eq!(ordered.index.0, position as u64 + 1);
            assert!(ordered.time >= time, "time goes back at commit {}", ordered.index);
            time = ordered.time;
        }
    }

    /// Transactions that a validator delivered, in order.
    pub fn delivered(&self, node: usize) -> Vec<String> {
        let all = self.seen(node).log.iter().flat_map(|(_, ordered)| texts(ordered));
        all.filter(|word| !word.is_empty() && word != "sibling").collect()
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
}

pub fn index(node: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(node).unwrap())
}

/// Fast pacing, so that tests cover many rounds.
pub fn quick() -> Config {
    Config { min_round_ms: 0, parent_grace_ms: 2, heartbeat_ms: 1_000, gc_depth: 30, retain_rounds: 30, ..Config::default() }
}
