//! Test support for the Mahi-Mahi engine.
//!
//! **For tests and simulations only.** No crate of a node depends on this one. The keys are keyed hashes that anyone can
//! compute. In a test they bind like the real ones and cost a thousandth. A genesis cannot choose them.
//!
//! - [`FakeKeys`], [`BadShares`], [`FakeSignatures`], [`FakeCoin`]: modelled keys and coin.
//! - [`MahiKit`]: runs the engine in the shared suite and its fault schedules.
//! - [`cordial_miners`]: the baseline that the thesis compares with.

mod fake_keys;
mod kit;

pub use fake_keys::{BadShares, FakeCoin, FakeKeys, FakeSignatures, sign};
pub use kit::MahiKit;

use corniche_engine::Committee;
use corniche_mahi_mahi::{Config, rules::Waves};

const NAME: &str = "mahi-mahi";

/// A committee whose keys are never used.
pub fn committee(size: usize) -> Committee {
    corniche_testkit::committee(NAME, size)
}

/// A committee with these votes, whose keys are never used.
pub fn committee_of(votes: &[u32]) -> Committee {
    corniche_testkit::committee_of(NAME, votes)
}

/// Cordial Miners on the same DAG, the baseline of the thesis. A wave of five rounds begins when the previous one ended.
/// Its first round has one leader, elected by the coin of its last round. The leader commits with a quorum of
/// certificates. Otherwise the next leader that commits decides it, by whether its history contains a certificate. There
/// is no direct skip.
pub fn cordial_miners() -> Config {
    let waves = Waves { length: 5, leaders: 1, stride: 5, direct_skip: false };
    Config { wave_length: waves.length, leaders: waves.leaders, baseline: Some(waves), ..Config::default() }
}
