//! Format of the records on disk. `journal` tracks which of them are needed, `records` writes and reads them.

use crate::{
    message::{CommitQc, Cut, DiskId, Position, SignedCar, Slot, Tip},
    slots::SlotRecord,
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{Bytes, wire};

/// All records of this engine.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Record {
    /// This validator has had an incarnation: if no other record is found, records were lost (R5).
    Started,
    /// A car, and whether this validator voted for it.
    Car {
        car: SignedCar,
        voted: bool,
    },
    /// A vote for a car whose record has no vote.
    Vote(Tip),
    Slot(Box<SlotRecord>),
    Commit(Cut, CommitQc),
    /// The identifier of this disk.
    DiskId(DiskId),
    /// The first disk that another validator announced to this one.
    PeerDisk(DiskId),
    Abstention(Abstention),
    /// The identifier of this disk, recorded when this validator had signed nothing on any disk.
    FirstDisk(DiskId),
}

/// R5: this validator never signs anything about these, because a forgotten incarnation may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Abstention {
    /// Slots up to this one.
    pub slots: Slot,
    /// Per lane, the last silent position; empty: none.
    pub lanes: Vec<Position>,
}

impl Record {
    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }
}
