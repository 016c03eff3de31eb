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
//!  Decisions   decided slots, and whether they are on disk     (QuePaxa, Baxos; SADL-RACS has a chain of blocks)
//!      │
//!    Order     Lanes::next_batches of the next decision ──▶ Order::deliver ──▶ Output: the commit with its checkpoint
//! ```
//!
//! Nothing here does I/O, and nothing knows an engine's messages, records or rules: methods return [`Action`]s and outputs, and the engine
//! puts them into its own formats.
//!
//! A batch is sent once to each connected validator. Others ask for it, and its author repeats it, only after two timers: on a narrow
//! uplink, second copies delay all first ones ([`Exchange::want`], [`Repetition`]).
//!
//! **Not for Byzantine validators**: nobody signs a batch, and an author that lies can have two batches with one number.
//!
//! - Format: [`LaneBatch`], [`Tip`], [`Slot`], [`Checkpoint`]. Checks of what peers send: [`check_batch`], [`check_value`].
//! - Batches: [`Lanes`], [`Exchange`], [`advance`].
//! - Decided values ([`LaneValue`]): [`Decisions`], [`Order`].
//! - After a lost disk: [`Silence`], [`Reports`]. Two processes with one key: [`EarlierRuns`].
//! - [`Clocks`]: the median of the validators' clocks. [`Draws`]: secret random numbers.

mod batch;
mod clocks;
mod decisions;
mod draws;
mod earlier_runs;
mod exchange;
mod lanes;
mod order;
mod silence;

pub use batch::{
    LaneBatch, LaneContext, LaneValue, MAX_MEMBERS, MAX_NUMBER, Tip, advance, check_batch, check_member, check_number,
    check_value, ensure,
};
pub use clocks::{Clocks, MAX_CLOCK_ERROR_MS};
pub use decisions::{Added, Decisions, MAX_DECISIONS, MAX_SLOTS_AHEAD, Slot, decisions_at_once, retention_floor};
pub use draws::Draws;
pub use earlier_runs::EarlierRuns;
pub use exchange::{Action, Exchange, LaneConfig, MAX_AHEAD, MAX_OPEN_BATCHES, Repetition};
pub use lanes::Lanes;
pub use order::{Checkpoint, Next, Order, Position};
pub use silence::{Reports, Silence};
