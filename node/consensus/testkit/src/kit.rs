//! The cluster's interface to an engine.

use crate::{Coalition, Group, MessageChecker, Random};
use corniche_engine::{Committee, Engine, Input, Output, Resume, Ticket, Verifier, VertexId};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex};
use std::{cell::RefCell, collections::BTreeMap, rc::Rc, sync::Arc};

/// One engine with one committee and modelled keys. All methods are pure.
pub trait Kit {
    /// Name of the engine in a genesis.
    fn name(&self) -> &'static str;
    fn committee(&self) -> &Committee;
    fn start(&self, setup: Setup) -> Box<dyn Measured>;
    fn verifier(&self) -> Arc<dyn Verifier>;
    /// Returns the proposal that a message carries, if the author sent the message to publish that proposal. A response
    /// that happens to contain proposals does not count.
    fn published_proposal(&self, message: &Bytes) -> Option<VertexId>;
    /// Returns the proposal that a record makes durable.
    fn recorded_proposal(&self, record: &Bytes) -> Option<VertexId>;
    /// Returns a message of `author`, changed and signed again. `None` if the message contains nothing to forge.
    fn forge(&self, author: ValidatorIndex, forgery: Forgery, message: &Bytes, random: &mut Random) -> Option<Bytes>;
    /// Number of commits that a validator may lag and still catch up through its peers' engines. A validator further
    /// behind first follows certified commits, and starts its engine there.
    fn max_lag(&self) -> u64;
    /// Upper bound of [`Measured::footprint`] for correct engines of this committee.
    fn max_footprint(&self) -> usize;

    /// Creates the multicast group of one run, for an engine that needs one.
    fn group(&self) -> Option<Rc<RefCell<dyn Group>>> {
        None
    }

    /// Names of the doubles that only this engine knows. The last one combines all others.
    fn engine_doubles(&self) -> &'static [&'static str] {
        &[]
    }

    /// Creates the coalition of these members: identity and name of the double.
    fn coalition(&self, _members: &BTreeMap<usize, &'static str>) -> Option<Box<dyn Coalition>> {
        None
    }

    /// Creates the message checker of one run.
    fn message_checker(&self) -> Option<Box<dyn MessageChecker>> {
        None
    }

    /// Same engine and committee with other parameters that a network may choose. If `_all_honest`, this includes
    /// parameters that guarantee liveness only when all validators are honest. `None` keeps the kit's parameters.
    fn with_random_parameters(&self, _random: &mut Random, _all_honest: bool) -> Option<Rc<dyn Kit>> {
        None
    }
}

/// An engine that reports its memory use.
pub trait Measured: Engine {
    /// Number of held items that must stay bounded: proposals, decisions, requests.
    fn footprint(&self) -> usize;

    /// Debug output for failed runs.
    fn describe(&self) -> String;
}

/// An engine, and the functions that make it [`Measured`].
pub struct MeasuredEngine<E> {
    pub engine: E,
    pub footprint: fn(&E) -> usize,
    pub describe: fn(&E) -> String,
}

impl<E: Engine> Engine for MeasuredEngine<E> {
    fn handle(&mut self, now: TimestampMs, input: Input) {
        self.engine.handle(now, input);
    }

    fn poll(&mut self) -> Option<Output> {
        self.engine.poll()
    }

    fn deadline(&self) -> Option<TimestampMs> {
        self.engine.deadline()
    }
}

impl<E: Engine> Measured for MeasuredEngine<E> {
    fn footprint(&self) -> usize {
        (self.footprint)(&self.engine)
    }

    fn describe(&self) -> String {
        (self.describe)(&self.engine)
    }
}

/// Initial state of an engine. The committee and the parameters come from the kit.
pub struct Setup {
    pub me: ValidatorIndex,
    pub seed: u64,
    pub records: Vec<(Ticket, Bytes)>,
    /// The disk shows that this validator never wrote a record, so it has signed nothing.
    pub unsigned: bool,
    pub resume: Resume,
    pub now: TimestampMs,
    /// Set for a Byzantine double that signs false data.
    pub forgery: Option<Forgery>,
}

/// Forgeries that a validator can apply to its own proposals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgery {
    /// Parent references that do not exist, are duplicated, or are too few.
    Parents,
    /// A coin share or certificate share that is noise.
    Share,
}
