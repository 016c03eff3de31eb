//! The execution stage: block plans in, blocks with their results out. Deterministic and without I/O.
//!
//! ```text
//! plan ─▶ Runner ─────────────────────▶ Ran ─▶ Sealer ─▶ Executed
//!         runs the transactions,               tree, roots, header,
//!         writes their changes to the state    hash
//! ```
//!
//! Nothing that running a block needs is a hash of the block before, so the two halves may be a few blocks apart: the rim
//! gives each a thread, and the next block runs while the last one is hashed. The simulator and tests call them in place
//! through [`ExecutionStage`]. The results are the same.
//!
//! What a block does need is the hash of the header [`AHEAD_OF_CERTIFICATION`](crate::AHEAD_OF_CERTIFICATION) below it, which is certified
//! by then: it ends by writing that into the state. So the halves are always less than that apart.

mod ancestors;
mod runner;
mod sealer;

use crate::BlockPlan;
use ancestors::Ancestors;
use corniche_executor::{BlockOutput, Candidate, verify_ordered};
use corniche_state::{CommittedBlock, State, StateView, Tree};
use corniche_types::{Address, B256, Genesis, Header, OrderedTransaction, SkipReason, ValidatorIndex};
use corniche_vm::{BlockEnv, Vm};
use std::sync::Arc;

pub use corniche_crypto::VerifiedTransaction;
pub use runner::{Ran, Runner};
pub use sealer::Sealer;

/// Executes blocks one after the other on top of a head: both halves, one after the other.
pub struct ExecutionStage {
    runner: Runner,
    sealer: Sealer,
}

/// One executed block.
#[derive(Clone, Debug)]
pub struct Executed {
    pub hash: B256,
    pub committed: Arc<CommittedBlock>,
    /// Skipped transactions that may become valid, with the validator to whose pool they return.
    pub returned: Vec<(ValidatorIndex, VerifiedTransaction)>,
}

/// Where execution continues.
pub struct ExecutionStart {
    pub state: State,
    pub tree: Tree,
    pub head: Header,
    /// Gas used by the blocks that carry the head's timestamp, the head included.
    pub gas_in_second: u64,
    /// Hashes of the newest headers, the oldest first and the head's last: of those in
    /// [`certified::unwritten`](corniche_types::certified::unwritten), which are 64 or all there are.
    pub hashes: Vec<B256>,
}

impl ExecutionStage {
    pub fn new(genesis: Arc<Genesis>, vm: Vm, start: ExecutionStart) -> Self {
        let (ancestors, sealed) = Ancestors::new(start.head.number, &start.hashes);
        Self { runner: Runner::new(genesis.clone(), vm, &start, ancestors), sealer: Sealer::new(&genesis, start, sealed) }
    }

    /// The halves, for a thread each. What the first makes is for the second, in order.
    pub fn split(self) -> (Runner, Sealer) {
        (self.runner, self.sealer)
    }

    /// The base fee of a block in the given second on top of the current head.
    pub fn base_fee_at(&self, second: u64) -> u64 {
        self.runner.base_fee_at(second)
    }

    /// [`Runner::run`], then [`Sealer::seal`].
    pub fn execute(
        &mut self,
        plan: BlockPlan,
        verify: impl FnOnce(&[OrderedTransaction], u64) -> Vec<Result<VerifiedTransaction, SkipReason>>,
    ) -> Executed {
        let ran = self.runner.run(plan, verify);
        self.sealer.seal(ran)
    }

    /// The same with another way of running the candidates; everything around it, roots, header and ordering record, is as in
    /// [`Self::execute`].
    pub fn execute_by(
        &mut self,
        plan: BlockPlan,
        verify: impl FnOnce(&[OrderedTransaction], u64) -> Vec<Result<VerifiedTransaction, SkipReason>>,
        run: impl FnOnce(&dyn StateView, &BlockEnv, &[Candidate], &[Address]) -> BlockOutput,
    ) -> Executed {
        let ran = self.runner.run_by(plan, verify, run);
        self.sealer.seal(ran)
    }
}

/// Checks every transaction of a block on the calling thread.
pub fn verify_all(ordered: &[OrderedTransaction], chain_id: u64) -> Vec<Result<VerifiedTransaction, SkipReason>> {
    ordered.iter().map(|transaction| verify_ordered(&transaction.raw, chain_id)).collect()
}
