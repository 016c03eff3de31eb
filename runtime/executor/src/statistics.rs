//! Counters of a block's execution. They differ from run to run and from node to node; no result depends on them.

use std::ops::AddAssign;

/// Counters of one block, or the sum over several blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Transactions with a valid signature, each of which needed a result.
    pub transactions: u64,
    /// Runs of the virtual machine, including those whose result was discarded.
    pub executions: u64,
    /// Runs of a transaction after its first one.
    pub re_executions: u64,
    /// Runs that stopped at a value that is about to change, to wait for its writer.
    pub suspensions: u64,
    /// Transactions delayed before they ran, because a conflict with an earlier one was predicted.
    pub predicted_conflicts: u64,
    /// Results invalidated because a value that they had read changed.
    pub invalidations: u64,
    /// Results invalidated because a predicate read, or the bound of an addition, no longer held.
    pub bounds_violated: u64,
    /// Transactions that waited until all earlier ones were final.
    pub serial_fallbacks: u64,
    /// Recorded results offered.
    pub offered: u64,
    /// Recorded results adopted without running the transaction.
    pub adopted: u64,
}

impl AddAssign for Statistics {
    fn add_assign(&mut self, more: Self) {
        self.transactions += more.transactions;
        self.executions += more.executions;
        self.re_executions += more.re_executions;
        self.suspensions += more.suspensions;
        self.predicted_conflicts += more.predicted_conflicts;
        self.invalidations += more.invalidations;
        self.bounds_violated += more.bounds_violated;
        self.serial_fallbacks += more.serial_fallbacks;
        self.offered += more.offered;
        self.adopted += more.adopted;
    }
}
