//! State sync: fetches the state of a recent block from untrusted peers, and serves it to them (validators.md, section 7).
//!
//! ```text
//!   Trust       epoch changes, from the newest known committee to the newest one          each is signed by a quorum
//!     │
//!   Offers      `Snapshots` to all peers; the newest that two of them offer
//!     │
//!   Manifest    tail: the block is final, so its state root is known                      verify_tail
//!     │         manifest: folds to that state root
//!     │         ── nothing above is a chunk, and each chunk below is proved alone ──
//!   Chunks      chunks and codes, from up to 16 peers at once                             Chunk::verify, keccak-256
//!     │
//!   Finished    the caller installs the state and follows from the next block
//! ```
//!
//! - [`message`]: requests and responses.
//! - [`serve`]: response to a request from a [`SnapshotSource`].
//! - [`verify_tail`]: proof that a snapshot's block is final, and all that is needed to continue after it.
//! - [`Fetch`]: the state machine of the node that syncs.
//!
//! Invariants:
//! - This crate does no I/O and has no clock: the time is an argument, and equal inputs give equal outputs.
//! - No chunk is requested before its manifest is proved. So a wrong chunk is always the fault of its sender.
//! - A chunk or a code is passed on once, after it was verified. It is not kept in memory.
//! - Chunks of two manifests are never mixed. A chunk is reused under another manifest only if both prove the same content.
//! - No peer can stop a sync: each request has a deadline, and each snapshot must make progress or is replaced.
//!
//! Alternative not chosen: healing a state while the chain moves on. It may never end, and a fixed snapshot needs no healing.

#![warn(missing_docs)]

mod fetch;
pub mod message;
mod server;
mod tail;

pub use fetch::{Failed, Fetch, FetchConfig, Kept, Output, PeerId, Phase, Progress, RequestId, ResumeError, Reused, Target};
pub use message::{Offer, StateRequest, StateResponse};
pub use server::{SnapshotSource, serve};
pub use tail::{TailError, build_below, verify_tail};
