//! SADL-RACS: one leader while the network is good, a coin while it is not, for validators that crash but do not lie (Tennage, EPFL
//! 2025, chapter 4).
//!
//! SADL carries the batches: each author's batches are a lane, and a batch counts once validators with a quorum of votes hold it. RACS
//! orders vectors of lane tips, so a block has a constant size. While the leader makes progress, blocks cost one round trip. When a
//! quorum's timers fire, every validator proposes two blocks, one on the other, and a coin elects one validator whose blocks count.
//! So commits go on while the network delays whatever it likes.
//!
//! ```text
//!   author    batch ──▶ all ──▶ votes ──▶ complete                                               one round trip
//!   leader    Propose ──▶ all ──▶ Vote ──▶ a quorum: committed                                   one round trip
//!   fallback  Timeout ──▶ ProposeAsync 1 ──▶ votes ──▶ ProposeAsync 2 ──▶ votes ──▶ Complete     six delays, then the coin
//! ```
//!
//! **Only crashes are tolerated** (X18). One lying validator can make the others disagree. W are all votes, F = ⌊(W−1)/2⌋ those of
//! crashed validators, Q = W − F a quorum.
//!
//! The rule numbers (S synchronous, A asynchronous, D dissemination, I invariants, X pitfalls, M mechanisms) are explained in this
//! crate's README, which also lists the departures from the thesis.
//!
//! Modules, lowest first:
//!
//! - Format: [`message`], [`record`] (on disk).
//! - Rules: [`config`], [`rules`] (RACS), [`verify`] (bytes of peers), [`chain`] (blocks).
//! - Batches of all authors, and the order of committed blocks: `corniche_lanes`.
//! - `engine`: combines them. Its methods are in several files, which call each other through the one struct: `views` (RACS
//!   messages), `batches` (SADL), `repair` (restart, lost disk, catching up, retention).

mod batches;
pub mod chain;
pub mod config;
mod engine;
pub mod message;
pub mod record;
mod repair;
pub mod rules;
pub mod verify;
mod views;

pub use config::Config;
pub use engine::{Racs, Setup};
pub use verify::RacsVerifier;
