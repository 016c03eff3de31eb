//! The engines by name, and the simulator's observation of them.
//!
//! An engine is built as in a node, with two additions: its cryptography charges its cost to the node's [`Meter`], and
//! [`ObservedEngine`] records its proposals and commits. Neither changes the engine's behaviour.

mod autobahn;
mod crashes;
mod digest_keys;
mod mahi_mahi;
mod mir;
mod neobft;

use crate::{
    crypto::Meter,
    genesis::Secrets,
    multicast::Multicast,
    notices::{BadDealer, Conduct},
    report::Work,
    scenario::{Behaviour, Cost, EngineName, Scenario},
};
use corniche_engine::{Committee, Engine, Input, Ordered, Output, PeerFault, TraceEvent, Verified, Verifier, VertexId};
use corniche_pipeline::{EngineFactory, EngineStart};
use corniche_testkit::Random;
use corniche_types::{Bytes, Epoch, Genesis, TimestampMs, ValidatorIndex};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Changes of an engine's parameters for an experiment, including values that no genesis can select, such as a
/// baseline's rules.
#[derive(Clone, Copy)]
pub enum Tune {
    MahiMahi(fn(&mut corniche_mahi_mahi::Config)),
    Autobahn(fn(&mut corniche_autobahn::Config)),
    Neobft(fn(&mut corniche_neobft::Config)),
    Mir(fn(&mut corniche_mir::Config)),
    QuePaxa(fn(&mut corniche_quepaxa::Config)),
    Racs(fn(&mut corniche_racs::Config)),
    Baxos(fn(&mut corniche_baxos::Config)),
}

/// The engine of one network, with the keys of its validators.
trait EngineNetwork {
    /// Upper bound of the items that a correct engine holds, and of the records in its safety log.
    fn max_held(&self) -> usize;
    /// Returns the proposal in a message.
    fn peek(&self, message: &Verified) -> Option<VertexId>;
    /// Creates a verifier of a committee's messages that charges its checks.
    fn verifier(&self, committee: &Committee, charge: Charge) -> Box<dyn Verifier>;
    /// Returns the proposal of a node in `bytes`, with one parent that does not exist, signed again. `None` if `bytes`
    /// contains no proposal.
    fn forge_parent(&self, _secrets: &Secrets, _node: usize, _bytes: &Bytes, _random: u64) -> Option<Bytes> {
        None
    }
    /// Returns the message that a node with a behaviour of this engine only sends instead of `bytes`; `None` for `bytes`.
    fn distort(
        &self,
        _: &Secrets,
        _: Behaviour,
        _node_and_receiver: [usize; 2],
        _bytes: &Bytes,
        _random: u64,
    ) -> Option<Bytes> {
        None
    }
    /// Parameters of the engine, and keys of its members, if it orders by a multicast group.
    fn group(&self) -> Option<(corniche_neobft::Config, Arc<dyn corniche_neobft::Signatures>)> {
        None
    }
    /// Returns a function that builds a node's engine, any number of times, for committees in which it is a member. Operations
    /// of its keys are charged.
    fn builder(&self, node: usize, secrets: &Secrets, charge: Charge, behaviour: Option<Behaviour>) -> Builder;
}

/// Meter and costs of the keys.
#[derive(Clone)]
struct Charge {
    cost: Cost,
    meter: Meter,
}

/// Initial state of an engine besides the data of its builder.
struct Start {
    seed: u64,
    start: EngineStart,
}

/// The pipeline builds no engine for a node that is no member.
const MEMBERS_ONLY: &str = "invariant: only members have engines";

type Builder = Box<dyn Fn(Start) -> Box<dyn MeasuredEngine> + Send>;

/// An engine that reports its memory use.
trait MeasuredEngine: Engine {
    fn footprint(&self) -> usize;
    /// True if a batch is on its way as soon as the engine has it. Others report their proposals.
    fn proposes_at_once(&self) -> bool {
        false
    }
    #[cfg(test)]
    fn describe(&self) -> String {
        String::new()
    }
}

/// Connections of the engine of a node.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    pub conduct: &'a Arc<Conduct>,
    pub meter: &'a Meter,
    pub engine_events: &'a EngineEvents,
}

/// The engine of one network.
pub struct Engines {
    engine: Box<dyn EngineNetwork>,
    cost: Cost,
}

impl Engines {
    /// Creates the engine that the genesis names, with the changes of an experiment. The error is for the author of the
    /// scenario.
    pub fn new(genesis: &Genesis, secrets: &Secrets, cost: Cost, tune: Option<Tune>) -> Result<Self, String> {
        let engine: Box<dyn EngineNetwork> = match EngineName::find(&genesis.engine.name)? {
            EngineName::MahiMahi => Box::new(mahi_mahi::Network::new(genesis, secrets, tune)?),
            EngineName::Autobahn => Box::new(autobahn::Network::new(genesis, secrets, tune)?),
            EngineName::Neobft => Box::new(neobft::Network::new(genesis, secrets, tune)?),
            EngineName::Mir => Box::new(mir::Network::new(genesis, secrets, tune)?),
            EngineName::QuePaxa => Box::new(crashes::quepaxa::Network::new(genesis, secrets, tune)?),
            EngineName::Racs => Box::new(crashes::racs::Network::new(genesis, secrets, tune)?),
            EngineName::Baxos => Box::new(crashes::baxos::Network::new(genesis, secrets, tune)?),
        };
        Ok(Self { engine, cost })
    }

    /// Upper bound of the items that a correct engine holds, and of the records in its safety log.
    pub fn max_held(&self) -> usize {
        self.engine.max_held()
    }

    /// Returns the proposal in a message.
    pub fn peek(&self, message: &Verified) -> Option<VertexId> {
        self.engine.peek(message)
    }

    /// Creates a checker of messages that also returns the cost.
    pub fn checker(&self, genesis: &Genesis) -> Checker {
        let checker = Checker { epochs: RefCell::default(), meter: Meter::default() };
        checker.start_epoch(self, &Committee::from_genesis(genesis));
        checker
    }

    /// Returns the proposal of a node in `bytes`, with one parent that does not exist, signed again. `None` if `bytes`
    /// contains no proposal.
    pub fn forge_parent(&self, secrets: &Secrets, node: usize, bytes: &Bytes, random: u64) -> Option<Bytes> {
        self.engine.forge_parent(secrets, node, bytes, random)
    }

    /// Returns the message that a node sends instead of `bytes` to a receiver; `None` for `bytes`.
    pub fn distort(
        &self,
        secrets: &Secrets,
        behaviour: Behaviour,
        node_and_receiver: [usize; 2],
        bytes: &Bytes,
        random: u64,
    ) -> Option<Bytes> {
        self.engine.distort(secrets, behaviour, node_and_receiver, bytes, random)
    }

    /// Creates the multicast group of an engine that orders by one.
    pub fn multicast(&self, scenario: &Scenario, seed: u64, genesis: &Genesis) -> Option<Multicast> {
        let (config, signatures) = self.engine.group()?;
        Some(Multicast::new(scenario, seed, &Committee::from_genesis(genesis), &config, signatures))
    }

    /// Returns a factory that builds a node's engine any number of times; `random` provides the seeds.
    pub fn factory(
        &self,
        node: usize,
        secrets: &Secrets,
        surroundings: Surroundings<'_>,
        random: Random,
        behaviour: Option<Behaviour>,
    ) -> EngineFactory {
        let Surroundings { conduct, meter, engine_events } = surroundings;
        let (secrets_of_dealer, conduct) = (secrets.clone(), conduct.clone());
        let build = self.engine.builder(node, secrets, Charge { cost: self.cost, meter: meter.clone() }, behaviour);
        let (random, engine_events) = (Mutex::new(random), engine_events.clone());
        Box::new(move |start| {
            let seed = random.lock().unwrap_or_else(PoisonError::into_inner).draw();
            let epoch = start.resume.epoch;
            let key = secrets_of_dealer.consensus_key(node, secrets_of_dealer.key_set(&start.committee, node));
            let dealer = BadDealer::new(key, conduct.clone(), &start.committee, seed);
            let engine = build(Start { seed, start });
            Box::new(ObservedEngine {
                engine,
                epoch,
                dealer,
                inputs: 0,
                batch: Bytes::new(),
                engine_events: engine_events.clone(),
                ignores_twin: behaviour.is_some(),
            }) as Box<dyn Engine>
        })
    }
}

/// The stateless part of an engine. See [`Engines::checker`].
pub struct Checker {
    /// Each epoch has one committee.
    epochs: RefCell<BTreeMap<Epoch, EpochVerifier>>,
    meter: Meter,
}

type EpochVerifier = (Committee, Box<dyn Verifier>);

impl Checker {
    /// A node is in this epoch.
    pub fn start_epoch(&self, engines: &Engines, committee: &Committee) {
        let verifier = || engines.engine.verifier(committee, Charge { cost: engines.cost, meter: self.meter.clone() });
        self.epochs.borrow_mut().entry(committee.epoch()).or_insert_with(|| (committee.clone(), verifier()));
    }

    /// Committee of an epoch in which a node has been.
    pub fn committee(&self, epoch: Epoch) -> Option<Committee> {
        self.epochs.borrow().get(&epoch).map(|(committee, _)| committee.clone())
    }

    /// Committee of the newest epoch in which a node has been.
    pub fn newest(&self) -> Committee {
        let epochs = self.epochs.borrow();
        epochs.values().next_back().map(|(committee, _)| committee.clone()).expect("invariant: epoch 0 is there from the start")
    }

    /// Returns the result of the verifier of an epoch, and the work of every receiver's keys for it.
    ///
    /// # Panics
    ///
    /// No node is in this epoch.
    pub fn check(&self, epoch: Epoch, from: ValidatorIndex, bytes: &Bytes) -> (Result<Verified, PeerFault>, Work) {
        self.meter.take();
        let verdict = self.epochs.borrow()[&epoch].1.verify(from, bytes);
        (verdict, self.meter.take())
    }
}

// ---- observation -------------------------------------------------------------------------------------------------------

/// Events of one node's engine since they were last taken.
#[derive(Clone, Default)]
pub struct EngineEvents {
    log: Arc<Mutex<Vec<EngineEvent>>>,
    footprint: Arc<AtomicUsize>,
    /// State of the engine after its last input.
    #[cfg(test)]
    description: Arc<Mutex<Option<String>>>,
}

/// Number of inputs between two readings of an engine's memory use.
const INPUTS_BETWEEN_READINGS: u32 = 1_024;

/// Something an engine did.
#[derive(Debug)]
pub enum EngineEvent {
    /// It proposed this non-empty batch.
    Proposed(Bytes),
    /// It delivered a commit of this epoch.
    Ordered(Epoch, Ordered),
}

impl EngineEvents {
    pub fn take(&self) -> Vec<EngineEvent> {
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Number of items that the engine held at the last reading.
    pub fn footprint(&self) -> usize {
        self.footprint.load(Ordering::Relaxed)
    }

    /// Description of the engine's state after its last input; from the second call on.
    #[cfg(test)]
    pub fn description(&self) -> String {
        self.description.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().clone()
    }

    #[cfg(test)]
    fn describe(&self, engine: &dyn MeasuredEngine) {
        if let Some(description) = &mut *self.description.lock().unwrap_or_else(PoisonError::into_inner) {
            *description = engine.describe();
        }
    }

    fn add(&self, event: EngineEvent) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}

/// An engine that is observed.
struct ObservedEngine {
    engine: Box<dyn MeasuredEngine>,
    epoch: Epoch,
    dealer: BadDealer,
    inputs: u32,
    /// The last batch that it received.
    batch: Bytes,
    engine_events: EngineEvents,
    /// A double may be one of two with one key. Both continue.
    ignores_twin: bool,
}

impl Engine for ObservedEngine {
    fn handle(&mut self, now: TimestampMs, mut input: Input) {
        self.inputs = self.inputs.wrapping_add(1);
        if self.inputs.is_multiple_of(INPUTS_BETWEEN_READINGS) {
            self.engine_events.footprint.store(self.engine.footprint(), Ordering::Relaxed);
        }
        if let Input::Batch(batch) = &mut input {
            self.dealer.spoil(batch);
            self.batch = batch.bytes.clone();
            if self.engine.proposes_at_once() && !batch.bytes.is_empty() {
                self.engine_events.add(EngineEvent::Proposed(std::mem::take(&mut self.batch)));
            }
        }
        self.engine.handle(now, input);
        #[cfg(test)]
        self.engine_events.describe(&*self.engine);
    }

    fn poll(&mut self) -> Option<Output> {
        let mut output = self.engine.poll();
        while self.ignores_twin && matches!(output, Some(Output::Twin(_))) {
            output = self.engine.poll();
        }
        match &output {
            Some(Output::Trace(TraceEvent::Proposed(vertex))) if vertex.batch_bytes > 0 => {
                self.engine_events.add(EngineEvent::Proposed(std::mem::take(&mut self.batch)));
            }
            Some(Output::Deliver(ordered)) => {
                self.engine_events.add(EngineEvent::Ordered(self.epoch, ordered.clone()));
            }
            _ => {}
        }
        output
    }

    fn deadline(&self) -> Option<TimestampMs> {
        self.engine.deadline()
    }
}
