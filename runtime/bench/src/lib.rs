//! `corniche bench exec` as a library. Every printed figure is measured in the same run.

mod chain;
mod exec;
mod measure;
mod random;
mod report;
mod solidity;
mod vm_only;
mod wasm;
mod workloads;

pub use exec::{Args, run};
