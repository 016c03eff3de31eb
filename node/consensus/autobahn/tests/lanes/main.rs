//! The lane rules, one at a time, on a network of lanes without slots.

#![allow(clippy::unwrap_used)] // in a test the panic is the report

mod cars;
mod fetching;
mod forks;
mod net;
mod recovery;
