//! Execution stage: turns block plans into blocks with their results. Deterministic and without I/O.
//!
//! ```text
//! plan ─▶ Runner ─────────────────────▶ UnsealedBlock ─▶ Sealer ─▶ Executed
//!         runs the transactions,               tree, roots, header,
//!         writes their changes to the state    hash
//! ```
//!
//! Executing a block does not need the hash of the block before, so the two halves may be a few blocks apart.
//! The node gives each half a thread: the next block runs while the last one is hashed. The simulator and
//! tests call them in place through [`ExecutionStage`]. The results are the same.
//!
//! A block does need the hash of the header [`AHEAD_OF_CERTIFICATION`](crate::AHEAD_OF_CERTIFICATION) below
//! it, which is certified by then: the block ends by writing that hash into the state. So the distance
//! between the halves is always smaller.

mod ancestors;
mod runner;
mod sealer;
mod staking;

use crate::{BlockPlan, EpochStart};
use ancestors::AncestorHashes;
use corniche_executor::{BlockOutput, Candidate, verify_ordered};
use corniche_state::{CommittedBlock, State, StateView, Tree};
use corniche_types::{Address, B256, Genesis, Header, KnownVersions, OrderedTransaction, SkipReason, ValidatorIndex};
use corniche_vm::{BlockEnv, Vm};
use std::sync::Arc;

pub use corniche_crypto::VerifiedTransaction;
pub use runner::{Runner, UnsealedBlock};
pub use sealer::Sealer;
pub use staking::dealing_checks;

/// Executes blocks one after the other on top of a head: both halves in sequence.
pub struct ExecutionStage {
    runner: Runner,
    sealer: Sealer,
}

/// Executed block.
#[derive(Clone, Debug)]
pub struct Executed {
    pub hash: B256,
    pub committed: Arc<CommittedBlock>,
    /// Skipped transactions that may become valid later, with the validator to whose pool they return.
    pub returned: Vec<(ValidatorIndex, VerifiedTransaction)>,
}

/// Point where execution continues.
pub struct ExecutionStart {
    pub state: State,
    pub tree: Tree,
    pub head: Header,
    /// Epoch of the next block.
    pub epoch: EpochStart,
    /// Versions that this build knows. It executes no block of another version.
    pub known: KnownVersions,
    /// Gas used by the blocks with the head's timestamp, including the head.
    pub gas_in_second: u64,
    /// Hashes of the newest headers, oldest first, the head's last: those in
    /// [`certified::unwritten`](corniche_types::certified::unwritten), which are 64 or all that exist.
    pub hashes: Vec<B256>,
}

impl ExecutionStage {
    pub fn new(genesis: Arc<Genesis>, vm: Vm, start: ExecutionStart) -> Self {
        let (ancestors, sealed) = AncestorHashes::new(start.head.number, &start.hashes);
        Self { runner: Runner::new(genesis.clone(), vm, &start, ancestors), sealer: Sealer::new(&genesis, start, sealed) }
    }

    /// Splits the stage into its halves, one per thread. The output of the first is the input of the second,
    /// in order.
    pub fn split(self) -> (Runner, Sealer) {
        (self.runner, self.sealer)
    }

    /// Base fee of a block in the given second on top of the current head.
    pub fn base_fee_at(&self, second: u64) -> u64 {
        self.runner.base_fee_at(second)
    }

    /// [`Runner::run`], then [`Sealer::seal`].
    pub fn execute(
        &mut self,
        plan: BlockPlan,
        verify: impl FnOnce(&[OrderedTransaction], u64) -> Vec<Result<VerifiedTransaction, SkipReason>>,
    ) -> Executed {
        let unsealed = self.runner.run(plan, verify);
        self.sealer.seal(unsealed)
    }

    /// Like [`Self::execute`], but runs the candidates with `run`. Roots, header and ordering record are
    /// computed as there.
    pub fn execute_with(
        &mut self,
        plan: BlockPlan,
        verify: impl FnOnce(&[OrderedTransaction], u64) -> Vec<Result<VerifiedTransaction, SkipReason>>,
        run: impl FnOnce(&dyn StateView, &BlockEnv, &[Candidate], &[Address]) -> BlockOutput,
    ) -> Executed {
        let unsealed = self.runner.run_with(plan, verify, run);
        self.sealer.seal(unsealed)
    }
}

/// Verifies all transactions of a block on the calling thread.
pub fn verify_all(ordered: &[OrderedTransaction], chain_id: u64) -> Vec<Result<VerifiedTransaction, SkipReason>> {
    ordered.iter().map(|transaction| verify_ordered(&transaction.raw, chain_id)).collect()
}
