//! Autobahn: Byzantine atomic broadcast on lanes of certified cars, live under partial synchrony, without hangovers.
//!
//! Every validator spreads its transactions in its own lane, one car after the other. F + 1 votes prove that an honest
//! validator holds a car and everything below it. Slots, each with a leader, agree on *cuts*: one tip of every lane. A
//! cut commits the whole backlog of the lanes.
//!
//! A validator has one or more votes, and quorums consist of votes: W are all votes, F = ⌊(W−1)/3⌋ those of faulty
//! validators, Q = W − F a quorum.
//!
//! ```text
//!   lane l     car ──▶ votes ──▶ car (with the proof of the one before) ──▶ …           no timer, no leader
//!   slot s     PREPARE(cut) ──▶ PREP-VOTE ──▶ COMMIT            all voted: three message delays
//!                                    └──▶ CONFIRM ──▶ ACK ──▶ COMMIT     Q votes: five
//!   slot s+1        PREPARE ──▶ …                               starts on the PREPARE of slot s; at most k are open
//! ```
//!
//! The rule numbers (D lanes, C one slot, V view change, S parallel slots, O order, Y synchronisation, G garbage, R
//! restart, N never, P pitfalls) are explained in this crate's README, which also lists the departures from the paper.
//!
//! Modules in layers, lowest first; each uses only modules in its line or above:
//!
//! - Format and keys: [`keys`], [`message`], `crypto` (real keys), [`record`] (on disk; names types of [`slots`]).
//! - Rules: [`config`], [`rules`], [`verify`] (bytes of peers) with `seal_cache`, [`order`] (sequence of commits).
//! - Two state machines without bytes, disks or clocks: [`lanes`] (cars) and [`slots`] (agreement on cuts).
//! - `journal`: which records are needed.
//! - `engine`: combines them. Its methods are in several files, which call each other through the one struct:
//!   `execution` (deliveries), `records` (writing and recovery), `repair` (start-up and catching up), `serve`
//!   (responses to peers).
//! - `footprint`: upper bound of what an engine holds.
//!
//! Modelled keys, Byzantine validators and the kit for the shared suite are in `corniche-autobahn-testing`.

pub mod config;
#[cfg(feature = "real-crypto")]
pub mod crypto;
mod engine;
mod execution;
mod footprint;
mod journal;
pub mod keys;
pub mod lanes;
pub mod message;
pub mod order;
pub mod record;
mod records;
mod repair;
pub mod rules;
mod seal_cache;
mod serve;
pub mod slots;
pub mod verify;

pub use config::Config;
pub use engine::{Autobahn, Setup};
pub use keys::{Authored, Share, Signature, Signatures, Signer};
pub use slots::{Lanes, Slots};
pub use verify::AutobahnVerifier;
