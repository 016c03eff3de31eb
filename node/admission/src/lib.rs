//! Admission: checks users' transactions, and holds the accepted ones in the pool.
//!
//! ```text
//! raw bytes ─check─▶ VerifiedTransaction ─admit─▶ Pool ─cut─▶ batch ─▶ engine ─▶ … ─▶ on_block
//!               │                          │       ▲ │                  │                 │
//!               ╰──────── Refusal ─────────╯       │ ╰─ Event           ╰─ requeue        ╰─ executed leave, returned wait again
//! ```
//! - [`check`] and [`Pool::admit`] refuse with a typed [`Refusal`] with geth's texts, because wallets match
//!   them.
//! - The [`Pool`] holds each sender's transactions by nonce. Those that continue the account's nonce are
//!   *ready*; those behind a gap are *queued*.
//! - [`Pool::cut`] fills a [`batch`] by tip, then arrival, and in nonce order per sender. Cut transactions
//!   are *in flight* until a block executes or returns them, or [`Pool::requeue`] gives them back. They are
//!   not cut again meanwhile.
//! - The pool proposes a transaction only if its [`Responsibility`] allows it: each sender has an owner
//!   ([`Rotation`]), and the other validators keep copies in case the owner fails.
//!
//! Invariants: the pool is a function of the calls to it (no clock, no hash order). Its size is bounded:
//! number of transactions, bytes, transactions per sender, and nonces ahead. Every transaction that leaves
//! without being executed has an [`Event`].

pub mod batch;
mod event;
mod order;
mod pool;
mod refusal;
mod rotation;
mod sender;
#[cfg(test)]
mod tests;

pub use event::{DropReason, Event};
pub use pool::{Pool, PoolConfig, WaitingTime};
pub use refusal::Refusal;
pub use rotation::{MIN_TURN_MS, ROTATION_LEAD_MS, ROTATION_OVERLAP_MS, ROTATION_SECONDS, Responsibility, Rotation, TURN_MS};

use corniche_crypto::{Known, VerifiedTransaction};
use corniche_types::{B256, Bytes, Transaction};

/// Decodes a transaction and verifies its signature. Needs neither pool nor state, and may run on any thread.
pub fn check(raw: Bytes, chain_id: u64) -> Result<VerifiedTransaction, Refusal> {
    check_once(raw, chain_id, |_| None)
}

/// Like [`check`], but uses what is known about the transaction; see [`VerifiedTransaction::verify_cached`].
pub fn check_once(
    raw: Bytes,
    chain_id: u64,
    known: impl FnOnce(&B256) -> Option<Known>,
) -> Result<VerifiedTransaction, Refusal> {
    Ok(VerifiedTransaction::verify_cached(Transaction::decode(raw)?, chain_id, known)?)
}
