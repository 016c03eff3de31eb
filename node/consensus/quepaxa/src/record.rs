//! Format of the records on disk. Crash recovery is not part of the thesis, so all of this is ours (§2, "persist before send").

use crate::{
    message::{LaneBatch, Slot, Tip, Value},
    rules::Register,
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::ValidatorIndex;

#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Record {
    /// The engine started, or its silence after a lost disk ended: this validator has a disk.
    Started,
    /// Before an answer of the recorder.
    Register {
        slot: Slot,
        register: Register,
    },
    /// Before the first request of the proposer: a restarted one never proposes a second value (X2).
    Own {
        slot: Slot,
        value: Value,
    },
    Decided {
        slot: Slot,
        value: Value,
    },
    Batch(LaneBatch),
    /// After a lost disk: this recorder gives no answer in slots up to this one; in none if it is `None` (X14).
    Silent(Option<Slot>),
}

/// Key of a record: only the newest one of a key counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKey {
    Started,
    Register(Slot),
    Own(Slot),
    Decided(Slot),
    Batch(ValidatorIndex, Tip),
    Silent,
}
