//! Whole networks in virtual time: pipelines on simulated links and disks, one thread, one seed.

pub mod report;
pub mod scenario;

pub use report::{Report, Second, Spread, Verdict};
pub use scenario::Scenario;
