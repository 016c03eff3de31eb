//! Cutting a state into chunks, and checking one of them.

use super::Entry;
use super::manifest::{ChunkInfo, MAX_PREFIX_BITS, Prefix, Subtree};
use crate::{Changes, MAX_DEPTH, TreeKey};
use corniche_types::B256;
use corniche_types::proof::leaf_hash;
use std::ops::Range;

/// First bytes of a chunk.
const MAGIC: &[u8; 4] = b"CSN2";
/// `MAGIC` ‖ depth, one byte ‖ prefix, eight bytes, big-endian ‖ number of entries, four bytes, little-endian.
pub(super) const HEADER_BYTES: usize = 17;

/// Entries of some prefix, in any order.
#[derive(Clone, Debug, Default)]
pub struct ItemBuffer {
    bytes: Vec<u8>,
    items: Vec<(B256, Range<usize>)>,
}

impl ItemBuffer {
    pub fn push(&mut self, entry: &Entry) {
        let start = self.bytes.len();
        entry.encode(&mut self.bytes);
        self.items.push((entry.key().0, start..self.bytes.len()));
    }

    /// Sorts the entries by their keys.
    pub fn sort(&mut self) -> Items<'_> {
        self.items.sort_unstable_by_key(|item| item.0);
        Items { bytes: &self.bytes, items: &self.items }
    }

    /// Number of encoded bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Removes all entries and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
    }
}

/// Entries by ascending key.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a> {
    bytes: &'a [u8],
    items: &'a [(B256, Range<usize>)],
}

impl<'a> Items<'a> {
    fn bytes(&self) -> u64 {
        self.items.iter().map(|(_, range)| range.len() as u64).sum()
    }

    fn split(&self, depth: usize) -> (Self, Self) {
        let middle = self.items.partition_point(|(key, _)| !TreeKey(*key).side(depth));
        let (zero, one) = self.items.split_at(middle);
        (Self { items: zero, ..*self }, Self { items: one, ..*self })
    }

    fn encoded(&self) -> impl Iterator<Item = &'a [u8]> {
        let bytes = self.bytes;
        self.items.iter().map(move |(_, range)| &bytes[range.clone()])
    }
}

/// Cuts the entries of a prefix into chunks of at most `limit` bytes of entries, and passes them on by ascending prefix.
///
/// # Errors
///
/// Those of `emit`.
pub fn cut<E>(
    items: Items<'_>,
    prefix: Prefix,
    limit: u64,
    emit: &mut impl FnMut(ChunkInfo, Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    if items.bytes() > limit && prefix.depth < MAX_PREFIX_BITS {
        let (zero, one) = items.split(usize::from(prefix.depth));
        cut(zero, prefix.child(false), limit, emit)?;
        return cut(one, prefix.child(true), limit, emit);
    }
    let mut bytes = Vec::with_capacity(HEADER_BYTES + items.bytes() as usize);
    bytes.extend_from_slice(MAGIC);
    bytes.push(prefix.depth);
    bytes.extend_from_slice(&prefix.bits.to_be_bytes());
    let entries = u32::try_from(items.items.len()).expect("a chunk has fewer entries than bytes");
    bytes.extend_from_slice(&entries.to_le_bytes());
    items.encoded().for_each(|entry| bytes.extend_from_slice(entry));
    let leaves: Vec<_> = items.items.iter().zip(items.encoded()).map(|((key, _), entry)| leaf(*key, entry)).collect();
    let (kind, hash) = subtree(&leaves, usize::from(prefix.depth));
    let length = u32::try_from(bytes.len()).expect("a chunk has less than 4 GiB");
    emit(ChunkInfo { depth: prefix.depth, kind, hash, entries, bytes: length }, bytes)
}

fn leaf(key: B256, mut entry: &[u8]) -> (B256, B256) {
    let decoded = Entry::decode(&mut entry).expect("invariant: a buffer has encoded entries");
    (key, leaf_hash(&key, &decoded.value_hash()))
}

/// Hash of the subtree with these leaves, whose keys are equal in the first `depth` bits.
fn subtree(leaves: &[(B256, B256)], depth: usize) -> (Subtree, B256) {
    match leaves {
        [] => (Subtree::Empty, B256::ZERO),
        [(_, hash)] => (Subtree::Leaf, *hash),
        _ => {
            debug_assert!(depth < MAX_DEPTH, "different keys differ in one of their 256 bits");
            let (zero, one) = leaves.split_at(leaves.partition_point(|(key, _)| !TreeKey(*key).side(depth)));
            Subtree::join(subtree(zero, depth + 1), subtree(one, depth + 1))
        }
    }
}

/// Why a chunk is not the one in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    #[error("chunk: expected {expected} bytes, got {found}")]
    Length { expected: u32, found: usize },
    #[error("chunk: expected another prefix or number of entries")]
    Header,
    #[error("chunk: entry {0} is malformed")]
    Entry(u32),
    #[error("chunk: entry {0} has another prefix, or a key that is not above the one before")]
    Order(u32),
    #[error("chunk: bytes follow the last entry")]
    Trailing,
    #[error("chunk: expected hash {expected}, got {found}")]
    Hash { expected: B256, found: B256 },
}

/// Entries of a chunk that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub entries: Vec<Entry>,
}

impl Chunk {
    /// Checks that these bytes are the chunk in a manifest that was checked (Y10).
    pub fn verify(bytes: &[u8], prefix: Prefix, info: &ChunkInfo) -> Result<Self, ChunkError> {
        if bytes.len() != info.bytes as usize {
            return Err(ChunkError::Length { expected: info.bytes, found: bytes.len() });
        }
        let mut header = MAGIC.to_vec();
        header.push(prefix.depth);
        header.extend_from_slice(&prefix.bits.to_be_bytes());
        header.extend_from_slice(&info.entries.to_le_bytes());
        let mut rest = bytes.strip_prefix(header.as_slice()).ok_or(ChunkError::Header)?;
        // No entry is shorter, so the count cannot ask for more memory than the bytes have.
        let mut entries = Vec::with_capacity((info.entries as usize).min(bytes.len() / 24));
        let mut leaves: Vec<(B256, B256)> = Vec::with_capacity(entries.capacity());
        for index in 0..info.entries {
            let entry = Entry::decode(&mut rest).ok_or(ChunkError::Entry(index))?;
            let key = entry.key().0;
            if !prefix.covers(&key) || leaves.last().is_some_and(|(last, _)| *last >= key) {
                return Err(ChunkError::Order(index));
            }
            leaves.push((key, leaf_hash(&key, &entry.value_hash())));
            entries.push(entry);
        }
        if !rest.is_empty() {
            return Err(ChunkError::Trailing);
        }
        let (kind, found) = subtree(&leaves, usize::from(prefix.depth));
        if (kind, found) != (info.kind, info.hash) {
            return Err(ChunkError::Hash { expected: info.hash, found });
        }
        Ok(Self { entries })
    }

    /// The entries as changes of an empty state.
    pub fn into_changes(self) -> Changes {
        let mut changes = Changes::default();
        for entry in self.entries {
            match entry {
                Entry::Account(address, account) => {
                    changes.accounts.insert(address, Some(account));
                }
                Entry::Slot(address, slot, value) => {
                    changes.storage.insert((address, slot), value);
                }
            }
        }
        changes
    }
}
