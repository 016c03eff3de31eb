//! Mahi-Mahi: Byzantine atomic broadcast on an uncertified DAG, live under asynchrony.
//!
//! Every validator proposes one signed block a round; a block names a quorum of blocks of the round before, and everything
//! else it saw. There is no other consensus message: votes and certificates are read off the references, and each block
//! carries a share of its round's coin.
//!
//! ```text
//!   round   r            r+1 … r+w−3      r+w−2             r+w−1
//!           propose      boost            vote: a block     certify: a block whose parents hold a quorum of
//!                                         supports the      votes for a proposal is its certificate;
//!                                         first sibling     a quorum of shares opens the coin, which
//!                                         it reaches        says which proposals of r are leaders
//! ```
//! A wave starts every round. A leader with a quorum of certificates commits; one that cannot get any is skipped at once; the
//! rest is settled by the first later leader that is not skipped ([`rules`], asked by [`decisions`]). Each committed leader delivers what it stands
//! on and nobody delivered before ([`state`]).
//!
//! What always holds: one own block per round, durable before it is sent; the commits, their times and their checkpoints are the same
//! at every honest validator while at most f of n are faulty; every threshold counts distinct authors.
//!
//! The rules' numbers (V, E, F, C, D, G, S, W, K, P) are those of this crate's README, which also lists the departures from the
//! thesis.

mod alarm;
pub mod coin;
pub mod config;
pub mod dag;
pub mod decisions;
mod engine;
mod journal;
pub mod keys;
#[cfg(feature = "kit")]
pub mod kit;
pub mod message;
mod proposer;
#[cfg(feature = "real-crypto")]
pub mod real;
mod repair;
pub mod rules;
mod serve;
mod siblings;
pub mod state;
mod synchroniser;
pub mod verify;

pub use config::Config;
pub use engine::{MahiMahi, Setup};
pub use keys::{Coin, CoinShare, CoinValue, Signature, Signatures, Signer};
pub use verify::MahiVerifier;
