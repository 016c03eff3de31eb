//! Nodes of a test network, and waiting.

use corniche_network::{
    ChainIdentity, Channel, Event, Events, Network, NetworkConfig, NetworkHandle, NetworkIdentity, Peer, PeerKey, Reply, Sent,
    Transport,
};
use corniche_types::{B256, Bytes};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// Timeout for loaded machines: only a failing test reaches it.
pub const DEADLINE: Duration = Duration::from_secs(60);

pub const CHAIN: ChainIdentity = ChainIdentity { chain_id: 77, genesis_hash: B256::repeat_byte(0x77) };

/// Waits for a future; panics with `what` at the timeout.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(value) => value,
        Err(_) => panic!("not within {DEADLINE:?}: {what}"),
    }
}

/// Waits for a condition that has no event.
pub async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let looking = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(2));
        while !condition() {
            ticks.tick().await;
        }
    };
    within(what, looking).await;
}

pub fn identity(number: u8) -> NetworkIdentity {
    NetworkIdentity::from_seed([number; 32])
}

pub fn key(number: u8) -> PeerKey {
    identity(number).key()
}

/// Two node numbers; the first has the smaller key and chooses the link.
pub fn chooser_and_other() -> (u8, u8) {
    if key(1) < key(2) { (1, 2) } else { (2, 1) }
}

/// Node of a network in which nodes 1 to 9 are validators 0 to 8, on a free port, with short timeouts.
pub fn config(number: u8, transport: Transport) -> NetworkConfig {
    let validators = (1..=9).map(key).collect();
    let mut config = NetworkConfig::new(identity(number), CHAIN, validators);
    let listen = match transport {
        Transport::Tcp => "/ip4/127.0.0.1/tcp/0",
        Transport::Quic => "/ip4/127.0.0.1/udp/0/quic-v1",
    };
    config.listen.push(listen.parse().unwrap());
    config.preferred_transport = transport;
    config.timing.redial_min = Duration::from_millis(20);
    config.timing.redial_max = Duration::from_millis(200);
    config
}

pub fn tcp(number: u8) -> NetworkConfig {
    config(number, Transport::Tcp)
}

pub fn dialling(mut config: NetworkConfig, peers: &[&Node]) -> NetworkConfig {
    config.bootstrap.extend(peers.iter().map(|peer| peer.address().parse().unwrap()));
    config
}

/// Running node. Receiving events through it checks that `PeerUp` and `PeerDown` alternate, and that a
/// disconnected peer causes no other events.
pub struct Node {
    pub handle: NetworkHandle,
    pub key: PeerKey,
    events: Events,
    up: BTreeMap<PeerKey, bool>,
    /// Received, but not requested yet.
    waiting: VecDeque<Event>,
}

impl Node {
    pub async fn start(config: NetworkConfig) -> Self {
        let key = config.identity.key();
        let (handle, events) = Network::start(config).await.unwrap();
        Self { handle, key, events, up: BTreeMap::new(), waiting: VecDeque::new() }
    }

    /// Address to dial, including `/p2p`.
    pub fn address(&self) -> String {
        let addresses = self.handle.listen_addresses();
        format!("{}/p2p/{}", addresses.first().expect("it listens"), self.key)
    }

    /// Port of its first address.
    pub fn port(&self) -> u16 {
        self.address().split('/').nth(4).unwrap().parse().unwrap()
    }

    fn check(&mut self, event: &Event) {
        match event {
            Event::PeerUp(peer) => assert_ne!(self.up.insert(peer.id, true), Some(true), "{peer} came up twice"),
            Event::PeerDown(peer) => assert_eq!(self.up.insert(peer.id, false), Some(true), "{peer} went down twice"),
            Event::Message { from, .. } | Event::Request { from, .. } => {
                assert_eq!(self.up.get(&from.id), Some(&true), "something came from {from} while it was down");
            }
        }
    }

    /// Next event that `wanted` accepts; the others are kept for later calls.
    pub async fn expect<T>(&mut self, what: &str, mut wanted: impl FnMut(Event) -> Result<T, Event>) -> T {
        for _ in 0..self.waiting.len() {
            let event = self.waiting.pop_front().unwrap();
            match wanted(event) {
                Ok(found) => return found,
                Err(event) => self.waiting.push_back(event),
            }
        }
        loop {
            let event = within(what, self.events.recv()).await.unwrap_or_else(|| panic!("the network ended before: {what}"));
            self.check(&event);
            match wanted(event) {
                Ok(found) => return found,
                Err(event) => self.waiting.push_back(event),
            }
        }
    }

    pub async fn up(&mut self, peer: PeerKey) -> Peer {
        let wanted = |event| match event {
            Event::PeerUp(up) if up.id == peer => Ok(up),
            event => Err(event),
        };
        self.expect("a peer comes up", wanted).await
    }

    pub async fn down(&mut self, peer: PeerKey) {
        let wanted = |event| match event {
            Event::PeerDown(down) if down.id == peer => Ok(()),
            event => Err(event),
        };
        self.expect("a peer goes down", wanted).await;
    }

    /// Next message on this channel from this peer.
    pub async fn message(&mut self, peer: PeerKey, channel: Channel) -> Vec<u8> {
        let wanted = |event| match event {
            Event::Message { from, channel: on, bytes } if from.id == peer && on == channel => Ok(bytes.to_vec()),
            event => Err(event),
        };
        self.expect("a message arrives", wanted).await
    }

    pub async fn request(&mut self) -> (Peer, Bytes, Reply) {
        let wanted = |event| match event {
            Event::Request { from, bytes, reply } => Ok((from, bytes, reply)),
            event => Err(event),
        };
        self.expect("a request arrives", wanted).await
    }

    /// Receives everything until the network ends; returns the events that were never requested.
    pub async fn drain(mut self) -> Vec<Event> {
        self.handle.shutdown().await;
        while let Some(event) = within("the network ends", self.events.recv()).await {
            self.check(&event);
            self.waiting.push_back(event);
        }
        assert!(self.up.values().all(|up| !up), "a peer is still up after the end");
        self.waiting.into()
    }

    /// Number of times that links came up and went down so far, whether or not their events were received.
    pub fn ups_and_downs(&self) -> (u64, u64) {
        let general = self.handle.stats().general;
        (general.links_opened, general.links_closed)
    }

    #[track_caller]
    pub fn send(&self, to: PeerKey, channel: Channel, bytes: impl Into<Bytes>) {
        assert_eq!(self.handle.send(to, channel, bytes.into()), Sent::Queued);
    }
}

/// Two nodes with a link.
pub async fn pair(first: NetworkConfig, second: NetworkConfig) -> (Node, Node) {
    let mut first = Node::start(first).await;
    let mut second = Node::start(dialling(second, &[&first])).await;
    first.up(second.key).await;
    second.up(first.key).await;
    (first, second)
}

/// Port that was free a moment ago.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
