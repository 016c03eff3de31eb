//! Test support for the SADL-RACS engine.
//!
//! [`RacsKit`] runs the engine in the shared suite for engines that tolerate crashes, and in its fault schedules.

use corniche_engine::{Committee, Verifier};
use corniche_racs::{Config, Racs, RacsVerifier, Setup, message::Message};
use corniche_testkit::{
    EngineStart, Random,
    crashes::{CrashEngine, CrashKit},
};
use corniche_types::{Bytes, ValidatorIndex, wire};
use std::sync::Arc;

const NAME: &str = "sadl-racs";

/// A committee whose keys are never used. All have one vote.
pub fn committee(size: usize) -> Committee {
    corniche_testkit::committee(NAME, size)
}

pub type RacsKit = CrashKit<RacsSubject>;

/// SADL-RACS in tests.
pub struct RacsSubject;

impl CrashEngine for RacsSubject {
    type Engine = Racs;
    type Config = Config;
    type Message = Message;
    const NAME: &'static str = NAME;
    const PACKAGE: &'static str = "racs";

    fn start(config: Config, committee: Committee, me: ValidatorIndex, start: EngineStart) -> Racs {
        let EngineStart { seed: _, records, unsigned, resume, now } = start;
        Racs::new(Setup { config, committee, me, records, unsigned, resume, now })
    }

    fn verifier(config: Config, committee: Committee) -> Arc<dyn Verifier> {
        Arc::new(RacsVerifier::new(config, committee))
    }

    fn decode(message: &Bytes) -> Message {
        wire::decode(message).expect("an engine encoded it")
    }

    fn footprint(engine: &Racs) -> usize {
        engine.footprint()
    }

    fn describe(engine: &Racs) -> String {
        engine.describe()
    }

    fn max_footprint(config: &Config, committee_size: usize) -> usize {
        config.max_footprint(committee_size)
    }

    fn retained(config: &Config) -> u64 {
        config.retain_rounds
    }

    /// A short timeout, too, so that short runs cover many fallbacks.
    fn quick() -> Config {
        Config { timeout_ms: 300, resend_ms: 200, status_ms: 500, retain_rounds: 200, ..Config::default() }
    }

    /// Any timeout is safe and live (M3).
    fn vary(config: &mut Config, random: &mut Random) {
        config.timeout_ms = [1, 10, 40, 150, 1_000][random.below(5) as usize];
        config.pipeline = [1, 1, 2, 8][random.below(4) as usize];
        config.open_batches = random.between(1, 8);
        config.tail_ms = [0, 0, 20][random.below(3) as usize];
    }

    fn plain(resend_ms: u64, status_ms: u64) -> Config {
        Config { timeout_ms: 200, batch_interval_ms: 0, resend_ms, status_ms, ..Config::default() }
    }

    fn is_report(message: &Message) -> bool {
        matches!(message, Message::InView { .. })
    }
}
