//! Basil: transactions over shards, without a leader and without a log (Suri-Payer et al., SOSP 2021).
//!
//! Each shard has 5f + 1 replicas, of which f may lie. Clients drive their own transactions: they choose a timestamp, read, and propose
//! everything that they read and write. A transaction without conflicts is decided after one round trip, over any number of shards.
//! The order of timestamps is the serial order.
//!
//! ```text
//!   client    READ ──▶ 2f + 1 replicas ──▶ versions below the timestamp            for each key
//!             ST1 (reads, writes, call) ──▶ all replicas of all shards ──▶ votes
//!               all 5f + 1 Commit, or 3f + 1 Abort, or a proven conflict:  decided     2 delays
//!               otherwise ST2 ──▶ one shard logs the decision ──▶ 4f + 1:  decided     4 delays
//!             WRITEBACK ──▶ all replicas                                   in the background
//!   anybody   RP ──▶ finishes a transaction whose client stopped; InvokeFB if decisions differ
//! ```
//!
//! Two state machines without I/O: [`client`] and [`replica`]. The README lists rules, code, and departures from the paper.
//! This is no ordering engine: it has no `Engine`, and a chain uses one or the other.
//!
//! Modules, lowest first:
//!
//! - Words: [`shared`] (values without copies), [`shards`] (replicas, quorums, keys), [`transaction`], [`attestation`] (signed replies in batches), [`certificate`] (proofs of
//!   decisions), [`closed`] (lists of closed ranges), [`message`], [`record`] (on disk), [`config`].
//! - Rules: [`versions`] (multi-version store, MVTSO-Check), [`tally`] (votes), [`views`] (fallback), [`verify`] (messages of peers).
//! - Machines: [`replica`], [`client`]; [`copy`] (state for a replica that lost its own).
//! - [`checker`]: checks a whole history afterwards.

pub mod attestation;
pub mod certificate;
pub mod checker;
pub mod client;
pub mod closed;
pub mod config;
pub mod copy;
pub mod message;
pub mod record;
pub mod replica;
pub mod shards;
pub mod shared;
pub mod tally;
pub mod transaction;
pub mod verify;
pub mod versions;
pub mod views;

pub use replica::{MAX_CONSTANTS, Program};
