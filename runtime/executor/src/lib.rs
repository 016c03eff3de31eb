//! Many transactions: ordered candidates in, receipts, changes and roots out.
//!
//! - [`verify_ordered`]: bytes as ordered to a transaction whose sender is known; pure, for workers.
//! - [`serial::execute_block`]: one after the other in commit order. This is what a block *means*: any parallel executor
//!   must come to exactly the same [`BlockOutput`].
//! - [`parallel::execute_block`]: the same on the threads of a [`Pool`], which the caller brings.
//! - [`Recorded`]: a result with all that it follows from, to be adopted by a block that finds the same.
//! - [`Speculator`]: such results for transactions that are not ordered yet.
//! - [`fees::next_base_fee`]: what a block's gas costs.
//!
//! What always holds: ordered is not valid. Every candidate is checked again in the state that the ones before it left, and
//! one that may not run is skipped: no fee, no receipt, its reason in the ordering record.

mod attempt;
mod candidate;
mod commit;
mod core;
pub mod fees;
mod few;
mod foresight;
mod mvstore;
mod output;
pub mod parallel;
mod pool;
mod recorded;
mod roots;
mod runs;
mod schedule;
mod seed;
pub mod serial;
mod speculate;
mod statistics;
mod sync;
#[cfg(test)]
mod tests;
mod validate;
mod worker;

pub use candidate::{Candidate, verify_ordered, verify_ordered_once};
pub use output::BlockOutput;
pub use pool::{Alone, Pool};
pub use recorded::{Predicate, Reads, Recorded, Recorder};
pub use runs::{Run, Runs};
pub use speculate::{SpeculationCounts, SpeculationLimits, Speculator, Waiting};
pub use statistics::Statistics;
