//! Extension of a chain: commands to its pipeline, and directives in its batches. A real network has none.
//!
//! A [`Directive`] is an entry of a batch that is not a transaction. Its effects are a function of the ordered
//! bytes. So a chain that restarts, or executes its ordered bytes again, makes the same blocks. A pipeline
//! without an extension knows no directives: it skips such an entry, as any entry that cannot be decoded.
//!
//! ```text
//! command ─▶ Extension ─▶ batch of directives and transactions ─▶ engine ─▶ BlockBuilder ─▶ Runner
//!                │                                                               ╰─ Directives ─╯
//! response ◀─────┴── appended, idle
//! ```

use corniche_admission::Pool;
use corniche_engine::Batch;
use corniche_state::{Changes, StateView};
use corniche_types::{Address, B256, Bytes, Height, OrderedTransaction, ProtocolRules, TimestampMs};
use std::sync::Arc;

/// Effect of one entry on the block that contains it. Directives do not count towards a block's limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directive {
    /// Time of the block; not before the previous block's.
    pub time: Option<TimestampMs>,
    /// True if the block ends with this entry.
    pub ends_block: bool,
    /// Account that it changes. The pool checks transactions of this account again.
    pub account: Option<Address>,
}

/// Header fields that the directives of a block set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSettings {
    /// Wei per gas.
    pub base_fee: Option<u64>,
    pub randomness: Option<B256>,
}

/// Decodes the directives of a chain. Has no state: block building and execution use it on different threads.
pub trait Directives: Send + Sync {
    /// Decodes one entry; `None` if it is not a directive.
    fn directive(&self, entry: &[u8]) -> Option<Directive>;

    /// Header fields of a block with these entries.
    fn settings(&self, ordered: &[OrderedTransaction]) -> BlockSettings;

    /// Changes of a block with these entries, made after its transactions. `view` contains the transactions'
    /// changes.
    fn changes(&self, ordered: &[OrderedTransaction], view: &dyn StateView, rules: &ProtocolRules) -> Changes;
}

/// Response to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandResponse {
    /// Number from [`Input::Command`](crate::Input::Command).
    pub reply: u64,
    /// `Err`: the reason why nothing was done.
    pub result: Result<Bytes, String>,
}

/// Extension of a pipeline. It runs on the pipeline's thread; the format of commands and responses is its own.
pub trait Extension: Send {
    fn directives(&self) -> Arc<dyn Directives>;

    /// Called once, before everything else. `newest`: time of the newest block, or of the genesis.
    fn start(&mut self, newest: TimestampMs, now: TimestampMs);

    /// Applies a command. The response comes from [`Self::poll`], at once or later.
    fn command(&mut self, now: TimestampMs, command: &[u8], reply: u64, pool: &mut Pool);

    /// Returns the next response.
    fn poll(&mut self) -> Option<CommandResponse>;

    /// Time of the next [`Self::tick`] with an effect.
    fn deadline(&self) -> Option<TimestampMs>;

    fn tick(&mut self, now: TimestampMs);

    /// Next batch of at most `bytes`, for the engine. `cut` takes transactions of at most that many bytes from the pool.
    fn batch(&mut self, now: TimestampMs, bytes: u32, cut: &mut dyn FnMut(u32) -> Option<Batch>) -> Option<Batch>;

    /// The engine delivered this batch in a commit, or gave it back.
    fn batch_returned(&mut self, batch: &Batch);

    /// A block with these entries was executed.
    fn executed(&mut self, ordered: &[OrderedTransaction]);

    /// A block with these entries is durable.
    fn appended(&mut self, ordered: &[OrderedTransaction], block: B256);

    /// The engine wants a batch, and no delivered commit is without a durable block. `height`: newest block.
    fn idle(&mut self, now: TimestampMs, height: Height);

    /// True if the caller must hold back users' inputs: see [`Pipeline::holds_users`](crate::Pipeline::holds_users).
    fn holds_users(&self) -> bool;

    /// Minimum base fee in wei that is set for the next block.
    fn base_fee(&self) -> Option<u64>;
}
