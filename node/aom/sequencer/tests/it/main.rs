//! Tests of the sequencer: the deciding part in virtual time, and the daemon on loopback sockets.

mod admin;
mod common;
mod config;
mod core;
mod loopback;
mod restart;
#[path = "../../../wire/tests/sequencers/mod.rs"]
mod sequencers;
mod vectors;
