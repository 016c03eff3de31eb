//! The parallel executor against the serial one: scenarios made to go wrong, and random blocks.
#![allow(clippy::unwrap_used)] // also in helpers

#[path = "../support/mod.rs"]
mod support;

mod adoption;
mod conflict_chain;
mod counters;
mod deployments;
mod failures;
mod fees;
mod hints;
mod nested_calls;
mod nonces;
mod payments;
mod precompiles;
mod random_blocks;
mod read_skew;
mod runs;
mod vanishing_writes;
