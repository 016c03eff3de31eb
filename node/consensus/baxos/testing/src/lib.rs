//! Test support for the Baxos engine.
//!
//! [`BaxosKit`] runs the engine in the shared suite for engines that tolerate crashes, and in its fault schedules.

use corniche_baxos::{Baxos, BaxosVerifier, Config, Setup};
use corniche_engine::{Committee, Verifier, VertexId};
use corniche_testkit::{Forgery, Kit, Measured, MeasuredEngine, Random, unequal_votes};
use corniche_types::{Bytes, ValidatorIndex};
use std::{rc::Rc, sync::Arc};

const NAME: &str = "baxos";

/// A committee whose keys are never used. All have one vote.
pub fn committee(size: usize) -> Committee {
    corniche_testkit::committee(NAME, size)
}

/// Like [`committee`], with unequal votes.
pub fn weighted_committee(size: usize) -> Committee {
    corniche_testkit::committee_of(NAME, &unequal_votes(size))
}

/// Baxos with one committee.
pub struct BaxosKit {
    pub config: Config,
    committee: Committee,
}

impl BaxosKit {
    /// A committee of this size with short timers.
    pub fn quick(size: usize) -> Rc<dyn Kit> {
        Rc::new(Self::new(committee(size), quick_config()))
    }

    /// Like [`Self::quick`], with unequal votes.
    pub fn quick_weighted(size: usize) -> Rc<dyn Kit> {
        Rc::new(Self::new(weighted_committee(size), quick_config()))
    }

    pub fn new(committee: Committee, config: Config) -> Self {
        Self { config, committee }
    }
}

fn quick_config() -> Config {
    Config { resend_ms: 200, status_ms: 500, retain_slots: 200, ..Config::default() }
}

impl Kit for BaxosKit {
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
        Box::new(MeasuredEngine { engine: Baxos::new(setup), footprint: Baxos::footprint, describe: Baxos::describe })
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        Arc::new(BaxosVerifier::new(self.config.clone(), self.committee.clone()))
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

    /// Any timer is safe. Timers that are too short are measured and mended.
    fn with_random_parameters(&self, random: &mut Random, _all_honest: bool) -> Option<Rc<dyn Kit>> {
        let config = Config {
            rtt_ms: [1, 20, 100, 500][random.below(4) as usize],
            slack_ms: [5, 20, 50, 200][random.below(4) as usize],
            nack: !random.one_in(4),
            open_batches: random.between(1, 4),
            ..self.config.clone()
        };
        Some(Rc::new(Self::new(self.committee.clone(), config)))
    }
}
