//! A node as a process of the testkit's simulation, with its faults and those of its links.

use crate::{
    common::{CHAIN, Disk, Node},
    engines::{EngineKind, Secrets, greedy},
};
use corniche_certify::Share;
use corniche_crypto::{BlsSecretKey, VerifiedTransaction};
use corniche_engine::Verifier;
use corniche_pipeline::{Input, NodeKey, PeerMessage, Request, Response};
use corniche_testkit::{Action, Adversary, Delivery, Event, Micros, Process, View};
use corniche_types::{Bytes, Genesis, TimestampMs, ValidatorIndex};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
};

/// One way, in ms.
pub const LATENCY: u64 = 2;

/// Message between nodes.
#[derive(Clone)]
pub enum Packet {
    Peer(Bytes),
    Request(Request),
    Response(Option<Rc<Response>>),
}

/// Everything that all nodes of a run share.
pub struct Shared {
    engine: EngineKind,
    genesis: Genesis,
    secrets: Secrets,
    verifier: Box<dyn Verifier>,
    starts: u64,
    /// Validators that never propose transactions from others or from users.
    pub censors: BTreeSet<usize>,
    /// Validators that propose batches with too much gas, from their next start on.
    pub greedy: BTreeSet<usize>,
    /// Number of transactions that validators forwarded to each other.
    pub forwarded: usize,
    /// Transactions of users that a validator gets at its next start.
    pub kept: BTreeMap<usize, Vec<VerifiedTransaction>>,
    /// Validators with bad links, in both directions.
    pub bad: BTreeMap<usize, BadLink>,
    /// Number of messages sent over bad links.
    risked: u64,
    /// Validators whose clocks are slow, by this number of ms.
    pub slow_clocks: BTreeMap<usize, u64>,
    /// True if shares and certificates are lost.
    pub certificates_are_lost: bool,
    /// Faulty validators that order but do not help to certify. They answer no requests, and the engines of
    /// `cut_off` get nothing from them.
    pub uncertifying: BTreeMap<usize, Uncertifying>,
    pub cut_off: BTreeSet<usize>,
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

use Uncertifying::{Forging, Luring};

/// Same share, signed by a key outside the committee.
fn signed_by_another(share: &[u8]) -> Bytes {
    let share = Share::decode(share).unwrap();
    let signature = BlsSecretKey::from_seed([99; 32]).sign(&share.header_hash.0).to_bytes();
    Share { signature, ..share }.encode()
}

pub fn key(node: usize) -> NodeKey {
    [node as u8; 32]
}

impl Shared {
    pub fn new(engine: EngineKind, genesis: Genesis, secrets: Secrets) -> Self {
        Self {
            engine,
            verifier: engine.verifier(&genesis),
            genesis,
            secrets,
            starts: 0,
            censors: BTreeSet::new(),
            greedy: BTreeSet::new(),
            forwarded: 0,
            kept: BTreeMap::new(),
            bad: BTreeMap::new(),
            risked: 0,
            slow_clocks: BTreeMap::new(),
            certificates_are_lost: false,
            uncertifying: BTreeMap::new(),
            cut_off: BTreeSet::new(),
        }
    }

    pub fn validators(&self) -> usize {
        self.genesis.validators.len()
    }

    fn behind(&self, node: usize) -> u64 {
        self.slow_clocks.get(&node).copied().unwrap_or_default()
    }

    pub fn clock(&self, node: usize, now: Micros) -> TimestampMs {
        TimestampMs(now.timestamp().0 - self.behind(node))
    }

    /// Index of a node in the committee; `None` for a full node.
    fn validator(&self, node: usize) -> Option<u16> {
        (node < self.validators()).then_some(node as u16)
    }

    fn start(&mut self, node: usize, disk: Disk, now: Micros) -> Node {
        self.starts += 1;
        let own = self.validator(node).map(|index| {
            let factory = self.engine.factory(&self.genesis, &self.secrets, node, self.starts);
            (index, if self.greedy.contains(&node) { greedy(factory) } else { factory })
        });
        let mut started = Node::start(node as u8, &self.genesis, &self.genesis, own, disk, self.clock(node, now));
        self.kept.remove(&node).into_iter().flatten().for_each(|transaction| started.submit(transaction));
        started
    }
}

/// One node as a process.
pub struct Validator {
    me: usize,
    pub node: Node,
    shared: Rc<RefCell<Shared>>,
    actions: VecDeque<Action<Packet>>,
    /// Connected nodes.
    peers: BTreeSet<usize>,
    /// Requests without a response, by node.
    asked: Vec<usize>,
    /// Timers fire after this time, when the first connections are up.
    started_at: Micros,
}

impl Validator {
    /// Starts a node from its disk.
    pub fn start(me: usize, disk: Disk, now: Micros, shared: Rc<RefCell<Shared>>) -> Self {
        let node = shared.borrow_mut().start(me, disk, now);
        let (actions, peers, asked) = Default::default();
        let mut started = Self { me, node, shared, actions, peers, asked, started_at: now };
        started.collect();
        started
    }

    fn deliver(&mut self, from: usize, bytes: &[u8]) {
        let (author, shared) = (ValidatorIndex(from as u16), self.shared.clone());
        let mut shared = shared.borrow_mut();
        let fault = shared.uncertifying.get(&from).copied();
        let is_cut_off = shared.cut_off.contains(&self.me);
        match PeerMessage::decode(bytes).unwrap() {
            PeerMessage::Engine(_) if fault.is_some() && is_cut_off => {}
            PeerMessage::Certificate(_) if fault.is_some() && !(fault == Some(Luring) && is_cut_off) => {}
            PeerMessage::CertificateShare(bytes) if fault == Some(Forging) => {
                let bytes = signed_by_another(&bytes);
                self.node.handle(Input::CertificateShare { from: author, bytes });
            }
            PeerMessage::CertificateShare(_) if fault.is_some() => {}
            PeerMessage::Engine(bytes) => {
                let message = shared.verifier.verify(author, &bytes).expect("honest validators send valid messages");
                self.node.handle(Input::Engine { from: author, message });
            }
            PeerMessage::CertificateShare(_) | PeerMessage::Certificate(_) if shared.certificates_are_lost => {}
            PeerMessage::CertificateShare(bytes) => self.node.handle(Input::CertificateShare { from: author, bytes }),
            PeerMessage::Certificate(certificate) => self.node.learn(key(from), certificate),
            PeerMessage::Transactions(raw) => {
                shared.forwarded += raw.len();
                if shared.censors.contains(&self.me) {
                    return;
                }
                for raw in raw {
                    let transaction = corniche_admission::check(raw, CHAIN).expect("only what was checked is passed on");
                    self.node.handle(Input::Submit { transaction, from: Some(key(from)), reply: None });
                }
            }
        }
    }

    /// Response of another node; `None` if it will not respond.
    fn respond(&mut self, from: usize, response: Option<Response>) {
        if let Some(place) = self.asked.iter().position(|asked| *asked == from) {
            self.asked.remove(place);
            self.node.handle(Input::Response { from: key(from), response });
        }
    }

    /// Puts everything that the node sends on the network.
    pub fn collect(&mut self) {
        while !self.node.sent.is_empty() || !self.node.requests.is_empty() {
            for (to, message) in std::mem::take(&mut self.node.sent) {
                let message = Packet::Peer(message.encode());
                self.actions.push_back(Action::Send { to: usize::from(to[0]), message, bytes: 0 });
            }
            for (to, request) in std::mem::take(&mut self.node.requests) {
                let to = usize::from(to[0]);
                self.asked.push(to);
                if self.peers.contains(&to) {
                    self.actions.push_back(Action::Send { to, message: Packet::Request(request), bytes: 0 });
                } else {
                    self.respond(to, None);
                }
            }
        }
    }
}

impl Process for Validator {
    type Message = Packet;
    type Disk = Disk;

    fn handle(&mut self, now: Micros, event: Event<Packet>) {
        self.node.now = self.shared.borrow().clock(self.me, now);
        match event {
            Event::Up(peer) => {
                self.peers.insert(peer);
                let validator = self.shared.borrow().validator(peer).map(ValidatorIndex);
                self.node.handle(Input::PeerUp { peer: key(peer), validator });
            }
            Event::Down(peer) => {
                self.peers.remove(&peer);
                self.node.handle(Input::PeerDown { peer: key(peer) });
                while self.asked.contains(&peer) {
                    self.respond(peer, None);
                }
            }
            Event::Message { from, message: Packet::Peer(bytes) } => self.deliver(from, &bytes),
            Event::Message { from, message: Packet::Request(request) } => {
                let answers = !self.shared.borrow().uncertifying.contains_key(&self.me);
                let response = answers.then(|| Rc::new(self.node.answer(request)));
                self.actions.push_back(Action::Send { to: from, message: Packet::Response(response), bytes: 0 });
            }
            Event::Message { from, message: Packet::Response(response) } => {
                self.respond(from, response.map(Rc::unwrap_or_clone));
            }
            Event::Written(_) => unreachable!("a node here writes at once"),
            Event::Deadline => self.node.handle(Input::Deadline),
        }
        self.collect();
    }

    fn poll(&mut self) -> Option<Action<Packet>> {
        self.actions.pop_front()
    }

    fn deadline(&self) -> Option<Micros> {
        let at = self.node.pipeline.deadline()?.0.saturating_add(self.shared.borrow().behind(self.me));
        Some(Micros::from_millis(at).max(self.started_at + Micros(1)))
    }

    fn power_off(self) -> Disk {
        self.node.disk
    }
}

/// Late and lost messages of [`BadLink`]s.
pub struct BadLinks(pub Rc<RefCell<Shared>>);

impl Adversary<Packet> for BadLinks {
    fn delivery(&mut self, _: &mut View<'_>, from: usize, to: usize, _: &Packet) -> Delivery {
        let mut shared = self.0.borrow_mut();
        let Some(link) = shared.bad.get(&from).or(shared.bad.get(&to)).copied() else { return Delivery::Normal };
        shared.risked += 1;
        let drawn = shared.risked.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        if drawn % 100 < link.loss {
            Delivery::Hold(u64::MAX)
        } else {
            Delivery::Delayed(Micros::from_millis(link.delay - LATENCY))
        }
    }
}
