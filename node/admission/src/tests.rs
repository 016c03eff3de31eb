//! Tests of the pool: refusals, scenarios, and random operations.

mod batches;
mod operations;
mod refusals;
mod stories;
mod turns;
mod world;
