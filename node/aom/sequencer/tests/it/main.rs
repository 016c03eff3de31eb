//! Tests of the sequencer: the deciding part in virtual time, and the daemon on loopback sockets.

mod admin;
mod common;
mod config;
mod core;
#[path = "../../../wire/tests/vectors/mod.rs"]
mod format;
mod loopback;
mod restart;
mod vectors;
