//! Test support for the QuePaxa engine.
//!
//! [`QuePaxaKit`] runs the engine in the shared suite for engines that tolerate crashes, and in its fault schedules.

use corniche_engine::{Committee, Verifier};
use corniche_quepaxa::{Config, QuePaxa, QuePaxaVerifier, Setup, message::Message};
use corniche_testkit::{
    EngineStart, Random,
    crashes::{CrashEngine, CrashKit},
};
use corniche_types::{Bytes, ValidatorIndex, wire};
use std::sync::Arc;

const NAME: &str = "quepaxa";

/// A committee whose keys are never used. All have one vote.
pub fn committee(size: usize) -> Committee {
    corniche_testkit::committee(NAME, size)
}

pub type QuePaxaKit = CrashKit<QuePaxaSubject>;

/// QuePaxa in tests.
pub struct QuePaxaSubject;

impl CrashEngine for QuePaxaSubject {
    type Engine = QuePaxa;
    type Config = Config;
    type Message = Message;
    const NAME: &'static str = NAME;

    fn start(config: Config, committee: Committee, me: ValidatorIndex, start: EngineStart) -> QuePaxa {
        let EngineStart { seed, records, unsigned, resume, now } = start;
        QuePaxa::new(Setup { config, committee, me, seed, records, unsigned, resume, now })
    }

    fn verifier(config: Config, committee: Committee) -> Arc<dyn Verifier> {
        Arc::new(QuePaxaVerifier::new(config, committee))
    }

    fn decode(message: &Bytes) -> Message {
        wire::decode(message).expect("an engine encoded it")
    }

    fn footprint(engine: &QuePaxa) -> usize {
        engine.footprint()
    }

    fn describe(engine: &QuePaxa) -> String {
        engine.describe()
    }

    fn max_footprint(config: &Config, committee_size: usize) -> usize {
        config.max_footprint(committee_size)
    }

    fn retained(config: &Config) -> u64 {
        config.retain_slots
    }

    /// Short epochs, too, so that short runs cover many of them.
    fn quick() -> Config {
        Config { hedge_ms: 60, epoch_slots: 6, resend_ms: 200, status_ms: 500, retain_slots: 200, ..Config::default() }
    }

    /// Any delay is safe and live (H3).
    fn vary(config: &mut Config, random: &mut Random) {
        config.hedge_ms = [0, 1, 20, 60, 300][random.below(5) as usize];
        config.window = random.between(1, 5);
        config.tune_leader = !random.one_in(4);
        config.open_batches = random.between(1, 4);
    }

    /// Validator 0 always leads, and the others hedge in the order of their indices.
    fn plain(resend_ms: u64, status_ms: u64) -> Config {
        Config { hedge_ms: 100, batch_interval_ms: 0, tune_leader: false, resend_ms, status_ms, ..Config::default() }
    }

    fn is_report(message: &Message) -> bool {
        matches!(message, Message::Highest { .. })
    }
}
