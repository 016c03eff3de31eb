//! Data beside the state of a block that a node needs to continue after it.

use crate::{Certificate, EncodedHeader, EpochChange, Height, OrderingRecord, Resume, certified, wire};
use borsh::{BorshDeserialize, BorshSerialize};

/// Most headers of one kind in a tail.
const MAX_HEADERS: usize = 1 << 16;

/// Continuation of a chain after a block whose state is known, with the proof that the block is final (validators.md, Y5).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct SnapshotTail {
    /// Header of the block.
    pub header: EncodedHeader,
    /// Its ordering record, whose hash is in the header.
    pub ordering: OrderingRecord,
    /// Point where ordering resumes after it, whose hash is in the record.
    pub resume: Resume,
    /// Headers of the blocks above it, ascending, up to the certified one. Empty if the block has a certificate of its own.
    #[borsh(deserialize_with = "wire::at_most::<MAX_HEADERS, _, _>")]
    pub above: Vec<EncodedHeader>,
    /// Certificate of the last of these headers.
    pub certificate: Certificate,
    /// Headers of the blocks below it, ascending. See [`Self::needs_header`].
    #[borsh(deserialize_with = "wire::at_most::<MAX_HEADERS, _, _>")]
    pub below: Vec<EncodedHeader>,
    /// Beginning of the block's epoch. `None` in epoch 0.
    pub change: Option<EpochChange>,
}

/// Chain time in seconds below a block, headers of which a tail has: those of the second of the block tell its gas, those of the
/// minute before tell how validators take turns.
const SECONDS_BELOW: u64 = 61;

impl SnapshotTail {
    /// Height of the block.
    pub fn height(&self) -> Height {
        Height(self.header.0.number)
    }

    /// Returns whether a tail of a block needs this header below it: 64 blocks, whose hashes are not in the state yet, and those of 61
    /// seconds, at most 65,536. That of the genesis is known to everybody.
    pub fn needs_header(block: &crate::Header, below: &crate::Header) -> bool {
        let distance = block.number.saturating_sub(below.number);
        let is_recent = block.timestamp.saturating_sub(below.timestamp) <= SECONDS_BELOW && distance <= MAX_HEADERS as u64;
        below.number > 0 && (distance <= certified::DEPTH || is_recent)
    }
}
