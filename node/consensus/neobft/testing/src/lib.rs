//! Test support for the NeoBFT engine.
//!
//! **For tests and simulations only.** No crate of a node depends on this one. The keys are keyed hashes that anyone can
//! compute. In a test they bind like the real ones and cost a thousandth. A genesis cannot choose them.
//!
//! - [`FakeKeys`], [`BadKeys`], [`FakeSignatures`]: modelled keys of the members. Packets have real authenticators.
//! - [`ModelledGroup`]: a sequencer with faults, and the configuration service that replaces it.
//! - [`NeobftKit`]: runs the engine in the shared suite and its fault schedules.

mod bad_keys;
mod group;
mod kit;

pub use bad_keys::BadKeys;
pub use corniche_testkit::{FakeKeys, FakeSignatures};
pub use group::{Faults, ModelledGroup};
pub use kit::NeobftKit;

use corniche_engine::Committee;

const NAME: &str = "neobft";

/// A committee whose keys are never used. All have one vote.
pub fn committee(size: usize) -> Committee {
    corniche_testkit::committee(NAME, size)
}

/// Like [`committee`], with these votes.
pub fn committee_of(votes: &[u32]) -> Committee {
    corniche_testkit::committee_of(NAME, votes)
}
