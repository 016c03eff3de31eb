//! Validators on a virtual network: nodes in memory, messages with latency, and faults of both.

use crate::{
    common::{CHAIN, Disk, NODES, Node, USERS, bls_key, genesis as plain_genesis, node_key, transfer, user_number},
    engines::{EngineKind, Secrets, greedy, led},
};
use corniche_admission::{ROTATION_LEAD_MS, Rotation};
use corniche_certify::Share;
use corniche_crypto::{BlsSecretKey, EthereumKey, VerifiedTransaction};
use corniche_engine::{Committee, Verifier};
use corniche_pipeline::{Input, NodeKey, PeerMessage};
use corniche_types::{B256, Bytes, Certificate, Epoch, Genesis, TimestampMs, ValidatorIndex, keccak256};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
};

pub const VALIDATORS: usize = 4;
/// One way, in ms.
const LATENCY: u64 = 2;

/// Message on the wire: (arrival, order of sending, from, to, bytes).
type Sent = (u64, u64, usize, usize, Vec<u8>);

pub struct Cluster {
    pub engine: EngineKind,
    genesis: Genesis,
    secrets: Secrets,
    verifiers: BTreeMap<Epoch, Box<dyn Verifier>>,
    pub nodes: BTreeMap<usize, Node>,
    pub disks: BTreeMap<usize, Disk>,
    pub now: u64,
    wire: BinaryHeap<Reverse<Sent>>,
    pub sent: u64,
    /// Validators that never propose transactions from others or from users.
    pub censors: BTreeSet<usize>,
    /// Validators that propose batches with too much gas, from their next start on.
    pub greedy: BTreeSet<usize>,
    /// Validators that no engine lets propose, from the next start on.
    pub resting: BTreeSet<usize>,
    /// Validators that contradict themselves, from their next start on.
    pub equivocating: BTreeSet<usize>,
    /// Number of transactions that validators forwarded to each other.
    pub forwarded: usize,
    /// Next nonce of the user.
    pub submitted: u64,
    /// Number of transactions of others beside the user's.
    pub others: u64,
    starts: u64,
    /// Validators with bad links, in both directions.
    pub bad: BTreeMap<usize, BadLink>,
    /// Validators whose clocks are slow, by this number of ms.
    pub slow_clocks: BTreeMap<usize, u64>,
    /// Validators of the other partition: the two do not reach each other.
    interval_seconds: BTreeSet<usize>,
    /// True if shares and certificates are lost.
    pub certificates_are_lost: bool,
    /// Faulty validators that order but do not help to certify. They answer no requests, and the engines of
    /// `cut_off` get nothing from them.
    pub uncertifying: BTreeMap<usize, Uncertifying>,
    pub cut_off: BTreeSet<usize>,
    /// Faulty validators that attest wrong senders, or none.
    pub false_attesters: BTreeMap<usize, Attesting>,
    /// Number of messages sent over bad links.
    risked: u64,
    /// A second process with a validator's keys, and that validator.
    pub twin: Option<(usize, usize)>,
    /// A validator that signs two headers of each height.
    pub two_faced: Option<usize>,
    /// Lowest height for which each validator sent a share, since the test forgot them.
    pub first_shares: BTreeMap<usize, u64>,
}

/// Connections stay up, but messages are late or lost; lost requests are never answered.
#[derive(Clone, Copy)]
pub struct BadLink {
    pub delay: u64,
    /// Percentage of lost messages.
    pub loss: u64,
}

/// Ways of not helping to certify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncertifying {
    /// Never sends its shares and certificates.
    Silent,
    /// Signs its shares with another key, as with a wrong configuration.
    Forging,
    /// Sends its certificates to validators that are `cut_off`, but never the blocks.
    Luring,
}

/// Ways of attesting senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attesting {
    Never,
    /// Attests another validator's users as senders.
    Wrongly,
}

/// Part of a validator that can stall while the rest runs.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    Disk,
    Processor,
}

use Uncertifying::{Forging, Luring};

/// Same share, signed by a key outside the committee.
fn signed_by_another(share: &[u8]) -> Bytes {
    let share = Share::decode(share).unwrap();
    let signature = BlsSecretKey::from_seed([99; 32]).sign(&share.header_hash.0).to_bytes();
    Share { signature, ..share }.encode()
}

/// Share of the same validator for another header of this height.
fn of_another_header(committee: &Committee, from: usize, share: &[u8]) -> Bytes {
    let Share { epoch, height, .. } = Share::decode(share).unwrap();
    let header_hash = B256::repeat_byte(7);
    let (hash, model) = (committee.hash(), committee.fault_model());
    let message = Certificate::signed_bytes(committee.chain_id(), epoch, hash, height, header_hash, model);
    Share { epoch, height, header_hash, signature: bls_key(from).sign(&message).to_bytes() }.encode()
}

/// Passes an engine's message to a node, verified as in the binary.
fn verify(node: &mut Node, verifier: &dyn Verifier, from: ValidatorIndex, epoch: Epoch, bytes: &Bytes) {
    let message = verifier
        .verify(from, bytes)
        .unwrap_or_else(|fault| panic!("{epoch:?}: honest validators send valid messages: {fault}"));
    node.handle(Input::Engine { from, epoch, message });
}

pub fn number_of(key: &NodeKey) -> usize {
    (0..NODES).find(|index| node_key(*index) == *key).unwrap()
}

impl Cluster {
    pub fn new(engine: EngineKind, parameters: &[(&str, u64)]) -> Self {
        Self::with_disks(engine, parameters, &Disk::default())
    }

    /// Like `new`, with nonempty disks.
    pub fn with_disks(engine: EngineKind, parameters: &[(&str, u64)], disk: &Disk) -> Self {
        Self::with_genesis(engine, parameters, disk, plain_genesis(VALIDATORS))
    }

    pub fn with_genesis(engine: EngineKind, parameters: &[(&str, u64)], disk: &Disk, genesis: Genesis) -> Self {
        const COIN: u8 = 6;
        Self::with_coin(engine, parameters, disk, genesis, COIN)
    }

    /// Uses this seed for the coin that elects leaders.
    pub fn with_coin(engine: EngineKind, parameters: &[(&str, u64)], disk: &Disk, mut genesis: Genesis, coin: u8) -> Self {
        genesis.block_ms = 50;
        let validators = genesis.validators.len();
        let secrets = Secrets::deal(&mut genesis, engine, parameters, coin);
        let mut cluster = Self {
            engine,
            verifiers: [(Epoch(0), engine.verifier(&genesis, &Committee::from_genesis(&genesis)))].into(),
            genesis,
            secrets,
            nodes: BTreeMap::new(),
            disks: (0..validators).map(|index| (index, disk.clone())).collect(),
            now: 2_000_000,
            wire: BinaryHeap::new(),
            sent: 0,
            censors: BTreeSet::new(),
            greedy: BTreeSet::new(),
            resting: BTreeSet::new(),
            equivocating: BTreeSet::new(),
            forwarded: 0,
            submitted: 0,
            others: 0,
            starts: 0,
            bad: BTreeMap::new(),
            slow_clocks: BTreeMap::new(),
            interval_seconds: BTreeSet::new(),
            certificates_are_lost: false,
            uncertifying: BTreeMap::new(),
            cut_off: BTreeSet::new(),
            false_attesters: BTreeMap::new(),
            risked: 0,
            twin: None,
            two_faced: None,
            first_shares: BTreeMap::new(),
        };
        (0..validators).for_each(|index| cluster.start(index));
        cluster
    }

    /// Starts a validator from its disk and connects it to all running ones.
    pub fn start(&mut self, index: usize) {
        self.start_with(index, &[]);
    }

    /// Like `start`; submits `kept`, the transactions of users from its last run, before it is connected.
    pub fn start_with(&mut self, index: usize, kept: &[VerifiedTransaction]) {
        self.starts += 1;
        let factory = self.engine.factory(&self.genesis, &self.secrets, index, self.starts);
        let factory = if self.greedy.contains(&index) { greedy(factory) } else { factory };
        let leaders = (0..self.validators()).filter(|leader| !self.resting.contains(leader));
        let leaders = leaders.map(|leader| ValidatorIndex(leader as u16)).collect();
        let factory = if self.resting.is_empty() { factory } else { led(factory, index, leaders) };
        let equivocates = self.equivocating.contains(&index);
        let factory = if equivocates { self.engine.equivocating(index, factory) } else { factory };
        let disk = self.disks.remove(&index).unwrap_or_default();
        let genesis = self.genesis.clone();
        let mut node = Node::start(index as u8, &genesis, &genesis, Some((index as u16, factory)), disk, TimestampMs(self.now));
        node.key = node_key(index);
        kept.iter().for_each(|transaction| node.submit(transaction.clone()));
        let first = self.validators();
        let in_genesis = |index: usize| (index < first).then_some(index as u16);
        for (&other_index, other) in &mut self.nodes {
            if self.interval_seconds.contains(&index) == self.interval_seconds.contains(&other_index) {
                other.now = TimestampMs(self.now);
                node.connect(other, in_genesis(other_index));
                other.connect(&node, in_genesis(index));
            }
        }
        self.nodes.insert(index, node);
        self.collect();
    }

    /// Starts a second process with a validator's keys, from a disk of its own. It gets the messages to that validator, too.
    pub fn start_twin(&mut self, index: usize, disk: Disk) -> usize {
        self.starts += 1;
        let number = self.validators();
        let factory = self.engine.factory(&self.genesis, &self.secrets, index, self.starts);
        let genesis = self.genesis.clone();
        let mut node = Node::start(index as u8, &genesis, &genesis, Some((index as u16, factory)), disk, TimestampMs(self.now));
        node.key = node_key(index);
        for (&other_index, other) in self.nodes.iter_mut().filter(|(other, _)| **other != index) {
            other.now = TimestampMs(self.now);
            node.connect(other, Some(other_index as u16));
            other.handle(Input::PeerUp { peer: node.key, validator: Some(ValidatorIndex(index as u16)) });
        }
        self.twin = Some((number, index));
        self.nodes.insert(number, node);
        self.collect();
        number
    }

    /// Starts a full node from its disk, if it has one, that is connected to all validators; its number is [`VALIDATORS`].
    pub fn start_full_node(&mut self) {
        let (index, genesis) = (VALIDATORS, self.genesis.clone());
        let disk = self.disks.remove(&index).unwrap_or_default();
        let mut node = Node::start(index as u8, &genesis, &genesis, None, disk, TimestampMs(self.now));
        node.key = node_key(index);
        for (&validator, other) in &mut self.nodes {
            other.now = TimestampMs(self.now);
            node.connect(other, Some(validator as u16));
            other.connect(&node, None);
        }
        self.nodes.insert(index, node);
        self.collect();
    }

    /// Partitions the network: connections between the two sides end, and messages in flight between them are
    /// lost.
    pub fn part(&mut self, some: &[usize]) {
        self.interval_seconds = some.iter().copied().collect();
        let interval_seconds = &self.interval_seconds;
        self.wire.retain(|Reverse((_, _, from, to, _))| interval_seconds.contains(from) == interval_seconds.contains(to));
        self.across(|node, (_, peer)| node.handle(Input::PeerDown { peer }));
        self.collect();
    }

    /// Reconnects all.
    pub fn heal(&mut self) {
        let first = self.validators();
        self.across(|node, (other, peer)| {
            node.handle(Input::PeerUp { peer, validator: (other < first).then_some(ValidatorIndex(other as u16)) });
        });
        self.interval_seconds.clear();
        self.collect();
    }

    /// Calls `tell` for every node with every node of the other side.
    fn across(&mut self, mut tell: impl FnMut(&mut Node, (usize, NodeKey))) {
        let all: Vec<_> = self.nodes.iter().map(|(index, node)| (*index, node.key)).collect();
        for (index, node) in &mut self.nodes {
            node.now = TimestampMs(self.now);
            let is_other_side = |other: usize| self.interval_seconds.contains(&other) != self.interval_seconds.contains(index);
            all.iter().filter(|(other, _)| is_other_side(*other)).for_each(|other| tell(node, *other));
        }
    }

    /// Stalls a validator's disk or processor from now on.
    pub fn stall(&mut self, index: usize, part: Part) {
        let node = self.nodes.get_mut(&index).unwrap();
        match part {
            Part::Disk => node.slow_disk = true,
            Part::Processor => node.slow_processor = true,
        }
    }

    /// Resumes its disk and processor, which process everything that waited.
    pub fn resume(&mut self, index: usize) {
        let node = self.nodes.get_mut(&index).unwrap();
        node.now = TimestampMs(self.now);
        (node.slow_disk, node.slow_processor) = (false, false);
        node.finish_plans();
        node.finish_appends();
        self.collect();
    }

    /// Kills a validator: its memory and its messages in flight are lost.
    pub fn kill(&mut self, index: usize) {
        let node = self.nodes.remove(&index).unwrap();
        self.disks.insert(index, node.disk.clone());
        self.wire = std::mem::take(&mut self.wire)
            .into_iter()
            .filter(|Reverse((_, _, from, to, _))| *from != index && *to != index)
            .collect();
        for other in self.nodes.values_mut() {
            other.now = TimestampMs(self.now);
            other.handle(Input::PeerDown { peer: node.key });
        }
        self.collect();
    }

    /// Puts all outputs of the nodes on the wire, and answers requests.
    fn collect(&mut self) {
        let indices: Vec<usize> = self.nodes.keys().copied().collect();
        for index in indices {
            loop {
                let node = self.nodes.get_mut(&index).unwrap();
                for (to, message) in std::mem::take(&mut node.sent) {
                    self.sent += 1;
                    let Some(arrival) = self.arrival(index, number_of(&to)) else { continue };
                    let from = self.twin.filter(|(twin, _)| *twin == index).map_or(index, |(_, of)| of);
                    let twin = self.twin.filter(|(_, of)| *of == number_of(&to)).map(|(twin, _)| twin);
                    for to in [number_of(&to)].into_iter().chain(twin) {
                        self.wire.push(Reverse((arrival, self.sent, from, to, message.encode().to_vec())));
                    }
                }
                let node = self.nodes.get_mut(&index).unwrap();
                let requests = std::mem::take(&mut node.requests);
                if requests.is_empty() {
                    break;
                }
                for (to, request) in requests {
                    if self.arrival(index, number_of(&to)).is_none() {
                        continue;
                    }
                    let asked = number_of(&to);
                    let answers = !self.uncertifying.contains_key(&asked);
                    let response = self.nodes.get(&asked).filter(|_| answers).map(|asked| asked.answer(request));
                    let node = self.nodes.get_mut(&index).unwrap();
                    node.handle(Input::Response { from: to, response });
                }
            }
        }
    }

    /// Arrival time of a message that is sent now; `None` if it is lost.
    fn arrival(&mut self, from: usize, to: usize) -> Option<u64> {
        if self.interval_seconds.contains(&from) != self.interval_seconds.contains(&to) {
            return None;
        }
        let Some(link) = self.bad.get(&from).or(self.bad.get(&to)) else { return Some(self.now + LATENCY) };
        self.risked += 1;
        let drawn = self.risked.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (drawn % 100 >= link.loss).then_some(self.now + link.delay)
    }

    /// Advances to the next event, at most to `end`; returns false if there is none before.
    fn step(&mut self, end: u64) -> bool {
        let arrival = self.wire.peek().map(|Reverse((at, ..))| *at);
        let running = self.nodes.iter().filter(|(_, node)| node.halted.is_none());
        let due = running.filter_map(|(index, node)| Some(node.pipeline.deadline()?.0 + self.behind(*index))).min();
        let Some(next) = [arrival, due].into_iter().flatten().min().filter(|next| *next <= end) else {
            self.now = end;
            return false;
        };
        self.now = self.now.max(next);
        for index in self.nodes.keys().copied().collect::<Vec<_>>() {
            let now = self.clock(index);
            self.nodes.get_mut(&index).unwrap().now = now;
        }
        while self.wire.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
            let Reverse((_, _, from, to, bytes)) = self.wire.pop().unwrap();
            self.deliver(from, to, &bytes);
        }
        for node in self.nodes.values_mut() {
            if node.halted.is_none() && node.pipeline.deadline().is_some_and(|deadline| deadline <= node.now) {
                node.handle(Input::Deadline);
            }
        }
        self.collect();
        true
    }

    fn deliver(&mut self, from: usize, to: usize, bytes: &[u8]) {
        let Some(node) = self.nodes.get_mut(&to) else { return };
        let message = PeerMessage::decode(bytes).unwrap();
        let member = node.pipeline.committee().index_of(&node_key(from).into());
        let is_reserved = matches!(
            message,
            PeerMessage::Engine(_)
                | PeerMessage::EpochEngine(..)
                | PeerMessage::CertificateShare(_)
                | PeerMessage::Attestations(_)
        );
        // A node that is no member in this epoch may have sent them in another one.
        let Some(author) = member.or((!is_reserved).then_some(ValidatorIndex(0))) else { return };
        let epoch = node.pipeline.committee().epoch();
        let fault = self.uncertifying.get(&from).copied();
        match message {
            PeerMessage::Engine(_) | PeerMessage::EpochEngine(..) if fault.is_some() && self.cut_off.contains(&to) => {}
            PeerMessage::Certificate(_) if fault.is_some() && !(fault == Some(Luring) && self.cut_off.contains(&to)) => {}
            PeerMessage::CertificateShare(bytes) if fault == Some(Forging) => {
                let bytes = signed_by_another(&bytes);
                node.handle(Input::CertificateShare { from: author, epoch, bytes });
            }
            PeerMessage::CertificateShare(_) if fault.is_some() => {}
            PeerMessage::Engine(bytes) => verify(node, &*self.verifiers[&Epoch(0)], author, Epoch(0), &bytes),
            PeerMessage::EpochEngine(epoch, bytes) if epoch == node.pipeline.committee().epoch() => {
                let create = || self.engine.verifier(&self.genesis, node.pipeline.committee());
                verify(node, &**self.verifiers.entry(epoch).or_insert_with(create), author, epoch, &bytes);
            }
            PeerMessage::EpochEngine(..) => {}
            PeerMessage::Epoch { epoch, wants_answer } => {
                node.handle(Input::PeerEpoch { peer: node_key(from), epoch, wants_answer });
            }
            PeerMessage::CertificateShare(_) | PeerMessage::Certificate(_) if self.certificates_are_lost => {}
            PeerMessage::CertificateShare(bytes) => {
                let height = Share::decode(&bytes).unwrap().height.0;
                let first = self.first_shares.entry(from).or_insert(height);
                *first = height.min(*first);
                let second = (self.two_faced == Some(from)).then(|| of_another_header(node.pipeline.committee(), from, &bytes));
                for bytes in [bytes].into_iter().chain(second) {
                    node.handle(Input::CertificateShare { from: author, epoch, bytes });
                }
            }
            PeerMessage::Certificate(certificate) if certificate.epoch != node.pipeline.committee().epoch() => {}
            PeerMessage::Certificate(certificate) => node.learn(node_key(from), certificate),
            PeerMessage::Attestations(attestations) => match self.false_attesters.get(&from) {
                None => node.attested.record(Epoch(0), author, attestations),
                Some(Attesting::Never) => {}
                Some(Attesting::Wrongly) => {
                    let wrong = user_number(USERS - 1).address();
                    node.attested.record(Epoch(0), author, attestations.into_iter().map(|(hash, _)| (hash, wrong)));
                }
            },
            PeerMessage::Notice(bytes) => {
                if let Some(notice) = node.pipeline.verify_notice(&bytes) {
                    node.handle(Input::Notice(notice));
                }
            }
            PeerMessage::Transactions(raw) => {
                self.forwarded += raw.len();
                if self.censors.contains(&to) {
                    return;
                }
                for raw in raw {
                    let transaction = corniche_admission::check(raw, CHAIN).expect("only what was checked is passed on");
                    node.handle(Input::Submit { transaction, from: Some(node_key(from)), reply: None });
                }
            }
        }
    }

    pub fn run_for(&mut self, ms: u64) {
        let end = self.now + ms;
        while self.step(end) {}
    }

    /// Runs until `done`, at most `ms` of virtual time.
    pub fn run_until(&mut self, ms: u64, what: &str, done: impl Fn(&Self) -> bool) {
        let end = self.now + ms;
        while !done(self) {
            assert!(self.step(end), "not within {ms} ms: {what}; {:?}", self.progress());
        }
    }

    /// Per node: height, number of executed transactions, highest certified height.
    pub fn progress(&self) -> Vec<(usize, usize, u64)> {
        let certified = |node: &Node| node.disk.certificates.keys().last().map_or(0, |height| height.0);
        self.nodes.iter().map(|(index, node)| (node.disk.blocks.len(), self.executed(*index), certified(node))).collect()
    }

    /// Highest height for which this node has a certificate.
    pub fn certified(&self, index: usize) -> u64 {
        self.nodes[&index].disk.certificates.keys().last().map_or(0, |height| height.0)
    }

    pub fn heights(&self) -> Vec<usize> {
        self.nodes.values().map(|node| node.disk.blocks.len()).collect()
    }

    /// Light load: two transfers and 100 ms.
    pub fn load(&mut self) {
        let first = *self.nodes.keys().next().unwrap();
        self.submit(first, self.submitted..self.submitted + 2);
        self.run_for(100);
    }

    pub fn submit(&mut self, to: usize, nonces: std::ops::Range<u64>) {
        self.submitted = self.submitted.max(nonces.end);
        let now = self.clock(to);
        for nonce in nonces {
            let node = self.nodes.get_mut(&to).unwrap();
            node.now = now;
            node.submit(transfer(nonce));
        }
        self.collect();
    }

    pub fn validators(&self) -> usize {
        self.genesis.validators.len()
    }

    /// Forwards a transaction from one validator to another, and to no other.
    pub fn pass_on(&mut self, from: usize, to: usize, transaction: &VerifiedTransaction) {
        let now = self.clock(to);
        let node = self.nodes.get_mut(&to).unwrap();
        node.now = now;
        node.handle(Input::Submit { transaction: transaction.clone(), from: Some(node_key(from)), reply: None });
        self.submitted += 1;
        self.collect();
    }

    /// Submits a transaction beside those of the user's load.
    pub fn give_beside(&mut self, to: usize, transaction: &VerifiedTransaction) {
        self.give(to, transaction);
        (self.submitted, self.others) = (self.submitted - 1, self.others + 1);
    }

    /// Submits a user's transaction to one validator.
    pub fn give(&mut self, to: usize, transaction: &VerifiedTransaction) {
        let now = self.clock(to);
        let node = self.nodes.get_mut(&to).unwrap();
        node.now = now;
        node.submit(transaction.clone());
        self.submitted += 1;
        self.collect();
    }

    /// All transactions that this validator saw ordered, in order, with their proposers; includes skipped
    /// ones.
    pub fn ordered(&self, index: usize) -> Vec<(usize, B256)> {
        let blocks = self.nodes[&index].disk.blocks.iter().flat_map(|block| &block.block.ordered);
        blocks.map(|ordered| (ordered.author.as_usize(), keccak256(&ordered.raw))).collect()
    }

    /// Current rotation of this validator.
    pub fn rotation(&self, index: usize) -> Rotation {
        let headers = self.nodes[&index].disk.blocks.iter().rev().map(|block| block.block.header.clone());
        Rotation::from_headers(headers.filter(|header| header.timestamp * 1_000 + ROTATION_LEAD_MS <= self.clock(index).0))
    }

    fn clock(&self, index: usize) -> TimestampMs {
        TimestampMs(self.now - self.behind(index))
    }

    fn behind(&self, index: usize) -> u64 {
        self.slow_clocks.get(&index).copied().unwrap_or_default()
    }

    /// Validators in the order in which they own this user now.
    pub fn order_of(&self, user: &EthereumKey) -> Vec<usize> {
        let first = self.rotation(*self.nodes.keys().next().unwrap()).owner(&user.address(), self.validators());
        (first..first + self.validators()).map(|number| number % self.validators()).collect()
    }

    pub fn executed(&self, index: usize) -> usize {
        self.nodes[&index].disk.blocks.iter().map(|block| block.receipts.len()).sum()
    }

    /// True if all nodes have executed everything submitted, with the same certified chain.
    pub fn settled(&self) -> bool {
        self.nodes.keys().all(|index| self.executed(*index) as u64 == self.submitted + self.others)
            && self.nodes.values().all(|node| {
                node.disk.certificates.keys().last().is_some_and(|height| height.0 == node.disk.blocks.len() as u64)
            })
    }

    pub fn assert_agreement(&self) {
        let mut chains: Vec<_> = self.nodes.values().map(Node::hashes).collect();
        chains.sort_by_key(Vec::len);
        for pair in chains.windows(2) {
            assert_eq!(pair[0][..], pair[1][..pair[0].len()], "chains are prefixes of each other");
        }
        assert!(self.nodes.values().all(|node| node.halted.is_none()));
        let is_honest = self.equivocating.is_empty() && self.two_faced.is_none() && self.twin.is_none();
        assert!(!is_honest || self.nodes.values().all(|node| node.disk.evidence.is_empty()), "honest validators are accused");
    }
}
