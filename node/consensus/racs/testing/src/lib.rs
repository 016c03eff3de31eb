//! Test support for the SADL-RACS engine.
//!
//! [`RacsKit`] runs the engine in the shared suite for engines that tolerate crashes, and in its fault schedules.

use corniche_engine::{Committee, Verifier, VertexId};
use corniche_racs::{Config, Racs, RacsVerifier, Setup};
use corniche_testkit::{Forgery, Kit, Measured, MeasuredEngine, Random, unequal_votes};
use corniche_types::{Bytes, ValidatorIndex};
use std::{rc::Rc, sync::Arc};

/// Name in a genesis.
const NAME: &str = "sadl-racs";

/// A committee whose keys are never used. All have one vote.
pub fn committee(size: usize) -> Committee {
    corniche_testkit::committee(NAME, size)
}

/// SADL-RACS with one committee.
pub struct RacsKit {
    pub config: Config,
    committee: Committee,
}

impl RacsKit {
    /// A committee of this size with short timers, so that short runs cover many fallbacks.
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
    Config { timeout_ms: 300, resend_ms: 200, status_ms: 500, retain_rounds: 200, ..Config::default() }
}

impl Kit for RacsKit {
    /// Name of the package.
    fn name(&self) -> &'static str {
        "racs"
    }

    fn committee(&self) -> &Committee {
        &self.committee
    }

    fn start(&self, setup: corniche_testkit::Setup) -> Box<dyn Measured> {
        let corniche_testkit::Setup { me, seed: _, records, unsigned, resume, now, forgery: _ } = setup;
        let (config, committee) = (self.config.clone(), self.committee.clone());
        let setup = Setup { config, committee, me, records, unsigned, resume, now };
        Box::new(MeasuredEngine { engine: Racs::new(setup), footprint: Racs::footprint, describe: Racs::describe })
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        Arc::new(RacsVerifier::new(self.config.clone(), self.committee.clone()))
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
        self.config.retain_rounds
    }

    fn max_footprint(&self) -> usize {
        self.config.max_footprint(self.committee.size())
    }

    /// Any timeout is safe and live (M3).
    fn with_random_parameters(&self, random: &mut Random, _all_honest: bool) -> Option<Rc<dyn Kit>> {
        let config = Config {
            timeout_ms: [1, 10, 40, 150, 1_000][random.below(5) as usize],
            pipeline: [1, 1, 2, 8][random.below(4) as usize],
            open_batches: random.between(1, 8),
            tail_ms: [0, 0, 20][random.below(3) as usize],
            ..self.config.clone()
        };
        Some(Rc::new(Self::new(self.committee.clone(), config)))
    }
}
