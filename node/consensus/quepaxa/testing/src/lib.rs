//! Test support for the QuePaxa engine.
//!
//! [`QuePaxaKit`] runs the engine in the shared suite for engines that tolerate crashes, and in its fault schedules.

use corniche_engine::{Committee, Verifier, VertexId};
use corniche_quepaxa::{Config, QuePaxa, QuePaxaVerifier, Setup};
use corniche_testkit::{Forgery, Kit, Measured, MeasuredEngine, Random, unequal_votes};
use corniche_types::{Bytes, ValidatorIndex};
use std::{rc::Rc, sync::Arc};

const NAME: &str = "quepaxa";

/// A committee whose keys are never used. All have one vote.
pub fn committee(size: usize) -> Committee {
    corniche_testkit::committee(NAME, size)
}

/// QuePaxa with one committee.
pub struct QuePaxaKit {
    pub config: Config,
    committee: Committee,
}

impl QuePaxaKit {
    /// A committee of this size with short timers and epochs, so that short runs cover many of them.
    pub fn quick(size: usize) -> Rc<dyn Kit> {
        Rc::new(Self::new(committee(size), quick_config()))
    }

    /// Like [`Self::quick`], with unequal votes.
    pub fn quick_weighted(size: usize) -> Rc<dyn Kit> {
        Rc::new(Self::new(corniche_testkit::committee_of(NAME, &unequal_votes(size)), quick_config()))
    }

    pub fn new(committee: Committee, config: Config) -> Self {
        Self { config, committee }
    }
}

fn quick_config() -> Config {
    Config { hedge_ms: 60, epoch_slots: 6, resend_ms: 200, status_ms: 500, retain_slots: 200, ..Config::default() }
}

impl Kit for QuePaxaKit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn committee(&self) -> &Committee {
        &self.committee
    }

    fn start(&self, setup: corniche_testkit::Setup) -> Box<dyn Measured> {
        let corniche_testkit::Setup { me, seed, records, unsigned, resume, now, forgery: _ } = setup;
        let (config, committee) = (self.config.clone(), self.committee.clone());
        let setup = Setup { config, committee, me, seed, records, unsigned, resume, now };
        Box::new(MeasuredEngine { engine: QuePaxa::new(setup), footprint: QuePaxa::footprint, describe: QuePaxa::describe })
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        Arc::new(QuePaxaVerifier::new(self.config.clone(), self.committee.clone()))
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
        self.config.retain_slots
    }

    fn max_footprint(&self) -> usize {
        self.config.max_footprint(self.committee.size())
    }

    /// Any delay is safe and live (H3).
    fn with_random_parameters(&self, random: &mut Random, _all_honest: bool) -> Option<Rc<dyn Kit>> {
        let config = Config {
            hedge_ms: [0, 1, 20, 60, 300][random.below(5) as usize],
            window: random.between(1, 5),
            tune_leader: !random.one_in(4),
            open_batches: random.between(1, 4),
            ..self.config.clone()
        };
        Some(Rc::new(Self::new(self.committee.clone(), config)))
    }
}
