//! Runs a committee of engines in virtual time, records the inputs of validator 0, and replays them with a clock.
//!
//! An engine is a function of its inputs: replayed, they cost as much as in the committee, as often as needed, without
//! other load on the processor. Every section of the recording is replayed several times, and for each instant the lowest
//! time counts: on a busy machine, any excess belongs to other processes.

use crate::allocations;
use corniche_engine::{Batch, Engine, Input, Ordered, Output, Recipients, Ticket, TraceEvent, Verifier};
use corniche_testkit::{Action, Adversary, Delivery, DiskModel, Event, Links, Micros, Packet, Process, Simulation, View};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex};
use std::{
    collections::VecDeque,
    hint::black_box,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

/// One engine with one committee.
pub trait BenchTarget {
    fn name(&self) -> &'static str;
    /// Number of validators.
    fn size(&self) -> usize;
    /// Starts an engine at genesis. For validator 0, this withholds again what [`BenchTarget::release`] released.
    fn start(&self, me: ValidatorIndex) -> Box<dyn Engine>;
    fn verifier(&self) -> Arc<dyn Verifier>;
    /// Returns true if this message must be held back to create the backlog.
    fn withholds(&self, to: usize, message: &Bytes) -> bool;
    /// Releases everything that is withheld besides messages, after this many proposals per validator. Returns the
    /// messages that the others then send to validator 0.
    fn release(&self, proposals: u64) -> Vec<Bytes>;
}

/// One-way delay of every link; writes take no time.
const DELAY: Micros = Micros::from_millis(10);
/// Upper bound of every run.
const LIMIT: Micros = Micros::from_seconds(60);

/// A committee and the recording of validator 0.
pub struct RecordedNetwork {
    target: Rc<dyn BenchTarget>,
    simulation: Simulation<Node>,
    batch: Bytes,
    recording: Vec<Section>,
}

type Section = Vec<(TimestampMs, RecordedInput)>;

/// One recorded input.
enum RecordedInput {
    Batch,
    Message { from: ValidatorIndex, bytes: Bytes },
    Durable(Ticket),
    Deadline,
    Up(ValidatorIndex),
    Down(ValidatorIndex),
    Release,
}

/// Outputs and cost of one section of the recording.
#[derive(Clone, Default)]
pub struct Cost {
    /// Time in the engine, one entry per instant.
    engine: Vec<Duration>,
    /// Time in the verifier, one entry per instant.
    verifier: Vec<Duration>,
    pub allocations: u64,
    pub allocated_bytes: u64,
    pub counts: Counts,
}

/// Counts from the engine's outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accepted blocks or cars, own ones included.
    pub proposals: u64,
    pub commits: u64,
    pub batches: u64,
    pub bytes: u64,
}

impl Cost {
    /// Time inside the engine, µs.
    pub fn engine(&self) -> f64 {
        micros(self.engine.iter().sum())
    }

    /// Time inside the verifier, µs.
    pub fn verifier(&self) -> f64 {
        micros(self.verifier.iter().sum())
    }

    /// Longest time of the engine in one instant, µs.
    pub fn longest(&self) -> f64 {
        micros(self.engine.iter().max().copied().unwrap_or_default())
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

impl Counts {
    fn record_output(&mut self, output: &Output) {
        match output {
            Output::Trace(TraceEvent::Accepted(_)) => self.proposals += 1,
            Output::Deliver(Ordered { batches, .. }) => {
                self.commits += 1;
                self.batches += batches.len() as u64;
                self.bytes += batches.iter().map(|(_, batch)| batch.bytes.len() as u64).sum::<u64>();
            }
            Output::Accuse { .. } => panic!("nobody misbehaves here"),
            _ => {}
        }
    }
}

impl RecordedNetwork {
    /// Every validator proposes batches of this size as fast as it can. With a backlog, the withheld data stays
    /// withheld until [`RecordedNetwork::release`].
    pub fn new(target: Rc<dyn BenchTarget>, batch_bytes: usize) -> Self {
        let batch: Bytes = vec![7; batch_bytes].into();
        let size = target.size();
        let start = {
            let (target, batch) = (target.clone(), batch.clone());
            Box::new(move |me, (), now, _| Node::start(&*target, me, batch.clone(), now))
        };
        let mut simulation =
            Simulation::new(Links::uniform(size, DELAY), DiskModel { sync: Micros::ZERO, rate: None }, 1, start);
        simulation.set_adversary(Some(Box::new(Withhold(target.clone()))));
        simulation.start_all();
        Self { target, simulation, batch, recording: Vec::new() }
    }

    /// Runs until validator 0 has accepted this many further proposals per validator, on average. Records a section of
    /// the recording.
    pub fn run(&mut self, proposals: u64) {
        let goal = self.counts().proposals + proposals * self.target.size() as u64;
        self.run_until(|counts| counts.proposals >= goal);
    }

    /// Releases the withheld data and runs until validator 0 has delivered everything that it accepted. Records a
    /// section of the recording.
    pub fn release(&mut self) {
        let (now, goal) = (self.simulation.now(), self.counts().proposals);
        self.simulation.set_adversary(None);
        let messages = self.target.release(goal / self.target.size() as u64);
        self.simulation.with(0, |node| {
            node.recording.push((now.timestamp(), RecordedInput::Release));
            for (place, message) in messages.into_iter().enumerate() {
                let from = 1 + place % (node.size - 1);
                node.handle(now, Event::Message { from, message: Packet::new(message) });
            }
        });
        self.run_until(|counts| counts.batches >= goal);
    }

    fn run_until(&mut self, done: impl Fn(Counts) -> bool) {
        let end = self.simulation.now() + LIMIT;
        let finished =
            self.simulation.run_until_done(end, |simulation| simulation.process(0).is_some_and(|node| done(node.counts)));
        assert!(finished, "{} of {}: no progress, {:?}", self.target.name(), self.target.size(), self.counts());
        let section = self.simulation.with(0, |node| std::mem::take(&mut node.recording));
        self.recording.extend(section);
    }

    fn counts(&self) -> Counts {
        self.simulation.process(0).map_or(Counts::default(), |node| node.counts)
    }

    /// Replays the recording this many times. Returns the costs of its last sections.
    pub fn costs<const N: usize>(self, replays: usize) -> [Cost; N] {
        let Self { target, simulation, batch, recording } = self;
        let counts = simulation.process(0).map(|node| node.counts);
        // Frees the memory of the other validators.
        drop(simulation);
        let all = (0..replays).map(|_| replay(&*target, &batch, &recording)).reduce(min_costs).expect("at least once");
        assert_eq!(all.last().map(|cost| cost.counts), counts, "the same inputs, the same outputs");
        let mut sections: Vec<_> = all;
        for place in (1..sections.len()).rev() {
            let before = sections[place - 1].counts;
            let counts = &mut sections[place].counts;
            counts.proposals -= before.proposals;
            counts.commits -= before.commits;
            counts.batches -= before.batches;
            counts.bytes -= before.bytes;
        }
        let last = sections.split_off(sections.len() - N);
        last.try_into().unwrap_or_else(|_| panic!("there are so many sections"))
    }
}

/// Replays the recording once. Returns the cost of each section; counts are since the beginning.
fn replay(target: &dyn BenchTarget, batch: &Bytes, recording: &[Section]) -> Vec<Cost> {
    let (mut engine, verifier) = (target.start(ValidatorIndex(0)), target.verifier());
    let mut counts = Counts::default();
    let mut outputs: Vec<Output> = std::iter::from_fn(|| engine.poll()).collect();
    let mut costs = Vec::new();
    for section in recording {
        let mut cost = Cost::default();
        for instant in section.chunk_by(|one, other| one.0 == other.0) {
            let now = instant[0].0;
            let start = Instant::now();
            let inputs: Vec<Option<Input>> = instant.iter().map(|(_, recorded)| recorded.input(&*verifier, batch)).collect();
            cost.verifier.push(start.elapsed());
            let (count, bytes) = allocations::totals();
            let start = Instant::now();
            for input in inputs {
                match input {
                    Some(input) => engine.handle(now, input),
                    None => _ = target.release(0),
                }
                while let Some(output) = engine.poll() {
                    outputs.push(output);
                }
                // A caller reads the deadline after every input.
                black_box(engine.deadline());
            }
            cost.engine.push(start.elapsed());
            let (count_now, bytes_now) = allocations::totals();
            cost.allocations += count_now - count;
            cost.allocated_bytes += bytes_now - bytes;
            outputs.drain(..).for_each(|output| counts.record_output(&output));
        }
        cost.counts = counts;
        costs.push(cost);
    }
    costs
}

/// Combines two replays of one recording: the minimum for each instant.
fn min_costs(mut one: Vec<Cost>, other: Vec<Cost>) -> Vec<Cost> {
    let take = |one: &mut Vec<Duration>, other: &[Duration]| one.iter_mut().zip(other).for_each(|(a, b)| *a = (*a).min(*b));
    for (one, other) in one.iter_mut().zip(&other) {
        take(&mut one.engine, &other.engine);
        take(&mut one.verifier, &other.verifier);
        one.allocations = one.allocations.min(other.allocations);
        one.allocated_bytes = one.allocated_bytes.min(other.allocated_bytes);
    }
    one
}

impl RecordedInput {
    fn input(&self, verifier: &dyn Verifier, batch: &Bytes) -> Option<Input> {
        Some(match self {
            Self::Batch => Input::Batch(Batch { bytes: batch.clone() }),
            Self::Message { from, bytes } => {
                Input::Message { from: *from, message: verifier.verify(*from, bytes).expect("it was valid") }
            }
            Self::Durable(ticket) => Input::Durable(*ticket),
            Self::Deadline => Input::Deadline,
            Self::Up(peer) => Input::PeerUp(*peer),
            Self::Down(peer) => Input::PeerDown(*peer),
            Self::Release => return None,
        })
    }
}

/// One validator.
struct Node {
    me: usize,
    size: usize,
    engine: Box<dyn Engine>,
    verifier: Arc<dyn Verifier>,
    batch: Bytes,
    actions: VecDeque<Action<Packet>>,
    counts: Counts,
    /// The inputs of validator 0 since the last section.
    recording: Section,
}

impl Node {
    fn start(target: &dyn BenchTarget, me: usize, batch: Bytes, now: Micros) -> Self {
        let (engine, verifier) = (target.start(index(me)), target.verifier());
        let (actions, counts, recording) = Default::default();
        let mut node = Self { me, size: target.size(), engine, verifier, batch, actions, counts, recording };
        node.drain(now);
        node
    }

    fn input(&mut self, now: Micros, recorded: RecordedInput, input: Input) {
        if self.me == 0 {
            self.recording.push((now.timestamp(), recorded));
        }
        self.engine.handle(now.timestamp(), input);
        self.drain(now);
    }

    fn drain(&mut self, now: Micros) {
        let mut wants = false;
        while let Some(output) = self.engine.poll() {
            self.counts.record_output(&output);
            match output {
                Output::WantBatch { .. } => wants = true,
                Output::Persist(ticket, record) => {
                    self.actions.push_back(Action::Write { id: ticket.0, bytes: record.len() });
                }
                Output::Send { to, message } => self.send(to, message),
                _ => {}
            }
        }
        if wants {
            self.input(now, RecordedInput::Batch, Input::Batch(Batch { bytes: self.batch.clone() }));
        }
    }

    fn send(&mut self, to: Recipients, message: Bytes) {
        let (packet, me) = (Packet::new(message), self.me);
        let bytes = packet.bytes().len();
        let mut send = |to| self.actions.push_back(Action::Send { to, message: packet.clone(), bytes });
        match to {
            Recipients::All => (0..self.size).filter(|to| *to != me).for_each(&mut send),
            Recipients::One(to) => send(to.as_usize()),
        }
    }
}

impl Process for Node {
    type Message = Packet;
    type Disk = ();

    fn handle(&mut self, now: Micros, event: Event<Packet>) {
        let (recorded, input) = match event {
            Event::Up(peer) => (RecordedInput::Up(index(peer)), Input::PeerUp(index(peer))),
            Event::Down(peer) => (RecordedInput::Down(index(peer)), Input::PeerDown(index(peer))),
            Event::Message { from, message } => {
                let from = index(from);
                let verified = message.verified(from, &*self.verifier).clone().expect("everybody is correct");
                let bytes = message.bytes().clone();
                (RecordedInput::Message { from, bytes }, Input::Message { from, message: verified })
            }
            Event::Written(id) => (RecordedInput::Durable(Ticket(id)), Input::Durable(Ticket(id))),
            Event::Deadline => (RecordedInput::Deadline, Input::Deadline),
        };
        self.input(now, recorded, input);
    }

    fn poll(&mut self) -> Option<Action<Packet>> {
        self.actions.pop_front()
    }

    fn deadline(&self) -> Option<Micros> {
        self.engine.deadline().map(Micros::from_timestamp)
    }

    fn power_off(self) {}
}

/// Holds the messages that create the backlog, until it is removed.
struct Withhold(Rc<dyn BenchTarget>);

impl Adversary<Packet> for Withhold {
    fn delivery(&mut self, _: &mut View<'_>, _: usize, to: usize, message: &Packet) -> Delivery {
        if self.0.withholds(to, message.bytes()) { Delivery::Hold(0) } else { Delivery::Normal }
    }
}

pub fn index(position: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(position).expect("the committee size fits the index type"))
}
