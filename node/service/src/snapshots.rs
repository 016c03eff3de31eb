//! Snapshots of the state: made for other nodes, served to them, and fetched by a node with an empty data directory (validators.md §7).

mod copy;
mod fetch;
mod maker;
mod serve;
mod shelf;

pub use copy::{SnapshotCopy, list_snapshots, make_snapshot};
pub use fetch::{FetchProgress, FetchSetup, fetch_state};
pub use maker::{SnapshotMaker, SnapshotStats};
pub use serve::StateSource;
pub use shelf::Shelf;
