//! Admission: the only place that says no to users, and the pool of those who were told yes.
//!
//! ```text
//! raw bytes ─check─▶ VerifiedTransaction ─admit─▶ Pool ─cut─▶ batch ─▶ engine ─▶ … ─▶ on_block
//!               │                          │       ▲ │                  │                 │
//!               ╰──────── Refusal ─────────╯       │ ╰─ Event           ╰─ requeue        ╰─ executed leave, returned wait again
//! ```
//! - [`check`] and [`Pool::admit`] refuse with a typed [`Refusal`] whose words are geth's, because wallets match them.
//! - The [`Pool`] holds each sender's transactions by nonce. Those whose nonces continue the account's are *ready*, the others
//!   wait behind a gap (*queued*).
//! - [`Pool::cut`] fills a [`batch`] in the order of tip, then arrival, each sender's in nonce order. What was cut is *in
//!   flight* until a block executed it, returned it, or [`Pool::requeue`] gave it back; it is not cut twice meanwhile.
//!
//! - What it is given it proposes only where that is its [`Standing`]: a sender has an owner ([`Rotation`]), and the others
//!   keep copies in case nothing comes of it.
//!
//! What always holds: the pool is a function of the calls made to it (no clock, no hash order); its size in transactions,
//! bytes, per sender and in nonces ahead is bounded; whatever leaves without being executed is named by an [`Event`].

pub mod batch;
mod buckets;
mod event;
mod order;
mod pool;
mod refusal;
mod sender;
#[cfg(test)]
mod tests;

pub use buckets::{EDGE_MS, MIN_TURN_MS, ROTATION_LEAD_MS, ROTATION_SECONDS, Rotation, Standing, TURN_MS};
pub use event::{DropReason, Event};
pub use pool::{Pool, PoolConfig, Waited};
pub use refusal::Refusal;

use corniche_crypto::VerifiedTransaction;
use corniche_types::{B256, Bytes, Transaction};

/// Decodes a transaction and checks its signature: what needs neither a pool nor a state, and may run on any thread.
pub fn check(raw: Bytes, chain_id: u64) -> Result<VerifiedTransaction, Refusal> {
    check_once(raw, chain_id, |_| None)
}

/// The same where transactions checked before are at hand; see [`VerifiedTransaction::verify_once`].
pub fn check_once(
    raw: Bytes,
    chain_id: u64,
    known: impl FnOnce(&B256) -> Option<VerifiedTransaction>,
) -> Result<VerifiedTransaction, Refusal> {
    Ok(VerifiedTransaction::verify_once(Transaction::decode(raw)?, chain_id, known)?)
}
