//! Serves state to peers. The caller limits rates: it waits, refuses, or sends [`StateResponse::Busy`].

use crate::message::{MAX_CHANGES, MAX_OFFERS, MAX_RESPONSE_BYTES, Offer, PART_BYTES, StateRequest, StateResponse};
use corniche_types::{B256, Bytes, Epoch, EpochChange, Height};

/// Data that a node serves. It offers a snapshot only once all its files are written and its manifest folds to the header's state root:
/// peers ban a node that offers anything else.
pub trait SnapshotSource {
    /// Highest certified block.
    fn certified(&self) -> Height;
    /// Change at the end of this epoch. `None` if the epoch has not ended.
    fn epoch_change(&self, epoch: Epoch) -> Option<EpochChange>;
    /// Snapshots, the newest first. Only the first 8 are offered.
    fn offers(&self) -> Vec<Offer>;
    /// At most `length` bytes of a manifest, from `offset` on. `None` if there is no such snapshot.
    fn manifest_part(&self, manifest: &B256, offset: u64, length: usize) -> Option<Bytes>;
    /// A chunk of a snapshot. `None` if there is no such snapshot or chunk.
    fn chunk(&self, manifest: &B256, index: u32) -> Option<Bytes>;
    /// A contract's code by its keccak-256.
    fn code(&self, hash: &B256) -> Option<Bytes>;
    /// At most `length` bytes of the encoded tail of a snapshot, from `offset` on. The tail has its headers below by
    /// [`build_below`](crate::build_below). `None` if there is no such snapshot, or the offset is beyond the end.
    fn tail_part(&self, manifest: &B256, offset: u64, length: usize) -> Option<Bytes>;
}

/// Returns the encoded response to a request. It has at most 4 MiB of content, or one chunk, or one code.
pub fn serve(request: StateRequest, source: &impl SnapshotSource) -> Vec<u8> {
    respond(request, source).encode()
}

fn respond(request: StateRequest, source: &impl SnapshotSource) -> StateResponse {
    match request {
        StateRequest::EpochChanges { from } => {
            let epochs = (from.0..=u64::MAX).take(MAX_CHANGES);
            let changes = epochs.map_while(|epoch| source.epoch_change(Epoch(epoch)));
            StateResponse::EpochChanges(bounded(changes, |change| borsh::object_length(change).unwrap_or(MAX_RESPONSE_BYTES)))
        }
        StateRequest::Snapshots => {
            let mut offers = source.offers();
            offers.truncate(MAX_OFFERS);
            StateResponse::Snapshots { certified: source.certified(), offers }
        }
        StateRequest::Manifest { hash, part } => {
            let bytes = source.manifest_part(&hash, u64::from(part) * PART_BYTES as u64, PART_BYTES);
            bytes.filter(|bytes| !bytes.is_empty()).map_or(StateResponse::NotHere, StateResponse::Part)
        }
        StateRequest::Chunks { manifest, indexes } => {
            let chunks = bounded(indexes.into_iter().map_while(|index| source.chunk(&manifest, index)), |chunk| chunk.len());
            if chunks.is_empty() { StateResponse::NotHere } else { StateResponse::Chunks(chunks) }
        }
        StateRequest::Codes { hashes } => {
            let codes = hashes.iter().map(|hash| source.code(hash).unwrap_or_default());
            StateResponse::Codes(bounded(codes, |code| code.len()))
        }
        StateRequest::Tail { manifest, part } => {
            let bytes = source.tail_part(&manifest, u64::from(part) * PART_BYTES as u64, PART_BYTES);
            bytes.map_or(StateResponse::NotHere, StateResponse::Part)
        }
    }
}

/// The first items, as many as have at most [`MAX_RESPONSE_BYTES`] together, but at least one.
fn bounded<T>(items: impl Iterator<Item = T>, length: impl Fn(&T) -> usize) -> Vec<T> {
    let (mut kept, mut bytes) = (Vec::new(), 0);
    for item in items {
        bytes += length(&item);
        if bytes > MAX_RESPONSE_BYTES && !kept.is_empty() {
            break;
        }
        kept.push(item);
    }
    kept
}
