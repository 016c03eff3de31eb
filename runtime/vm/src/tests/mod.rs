//! The rules of state, with scripts instead of WebAssembly: each test defines the behavior of its contracts.

mod calls;
mod counters;
mod creations;
mod estimates;
mod precompiles;
mod properties;
mod scripts;
mod skips;
mod staking;
mod storage;
mod stylus;
mod traces;
mod transfers;
