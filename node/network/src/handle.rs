//! Interface of the network for the rest of the node.

use crate::{
    Channel, Fault, Peer, PeerInfo, PeerKey, RequestError, Sent, Stats, driver::Command, fetch, link_table::LinkTable,
    shared::Shared,
};
use corniche_types::Bytes;
use libp2p::Multiaddr;
use std::{
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, watch};

/// Handle of a running network. Cheap to clone, and usable from any thread. When the last one is dropped, the
/// network ends.
#[derive(Clone)]
pub struct NetworkHandle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) links: Arc<LinkTable>,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) ended: watch::Receiver<bool>,
}

impl NetworkHandle {
    /// Key of this node.
    pub fn key(&self) -> PeerKey {
        self.shared.config.identity.key()
    }

    /// Replaces the validators. With `learn_addresses`, dials them at these addresses, too. Disconnects a peer that becomes a
    /// validator or ceases to be one; it then reconnects.
    pub fn set_validators(&self, validators: Vec<(PeerKey, Vec<Multiaddr>)>) {
        self.shared.set_validators(validators.iter().map(|(key, _)| *key));
        // An error means that the network has ended and has no peers.
        let _ = self.commands.send(Command::ValidatorsChanged(validators));
    }

    /// Queues a message for a peer, or drops it. Never blocks.
    pub fn send(&self, to: PeerKey, channel: Channel, bytes: Bytes) -> Sent {
        match self.links.get(&to) {
            Some(link) => link.send(channel, bytes),
            None => Sent::NotConnected,
        }
    }

    /// Queues one message for many peers; returns the number of peers for which it was queued. Never blocks
    /// or copies.
    pub fn broadcast(&self, to: impl IntoIterator<Item = PeerKey>, channel: Channel, bytes: Bytes) -> usize {
        to.into_iter().filter(|peer| self.send(*peer, channel, bytes.clone()) == Sent::Queued).count()
    }

    /// Sends a request to a peer and waits for its response, with a timeout. At most `requests_in_flight` per
    /// peer are pending; above that it returns [`RequestError::Busy`] at once.
    pub fn request(&self, to: PeerKey, bytes: Bytes) -> impl Future<Output = Result<Bytes, RequestError>> + Send + 'static {
        self.request_within(to, bytes, self.shared.config.timing.request)
    }

    /// Like [`Self::request`], with another timeout: longer for a large response from a slow peer.
    pub fn request_within(
        &self,
        to: PeerKey,
        bytes: Bytes,
        timeout: Duration,
    ) -> impl Future<Output = Result<Bytes, RequestError>> + Send + 'static {
        let this = self.clone();
        async move {
            let link = this.links.get(&to).ok_or(RequestError::NotConnected)?;
            let answer = fetch::ask(&this.shared, &link, bytes, timeout).await;
            if let Err(error @ RequestError::AnswerTooLarge { .. }) = &answer {
                this.blame(link.peer, Fault::Oversized, &error.to_string());
            }
            answer
        }
    }

    /// Counts a fault against a peer. Enough faults ban the peer for a while.
    pub fn penalise(&self, peer: PeerKey, fault: Fault) {
        self.blame(self.shared.peer(peer), fault, "reported by the node");
    }

    fn blame(&self, peer: Peer, fault: Fault, detail: &str) {
        if self.shared.penalise(Instant::now(), &peer, fault, detail) {
            // An error means that the network has ended and has no peers.
            let _ = self.commands.send(Command::Disconnect(peer.id));
        }
    }

    /// Connected peers, sorted by key.
    pub fn peers(&self) -> Vec<Peer> {
        self.links.peers()
    }

    /// Connected peers with further information.
    pub fn peer_infos(&self) -> Vec<PeerInfo> {
        self.links.peer_infos()
    }

    /// True if this peer is connected.
    pub fn is_up(&self, peer: &PeerKey) -> bool {
        self.links.get(peer).is_some()
    }

    /// Listening addresses, without `/p2p`.
    pub fn listen_addresses(&self) -> Vec<Multiaddr> {
        self.shared.listening.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Current values of all counters.
    pub fn stats(&self) -> Stats {
        self.shared.counters.read()
    }

    /// Takes down all links (each with its [`crate::Event::PeerDown`]) and closes all sockets. Returns when
    /// that is done.
    pub async fn shutdown(&self) {
        let _ = self.commands.send(Command::Shutdown);
        // An error means that the driver has ended already.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }
}

impl std::fmt::Debug for NetworkHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NetworkHandle").field("key", &self.key()).field("peers", &self.peers()).finish_non_exhaustive()
    }
}
