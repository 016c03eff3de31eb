//! Tests of the pool: refusals, scenarios, and random operations.

mod batches;
mod operations;
mod pool;
mod refusals;
mod turns;
mod world;
