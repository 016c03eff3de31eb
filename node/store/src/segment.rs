//! Format of a segment file.
//!
//! ```text
//!  segment  header ‖ record ‖ record ‖ ...
//!  header   magic 8 ‖ borsh of Header ‖ check 16
//!  record   marker 4 ‖ length 4 ‖ distance 4 ‖ check 4 ‖ sum 16 ‖ payload
//! ```
//!
//! A record's check and sum are blake3 hashes, keyed by the hash of the segment's header, and cover the record's
//! offset. So a record that is moved to another position or file is invalid. The header contains a random number
//! that peers never learn, so no data from peers can look like a record. `distance` is the number of bytes from the
//! start of the record's group. A group is written with one `fdatasync`, and the next group is written only after
//! that.
//!
//! This distinguishes a torn tail from damage. If the record at X is incomplete or fails its check:
//! - If a whole record of a *later group* follows, X had been synced, so this is damage.
//! - Otherwise X may never have been durable, so it was not acknowledged: a torn tail.

use crate::Identity;
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::B256;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;

const MAGIC: &[u8; 8] = b"cornlog1";
const MARKER: [u8; 4] = [0xc0, 0x27, 0x1c, 0xe5];
const CHECK_BYTES: usize = 16;
/// The borsh encoding of [`Header`] has a fixed size.
const BODY_BYTES: usize = 1 + 8 + 32 + 8 + 8 + 1 + 8;

pub(crate) const HEADER_BYTES: usize = MAGIC.len() + BODY_BYTES + CHECK_BYTES;
pub(crate) const RECORD_HEADER_BYTES: usize = 16 + CHECK_BYTES;
/// Maximum payload of one record, in bytes.
pub(crate) const MAX_RECORD_BYTES: usize = 1 << 30;

/// Log that a segment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
#[borsh(use_discriminant = true)]
#[repr(u8)]
pub(crate) enum LogKind {
    Safety = 1,
    Blocks = 2,
    /// A ring instead of a log, with its own rules: see `trace`.
    Trace = 3,
}

/// Header of a segment.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(crate) struct Header {
    pub kind: LogKind,
    pub chain_id: u64,
    pub genesis_hash: B256,
    /// Number of the segment in its log, from 0, without gaps.
    pub sequence: u64,
    /// Block log: lowest height that can be in this segment.
    pub base: u64,
    /// Safety log: true if earlier signatures were lost, and had not been recovered when this segment was created.
    pub history_lost: bool,
    /// Random, so that peers cannot compute the checks in the segment.
    pub nonce: u64,
}

/// Key of all records' checks and sums in one segment: the hash of its header.
pub(crate) type Key = [u8; 32];

impl Header {
    pub(crate) fn identity(&self) -> Identity {
        Identity { chain_id: self.chain_id, genesis_hash: self.genesis_hash }
    }

    pub(crate) fn encode(&self) -> (Vec<u8>, Key) {
        let mut bytes = MAGIC.to_vec();
        self.serialize(&mut bytes).expect("writing into memory cannot fail");
        let check = blake3::hash(&bytes);
        bytes.extend_from_slice(&check.as_bytes()[..CHECK_BYTES]);
        debug_assert_eq!(bytes.len(), HEADER_BYTES);
        let key = *blake3::hash(&bytes).as_bytes();
        (bytes, key)
    }

    /// Decodes the header at the start of `bytes`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, Key), String> {
        let bytes = bytes.get(..HEADER_BYTES).ok_or("its header is incomplete")?;
        let (covered, check) = bytes.split_at(HEADER_BYTES - CHECK_BYTES);
        let (magic, body) = covered.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err("it does not start with a segment header".into());
        }
        if blake3::hash(covered).as_bytes()[..CHECK_BYTES] != *check {
            return Err("the check of its header fails".into());
        }
        let header = Self::try_from_slice(body).map_err(|error| format!("its header: {error}"))?;
        Ok((header, *blake3::hash(bytes).as_bytes()))
    }
}

/// Returns a number that peers cannot guess. The operating system provides it: it seeds the hash maps of the standard
/// library.
pub(crate) fn fresh_nonce() -> u64 {
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u8(0);
    hasher.finish()
}

/// Fills in the header of the last record in `group`; `start` is the offset in `group` of its header, which
/// is still empty.
pub(crate) fn seal_record(key: &Key, group: &mut [u8], group_start: u64, start: usize) {
    let (header, payload) = group[start..].split_at_mut(RECORD_HEADER_BYTES);
    let length = u32::try_from(payload.len()).expect("the caller bounds a record");
    let distance = u32::try_from(start).expect("the caller bounds a group");
    let position = RecordPosition { offset: group_start + start as u64, length, distance };
    header[..4].copy_from_slice(&MARKER);
    header[4..8].copy_from_slice(&length.to_le_bytes());
    header[8..12].copy_from_slice(&distance.to_le_bytes());
    header[12..16].copy_from_slice(&position.check(key));
    header[16..].copy_from_slice(&position.sum(key, payload));
}

/// Whole record in a segment's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub payload: Range<usize>,
    /// Offset of its group.
    pub group_start: u64,
}

/// Reason why there is no whole record at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("the record is incomplete")]
    Incomplete,
    #[error("the record's header fails its check")]
    Header,
    #[error("the record's content fails its check")]
    Payload,
}

/// Record at `offset` of a segment that begins with `bytes`.
pub(crate) fn record_at(key: &Key, bytes: &[u8], offset: usize) -> Result<Record, RecordError> {
    let header = bytes.get(offset..).and_then(|rest| rest.get(..RECORD_HEADER_BYTES)).ok_or(RecordError::Incomplete)?;
    let parsed = RecordHeader::parse(key, header, offset as u64)?;
    let start = offset + RECORD_HEADER_BYTES;
    let payload = start..start + parsed.position.length as usize;
    let content = bytes.get(payload.clone()).ok_or(RecordError::Incomplete)?;
    parsed.verify(key, content)?;
    Ok(Record { payload, group_start: (offset as u64).saturating_sub(u64::from(parsed.position.distance)) })
}

/// Record header that passed its own check.
pub(crate) struct RecordHeader {
    position: RecordPosition,
    sum: [u8; CHECK_BYTES],
}

impl RecordHeader {
    pub(crate) fn parse(key: &Key, header: &[u8], offset: u64) -> Result<Self, RecordError> {
        let number = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let position = RecordPosition { offset, length: number(4), distance: number(8) };
        if header[..4] != MARKER || header[12..16] != position.check(key) {
            return Err(RecordError::Header);
        }
        let sum = header[16..RECORD_HEADER_BYTES].try_into().expect("a header ends with the sum");
        Ok(Self { position, sum })
    }

    pub(crate) fn length(&self) -> usize {
        self.position.length as usize
    }

    pub(crate) fn verify(&self, key: &Key, payload: &[u8]) -> Result<(), RecordError> {
        if self.position.sum(key, payload) == self.sum { Ok(()) } else { Err(RecordError::Payload) }
    }
}

/// Position and size of a record, covered by its checks.
#[derive(Clone, Copy)]
struct RecordPosition {
    offset: u64,
    length: u32,
    distance: u32,
}

impl RecordPosition {
    fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.length.to_le_bytes());
        bytes[12..].copy_from_slice(&self.distance.to_le_bytes());
        bytes
    }

    fn check(&self, key: &Key) -> [u8; 4] {
        let hash = blake3::keyed_hash(key, &self.bytes());
        hash.as_bytes()[..4].try_into().expect("a hash is longer")
    }

    fn sum(&self, key: &Key, payload: &[u8]) -> [u8; CHECK_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(key);
        hasher.update(&self.bytes()).update(payload);
        hasher.finalize().as_bytes()[..CHECK_BYTES].try_into().expect("a hash is longer")
    }
}

/// Cause of an incomplete record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TailState {
    /// It was being written when the node stopped.
    Torn,
    /// It had been synced: a later group, with a whole record at `witness`, was written after it.
    Damaged { witness: u64 },
}

/// Decides the cause in the last segment of a log, where the record at `bad_offset` is incomplete.
pub(crate) fn classify_tail(key: &Key, bytes: &[u8], bad_offset: usize) -> TailState {
    let mut from = bad_offset + 1;
    while let Some(found) = find_marker(bytes, from) {
        match record_at(key, bytes, found) {
            Ok(record) if record.group_start > bad_offset as u64 => return TailState::Damaged { witness: found as u64 },
            Ok(record) => from = record.payload.end,
            Err(_) => from = found + 1,
        }
    }
    TailState::Torn
}

/// Next position where a record may begin.
pub(crate) fn find_marker(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(MARKER.len()).position(|window| window == MARKER).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The disk format is frozen: a change here needs a new schema version.
    #[test]
    fn segment_format_is_frozen() {
        let header = Header {
            kind: LogKind::Blocks,
            chain_id: 1,
            genesis_hash: B256::repeat_byte(2),
            sequence: 3,
            base: 4,
            history_lost: false,
            nonce: 5,
        };
        let (mut segment, key) = header.encode();
        assert_eq!(segment.len(), HEADER_BYTES);
        let mut group = vec![0; RECORD_HEADER_BYTES];
        group.extend_from_slice(b"one");
        seal_record(&key, &mut group, HEADER_BYTES as u64, 0);
        let second = group.len();
        group.resize(second + RECORD_HEADER_BYTES, 0);
        seal_record(&key, &mut group, HEADER_BYTES as u64, second);
        segment.extend_from_slice(&group);
        assert_eq!(Header::decode(&segment).unwrap(), (header, key));
        let first = record_at(&key, &segment, HEADER_BYTES).unwrap();
        assert_eq!(&segment[first.payload.clone()], b"one");
        let last = record_at(&key, &segment, first.payload.end).unwrap();
        assert_eq!((last.payload.len(), last.group_start), (0, HEADER_BYTES as u64));
        let fixture = "9846f99b6030bc02c027c090f10cb27937e31b22876b4f6214e11c0032d77be7";
        assert_eq!(blake3::hash(&segment).to_hex().as_str(), fixture);
    }
}
