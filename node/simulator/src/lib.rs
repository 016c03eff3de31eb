//! Whole networks in virtual time: pipelines on simulated links and disks, one thread, one seed.
//!
//! ```text
//! scenario file ─parse─▶ Scenario ─simulate(seed)─▶ Report ─▶ JSON, exit code
//! ```
//! A `node` runs the loop of `corniche node`, [`corniche_pipeline::Driver`], as a process of the testkit's world. Only the
//! effects differ: `effects` implements them with virtual time instead of threads, files and sockets. `load` contains its
//! clients; `checks` checks every honest node at every step. Everything is a function of the scenario and the seed:
//! integers, ordered maps, no clock, no thread.
//!
//! The following modules describe their models and the differences from real machines: `crypto` (cost of signatures),
//! `execution` (shared execution), `effects` (threads), `disk` (power cuts).
//!
//! Modules in layers, lowest first; each uses only modules in its row or above:
//!
//! | module | content |
//! |---|---|
//! | `scenario` | a scenario file: network, load and faults |
//! | `report` | the result of a run, and its JSON |
//! | `crypto`, `notices`, `genesis` | modelled keys with the cost of real ones; silent validators and bad dealers; genesis and the validators' secrets |
//! | `engines`, `execution`, `disk` | an engine and its observation; execution of blocks, by each node or once for all; the disk of a node |
//! | `multicast` | the multicast group of engines that order by one: sequencer, faults, losses |
//! | `load`, `stake`, `checks` | clients; calls of the staking contract; checks of every run, and its measurements |
//! | `network` | data that all nodes share, and the messages between them |
//! | `byzantine`, `adversary` | nodes whose messages are altered; schedulers of messages |
//! | `effects`, `node` | links, processor and disk of a node, in virtual time; a whole node as a process |
//! | `schedule`, `stall` | faults by time; the longest time without a commit |
//! | `simulate` | one run |
//! | `plot`, `comparison` | curves over time; one scenario under several engines |

mod adversary;
mod byzantine;
mod checks;
pub mod comparison;
mod crypto;
mod disk;
mod effects;
mod engines;
mod execution;
mod genesis;
mod load;
mod multicast;
mod network;
mod node;
mod notices;
pub mod plot;
pub mod report;
pub mod scenario;
mod schedule;
mod simulate;
mod stake;
mod stall;
#[cfg(test)]
mod tests;

pub use corniche_testkit::Micros;
pub use engines::Tune;
pub use network::Observer;
pub use report::{Report, Sample, Second, Spent, Spread, Verdict, Work};
pub use scenario::Scenario;
pub use simulate::{Probe, simulate, simulate_with};
