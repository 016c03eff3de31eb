//! QuePaxa: consensus without timeouts, for validators that crash but do not lie (Tennage, EPFL 2025, chapter 5).
//!
//! Every validator is a proposer and a recorder. A slot's leader decides in one round trip. When it is slow or dead, other
//! proposers join in, one after the other (*hedging*), and all of them help each other: nobody interrupts anybody, and no delay
//! is a matter of safety or of progress.
//!
//! ```text
//!   author    batch ──▶ all validators (on disk before a recorder answers)
//!   leader    Record(slot, step 4, priority H) ──▶ every recorder ──▶ Answer ──▶ a quorum saw H first: decided     one round trip
//!   others    Record with random priorities ──▶ spread ──▶ gather: the best is common: decided                     three round trips
//! ```
//!
//! **Only crashes are tolerated.** One lying validator can make the others disagree. W are all votes, F = ⌊(W−1)/2⌋ those of
//! crashed validators, Q = W − F a quorum.
//!
//! The rule numbers (R recorder, P proposer, L leader, H hedging, B bandit, O log, X pitfalls) are explained in this crate's README,
//! which also lists the departures from the thesis.
//!
//! Modules, lowest first:
//!
//! - Format: [`message`], [`record`] (on disk).
//! - Rules: [`config`], [`rules`] (recorder, proposer, leaders), [`schedules`] (who leads a slot), [`verify`] (bytes of peers).
//! - Batches of all authors, decided slots and their order: `corniche_lanes`.
//! - `engine`: combines them. Its methods are in several files, which call each other through the one struct: `slots` (recorder,
//!   proposers, hedging), `repair` (restart, lost disk, catching up, retention).

pub mod config;
mod engine;
pub mod message;
pub mod record;
mod repair;
pub mod rules;
pub mod schedules;
mod slots;
pub mod verify;

pub use config::Config;
pub use engine::{QuePaxa, Setup};
pub use verify::QuePaxaVerifier;
