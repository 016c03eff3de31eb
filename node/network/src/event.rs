//! Events from the network to the node, and their bounded queue.

use crate::PeerKey;
use corniche_types::Bytes;
use std::{
    fmt,
    task::{Context, Poll},
};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer {
    /// Proven in the transport's handshake.
    pub id: PeerKey,
    /// True for a validator when the link was made: it has bandwidth and connections of its own.
    pub is_validator: bool,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_validator { "validator " } else { "" };
        write!(f, "{kind}{}", self.id)
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The two streams between peers. They share a connection but not its flow control, so votes can overtake
/// batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Small, urgent messages.
    Votes,
    /// Batches, bodies, blocks.
    Bulk,
}

impl Channel {
    pub const ALL: [Self; 2] = [Self::Votes, Self::Bulk];

    pub(crate) fn index(self) -> usize {
        match self {
            Self::Votes => 0,
            Self::Bulk => 1,
        }
    }
}

#[derive(Debug)]
pub enum Event {
    /// Messages to and from this peer are possible from now on. Per peer, `PeerUp` and [`Event::PeerDown`]
    /// alternate.
    PeerUp(Peer),
    /// The link ended: messages sent but not received are lost. No events of this peer follow until it is up
    /// again.
    PeerDown(Peer),
    /// Message. Per peer and channel in the order of sending, without gaps unless the sender's queue
    /// overflowed.
    Message { from: Peer, channel: Channel, bytes: Bytes },
    /// Request, to be answered through `reply`; dropping it refuses the request.
    Request { from: Peer, bytes: Bytes, reply: Reply },
}

/// Sends the response to one request.
#[derive(Debug)]
pub struct Reply(pub(crate) oneshot::Sender<Bytes>);

impl Reply {
    /// Sends the response. A response above the configured limit is not sent: the peer sees a refusal.
    pub fn send(self, bytes: Bytes) {
        // The peer may have disconnected or timed out meanwhile; that is no error here.
        let _ = self.0.send(bytes);
    }
}

/// Receiver of the event queue.
///
/// Every message in the queue holds a share of its sender's `inbox_bytes` until it is taken. So the queue is
/// bounded by the limits, and a slow consumer makes peers wait instead of using more memory.
#[derive(Debug)]
pub struct Events(mpsc::UnboundedReceiver<Queued>);

#[derive(Debug)]
struct Queued {
    /// `None`: the network has ended. Needed because handles keep the queue open.
    event: Option<Event>,
    /// Released when the event is taken.
    _inbox: Option<OwnedSemaphorePermit>,
}

impl Events {
    /// Receives the next event; `None` after the network ended.
    pub async fn recv(&mut self) -> Option<Event> {
        let queued = self.0.recv().await;
        self.take(queued)
    }

    /// Returns the next event if one is available.
    pub fn try_recv(&mut self) -> Option<Event> {
        let queued = self.0.try_recv().ok();
        self.take(queued)
    }

    /// Receives the next event, blocking the thread; `None` after the network ended. Must not be called in an
    /// async runtime.
    pub fn blocking_recv(&mut self) -> Option<Event> {
        let queued = self.0.blocking_recv();
        self.take(queued)
    }

    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.0.poll_recv(context).map(|queued| self.take(queued))
    }

    fn take(&mut self, queued: Option<Queued>) -> Option<Event> {
        let queued = queued?;
        if queued.event.is_none() {
            self.0.close();
        }
        queued.event
    }
}

/// Sender of the event queue.
#[derive(Clone, Debug)]
pub(crate) struct EventSender(mpsc::UnboundedSender<Queued>);

impl EventSender {
    pub fn send(&self, event: Event, inbox: Option<OwnedSemaphorePermit>) {
        // If the receiver is dropped, the whole network ends, see `closed`.
        let _ = self.0.send(Queued { event: Some(event), _inbox: inbox });
    }

    /// Marks the end of the events.
    pub fn end(&self) {
        let _ = self.0.send(Queued { event: None, _inbox: None });
    }

    /// Waits until the receiver is dropped.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

/// Unbounded channel: the permits bound it.
pub(crate) fn queue() -> (EventSender, Events) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (EventSender(sender), Events(receiver))
}
