//! A committee of `Slots` on virtual time. Every link takes [`DELAY`] unless a test changes it; disks take no time.

use corniche_autobahn::{
    AutobahnVerifier, Config, Lanes, Signatures, Signer, Slots,
    message::{Availability, CommitQc, Context, Cut, Message, Position, Proof, Slot, Statement, Tip, View},
    rules::Schedule,
    slots::{Effect, Input, RecordId, Setup, SlotRecord},
};
use corniche_autobahn_testing::{FakeKeys, FakeSignatures, committee_of};
use corniche_engine::{Committee, Recipients, TraceEvent, Verifier};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// One message delay, ms.
pub const DELAY: u64 = 10;

/// Delay of a message in ms, or `None` if it is lost.
pub type Link = Box<dyn FnMut(u64, ValidatorIndex, ValidatorIndex, &Message) -> Option<u64>>;
/// A Byzantine validator: reacts to a received message. It sends through the net like all others.
pub type Double = Box<dyn FnMut(&mut Transport, ValidatorIndex, &Message)>;

pub struct Net {
    pub config: Config,
    pub committee: Committee,
    pub context: Context,
    verifier: AutobahnVerifier,
    pub now: u64,
    pub nodes: Vec<Node>,
    /// Signers of their own, from the next start on.
    pub signers: BTreeMap<usize, Arc<dyn Signer>>,
    pub link: Link,
    /// Time until a record is durable, ms.
    pub disk: u64,
    doubles: BTreeMap<ValidatorIndex, Double>,
    pub transport: Transport,
    disks: BTreeMap<(u64, u64), (usize, usize, RecordId)>,
    /// The value of each slot at its first commit.
    pub values: BTreeMap<Slot, B256>,
    /// Number of sent messages, by kind.
    pub sent: BTreeMap<&'static str, usize>,
}

/// Messages in transit.
#[derive(Default)]
pub struct Transport {
    pub now: u64,
    sequence: u64,
    outbox: Vec<(ValidatorIndex, ValidatorIndex, Message)>,
    queue: BTreeMap<(u64, u64), (ValidatorIndex, ValidatorIndex, Message)>,
}

impl Transport {
    pub fn send(&mut self, from: ValidatorIndex, to: ValidatorIndex, message: Message) {
        self.outbox.push((from, to, message));
    }
}

#[derive(Default)]
pub struct Node {
    pub slots: Option<Slots>,
    pub lanes: ModelLanes,
    /// Durable records.
    pub disk: Vec<SlotRecord>,
    written: BTreeMap<RecordId, SlotRecord>,
    incarnation: usize,
    /// Its disk was lost once.
    pub forgetful: bool,
    /// Slots delivered in this incarnation.
    handed: BTreeSet<Slot>,
    /// Commits, durable at once, with their time.
    pub commits: BTreeMap<Slot, (Arc<Cut>, CommitQc, u64)>,
    pub notes: Vec<(u64, String, String)>,
    pub accused: BTreeSet<ValidatorIndex>,
    pub fetched: Vec<Tip>,
}

/// One validator's knowledge of the lanes.
#[derive(Default)]
pub struct ModelLanes {
    pub certified: BTreeMap<ValidatorIndex, Availability>,
    pub optimistic: BTreeMap<ValidatorIndex, (Tip, Option<Availability>)>,
    pub held: BTreeSet<Tip>,
}

impl Lanes for ModelLanes {
    fn certified(&self, lane: ValidatorIndex) -> Option<&Availability> {
        self.certified.get(&lane)
    }

    fn optimistic(&self, lane: ValidatorIndex) -> Option<(Tip, Option<&Availability>)> {
        self.optimistic.get(&lane).map(|(tip, parent)| (*tip, parent.as_ref()))
    }

    fn is_certified(&self, tip: &Tip) -> bool {
        self.certified.get(&tip.lane).is_some_and(|known| known.tip == *tip)
    }

    fn may_vote_strongly(&self, tip: &Tip) -> bool {
        self.held.contains(tip) || self.certified.get(&tip.lane).is_some_and(|known| known.tip == *tip)
    }

    fn learn(&mut self, certificate: &Availability) {
        let known = self.certified.get(&certificate.tip.lane);
        if known.is_none_or(|known| known.tip.position < certificate.tip.position) {
            self.certified.insert(certificate.tip.lane, certificate.clone());
        }
    }
}

pub fn index(number: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(number).expect("the committee size fits the index type"))
}

/// Without optional features that change the cost of a slot: all tips certified, and timers far from a message delay.
pub fn plain() -> Config {
    let (leader_tips, optimistic_tips) = (false, false);
    Config { leader_tips, optimistic_tips, coverage_wait_ms: 0, fast_wait_ms: 5, ..Config::default() }
}

impl Net {
    pub fn new(size: usize, config: Config) -> Self {
        Self::with_votes(&vec![1; size], config)
    }

    pub fn with_votes(votes: &[u32], config: Config) -> Self {
        let (committee, size) = (committee_of(votes), votes.len());
        let context = Context::new(&committee);
        let mut net = Self {
            verifier: AutobahnVerifier::new(config.clone(), committee.clone(), Arc::new(FakeSignatures)),
            context,
            committee,
            config,
            now: 0,
            nodes: (0..size).map(|_| Node::default()).collect(),
            signers: BTreeMap::new(),
            link: Box::new(|_, _, _, _| Some(DELAY)),
            disk: 0,
            doubles: BTreeMap::new(),
            transport: Transport::default(),
            disks: BTreeMap::new(),
            values: BTreeMap::new(),
            sent: BTreeMap::new(),
        };
        (0..size).for_each(|node| net.start(node));
        net
    }

    /// Starts a validator from its disk; memory and data that was not durable are lost.
    pub fn start(&mut self, node: usize) {
        let commits: BTreeMap<_, _> = self.nodes[node].commits.clone();
        let committed = (1..).map(Slot).take_while(|slot| commits.contains_key(slot)).last().unwrap_or_default();
        let anchors =
            commits.values().filter(|(cut, ..)| cut.slot <= committed && cut.slot.0 + self.config.open_slots > committed.0);
        let own: Arc<dyn Signer> = Arc::new(FakeKeys(index(node)));
        let setup = Setup {
            config: self.config.clone(),
            committee: self.committee.clone(),
            signer: Some(self.signers.get(&node).cloned().unwrap_or(own)),
            signatures: Arc::new(FakeSignatures),
            committed,
            anchors: anchors.map(|(cut, ..)| Cut::clone(cut)).collect(),
            commits: commits.values().map(|(cut, certificate, _)| (Cut::clone(cut), certificate.clone())).collect(),
            records: self.nodes[node].disk.clone(),
            now: TimestampMs(self.now),
        };
        self.nodes[node].slots = Some(Slots::new(setup));
        self.nodes[node].incarnation += 1;
        self.nodes[node].written.clear();
        self.nodes[node].handed.clear();
        self.drain(node);
        // Its later signatures must agree with the records: the lanes are unchanged.
        self.give(node, Input::Lanes);
    }

    pub fn crash(&mut self, node: usize) {
        self.nodes[node].slots = None;
    }

    /// Makes this validator Byzantine from now on.
    pub fn corrupt(&mut self, node: usize, double: Double) {
        self.crash(node);
        self.doubles.insert(index(node), double);
    }

    pub fn is_correct(&self, node: usize) -> bool {
        !self.doubles.contains_key(&index(node))
    }

    // ---- lanes -----------------------------------------------------------------------------------------------------

    pub fn tip(&self, lane: usize, position: u64) -> Tip {
        tip(&self.context, lane, position)
    }

    pub fn certificate(&self, tip: Tip) -> Availability {
        let digest = self.context.statement(&Statement::CarVote(tip));
        let signers = self.committee.take_votes(self.committee.indices(), self.committee.validity());
        let shares: Vec<_> = signers.iter().map(|signer| (*signer, FakeKeys(*signer).share_digest(&digest))).collect();
        let seal = FakeSignatures.combine(&shares).expect("well-formed");
        Availability { tip, proof: Proof { signers, seal } }
    }

    /// Tells these validators that a lane's car is certified.
    pub fn certify(&mut self, lane: usize, position: u64, at: &[usize]) {
        let certificate = self.certificate(self.tip(lane, position));
        for node in at {
            self.nodes[*node].lanes.learn(&certificate);
            self.give(*node, Input::Lanes);
        }
    }

    /// The next car of every lane is certified at all validators.
    pub fn grow(&mut self) {
        let all: Vec<_> = (0..self.nodes.len()).collect();
        let highest =
            |lane| self.nodes.iter().filter_map(|node| node.lanes.certified.get(&lane)).map(|it| it.tip.position.0).max();
        let next: Vec<_> = self.committee.indices().map(|lane| highest(lane).unwrap_or(0) + 1).collect();
        for (lane, position) in next.into_iter().enumerate() {
            let certificate = self.certificate(self.tip(lane, position));
            all.iter().for_each(|node| self.nodes[*node].lanes.learn(&certificate));
        }
        all.iter().for_each(|node| self.give(*node, Input::Lanes));
    }

    // ---- time ------------------------------------------------------------------------------------------------------

    pub fn give(&mut self, node: usize, input: Input) {
        let Node { slots: Some(slots), lanes, .. } = &mut self.nodes[node] else { return };
        slots.handle(TimestampMs(self.now), lanes, input);
        self.drain(node);
    }

    fn drain(&mut self, node: usize) {
        let me = index(node);
        let mut behind = BTreeSet::new();
        while let Some(effect) = self.nodes[node].slots.as_mut().and_then(Slots::poll) {
            match effect {
                Effect::Persist { id, record } => {
                    self.nodes[node].written.insert(id, *record);
                    self.transport.sequence += 1;
                    let incarnation = self.nodes[node].incarnation;
                    self.disks.insert((self.now + self.disk, self.transport.sequence), (node, incarnation, id));
                }
                Effect::Send { to: Recipients::All, message } => {
                    for peer in (0..self.nodes.len()).map(index).filter(|peer| *peer != me) {
                        self.transport.send(me, peer, Message::clone(&message));
                    }
                }
                Effect::Send { to: Recipients::One(peer), message } => {
                    assert_ne!(peer, me, "nobody sends to itself");
                    self.transport.send(me, peer, *message);
                }
                Effect::Committed { cut, certificate } => self.note_commit(node, cut, certificate),
                Effect::FetchTip { tip, .. } => self.nodes[node].fetched.push(tip),
                Effect::Requested { peer, request } => {
                    assert_ne!(peer, me, "nobody asks itself");
                    let response = self.nodes[node].slots.as_ref().and_then(|slots| slots.response(request));
                    response.into_iter().for_each(|message| self.transport.send(me, peer, message));
                }
                Effect::Accuse { validator, .. } => {
                    assert!(!self.is_correct(validator.as_usize()), "N10: {validator:?} is correct");
                    self.nodes[node].accused.insert(validator);
                }
                Effect::LostVote { slot } => {
                    assert!(self.nodes[node].forgetful, "R4: validator {node} lost its vote in {slot:?}")
                }
                Effect::Behind { .. } => drop(behind.insert(node)),
                Effect::Lagging { peer, .. } => drop(behind.insert(peer.as_usize())),
                Effect::ConflictingCommits { certificates } => panic!("validator {node} sees {certificates:?}"),
                Effect::Trace(TraceEvent::Note { name, detail }) => self.nodes[node].notes.push((self.now, name, detail)),
                Effect::Sync { .. } | Effect::Trace(_) => {}
            }
        }
        self.post();
        behind.into_iter().for_each(|node| self.catch_up(node));
    }

    /// Catches up like an engine that is behind, without delay.
    pub fn catch_up(&mut self, node: usize) {
        let known = &self.nodes[node].commits;
        let lacks = |(slot, (cut, certificate, _)): (&Slot, &(Arc<Cut>, CommitQc, u64))| {
            (!known.contains_key(slot)).then(|| (*slot, (Cut::clone(cut), certificate.clone())))
        };
        let missing: BTreeMap<_, _> = self.nodes.iter().flat_map(|node| node.commits.iter().filter_map(lacks)).collect();
        self.give(node, Input::CaughtUp(missing.into_values().collect()));
    }

    /// Invariant (a): one value per slot.
    fn note_commit(&mut self, node: usize, cut: Arc<Cut>, certificate: CommitQc) {
        let (slot, value) = (cut.slot, certificate.cut);
        assert_eq!(value, self.context.cut(&cut));
        let first = *self.values.entry(slot).or_insert(value);
        assert_eq!(first, value, "validator {node} commits another value in {slot:?} at {} ms", self.now);
        if let Some(anchor) = slot.0.checked_sub(self.config.open_slots).filter(|anchor| *anchor > 0) {
            assert_eq!(cut.anchor, self.values[&Slot(anchor)], "P14: {slot:?} stands on another value");
        }
        assert!(self.nodes[node].handed.insert(slot), "validator {node} hands {slot:?} over twice");
        self.nodes[node].commits.entry(slot).or_insert((cut, certificate, self.now));
    }

    fn post(&mut self) {
        for (from, to, message) in std::mem::take(&mut self.transport.outbox) {
            *self.sent.entry(kind(&message)).or_default() += 1;
            let accepted = self.verifier.verify(from, &message.encode()).is_ok();
            assert!(accepted || !self.is_correct(from.as_usize()), "correct {from:?} sends what nobody accepts: {message:?}");
            if !accepted {
                continue;
            }
            if let Some(delay) = (self.link)(self.now, from, to, &message) {
                self.transport.sequence += 1;
                self.transport.queue.insert((self.now + delay, self.transport.sequence), (from, to, message));
            }
        }
    }

    /// Processes the next event up to `until`. Returns false if no event is left.
    pub fn step(&mut self, until: u64) -> bool {
        let deadlines = (0..self.nodes.len()).filter_map(|node| Some((self.nodes[node].slots.as_ref()?.deadline()?.0, node)));
        // Disks first, then messages, then timers.
        let disk = self.disks.keys().next().map(|(at, _)| (*at, 0));
        let transport = self.transport.queue.keys().next().map(|(at, _)| (*at, 1));
        let timer = deadlines.min();
        let next = [disk, transport, timer.map(|(at, _)| (at, 2))].into_iter().flatten().min();
        let Some((at, which)) = next.filter(|(at, _)| *at <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(at);
        self.transport.now = self.now;
        match which {
            0 => {
                let (_, (node, incarnation, id)) = self.disks.pop_first().expect("it was looked at");
                if self.nodes[node].incarnation == incarnation && self.nodes[node].slots.is_some() {
                    let record = self.nodes[node].written.remove(&id).expect("it was written in this life");
                    let disk = &mut self.nodes[node].disk;
                    disk.retain(|old| old.slot != record.slot);
                    disk.push(record);
                    self.give(node, Input::Durable(id));
                }
            }
            1 => {
                let (_, (from, to, message)) = self.transport.queue.pop_first().expect("it was looked at");
                self.deliver(from, to, message);
            }
            _ => {
                let (_, node) = timer.expect("it was looked at");
                self.give(node, Input::Deadline);
                let next = self.nodes[node].slots.as_ref().and_then(Slots::deadline);
                assert!(next.is_none_or(|next| next.0 > self.now), "a timer of validator {node} fires in a loop");
            }
        }
        true
    }

    fn deliver(&mut self, from: ValidatorIndex, to: ValidatorIndex, message: Message) {
        if let Some(mut double) = self.doubles.remove(&to) {
            double(&mut self.transport, from, &message);
            self.doubles.insert(to, double);
            return self.post();
        }
        let node = to.as_usize();
        if let Message::Available(certificate) = message {
            self.nodes[node].lanes.learn(&certificate);
            return self.give(node, Input::Lanes);
        }
        match message {
            // Behaviour of engines.
            Message::FetchCommits { above } => {
                let known = self.nodes[node].commits.range(Slot(above.0 + 1)..);
                let commits = known.map(|(_, (cut, certificate, _))| (Cut::clone(cut), certificate.clone())).collect();
                self.transport.send(to, from, Message::Commits(commits));
                self.post();
            }
            Message::Commits(commits) => self.give(node, Input::CaughtUp(commits)),
            message => self.give(node, Input::Message { from, message: Box::new(message) }),
        }
    }

    pub fn run_for(&mut self, ms: u64) {
        let until = self.now + ms;
        while self.step(until) {}
    }

    /// Returns true if `done` became true within `ms`.
    pub fn run_until(&mut self, ms: u64, done: impl Fn(&Self) -> bool) -> bool {
        let until = self.now + ms;
        while !done(self) {
            if !self.step(until) {
                return done(self);
            }
        }
        true
    }

    // ---- queries of tests ------------------------------------------------------------------------------------------

    pub fn running(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes.len()).filter(|node| self.nodes[*node].slots.is_some())
    }

    /// Returns true if no validator waits for anything.
    pub fn is_idle(&self) -> bool {
        let is_quiet = |node: &Node| node.slots.as_ref().is_none_or(|slots| slots.deadline().is_none());
        self.transport.queue.is_empty() && self.disks.is_empty() && self.nodes.iter().all(is_quiet)
    }

    /// Sends a message for a double.
    pub fn send(&mut self, from: usize, to: usize, message: Message) {
        self.transport.send(index(from), index(to), message);
        self.post();
    }

    /// Returns true if every running validator has committed this slot.
    pub fn all_committed(&self, slot: u64) -> bool {
        self.running().all(|node| self.nodes[node].commits.contains_key(&Slot(slot)))
    }

    /// Debug output for failures.
    pub fn describe(&self) -> String {
        let node = |(number, node): (usize, &Node)| {
            let of = |record: &SlotRecord| (record.slot.0, record.view.0, record.timed_out, record.voted.map(|it| it.0.0));
            let records: Vec<_> = node.disk.iter().filter(|it| !node.commits.contains_key(&it.slot)).map(of).collect();
            let through = node.slots.as_ref().map(|slots| (slots.committed().0, slots.deadline()));
            let notes = node.notes.iter().rev().take(9).collect::<Vec<_>>();
            format!("{number}: committed, deadline {through:?}; (slot, view, timed out, voted) {records:?}; {notes:?}\n")
        };
        format!("{} ms\n", self.now) + &self.nodes.iter().enumerate().map(node).collect::<String>()
    }

    pub fn leader(&self, slot: u64, view: u32) -> usize {
        Schedule::new(&self.committee, &self.config).leader(Slot(slot), View(view)).as_usize()
    }

    pub fn leads(&self, node: usize, slot: u64, view: u32) -> bool {
        self.leader(slot, view) == node
    }

    /// Time at which a validator committed a slot, ms.
    pub fn committed_at(&self, node: usize, slot: u64) -> Option<u64> {
        self.nodes[node].commits.get(&Slot(slot)).map(|(.., at)| *at)
    }

    /// Times and details of notes with this name.
    pub fn noted(&self, node: usize, name: &str) -> Vec<(u64, String)> {
        let named = self.nodes[node].notes.iter().filter(|(_, noted, _)| noted == name);
        named.map(|(at, _, detail)| (*at, detail.clone())).collect()
    }

    /// Time at which a slot was first proposed in this view, by any validator.
    pub fn proposed_at(&self, slot: u64, view: u32) -> Option<u64> {
        let wanted = format!("slot {slot} view {view}");
        let prepares = (0..self.nodes.len()).flat_map(|node| self.noted(node, "prepare"));
        prepares.filter(|(_, detail)| *detail == wanted).map(|(at, _)| at).min()
    }
}

pub fn tip(context: &Context, lane: usize, position: u64) -> Tip {
    let lane = index(lane);
    let digest = match position {
        0 => context.lane_start(lane),
        _ => B256::from(*blake3::hash(format!("car {lane:?} {position}").as_bytes()).as_bytes()),
    };
    Tip { lane, position: Position(position), digest }
}

pub fn kind(message: &Message) -> &'static str {
    match message {
        Message::Prepare(_) => "prepare",
        Message::PrepareVote { .. } => "prepared",
        Message::Confirm(_) => "confirm",
        Message::ConfirmAck(_) => "confirmed",
        Message::Commit(_) => "commit",
        Message::Timeout(_) => "timeout",
        Message::TimeoutQc(_) => "timed-out",
        Message::FetchCut { .. } => "fetch-cut",
        Message::Cut(_) => "cut",
        _ => "other",
    }
}
