//! Validators on the testkit's virtual network: nodes in memory, messages with latency, and faults of both.

use crate::{
    common::{Disk, Node, genesis as plain_genesis, transfer},
    engines::{EngineKind, Secrets},
    process::{BadLinks, LATENCY, Shared, Validator, key},
};
use corniche_admission::{ROTATION_LEAD_MS, Rotation};
use corniche_crypto::{EthereumKey, VerifiedTransaction};
use corniche_pipeline::Input;
use corniche_testkit::{DiskModel, Links, Micros, Simulation};
use corniche_types::{B256, Genesis, keccak256};
use std::{
    cell::{RefCell, RefMut},
    rc::Rc,
};

pub const VALIDATORS: usize = 4;
/// Time of the start, ms.
const START: u64 = 2_000_000;

/// Part of a validator that can stall while the rest runs.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    Disk,
    Processor,
}

pub struct Cluster {
    simulation: Simulation<Validator>,
    shared: Rc<RefCell<Shared>>,
    /// Next nonce of the user.
    pub submitted: u64,
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
        let shared = Rc::new(RefCell::new(Shared::new(engine, genesis, secrets)));
        let start = {
            let shared = shared.clone();
            Box::new(move |me, disk, now, _| Validator::start(me, disk, now, shared.clone()))
        };
        // One more node: a full node, which stays off until a test starts it.
        let links = Links::uniform(validators + 1, Micros::from_millis(LATENCY));
        let disks = DiskModel { sync: Micros::ZERO, rate: None };
        let mut simulation = Simulation::new(links, disks, 1, start);
        simulation.set_adversary(Some(Box::new(BadLinks(shared.clone()))));
        simulation.run_until(Micros::from_millis(START));
        let mut cluster = Self { simulation, shared, submitted: 0 };
        for index in 0..validators {
            *cluster.disk(index) = disk.clone();
            cluster.start(index);
        }
        cluster
    }

    /// Everything that all nodes share: faults of validators and links.
    pub fn shared(&self) -> RefMut<'_, Shared> {
        self.shared.borrow_mut()
    }

    /// Virtual time, ms.
    pub fn now(&self) -> u64 {
        self.simulation.now().timestamp().0
    }

    /// Number of messages that all nodes sent.
    pub fn sent(&self) -> u64 {
        self.simulation.statistics.messages
    }

    pub fn node(&self, index: usize) -> &Node {
        &self.simulation.process(index).expect("it runs").node
    }

    /// Numbers of all nodes that run.
    pub fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.simulation.size()).filter(|index| self.simulation.is_up(*index))
    }

    /// All nodes that run.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.running().map(|index| self.node(index))
    }

    /// Changes a running node.
    pub fn with<R>(&mut self, index: usize, change: impl FnOnce(&mut Node) -> R) -> R {
        let now = self.shared().clock(index, self.simulation.now());
        let changed = self.simulation.with(index, |validator| {
            validator.node.now = now;
            let result = change(&mut validator.node);
            validator.collect();
            result
        });
        changed.expect("it runs")
    }

    /// Disk of a validator that is off.
    pub fn disk(&mut self, index: usize) -> &mut Disk {
        self.simulation.disk(index).expect("it is off")
    }

    /// Starts a validator from its disk. It gets connections to all running ones of its side.
    pub fn start(&mut self, index: usize) {
        self.simulation.restart(index);
        self.settle_connections();
    }

    /// Nodes learn of connections that were made or broken before anything else happens.
    fn settle_connections(&mut self) {
        self.run_for(0);
    }

    /// Like `start`; submits `kept`, the transactions of users from its last run, before it is connected.
    pub fn start_with(&mut self, index: usize, kept: &[VerifiedTransaction]) {
        self.shared().kept.insert(index, kept.to_vec());
        self.start(index);
    }

    /// Starts a full node that is connected to all validators; its number is [`VALIDATORS`].
    pub fn start_full_node(&mut self) {
        self.start(VALIDATORS);
    }

    /// Partitions the network: connections between the two sides end, and messages in flight between them are
    /// lost.
    pub fn part(&mut self, some: &[usize]) {
        let rest = (0..self.simulation.size()).filter(|index| !some.contains(index)).collect();
        self.simulation.partition(&[rest, some.to_vec()]);
        self.settle_connections();
    }

    /// Reconnects all.
    pub fn heal(&mut self) {
        self.simulation.heal();
        self.settle_connections();
    }

    /// Stalls a validator's disk or processor from now on.
    pub fn stall(&mut self, index: usize, part: Part) {
        self.with(index, |node| match part {
            Part::Disk => node.slow_disk = true,
            Part::Processor => node.slow_processor = true,
        });
    }

    /// Resumes its disk and processor, which process everything that waited.
    pub fn resume(&mut self, index: usize) {
        self.with(index, |node| {
            (node.slow_disk, node.slow_processor) = (false, false);
            node.finish_plans();
            node.finish_appends();
        });
    }

    /// Kills a validator: its memory and its messages in flight are lost.
    pub fn kill(&mut self, index: usize) {
        self.simulation.crash(index);
        self.settle_connections();
    }

    pub fn run_for(&mut self, ms: u64) {
        self.simulation.run_for(Micros::from_millis(ms));
    }

    /// Runs until `done`, at most `ms` of virtual time.
    pub fn run_until(&mut self, ms: u64, what: &str, done: impl Fn(&Self) -> bool) {
        let end = self.simulation.now() + Micros::from_millis(ms);
        while !done(self) {
            assert!(self.simulation.step_until(end), "not within {ms} ms: {what}; {:?}", self.progress());
        }
    }

    /// Per node: height, number of executed transactions, highest certified height.
    fn progress(&self) -> Vec<(usize, usize, u64)> {
        self.running().map(|index| (self.node(index).disk.blocks.len(), self.executed(index), self.certified(index))).collect()
    }

    /// Highest height for which this node has a certificate.
    pub fn certified(&self, index: usize) -> u64 {
        self.node(index).disk.certificates.keys().last().map_or(0, |height| height.0)
    }

    pub fn heights(&self) -> Vec<usize> {
        self.nodes().map(|node| node.disk.blocks.len()).collect()
    }

    /// Light load: two transfers and 100 ms.
    pub fn load(&mut self) {
        self.submit(0, self.submitted..self.submitted + 2);
        self.run_for(100);
    }

    pub fn submit(&mut self, to: usize, nonces: std::ops::Range<u64>) {
        self.submitted = self.submitted.max(nonces.end);
        self.with(to, |node| nonces.for_each(|nonce| node.submit(transfer(nonce))));
    }

    pub fn validators(&self) -> usize {
        self.shared().validators()
    }

    /// Forwards a transaction from one validator to another, and to no other.
    pub fn pass_on(&mut self, from: usize, to: usize, transaction: &VerifiedTransaction) {
        let transaction = transaction.clone();
        self.with(to, |node| node.handle(Input::Submit { transaction, from: Some(key(from)), reply: None }));
        self.submitted += 1;
    }

    /// Submits a user's transaction to one validator.
    pub fn give(&mut self, to: usize, transaction: &VerifiedTransaction) {
        self.with(to, |node| node.submit(transaction.clone()));
        self.submitted += 1;
    }

    /// All transactions that this validator saw ordered, in order, with their proposers; includes skipped
    /// ones.
    pub fn ordered(&self, index: usize) -> Vec<(usize, B256)> {
        let blocks = self.node(index).disk.blocks.iter().flat_map(|block| &block.block.ordered);
        blocks.map(|ordered| (ordered.author.as_usize(), keccak256(&ordered.raw))).collect()
    }

    /// Current rotation of this validator.
    pub fn rotation(&self, index: usize) -> Rotation {
        let now = self.shared().clock(index, self.simulation.now()).0;
        let headers = self.node(index).disk.blocks.iter().rev().map(|block| block.block.header.clone());
        Rotation::from_headers(headers.filter(|header| header.timestamp * 1_000 + ROTATION_LEAD_MS <= now))
    }

    /// Validators in the order in which they own this user now.
    pub fn order_of(&self, user: &EthereumKey) -> Vec<usize> {
        let first = self.rotation(self.running().next().unwrap()).owner(&user.address(), self.validators());
        (first..first + self.validators()).map(|number| number % self.validators()).collect()
    }

    pub fn executed(&self, index: usize) -> usize {
        self.node(index).disk.blocks.iter().map(|block| block.receipts.len()).sum()
    }

    /// True if all nodes have executed everything submitted, with the same certified chain.
    pub fn settled(&self) -> bool {
        self.running().all(|index| {
            let height = self.node(index).disk.blocks.len() as u64;
            self.executed(index) as u64 == self.submitted && height > 0 && self.certified(index) == height
        })
    }

    pub fn assert_agreement(&self) {
        let mut chains: Vec<_> = self.nodes().map(Node::hashes).collect();
        chains.sort_by_key(Vec::len);
        for pair in chains.windows(2) {
            assert_eq!(pair[0][..], pair[1][..pair[0].len()], "chains are prefixes of each other");
        }
        assert!(self.nodes().all(|node| node.halted.is_none()));
    }
}
