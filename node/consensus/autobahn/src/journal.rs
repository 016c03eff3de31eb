//! Keys of the records on disk, and what waits for them.

use crate::{
    lanes::Write,
    message::{Slot, Tip},
    slots::RecordId,
};
use corniche_types::ValidatorIndex;

/// The records on disk.
pub type Journal = corniche_engine::Journal<RecordKey>;

/// An action that waits for a record.
pub(crate) enum AfterDurable {
    Lanes(Write),
    Slots(RecordId),
    Commit(Slot),
    Started,
    DiskId,
    /// The disk of this peer, and the nonce of its request.
    PeerDisk {
        peer: ValidatorIndex,
        nonce: u64,
    },
}

/// Key of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKey {
    Started,
    Car(Tip),
    Vote(Tip),
    Slot(Slot),
    Commit(Slot),
    DiskId,
    PeerDisk(ValidatorIndex),
    Abstention,
}
