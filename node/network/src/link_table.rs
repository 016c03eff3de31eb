//! Links of all connected peers.

use crate::{Peer, PeerInfo, PeerKey, link::Link};
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// Links by the peer's key. Only the driver changes them. The lock is held for a few instructions, and never across another
/// lock or an await.
#[derive(Default)]
pub(crate) struct LinkTable(RwLock<BTreeMap<PeerKey, Arc<Link>>>);

impl LinkTable {
    pub fn get(&self, peer: &PeerKey) -> Option<Arc<Link>> {
        self.read().get(peer).cloned()
    }

    pub fn insert(&self, link: Arc<Link>) {
        self.write().insert(link.peer.id, link);
    }

    pub fn remove(&self, peer: &PeerKey) {
        self.write().remove(peer);
    }

    /// Connected peers, sorted by key.
    pub fn peers(&self) -> Vec<Peer> {
        self.read().values().map(|link| link.peer).collect()
    }

    /// Connected peers with further information, sorted by key.
    pub fn peer_infos(&self) -> Vec<PeerInfo> {
        let links: Vec<_> = self.read().values().cloned().collect();
        links.iter().map(|link| link.info()).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<PeerKey, Arc<Link>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<PeerKey, Arc<Link>>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
