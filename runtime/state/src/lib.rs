//! State for the virtual machine, the executor and the store: keyed values, their versions by height, and an
//! authenticated tree over them.
//!
//! - [`StateView`]: read access to a state; [`Overlay`] puts changes on top of another view.
//! - [`Changes`]: the changes of a transaction or a block.
//! - [`Additions`]: a transaction's additions to values that it has not read.
//! - [`State`]: the values in memory with their recent versions; [`Snapshot`] is one height of it.
//! - [`chunks`]: a state as chunks that a header's state root proves, for snapshots.
//! - [`Tree`]: the Merkle tree whose root is in the header; [`Proof`] proves one key; [`SharedTree`] can be copied by
//!   other threads.
//!
//! Invariants: reads never fail, and a view never changes while it is read. Nothing depends on the iteration order of a
//! hash table.

mod additions;
mod changes;
pub mod chunks;
mod state;
mod tree;
mod view;

pub use additions::{Additions, Delta};
pub use changes::{Changes, CommittedBlock};
pub use corniche_types::proof::{MAX_DEPTH, Proof, Terminal, TreeKey, account_value};
pub use corniche_types::{ABI_VERSION, Account, KECCAK_EMPTY};
pub use state::{Snapshot, State};
pub use tree::{SharedTree, Tree};
pub use view::{AccountCode, EmptyState, Overlay, StateView, is_in_range};
