//! Contracts over Basil's shards: what a gateway executes, and what replicas check (specification §8.2, A1 to A3).
//!
//! ```text
//!   wallet ──▶ gateway: run the transaction over the values read so far
//!                ├─ a value is missing ──▶ READ from its shard ──▶ run again
//!                └─ all values are there ──▶ ST1: reads, writes, the wallet's transaction
//!   replica: run it again over the claimed reads; other writes: Abort
//! ```
//!
//! An account, its storage and its code name live on the shard that the address selects; code lives on the shard that its hash
//! selects. Nonce and balance are one key and the code name another, so payments to a contract do not conflict with calls of it.
//!
//! Modules: [`keys`] (state as keys of shards), [`claims`] (a state that consists of reads), [`chain`] (execution, and the check of
//! replicas), [`gateway`] (wallets' transactions, as a client of the shards).

pub mod chain;
pub mod claims;
pub mod gateway;
pub mod keys;

pub use chain::{Chain, Ran, Run};
pub use gateway::Gateway;
