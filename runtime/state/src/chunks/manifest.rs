//! The list of a state's chunks, which proves each of them.

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::proof::branch_hash;
use corniche_types::{B256, Height, keccak256, wire};

/// Most chunks of a state.
pub const MAX_CHUNKS: usize = 1 << 16;
/// Most codes of a state.
pub const MAX_CODES: usize = 1 << 20;
/// Deepest prefix.
pub(super) const MAX_PREFIX_BITS: u8 = 64;

/// Bytes of entries above which a prefix is split, for a state with `total` bytes of entries: 1 MiB, doubled until the state has at most
/// 32,768 times as many.
pub fn chunk_bytes(total: u64) -> u64 {
    let mut bytes = 1 << 20;
    while total.div_ceil(bytes) > MAX_CHUNKS as u64 / 2 {
        bytes *= 2;
    }
    bytes
}

/// Content of a subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
#[borsh(use_discriminant = true)]
#[repr(u8)]
pub enum Subtree {
    /// No entry. The hash is zero.
    Empty = 0,
    /// One entry. The hash does not depend on the depth.
    Leaf = 1,
    /// Two entries or more.
    Branch = 2,
}

impl Subtree {
    /// Joins the subtrees of both sides of a prefix.
    pub(super) fn join(zero: (Self, B256), one: (Self, B256)) -> (Self, B256) {
        match (zero.0, one.0) {
            (Self::Empty, Self::Empty | Self::Leaf) => one,
            (Self::Leaf, Self::Empty) => zero,
            _ => (Self::Branch, branch_hash(&zero.1, &one.1)),
        }
    }
}

/// The first bits of tree keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// The bits, from the most significant one on; zeros follow.
    pub bits: u64,
    /// Number of bits, at most 64.
    pub depth: u8,
}

impl Prefix {
    /// Prefix of all keys.
    pub const ALL: Self = Self { bits: 0, depth: 0 };

    /// Prefix with one more bit. The depth must be less than 64.
    pub fn child(self, side: bool) -> Self {
        debug_assert!(self.depth < MAX_PREFIX_BITS);
        Self { bits: self.bits | u64::from(side) << (63 - self.depth), depth: self.depth + 1 }
    }

    /// Returns whether a key begins with these bits.
    pub(super) fn covers(self, key: &B256) -> bool {
        let bits = u64::from_be_bytes(std::array::from_fn(|index| key[index]));
        self.depth == 0 || (bits ^ self.bits) >> (64 - self.depth) == 0
    }
}

/// Description of a chunk in a [`Manifest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct ChunkInfo {
    /// Number of bits of its prefix.
    pub depth: u8,
    pub kind: Subtree,
    /// Hash of its subtree.
    pub hash: B256,
    /// Number of entries.
    pub entries: u32,
    /// Encoded bytes of the whole chunk.
    pub bytes: u32,
}

/// A contract's code in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct CodeInfo {
    /// keccak-256 of the code.
    pub hash: B256,
    /// Bytes of the code.
    pub length: u32,
}

/// The list of a state's chunks and codes. The chunks are proved by [`Self::verify`], each code by its hash.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Manifest {
    pub chain_id: u64,
    pub genesis_hash: B256,
    /// The block after which the state is.
    pub height: Height,
    /// Hash of that block's header.
    pub header_hash: B256,
    /// Chunks by ascending prefix.
    #[borsh(deserialize_with = "wire::at_most::<MAX_CHUNKS, _, _>")]
    pub chunks: Vec<ChunkInfo>,
    /// Codes of the accounts, by ascending hash.
    #[borsh(deserialize_with = "wire::at_most::<MAX_CODES, _, _>")]
    pub codes: Vec<CodeInfo>,
}

/// Why a manifest is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    #[error("manifest: {0}")]
    Encoding(#[from] wire::WireError),
    #[error("manifest: the prefixes of the chunks do not cover each key once")]
    Prefixes,
    #[error("manifest: chunk {0} has a kind that contradicts its entries, or more bytes than a chunk may have")]
    Chunk(usize),
    #[error("manifest: the codes are not in ascending order")]
    Codes,
    #[error("manifest: expected state root {expected}, got {found}")]
    Root { expected: B256, found: B256 },
}

impl Manifest {
    pub fn encode(&self) -> Vec<u8> {
        wire::encode(self)
    }

    /// keccak-256 of the encoding: the name of the manifest among peers.
    pub fn hash(&self) -> B256 {
        keccak256(self.encode())
    }

    /// Decodes a manifest and checks everything but the state root.
    pub fn decode(bytes: &[u8]) -> Result<Self, ManifestError> {
        let manifest: Self = wire::decode(bytes)?;
        manifest.fold()?;
        manifest.check_chunks()?;
        if !manifest.codes.is_sorted_by(|one, other| one.hash < other.hash) {
            return Err(ManifestError::Codes);
        }
        Ok(manifest)
    }

    /// Checks that the chunks are those of the state with this root.
    pub fn verify(&self, state_root: &B256) -> Result<(), ManifestError> {
        let found = self.fold()?;
        if found == *state_root { Ok(()) } else { Err(ManifestError::Root { expected: *state_root, found }) }
    }

    /// Prefixes of the chunks, in order.
    pub fn prefixes(&self) -> Vec<Prefix> {
        let mut prefixes = Vec::with_capacity(self.chunks.len());
        // Depth first: a chunk ends a branch, and the next one begins at the nearest side that is open.
        let mut open = vec![Prefix::ALL];
        for chunk in &self.chunks {
            let Some(mut prefix) = open.pop() else { break };
            while prefix.depth < chunk.depth.min(MAX_PREFIX_BITS) {
                open.push(prefix.child(true));
                prefix = prefix.child(false);
            }
            prefixes.push(prefix);
        }
        prefixes
    }

    /// Bytes of all chunks.
    pub fn chunk_bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum()
    }

    /// Number of all entries.
    pub fn entries(&self) -> u64 {
        self.chunks.iter().map(|chunk| u64::from(chunk.entries)).sum()
    }

    fn check_chunks(&self) -> Result<(), ManifestError> {
        let entry_bytes = |chunk: &ChunkInfo| u64::from(chunk.bytes).saturating_sub(super::chunk::HEADER_BYTES as u64);
        let limit = chunk_bytes(self.chunks.iter().map(entry_bytes).sum());
        let is_valid = |chunk: &ChunkInfo| {
            let kind = match chunk.entries {
                0 => Subtree::Empty,
                1 => Subtree::Leaf,
                _ => Subtree::Branch,
            };
            let fits = entry_bytes(chunk) <= limit || chunk.depth == MAX_PREFIX_BITS;
            chunk.kind == kind && fits && (chunk.kind != Subtree::Empty || chunk.hash.is_zero())
        };
        match self.chunks.iter().position(|chunk| !is_valid(chunk)) {
            Some(index) => Err(ManifestError::Chunk(index)),
            None => Ok(()),
        }
    }

    /// Root of the tree of all chunks.
    fn fold(&self) -> Result<B256, ManifestError> {
        let mut rest = self.chunks.iter();
        let (_, root) = fold(&mut rest, 0).ok_or(ManifestError::Prefixes)?;
        if rest.next().is_some() { Err(ManifestError::Prefixes) } else { Ok(root) }
    }
}

/// Folds the chunks under the next prefix of this depth. `None` if there is none: the depths are no complete prefix code.
fn fold(rest: &mut std::slice::Iter<'_, ChunkInfo>, depth: u8) -> Option<(Subtree, B256)> {
    let next = rest.as_slice().first()?;
    if next.depth == depth {
        rest.next();
        return Some((next.kind, next.hash));
    }
    if next.depth < depth || depth >= MAX_PREFIX_BITS {
        return None;
    }
    let zero = fold(rest, depth + 1)?;
    let one = fold(rest, depth + 1)?;
    Some(Subtree::join(zero, one))
}
