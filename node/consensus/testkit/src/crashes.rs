//! Engines that tolerate crashes only: their kit, and clusters for their scenarios. Such an engine is a [`CrashEngine`], in its crate of
//! test support.

pub mod scenarios;

use crate::{
    Delivery, EngineStart, Forgery, Kit, Links, Measured, MeasuredEngine, Micros, Random, ScenarioCluster, Setup, Subject,
    committee, committee_of, engine_host::index, unequal_votes,
};
use corniche_engine::{Committee, Engine, Input, Output, Resume, TraceEvent, Verifier, VertexId};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex};
use std::{collections::BTreeMap, rc::Rc, sync::Arc};

/// One message delay of [`cluster`], ms.
pub const DELAY: u64 = 10;
/// The message arrives when the rule is replaced, or never.
pub const LOST: Delivery = Delivery::Hold(u64::MAX);

/// One engine, as its tests need it.
pub trait CrashEngine: 'static {
    type Engine: Engine;
    type Config: Clone + 'static;
    type Message: Clone;
    /// Name in a genesis.
    const NAME: &'static str;
    /// Name of the package, without `corniche-`.
    const PACKAGE: &'static str = Self::NAME;

    fn start(config: Self::Config, committee: Committee, me: ValidatorIndex, start: EngineStart) -> Self::Engine;
    fn verifier(config: Self::Config, committee: Committee) -> Arc<dyn Verifier>;
    fn decode(message: &Bytes) -> Self::Message;
    /// See [`Measured::footprint`].
    fn footprint(engine: &Self::Engine) -> usize;
    /// See [`Measured::describe`].
    fn describe(engine: &Self::Engine) -> String;
    fn max_footprint(config: &Self::Config, committee_size: usize) -> usize;
    /// Number of commits that a validator keeps for others.
    fn retained(config: &Self::Config) -> u64;

    /// Parameters for the suite: short timers, so that short runs cover much.
    fn quick() -> Self::Config;
    /// Changes parameters that a network may choose.
    fn vary(config: &mut Self::Config, random: &mut Random);

    /// Parameters for scenarios: besides these two, no timer matters in a good network.
    fn plain(resend_ms: u64, status_ms: u64) -> Self::Config;
    /// A response to a validator that lost its disk.
    fn is_report(message: &Self::Message) -> bool;
}

/// An engine with one committee.
pub struct CrashKit<C: CrashEngine> {
    pub config: C::Config,
    committee: Committee,
}

impl<C: CrashEngine> CrashKit<C> {
    /// A committee of this size, with the parameters for the suite.
    pub fn quick(size: usize) -> Rc<dyn Kit> {
        Rc::new(Self { config: C::quick(), committee: committee(C::NAME, size) })
    }

    /// Like [`Self::quick`], with unequal votes.
    pub fn quick_weighted(size: usize) -> Rc<dyn Kit> {
        Rc::new(Self { config: C::quick(), committee: committee_of(C::NAME, &unequal_votes(size)) })
    }
}

impl<C: CrashEngine> Kit for CrashKit<C> {
    fn name(&self) -> &'static str {
        C::PACKAGE
    }

    fn committee(&self) -> &Committee {
        &self.committee
    }

    fn start(&self, setup: Setup) -> Box<dyn Measured> {
        let Setup { me, seed, records, unsigned, resume, now, forgery: _ } = setup;
        let start = EngineStart { seed, records, unsigned, resume, now };
        let engine = C::start(self.config.clone(), self.committee.clone(), me, start);
        Box::new(MeasuredEngine { engine, footprint: C::footprint, describe: C::describe })
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        C::verifier(self.config.clone(), self.committee.clone())
    }

    /// Validators that crash publish no contradictions, so nothing is compared.
    fn published_proposal(&self, _: &Bytes) -> Option<VertexId> {
        None
    }

    fn recorded_proposal(&self, _: &Bytes) -> Option<VertexId> {
        None
    }

    fn forge(&self, _: ValidatorIndex, _: Forgery, _: &Bytes, _: &mut Random) -> Option<Bytes> {
        None
    }

    fn max_lag(&self) -> u64 {
        C::retained(&self.config)
    }

    fn max_footprint(&self) -> usize {
        C::max_footprint(&self.config, self.committee.size())
    }

    fn with_random_parameters(&self, random: &mut Random, _all_honest: bool) -> Option<Rc<dyn Kit>> {
        let mut config = self.config.clone();
        C::vary(&mut config, random);
        Some(Rc::new(Self { config, committee: self.committee.clone() }))
    }
}

/// The engines of scenarios.
pub struct CrashSubject<C: CrashEngine> {
    pub config: C::Config,
    committee: Committee,
}

impl<C: CrashEngine> Subject for CrashSubject<C> {
    type Engine = C::Engine;
    type Message = C::Message;
    const RESUBMITS: bool = true;

    fn committee(&self) -> &Committee {
        &self.committee
    }

    fn start(&mut self, me: usize, start: EngineStart) -> C::Engine {
        C::start(self.config.clone(), self.committee.clone(), index(me), start)
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        C::verifier(self.config.clone(), self.committee.clone())
    }

    fn decode(message: &Bytes) -> C::Message {
        C::decode(message)
    }
}

pub type CrashCluster<C> = ScenarioCluster<CrashSubject<C>>;

/// A committee on these links. All validators are powered off.
pub fn cluster_on<C: CrashEngine>(links: Links, size: usize, config: C::Config) -> CrashCluster<C> {
    ScenarioCluster::new(CrashSubject { config, committee: committee(C::NAME, size) }, links, 1)
}

/// A committee of connected validators, whose links all take one [`DELAY`].
pub fn cluster<C: CrashEngine>(size: usize, config: C::Config) -> CrashCluster<C> {
    let mut cluster = cluster_on(Links::uniform(size, Micros::from_millis(DELAY)), size, config);
    cluster.simulation.start_all();
    cluster.run_for(5 * DELAY);
    cluster
}

/// Returns true if all these validators delivered this text.
pub fn have<C: CrashEngine>(cluster: &CrashCluster<C>, nodes: impl IntoIterator<Item = usize>, text: &str) -> bool {
    nodes.into_iter().all(|node| cluster.seen(node).delivered_at(text).is_some())
}

/// Delays from `since` until a validator delivered this text.
///
/// # Panics
/// It did not.
pub fn delay<C: CrashEngine>(cluster: &CrashCluster<C>, node: usize, text: &str, since: Micros) -> u64 {
    let at = cluster.seen(node).delivered_at(text);
    let at = at.unwrap_or_else(|| panic!("validator {node} did not deliver {text}: {}", C::describe(cluster.engine(node))));
    (at.0 - since.0) / (DELAY * 1_000)
}

/// Submits a text and returns the delays until all have delivered it.
pub fn submit<C: CrashEngine>(cluster: &mut CrashCluster<C>, node: usize, text: &str) -> Vec<u64> {
    let since = cluster.simulation.now();
    cluster.submit(node, text);
    cluster.run_for(200 * DELAY);
    (0..cluster.size()).map(|node| delay(cluster, node, text, since)).collect()
}

/// Powers a validator off, erases its disk, and starts it after its `commits`-th commit.
pub fn lose_disk<C: CrashEngine>(cluster: &mut CrashCluster<C>, node: usize, commits: usize) {
    cluster.simulation.crash(node);
    cluster.disk(node).records.clear();
    let resume = cluster.resume_after(node, commits);
    cluster.restart_at(node, resume);
}

/// Reasons of decisions since the last start, and how often each was given.
pub fn decisions<C: CrashEngine>(cluster: &CrashCluster<C>, node: usize) -> BTreeMap<String, usize> {
    let mut reasons = BTreeMap::new();
    for event in &cluster.seen(node).traced {
        if let TraceEvent::Decided { why, .. } = event {
            *reasons.entry(why.clone()).or_default() += 1;
        }
    }
    reasons
}

/// Number of notes with this name since the last start.
pub fn notes<C: CrashEngine>(cluster: &CrashCluster<C>, node: usize, wanted: &str) -> usize {
    cluster.seen(node).traced.iter().filter(|event| matches!(event, TraceEvent::Note { name, .. } if name == wanted)).count()
}

/// Randomness and checkpoint of the first commit of a new validator of three, for [`assert_frozen`](crate::assert_frozen). Another
/// validator sends it these messages. The commit contains their batch only if the engine computes its digest as they do.
///
/// # Panics
/// A message is refused, or nothing is committed, or no batch.
pub fn commit_digests<C: CrashEngine>(messages: impl IntoIterator<Item = Bytes>) -> [(&'static str, Vec<u8>); 2] {
    let config = C::quick();
    let (committee, from) = (committee(C::NAME, 3), index(1));
    let verifier = C::verifier(config.clone(), committee.clone());
    let (resume, now) = (Resume::default(), TimestampMs(1_000));
    let start = EngineStart { seed: 1, records: Vec::new(), unsigned: true, resume, now };
    let mut engine = C::start(config, committee, index(0), start);
    for message in messages {
        let message = verifier.verify(from, &message).unwrap_or_else(|fault| panic!("{fault:?}"));
        engine.handle(now, Input::Message { from, message });
        while let Some(output) = engine.poll() {
            match output {
                Output::Persist(ticket, _) => engine.handle(now, Input::Durable(ticket)),
                Output::Deliver(commit) => {
                    assert_eq!(commit.batches.len(), 1);
                    return [("randomness", commit.randomness.to_vec()), ("checkpoint", commit.checkpoint.to_vec())];
                }
                _ => {}
            }
        }
    }
    panic!("nothing is committed: {}", C::describe(&engine));
}
