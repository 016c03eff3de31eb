//! Requests for state, and their responses. Both are encoded with [`wire`].

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::wire::{self, WireError};
use corniche_types::{B256, Bytes, Epoch, EpochChange, Height};

/// Most epoch changes in a response.
pub const MAX_CHANGES: usize = 64;
/// Most snapshots in a response.
pub const MAX_OFFERS: usize = 8;
/// Bytes of each part of a manifest or a tail but the last one.
pub const PART_BYTES: usize = 1 << 20;
/// Most chunks in a request.
pub const MAX_CHUNKS: usize = 4;
/// Most codes in a request.
pub const MAX_CODES: usize = 256;
/// Bytes of content above which a response has no further chunk, code or epoch change. It always has the first one.
pub const MAX_RESPONSE_BYTES: usize = 4 << 20;

/// A request to a peer. The numbers start above those of requests for blocks, so that one responder can serve both.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
#[borsh(use_discriminant = true)]
#[repr(u8)]
pub enum StateRequest {
    /// Changes at the end of this epoch and of later ones.
    EpochChanges {
        /// First epoch whose end is requested.
        from: Epoch,
    } = 16,
    /// Snapshots that the peer offers.
    Snapshots = 17,
    /// Part of a manifest.
    Manifest {
        /// keccak-256 of the manifest.
        hash: B256,
        /// Number of the part, from 0.
        part: u32,
    } = 18,
    /// Chunks of a snapshot.
    Chunks {
        /// keccak-256 of the manifest.
        manifest: B256,
        /// Positions in the manifest, at most [`MAX_CHUNKS`].
        #[borsh(deserialize_with = "wire::at_most::<MAX_CHUNKS, _, _>")]
        indexes: Vec<u32>,
    } = 19,
    /// Codes of contracts.
    Codes {
        /// keccak-256 of each code, at most [`MAX_CODES`].
        #[borsh(deserialize_with = "wire::at_most::<MAX_CODES, _, _>")]
        hashes: Vec<B256>,
    } = 20,
    /// Part of the encoded tail of a snapshot.
    Tail {
        /// keccak-256 of the manifest.
        manifest: B256,
        /// Number of the part, from 0.
        part: u32,
    } = 21,
}

impl StateRequest {
    /// Returns whether these are the bytes of a request for state, by the number alone. Others may be requests for blocks.
    pub fn is_one(bytes: &[u8]) -> bool {
        matches!(bytes, [wire::VERSION, 16..=21, ..])
    }

    /// Encodes the request, at most 9 kB.
    pub fn encode(&self) -> Vec<u8> {
        wire::encode(self)
    }

    /// Decodes a request.
    ///
    /// # Errors
    ///
    /// Bytes of no request, lists that are too long, or trailing bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        wire::decode(bytes)
    }
}

/// A snapshot that a peer offers. Nothing in it is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct Offer {
    /// The block after which the state is.
    pub height: Height,
    /// Hash of that block's header.
    pub header_hash: B256,
    /// keccak-256 of the manifest.
    pub manifest: B256,
    /// Bytes of the manifest.
    pub manifest_bytes: u32,
}

/// Response to a [`StateRequest`].
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
#[borsh(use_discriminant = true)]
#[repr(u8)]
pub enum StateResponse {
    /// The peer does not have the snapshot, or has no such part or chunk in it.
    NotHere = 0,
    /// The peer serves as much as it may. It is no fault to ask again after this time, but it is one before.
    Busy {
        /// Pause in milliseconds.
        ms: u32,
    } = 1,
    /// Consecutive changes from the requested epoch on. None if that epoch has not ended.
    EpochChanges(#[borsh(deserialize_with = "wire::at_most::<MAX_CHANGES, _, _>")] Vec<EpochChange>) = 2,
    /// All snapshots that the peer offers.
    Snapshots {
        /// Highest certified block that the peer has.
        certified: Height,
        /// Its snapshots, at most [`MAX_OFFERS`].
        #[borsh(deserialize_with = "wire::at_most::<MAX_OFFERS, _, _>")]
        offers: Vec<Offer>,
    } = 3,
    /// Part of a manifest or a tail: [`PART_BYTES`], the last one fewer. The length of a tail is not known before its end, so its last part
    /// is empty if all others are full.
    Part(Bytes) = 4,
    /// The first chunks of the requested ones, at least one.
    Chunks(#[borsh(deserialize_with = "wire::at_most::<MAX_CHUNKS, _, _>")] Vec<Bytes>) = 5,
    /// The first codes of the requested ones, at least one. A code that the peer does not have is empty.
    Codes(#[borsh(deserialize_with = "wire::at_most::<MAX_CODES, _, _>")] Vec<Bytes>) = 6,
}

impl StateResponse {
    /// Encodes the response.
    pub fn encode(&self) -> Vec<u8> {
        wire::encode(self)
    }

    /// Decodes a response. Lists are bounded before they are read.
    ///
    /// # Errors
    ///
    /// Bytes of no response, lists that are too long, or trailing bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        wire::decode(bytes)
    }
}
