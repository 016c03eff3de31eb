//! Execution of blocks: takes ordered candidates, returns receipts, state changes and roots.
//!
//! - [`verify_ordered`]: decodes ordered bytes and recovers the sender. A pure function, so workers can run it.
//! - [`serial::execute_block`]: executes transactions one after the other in commit order. It *defines* the result of a
//!   block: every parallel executor must return exactly the same [`BlockOutput`].
//! - [`parallel::execute_block`]: computes that result on the threads of a [`WorkerPool`], which the caller provides.
//! - [`Recorded`]: a result with everything it depends on. A block that reads the same values adopts it.
//! - [`Speculator`]: computes such results for transactions that are not ordered yet.
//! - [`fees::next_base_fee`]: computes the base fee of the next block.
//!
//! Modules in layers, lowest first; each uses only modules in its line or above:
//!
//! - `candidate`, `recorded`, `output`, [`fees`], `roots`, `seed`, `statistics`, `pool`: input, output, shared values.
//! - [`serial`]: the definition of the result.
//! - `sync`, `schedule`, `small_deque`, `mvstore`, `conflict_predictor`: parts of a parallel run.
//! - `core`: its state. `attempt`, `validate`, `runs`, `worker`, `commit`: attempts, publication of results, runs handed
//!   out, threads, the end of the block.
//! - [`parallel`], `speculate`: blocks; results of transactions that are not ordered yet.
//!
//! Invariant: an ordered transaction need not be valid. The executor checks every candidate again, in the state that
//! its predecessors left. It skips a transaction that may not run: no fee, no receipt, and the reason goes into the
//! ordering record.

mod attempt;
mod candidate;
mod commit;
mod conflict_predictor;
mod core;
pub mod fees;
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
mod small_deque;
mod speculate;
mod statistics;
mod sync;
#[cfg(test)]
mod tests;
mod validate;
mod worker;

pub use candidate::{Candidate, verify_ordered, verify_ordered_cached};
pub use output::BlockOutput;
pub use pool::{SingleThread, WorkerPool};
pub use recorded::{Predicate, Reads, Recorded, Recorder};
pub use runs::{Run, Runs};
pub use speculate::{QueuedTransaction, SpeculationCounts, SpeculationLimits, Speculator};
pub use statistics::Statistics;
