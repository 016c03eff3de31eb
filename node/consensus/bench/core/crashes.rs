//! Engines for crashes as benchmark subjects. They sign nothing.

use crate::recording::BenchTarget;
use corniche_engine::{Committee, Engine, Resume, Verifier};
use corniche_testkit::Micros;
use corniche_types::{Bytes, ValidatorIndex};
use std::sync::Arc;

/// A target of one engine. The crates have the same names for their types; `seed` is there if the engine draws random numbers.
macro_rules! target {
    ($bench:ident, $name:literal, $engine:ident::$type:ident, $verifier:ident, $retain:ident $(, $seed:ident)?) => {
        pub struct $bench {
            config: $engine::Config,
            committee: Committee,
        }

        impl $bench {
            /// `retained`: number of slots to keep.
            pub fn new(size: usize, retained: u64) -> Self {
                let config = $engine::Config {
                    batch_interval_ms: 0,
                    max_stretch: 1,
                    $retain: retained.max(64),
                    ..$engine::Config::default()
                };
                Self { config, committee: corniche_testkit::committee($name, size) }
            }
        }

        impl BenchTarget for $bench {
            fn name(&self) -> &'static str {
                $name
            }

            fn size(&self) -> usize {
                self.committee.size()
            }

            fn start(&self, me: ValidatorIndex) -> Box<dyn Engine> {
                Box::new($engine::$type::new($engine::Setup {
                    config: self.config.clone(),
                    committee: self.committee.clone(),
                    me,
                    $($seed: 1,)?
                    records: Vec::new(),
                    unsigned: true,
                    resume: Resume::default(),
                    now: Micros::START.timestamp(),
                }))
            }

            fn verifier(&self) -> Arc<dyn Verifier> {
                Arc::new($engine::$verifier::new(self.config.clone(), self.committee.clone()))
            }

            fn withholds(&self, _: usize, _: &Bytes) -> bool {
                false
            }

            fn release(&self, _: u64) -> Vec<Bytes> {
                Vec::new()
            }
        }
    };
}

target!(QuePaxaBench, "quepaxa", corniche_quepaxa::QuePaxa, QuePaxaVerifier, retain_slots, seed);
target!(RacsBench, "sadl-racs", corniche_racs::Racs, RacsVerifier, retain_rounds);
target!(BaxosBench, "baxos", corniche_baxos::Baxos, BaxosVerifier, retain_slots, seed);
