//! The one task that owns the swarm and decides which connection is whose link.
//!
//! # From connections to links
//! Two nodes may hold several connections: both dialled at once, or one side has not noticed yet that an old one is dead. A
//! *link* is the one connection they agreed to use. So that the two cannot disagree, only one side chooses: the one with the
//! smaller key.
//! ```text
//! chooser                                   other
//!   opens votes, Hello ───────────────────▶
//!         ◀─────────────────────────────── Hello
//!   duplicate of a living link? close.
//!   opens bulk ────────────────────────────▶ link is up, replacing any other
//! link is up
//! ```
//! A connection is a duplicate when the peer's instance is that of the existing link, unless the peer says it knows of no
//! link although ours is not new: then ours is half dead and is replaced. What is not a link after the handshake time is
//! closed.

use crate::{
    Channel, Fault, NetworkError, PeerKey, Transport,
    dial::Dialer,
    event::EventSender,
    fetch,
    gate::Gate,
    handshake::{self, HandshakeError, Hello, Mismatch},
    link::{self, Link, LinkEnd},
    shared::Shared,
    streams::{self, Accepted, OpenError, Opener, Protocol},
};
use futures::StreamExt;
use libp2p::{
    Multiaddr, Stream, Swarm, identify,
    multiaddr::Protocol as AddressPart,
    ping,
    swarm::{ConnectionId, NetworkBehaviour, SwarmEvent, dial_opts::DialOpts, dial_opts::PeerCondition},
};
use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, PoisonError},
    time::Instant,
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{sleep_until, timeout},
};

/// What runs on every connection.
#[derive(NetworkBehaviour)]
pub(crate) struct Behaviour {
    /// First, so that a refused connection costs nothing else.
    pub gate: Gate,
    pub streams: streams::Behaviour,
    pub identify: identify::Behaviour,
    pub ping: ping::Behaviour,
}

/// What handles ask for.
#[derive(Debug)]
pub(crate) enum Command {
    Disconnect(PeerKey),
    Shutdown,
}

/// What the tasks of connections and links report.
enum Report {
    /// Chooser: hellos were exchanged.
    Greeted {
        connection: ConnectionId,
        votes: Stream,
        theirs: Hello,
    },
    /// Both streams are there.
    Ready {
        connection: ConnectionId,
        votes: Stream,
        bulk: Stream,
        instance: u64,
    },
    HandshakeFailed {
        connection: ConnectionId,
        error: HandshakeError,
    },
    /// The same for a mismatch that the peer has yet to read about: the connection is still needed for a moment.
    Mismatch {
        connection: ConnectionId,
        mismatch: Mismatch,
    },
    LinkEnded {
        connection: ConnectionId,
        end: LinkEnd,
    },
    AskerFault {
        connection: ConnectionId,
        fault: Fault,
        detail: String,
    },
}

/// Streams that arrive before the link is up on our side, held until it is.
const EARLY_FETCHES: usize = 8;

/// A living connection.
struct Connection {
    peer: PeerKey,
    /// To the handshake; gone when it is over.
    accepted: Option<mpsc::Sender<(Channel, Stream)>>,
    /// Requests that overtook the handshake's last step.
    early: Vec<Stream>,
    /// Everything that runs for this connection; dropping it stops all.
    tasks: JoinSet<()>,
}

struct Live {
    link: Arc<Link>,
    instance: u64,
    since: Instant,
}

pub(crate) struct Driver {
    swarm: Swarm<Behaviour>,
    shared: Arc<Shared>,
    dialer: Dialer,
    commands: mpsc::UnboundedReceiver<Command>,
    reports: mpsc::UnboundedReceiver<Report>,
    reporter: mpsc::UnboundedSender<Report>,
    connections: BTreeMap<ConnectionId, Connection>,
    links: BTreeMap<PeerKey, Live>,
    /// Chooser: connections chosen and not yet ready, with the peer's instance.
    chosen: BTreeMap<PeerKey, (ConnectionId, u64)>,
    instance: u64,
    ending: Ending,
}

/// Tells consumer and handles that the network has ended, also when the runtime drops the driver half way.
pub(crate) struct Ending {
    pub events: EventSender,
    pub ended: watch::Sender<bool>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.events.end();
        self.ended.send_replace(true);
    }
}

impl Driver {
    pub fn new(
        swarm: Swarm<Behaviour>,
        shared: Arc<Shared>,
        commands: mpsc::UnboundedReceiver<Command>,
        ending: Ending,
    ) -> Self {
        let config = &shared.config;
        let mut dialer = Dialer::new(config.preferred_transport, config.timing.redial_min, config.timing.redial_max);
        let own = config.identity.key();
        for target in config.bootstrap.iter().filter(|target| target.key != own) {
            dialer.add(Instant::now(), target.key, target.address.clone(), false);
        }
        let (reporter, reports) = mpsc::unbounded_channel();
        Self {
            swarm,
            shared,
            dialer,
            commands,
            reports,
            reporter,
            connections: BTreeMap::new(),
            links: BTreeMap::new(),
            chosen: BTreeMap::new(),
            // Needs to differ between starts, not to be secret.
            instance: RandomState::new().hash_one(Instant::now()),
            ending,
        }
    }

    /// Listens on the configured addresses and waits until all of them are bound.
    pub async fn listen(&mut self) -> Result<(), NetworkError> {
        for address in self.shared.config.listen.clone() {
            probe(&address)?;
            let failed = |reason: String| NetworkError::Listen { address: address.clone(), reason };
            let listener = self.swarm.listen_on(address.clone()).map_err(|error| failed(error.to_string()))?;
            let bound = timeout(self.shared.config.timing.handshake, async {
                loop {
                    match self.swarm.select_next_some().await {
                        SwarmEvent::NewListenAddr { listener_id, address } => {
                            self.listening(address);
                            if listener_id == listener {
                                return Ok(());
                            }
                        }
                        SwarmEvent::ListenerClosed { listener_id, reason, .. } if listener_id == listener => {
                            return Err(reason.err().map_or("it closed".into(), |error| error.to_string()));
                        }
                        SwarmEvent::ListenerError { listener_id, error } if listener_id == listener => {
                            return Err(error.to_string());
                        }
                        // Peers may be quicker than our second listener.
                        event => self.on_swarm_event(event),
                    }
                }
            });
            bound.await.map_err(|_| failed("it took too long".into()))?.map_err(failed)?;
        }
        for address in self.shared.config.external.clone() {
            self.swarm.add_external_address(address);
        }
        Ok(())
    }

    /// Runs until told to stop, or until nobody listens to the events any more.
    pub async fn run(mut self) {
        let events = self.shared.events.clone();
        loop {
            self.dial();
            let redial = self.dialer.deadline();
            let wait = async {
                match redial {
                    Some(at) => sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = self.swarm.select_next_some() => self.on_swarm_event(event),
                Some(report) = self.reports.recv() => self.on_report(report),
                command = self.commands.recv() => match command {
                    Some(Command::Disconnect(peer)) => self.disconnect(peer),
                    Some(Command::Shutdown) | None => break,
                },
                () = wait => {}
                () = events.closed() => break,
            }
        }
        self.stop().await;
    }

    /// Says goodbye to every peer and lets go of all sockets.
    async fn stop(mut self) {
        for peer in self.links.keys().copied().collect::<Vec<_>>() {
            self.take_down(&peer);
        }
        for connection in std::mem::take(&mut self.connections).into_keys() {
            self.swarm.close_connection(connection);
        }
        // A peer that does not hang up gets no more than this.
        let hung_up = async {
            while self.swarm.network_info().connection_counters().num_established() > 0 {
                let _ = self.swarm.select_next_some().await;
            }
        };
        let _ = timeout(std::time::Duration::from_secs(1), hung_up).await;
        drop(self.swarm);
        drop(self.ending);
    }

    fn dial(&mut self) {
        let now = Instant::now();
        for (peer, addresses) in self.dialer.due(now) {
            if let Some(until) = self.shared.banned_until(now, &peer) {
                self.dialer.banned(&peer, until);
                continue;
            }
            self.shared.counters.general.dials.one();
            // A connection that is still closing does not count as one, hence the condition. A new port each time: reusing the listening port makes two nodes that dial each other at once collide in TCP.
            let options = DialOpts::peer_id(peer.to_peer_id())
                .condition(PeerCondition::NotDialing)
                .addresses(addresses)
                .allocate_new_port()
                .build();
            if let Err(error) = self.swarm.dial(options) {
                tracing::debug!(%peer, %error, "cannot dial");
                self.dial_failed(&peer);
            }
        }
    }

    fn dial_failed(&mut self, peer: &PeerKey) {
        self.shared.counters.general.dials_failed.one();
        if self.has_connection(peer) {
            self.dialer.connected(peer);
        } else {
            self.dialer.failed(Instant::now(), peer);
        }
    }

    fn has_connection(&self, peer: &PeerKey) -> bool {
        self.connections.values().any(|connection| connection.peer == *peer)
    }

    fn on_swarm_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::ConnectionEstablished { peer_id, connection_id, .. } => {
                // The gate lets no other keys in.
                if let Some(peer) = PeerKey::from_peer_id(&peer_id) {
                    self.begin(peer, connection_id);
                }
            }
            SwarmEvent::ConnectionClosed { connection_id, cause, .. } => {
                tracing::debug!(%connection_id, ?cause, "connection closed");
                self.forget(connection_id);
            }
            SwarmEvent::OutgoingConnectionError { peer_id, error, .. } => {
                tracing::debug!(?peer_id, %error, "dial failed");
                if let Some(peer) = peer_id.and_then(|peer_id| PeerKey::from_peer_id(&peer_id)) {
                    self.dial_failed(&peer);
                }
            }
            SwarmEvent::IncomingConnectionError { error, .. } => tracing::debug!(%error, "inbound connection failed"),
            SwarmEvent::NewListenAddr { address, .. } => self.listening(address),
            SwarmEvent::ExpiredListenAddr { address, .. } => {
                self.listen_addresses().retain(|other| *other != address);
            }
            SwarmEvent::ListenerClosed { addresses, reason, .. } => {
                tracing::warn!(?addresses, ?reason, "a listener closed");
                self.listen_addresses().retain(|address| !addresses.contains(address));
            }
            SwarmEvent::Behaviour(BehaviourEvent::Streams(accepted)) => self.on_stream(accepted),
            SwarmEvent::Behaviour(BehaviourEvent::Ping(ping::Event { connection, result: Err(error), .. })) => {
                tracing::debug!(%connection, %error, "the peer does not answer");
                self.close(connection);
            }
            SwarmEvent::Behaviour(BehaviourEvent::Identify(identify::Event::Received { peer_id, info, .. })) => {
                if let Some(peer) = PeerKey::from_peer_id(&peer_id) {
                    self.learn(peer, info.listen_addrs);
                }
            }
            _ => {}
        }
    }

    fn listening(&self, address: Multiaddr) {
        tracing::info!(%address, "listening");
        self.listen_addresses().push(address);
    }

    fn listen_addresses(&self) -> std::sync::MutexGuard<'_, Vec<Multiaddr>> {
        self.shared.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers where a validator says it listens, to find it again. Guests come by themselves.
    fn learn(&mut self, peer: PeerKey, addresses: Vec<Multiaddr>) {
        if self.shared.validator(&peer).is_none() {
            return;
        }
        let connected = self.has_connection(&peer);
        for mut address in addresses.into_iter().take(8) {
            if matches!(address.iter().last(), Some(AddressPart::P2p(_))) {
                address.pop();
            }
            let usable = !address.iter().any(|part| matches!(part, AddressPart::P2pCircuit));
            if usable && (Transport::of(&address) == Transport::Quic || is_tcp(&address)) {
                self.dialer.add(Instant::now(), peer, address, connected);
            }
        }
    }

    /// A connection came up: shake hands on it.
    fn begin(&mut self, peer: PeerKey, connection: ConnectionId) {
        self.dialer.connected(&peer);
        let opener = self.swarm.behaviour().streams.opener(peer.to_peer_id(), connection);
        let linked = self.links.contains_key(&peer);
        let hello = Hello::new(self.shared.config.chain, self.instance, linked);
        let (accepted, arriving) = mpsc::channel(2);
        let mut entry = Connection { peer, accepted: None, early: Vec::new(), tasks: JoinSet::new() };
        if self.chooses(&peer) {
            self.spawn_handshake(&mut entry.tasks, connection, greet(connection, opener, hello));
        } else {
            entry.accepted = Some(accepted);
            let shared = self.shared.clone();
            let hello = move || Hello { linked: shared.link(&peer).is_some(), ..hello };
            let answer = answer(connection, arriving, hello, self.reporter.clone());
            self.spawn_handshake(&mut entry.tasks, connection, answer);
        }
        self.connections.insert(connection, entry);
    }

    /// Whether this node decides which connection with `peer` is the link.
    fn chooses(&self, peer: &PeerKey) -> bool {
        self.shared.config.identity.key() < *peer
    }

    fn spawn_handshake(
        &self,
        tasks: &mut JoinSet<()>,
        connection: ConnectionId,
        handshake: impl Future<Output = Result<Report, HandshakeError>> + Send + 'static,
    ) {
        let (reporter, time) = (self.reporter.clone(), self.shared.config.timing.handshake);
        tasks.spawn(async move {
            let outcome = timeout(time, handshake).await.unwrap_or(Err(HandshakeError::Broken("it took too long".into())));
            let report = outcome.unwrap_or_else(|error| Report::HandshakeFailed { connection, error });
            // Without a driver there is nothing to report to.
            let _ = reporter.send(report);
        });
    }

    fn on_stream(&mut self, Accepted { connection, protocol, stream }: Accepted) {
        let Some(entry) = self.connections.get_mut(&connection) else { return };
        match protocol {
            Protocol::Channel(channel) => {
                // A stream nobody waits for (a second one, or one to the chooser) is dropped, which resets it.
                if let Some(accepted) = &entry.accepted {
                    let _ = accepted.try_send((channel, stream));
                }
            }
            Protocol::Fetch => match self.links.get(&entry.peer) {
                Some(live) if live.link.connection == connection => {
                    let link = live.link.clone();
                    self.answer(connection, link, stream);
                }
                _ if entry.early.len() < EARLY_FETCHES => entry.early.push(stream),
                _ => self.shared.counters.general.requests_refused.one(),
            },
        }
    }

    fn answer(&mut self, connection: ConnectionId, link: Arc<Link>, stream: Stream) {
        let Some(entry) = self.connections.get_mut(&connection) else { return };
        // Finished tasks are collected here, so the set does not grow.
        while entry.tasks.try_join_next().is_some() {}
        let Ok(permit) = link.answering.clone().try_acquire_owned() else {
            self.shared.counters.general.requests_refused.one();
            return;
        };
        let (reporter, shared) = (self.reporter.clone(), self.shared.clone());
        entry.tasks.spawn(async move {
            if let Some((fault, detail)) = fetch::answer(shared, link, stream, permit).await {
                let _ = reporter.send(Report::AskerFault { connection, fault, detail });
            }
        });
    }

    fn on_report(&mut self, report: Report) {
        match report {
            Report::Greeted { connection, votes, theirs } => self.choose(connection, votes, theirs),
            Report::Ready { connection, votes, bulk, instance } => self.bring_up(connection, votes, bulk, instance),
            Report::HandshakeFailed { connection, error } => self.handshake_failed(connection, error),
            Report::Mismatch { connection, mismatch } => self.mention_mismatch(connection, &mismatch),
            Report::LinkEnded { connection, end } => self.link_ended(connection, end),
            Report::AskerFault { connection, fault, detail } => self.blame(connection, fault, &detail),
        }
    }

    /// Chooser: uses this connection, or closes it as a duplicate.
    fn choose(&mut self, connection: ConnectionId, votes: Stream, theirs: Hello) {
        let Some(entry) = self.connections.get(&connection) else { return };
        let peer = entry.peer;
        let being_chosen = self.chosen.get(&peer).is_some_and(|(_, instance)| *instance == theirs.instance);
        let alive = self.links.get(&peer).is_some_and(|live| {
            let known = theirs.linked || live.since.elapsed() < self.shared.config.timing.handshake;
            live.instance == theirs.instance && known
        });
        if being_chosen || alive {
            tracing::debug!(%peer, %connection, "a second connection with the same peer");
            self.shared.counters.general.connections_duplicate.one();
            return self.close(connection);
        }
        self.chosen.insert(peer, (connection, theirs.instance));
        let opener = self.swarm.behaviour().streams.opener(peer.to_peer_id(), connection);
        let opening = async move {
            let bulk = opener.open(Protocol::Channel(Channel::Bulk)).await?;
            Ok(Report::Ready { connection, votes, bulk, instance: theirs.instance })
        };
        let (reporter, time) = (self.reporter.clone(), self.shared.config.timing.handshake);
        if let Some(entry) = self.connections.get_mut(&connection) {
            entry.tasks.spawn(async move {
                let outcome = timeout(time, opening).await.unwrap_or(Err(HandshakeError::Broken("it took too long".into())));
                let _ = reporter.send(outcome.unwrap_or_else(|error| Report::HandshakeFailed { connection, error }));
            });
        }
    }

    /// This connection is the link now.
    fn bring_up(&mut self, connection: ConnectionId, votes: Stream, bulk: Stream, instance: u64) {
        let Some(entry) = self.connections.get_mut(&connection) else { return };
        entry.accepted = None;
        let early = std::mem::take(&mut entry.early);
        let id = entry.peer;
        self.chosen.remove(&id);
        if let Some(replaced) = self.take_down(&id) {
            self.close(replaced);
        }
        let peer = self.shared.peer(id);
        let opener = self.swarm.behaviour().streams.opener(id.to_peer_id(), connection);
        let (link, backlogs) = Link::new(peer, connection, opener, self.shared.clone());
        let link = Arc::new(link);
        self.links.insert(id, Live { link: link.clone(), instance, since: Instant::now() });
        self.shared.links.write().unwrap_or_else(PoisonError::into_inner).insert(id, link.clone());
        link.open();
        self.dialer.up(&id);
        tracing::info!(%peer, "connected");
        let Some(entry) = self.connections.get_mut(&connection) else { return };
        for ((channel, stream), backlog) in Channel::ALL.into_iter().zip([votes, bulk]).zip(backlogs) {
            let (link, reporter) = (link.clone(), self.reporter.clone());
            entry.tasks.spawn(async move {
                let end = link::run_channel(link, channel, stream, backlog).await;
                let _ = reporter.send(Report::LinkEnded { connection, end });
            });
        }
        for stream in early {
            self.answer(connection, link.clone(), stream);
        }
    }

    fn handshake_failed(&mut self, connection: ConnectionId, error: HandshakeError) {
        match error {
            HandshakeError::Mismatch(mismatch) => self.mention_mismatch(connection, &mismatch),
            HandshakeError::Garbage(detail) => self.blame(connection, Fault::Garbage, &detail),
            HandshakeError::Broken(detail) => tracing::debug!(%connection, detail, "no handshake"),
        }
        self.close(connection);
    }

    fn mention_mismatch(&self, connection: ConnectionId, mismatch: &Mismatch) {
        let Some(entry) = self.connections.get(&connection) else { return };
        let peer = self.shared.peer(entry.peer);
        self.shared.counters.general.handshakes_refused.one();
        if self.shared.first_mention(Instant::now(), &peer.id) {
            tracing::warn!(%peer, "not the same network, disconnecting: {mismatch}");
        }
    }

    fn link_ended(&mut self, connection: ConnectionId, end: LinkEnd) {
        let detail = end.to_string();
        match end {
            LinkEnd::Oversized { .. } => self.blame(connection, Fault::Oversized, &detail),
            LinkEnd::Closed(_) | LinkEnd::Failed(..) | LinkEnd::Stalled(_) => {
                tracing::debug!(%connection, detail, "link ended");
            }
        }
        self.close(connection);
    }

    fn blame(&mut self, connection: ConnectionId, fault: Fault, detail: &str) {
        let Some(entry) = self.connections.get(&connection) else { return };
        let peer = self.shared.peer(entry.peer);
        if self.shared.penalise(Instant::now(), &peer, fault, detail) {
            self.disconnect(peer.id);
        }
    }

    /// Ends all connections with a peer.
    fn disconnect(&mut self, peer: PeerKey) {
        let of_peer = |(id, entry): (&ConnectionId, &Connection)| (entry.peer == peer).then_some(*id);
        let connections: Vec<_> = self.connections.iter().filter_map(of_peer).collect();
        for connection in connections {
            self.close(connection);
        }
        let now = Instant::now();
        if let Some(until) = self.shared.banned_until(now, &peer) {
            self.dialer.banned(&peer, until);
        }
    }

    /// Ends a connection, and the link if it was one, at once; the socket follows.
    fn close(&mut self, connection: ConnectionId) {
        self.swarm.close_connection(connection);
        self.forget(connection);
    }

    fn forget(&mut self, connection: ConnectionId) {
        let Some(entry) = self.connections.remove(&connection) else { return };
        let peer = entry.peer;
        if self.links.get(&peer).is_some_and(|live| live.link.connection == connection) {
            self.take_down(&peer);
        }
        if self.chosen.get(&peer).is_some_and(|(chosen, _)| *chosen == connection) {
            self.chosen.remove(&peer);
        }
        if !self.has_connection(&peer) {
            self.dialer.disconnected(Instant::now(), &peer);
        }
    }

    /// Ends the link with a peer; returns the connection that carried it.
    fn take_down(&mut self, peer: &PeerKey) -> Option<ConnectionId> {
        let live = self.links.remove(peer)?;
        self.shared.links.write().unwrap_or_else(PoisonError::into_inner).remove(peer);
        live.link.close();
        tracing::info!(peer = %live.link.peer, "disconnected");
        Some(live.link.connection)
    }
}

/// The chooser's half of the handshake.
async fn greet(connection: ConnectionId, opener: Opener, hello: Hello) -> Result<Report, HandshakeError> {
    let mut votes = opener.open(Protocol::Channel(Channel::Votes)).await?;
    let theirs = handshake::greet(&mut votes, &hello).await?;
    Ok(Report::Greeted { connection, votes, theirs })
}

/// The other half.
async fn answer(
    connection: ConnectionId,
    mut arriving: mpsc::Receiver<(Channel, Stream)>,
    hello: impl FnOnce() -> Hello,
    reporter: mpsc::UnboundedSender<Report>,
) -> Result<Report, HandshakeError> {
    let gone = || HandshakeError::Broken("the connection has ended".into());
    let (Channel::Votes, mut votes) = arriving.recv().await.ok_or_else(gone)? else {
        return Err(HandshakeError::Garbage("the first stream must be the one of votes".into()));
    };
    let theirs = match handshake::answer(&mut votes, &hello()).await {
        Err(HandshakeError::Mismatch(mismatch)) => {
            let _ = reporter.send(Report::Mismatch { connection, mismatch });
            handshake::linger(&mut votes).await;
            return Err(HandshakeError::Broken("not the same network".into()));
        }
        outcome => outcome?,
    };
    let (Channel::Bulk, bulk) = arriving.recv().await.ok_or_else(gone)? else {
        return Err(HandshakeError::Garbage("the second stream must be the one of bulk".into()));
    };
    Ok(Report::Ready { connection, votes, bulk, instance: theirs.instance })
}

impl From<OpenError> for HandshakeError {
    fn from(error: OpenError) -> Self {
        Self::Broken(error.to_string())
    }
}

fn is_tcp(address: &Multiaddr) -> bool {
    address.iter().any(|part| matches!(part, AddressPart::Tcp(_)))
}

/// Binds a TCP address for a moment: libp2p shares listening ports between processes, so a second node on the same port
/// would start without complaint and take half of the first one's connections.
fn probe(address: &Multiaddr) -> Result<(), NetworkError> {
    let mut parts = address.iter();
    let ip = match parts.next() {
        Some(AddressPart::Ip4(ip)) => std::net::IpAddr::V4(ip),
        Some(AddressPart::Ip6(ip)) => std::net::IpAddr::V6(ip),
        _ => return Ok(()),
    };
    match parts.next() {
        Some(AddressPart::Tcp(port)) if port != 0 => {
            let bound = std::net::TcpListener::bind((ip, port));
            bound.map(drop).map_err(|error| NetworkError::Listen { address: address.clone(), reason: error.to_string() })
        }
        _ => Ok(()),
    }
}
