//! What a node must not forget, on disk.
//!
//! Two append-only logs are the truth: the *safety log* (what this validator's engine asked to persist before it spoke)
//! and the *block log* (blocks with all that they led to, certificates, where ordering resumes). Everything else, the
//! state checkpoint and the indices, can be rebuilt from the block log and lies in a key-value store behind [`kv::Kv`].
//!
//! ```text
//!  append_safety ─┐                              ┌─▶ window of recent blocks ─▶ Reader (any thread)
//!  append_block  ─┼─▶ two groups ─▶ sync ─▶ publish                │
//!  append_…      ─┘    in memory    safety first                  └─▶ background thread ─▶ state/ (sled or redb)
//! ```
//!
//! What always holds:
//! - **Nothing is visible before it is durable.** A block reaches readers, and a ticket is reported, only after the
//!   `fdatasync` that covers it; the safety log is synced before the block log.
//! - **A record is whole or absent.** A torn tail is cut at the last whole record. Damage before the tail is refused with
//!   a sentence that says how to recover. (A flipped bit in the very last group looks like a torn tail and is cut.)
//! - **The checkpoint never runs ahead of the log**, is written atomically with the height it stands for, and is believed
//!   only if its root is the one in that height's header; otherwise it is built again from the log.
//! - **After a failed write or sync nothing more is written**: whether the bytes reached the disk is unknown, so only a
//!   restart, which reads them back, can tell.
//! - A data directory belongs to one chain, one schema and one process.
//!
//! | module | holds |
//! |---|---|
//! | `directory` | the layout, `VERSION`, `LOCK`, free space |
//! | `segment`, `log`, `record` | the bytes of a segment file; a list of them; what is in a record |
//! | `safety` | the safety log: tickets and their release |
//! | `kv`, `checkpoint` | the key-value trait with its two backends; keys, batches and loading of the checkpoint |
//! | `history` | states of old blocks, on disk |
//! | `recovery` | opening: from a directory to a state at the head |
//! | `store`, `reader`, `indexer` | the one writer; any number of readers; the background thread |
//! | `undo` | going back, which only a development chain does |
//! | `code_cache` | compiled contract code by key |
//! | `trace` | what the engine did lately, for people who look: may be lost |
//! | `probe` | how tests cut the power |
//!
//! Chosen against: blocks in the key-value store (bulk costs 4 to 12 µs a key there, 3 µs a transaction here, and a
//! corruption would cost data); one log for both (safety records are released in hours, blocks are kept).

mod checkpoint;
mod code_cache;
mod directory;
mod error;
mod history;
mod indexer;
pub mod kv;
mod log;
mod options;
pub mod probe;
mod reader;
mod record;
mod recovery;
mod remembered;
mod safety;
mod segment;
mod store;
mod trace;
mod undo;

pub use code_cache::CodeCache;
pub use directory::{DataDirectory, Identity, SCHEMA, Space};
pub use error::StoreError;
pub use history::History;
pub use options::{Backend, Options};
pub use reader::{Reader, StoredBlock};
pub use recovery::{Recovered, genesis_block};
pub use store::{Store, Synced};
pub use trace::{Trace, TraceRecord, TraceWindow};
