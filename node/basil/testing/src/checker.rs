//! The offline checker, with the keys of tests.

use corniche_basil::Program;
use corniche_basil::certificate::Decided;
pub use corniche_basil::checker::History;
use corniche_basil::shards::{Key, Shards};
use corniche_basil::shared::Shared;
use corniche_basil::transaction::Value;
use std::collections::BTreeMap;

/// Checks a history of the tests' program.
pub fn check(shards: &Shards, decided: &[Shared<Decided>]) -> Result<History, String> {
    check_from(shards, decided, &crate::genesis(), &crate::Mixer)
}

/// As [`check`], with another program and values in the genesis.
pub fn check_from(
    shards: &Shards,
    decided: &[Shared<Decided>],
    genesis: &BTreeMap<Key, Value>,
    program: &dyn Program,
) -> Result<History, String> {
    corniche_basil::checker::check(shards, &crate::Keys, decided, genesis, program)
}
