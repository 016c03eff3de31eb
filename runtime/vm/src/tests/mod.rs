//! The rules of state, with scripts in the place of WebAssembly: what a contract does is written in the test.

mod calls;
mod counters;
mod creations;
mod estimates;
mod precompiles;
mod properties;
mod scripts;
mod skips;
mod storage;
mod stylus;
mod traces;
mod transfers;
