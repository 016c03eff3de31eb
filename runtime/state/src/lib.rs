//! State as the virtual machine, the executor and the store see it: keyed values, versions of them by height, and the
//! authenticated tree over them.
//!
//! - [`StateView`]: what can be read of a state; [`Overlay`] reads changes on top of another view.
//! - [`Changes`]: what a transaction or a block changed.
//! - [`Additions`]: what it added to values it has not read.
//! - [`State`]: the values in memory with their recent versions; [`Snapshot`] is one height of it.
//! - [`Tree`]: the Merkle tree whose root stands in the header; [`Proof`] shows one key of it; [`SharedTree`] is one that
//!   others may take copies of.
//!
//! What always holds: reading never fails and never changes under the reader, and nothing here depends on the order in
//! which a hash table happens to be walked.

mod additions;
mod changes;
mod genesis;
mod state;
mod tree;
mod view;

pub use additions::{Additions, Sum};
pub use changes::{Changes, CommittedBlock};
pub use corniche_types::proof::{MAX_DEPTH, Proof, Terminal, TreeKey, account_value};
pub use corniche_types::{ABI_VERSION, Account, KECCAK_EMPTY};
pub use genesis::genesis_changes;
pub use state::{Snapshot, State};
pub use tree::{SharedTree, Tree};
pub use view::{EmptyState, Overlay, StateView, lies_within};
