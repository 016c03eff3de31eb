//! Task that owns the swarm: listens, dials, and keeps the connections. Links are in [`links`].

mod links;

use crate::{
    PeerKey,
    dial::Dialer,
    error::NetworkError,
    event::EventSender,
    gate::Gate,
    link_table::LinkTable,
    shared::Shared,
    streams,
    transport::{is_usable, probe},
};
use futures::StreamExt;
use libp2p::{
    Multiaddr, Swarm, identify,
    multiaddr::Protocol,
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
    time::{sleep_until, timeout},
};

use links::{ActiveLink, Connection, Report};

/// Behaviours of every connection.
#[derive(NetworkBehaviour)]
pub(crate) struct Behaviour {
    /// First, so that a refused connection causes no further work.
    pub gate: Gate,
    pub streams: streams::Behaviour,
    pub identify: identify::Behaviour,
    pub ping: ping::Behaviour,
}

/// Commands of the handles.
#[derive(Debug)]
pub(crate) enum Command {
    Disconnect(PeerKey),
    ValidatorsChanged(Vec<(PeerKey, Vec<Multiaddr>)>),
    Shutdown,
}

pub(crate) struct Driver {
    swarm: Swarm<Behaviour>,
    shared: Arc<Shared>,
    dialer: Dialer,
    commands: mpsc::UnboundedReceiver<Command>,
    reports: mpsc::UnboundedReceiver<Report>,
    reporter: mpsc::UnboundedSender<Report>,
    connections: BTreeMap<ConnectionId, Connection>,
    links: BTreeMap<PeerKey, ActiveLink>,
    /// Copy of `links` for other tasks and the handles.
    link_table: Arc<LinkTable>,
    /// At the chooser: connections that are chosen and not yet ready, with the peer's instance.
    chosen: BTreeMap<PeerKey, (ConnectionId, u64)>,
    instance: u64,
    ending: Ending,
}

/// Notifies consumer and handles that the network has ended, also if the runtime drops the driver.
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
        link_table: Arc<LinkTable>,
        commands: mpsc::UnboundedReceiver<Command>,
        ending: Ending,
    ) -> Self {
        let config = &shared.config;
        let mut dialer = Dialer::new(config.preferred_transport, config.timing.redial_min, config.timing.redial_max);
        let own = config.identity.key();
        for target in config.bootstrap.iter().filter(|target| target.key != own) {
            dialer.add(Instant::now(), target.key, target.address.clone());
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
            link_table,
            chosen: BTreeMap::new(),
            // Must differ between starts, but need not be secret.
            instance: RandomState::new().hash_one(Instant::now()),
            ending,
        }
    }

    /// Listens on the configured addresses; returns when all are bound.
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
                        // Peers may connect before our second listener is bound.
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

    /// Runs until a shutdown, or until the event receiver is dropped.
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
                    Some(Command::ValidatorsChanged(validators)) => self.validators_changed(validators),
                    Some(Command::Shutdown) | None => break,
                },
                () = wait => {}
                () = events.closed() => break,
            }
        }
        self.stop().await;
    }

    /// Takes down all links and closes all sockets.
    async fn stop(mut self) {
        for peer in self.links.keys().copied().collect::<Vec<_>>() {
            self.remove_link(&peer);
        }
        for connection in std::mem::take(&mut self.connections).into_keys() {
            self.swarm.close_connection(connection);
        }
        // Timeout for peers that do not close their side.
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
            self.shared.counters.general.dials.increment();
            // With this condition, a connection that is still closing does not prevent the dial. A new port for each dial:
            // with the listening port, two nodes that dial each other at the same time would collide in TCP.
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
        self.shared.counters.general.dials_failed.increment();
        if self.has_connection(peer) {
            self.dialer.connected(peer);
        } else {
            self.dialer.failed(Instant::now(), peer);
        }
    }

    /// Dials new validators, and ends the links that were made with another kind of peer.
    fn validators_changed(&mut self, validators: Vec<(PeerKey, Vec<Multiaddr>)>) {
        let own = self.shared.config.identity.key();
        for (peer, addresses) in validators.into_iter().filter(|(peer, _)| *peer != own) {
            if self.shared.config.learn_addresses {
                let connected = self.has_connection(&peer);
                self.dialer.publish(Instant::now(), peer, usable(addresses), connected);
            }
        }
        self.dialer.retain_learned(|peer| self.shared.is_validator(peer));
        let changed = |peer: &crate::Peer| peer.is_validator != self.shared.is_validator(&peer.id);
        for peer in self.link_table.peers().into_iter().filter(changed).collect::<Vec<_>>() {
            self.disconnect(peer.id);
        }
    }

    fn has_connection(&self, peer: &PeerKey) -> bool {
        self.connections.values().any(|connection| connection.peer == *peer)
    }

    fn on_swarm_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::ConnectionEstablished { peer_id, connection_id, .. } => {
                // The gate admits only ed25519 keys.
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
            SwarmEvent::Behaviour(BehaviourEvent::Ping(ping::Event { connection, result: Ok(round_trip), .. })) => {
                if let Some(entry) = self.connections.get(&connection) {
                    entry.observed.set_round_trip(round_trip);
                }
            }
            SwarmEvent::Behaviour(BehaviourEvent::Identify(identify::Event::Received { connection_id, peer_id, info })) => {
                if let Some(entry) = self.connections.get(&connection_id) {
                    entry.observed.set_agent_version(&info.agent_version);
                }
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

    /// Stores the announced addresses of a validator, for redialling. Guests dial by themselves.
    fn learn(&mut self, peer: PeerKey, addresses: Vec<Multiaddr>) {
        if !self.shared.config.learn_addresses || !self.shared.is_validator(&peer) {
            return;
        }
        let connected = self.has_connection(&peer);
        self.dialer.learn(Instant::now(), peer, usable(addresses), connected);
    }
}

/// The first addresses that can be dialled, without `/p2p`.
fn usable(addresses: Vec<Multiaddr>) -> Vec<Multiaddr> {
    let mut usable = Vec::new();
    for mut address in addresses.into_iter().filter(is_usable).take(8) {
        if matches!(address.iter().last(), Some(Protocol::P2p(_))) {
            address.pop();
        }
        usable.push(address);
    }
    usable
}
