//! Autobahn: Byzantine atomic broadcast on lanes of certified cars, live under partial synchrony, without hangovers.
//!
//! Every validator spreads its transactions in its own lane, one car after the other. f + 1 votes prove that an honest
//! validator holds a car and everything below it. Slots, each with a leader, agree on *cuts*: one tip of every lane. A
//! cut commits the whole backlog of the lanes.
//!
//! ```text
//!   lane l     car ──▶ votes ──▶ car (with the proof of the one before) ──▶ …           no timer, no leader
//!   slot s     PREPARE(cut) ──▶ PREP-VOTE ──▶ COMMIT            all n voted: three message delays
//!                                    └──▶ CONFIRM ──▶ ACK ──▶ COMMIT     n − f voted: five
//!   slot s+1        PREPARE ──▶ …                               starts on the PREPARE of slot s; at most k are open
//! ```
//!
//! The rule numbers (D lanes, C one slot, V view change, S parallel slots, O order, Y synchronisation, G garbage, R
//! restart, N never, P pitfalls) are explained in this crate's README, which also lists the departures from the paper.

pub mod config;
#[cfg(feature = "real-crypto")]
pub mod crypto;
#[cfg(feature = "kit")]
mod doubles;
mod engine;
mod execution;
#[cfg(test)]
mod fixtures;
mod journal;
pub mod keys;
#[cfg(feature = "kit")]
pub mod kit;
pub mod lanes;
pub mod message;
pub mod order;
mod records;
mod repair;
pub mod rules;
mod seal_cache;
mod serve;
mod slot;
pub mod slots;
pub mod verify;

pub use config::Config;
pub use engine::{Autobahn, Setup};
pub use keys::{Share, Signature, Signatures, Signer};
pub use slots::{Lanes, Slots};
pub use verify::AutobahnVerifier;
