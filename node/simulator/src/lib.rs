//! Whole networks in virtual time: pipelines on simulated links and disks, one thread, one seed.
//!
//! ```text
//! scenario file ─parse─▶ Scenario ─simulate(seed)─▶ Report ─▶ JSON, exit code
//! ```
//! A `node` is the pipeline of `corniche node` with its verification, execution and disk, as a process of the testkit's
//! world. `load` contains its clients; `checks` checks every honest node at every step. Everything is a function of the
//! scenario and the seed: integers, ordered maps, no clock, no thread.
//!
//! The following modules describe their models and the differences from real machines: `crypto` (cost of signatures),
//! `execution` (shared execution), `node` (threads), `disk` (power cuts).

mod adversary;
mod byzantine;
mod checks;
mod crypto;
mod disk;
mod engines;
mod execution;
mod genesis;
mod load;
mod node;
pub mod report;
pub mod scenario;
mod schedule;
mod simulate;
mod stall;
#[cfg(test)]
mod tests;

pub use corniche_testkit::Micros;
pub use engines::Tune;
pub use node::Observer;
pub use report::{Report, Sample, Second, Spent, Spread, Verdict, Work};
pub use scenario::Scenario;
pub use simulate::{Probe, simulate, simulate_with};
