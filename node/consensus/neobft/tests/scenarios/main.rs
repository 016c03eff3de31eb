//! Scenarios of the NeoBFT engine, one story each.

mod cluster;
mod delays;
mod failover;
mod finality;
mod gaps;
mod hints;
mod hostile;
mod real_crypto;
mod recovery;
mod requests;
mod statements;
mod trace;
mod views;
mod weights;
