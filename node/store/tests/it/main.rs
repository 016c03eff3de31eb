//! Tests of the store's public interface, one topic per file.
#![allow(clippy::unwrap_used)] // The lint exempts test functions, but not their helpers.

mod crash;
mod directory;
mod group_commit;
mod history;
mod model;
mod power;
mod restart;
mod revert;
mod safety;
mod snapshots;
mod support;
mod tails;
mod trace;
