//! The engines by name, and what the simulator watches of them.
//!
//! An engine is built as the node builds it, with two things around it: its cryptography charges its cost to the node's
//! [`Meter`], and [`Watched`] notes what it proposes and what it orders. Neither changes what the engine does.

mod autobahn;
mod mahi_mahi;

use crate::{
    crypto::Meter,
    genesis::Secrets,
    report::Work,
    scenario::{Behaviour, Cost},
};
use corniche_engine::{Engine, Input, Ordered, Output, PeerFault, Resume, Ticket, TraceEvent, Verified, Verifier, VertexId};
use corniche_pipeline::EngineFactory;
use corniche_testkit::Random;
use corniche_types::{Bytes, Genesis, TimestampMs, ValidatorIndex};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// What an experiment changes of an engine's parameters, also to what no genesis can name: a baseline's rules.
#[derive(Clone, Copy)]
pub enum Tune {
    MahiMahi(fn(&mut corniche_mahi_mahi::Config)),
    Autobahn(fn(&mut corniche_autobahn::Config)),
}

/// An engine by name.
#[derive(Clone, Copy)]
pub struct Name {
    /// As a scenario writes it.
    pub word: &'static str,
    /// How it refuses its parameters.
    pub check: fn(&BTreeMap<String, u64>) -> Result<(), String>,
    make: Make,
}

type Make = fn(&Genesis, &Secrets, Option<Tune>) -> Result<Box<dyn Named>, String>;

/// Engines that a scenario may name.
pub const NAMES: &[Name] = &[mahi_mahi::NAME, autobahn::NAME];

/// An engine of one network, with the keys of its validators.
trait Named {
    /// Most things that a correct engine holds, and most records in its safety log.
    fn most_held(&self) -> usize;
    /// The proposal in a message.
    fn peek(&self, message: &Verified) -> Option<VertexId>;
    /// What it looks at is charged to the meter.
    fn verifier(&self, charge: Charge) -> Box<dyn Verifier>;
    /// A proposal of `me` in `bytes`, with one parent that does not exist, signed again. `None` when there is no proposal in them.
    fn forge_parent(&self, secrets: &Secrets, me: ValidatorIndex, bytes: &Bytes, random: u64) -> Option<Bytes>;
    /// What builds validator `me`'s engine, again and again. What keys do is charged to the meter.
    fn builder(&self, me: ValidatorIndex, secrets: &Secrets, charge: Charge, behaviour: Option<Behaviour>) -> Builder;
}

/// Whom keys charge, and how much.
#[derive(Clone)]
struct Charge {
    cost: Cost,
    meter: Meter,
}

/// What an engine starts from, besides what its builder knows.
struct Start {
    seed: u64,
    records: Vec<(Ticket, Bytes)>,
    resume: Resume,
    now: TimestampMs,
}

type Builder = Box<dyn Fn(Start) -> Box<dyn Held> + Send>;

/// An engine whose memory can be asked for.
trait Held: Engine {
    fn footprint(&self) -> usize;
}

/// The engine of one network.
pub struct Engines {
    engine: Box<dyn Named>,
    cost: Cost,
}

impl Engines {
    /// The engine that the genesis names, with what an experiment changes of its parameters. The error is for whoever wrote the
    /// scenario.
    pub fn new(genesis: &Genesis, secrets: &Secrets, cost: Cost, tune: Option<Tune>) -> Result<Self, String> {
        let word = genesis.engine.name.as_str();
        let name = NAMES.iter().find(|name| name.word == word).ok_or_else(|| {
            let words: Vec<_> = NAMES.iter().map(|name| name.word).collect();
            format!("no engine named {word}; there are {}", words.join(", "))
        })?;
        Ok(Self { engine: (name.make)(genesis, secrets, tune)?, cost })
    }

    /// Most things that a correct engine holds, and most records in its safety log.
    pub fn most_held(&self) -> usize {
        self.engine.most_held()
    }

    /// The proposal in a message.
    pub fn peek(&self, message: &Verified) -> Option<VertexId> {
        self.engine.peek(message)
    }

    /// Checks messages, and says what that costs.
    pub fn checker(&self) -> Checker {
        let meter = Meter::default();
        Checker { verifier: self.engine.verifier(Charge { cost: self.cost, meter: meter.clone() }), meter }
    }

    /// A proposal of `me` in `bytes`, with one parent that does not exist, signed again. `None` when there is no proposal in them.
    pub fn forge_parent(&self, secrets: &Secrets, me: ValidatorIndex, bytes: &Bytes, random: u64) -> Option<Bytes> {
        self.engine.forge_parent(secrets, me, bytes, random)
    }

    /// Builds validator `me`'s engine, again and again; `random` makes each one's seed.
    pub fn factory(
        &self,
        me: ValidatorIndex,
        secrets: &Secrets,
        random: Random,
        meter: &Meter,
        sightings: &Sightings,
        behaviour: Option<Behaviour>,
    ) -> EngineFactory {
        let build = self.engine.builder(me, secrets, Charge { cost: self.cost, meter: meter.clone() }, behaviour);
        let (random, sightings) = (Mutex::new(random), sightings.clone());
        Box::new(move |records, resume: Resume, now: TimestampMs| {
            let seed = random.lock().unwrap_or_else(PoisonError::into_inner).draw();
            let engine = build(Start { seed, records, resume, now });
            Box::new(Watched { engine, inputs: 0, batch: Bytes::new(), sightings: sightings.clone() }) as Box<dyn Engine>
        })
    }
}

/// The stateless half of an engine. See [`Engines::checker`].
pub struct Checker {
    verifier: Box<dyn Verifier>,
    meter: Meter,
}

impl Checker {
    /// What the engine's verifier says, and what every receiver's keys do for that.
    pub fn check(&self, from: ValidatorIndex, bytes: &Bytes) -> (Result<Verified, PeerFault>, Work) {
        self.meter.take();
        let verdict = self.verifier.verify(from, bytes);
        (verdict, self.meter.take())
    }
}

// ---- watching ----------------------------------------------------------------------------------------------------------

/// What one node's engine did since the last look.
#[derive(Clone, Default)]
pub struct Sightings {
    log: Arc<Mutex<Vec<Sighting>>>,
    footprint: Arc<AtomicUsize>,
}

/// How many inputs pass between two looks at how much an engine holds.
const INPUTS_BETWEEN_LOOKS: u32 = 1_024;

/// Something an engine did.
#[derive(Debug)]
pub enum Sighting {
    /// It proposed this batch, which is not empty.
    Proposed(Bytes),
    Ordered(Ordered),
}

impl Sightings {
    pub fn take(&self) -> Vec<Sighting> {
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many things the engine held when last looked at.
    pub fn footprint(&self) -> usize {
        self.footprint.load(Ordering::Relaxed)
    }

    fn add(&self, sighting: Sighting) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(sighting);
    }
}

/// An engine that is watched.
struct Watched {
    engine: Box<dyn Held>,
    inputs: u32,
    /// The last batch it was given.
    batch: Bytes,
    sightings: Sightings,
}

impl Engine for Watched {
    fn handle(&mut self, now: TimestampMs, input: Input) {
        self.inputs = self.inputs.wrapping_add(1);
        if self.inputs.is_multiple_of(INPUTS_BETWEEN_LOOKS) {
            self.sightings.footprint.store(self.engine.footprint(), Ordering::Relaxed);
        }
        if let Input::Batch(batch) = &input {
            self.batch = batch.bytes.clone();
        }
        self.engine.handle(now, input);
    }

    fn poll(&mut self) -> Option<Output> {
        let output = self.engine.poll();
        match &output {
            Some(Output::Trace(TraceEvent::Proposed(vertex))) if vertex.batch_bytes > 0 => {
                self.sightings.add(Sighting::Proposed(std::mem::take(&mut self.batch)));
            }
            Some(Output::Deliver(ordered)) => self.sightings.add(Sighting::Ordered(ordered.clone())),
            _ => {}
        }
        output
    }

    fn deadline(&self) -> Option<TimestampMs> {
        self.engine.deadline()
    }
}
