//! Mahi-Mahi: Byzantine atomic broadcast on an uncertified DAG, live under asynchrony.
//!
//! Every validator proposes one signed block per round. A block references a quorum of blocks of the previous round,
//! and everything else that its author saw. There is no other consensus message: votes and certificates are derived
//! from the references, and each block carries a share of its round's coin.
//!
//! ```text
//!   round   r            r+1 … r+w−3      r+w−2             r+w−1
//!           propose      boost            vote: a block     certify: a block whose parents hold a quorum of
//!                                         supports the      votes for a proposal is its certificate;
//!                                         first sibling     a quorum of shares opens the coin, which
//!                                         it reaches        elects the leaders of round r
//! ```
//! A wave starts every round. A leader with a quorum of certificates commits. A leader that cannot get one is skipped
//! at once. The first later leader that is not skipped decides the rest ([`rules`], called by [`decisions`]). Each
//! committed leader delivers the part of its history that was not delivered before ([`state`]).
//!
//! Invariants: there is one own block per round, durable before it is sent. The commits, their times and their
//! checkpoints are equal at every honest validator while at most f of n are faulty. Every threshold counts distinct
//! authors.
//!
//! The rule numbers (V, E, F, C, D, G, S, W, K, P) are explained in this crate's README, which also lists the
//! departures from the thesis.
//!
//! Modules in layers, lowest first; each uses only modules in its line or above:
//!
//! - Format and keys: [`keys`], [`message`], `crypto` (real keys).
//! - Data: [`coin`], [`dag`], [`config`].
//! - Rules: [`rules`], [`decisions`], [`state`] (sequence of commits), [`verify`] (bytes of peers).
//! - Parts of the engine: `journal` (records), `proposer`, `synchroniser` (missing blocks).
//! - `engine`: combines them. Its methods are in several files, which call each other through the one struct:
//!   `engine/blocks`, `engine/commits`, `engine/proposals`, `repair` (start-up and requests), `serve` (responses to
//!   peers), `siblings` (equivocations), `fault_bound`.
//!
//! Modelled keys and the kit for the shared suite are in `corniche-mahi-mahi-testing`.

pub mod coin;
pub mod config;
#[cfg(feature = "real-crypto")]
pub mod crypto;
pub mod dag;
pub mod decisions;
mod engine;
mod fault_bound;
mod journal;
pub mod keys;
pub mod message;
mod proposer;
mod repair;
pub mod rules;
mod serve;
mod siblings;
pub mod state;
mod synchroniser;
pub mod verify;

pub use config::Config;
pub use engine::{MahiMahi, Setup};
pub use keys::{Coin, CoinShare, CoinShares, CoinValue, Signature, Signatures, Signer};
pub use verify::MahiVerifier;
