//! A cluster whose test knows the engine: it reads the engine's state, scripts its messages, and sees all that happened.

use crate::{
    Adversary, Delivery, DiskModel, EngineDisk, EngineHost, Event, Group, HostSetup, Links, Micros, Outbox, Packet, Process,
    Records, Sending, Simulation, Surroundings, View,
    engine_host::{clock, index},
};
use corniche_engine::{
    Batch, Committee, Engine, Input, Offence, Ordered, Output, Recipients, Resume, Ticket, TraceEvent, Verifier,
};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
    sync::Arc,
};

/// One engine of one committee, with what only its scenarios know. All validators of a cluster share it.
pub trait Subject: 'static {
    type Engine: Engine;
    type Message: Clone;
    /// True if users submit the contents of returned batches again.
    const RESUBMITS: bool;
    /// False if no scenario reads [`Observed::sent`]: long runs send much.
    const RECORDS_SENT: bool = true;

    fn committee(&self) -> &Committee;
    fn start(&mut self, me: usize, start: EngineStart) -> Self::Engine;
    fn verifier(&self) -> Arc<dyn Verifier>;

    /// The multicast group, if the engine has one.
    fn group(&self) -> Option<Rc<RefCell<dyn Group>>> {
        None
    }

    /// Decodes a message of an engine.
    fn decode(message: &Bytes) -> Self::Message;

    /// Returns what is sent instead of a message, with its recipients.
    fn on_send(&mut self, sending: &Sending<'_>, _message: &Self::Message) -> Vec<(Vec<usize>, Bytes)> {
        vec![(sending.to.to_vec(), sending.message.clone())]
    }

    /// A validator accuses another one.
    fn on_accused(&mut self, _validator: ValidatorIndex, _offence: Offence, _evidence: &[Bytes]) {}

    /// The verifier refused a message of this validator.
    fn on_refused(&mut self, _from: usize, _fault: &str) {}
}

/// Initial state of an engine. Keys and parameters come from the subject.
pub struct EngineStart {
    pub seed: u64,
    pub records: Vec<(Ticket, Bytes)>,
    pub unsigned: bool,
    pub resume: Resume,
    pub now: TimestampMs,
}

/// Everything that a validator did. The last six fields are about the time since its last start.
#[derive(Clone)]
pub struct Observed<M> {
    /// Last delivered commit, from which the next start continues.
    pub resume: Resume,
    /// Every commit at its first delivery.
    pub log: Vec<(Micros, Ordered)>,
    /// Transactions that no batch contains yet.
    pub queue: VecDeque<String>,
    pub sent: Vec<(Micros, Recipients, M)>,
    pub traced: Vec<TraceEvent>,
    pub available: Vec<(ValidatorIndex, Batch)>,
    pub accused: Vec<(ValidatorIndex, Offence)>,
    /// Number of accusations with evidence that convicts.
    pub proven: usize,
    pub requeued: Vec<Batch>,
    /// Members that propose, since the engine said so.
    pub proposers: Option<BTreeSet<ValidatorIndex>>,
    pub refused: Vec<String>,
}

impl<M> Default for Observed<M> {
    fn default() -> Self {
        let (resume, log, queue, sent, traced) = Default::default();
        let (available, accused, requeued, refused) = Default::default();
        Self { resume, log, queue, sent, traced, available, accused, proven: 0, requeued, proposers: None, refused }
    }
}

impl<M> Observed<M> {
    fn restarted(self) -> Self {
        Self { resume: self.resume, log: self.log, queue: self.queue, ..Self::default() }
    }

    fn deliver(&mut self, now: Micros, ordered: Ordered) {
        self.resume = resume_after(&ordered);
        let first = self.log.first().map_or(ordered.index, |(_, first)| first.index);
        let Some(place) = ordered.index.0.checked_sub(first.0) else { return };
        match self.log.get(place as usize) {
            Some((_, before)) => assert_eq!(*before, ordered, "delivered differently after a restart"),
            None => {
                assert_eq!(
                    place as usize,
                    self.log.len(),
                    "commits have no gaps: {} after {} commits",
                    ordered.index,
                    self.log.len()
                );
                self.log.push((now, ordered));
            }
        }
    }

    /// Time of the delivery of this text.
    pub fn delivered_at(&self, text: &str) -> Option<Micros> {
        let holds = |ordered: &Ordered| texts(ordered).iter().any(|delivered| delivered == text);
        self.log.iter().find(|(_, ordered)| holds(ordered)).map(|(at, _)| *at)
    }

    /// Number of sent messages of one kind.
    pub fn count(&self, wanted: impl Fn(&M) -> bool) -> usize {
        self.sent.iter().filter(|(_, _, message)| wanted(message)).count()
    }
}

/// All texts in a commit, in order.
pub fn texts(ordered: &Ordered) -> Vec<String> {
    let all = ordered.batches.iter().map(|(_, batch)| String::from_utf8_lossy(&batch.bytes).into_owned());
    all.flat_map(|text| text.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn resume_after(ordered: &Ordered) -> Resume {
    Resume { index: ordered.index, checkpoint: ordered.checkpoint.clone(), ..Resume::default() }
}

/// Lead of each validator's clock, ms. An incarnation's own time never goes back.
type Clocks = Rc<RefCell<Vec<i64>>>;

/// The surroundings of an engine in a [`ScenarioCluster`]: its users submit texts, and everything is recorded.
pub struct Recorder<S: Subject> {
    me: usize,
    subject: Rc<RefCell<S>>,
    clocks: Clocks,
    pub seen: Observed<S::Message>,
    /// True while a batch is always ready.
    endless: bool,
    batches: usize,
}

impl<S: Subject> Surroundings for Recorder<S> {
    type Engine = S::Engine;
    type Notes = Observed<S::Message>;

    fn clock_ahead_ms(&self) -> i64 {
        self.clocks.borrow()[self.me]
    }

    fn next_batch(&mut self) -> Option<Batch> {
        if self.seen.queue.is_empty() && !self.endless {
            return None;
        }
        self.batches += 1;
        let ready: Vec<_> = self.seen.queue.drain(..).collect();
        let text = if ready.is_empty() { format!("v{}b{}", self.me, self.batches) } else { ready.join(" ") };
        Some(Batch { bytes: text.into_bytes().into() })
    }

    fn on_send(&mut self, now: Micros, sending: Sending<'_>, outbox: &mut Outbox) {
        let message = S::decode(sending.message);
        let sent = self.subject.borrow_mut().on_send(&sending, &message);
        if S::RECORDS_SENT {
            self.seen.sent.push((now, sending.recipients, message));
        }
        sent.into_iter().for_each(|(to, message)| outbox.send(&to, message));
    }

    fn group(&self) -> Option<Rc<RefCell<dyn Group>>> {
        self.subject.borrow().group()
    }

    fn on_refused(&mut self, from: usize, fault: &str) {
        self.subject.borrow_mut().on_refused(from, fault);
        self.seen.refused.push(fault.to_owned());
    }

    fn on_ticket_reused(&mut self, ticket: Ticket) {
        panic!("validator {} used {ticket:?} twice", self.me);
    }

    fn on_output(&mut self, now: Micros, output: Output) {
        match output {
            Output::Deliver(ordered) => self.seen.deliver(now, ordered),
            Output::Available { author, batch } => self.seen.available.push((author, batch)),
            Output::Requeue(batch) => {
                if S::RESUBMITS {
                    self.seen.queue.push_front(String::from_utf8_lossy(&batch.bytes).into_owned());
                }
                self.seen.requeued.push(batch);
            }
            Output::Accuse { validator, offence, evidence, proof } => {
                self.subject.borrow_mut().on_accused(validator, offence, &evidence);
                self.seen.accused.push((validator, offence));
                self.seen.proven += usize::from(proof.is_some());
            }
            Output::Proposers(proposers) => self.seen.proposers = Some(proposers),
            Output::Trace(event) => self.seen.traced.push(event),
            Output::Twin(detail) => self.seen.traced.push(TraceEvent::note("twin", detail)),
            Output::WantBatch { .. } | Output::Send { .. } | Output::Persist(..) | Output::ReleaseBelow(_) => {}
            Output::Multicast(_) | Output::AskSequencer { .. } => {}
        }
    }

    fn into_notes(self) -> Self::Notes {
        self.seen
    }
}

/// One engine of a [`ScenarioCluster`].
pub type ScenarioNode<S> = EngineHost<Recorder<S>>;
/// Disk of a [`ScenarioNode`].
pub type ScenarioDisk<S> = EngineDisk<Observed<<S as Subject>::Message>>;

/// A committee of engines under the control of a test.
pub struct ScenarioCluster<S: Subject> {
    pub simulation: Simulation<ScenarioNode<S>>,
    pub subject: Rc<RefCell<S>>,
    pub clocks: Clocks,
    pub committee: Committee,
}

impl<S: Subject> ScenarioCluster<S> {
    /// All validators are powered off.
    pub fn new(subject: S, links: Links, seed: u64) -> Self {
        let committee = subject.committee().clone();
        let (size, subject) = (committee.size(), Rc::new(RefCell::new(subject)));
        let clocks = Clocks::new(RefCell::new(vec![0; size]));
        let start = {
            let (subject, clocks) = (subject.clone(), clocks.clone());
            Box::new(move |me, disk, now, seed| launch(&subject, &clocks, me, disk, now, seed))
        };
        let disks = DiskModel { sync: Micros::ZERO, rate: None };
        Self { simulation: Simulation::new(links, disks, seed, start), subject, clocks, committee }
    }

    pub fn size(&self) -> usize {
        self.committee.size()
    }

    /// The engine of a running validator.
    pub fn engine(&self, node: usize) -> &S::Engine {
        &self.simulation.process(node).expect("the validator is running").engine
    }

    /// Everything that a validator did, running or not.
    pub fn seen(&self, node: usize) -> &Observed<S::Message> {
        let running = self.simulation.process(node).map(|node| &node.surroundings.seen);
        running.or_else(|| Some(&self.simulation.stored(node)?.notes)).expect("a validator is on or off")
    }

    /// Durable records of a validator, running or not.
    pub fn records(&self, node: usize) -> &Records {
        let running = self.simulation.process(node).map(|node| &node.records);
        running.or_else(|| Some(&self.simulation.stored(node)?.records)).expect("a validator is on or off")
    }

    /// Disk of a validator that is off.
    pub fn disk(&mut self, node: usize) -> &mut ScenarioDisk<S> {
        self.simulation.disk(node).expect("the validator is off")
    }

    /// Resume point of a validator after its `commits`-th commit.
    pub fn resume_after(&self, node: usize, commits: usize) -> Resume {
        commits.checked_sub(1).map_or_else(Resume::default, |last| resume_after(&self.seen(node).log[last].1))
    }

    /// Powers a validator on, with its disk, at a resume point of the caller.
    pub fn restart_at(&mut self, node: usize, resume: Resume) {
        self.disk(node).notes.resume = resume;
        self.simulation.restart(node);
    }

    /// Submits a user's transaction to a validator, which gets it at its next start if it is off.
    pub fn submit(&mut self, node: usize, text: &str) {
        let now = self.simulation.now();
        match self.simulation.disk(node) {
            Some(disk) => disk.notes.queue.push_back(text.to_owned()),
            None => {
                _ = self.simulation.with(node, |node| {
                    node.surroundings.seen.queue.push_back(text.to_owned());
                    node.drain(now);
                })
            }
        }
    }

    /// Turns the endless supply of batches on or off, until the next restart.
    pub fn load(&mut self, nodes: impl IntoIterator<Item = usize>, endless: bool) {
        let now = self.simulation.now();
        for node in nodes {
            self.simulation.with(node, |node| {
                node.surroundings.endless = endless;
                node.drain(now);
            });
        }
    }

    /// Delivers this message to a running validator at once.
    pub fn receive(&mut self, from: usize, to: usize, message: &Bytes) {
        let (now, message) = (self.simulation.now(), Packet::new(message.clone()));
        self.simulation.with(to, |node| node.handle(now, Event::Message { from, message }));
    }

    /// Passes an input to a running validator's engine.
    pub fn input(&mut self, node: usize, input: Input) {
        let now = self.simulation.now();
        self.simulation.with(node, |node| node.input(now, input));
    }

    /// Decides the fate of every message: `(now, from, to, message)`.
    pub fn set_rule(&mut self, rule: impl FnMut(Micros, usize, usize, &S::Message) -> Delivery + 'static) {
        self.simulation.set_adversary(Some(Box::new(RuleAdversary::<S>(Box::new(rule)))));
    }

    /// Removes the rule. Held and lost messages arrive now.
    pub fn clear_rule(&mut self) {
        self.simulation.set_adversary(None);
    }

    /// Runs, and then tells every validator what a quorum has executed, as a pipeline does with certificates.
    pub fn run_for(&mut self, ms: u64) {
        self.simulation.run_for(Micros::from_millis(ms));
        let up: Vec<usize> = (0..self.size()).filter(|node| self.simulation.is_up(*node)).collect();
        let executed = up.iter().map(|node| (index(*node), self.seen(*node).resume.index));
        let Some(certified) = self.committee.weights().reached(executed, self.committee.quorum()) else { return };
        for node in up {
            let certified = certified.min(self.seen(node).resume.index);
            self.input(node, Input::Certified(certified));
        }
    }

    /// Runs while `unfinished`, at most `limit_ms`. Returns false on timeout.
    pub fn run_while(&mut self, limit_ms: u64, mut unfinished: impl FnMut(&Self) -> bool) -> bool {
        let end = self.simulation.now() + Micros::from_millis(limit_ms);
        while unfinished(self) {
            if !self.simulation.step_until(end) {
                return false;
            }
        }
        true
    }

    /// The logs of these validators are equal, as far as both go.
    pub fn assert_equal_logs(&self, nodes: impl IntoIterator<Item = usize>) {
        let mut first: BTreeMap<u64, (usize, &Ordered)> = BTreeMap::new();
        for node in nodes {
            for (_, ordered) in &self.seen(node).log {
                let (other, expected) = *first.entry(ordered.index.0).or_insert((node, ordered));
                assert_eq!(ordered, expected, "validators {node} and {other} differ");
            }
        }
    }
}

fn launch<S: Subject>(
    subject: &Rc<RefCell<S>>,
    clocks: &Clocks,
    me: usize,
    disk: ScenarioDisk<S>,
    now: Micros,
    seed: u64,
) -> ScenarioNode<S> {
    let EngineDisk { records, may_have_signed, notes } = disk;
    let start = EngineStart {
        seed,
        records: records.clone().into_iter().collect(),
        unsigned: !may_have_signed,
        resume: notes.resume.clone(),
        now: clock(now, clocks.borrow()[me]),
    };
    let (subject, clocks) = (subject.clone(), clocks.clone());
    let (committee_size, verifier) = (subject.borrow().committee().size(), subject.borrow().verifier());
    let engine = subject.borrow_mut().start(me, start);
    let surroundings = Recorder { me, subject, clocks, seen: notes.restarted(), endless: false, batches: 0 };
    EngineHost::start(HostSetup { me, committee_size, engine, verifier, records, may_have_signed, surroundings }, now)
}

type Rule<M> = Box<dyn FnMut(Micros, usize, usize, &M) -> Delivery>;

struct RuleAdversary<S: Subject>(Rule<S::Message>);

impl<S: Subject> Adversary<Packet> for RuleAdversary<S> {
    fn delivery(&mut self, view: &mut View<'_>, from: usize, to: usize, message: &Packet) -> Delivery {
        // The group decides about the loss of its datagrams.
        if message.is_request() { Delivery::Normal } else { (self.0)(view.now, from, to, &S::decode(message.bytes())) }
    }
}
