//! A committee of engines on virtual time, with a controllable network and a record of all events.

use corniche_autobahn::{
    Autobahn, AutobahnVerifier, Config, Setup, Signatures, Signer,
    message::{Message, Position},
};
use corniche_autobahn_testing::{FakeKeys, FakeSignatures, committee};
use corniche_engine::{
    Batch, Committee, Engine, Input, Offence, Ordered, Output, Recipients, Resume, Ticket, TraceEvent, Verifier,
};
use corniche_testkit::{Action, Adversary, Delivery, DiskModel, Event, Links, Micros, Process, Simulation, View};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, wire};
use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    rc::Rc,
    sync::Arc,
};

/// One message delay, ms.
pub const DELAY: u64 = 10;

/// State that survives a power cut.
#[derive(Clone, Default)]
pub struct Disk {
    pub records: BTreeMap<Ticket, Bytes>,
    pub resume: Resume,
    /// Nothing was ever signed by this validator.
    pub unsigned: bool,
}

/// How far each validator's clock is ahead of the time, ms. An incarnation's own time never goes back.
type Clocks = Rc<RefCell<Vec<i64>>>;

/// One validator, and a record of its actions.
pub struct Node {
    me: ValidatorIndex,
    size: usize,
    clocks: Clocks,
    pub engine: Autobahn,
    verifier: Arc<AutobahnVerifier>,
    pub disk: Disk,
    unsynced: BTreeMap<Ticket, Bytes>,
    actions: VecDeque<Action<Bytes>>,
    wants: bool,
    queue: VecDeque<String>,
    /// True while a batch is always ready.
    pub endless: bool,
    batches: usize,
    pub log: Vec<(Micros, Ordered)>,
    pub sent: Vec<(Micros, Recipients, Message)>,
    pub traced: Vec<TraceEvent>,
    pub available: Vec<(ValidatorIndex, Batch)>,
    pub accused: Vec<(ValidatorIndex, Offence)>,
    pub requeued: Vec<Batch>,
    pub refused: Vec<String>,
}

impl Node {
    /// Time on its clock.
    fn clock(&self, now: Micros) -> TimestampMs {
        TimestampMs(now.timestamp().0.saturating_add_signed(self.ahead_ms()))
    }

    fn ahead_ms(&self) -> i64 {
        self.clocks.borrow()[self.me.as_usize()]
    }

    fn drain(&mut self, now: Micros) {
        loop {
            while let Some(output) = self.engine.poll() {
                self.perform(now, output);
            }
            if !self.wants || self.queue.is_empty() && !self.endless {
                return;
            }
            self.wants = false;
            self.batches += 1;
            let ready: Vec<_> = self.queue.drain(..).collect();
            let text = if ready.is_empty() { format!("v{}b{}", self.me, self.batches) } else { ready.join(" ") };
            self.engine.handle(self.clock(now), Input::Batch(Batch { bytes: text.into_bytes().into() }));
        }
    }

    fn perform(&mut self, now: Micros, output: Output) {
        match output {
            Output::WantBatch { .. } => self.wants = true,
            Output::Send { to, message } => {
                self.sent.push((now, to, wire::decode(&message).unwrap()));
                let all: Vec<_> = match to {
                    Recipients::All => (0..self.size).filter(|peer| *peer != self.me.as_usize()).collect(),
                    Recipients::One(peer) => vec![peer.as_usize()],
                };
                let bytes = message.len();
                self.actions.extend(all.into_iter().map(|to| Action::Send { to, message: message.clone(), bytes }));
            }
            Output::Persist(ticket, record) => {
                self.actions.push_back(Action::Write { id: ticket.0, bytes: record.len() });
                self.unsynced.insert(ticket, record);
            }
            Output::ReleaseBelow(ticket) => self.disk.records = self.disk.records.split_off(&ticket),
            Output::Deliver(ordered) => {
                self.disk.resume = Resume { index: ordered.index, checkpoint: ordered.checkpoint.clone() };
                self.log.push((now, ordered));
            }
            Output::Available { author, batch } => self.available.push((author, batch)),
            Output::Requeue(batch) => self.requeued.push(batch),
            Output::Accuse { validator, offence, .. } => self.accused.push((validator, offence)),
            Output::Trace(event) => self.traced.push(event),
        }
    }

    /// Time of the delivery of this text.
    pub fn delivered_at(&self, text: &str) -> Option<Micros> {
        let holds = |ordered: &Ordered| texts(ordered).iter().any(|delivered| delivered == text);
        self.log.iter().find(|(_, ordered)| holds(ordered)).map(|(at, _)| *at)
    }

    pub fn position(&self, lane: usize) -> [u64; 3] {
        self.engine.positions(index(lane)).map(|Position(position)| position)
    }

    /// Number of sent messages of one kind.
    pub fn count(&self, wanted: impl Fn(&Message) -> bool) -> usize {
        self.sent.iter().filter(|(_, _, message)| wanted(message)).count()
    }
}

/// All texts in a commit, in order.
pub fn texts(ordered: &Ordered) -> Vec<String> {
    let all = ordered.batches.iter().map(|(_, batch)| String::from_utf8(batch.bytes.to_vec()).unwrap());
    all.flat_map(|text| text.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect()
}

impl Process for Node {
    type Message = Bytes;
    type Disk = Disk;

    fn handle(&mut self, now: Micros, event: Event<Bytes>) {
        let input = match event {
            Event::Up(peer) => Input::PeerUp(index(peer)),
            Event::Down(peer) => Input::PeerDown(index(peer)),
            Event::Message { from, message } => match self.verifier.verify(index(from), &message) {
                Ok(message) => Input::Message { from: index(from), message },
                Err(fault) => return self.refused.push(fault.0),
            },
            Event::Written(id) => {
                let record = self.unsynced.remove(&Ticket(id)).unwrap();
                self.disk.records.insert(Ticket(id), record);
                Input::Durable(Ticket(id))
            }
            Event::Deadline => Input::Deadline,
        };
        self.engine.handle(self.clock(now), input);
        self.drain(now);
    }

    fn poll(&mut self) -> Option<Action<Bytes>> {
        self.actions.pop_front()
    }

    fn deadline(&self) -> Option<Micros> {
        let at = self.engine.deadline()?.0.saturating_add_signed(-self.ahead_ms());
        Some(Micros::from_timestamp(TimestampMs(at)))
    }

    fn power_off(self) -> Disk {
        self.disk
    }
}

pub fn index(node: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(node).unwrap())
}

/// Decides the fate of a message: `(now, from, to, message)`.
pub type Rule = Box<dyn FnMut(Micros, usize, usize, &Message) -> Delivery>;

struct RuleAdversary(Rule);

impl Adversary<Bytes> for RuleAdversary {
    fn delivery(&mut self, view: &mut View<'_>, from: usize, to: usize, message: &Bytes) -> Delivery {
        (self.0)(view.now, from, to, &wire::decode(message).unwrap())
    }
}

/// The message never arrives.
pub const LOST: Delivery = Delivery::Hold(u64::MAX);

pub struct Cluster {
    pub simulation: Simulation<Node>,
    pub clocks: Clocks,
    pub committee: Committee,
}

/// Long timers, and no waiting for others: only the network determines the run.
pub fn plain() -> Config {
    Config {
        coverage: 1,
        car_interval_ms: 0,
        view_timeout_ms: 2_000,
        fast_wait_ms: 2 * DELAY,
        status_ms: 60_000,
        ..Config::default()
    }
}

impl Cluster {
    /// All validators run, and their first greetings are done.
    pub fn new(size: usize, config: Config) -> Self {
        let links = Links::uniform(size, Micros::from_millis(DELAY));
        let mut cluster = Self::on(links, config);
        cluster.simulation.start_all();
        cluster.run_for(5 * DELAY);
        cluster
    }

    /// All validators are powered off.
    pub fn on(links: Links, config: Config) -> Self {
        let size = links.size();
        let signers = (0..size).map(|node| Arc::new(FakeKeys(index(node))) as Arc<dyn Signer>).collect();
        Self::with_keys(links, config, committee(size), signers, Arc::new(FakeSignatures))
    }

    /// All validators are powered off; the test chooses the keys.
    pub fn with_keys(
        links: Links,
        config: Config,
        committee: Committee,
        signers: Vec<Arc<dyn Signer>>,
        signatures: Arc<dyn Signatures>,
    ) -> Self {
        let (members, size) = (committee.clone(), links.size());
        let clocks = Clocks::new(RefCell::new(vec![0; size]));
        let their_clocks = clocks.clone();
        let start = move |node: usize, disk: Disk, now: Micros, seed: u64| {
            let mut node = Node {
                me: index(node),
                size,
                clocks: their_clocks.clone(),
                engine: Autobahn::new(Setup {
                    config: config.clone(),
                    committee: members.clone(),
                    signer: Some(signers[node].clone()),
                    signatures: signatures.clone(),
                    seed,
                    records: disk.records.clone().into_iter().collect(),
                    unsigned: disk.unsigned,
                    resume: disk.resume.clone(),
                    now: TimestampMs(now.timestamp().0.saturating_add_signed(their_clocks.borrow()[node])),
                }),
                verifier: Arc::new(AutobahnVerifier::new(config.clone(), members.clone(), signatures.clone())),
                disk,
                unsynced: BTreeMap::new(),
                actions: VecDeque::new(),
                wants: false,
                queue: VecDeque::new(),
                endless: false,
                batches: 0,
                log: Vec::new(),
                sent: Vec::new(),
                traced: Vec::new(),
                available: Vec::new(),
                accused: Vec::new(),
                requeued: Vec::new(),
                refused: Vec::new(),
            };
            node.drain(now);
            node
        };
        let disks = DiskModel { sync: Micros::ZERO, rate: None };
        Self { simulation: Simulation::new(links, disks, 1, Box::new(start)), clocks, committee }
    }

    pub fn size(&self) -> usize {
        self.committee.size()
    }

    pub fn node(&self, node: usize) -> &Node {
        self.simulation.process(node).unwrap()
    }

    pub fn submit(&mut self, node: usize, text: &str) {
        let now = self.simulation.now();
        self.simulation.with(node, |node| {
            node.queue.push_back(text.to_owned());
            node.drain(now);
        });
    }

    /// Turns the endless supply of batches on or off.
    pub fn load(&mut self, nodes: impl IntoIterator<Item = usize>, endless: bool) {
        let now = self.simulation.now();
        for node in nodes {
            self.simulation.with(node, |node| {
                node.endless = endless;
                node.drain(now);
            });
        }
    }

    pub fn set_rule(&mut self, rule: impl FnMut(Micros, usize, usize, &Message) -> Delivery + 'static) {
        self.simulation.set_adversary(Some(Box::new(RuleAdversary(Box::new(rule)))));
    }

    /// Removes the rule. Held and lost messages arrive now.
    pub fn clear_rule(&mut self) {
        self.simulation.set_adversary(None);
    }

    /// Runs, and then tells every validator what a quorum has executed, as a pipeline does with certificates.
    pub fn run_for(&mut self, ms: u64) {
        self.simulation.run_for(Micros::from_millis(ms));
        let up: Vec<usize> = (0..self.size()).filter(|node| self.simulation.process(*node).is_some()).collect();
        let mut executed: Vec<_> = up.iter().map(|node| self.node(*node).disk.resume.index).collect();
        executed.sort_unstable_by(|a, b| b.cmp(a));
        let Some(certified) = executed.get(self.committee.quorum() - 1).copied() else { return };
        let now = self.simulation.now();
        for node in up {
            self.simulation.with(node, |node| {
                let certified = certified.min(node.disk.resume.index);
                node.engine.handle(node.clock(now), Input::Certified(certified));
                node.drain(now);
            });
        }
    }

    /// Runs until all `nodes` delivered `text`, at most ten seconds. Returns the number of delays after `since`.
    pub fn delays_until(&mut self, since: Micros, text: &str, nodes: &[usize]) -> u64 {
        let end = self.simulation.now() + Micros::from_seconds(10);
        let done = |simulation: &Simulation<Node>| {
            nodes.iter().all(|node| simulation.process(*node).unwrap().delivered_at(text).is_some())
        };
        assert!(self.simulation.run_until_done(end, done), "{text} was not delivered");
        let last = nodes.iter().map(|node| self.node(*node).delivered_at(text).unwrap()).max().unwrap();
        let took = (last - since).0;
        assert_eq!(took % (DELAY * 1_000), 0, "{took} µs are no whole delays");
        took / (DELAY * 1_000)
    }

    /// Checks safety: equal logs, as far as both go, and no rejection or accusation of a correct validator.
    pub fn check(&self) {
        let logs: Vec<BTreeMap<u64, &Ordered>> = (0..self.size())
            .filter_map(|node| self.simulation.process(node))
            .map(|node| node.log.iter().map(|(_, ordered)| (ordered.index.0, ordered)).collect())
            .collect();
        for log in &logs {
            for (at, ordered) in log {
                logs.iter().filter_map(|other| other.get(at)).for_each(|other| assert_eq!(other, ordered));
            }
        }
        for node in (0..self.size()).filter_map(|node| self.simulation.process(node)) {
            assert!(node.refused.is_empty() && node.accused.is_empty(), "{:?} {:?}", node.refused, node.accused);
        }
    }
}

/// Returns true for a message of the slots, not of the lanes.
pub fn is_about_slots(message: &Message) -> bool {
    matches!(
        message,
        Message::Prepare(_)
            | Message::PrepareVote { .. }
            | Message::Confirm(_)
            | Message::ConfirmAck(_)
            | Message::Commit(_)
            | Message::Timeout(_)
            | Message::TimeoutQc(_)
    )
}
