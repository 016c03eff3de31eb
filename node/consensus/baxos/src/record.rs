//! Format of the records on disk. The thesis only says that recovery is easily added, so all of this is ours (§3, "persist before
//! send").

use crate::{
    message::{LaneBatch, Slot, Tip, Value},
    rules::Acceptor,
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::ValidatorIndex;

#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Record {
    /// The engine started, or its silence after a lost disk ended: this validator has a disk.
    Started,
    /// Before a PROMISE or an ACCEPT, and before an own PREPARE: a proposer promises its tries to itself first, so a restarted one
    /// uses none of them again.
    Acceptor {
        slot: Slot,
        acceptor: Acceptor,
    },
    Decided {
        slot: Slot,
        value: Value,
    },
    Batch(LaneBatch),
    /// After a lost disk: this validator takes no part in slots up to this one; in none if it is `None` (X13).
    Silent(Option<Slot>),
}

/// Key of a record: only the newest one of a key counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKey {
    Started,
    Acceptor(Slot),
    Decided(Slot),
    Batch(ValidatorIndex, Tip),
    Silent,
}
