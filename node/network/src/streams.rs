//! Raw streams on a *given* connection.
//!
//! `libp2p-stream` opens streams on any connection of a peer, does not report the connection of an inbound
//! stream, dials by itself, and drops inbound streams while its consumer is busy. This behaviour names the
//! connection and loses no streams. So two nodes can agree on one connection among several.

use crate::Channel;
use futures::future::{Ready, ready};
use libp2p::{
    Multiaddr, PeerId, Stream,
    core::{
        Endpoint,
        transport::PortUse,
        upgrade::{InboundUpgrade, OutboundUpgrade, UpgradeInfo},
    },
    swarm::{
        ConnectionDenied, ConnectionHandler, ConnectionHandlerEvent, ConnectionId, FromSwarm, NetworkBehaviour, NotifyHandler,
        SubstreamProtocol, THandler, THandlerInEvent, THandlerOutEvent, ToSwarm,
        handler::{ConnectionEvent, DialUpgradeError, FullyNegotiatedInbound, FullyNegotiatedOutbound},
    },
};
use std::{
    collections::VecDeque,
    convert::Infallible,
    task::{Context, Poll},
};
use tokio::sync::{mpsc, oneshot};

/// Purpose of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Channel(Channel),
    /// One request and its response.
    Fetch,
}

const PROTOCOLS: [Protocol; 3] = [Protocol::Channel(Channel::Votes), Protocol::Channel(Channel::Bulk), Protocol::Fetch];

impl Protocol {
    fn name(self) -> &'static str {
        match self {
            Self::Channel(Channel::Votes) => "/corniche/votes/1",
            Self::Channel(Channel::Bulk) => "/corniche/bulk/1",
            Self::Fetch => "/corniche/fetch/1",
        }
    }
}

impl AsRef<str> for Protocol {
    fn as_ref(&self) -> &str {
        self.name()
    }
}

/// Reason why no stream was opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("the connection has ended")]
    Ended,
    #[error("the peer does not speak {0}")]
    Unsupported(&'static str),
    #[error("no stream could be opened: {0}")]
    Failed(String),
}

/// Opens streams on one connection.
#[derive(Clone, Debug)]
pub(crate) struct Opener {
    peer: PeerId,
    connection: ConnectionId,
    behaviour: mpsc::UnboundedSender<(PeerId, ConnectionId, Open)>,
}

impl Opener {
    /// Opens a stream. Callers must limit the number of open streams; libp2p applies a timeout.
    pub async fn open(&self, protocol: Protocol) -> Result<Stream, OpenError> {
        let (reply, opened) = oneshot::channel();
        self.behaviour.send((self.peer, self.connection, Open { protocol, reply })).map_err(|_| OpenError::Ended)?;
        opened.await.map_err(|_| OpenError::Ended)?
    }
}

/// Command to open a stream. Dropping `reply` reports that the connection has ended.
#[derive(Debug)]
pub(crate) struct Open {
    protocol: Protocol,
    reply: oneshot::Sender<Result<Stream, OpenError>>,
}

/// Stream opened by the peer.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub connection: ConnectionId,
    pub protocol: Protocol,
    pub stream: Stream,
}

pub(crate) struct Behaviour {
    orders: mpsc::UnboundedReceiver<(PeerId, ConnectionId, Open)>,
    sender: mpsc::UnboundedSender<(PeerId, ConnectionId, Open)>,
    accepted: VecDeque<Accepted>,
}

impl Behaviour {
    pub fn new() -> Self {
        let (sender, orders) = mpsc::unbounded_channel();
        Self { orders, sender, accepted: VecDeque::new() }
    }

    pub fn opener(&self, peer: PeerId, connection: ConnectionId) -> Opener {
        Opener { peer, connection, behaviour: self.sender.clone() }
    }
}

impl NetworkBehaviour for Behaviour {
    type ConnectionHandler = Handler;
    type ToSwarm = Accepted;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(Handler::default())
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(Handler::default())
    }

    fn on_swarm_event(&mut self, _: FromSwarm) {}

    fn on_connection_handler_event(&mut self, _: PeerId, connection: ConnectionId, event: THandlerOutEvent<Self>) {
        let (protocol, stream) = event;
        self.accepted.push_back(Accepted { connection, protocol, stream });
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        if let Some(accepted) = self.accepted.pop_front() {
            return Poll::Ready(ToSwarm::GenerateEvent(accepted));
        }
        // The behaviour holds a sender, so the channel never closes.
        let Poll::Ready(Some((peer_id, connection, event))) = self.orders.poll_recv(context) else {
            return Poll::Pending;
        };
        Poll::Ready(ToSwarm::NotifyHandler { peer_id, handler: NotifyHandler::One(connection), event })
    }
}

/// Handler of one connection.
#[derive(Default)]
pub(crate) struct Handler {
    to_open: VecDeque<Open>,
    accepted: VecDeque<(Protocol, Stream)>,
}

impl ConnectionHandler for Handler {
    type FromBehaviour = Open;
    type ToBehaviour = (Protocol, Stream);
    type InboundProtocol = Upgrade;
    type OutboundProtocol = Upgrade;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = Open;

    fn listen_protocol(&self) -> SubstreamProtocol<Self::InboundProtocol> {
        SubstreamProtocol::new(Upgrade(PROTOCOLS.to_vec()), ())
    }

    /// Connections are closed only by the driver, never because they are idle.
    fn connection_keep_alive(&self) -> bool {
        true
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ConnectionHandlerEvent<Upgrade, Open, (Protocol, Stream)>> {
        if let Some(accepted) = self.accepted.pop_front() {
            return Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(accepted));
        }
        match self.to_open.pop_front() {
            Some(open) => Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest {
                protocol: SubstreamProtocol::new(Upgrade(vec![open.protocol]), open),
            }),
            // The connection polls its handler again after each event it delivers, so no waker is needed.
            None => Poll::Pending,
        }
    }

    fn on_behaviour_event(&mut self, open: Open) {
        self.to_open.push_back(open);
    }

    fn on_connection_event(&mut self, event: ConnectionEvent<Upgrade, Upgrade, (), Open>) {
        use libp2p::swarm::StreamUpgradeError as Error;
        match event {
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound { protocol: (stream, protocol), .. }) => {
                self.accepted.push_back((protocol, stream));
            }
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound { protocol: (stream, _), info }) => {
                // The requester may have stopped waiting; the stream is then closed by being dropped.
                let _ = info.reply.send(Ok(stream));
            }
            ConnectionEvent::DialUpgradeError(DialUpgradeError { info, error }) => {
                let error = match error {
                    Error::NegotiationFailed => OpenError::Unsupported(info.protocol.name()),
                    Error::Timeout => OpenError::Failed("it took too long".into()),
                    Error::Io(error) => OpenError::Failed(error.to_string()),
                    Error::Apply(never) => match never {},
                };
                let _ = info.reply.send(Err(error));
            }
            _ => {}
        }
    }
}

/// Negotiates one of these protocols and leaves the stream unchanged.
pub(crate) struct Upgrade(Vec<Protocol>);

impl UpgradeInfo for Upgrade {
    type Info = Protocol;
    type InfoIter = std::vec::IntoIter<Protocol>;

    fn protocol_info(&self) -> Self::InfoIter {
        self.0.clone().into_iter()
    }
}

impl InboundUpgrade<Stream> for Upgrade {
    type Output = (Stream, Protocol);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Self::Error>>;

    fn upgrade_inbound(self, stream: Stream, protocol: Protocol) -> Self::Future {
        ready(Ok((stream, protocol)))
    }
}

impl OutboundUpgrade<Stream> for Upgrade {
    type Output = (Stream, Protocol);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Self::Error>>;

    fn upgrade_outbound(self, stream: Stream, protocol: Protocol) -> Self::Future {
        ready(Ok((stream, protocol)))
    }
}
