//! Parts that the engines for validators that crash, and do not lie, have in common.
//!
//! A *lane* is the hash-linked chain of one author's batches. An engine orders tips of lanes instead of batches, so a decision has a
//! constant size, and batches travel from their authors to all validators on their own.
//!
//! ```text
//!   Exchange   own batches, batches of others, missing batches ──▶ Action: write, send, ask
//!      │
//!    Lanes     held batches of all authors, and whether they are on disk
//!      │
//!    Order     of the engine: tips of a decided value ──▶ Lanes::next_batches ──▶ advance
//! ```
//!
//! Nothing here does I/O, and nothing knows an engine's messages or records: methods return [`Action`]s, and the engine puts them
//! into its own formats. The delivered tips belong to the engine's checkpoint, so they are an argument.
//!
//! **Not for Byzantine validators**: nobody signs a batch, and an author that lies can have two batches with one number.
//!
//! - Format: [`LaneBatch`], [`Tip`]. Checks of a peer's batch: [`check_batch`].
//! - [`Lanes`], [`Exchange`], [`advance`].
//! - [`Silence`]: after a lost disk.
//! - [`Clocks`]: the median of the validators' clocks. [`Draws`]: secret random numbers.

mod batch;
mod clocks;
mod draws;
mod exchange;
mod lanes;
mod silence;

pub use batch::{LaneBatch, LaneContext, MAX_NUMBER, Tip, advance, check_batch, check_member, check_number, ensure};
pub use clocks::{Clocks, MAX_CLOCK_ERROR_MS};
pub use draws::Draws;
pub use exchange::{Action, Exchange, LaneConfig, MAX_AHEAD, MAX_OPEN_BATCHES};
pub use lanes::Lanes;
pub use silence::Silence;
