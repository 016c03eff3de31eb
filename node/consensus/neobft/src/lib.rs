//! NeoBFT: Byzantine atomic broadcast on an authenticated ordered multicast (aom).
//!
//! A sequencer in the network gives every request a number and an authenticator. Replicas append packets to their logs in the
//! order of these numbers, without talking to each other. They agree only about numbers that packets were lost for.
//!
//! ```text
//!   author ──request──▶ sequencer ──packet──▶ every replica: log ──▶ REPLY to all ──▶ final with a quorum     two delays
//!   lost at one replica:  QUERY ──▶ leader ──▶ QUERY-REPLY
//!   lost at the leader:   GAP-FIND ──▶ GAP-RECV or GAP-DROP ──▶ GAP-DECISION ──▶ GAP-PREPARE ──▶ GAP-COMMIT
//!   leader or sequencer suspected:  VIEW-CHANGE ──▶ VIEW-START ──▶ VIEW-CONFIRM ──▶ next view (or next epoch)
//! ```
//!
//! The rule numbers (Q sequencer, L receiver, C author, N normal case, G gaps, V view change, E epochs, S synchronisation) are
//! explained in this crate's README, which also lists the departures from the paper.
//!
//! Modules, lowest first:
//!
//! - Format and keys: [`keys`], [`message`], `crypto` (real keys), [`record`] (on disk).
//! - Rules: [`config`], [`rules`] (leader, merge), [`verify`] (bytes of peers), [`log`], [`order`] (log to commits).
//! - `journal`: which records are needed.
//! - `engine`: the state machine. Its methods are in several files, which call each other through the one struct: `normal`
//!   (N, finality), `gaps` (G), `views` (V, E), `sync` (S, catching up), `requests` (C), `bodies` (large batches),
//!   `hints` (speculation).

mod bodies;
pub mod config;
#[cfg(feature = "real-crypto")]
pub mod crypto;
mod engine;
mod gaps;
mod hints;
mod journal;
pub mod keys;
mod log;
mod lost_disk;
pub mod message;
mod normal;
mod order;
pub mod record;
mod requests;
pub mod rules;
mod sync;
mod trace;
pub mod verify;
mod views;

pub use config::Config;
pub use engine::{Neobft, Setup};
pub use keys::{Signature, Signatures, Signer};
pub use verify::NeobftVerifier;
