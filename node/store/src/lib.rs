//! Durable storage of a node.
//!
//! Two append-only logs are the source of truth. The *safety log* has the records that this validator's
//! engine persists before it sends messages. The *block log* has blocks with their results, certificates, and
//! the point where ordering resumes. The state checkpoint and the indices can be rebuilt from the block log.
//! They are in a key-value store behind [`kv::Kv`].
//!
//! ```text
//!  append_safety ─┐                              ┌─▶ window of recent blocks ─▶ Reader (any thread)
//!  append_block  ─┼─▶ two groups ─▶ sync ─▶ publish                │
//!  append_…      ─┘    in memory    safety first                  └─▶ background thread ─▶ state/ (sled or redb)
//! ```
//!
//! Invariants:
//! - **Nothing is visible before it is durable.** Readers see a block, and the engine gets a ticket, only
//!   after the `fdatasync` that covers it. The safety log is synced before the block log.
//! - **Records are atomic.** A torn tail is cut after the last whole record. Damage before the tail is
//!   refused, with an error that says how to recover. (A bit flip in the last group looks like a torn tail
//!   and is cut.)
//! - **The checkpoint is never ahead of the log.** It is written atomically with its height. It is used only
//!   if its root equals the one in that height's header; otherwise it is rebuilt from the log.
//! - **After a failed write or sync nothing more is written.** It is unknown whether the bytes reached the
//!   disk, so only a restart, which reads them back, can decide.
//! - A data directory belongs to one chain, one schema and one process.
//!
//! Modules in layers, lowest first; each uses only modules in its row or above:
//!
//! | module | content |
//! |---|---|
//! | `options`, `error`, `probe` | settings, errors; lets tests simulate power cuts |
//! | `directory` | layout, `VERSION`, `LOCK`, markers, free space |
//! | `segment`, `log`, `record` | format of a segment file; a list of segments; content of a record |
//! | `code_cache`, `trace` | compiled contract code by key; recent events of the engine, for people, which may be lost |
//! | `safety` | safety log: tickets and their release |
//! | `block`, `block_cache` | a block with its results; blocks that were read from the log |
//! | `kv`, `checkpoint` | key-value trait with two backends; keys, batches and loading of the checkpoint |
//! | `snapshots` | states for other nodes, and for this one if it lacks the blocks before |
//! | `history`, `window` | states of old blocks, on disk; newest blocks, in memory |
//! | `shared` | state shared by the writer, readers and the background thread |
//! | `historical_state`, `reader`, `indexer` | view of an old state; any number of readers; the background thread |
//! | `revert`, `recovery` | reverting blocks, only on development chains; opening, from a directory to a state at the head |
//! | `store` | the single writer |
//!
//! Alternatives not chosen: blocks in the key-value store (4 to 12 µs per key, against 3 µs per transaction
//! here, and corruption would lose data); one log for both (safety records are released within hours, blocks
//! are kept).

mod block;
mod block_cache;
mod checkpoint;
mod code_cache;
mod directory;
mod error;
mod historical_state;
mod history;
mod indexer;
pub mod kv;
mod log;
mod options;
pub mod probe;
mod reader;
mod record;
mod recovery;
mod revert;
mod safety;
mod segment;
mod shared;
pub mod snapshots;
mod store;
mod trace;
mod window;

pub use block::StoredBlock;
pub use code_cache::CodeCache;
pub use directory::{DataDirectory, Identity, Lock, SCHEMA, Space};
pub use error::StoreError;
pub use history::History;
pub use options::{Backend, Options};
pub use reader::Reader;
pub use recovery::{Recovered, genesis_block};
pub use store::{Store, Synced};
pub use trace::{Trace, TraceRecord, TraceWindow};
