//! Who gets a connection: limits, reserved slots, bans.
//!
//! libp2p's own `connection-limits` counts peers that should bypass it and remembers every peer id it ever saw; this one
//! knows the committee and forgets.

use crate::{PeerKey, shared::Shared};
use libp2p::{
    Multiaddr, PeerId,
    core::{Endpoint, transport::PortUse},
    swarm::{
        ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent, THandlerOutEvent, ToSwarm,
        dummy,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

/// Connections with one peer at once: one in use, one being replaced, and both sides' dials on top.
const CONNECTIONS_PER_PEER: usize = 4;

/// Why a connection is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("too many connections are being set up")]
    Pending,
    #[error("all slots for peers outside the committee are taken")]
    Full,
    #[error("too many connections with this peer")]
    PerPeer,
    #[error("the peer is banned")]
    Banned,
    #[error("the peer's key is not ed25519")]
    NotEd25519,
}

pub(crate) struct Gate {
    shared: Arc<Shared>,
    pending: BTreeSet<ConnectionId>,
    established: BTreeMap<ConnectionId, PeerKey>,
}

impl Gate {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared, pending: BTreeSet::new(), established: BTreeMap::new() }
    }

    fn admit(&self, peer: &PeerId) -> Result<(), Refused> {
        let key = PeerKey::from_peer_id(peer).ok_or(Refused::NotEd25519)?;
        if self.shared.banned_until(Instant::now(), &key).is_some() {
            return Err(Refused::Banned);
        }
        if self.established.values().filter(|other| **other == key).count() >= CONNECTIONS_PER_PEER {
            return Err(Refused::PerPeer);
        }
        let is_guest = |key: &PeerKey| self.shared.validator(key).is_none();
        let guests = self.established.values().filter(|other| is_guest(other)).count();
        if is_guest(&key) && guests >= self.shared.config.limits.peers {
            return Err(Refused::Full);
        }
        Ok(())
    }

    fn counted(&self, verdict: Result<(), Refused>) -> Result<(), ConnectionDenied> {
        verdict.map_err(|refused| {
            self.shared.counters.general.connections_refused.one();
            ConnectionDenied::new(refused)
        })
    }
}

impl NetworkBehaviour for Gate {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_pending_inbound_connection(
        &mut self,
        connection: ConnectionId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        if self.pending.len() >= self.shared.config.limits.pending_inbound {
            return self.counted(Err(Refused::Pending));
        }
        self.pending.insert(connection);
        Ok(())
    }

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.counted(self.admit(&peer))?;
        Ok(dummy::ConnectionHandler)
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        // Whom to dial was our own choice, so the limit for guests does not apply; a ban may have come meanwhile.
        match self.admit(&peer) {
            Err(Refused::Full) => Ok(dummy::ConnectionHandler),
            verdict => self.counted(verdict).map(|()| dummy::ConnectionHandler),
        }
    }

    fn on_swarm_event(&mut self, event: FromSwarm) {
        match event {
            FromSwarm::ConnectionEstablished(event) => {
                self.pending.remove(&event.connection_id);
                if let Some(key) = PeerKey::from_peer_id(&event.peer_id) {
                    self.established.insert(event.connection_id, key);
                }
            }
            FromSwarm::ConnectionClosed(event) => {
                self.established.remove(&event.connection_id);
            }
            FromSwarm::ListenFailure(event) => {
                self.pending.remove(&event.connection_id);
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(&mut self, _: PeerId, _: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        Poll::Pending
    }
}
