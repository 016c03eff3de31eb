//! Layout of the contract's storage: one type per kind of record, each with its place and its fields.
//!
//! Records are read and written field by field, because the virtual machine charges for each slot.

mod attendance;
mod coin;
mod committee;
mod header;
mod keys;
mod queue;
mod registry;
mod ring;
mod validator;

pub use attendance::Attendance;
pub use coin::{CoinKeys, CoinRef};
pub use committee::{Committee, Member};
pub use header::{FreezeNumber, Header, Phase};
pub use keys::KeyOwner;
pub(crate) use keys::{set_keys, used_key};
pub use queue::{Queue, Unbonding, reached_freeze};
pub use registry::{MAX_REGISTERED, Registry};
pub(crate) use registry::{NewValidator, delete_validator};
pub use ring::{PastCommittee, RING_EPOCHS, Seat, is_convicted, ring_epochs, set_convicted};
pub use validator::{MAX_ENDPOINT_BYTES, Role, Status, Validator};
