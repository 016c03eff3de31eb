//! Mir-BFT: many leaders propose batches in parallel, each for its own sequence numbers, and every number is agreed on by a PBFT
//! instance of its own. Epochs change the set of leaders. See the README for rules, their places in the code, and departures.
//!
//! - `rules`: pure verdicts: leaders, configurations, and the selection of batches at an epoch change (3.3, 3.5, 3.7).
//! - `instance`: agreement about one sequence number in one epoch (3.4).
//! - `message`, `verify`: the wire; `verify` is the only place that turns bytes of peers into checked messages.
//! - `order`: committed batches to commits. `record`, `journal`: the disk.
//! - `engine`: the state machine. Its methods are in several files, which call each other through the one struct: `normal`
//!   (common case), `propose` (own batches), `epochs` (changes of epochs), `timers`, `checkpoints`, `sync` (catching up).
//! - `absence`: members that nobody waits for.

mod absence;
mod bodies;
mod checkpoints;
pub mod config;
#[cfg(feature = "real-crypto")]
pub mod crypto;
mod engine;
mod epochs;
pub mod instance;
mod journal;
pub mod keys;
mod lost_disk;
pub mod message;
mod normal;
mod order;
mod propose;
pub mod record;
pub mod rules;
mod sync;
mod timers;
mod trace;
pub mod verify;

pub use config::Config;
pub use engine::{Mir, Setup};
pub use keys::{Signature, Signatures, Signer};
pub use order::Checkpoint;
pub use verify::MirVerifier;
