//! How the rest of the node uses the network.

use crate::{Channel, Fault, Peer, PeerInfo, PeerKey, RequestError, Sent, Stats, driver::Command, fetch, shared::Shared};
use corniche_types::{Bytes, ValidatorIndex};
use libp2p::Multiaddr;
use std::{
    sync::{Arc, PoisonError},
    time::Instant,
};
use tokio::sync::{mpsc, watch};

/// A handle of a running network. Cheap to clone, usable from any thread; when the last one is dropped, the network ends.
#[derive(Clone)]
pub struct NetworkHandle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    pub(crate) ended: watch::Receiver<bool>,
}

impl NetworkHandle {
    /// Who this node is to others.
    pub fn key(&self) -> PeerKey {
        self.shared.config.identity.key()
    }

    /// The network key of a validator.
    pub fn validator_key(&self, index: ValidatorIndex) -> Option<PeerKey> {
        self.shared.config.validators.get(index.as_usize()).copied()
    }

    /// Queues a message for a peer, or drops it. Never waits.
    pub fn send(&self, to: PeerKey, channel: Channel, bytes: Bytes) -> Sent {
        match self.shared.link(&to) {
            Some(link) => link.send(channel, bytes),
            None => Sent::NotConnected,
        }
    }

    /// Queues one message for many peers; returns for how many. Never waits, and copies nothing.
    pub fn broadcast(&self, to: impl IntoIterator<Item = PeerKey>, channel: Channel, bytes: Bytes) -> usize {
        to.into_iter().filter(|peer| self.send(*peer, channel, bytes.clone()) == Sent::Queued).count()
    }

    /// Asks a peer and waits for its answer, for a bounded time. At most `requests_in_flight` per peer are under way; above
    /// that the answer is [`RequestError::Busy`] at once.
    pub fn request(&self, to: PeerKey, bytes: Bytes) -> impl Future<Output = Result<Bytes, RequestError>> + Send + 'static {
        let this = self.clone();
        async move {
            let link = this.shared.link(&to).ok_or(RequestError::NotConnected)?;
            let answer = fetch::ask(&this.shared, &link, bytes).await;
            if let Err(error @ RequestError::AnswerTooLarge { .. }) = &answer {
                this.blame(link.peer, Fault::Oversized, &error.to_string());
            }
            answer
        }
    }

    /// Blames a peer for something no correct peer does. Enough of it bans the peer for a while.
    pub fn penalise(&self, peer: PeerKey, fault: Fault) {
        self.blame(self.shared.peer(peer), fault, "reported by the node");
    }

    fn blame(&self, peer: Peer, fault: Fault, detail: &str) {
        if self.shared.penalise(Instant::now(), &peer, fault, detail) {
            // A network that has ended has no peers.
            let _ = self.commands.send(Command::Disconnect(peer.id));
        }
    }

    /// The peers that are up, in the order of their keys.
    pub fn peers(&self) -> Vec<Peer> {
        let links = self.shared.links.read().unwrap_or_else(PoisonError::into_inner);
        links.values().map(|link| link.peer).collect()
    }

    /// The same, with what is known of each.
    pub fn peer_infos(&self) -> Vec<PeerInfo> {
        let links = self.shared.links.read().unwrap_or_else(PoisonError::into_inner);
        let links: Vec<_> = links.values().cloned().collect();
        links.iter().map(|link| link.info()).collect()
    }

    /// Whether this peer is up.
    pub fn is_up(&self, peer: &PeerKey) -> bool {
        self.shared.link(peer).is_some()
    }

    /// Where this node can be dialled, without `/p2p`.
    pub fn listen_addresses(&self) -> Vec<Multiaddr> {
        self.shared.listening.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All counters as of now.
    pub fn stats(&self) -> Stats {
        self.shared.counters.read()
    }

    /// Ends all links (each with its [`crate::Event::PeerDown`]) and frees all sockets. Returns when that is done.
    pub async fn shutdown(&self) {
        let _ = self.commands.send(Command::Shutdown);
        // An error means that the driver is gone, which is what we wait for.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }
}

impl std::fmt::Debug for NetworkHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NetworkHandle").field("key", &self.key()).field("peers", &self.peers()).finish_non_exhaustive()
    }
}
