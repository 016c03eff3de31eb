//! The parallel executor against the serial one: scenarios made to go wrong, and random blocks.
#![allow(clippy::unwrap_used)] // also in helpers

#[path = "../support/mod.rs"]
mod support;

mod conflict_chain;
mod random_blocks;
