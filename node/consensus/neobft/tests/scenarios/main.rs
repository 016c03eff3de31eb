//! Scenarios of the NeoBFT engine, one story each.

mod cluster;
mod delays;
mod failover;
mod gaps;
mod hints;
mod hostile;
mod real_crypto;
mod recovery;
mod requests;
mod trace;
mod views;
