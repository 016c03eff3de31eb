//! Proof that the block of a snapshot is final, and that nothing is missing to continue after it (validators.md, Y5).

use corniche_crypto::{Committees, FinalBlock, FinalityError, HeaderError};
use corniche_types::{
    B256, EncodedHeader, Epoch, EpochChange, Header, Height, RecordHead, SnapshotTail, certified, header_hash, keccak256,
    light_root,
};

/// Most headers below the block.
const MAX_BELOW: usize = 1 << 16;

/// Why a tail is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TailError {
    /// The block in the certificate is not final.
    #[error("tail: {0}")]
    Finality(#[from] FinalityError),
    /// A header is not the parent of the next one, or not the certified one.
    #[error("tail: {0}")]
    Header(#[from] HeaderError),
    /// The block is not the requested one.
    #[error("tail: expected block {expected}, got {found}")]
    Block {
        /// Requested height.
        expected: Height,
        /// Height in the tail.
        found: Height,
    },
    /// The block has another hash than the requested one.
    #[error("tail: expected header {expected}, got {found}")]
    Hash {
        /// Requested hash.
        expected: B256,
        /// Hash of the header in the tail.
        found: B256,
    },
    /// The certificate is more than 64 blocks above the block.
    #[error("tail: expected at most 64 headers above the block, got {0}")]
    Above(usize),
    /// The ordering record is not that of the header.
    #[error("tail: the header does not contain the hash of this ordering record")]
    Record,
    /// The record's epoch differs from that of the certificate.
    #[error("tail: expected a record of epoch {expected}, got {found}")]
    Epoch {
        /// Epoch of the certificate.
        expected: Epoch,
        /// Epoch in the record.
        found: Epoch,
    },
    /// The record's committee is not that of its epoch.
    #[error("tail: expected committee {expected}, got {found}")]
    Committee {
        /// Committee of the epoch.
        expected: B256,
        /// Committee in the record.
        found: B256,
    },
    /// The resume point is not that of the record.
    #[error("tail: the record does not contain the hash of this resume point")]
    Resume,
    /// Headers below the block are missing, or there are more than needed.
    #[error("tail: {0} headers below the block are not those that it needs")]
    Below(usize),
    /// The epoch change is not the one at the beginning of the block's epoch.
    #[error("tail: the epoch change does not begin epoch {0}")]
    Change(Epoch),
}

/// Checks the tail of a snapshot of the block with this height and hash. Afterwards each header, the record, the resume point and the
/// epoch change are as trustworthy as the committees.
///
/// # Errors
///
/// [`FinalityError::UnknownEpoch`] means that epoch changes may be missing. All other errors prove that the tail is invalid.
pub fn verify_tail(tail: &SnapshotTail, committees: &Committees, height: Height, hash: B256) -> Result<(), TailError> {
    if tail.height() != height {
        return Err(TailError::Block { expected: height, found: tail.height() });
    }
    let found = header_hash(&tail.header.0);
    if found != hash {
        return Err(TailError::Hash { expected: hash, found });
    }
    if tail.above.len() as u64 > certified::DEPTH {
        return Err(TailError::Above(tail.above.len()));
    }
    let mut block = committees.certified(&tail.certificate)?;
    for header in tail.above.iter().rev() {
        block = block.parent(&header.0)?;
    }
    let parent = block.parent(&tail.header.0)?;
    check_record(tail, committees)?;
    check_below(tail, parent)?;
    let is_change_sound = match (&tail.change, tail.ordering.epoch) {
        (None, epoch) => epoch == Epoch(0),
        (Some(_), Epoch(0)) => false,
        (Some(change), _) => begins_epoch(change, tail, committees)?,
    };
    if is_change_sound { Ok(()) } else { Err(TailError::Change(tail.ordering.epoch)) }
}

fn check_record(tail: &SnapshotTail, committees: &Committees) -> Result<(), TailError> {
    let SnapshotTail { ordering, certificate, .. } = tail;
    if ordering.extra_data() != tail.header.0.extra_data {
        return Err(TailError::Record);
    }
    if ordering.epoch != certificate.epoch {
        return Err(TailError::Epoch { expected: certificate.epoch, found: ordering.epoch });
    }
    let committee = committees.of(ordering.epoch).ok_or(FinalityError::UnknownEpoch(ordering.epoch.0))?;
    if ordering.committee_hash != committee.hash() {
        return Err(TailError::Committee { expected: committee.hash(), found: ordering.committee_hash });
    }
    if tail.resume.hash() != ordering.resume_hash {
        return Err(TailError::Resume);
    }
    Ok(())
}

/// Checks the headers below the block, down from its parent. The list is complete if its lowest header is block 1, or is itself not
/// needed: times never decrease, so no header under it is needed either.
fn check_below(tail: &SnapshotTail, parent: FinalBlock) -> Result<(), TailError> {
    let wrong = TailError::Below(tail.below.len());
    let is_needed = |header: &EncodedHeader| SnapshotTail::needs_header(&tail.header.0, &header.0);
    let is_complete = match tail.below.split_first() {
        None => tail.height() <= Height(1),
        Some((lowest, others)) => {
            let is_end = lowest.0.number == 1 || !is_needed(lowest) || tail.below.len() == MAX_BELOW;
            is_end && others.first().is_none_or(is_needed)
        }
    };
    if !is_complete {
        return Err(wrong);
    }
    let mut block = parent;
    for header in tail.below.iter().rev() {
        if block.number() == 0 {
            return Err(wrong);
        }
        block = block.parent(&header.0)?;
    }
    Ok(())
}

/// Returns the headers below a block as [`verify_tail`] expects them: ascending, all those that [`SnapshotTail::needs_header`] names, and
/// one more, which proves that none is missing. The list begins at block 1 if all blocks are needed. `None` if a header is missing.
pub fn build_below(block: &Header, header_at: impl Fn(Height) -> Option<Header>) -> Option<Vec<EncodedHeader>> {
    let mut below = Vec::new();
    for number in (1..block.number).rev() {
        let header = header_at(Height(number))?;
        let is_needed = SnapshotTail::needs_header(block, &header);
        below.push(EncodedHeader(header));
        if !is_needed || below.len() == MAX_BELOW {
            break;
        }
    }
    below.reverse();
    Some(below)
}

/// Returns whether a change ends in the last block of the epoch before, and leads to the committee in the record.
fn begins_epoch(change: &EpochChange, tail: &SnapshotTail, committees: &Committees) -> Result<bool, FinalityError> {
    let EpochChange { header, head, certificate, members } = change;
    let Some(before) = tail.ordering.epoch.0.checked_sub(1).map(Epoch) else { return Ok(false) };
    let hash = header_hash(header);
    let is_block = certificate.epoch == before && certificate.height.0 == header.number && certificate.header_hash == hash;
    let is_head = header.extra_data.as_ref() == keccak256(head).as_slice();
    let Some(head) = RecordHead::decode(head).filter(|head| is_block && is_head && head.epoch == before) else {
        return Ok(false);
    };
    let Some(next) = head.next.filter(|next| next.committee_hash == tail.ordering.committee_hash) else { return Ok(false) };
    let committee = committees.of(before).ok_or(FinalityError::UnknownEpoch(before.0))?;
    committees.certified(certificate)?;
    let found = match members {
        Some(members) => light_root(tail.certificate.fault_model, members),
        None => committee.light_root(),
    };
    Ok(committees.last_block(before) == Some(header.number) && found == next.light_root)
}
