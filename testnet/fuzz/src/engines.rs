//! Runs of one validator among four, of which the last is the enemy.
//!
//! Bytes are steps: `kind`, `peer`, two bytes of length, then so many bytes of a message. Whatever carries the enemy's own signature is
//! believed, so that changed messages get past the verifier; what others signed must verify. Keys are modelled.

use corniche_aom_wire::Suite;
use corniche_autobahn_testing as autobahn_testing;
use corniche_engine::{Batch, Committee, Engine, Input, Output, Recipients, Resume, Verifier};
use corniche_mahi_mahi_testing as mahi_testing;
use corniche_mir_testing as mir_testing;
use corniche_neobft_testing as neobft_testing;
use corniche_testkit::{Group, Micros, Random};
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex, Votes};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

const SIZE: u16 = 4;
const BYZANTINE: ValidatorIndex = ValidatorIndex(SIZE - 1);
/// Maximum number of steps in one run.
const MAX_STEPS: usize = 1_000;
/// Commits of the recorded validator that end a seed.
const SEED_COMMITS: u64 = 3;
const START_MS: u64 = 1_000_000;

/// One validator with its verifier.
struct Node {
    engine: Box<dyn Engine>,
    verifier: Arc<dyn Verifier>,
    now: u64,
    commits: u64,
    me: usize,
    /// Multicast group of an engine that has one.
    group: Option<Rc<RefCell<neobft_testing::ModelledGroup>>>,
    /// Requests to the group.
    requests: Vec<Bytes>,
}

impl Node {
    fn new(engine: impl Engine + 'static, verifier: impl Verifier + 'static, me: u16) -> Self {
        Self {
            engine: Box::new(engine),
            verifier: Arc::new(verifier),
            now: START_MS,
            commits: 0,
            me: usize::from(me),
            group: None,
            requests: Vec::new(),
        }
    }

    /// Applies an input, and does what the engine asks for until it asks for nothing. What it sends.
    fn apply(&mut self, input: Input) -> Vec<(Recipients, Bytes)> {
        let (mut inputs, mut sent) = (VecDeque::from([input]), Vec::new());
        while let Some(input) = inputs.pop_front() {
            self.engine.handle(TimestampMs(self.now), input);
            while let Some(output) = self.engine.poll() {
                match output {
                    Output::Send { to, message } => sent.push((to, message)),
                    Output::Persist(ticket, _) => inputs.push_back(Input::Durable(ticket)),
                    Output::WantBatch { bytes, .. } => {
                        let batch = Batch { bytes: vec![7; 40.min(bytes as usize)].into() };
                        inputs.push_back(Input::Batch(batch));
                    }
                    Output::Deliver(ordered) => {
                        self.commits += 1;
                        assert_eq!(ordered.index.0, self.commits, "commits have no gaps");
                    }
                    Output::Multicast(request) => self.requests.push(request),
                    Output::AskSequencer { epoch, certificate } => {
                        let ask = |group: &Rc<RefCell<neobft_testing::ModelledGroup>>| {
                            group.borrow_mut().ask(Micros::ZERO, self.me, epoch, &certificate)
                        };
                        let key = self.group.as_ref().and_then(ask);
                        inputs.extend(key.map(|(_, key)| Input::Sequencer(key)));
                    }
                    _ => {}
                }
            }
        }
        sent
    }

    fn receive(&mut self, from: ValidatorIndex, bytes: &Bytes) -> Vec<(Recipients, Bytes)> {
        assert!(self.verifier.cost(bytes) > 0);
        match self.verifier.verify(from, bytes) {
            Ok(message) => self.apply(Input::Message { from, message }),
            Err(_) => Vec::new(),
        }
    }

    fn pass(&mut self, ms: u64) -> Vec<(Recipients, Bytes)> {
        self.now += ms;
        match self.engine.deadline() {
            Some(deadline) if deadline.0 <= self.now => self.apply(Input::Deadline),
            _ => Vec::new(),
        }
    }
}

const MESSAGE: u8 = 0;
const PACKET: u8 = 4;
const DEADLINE: u8 = 5;
/// Longest time that fits into a step.
const MAX_STEP_MS: u64 = 31;
const UP: u8 = 6;
const DOWN: u8 = 7;

fn step(kind: u8, ms: u8, peer: ValidatorIndex, message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
    let message = &message[..length as usize];
    [&[kind | ms << 3, peer.0 as u8][..], &length.to_le_bytes(), message].concat()
}

/// Plays steps to a validator. Returns the number of its commits.
fn play(mut node: Node, mut bytes: &[u8]) -> u64 {
    for _ in 0..MAX_STEPS {
        let [kind, peer, low, high, rest @ ..] = bytes else { break };
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (message, next) = rest.split_at(length);
        let peer = ValidatorIndex(1 + u16::from(*peer) % (SIZE - 1));
        (0..kind >> 3).for_each(|_| drop(node.pass(1)));
        match kind & 7 {
            DEADLINE => {
                let until = node.engine.deadline().map_or(0, |deadline| deadline.0.saturating_sub(node.now));
                node.pass(until.min(10_000));
            }
            UP => drop(node.apply(Input::PeerUp(peer))),
            DOWN => drop(node.apply(Input::PeerDown(peer))),
            PACKET => drop(node.apply(Input::Packet(Bytes::copy_from_slice(message)))),
            _ => drop(node.receive(peer, &Bytes::copy_from_slice(message))),
        }
        bytes = next;
    }
    node.commits
}

/// Records the inputs of the first of four correct validators as steps. The seed decides how messages overtake each other.
fn transcript(start: fn(u16) -> Node, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut nodes: Vec<Node> = (0..SIZE).map(start).collect();
    let group = nodes[0].group.clone();
    nodes.iter_mut().for_each(|node| node.group = group.clone());
    // `None`: from the sequencer.
    let mut flying: Vec<(Option<ValidatorIndex>, usize, Bytes)> = Vec::new();
    // Steps carry the time since the step before, so that a replay is exact: others' blocks name this validator's by their hashes.
    let (mut seen, mut last) = (Vec::new(), START_MS);
    let send = |flying: &mut Vec<_>, from: u16, sent: Vec<(Recipients, Bytes)>| {
        for (to, message) in sent {
            for target in (0..SIZE).filter(|target| *target != from) {
                if matches!(to, Recipients::All) || to == Recipients::One(ValidatorIndex(target)) {
                    flying.push((Some(ValidatorIndex(from)), usize::from(target), message.clone()));
                }
            }
        }
    };
    for peer in 1..SIZE {
        seen.extend(step(UP, 0, ValidatorIndex(peer - 1), &[]));
        for node in 0..SIZE {
            let up = if node < peer { peer } else { peer - 1 };
            let sent = nodes[usize::from(node)].apply(Input::PeerUp(ValidatorIndex(up)));
            send(&mut flying, node, sent);
        }
    }
    for round in 0..20_000 {
        if nodes[0].commits >= SEED_COMMITS {
            break;
        }
        // Messages are faster than timeouts.
        let passes = round % 8 == 0 || flying.is_empty();
        for node in (0..SIZE).filter(|_| passes) {
            let sent = nodes[usize::from(node)].pass(1);
            send(&mut flying, node, sent);
        }
        let requests: Vec<_> = nodes.iter_mut().flat_map(|node| std::mem::take(&mut node.requests)).collect();
        for request in requests {
            let stamped = group.as_ref().map(|group| group.borrow_mut().stamp(Micros::ZERO, &request)).unwrap_or_default();
            let packets = stamped.into_iter().enumerate();
            flying.extend(packets.flat_map(|(to, packets)| packets.into_iter().map(move |packet| (None, to, packet))));
        }
        if flying.is_empty() {
            continue;
        }
        let (from, to, message) = flying.swap_remove(random.below(flying.len().min(6) as u64) as usize);
        if to == 0 {
            let mut ms = nodes[0].now - last;
            while ms > MAX_STEP_MS {
                seen.extend(step(MESSAGE, MAX_STEP_MS as u8, ValidatorIndex(0), &[]));
                ms -= MAX_STEP_MS;
            }
            seen.extend(match from {
                Some(from) => step(MESSAGE, ms as u8, ValidatorIndex(from.0 - 1), &message),
                None => step(PACKET, ms as u8, ValidatorIndex(0), &message),
            });
            last = nodes[0].now;
        }
        let sent = match from {
            Some(from) => nodes[to].receive(from, &message),
            None => nodes[to].apply(Input::Packet(message)),
        };
        send(&mut flying, to as u16, sent);
    }
    seen
}

/// Believes the enemy's signatures.
struct TrustingSignatures<S>(S);

impl corniche_mahi_mahi::Signatures for TrustingSignatures<mahi_testing::FakeSignatures> {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &[u8; 64]) -> bool {
        author == BYZANTINE || corniche_mahi_mahi::Signatures::verify(&self.0, author, digest, signature)
    }
}

fn mahi_node(me: u16) -> Node {
    let config = corniche_mahi_mahi::Config {
        min_round_ms: 1,
        parent_grace_ms: 1,
        gc_depth: 30,
        retain_rounds: 60,
        ..corniche_mahi_mahi::Config::default()
    };
    let committee: Committee = mahi_testing::committee(usize::from(SIZE));
    let signatures = Arc::new(TrustingSignatures(mahi_testing::FakeSignatures));
    let verifier = corniche_mahi_mahi::MahiVerifier::new(config.clone(), committee.clone(), signatures.clone());
    let engine = corniche_mahi_mahi::MahiMahi::new(corniche_mahi_mahi::Setup {
        config,
        committee,
        signer: Some(Arc::new(mahi_testing::FakeKeys(ValidatorIndex(me), Votes(1)))),
        signatures,
        coin: mahi_testing::FakeCoin::default().shared(),
        seed: u64::from(me),
        records: Vec::new(),
        unsigned: true,
        resume: Resume::default(),
        now: TimestampMs(START_MS),
    });
    Node::new(engine, verifier, me)
}

pub fn mahi_mahi(bytes: &[u8]) {
    play(mahi_node(0), bytes);
}

pub fn mahi_mahi_seeds() -> Vec<Vec<u8>> {
    (0..4).map(|seed| transcript(mahi_node, seed)).collect()
}

impl corniche_autobahn::Signatures for TrustingSignatures<autobahn_testing::FakeSignatures> {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &[u8; 64]) -> bool {
        author == BYZANTINE || self.0.verify(author, digest, signature)
    }

    fn verify_share(&self, signer: ValidatorIndex, digest: &B256, share: &Bytes) -> bool {
        self.0.verify_share(signer, digest, share)
    }

    fn combine(&self, shares: &[(ValidatorIndex, Bytes)]) -> Option<Bytes> {
        self.0.combine(shares)
    }

    fn verify_seal(&self, signed: &[(ValidatorIndex, B256)], seal: &Bytes) -> bool {
        self.0.verify_seal(signed, seal)
    }
}

fn autobahn_node(me: u16) -> Node {
    let config = corniche_autobahn::Config {
        view_timeout_ms: 100,
        max_view_timeout_ms: 1_000,
        fast_wait_ms: 2,
        coverage_wait_ms: 1,
        resend_ms: 50,
        status_ms: 100,
        retain_slots: 60,
        lane_bytes: 1 << 20,
        ..corniche_autobahn::Config::default()
    };
    let committee: Committee = autobahn_testing::committee(usize::from(SIZE));
    let signatures = Arc::new(TrustingSignatures(autobahn_testing::FakeSignatures));
    let verifier = corniche_autobahn::AutobahnVerifier::new(config.clone(), committee.clone(), signatures.clone());
    let engine = corniche_autobahn::Autobahn::new(corniche_autobahn::Setup {
        config,
        committee,
        signer: Some(Arc::new(autobahn_testing::FakeKeys(ValidatorIndex(me)))),
        signatures,
        seed: u64::from(me),
        records: Vec::new(),
        unsigned: true,
        resume: Resume::default(),
        now: TimestampMs(START_MS),
    });
    Node::new(engine, verifier, me)
}

pub fn autobahn(bytes: &[u8]) {
    play(autobahn_node(0), bytes);
}

pub fn autobahn_seeds() -> Vec<Vec<u8>> {
    (0..4).map(|seed| transcript(autobahn_node, seed)).collect()
}

impl corniche_neobft::Signatures for TrustingSignatures<neobft_testing::FakeSignatures> {
    fn verify(&self, signer: ValidatorIndex, digest: &B256, signature: &[u8; 64]) -> bool {
        signer == BYZANTINE || self.0.verify(signer, digest, signature)
    }
}

fn neobft_node(me: u16) -> Node {
    let config = corniche_neobft::Config {
        query_ms: 20,
        gap_ms: 100,
        request_ms: 50,
        aom_ms: 100,
        view_ms: 100,
        max_view_ms: 1_000,
        clock_ms: 200,
        request_interval_ms: 20,
        sync_slots: 4,
        open_slots: 32,
        retain_slots: 32,
        ..corniche_neobft::Config::default()
    };
    let committee: Committee = neobft_testing::committee(usize::from(SIZE));
    let signatures = Arc::new(TrustingSignatures(neobft_testing::FakeSignatures));
    let verifier = corniche_neobft::NeobftVerifier::new(config.clone(), committee.clone(), signatures.clone());
    let group = neobft_testing::ModelledGroup::new(&committee, &config, Suite::SipHash64);
    let engine = corniche_neobft::Neobft::new(corniche_neobft::Setup {
        config,
        committee,
        signer: Arc::new(neobft_testing::FakeKeys(ValidatorIndex(me))),
        signatures,
        records: Vec::new(),
        unsigned: true,
        resume: Resume::default(),
        now: TimestampMs(START_MS),
    });
    Node { group: Some(Rc::new(RefCell::new(group))), ..Node::new(engine, verifier, me) }
}

pub fn neobft(bytes: &[u8]) {
    play(neobft_node(0), bytes);
}

pub fn neobft_seeds() -> Vec<Vec<u8>> {
    (0..4).map(|seed| transcript(neobft_node, seed)).collect()
}

impl corniche_mir::Signatures for TrustingSignatures<mir_testing::FakeSignatures> {
    fn verify(&self, signer: ValidatorIndex, digest: &B256, signature: &[u8; 64]) -> bool {
        signer == BYZANTINE || self.0.verify(signer, digest, signature)
    }
}

fn mir_node(me: u16) -> Node {
    let config = corniche_mir::Config {
        batch_interval_ms: 1,
        max_stretch: 1,
        fill_ms: 1,
        idle_ms: 20,
        checkpoint_interval: 4,
        window: 16,
        epoch_length: 8,
        timeout_ms: 100,
        max_timeout_ms: 1_000,
        resend_ms: 50,
        retain: 32,
        ..corniche_mir::Config::default()
    };
    let committee: Committee = mir_testing::committee(usize::from(SIZE));
    let signatures = Arc::new(TrustingSignatures(mir_testing::FakeSignatures));
    let verifier = corniche_mir::MirVerifier::new(config.clone(), committee.clone(), signatures);
    let engine = corniche_mir::Mir::new(corniche_mir::Setup {
        config,
        committee,
        signer: Arc::new(mir_testing::FakeKeys(ValidatorIndex(me))),
        records: Vec::new(),
        unsigned: true,
        resume: Resume::default(),
        now: TimestampMs(START_MS),
    });
    Node::new(engine, verifier, me)
}

pub fn mir(bytes: &[u8]) {
    play(mir_node(0), bytes);
}

pub fn mir_seeds() -> Vec<Vec<u8>> {
    (0..4).map(|seed| transcript(mir_node, seed)).collect()
}

/// Nothing is signed by an engine for crashes, so every change of a message gets past the verifier. A liar may split the chain, but
/// break no node. The crates have the same names for their types; `seed` is there if the engine draws random numbers.
macro_rules! crashes {
    ($name:ident, $seeds:ident, $node:ident, $engine:ident::$type:ident, $verifier:ident, $config:expr $(, $seed:ident)?) => {
        fn $node(me: u16) -> Node {
            let committee: Committee = corniche_testkit::committee("quepaxa", usize::from(SIZE));
            let config: $engine::Config = $config;
            let verifier = $engine::$verifier::new(config.clone(), committee.clone());
            let engine = $engine::$type::new($engine::Setup {
                config,
                committee,
                me: ValidatorIndex(me),
                $($seed: u64::from(me),)?
                records: Vec::new(),
                unsigned: true,
                resume: Resume::default(),
                now: TimestampMs(START_MS),
            });
            Node::new(engine, verifier, me)
        }

        pub fn $name(bytes: &[u8]) {
            play($node(0), bytes);
        }

        pub fn $seeds() -> Vec<Vec<u8>> {
            (0..4).map(|seed| transcript($node, seed)).collect()
        }
    };
}

crashes!(
    quepaxa,
    quepaxa_seeds,
    quepaxa_node,
    corniche_quepaxa::QuePaxa,
    QuePaxaVerifier,
    corniche_quepaxa::Config {
        hedge_ms: 20,
        batch_interval_ms: 1,
        resend_ms: 50,
        status_ms: 100,
        retain_slots: 64,
        ..corniche_quepaxa::Config::default()
    },
    seed
);

crashes!(
    racs,
    racs_seeds,
    racs_node,
    corniche_racs::Racs,
    RacsVerifier,
    corniche_racs::Config {
        timeout_ms: 20,
        batch_interval_ms: 1,
        resend_ms: 50,
        status_ms: 100,
        retain_rounds: 64,
        ..corniche_racs::Config::default()
    }
);

crashes!(
    baxos,
    baxos_seeds,
    baxos_node,
    corniche_baxos::Baxos,
    BaxosVerifier,
    corniche_baxos::Config {
        rtt_ms: 10,
        batch_interval_ms: 1,
        resend_ms: 50,
        status_ms: 100,
        retain_slots: 64,
        ..corniche_baxos::Config::default()
    },
    seed
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes of seeds that commit nothing would miss everything behind a commit.
    #[test]
    fn seeds_commit() {
        type Start = fn(u16) -> Node;
        let engines = [
            (mahi_mahi_seeds(), mahi_node as Start),
            (autobahn_seeds(), autobahn_node),
            (neobft_seeds(), neobft_node),
            (mir_seeds(), mir_node),
            (quepaxa_seeds(), quepaxa_node),
            (racs_seeds(), racs_node),
            (baxos_seeds(), baxos_node),
        ];
        for (seeds, node) in engines {
            for seed in seeds {
                assert!(play(node(0), &seed) > 0, "{} bytes", seed.len());
                assert!(seed.len() <= 65_536, "{} bytes are more than libFuzzer takes", seed.len());
            }
        }
    }
}
