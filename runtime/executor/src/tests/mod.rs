//! The scheduler's core with transactions that are scripts, stepped through single reads and single publications.

mod exhaustive;
mod random;
mod script;
