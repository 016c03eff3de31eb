//! What came of a transaction.

use alloy_primitives::{Address, Bytes};
use alloy_sol_types::{SolError, SolEvent};
use corniche_types::Log;
use corniche_vm::{End, TraceFrame};
use std::fmt;

/// A transaction that did what it was to do.
#[derive(Clone)]
pub struct Sent<T> {
    /// What the function returned; of a deployment the address.
    pub output: T,
    pub gas_used: u64,
    pub logs: Vec<Log>,
    /// Its calls.
    pub trace: Option<Box<TraceFrame>>,
}

impl<T> Sent<T> {
    /// Events of this kind, whichever contract emitted them, in order.
    pub fn events<E: SolEvent>(&self) -> Vec<E> {
        self.logs.iter().filter_map(|log| E::decode_raw_log(log.topics.iter().copied(), &log.data).ok()).collect()
    }

    /// Those of one contract.
    pub fn events_of<E: SolEvent>(&self, contract: Address) -> Vec<E> {
        let logs = self.logs.iter().filter(|log| log.address == contract);
        logs.filter_map(|log| E::decode_raw_log(log.topics.iter().copied(), &log.data).ok()).collect()
    }
}

/// So that `unwrap_err` in a test shows it. Without the output: what `sol!` makes for a function's returned values has no `Debug`
/// unless it is asked for.
impl<T> fmt::Debug for Sent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the transaction went well, for {} gas, with {} events", self.gas_used, self.logs.len())
    }
}

/// A transaction that failed; shown as the calls that led there.
#[derive(Clone)]
pub struct Failed {
    pub end: End,
    /// What it reverted with, if it did.
    pub data: Bytes,
    pub gas_used: u64,
    pub trace: Option<Box<TraceFrame>>,
    pub(crate) told: String,
}

impl Failed {
    /// The custom error it reverted with, if it is this one.
    pub fn error<E: SolError>(&self) -> Option<E> {
        (self.end == End::Revert).then(|| E::abi_decode(&self.data).ok()).flatten()
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told)
    }
}

/// So that `unwrap` and `expect` in a test show it.
impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the transaction failed:\n{}", self.told)
    }
}

impl std::error::Error for Failed {}
