//! What running a block took. Differs from run to run and from node to node; no result depends on it.

use std::ops::AddAssign;

/// Counts of one block, or of several added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Transactions with a valid signature: the ones that had to come to a result.
    pub transactions: u64,
    /// Runs of the virtual machine, also of ones that were thrown away.
    pub executions: u64,
    /// Runs of a transaction after its first one.
    pub re_executions: u64,
    /// Runs that stopped at a value about to change, to wait for its writer.
    pub suspensions: u64,
    /// Transactions put off before they ran, because a conflict with an earlier one was foreseen.
    pub foreseen: u64,
    /// Results taken back because something they had read changed.
    pub invalidations: u64,
    /// Results taken back because the answer to a predicate read, or a bound of an addition, turned out otherwise.
    pub bounds_violated: u64,
    /// Transactions left to wait until all before them were final.
    pub serial_fallbacks: u64,
    /// Recorded results offered.
    pub offered: u64,
    /// Recorded results taken as they were, without running.
    pub adopted: u64,
}

impl AddAssign for Statistics {
    fn add_assign(&mut self, more: Self) {
        self.transactions += more.transactions;
        self.executions += more.executions;
        self.re_executions += more.re_executions;
        self.suspensions += more.suspensions;
        self.foreseen += more.foreseen;
        self.invalidations += more.invalidations;
        self.bounds_violated += more.bounds_violated;
        self.serial_fallbacks += more.serial_fallbacks;
        self.offered += more.offered;
        self.adopted += more.adopted;
    }
}
