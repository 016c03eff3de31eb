//! Blocks on all threads of a pool, with the result that [`serial`] gives.

use crate::{BlockOutput, Candidate, Pool, Recorded, Statistics, serial};
use corniche_state::StateView;
use corniche_types::Address;
use corniche_vm::{BlockEnv, Vm};

/// Executes the candidates as [`serial::execute_block`] does, with exactly its output. `recorded` holds results of earlier runs by
/// position, to be adopted where they still hold; it may be shorter than the block.
///
/// # Panics
/// Where [`serial::execute_block`] does.
pub fn execute_block(
    vm: &Vm,
    view: &dyn StateView,
    env: &BlockEnv,
    candidates: &[Candidate],
    fee_addresses: &[Address],
    pool: &dyn Pool,
    recorded: Vec<Option<Recorded>>,
) -> (BlockOutput, Statistics) {
    // Only the border so far: one thread of the pool does it all.
    let _ = (pool, recorded);
    let transactions = candidates.iter().filter(|candidate| candidate.verified.is_ok()).count() as u64;
    let output = serial::execute_block(vm, view, env, candidates, fee_addresses);
    (output, Statistics { transactions, executions: transactions, ..Statistics::default() })
}
