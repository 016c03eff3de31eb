//! Results of transactions.

use alloy_primitives::{Address, Bytes};
use alloy_sol_types::{SolError, SolEvent};
use corniche_types::Log;
use corniche_vm::{ExecutionStatus, TraceFrame};
use std::fmt;

/// A successful transaction.
#[derive(Clone)]
pub struct Sent<T> {
    /// The function's return value; the address for a deployment.
    pub output: T,
    pub gas_used: u64,
    pub logs: Vec<Log>,
    /// The call tree.
    pub trace: Option<Box<TraceFrame>>,
}

impl<T> Sent<T> {
    /// Returns the events of this type from all contracts, in order.
    pub fn events<E: SolEvent>(&self) -> Vec<E> {
        self.logs.iter().filter_map(|log| E::decode_raw_log(log.topics.iter().copied(), &log.data).ok()).collect()
    }

    /// Returns the events of this type from one contract.
    pub fn events_of<E: SolEvent>(&self, contract: Address) -> Vec<E> {
        let logs = self.logs.iter().filter(|log| log.address == contract);
        logs.filter_map(|log| E::decode_raw_log(log.topics.iter().copied(), &log.data).ok()).collect()
    }
}

/// Needed for `unwrap_err` in tests. Omits the output: the return types that `sol!` generates have no `Debug` by
/// default.
impl<T> fmt::Debug for Sent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the transaction succeeded with {} gas and {} events", self.gas_used, self.logs.len())
    }
}

/// A failed transaction. `Debug` prints its call tree.
#[derive(Clone)]
pub struct Failed {
    pub end: ExecutionStatus,
    /// Revert data; empty without a revert.
    pub data: Bytes,
    pub gas_used: u64,
    pub trace: Option<Box<TraceFrame>>,
    pub(crate) rendered: String,
}

impl Failed {
    /// Returns the custom error, if the transaction reverted with this type.
    pub fn error<E: SolError>(&self) -> Option<E> {
        (self.end == ExecutionStatus::Revert).then(|| E::abi_decode(&self.data).ok()).flatten()
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rendered)
    }
}

/// Printed by `unwrap` and `expect` in tests.
impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the transaction failed:\n{}", self.rendered)
    }
}

impl std::error::Error for Failed {}
