//! State as the virtual machine, the executor and the store see it: keyed values, versions of them by height, and the
//! authenticated tree over them.

mod changes;
mod view;

pub use changes::{Changes, CommittedBlock};
pub use view::{Account, KECCAK_EMPTY, StateView};
