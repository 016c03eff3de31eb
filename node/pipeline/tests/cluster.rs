//! Four validators on Mahi-Mahi with real signatures, coins and certificates, on a virtual network: they agree; one that was
//! away, or heard hardly anything, for long follows and then votes again; after a crash of all of them everything executed is still there.

mod common;

use common::{Disk, Node, genesis as plain_genesis, transfer};
use corniche_crypto::{CoinDeal, CoinPublicKeys, ConsensusKey, deal_coin};
use corniche_engine::{Committee, Engine, Verifier};
use corniche_mahi_mahi::{Config, MahiMahi, MahiVerifier, Setup, real};
use corniche_pipeline::{EngineFactory, Input, PeerMessage, Request};
use corniche_types::{Genesis, TimestampMs, ValidatorIndex};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
};

const VALIDATORS: usize = 4;
/// One way, ms.
const LATENCY: u64 = 2;

/// A message on the wire: (arrival, order of sending, from, to, bytes).
type Sent = (u64, u64, usize, usize, Vec<u8>);

/// Validators on a virtual network.
struct Cluster {
    genesis: Genesis,
    deal: CoinDeal,
    verifier: MahiVerifier,
    nodes: BTreeMap<usize, Node>,
    disks: BTreeMap<usize, Disk>,
    now: u64,
    wire: BinaryHeap<Reverse<Sent>>,
    sent: u64,
    starts: u64,
    /// Validators with bad links, both ways.
    bad: BTreeMap<usize, BadLink>,
    /// Messages that bad links were given.
    risked: u64,
}

/// Connections stay up, but what goes over them is late or lost; requests that are lost are never answered.
#[derive(Clone, Copy)]
struct BadLink {
    delay: u64,
    /// Lost messages in a hundred.
    loss: u64,
}

fn consensus_key(index: usize) -> ConsensusKey {
    ConsensusKey::from_seed([80 + index as u8; 32])
}

impl Cluster {
    fn new(parameters: &[(&str, u64)]) -> Self {
        let deal = deal_coin(VALIDATORS, 3, [9; 32]);
        let mut genesis = plain_genesis(VALIDATORS);
        genesis.engine.name = "mahi-mahi".into();
        genesis.engine.parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        genesis.block_ms = 50;
        for (index, member) in genesis.validators.iter_mut().enumerate() {
            member.consensus_key = consensus_key(index).public();
            member.network_key = consensus_key(index + 50).public();
        }
        (genesis.coin_public_key, genesis.coin_shares) = deal.public.to_genesis();
        corniche_crypto::verify_genesis(&genesis).unwrap();
        let committee = Committee::from_genesis(&genesis);
        let signatures = Arc::new(real::CommitteeSignatures::new(&committee).unwrap());
        let verifier = MahiVerifier::new(Config::from_genesis(&genesis).unwrap(), committee, signatures);
        let mut cluster = Self {
            genesis,
            deal,
            verifier,
            nodes: BTreeMap::new(),
            disks: BTreeMap::new(),
            now: 2_000_000,
            wire: BinaryHeap::new(),
            sent: 0,
            starts: 0,
            bad: BTreeMap::new(),
            risked: 0,
        };
        (0..VALIDATORS).for_each(|index| cluster.start(index));
        cluster
    }

    fn factory(&mut self, index: usize) -> EngineFactory {
        let committee = Committee::from_genesis(&self.genesis);
        let config = Config::from_genesis(&self.genesis).unwrap();
        let signer = real::ValidatorKeys::new(&committee, consensus_key(index), self.deal.shares[index].clone()).unwrap();
        let public = CoinPublicKeys::from_genesis(&self.genesis).unwrap();
        let (signer, coin) = (Arc::new(signer), Arc::new(real::ThresholdCoin::new(&committee, public)));
        self.starts += 1;
        let seed = self.starts;
        Box::new(move |records, resume, now| {
            Box::new(MahiMahi::new(Setup {
                config: config.clone(),
                committee: committee.clone(),
                signer: Some(signer.clone()),
                coin: coin.clone(),
                seed: seed * 1_000 + now.0,
                records,
                resume,
                now,
            })) as Box<dyn Engine>
        })
    }

    /// Starts a validator on its disk and connects it to all that run.
    fn start(&mut self, index: usize) {
        let factory = self.factory(index);
        let disk = self.disks.remove(&index).unwrap_or_default();
        let genesis = self.genesis.clone();
        let mut node = Node::start(index as u8, &genesis, &genesis, Some((index as u16, factory)), disk, TimestampMs(self.now));
        for (&other_index, other) in &mut self.nodes {
            other.now = TimestampMs(self.now);
            node.connect(other, Some(other_index as u16));
            other.connect(&node, Some(index as u16));
        }
        self.nodes.insert(index, node);
        self.collect();
    }

    /// Kills a validator: what it had in memory and on the wire is gone.
    fn kill(&mut self, index: usize) {
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

    /// Puts everything the nodes have to say on the wire, and answers requests.
    fn collect(&mut self) {
        let indices: Vec<usize> = self.nodes.keys().copied().collect();
        for index in indices {
            loop {
                let node = self.nodes.get_mut(&index).unwrap();
                for (to, message) in std::mem::take(&mut node.sent) {
                    self.sent += 1;
                    let Some(arrival) = self.arrival(index, usize::from(to[0])) else { continue };
                    self.wire.push(Reverse((arrival, self.sent, index, usize::from(to[0]), message.encode().to_vec())));
                }
                let node = self.nodes.get_mut(&index).unwrap();
                let requests = std::mem::take(&mut node.requests);
                if requests.is_empty() {
                    break;
                }
                for (to, Request::Blocks { from }) in requests {
                    if self.arrival(index, usize::from(to[0])).is_none() {
                        continue;
                    }
                    let response = self.nodes.get(&usize::from(to[0])).map(|asked| asked.answer(from));
                    let node = self.nodes.get_mut(&index).unwrap();
                    node.handle(Input::Response { from: to, response });
                }
            }
        }
    }

    /// When a message that is sent now arrives; `None` when it is lost.
    fn arrival(&mut self, from: usize, to: usize) -> Option<u64> {
        let Some(link) = self.bad.get(&from).or(self.bad.get(&to)) else { return Some(self.now + LATENCY) };
        self.risked += 1;
        let drawn = self.risked.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (drawn % 100 >= link.loss).then_some(self.now + link.delay)
    }

    /// Advances to the next thing that happens, at most to `end`; false when nothing does before.
    fn step(&mut self, end: u64) -> bool {
        let arrival = self.wire.peek().map(|Reverse((at, ..))| *at);
        let due = self.nodes.values().filter_map(|node| node.pipeline.deadline()).map(|at| at.0).min();
        let Some(next) = [arrival, due].into_iter().flatten().min().filter(|next| *next <= end) else {
            self.now = end;
            return false;
        };
        self.now = self.now.max(next);
        for node in self.nodes.values_mut() {
            node.now = TimestampMs(self.now);
        }
        while self.wire.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
            let Reverse((_, _, from, to, bytes)) = self.wire.pop().unwrap();
            self.deliver(from, to, &bytes);
        }
        let now = TimestampMs(self.now);
        for node in self.nodes.values_mut() {
            if node.pipeline.deadline().is_some_and(|deadline| deadline <= now) {
                node.handle(Input::Deadline);
            }
        }
        self.collect();
        true
    }

    fn deliver(&mut self, from: usize, to: usize, bytes: &[u8]) {
        let Some(node) = self.nodes.get_mut(&to) else { return };
        let author = ValidatorIndex(from as u16);
        match PeerMessage::decode(bytes).unwrap() {
            PeerMessage::Engine(bytes) => {
                let message = self.verifier.verify(author, &bytes).expect("honest validators send valid messages");
                node.handle(Input::Engine { from: author, message });
            }
            PeerMessage::CertificateShare(bytes) => node.handle(Input::CertificateShare { from: author, bytes }),
            PeerMessage::Certificate(certificate) => node.handle(Input::Certificate { from: [from as u8; 32], certificate }),
            PeerMessage::Transactions(_) => {}
        }
    }

    fn run_for(&mut self, ms: u64) {
        let end = self.now + ms;
        while self.step(end) {}
    }

    /// Runs until `done`, at most `ms` of virtual time.
    fn run_until(&mut self, ms: u64, what: &str, done: impl Fn(&Self) -> bool) {
        let end = self.now + ms;
        while !done(self) {
            assert!(self.step(end), "not within {ms} ms: {what}; heights {:?}", self.heights());
        }
    }

    fn heights(&self) -> Vec<usize> {
        self.nodes.values().map(|node| node.disk.blocks.len()).collect()
    }

    fn submit(&mut self, to: usize, nonces: std::ops::Range<u64>) {
        for nonce in nonces {
            let node = self.nodes.get_mut(&to).unwrap();
            node.now = TimestampMs(self.now);
            node.submit(transfer(nonce));
        }
        self.collect();
    }

    fn executed(&self, index: usize) -> usize {
        self.nodes[&index].disk.blocks.iter().map(|block| block.receipts.len()).sum()
    }

    /// Everyone has executed `transactions`, to the same certified chain.
    fn settled(&self, transactions: usize) -> bool {
        self.nodes.keys().all(|index| self.executed(*index) == transactions)
            && self.nodes.values().all(|node| {
                node.disk.certificates.keys().last().is_some_and(|height| height.0 == node.disk.blocks.len() as u64)
            })
    }

    fn assert_agreement(&self) {
        let mut chains: Vec<_> = self.nodes.values().map(Node::hashes).collect();
        chains.sort_by_key(Vec::len);
        for pair in chains.windows(2) {
            assert_eq!(pair[0][..], pair[1][..pair[0].len()], "chains are prefixes of each other");
        }
        assert!(self.nodes.values().all(|node| node.halted.is_none()));
    }
}

#[test]
fn four_validators_agree_and_are_quiet_when_idle() {
    let mut cluster = Cluster::new(&[]);
    cluster.submit(0, 0..40);
    cluster.run_until(5_000, "40 transfers executed and certified everywhere", |cluster| cluster.settled(40));
    cluster.assert_agreement();
    cluster.run_for(2_000);
    let before = cluster.sent;
    cluster.run_for(60_000);
    // Twelve heartbeats in a minute, each a round or a few of one small message to each peer.
    let messages = cluster.sent - before;
    assert!(messages < 1_500, "{messages} messages in an idle minute");
    cluster.submit(2, 40..41);
    cluster.run_until(1_000, "an idle network wakes up", |cluster| cluster.settled(41));
}

#[test]
fn one_that_was_away_for_longer_than_the_dag_remembers_catches_up_and_votes_again() {
    // What is kept must bridge the rounds since the last certified block.
    let mut cluster = Cluster::new(&[("gc_depth", 10), ("retain_rounds", 10)]);
    cluster.submit(0, 0..10);
    cluster.run_until(5_000, "a start", |cluster| cluster.settled(10));
    cluster.kill(3);
    for step in 1..=8 {
        cluster.submit(0, step * 10..step * 10 + 10);
        cluster.run_for(500);
    }
    cluster.run_until(5_000, "three go on", |cluster| cluster.settled(90));
    cluster.start(3);
    cluster.run_until(10_000, "the fourth has caught up", |cluster| cluster.settled(90));
    assert!(cluster.nodes[&3].traces.iter().any(|name| name == "following"), "it was below the others' horizon");
    cluster.run_until(10_000, "it has rejoined", |cluster| cluster.nodes[&3].traces.iter().any(|name| name == "rejoined"));
    // Now it is needed: without it the other two are no quorum.
    cluster.kill(1);
    cluster.submit(2, 90..100);
    cluster.run_until(10_000, "three, the returned one among them, go on", |cluster| cluster.settled(100));
    cluster.assert_agreement();
}

/// Validator 3 runs all the time and is connected, but its link is bad until the others have forgotten what it lacks.
fn hardly_heard(bad: BadLink, load_goes_on: bool) {
    let mut cluster = Cluster::new(&[("gc_depth", 10), ("retain_rounds", 10)]);
    cluster.submit(0, 0..10);
    cluster.run_until(5_000, "a start", |cluster| cluster.settled(10));
    cluster.bad.insert(3, bad);
    let mut nonce = 10;
    let mut load = |cluster: &mut Cluster| {
        cluster.submit(0, nonce..nonce + 2);
        cluster.run_for(100);
        nonce += 2;
        nonce as usize
    };
    (0..20).for_each(|_| _ = load(&mut cluster));
    let behind = |cluster: &Cluster| cluster.heights()[0] - cluster.heights()[3];
    assert!(behind(&cluster) > 10, "{} blocks behind with {} % lost", behind(&cluster), bad.loss);
    cluster.bad.clear();
    let mut submitted = 0;
    if load_goes_on {
        let healed = cluster.now;
        while submitted == 0 || behind(&cluster) > 3 {
            submitted = load(&mut cluster);
            assert!(cluster.now - healed < 15_000, "{} blocks behind, {:?}", behind(&cluster), cluster.nodes[&3].traces);
        }
    }
    submitted = load(&mut cluster);
    cluster.run_until(10_000, "it has caught up", |cluster| cluster.settled(submitted));
    // It is needed: without it the other two are no quorum.
    cluster.kill(1);
    cluster.submit(2, submitted as u64..submitted as u64 + 10);
    cluster.run_until(15_000, "it proposes and votes", |cluster| cluster.settled(submitted + 10));
    assert!(cluster.nodes[&3].traces.iter().any(|name| name == "following"), "it was below the others' horizon");
    assert!(cluster.nodes[&3].traces.iter().any(|name| name == "rejoined"));
    cluster.assert_agreement();
}

#[test]
fn one_that_runs_on_behind_a_bad_link_follows_and_votes_again() {
    for (loss, delay, load_goes_on) in [(100, 2, false), (97, 50, true), (90, 400, true), (70, 2_000, false)] {
        hardly_heard(BadLink { delay, loss }, load_goes_on);
    }
}

/// An idle chain closes an empty block a minute, so its newest resume point is never older than what the engines retain (here
/// 400 rounds of half a second) and a late returner takes part again at once.
#[test]
fn one_that_was_away_while_nothing_happened_is_as_good_as_the_others() {
    let mut cluster = Cluster::new(&[("gc_depth", 10), ("retain_rounds", 400), ("heartbeat_ms", 500)]);
    cluster.submit(0, 0..10);
    cluster.run_until(5_000, "a start", |cluster| cluster.settled(10));
    cluster.kill(3);
    cluster.run_for(400_000);
    cluster.start(3);
    cluster.run_for(120_000);
    cluster.kill(1);
    cluster.submit(2, 10..20);
    cluster.run_until(60_000, "three of four go on", |cluster| cluster.settled(20));
}

#[test]
fn a_short_absence_is_repaired_from_the_dag() {
    let mut cluster = Cluster::new(&[]);
    cluster.submit(0, 0..10);
    cluster.run_until(5_000, "a start", |cluster| cluster.settled(10));
    cluster.kill(2);
    cluster.submit(1, 10..20);
    cluster.run_for(600);
    cluster.start(2);
    cluster.run_until(10_000, "all four agree", |cluster| cluster.settled(20));
    cluster.kill(0);
    cluster.submit(2, 20..30);
    cluster.run_until(10_000, "the restarted one proposes and votes", |cluster| cluster.settled(30));
    cluster.assert_agreement();
}

#[test]
fn all_four_killed_at_any_moment_lose_nothing_executed_and_go_on() {
    // Every few milliseconds of the life of a transaction, and under load.
    for moment in (0..120).step_by(7) {
        let mut cluster = Cluster::new(&[]);
        cluster.submit(0, 0..5);
        cluster.submit(0, 5..20);
        cluster.run_for(moment);
        let before: Vec<_> = cluster.nodes.values().map(Node::hashes).collect();
        let executed = (0..VALIDATORS).map(|index| cluster.executed(index)).max().unwrap();
        (0..VALIDATORS).for_each(|index| cluster.kill(index));
        (0..VALIDATORS).for_each(|index| cluster.start(index));
        // What was only in a pool is gone with it; wallets send it again.
        cluster.submit(1, 0..20);
        cluster.run_until(10_000, "the chain goes on", |cluster| cluster.settled(20));
        for (hashes, node) in before.iter().zip(cluster.nodes.values()) {
            assert_eq!(hashes[..], node.hashes()[..hashes.len()], "killed after {moment} ms, {executed} executed");
        }
        cluster.assert_agreement();
    }
}

#[test]
fn records_are_kept_until_the_state_they_led_to_is_durable() {
    // Ordering runs far ahead of four slow disks, further than the engine's horizon, and then the power fails.
    let mut cluster = Cluster::new(&[("gc_depth", 8), ("retain_rounds", 0)]);
    cluster.nodes.values_mut().for_each(|node| node.slow_disk = true);
    for step in 0..20 {
        cluster.submit(0, step * 2..step * 2 + 2);
        cluster.run_for(100);
    }
    assert!(cluster.nodes.values().all(|node| node.waiting_appends.len() > 8), "far ahead of the disk");
    (0..VALIDATORS).for_each(|index| cluster.kill(index));
    (0..VALIDATORS).for_each(|index| cluster.start(index));
    cluster.run_until(20_000, "everything ordered is ordered again", |cluster| cluster.settled(40));
    cluster.assert_agreement();
}

#[test]
fn the_same_seed_gives_the_same_chain() {
    let run = || {
        let mut cluster = Cluster::new(&[]);
        cluster.submit(0, 0..15);
        cluster.run_until(5_000, "executed", |cluster| cluster.settled(15));
        cluster.nodes[&0].hashes()
    };
    assert_eq!(run(), run());
}
