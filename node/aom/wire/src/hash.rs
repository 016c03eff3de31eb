//! Digests and hashes. Each has a domain of its own.

use crate::AUTHENTICATED_BYTES;
use sha2::{Digest, Sha256};

/// Returns the digest of a payload: `SHA-256("corniche/aom/1/payload" ‖ group ‖ payload)`.
pub fn payload_digest(group: u32, payload: &[u8]) -> [u8; 32] {
    Sha256::new()
        .chain_update(b"corniche/aom/1/payload")
        .chain_update(group.to_be_bytes())
        .chain_update(payload)
        .finalize()
        .into()
}

/// Returns prev_hash of the first packet of an epoch: `SHA-256("corniche/aom/1/genesis" ‖ chain_id ‖ group ‖ epoch)`.
pub fn genesis_hash(chain_id: u64, group: u32, epoch: u32) -> [u8; 32] {
    Sha256::new()
        .chain_update(b"corniche/aom/1/genesis")
        .chain_update(chain_id.to_be_bytes())
        .chain_update(group.to_be_bytes())
        .chain_update(epoch.to_be_bytes())
        .finalize()
        .into()
}

/// Returns the header hash of a PK packet: `SHA-256(bytes 0..56 ‖ prev_seq ‖ prev_hash)`.
///
/// Signatures cover it, and the next packet has it as prev_hash. Presence of a signature is not hashed.
pub fn header_hash(authenticated: &[u8; AUTHENTICATED_BYTES], prev_seq: u64, prev_hash: &[u8; 32]) -> [u8; 32] {
    Sha256::new().chain_update(authenticated).chain_update(prev_seq.to_be_bytes()).chain_update(prev_hash).finalize().into()
}
