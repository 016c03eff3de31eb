//! Admission of connections with a proven key: bans, limits, and slots for guests.
//!
//! libp2p's own `connection-limits` counts peers that should be exempt, and stores every peer id it ever saw.
//! This one knows the committee, and forgets peers.

use crate::{
    PeerKey,
    link_table::LinkTable,
    origin::{inbound_origin, origin},
    shared::Shared,
};
use corniche_origin::{Origin, Site};
use libp2p::{
    Multiaddr, PeerId,
    core::{ConnectedPoint, Endpoint, transport::PortUse},
    swarm::{
        CloseConnection, ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
        THandlerOutEvent, ToSwarm, dummy,
    },
};
use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// Maximum number of connections with one peer: one in use, one being replaced, and both sides' dials.
const MAX_CONNECTIONS_PER_PEER: usize = 4;

/// Reason why a connection is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Refused {
    #[error("all slots for peers outside the committee are taken")]
    Full,
    #[error("too many peers outside the committee at this address")]
    PerAddress,
    #[error("too many connections with this peer")]
    PerPeer,
    #[error("the peer is banned")]
    Banned,
    #[error("the peer's key is not ed25519")]
    NotEd25519,
}

/// Slots of inbound connections from guests: peers outside the committee.
#[derive(Debug)]
struct GuestSlots<Id> {
    all: usize,
    per_address: usize,
    /// A guest that is idle for this long may lose its slot to a new one.
    idle: Duration,
    guests: BTreeMap<Id, Guest>,
}

#[derive(Debug)]
struct Guest {
    peer: PeerKey,
    origin: Origin,
    since: Instant,
}

impl<Id: Ord + Copy> GuestSlots<Id> {
    /// Gives a guest from `origin` a slot, if possible; returns the guest that loses its slot. `last_received` is the
    /// time when a guest last sent something, if ever.
    ///
    /// If no slot is free, the guest that was idle longest loses its slot. Candidates are guests that are idle long
    /// enough, and guests whose site (IPv6: /48) would still have at least as many slots as the new one's. Within the new
    /// guest's own site, addresses are compared instead. A stranger's /48 has 65,536 addresses, so comparing addresses
    /// alone would give one stranger all slots.
    fn admit(
        &self,
        now: Instant,
        origin: Origin,
        last_received: impl Fn(&Id, &PeerKey) -> Option<Instant>,
    ) -> Result<Option<Id>, Refused> {
        let at = |origin: Origin| self.guests.values().filter(|guest| guest.origin == origin).count();
        let at_site = |site: Site| self.guests.values().filter(|guest| guest.origin.site() == site).count();
        let (own, own_at_site) = (at(origin), at_site(origin.site()));
        let has_more = |guest: &Guest| match guest.origin.site() {
            site if site == origin.site() => at(guest.origin) >= own + 2,
            site => at_site(site) >= own_at_site + 2,
        };
        let idle_since = |(id, guest): &(&Id, &Guest)| last_received(id, &guest.peer).unwrap_or(guest.since).max(guest.since);
        let is_idle = |entry: &(&Id, &Guest)| now.saturating_duration_since(idle_since(entry)) >= self.idle;
        if own >= self.per_address {
            let candidates = self.guests.iter().filter(|entry| entry.1.origin == origin && is_idle(entry));
            let evicted = candidates.min_by_key(idle_since).map(|(id, _)| *id);
            return evicted.map(Some).ok_or(Refused::PerAddress);
        }
        if self.guests.len() < self.all {
            return Ok(None);
        }
        let candidates = self.guests.iter().filter(|entry| is_idle(entry) || has_more(entry.1));
        let evicted = candidates.min_by_key(idle_since).map(|(id, _)| *id);
        evicted.map(Some).ok_or(Refused::Full)
    }
}

pub(crate) struct Gate {
    shared: Arc<Shared>,
    links: Arc<LinkTable>,
    established: BTreeMap<ConnectionId, PeerKey>,
    guests: GuestSlots<ConnectionId>,
    /// Connections to close: new ones have their slots.
    evicted: VecDeque<(PeerId, ConnectionId)>,
}

impl Gate {
    pub fn new(shared: Arc<Shared>, links: Arc<LinkTable>) -> Self {
        let (limits, timing) = (&shared.config.limits, &shared.config.timing);
        let guests = GuestSlots {
            all: limits.guests,
            per_address: limits.guests_per_address,
            idle: timing.guest_idle,
            guests: BTreeMap::new(),
        };
        Self { shared, links, established: BTreeMap::new(), guests, evicted: VecDeque::new() }
    }

    fn admit(&self, peer: &PeerId) -> Result<PeerKey, Refused> {
        let key = PeerKey::from_peer_id(peer).ok_or(Refused::NotEd25519)?;
        if self.shared.banned_until(Instant::now(), &key).is_some() {
            return Err(Refused::Banned);
        }
        if self.established.values().filter(|other| **other == key).count() >= MAX_CONNECTIONS_PER_PEER {
            return Err(Refused::PerPeer);
        }
        Ok(key)
    }

    fn admit_inbound(&mut self, peer: &PeerId, origin: Origin) -> Result<(), Refused> {
        let key = self.admit(peer)?;
        if self.shared.is_validator(&key) {
            return Ok(());
        }
        let last_received = |connection: &ConnectionId, peer: &PeerKey| {
            let link = self.links.get(peer).filter(|link| link.connection == *connection)?;
            Some(link.last_received())
        };
        if let Some(evicted) = self.guests.admit(Instant::now(), origin, last_received)?
            && let Some(guest) = self.guests.guests.remove(&evicted)
        {
            self.shared.counters.general.connections_evicted.increment();
            self.evicted.push_back((guest.peer.to_peer_id(), evicted));
        }
        Ok(())
    }

    fn count_refusal<T>(&self, verdict: Result<T, Refused>) -> Result<T, ConnectionDenied> {
        verdict.map_err(|refused| {
            self.shared.counters.general.connections_refused.increment();
            ConnectionDenied::new(refused)
        })
    }

    fn established(&mut self, connection: ConnectionId, peer: &PeerId, endpoint: &ConnectedPoint) {
        let Some(key) = PeerKey::from_peer_id(peer) else { return };
        self.established.insert(connection, key);
        let is_validator = self.shared.is_validator(&key);
        let origin = origin(endpoint.get_remote_address());
        match (is_validator, origin) {
            (true, Some(origin)) => self.shared.record_validator_origin(key, origin),
            (false, Some(origin)) if endpoint.is_listener() => {
                self.guests.guests.insert(connection, Guest { peer: key, origin, since: Instant::now() });
            }
            _ => {}
        }
    }
}

impl NetworkBehaviour for Gate {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        let verdict = self.admit_inbound(&peer, inbound_origin(remote));
        self.count_refusal(verdict)?;
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
        // Outbound connections are our own choice, so the limit for guests does not apply. But the peer may
        // have been banned meanwhile.
        self.count_refusal(self.admit(&peer))?;
        Ok(dummy::ConnectionHandler)
    }

    fn on_swarm_event(&mut self, event: FromSwarm) {
        match event {
            FromSwarm::ConnectionEstablished(event) => {
                self.established(event.connection_id, &event.peer_id, event.endpoint);
            }
            FromSwarm::ConnectionClosed(event) => {
                self.established.remove(&event.connection_id);
                self.guests.guests.remove(&event.connection_id);
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(&mut self, _: PeerId, _: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        // Each admission is followed by a poll, so no waker is needed.
        match self.evicted.pop_front() {
            Some((peer_id, connection)) => {
                Poll::Ready(ToSwarm::CloseConnection { peer_id, connection: CloseConnection::One(connection) })
            }
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::B256;

    const IDLE: Duration = Duration::from_secs(60);

    fn origin(last: u8) -> Origin {
        inbound_origin(&format!("/ip4/192.0.2.{last}/tcp/1").parse().unwrap())
    }

    /// Numbered guests from these addresses, connected since `start`.
    fn slots(start: Instant, all: usize, per_address: usize, from: &[u8]) -> GuestSlots<usize> {
        slots_of(start, all, per_address, from.iter().map(|last| origin(*last)))
    }

    fn slots_of(start: Instant, all: usize, per_address: usize, from: impl Iterator<Item = Origin>) -> GuestSlots<usize> {
        let guest = |(number, origin)| {
            let peer = PeerKey(B256::with_last_byte(number as u8));
            (number, Guest { peer, origin, since: start })
        };
        GuestSlots { all, per_address, idle: IDLE, guests: from.enumerate().map(guest).collect() }
    }

    /// The /64 with this number of one /48.
    fn of_one_site(number: u16) -> Origin {
        inbound_origin(&format!("/ip6/2001:db8:0:{number:x}::1/tcp/1").parse().unwrap())
    }

    #[test]
    fn free_slots_evict_nobody() {
        let start = Instant::now();
        let slots = slots(start, 4, 2, &[1, 1, 2]);
        assert_eq!(slots.admit(start + 2 * IDLE, origin(3), |_, _| None), Ok(None));
    }

    #[test]
    fn longest_idle_guest_is_evicted() {
        let start = Instant::now();
        let slots = slots(start, 3, 2, &[1, 2, 3]);
        let last_received = |number: &usize, _: &PeerKey| [Some(start + IDLE), None, Some(start + IDLE / 2)][*number];
        assert_eq!(slots.admit(start + IDLE / 2, origin(4), last_received), Err(Refused::Full), "nobody is idle");
        assert_eq!(slots.admit(start + IDLE, origin(4), last_received), Ok(Some(1)), "it never said anything");
    }

    #[test]
    fn address_at_limit_evicts_its_own_guests() {
        let start = Instant::now();
        let slots = slots(start, 9, 2, &[1, 1, 2]);
        assert_eq!(slots.admit(start, origin(1), |_, _| None), Err(Refused::PerAddress));
        let last_received = |number: &usize, _: &PeerKey| (*number == 0).then_some(start + IDLE);
        assert_eq!(slots.admit(start + IDLE, origin(1), last_received), Ok(Some(1)), "not guest 2 of another address");
    }

    #[test]
    fn busy_guests_yield_to_smaller_addresses() {
        let start = Instant::now();
        let slots = slots(start, 4, 4, &[1, 1, 1, 2]);
        let busy = |_: &usize, _: &PeerKey| Some(start);
        assert_eq!(slots.admit(start, origin(3), busy), Ok(Some(0)));
        assert_eq!(slots.admit(start, origin(2), busy), Ok(Some(0)), "two and two");
        assert_eq!(slots.admit(start, origin(1), busy), Err(Refused::Full));
    }

    #[test]
    fn busy_site_yields_to_other_sites() {
        let start = Instant::now();
        let busy = |_: &usize, _: &PeerKey| Some(start);
        let from = [origin(1), origin(1)].into_iter().chain((0..6).map(of_one_site));
        let slots = slots_of(start, 8, 4, from);
        assert_eq!(slots.admit(start, origin(2), busy), Ok(Some(0)), "the site and one address both have two more");
        assert_eq!(slots.admit(start, origin(1), busy), Ok(Some(2)), "its own address has two, the site has six");
        assert_eq!(slots.admit(start, of_one_site(9), busy), Err(Refused::Full), "the site takes no slot of others");
    }
}
