//! Test support for the Baxos engine.
//!
//! [`BaxosKit`] runs the engine in the shared suite for engines that tolerate crashes, and in its fault schedules.

use corniche_baxos::{Baxos, BaxosVerifier, Config, Setup, message::Message};
use corniche_engine::{Committee, Verifier};
use corniche_testkit::{
    EngineStart, Random,
    crashes::{CrashEngine, CrashKit},
    unequal_votes,
};
use corniche_types::{Bytes, ValidatorIndex, wire};
use std::sync::Arc;

const NAME: &str = "baxos";

/// A committee whose keys are never used. All have one vote.
pub fn committee(size: usize) -> Committee {
    corniche_testkit::committee(NAME, size)
}

/// Like [`committee`], with unequal votes.
pub fn weighted_committee(size: usize) -> Committee {
    corniche_testkit::committee_of(NAME, &unequal_votes(size))
}

pub type BaxosKit = CrashKit<BaxosSubject>;

/// Baxos in tests.
pub struct BaxosSubject;

impl CrashEngine for BaxosSubject {
    type Engine = Baxos;
    type Config = Config;
    type Message = Message;
    const NAME: &'static str = NAME;

    fn start(config: Config, committee: Committee, me: ValidatorIndex, start: EngineStart) -> Baxos {
        let EngineStart { seed, records, unsigned, resume, now } = start;
        Baxos::new(Setup { config, committee, me, seed, records, unsigned, resume, now })
    }

    fn verifier(config: Config, committee: Committee) -> Arc<dyn Verifier> {
        Arc::new(BaxosVerifier::new(config, committee))
    }

    fn decode(message: &Bytes) -> Message {
        wire::decode(message).expect("an engine encoded it")
    }

    fn footprint(engine: &Baxos) -> usize {
        engine.footprint()
    }

    fn describe(engine: &Baxos) -> String {
        engine.describe()
    }

    fn max_footprint(config: &Config, committee_size: usize) -> usize {
        config.max_footprint(committee_size)
    }

    fn retained(config: &Config) -> u64 {
        config.retain_slots
    }

    fn quick() -> Config {
        Config { resend_ms: 200, status_ms: 500, retain_slots: 200, ..Config::default() }
    }

    /// Any timer is safe. Timers that are too short are measured and mended.
    fn vary(config: &mut Config, random: &mut Random) {
        config.rtt_ms = [1, 20, 100, 500][random.below(4) as usize];
        config.slack_ms = [5, 20, 50, 200][random.below(4) as usize];
        config.nack = !random.one_in(4);
        config.open_batches = random.between(1, 4);
    }

    /// Phases take 20 + 50 ms.
    fn plain(resend_ms: u64, status_ms: u64) -> Config {
        Config { batch_interval_ms: 0, resend_ms, status_ms, ..Config::default() }
    }

    fn is_report(message: &Message) -> bool {
        matches!(message, Message::Highest { .. })
    }
}
