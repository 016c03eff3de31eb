//! Engines for crashes as benchmark subjects. They sign nothing.

use crate::recording::BenchTarget;
use corniche_engine::{Committee, Engine, Resume, Verifier};
use corniche_testkit::Micros;
use corniche_types::{Bytes, ValidatorIndex};
use std::sync::Arc;

pub struct QuePaxaBench {
    config: corniche_quepaxa::Config,
    committee: Committee,
}

impl QuePaxaBench {
    /// `retained`: number of slots to keep.
    pub fn new(size: usize, retained: u64) -> Self {
        let config = corniche_quepaxa::Config {
            batch_interval_ms: 0,
            max_stretch: 1,
            retain_slots: retained.max(64),
            ..corniche_quepaxa::Config::default()
        };
        Self { config, committee: corniche_testkit::committee("quepaxa", size) }
    }
}

impl BenchTarget for QuePaxaBench {
    fn name(&self) -> &'static str {
        "quepaxa"
    }

    fn size(&self) -> usize {
        self.committee.size()
    }

    fn start(&self, me: ValidatorIndex) -> Box<dyn Engine> {
        Box::new(corniche_quepaxa::QuePaxa::new(corniche_quepaxa::Setup {
            config: self.config.clone(),
            committee: self.committee.clone(),
            me,
            seed: 1,
            records: Vec::new(),
            unsigned: true,
            resume: Resume::default(),
            now: Micros::START.timestamp(),
        }))
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        Arc::new(corniche_quepaxa::QuePaxaVerifier::new(self.config.clone(), self.committee.clone()))
    }

    fn withholds(&self, _: usize, _: &Bytes) -> bool {
        false
    }

    fn release(&self, _: u64) -> Vec<Bytes> {
        Vec::new()
    }
}
