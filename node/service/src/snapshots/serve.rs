//! Source of the state for other nodes that fetch it.

use super::{Shelf, SnapshotStats};
use crate::epoch_log::EpochLog;
use corniche_state::{State, StateView};
use corniche_store::Reader;
use corniche_sync::{Offer, SnapshotSource};
use corniche_types::{B256, Bytes, Epoch, EpochChange, Height};
use std::sync::Arc;

/// Snapshots and epoch changes of this node.
#[derive(Clone)]
pub struct StateSource {
    pub reader: Reader,
    pub state: State,
    pub epoch_log: EpochLog,
    pub shelf: Arc<Shelf>,
    pub stats: Arc<SnapshotStats>,
}

impl SnapshotSource for StateSource {
    fn certified(&self) -> Height {
        self.reader.certified()
    }

    fn epoch_change(&self, epoch: Epoch) -> Option<EpochChange> {
        self.epoch_log.change(epoch)
    }

    fn offers(&self) -> Vec<Offer> {
        let offer = |held: &Arc<super::shelf::Held>| Offer {
            height: held.snapshot.height(),
            header_hash: held.snapshot.manifest().header_hash,
            manifest: held.snapshot.manifest_hash(),
            manifest_bytes: u32::try_from(held.snapshot.manifest_bytes().len()).unwrap_or(u32::MAX),
        };
        self.shelf.all().iter().map(offer).collect()
    }

    fn manifest_part(&self, manifest: &B256, offset: u64, length: usize) -> Option<Bytes> {
        let held = self.shelf.find(manifest)?;
        let bytes = held.snapshot.manifest_bytes();
        let start = usize::try_from(offset).ok().filter(|start| *start < bytes.len())?;
        Some(bytes.slice(start..bytes.len().min(start.saturating_add(length))))
    }

    fn chunk(&self, manifest: &B256, index: u32) -> Option<Bytes> {
        let held = self.shelf.find(manifest)?;
        held.note_read();
        held.snapshot.chunk(index as usize).ok().flatten().map(Bytes::from)
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        self.state.latest().code(hash)
    }

    fn tail_part(&self, manifest: &B256, offset: u64, length: usize) -> Option<Bytes> {
        self.shelf.find(manifest)?.snapshot.tail_part(offset, length).ok().flatten().map(Bytes::from)
    }
}
