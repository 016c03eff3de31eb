//! Decides which peers to dial, and when. Has no socket and no clock: the caller passes the time and the
//! result of each dial.
//!
//! A target is first dialled at its addresses of the preferred transport, then immediately at the others,
//! then after a pause that doubles up to a limit. A link that comes up resets the pause. A link that is
//! refused after connecting does not, so two nodes of different chains soon dial each other rarely.

use crate::{PeerKey, Transport};
use libp2p::Multiaddr;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

#[derive(Debug)]
pub(crate) struct Dialer {
    targets: BTreeMap<PeerKey, Target>,
    preferred: Transport,
    pause_min: Duration,
    pause_max: Duration,
}

#[derive(Debug)]
struct Target {
    configured: Vec<Multiaddr>,
    /// Those that the peer has published, for instance on the chain.
    published: Vec<Multiaddr>,
    learned: Vec<Multiaddr>,
    pause: Duration,
    state: State,
    /// True if the next dial uses the addresses of the other transport.
    second_choice: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Dial at this time.
    Waiting(Instant),
    Dialling,
    /// A connection exists, inbound or outbound.
    Connected,
}

impl Dialer {
    pub fn new(preferred: Transport, pause_min: Duration, pause_max: Duration) -> Self {
        Self { targets: BTreeMap::new(), preferred, pause_min, pause_max: pause_max.max(pause_min) }
    }

    /// Adds a configured address of a peer to stay connected with. It is dialled immediately.
    pub fn add(&mut self, now: Instant, peer: PeerKey, address: Multiaddr) {
        let target = self.target(peer, State::Waiting(now));
        if !target.configured.contains(&address) {
            target.configured.push(address);
        }
    }

    /// Replaces the announced addresses of a peer to stay connected with.
    pub fn learn(&mut self, now: Instant, peer: PeerKey, addresses: Vec<Multiaddr>, connected: bool) {
        if !addresses.is_empty() {
            self.target(peer, if connected { State::Connected } else { State::Waiting(now) }).learned = addresses;
        }
    }

    /// Replaces the published addresses of a peer to stay connected with.
    pub fn publish(&mut self, now: Instant, peer: PeerKey, addresses: Vec<Multiaddr>, connected: bool) {
        if !addresses.is_empty() {
            self.target(peer, if connected { State::Connected } else { State::Waiting(now) }).published = addresses;
        }
    }

    /// Forgets the announced and published addresses of peers that are no validators.
    pub fn retain_learned(&mut self, is_validator: impl Fn(&PeerKey) -> bool) {
        self.targets.retain(|peer, target| {
            if !is_validator(peer) {
                target.learned.clear();
                target.published.clear();
            }
            target.addresses().next().is_some()
        });
    }

    /// Target for this peer; a new one starts in `state`.
    fn target(&mut self, peer: PeerKey, state: State) -> &mut Target {
        let pause = self.pause_min;
        let new = || Target {
            configured: Vec::new(),
            published: Vec::new(),
            learned: Vec::new(),
            pause,
            state,
            second_choice: false,
        };
        self.targets.entry(peer).or_insert_with(new)
    }

    /// Earliest time at which [`Self::due`] returns something.
    pub fn deadline(&self) -> Option<Instant> {
        let waiting = |target: &Target| match target.state {
            State::Waiting(at) => Some(at),
            State::Dialling | State::Connected => None,
        };
        self.targets.values().filter_map(waiting).min()
    }

    /// Peers to dial now, with their addresses. The caller must report [`Self::connected`] or
    /// [`Self::failed`] for each.
    pub fn due(&mut self, now: Instant) -> Vec<(PeerKey, Vec<Multiaddr>)> {
        let preferred = self.preferred;
        let mut due = Vec::new();
        for (peer, target) in &mut self.targets {
            if matches!(target.state, State::Waiting(at) if at <= now) {
                target.state = State::Dialling;
                due.push((*peer, target.choice(preferred)));
            }
        }
        due
    }

    /// Records that a connection with the peer exists.
    pub fn connected(&mut self, peer: &PeerKey) {
        if let Some(target) = self.targets.get_mut(peer) {
            target.state = State::Connected;
        }
    }

    /// Records that a link with the peer is up; resets its pause.
    pub fn up(&mut self, peer: &PeerKey) {
        if let Some(target) = self.targets.get_mut(peer) {
            target.pause = self.pause_min;
            target.second_choice = false;
        }
    }

    /// Records that the dial failed.
    pub fn failed(&mut self, now: Instant, peer: &PeerKey) {
        let preferred = self.preferred;
        let Some(target) = self.targets.get_mut(peer) else { return };
        if target.state != State::Dialling {
            return;
        }
        if !target.second_choice && target.has_second_choice(preferred) {
            target.second_choice = true;
            target.state = State::Waiting(now);
        } else {
            target.second_choice = false;
            self.wait(now, peer);
        }
    }

    /// Records that the last connection with the peer ended.
    pub fn disconnected(&mut self, now: Instant, peer: &PeerKey) {
        self.wait(now, peer);
    }

    /// Pauses dialling until `until`.
    pub fn banned(&mut self, peer: &PeerKey, until: Instant) {
        if let Some(target) = self.targets.get_mut(peer) {
            target.state = State::Waiting(until);
        }
    }

    fn wait(&mut self, now: Instant, peer: &PeerKey) {
        let Some(target) = self.targets.get_mut(peer) else { return };
        // Jitter derived from the key, so that nodes started together do not dial in step: between 3/4 and
        // 5/4 of the pause.
        let spread = u32::from(peer.0[31]) + 3 * 128;
        target.state = State::Waiting(now + target.pause * spread / 512);
        target.pause = (target.pause * 2).min(self.pause_max);
    }
}

impl Target {
    fn addresses(&self) -> impl Iterator<Item = &Multiaddr> {
        let published = self.published.iter().filter(|address| !self.configured.contains(address));
        let is_known = |address: &&Multiaddr| self.configured.contains(address) || self.published.contains(address);
        self.configured.iter().chain(published).chain(self.learned.iter().filter(move |address| !is_known(address)))
    }

    fn choice(&self, preferred: Transport) -> Vec<Multiaddr> {
        let wanted = |address: &&Multiaddr| (Transport::of(address) == preferred) != self.second_choice;
        let chosen: Vec<_> = self.addresses().filter(wanted).cloned().collect();
        if chosen.is_empty() { self.addresses().cloned().collect() } else { chosen }
    }

    fn has_second_choice(&self, preferred: Transport) -> bool {
        let is_first = |address: &&Multiaddr| Transport::of(address) == preferred;
        self.addresses().any(|address| is_first(&address)) && !self.addresses().all(|address| is_first(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::B256;

    const MIN: Duration = Duration::from_secs(1);
    const MAX: Duration = Duration::from_secs(8);

    fn peer() -> PeerKey {
        // A last byte of 128 means a factor of exactly 1.
        PeerKey(B256::repeat_byte(128))
    }

    fn tcp() -> Multiaddr {
        "/ip4/1.2.3.4/tcp/5".parse().expect("valid")
    }

    fn quic() -> Multiaddr {
        "/ip4/1.2.3.4/udp/5/quic-v1".parse().expect("valid")
    }

    #[test]
    fn pauses_double_and_reset() {
        let (mut dialer, mut now) = (Dialer::new(Transport::Tcp, MIN, MAX), Instant::now());
        dialer.add(now, peer(), tcp());
        for pause in [1, 2, 4, 8, 8, 8].map(Duration::from_secs) {
            assert_eq!(dialer.due(now), [(peer(), vec![tcp()])]);
            assert_eq!(dialer.due(now), [], "one dial at a time");
            assert_eq!(dialer.deadline(), None);
            dialer.failed(now, &peer());
            assert_eq!(dialer.deadline(), Some(now + pause));
            now += pause;
        }
        assert_eq!(dialer.due(now).len(), 1);
        dialer.connected(&peer());
        dialer.up(&peer());
        assert_eq!(dialer.deadline(), None);
        dialer.disconnected(now, &peer());
        assert_eq!(dialer.deadline(), Some(now + MIN));
    }

    #[test]
    fn unlinked_peer_is_dialled_less() {
        let (mut dialer, mut now) = (Dialer::new(Transport::Tcp, MIN, MAX), Instant::now());
        dialer.add(now, peer(), tcp());
        for pause in [1, 2, 4, 8, 8].map(Duration::from_secs) {
            assert_eq!(dialer.due(now).len(), 1);
            dialer.connected(&peer());
            dialer.disconnected(now, &peer());
            assert_eq!(dialer.deadline(), Some(now + pause));
            now += pause;
        }
    }

    #[test]
    fn other_transport_is_tried_at_once() {
        for (preferred, first, second) in [(Transport::Tcp, tcp(), quic()), (Transport::Quic, quic(), tcp())] {
            let (mut dialer, now) = (Dialer::new(preferred, MIN, MAX), Instant::now());
            dialer.add(now, peer(), tcp());
            dialer.add(now, peer(), quic());
            assert_eq!(dialer.due(now), [(peer(), vec![first.clone()])]);
            dialer.failed(now, &peer());
            assert_eq!(dialer.due(now), [(peer(), vec![second])]);
            dialer.failed(now, &peer());
            assert_eq!(dialer.due(now + MIN), [(peer(), vec![first])]);
        }
    }

    #[test]
    fn banned_target_waits() {
        let (mut dialer, now) = (Dialer::new(Transport::Tcp, MIN, MAX), Instant::now());
        dialer.add(now, peer(), tcp());
        dialer.banned(&peer(), now + MAX);
        assert_eq!(dialer.deadline(), Some(now + MAX));
    }

    #[test]
    fn learned_addresses_keep_configured_ones() {
        let (mut dialer, now) = (Dialer::new(Transport::Tcp, MIN, MAX), Instant::now());
        let elsewhere = |port: u16| format!("/ip4/5.6.7.8/tcp/{port}").parse::<Multiaddr>().expect("valid");
        dialer.add(now, peer(), tcp());
        for port in 1..100 {
            dialer.learn(now, peer(), vec![elsewhere(port), tcp()], false);
        }
        dialer.learn(now, peer(), Vec::new(), false);
        assert_eq!(dialer.due(now), [(peer(), vec![tcp(), elsewhere(99)])]);
    }

    #[test]
    fn unknown_peers_are_ignored() {
        let (mut dialer, now) = (Dialer::new(Transport::Tcp, MIN, MAX), Instant::now());
        dialer.failed(now, &peer());
        dialer.disconnected(now, &peer());
        assert_eq!(dialer.deadline(), None);
    }
}
