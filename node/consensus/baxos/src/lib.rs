//! Baxos: Paxos without a leader, for validators that crash but do not lie (Tennage, EPFL 2025, chapter 3).
//!
//! Every validator is a proposer and an acceptor. A proposer needs two round trips for a slot, and one for the slot after it. When
//! proposers get in each other's way, each of them waits for a random time that doubles with every failure (*random exponential
//! back-off*). So nobody elects a leader, and nobody waits for a dead one.
//!
//! ```text
//!   author    batch ──▶ all validators (on disk before an acceptor accepts)
//!   proposer  PREPARE(slot, try) ──▶ acceptors ──▶ PROMISE
//!             PROPOSE(slot, try, value) + PREPARE(slot + 1) ──▶ ACCEPT + PROMISE ──▶ a quorum: decided     two round trips
//!             PROPOSE(slot + 1, …) + PREPARE(slot + 2) ──▶ ACCEPT + PROMISE ──▶ decided                    one round trip
//!   refused   NACK, or silence until a timer ends ──▶ back-off ──▶ PREPARE with a higher try
//! ```
//!
//! **Only crashes are tolerated.** One lying validator can make the others disagree. W are all votes, F = ⌊(W−1)/2⌋ those of
//! crashed validators, Q = W − F a quorum. Progress needs partial synchrony: an adversary that controls all delays can keep the
//! proposers in each other's way forever (X11). QuePaxa does not have this limit.
//!
//! The rule numbers (A acceptor, P proposer, M mechanisms, X pitfalls) are explained in this crate's README, which also lists the
//! departures from the thesis. A *slot* is the thesis' choice.
//!
//! Modules, lowest first:
//!
//! - Format: [`message`], [`record`] (on disk).
//! - Rules: [`config`], [`rules`] (acceptor, proposer, back-off), [`round_trips`] (the diameter of the network), [`verify`] (bytes of
//!   peers).
//! - Batches of all authors, decided slots and their order: `corniche_lanes`.
//! - `engine`: combines them. Its methods are in several files, which call each other through the one struct: `slots` (acceptor,
//!   proposer, back-off), `repair` (restart, lost disk, catching up, retention).

pub mod config;
mod engine;
pub mod message;
pub mod record;
mod repair;
pub mod round_trips;
pub mod rules;
mod slots;
pub mod verify;

pub use config::Config;
pub use engine::{Baxos, Setup};
pub use verify::BaxosVerifier;
