//! From connections to links.
//!
//! Two nodes may have several connections: both dialled at once, or one side has not noticed that an old one
//! is dead. A *link* is the one connection that they agreed to use. To avoid disagreement, only one side
//! chooses: the one with the smaller key.
//! ```text
//! chooser                                   other
//!   opens votes, Hello ───────────────────▶
//!         ◀─────────────────────────────── Hello
//!   duplicate of a living link? close.
//!   opens bulk ────────────────────────────▶ link is up, replacing any other
//! link is up
//! ```
//! A connection is a duplicate if the peer's instance is that of the existing link. The exception: the peer
//! reports no link, although ours is not new. Then our link is half dead and is replaced. Connections that
//! are no link after the handshake timeout are closed.

use super::Driver;
use crate::{
    Channel, Fault, PeerKey, fetch,
    handshake::{self, HandshakeError, Hello, Mismatch},
    link::{self, Link, LinkEnd},
    observed::Observed,
    streams::{Accepted, OpenError, Opener, Protocol},
};
use libp2p::{Stream, swarm::ConnectionId};
use std::{sync::Arc, time::Instant};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

/// Reports of the tasks of connections and links.
pub(super) enum Report {
    /// At the chooser: the hellos were exchanged.
    Greeted {
        connection: ConnectionId,
        votes: Stream,
        theirs: Hello,
    },
    /// Both streams are open.
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
    /// Failed with a mismatch that the peer must still read: the connection is needed for another moment.
    Mismatch {
        connection: ConnectionId,
        mismatch: Mismatch,
    },
    LinkEnded {
        connection: ConnectionId,
        end: LinkEnd,
    },
    RequesterFault {
        connection: ConnectionId,
        fault: Fault,
        detail: String,
    },
}

/// Maximum number of streams held if they arrive before the link is up on our side.
const MAX_EARLY_FETCHES: usize = 8;

/// Open connection.
pub(super) struct Connection {
    pub peer: PeerKey,
    pub observed: Observed,
    /// To the handshake; `None` after it.
    pub accepted: Option<mpsc::Sender<(Channel, Stream)>>,
    /// Requests that arrived before the last step of the handshake.
    pub early_streams: Vec<Stream>,
    /// All tasks of this connection; dropping it stops them.
    pub tasks: JoinSet<()>,
}

pub(super) struct ActiveLink {
    pub link: Arc<Link>,
    pub instance: u64,
    pub since: Instant,
}

impl Driver {
    /// Starts the handshake on a new connection.
    pub(super) fn begin(&mut self, peer: PeerKey, connection: ConnectionId) {
        self.dialer.connected(&peer);
        let opener = self.swarm.behaviour().streams.opener(peer.to_peer_id(), connection);
        let linked = self.links.contains_key(&peer);
        let hello = Hello::new(self.shared.config.chain, self.instance, linked);
        let observed = Observed::default();
        let entry = Connection { peer, observed, accepted: None, early_streams: Vec::new(), tasks: JoinSet::new() };
        let entry = self.connections.entry(connection).or_insert(entry);
        if self.shared.config.identity.key() < peer {
            self.spawn_handshake(connection, greet(connection, opener, hello));
        } else {
            let (accepted, arriving) = mpsc::channel(2);
            entry.accepted = Some(accepted);
            let links = self.link_table.clone();
            let hello = move || Hello { linked: links.get(&peer).is_some(), ..hello };
            self.spawn_handshake(connection, respond(connection, arriving, hello, self.reporter.clone()));
        }
    }

    /// Runs a step of the handshake with a timeout, and reports its result.
    fn spawn_handshake(
        &mut self,
        connection: ConnectionId,
        step: impl Future<Output = Result<Report, HandshakeError>> + Send + 'static,
    ) {
        let Some(entry) = self.connections.get_mut(&connection) else { return };
        let (reporter, time) = (self.reporter.clone(), self.shared.config.timing.handshake);
        entry.tasks.spawn(async move {
            let outcome = timeout(time, step).await.unwrap_or(Err(HandshakeError::Broken("it took too long".into())));
            // An error means that the driver has ended.
            let _ = reporter.send(outcome.unwrap_or_else(|error| Report::HandshakeFailed { connection, error }));
        });
    }

    pub(super) fn on_stream(&mut self, Accepted { connection, protocol, stream }: Accepted) {
        let Some(entry) = self.connections.get_mut(&connection) else { return };
        match protocol {
            Protocol::Channel(channel) => {
                // An unexpected stream (a second one, or one to the chooser) is dropped, which resets it.
                if let Some(accepted) = &entry.accepted {
                    let _ = accepted.try_send((channel, stream));
                }
            }
            Protocol::Fetch => match self.links.get(&entry.peer) {
                Some(live) if live.link.connection == connection => {
                    let link = live.link.clone();
                    self.respond(connection, link, stream);
                }
                _ if entry.early_streams.len() < MAX_EARLY_FETCHES => entry.early_streams.push(stream),
                _ => self.shared.counters.general.requests_refused.increment(),
            },
        }
    }

    fn respond(&mut self, connection: ConnectionId, link: Arc<Link>, stream: Stream) {
        let Some(entry) = self.connections.get_mut(&connection) else { return };
        // Removes finished tasks, so that the set does not grow.
        while entry.tasks.try_join_next().is_some() {}
        let Ok(permit) = link.incoming_requests.clone().try_acquire_owned() else {
            self.shared.counters.general.requests_refused.increment();
            return;
        };
        let (reporter, shared) = (self.reporter.clone(), self.shared.clone());
        entry.tasks.spawn(async move {
            if let Some((fault, detail)) = fetch::respond(shared, link, stream, permit).await {
                let _ = reporter.send(Report::RequesterFault { connection, fault, detail });
            }
        });
    }

    pub(super) fn on_report(&mut self, report: Report) {
        match report {
            Report::Greeted { connection, votes, theirs } => self.choose(connection, votes, theirs),
            Report::Ready { connection, votes, bulk, instance } => self.start_link(connection, votes, bulk, instance),
            Report::HandshakeFailed { connection, error } => self.handshake_failed(connection, error),
            Report::Mismatch { connection, mismatch } => self.log_mismatch(connection, &mismatch),
            Report::LinkEnded { connection, end } => self.link_ended(connection, end),
            Report::RequesterFault { connection, fault, detail } => self.blame(connection, fault, &detail),
        }
    }

    /// At the chooser: uses this connection, or closes it as a duplicate.
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
            self.shared.counters.general.connections_duplicate.increment();
            return self.close(connection);
        }
        self.chosen.insert(peer, (connection, theirs.instance));
        let opener = self.swarm.behaviour().streams.opener(peer.to_peer_id(), connection);
        let opening = async move {
            let bulk = opener.open(Protocol::Channel(Channel::Bulk)).await?;
            Ok(Report::Ready { connection, votes, bulk, instance: theirs.instance })
        };
        self.spawn_handshake(connection, opening);
    }

    /// Makes this connection the link.
    fn start_link(&mut self, connection: ConnectionId, votes: Stream, bulk: Stream, instance: u64) {
        let Some(entry) = self.connections.get_mut(&connection) else { return };
        entry.accepted = None;
        let early_streams = std::mem::take(&mut entry.early_streams);
        let (id, observed) = (entry.peer, entry.observed.clone());
        self.chosen.remove(&id);
        if let Some(replaced) = self.remove_link(&id) {
            self.close(replaced);
        }
        let peer = self.shared.peer(id);
        let opener = self.swarm.behaviour().streams.opener(id.to_peer_id(), connection);
        let (link, backlogs) = Link::new(peer, connection, opener, observed, self.shared.clone());
        let link = Arc::new(link);
        self.links.insert(id, ActiveLink { link: link.clone(), instance, since: Instant::now() });
        self.link_table.insert(link.clone());
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
        for stream in early_streams {
            self.respond(connection, link.clone(), stream);
        }
    }

    fn handshake_failed(&mut self, connection: ConnectionId, error: HandshakeError) {
        match error {
            HandshakeError::Mismatch(mismatch) => self.log_mismatch(connection, &mismatch),
            HandshakeError::Garbage(detail) => self.blame(connection, Fault::Garbage, &detail),
            HandshakeError::Broken(detail) => tracing::debug!(%connection, detail, "no handshake"),
        }
        self.close(connection);
    }

    fn log_mismatch(&self, connection: ConnectionId, mismatch: &Mismatch) {
        let Some(entry) = self.connections.get(&connection) else { return };
        let peer = self.shared.peer(entry.peer);
        self.shared.counters.general.handshakes_refused.increment();
        if self.shared.is_first_report(Instant::now(), &peer.id) {
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

    /// Closes all connections with a peer.
    pub(super) fn disconnect(&mut self, peer: PeerKey) {
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

    /// Closes a connection, and its link if there is one, immediately; the socket follows.
    pub(super) fn close(&mut self, connection: ConnectionId) {
        self.swarm.close_connection(connection);
        self.forget(connection);
    }

    pub(super) fn forget(&mut self, connection: ConnectionId) {
        let Some(entry) = self.connections.remove(&connection) else { return };
        let peer = entry.peer;
        if self.links.get(&peer).is_some_and(|live| live.link.connection == connection) {
            self.remove_link(&peer);
        }
        if self.chosen.get(&peer).is_some_and(|(chosen, _)| *chosen == connection) {
            self.chosen.remove(&peer);
        }
        if !self.has_connection(&peer) {
            self.dialer.disconnected(Instant::now(), &peer);
        }
    }

    /// Takes down the link with a peer; returns its connection.
    pub(super) fn remove_link(&mut self, peer: &PeerKey) -> Option<ConnectionId> {
        let live = self.links.remove(peer)?;
        self.link_table.remove(peer);
        live.link.close();
        tracing::info!(peer = %live.link.peer, "disconnected");
        Some(live.link.connection)
    }
}

/// Chooser's part of the handshake.
async fn greet(connection: ConnectionId, opener: Opener, hello: Hello) -> Result<Report, HandshakeError> {
    let mut votes = opener.open(Protocol::Channel(Channel::Votes)).await?;
    let theirs = handshake::greet(&mut votes, &hello).await?;
    Ok(Report::Greeted { connection, votes, theirs })
}

/// Other side's part of the handshake.
async fn respond(
    connection: ConnectionId,
    mut arriving: mpsc::Receiver<(Channel, Stream)>,
    hello: impl FnOnce() -> Hello,
    reporter: mpsc::UnboundedSender<Report>,
) -> Result<Report, HandshakeError> {
    let gone = || HandshakeError::Broken("the connection has ended".into());
    let (Channel::Votes, mut votes) = arriving.recv().await.ok_or_else(gone)? else {
        return Err(HandshakeError::Garbage("the first stream must be the one of votes".into()));
    };
    let theirs = match handshake::respond(&mut votes, &hello()).await {
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
