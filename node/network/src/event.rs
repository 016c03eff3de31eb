//! What the network tells the node, and the bounded queue it travels through.

use crate::PeerKey;
use corniche_types::{Bytes, ValidatorIndex};
use std::{
    fmt,
    task::{Context, Poll},
};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

/// A connected node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer {
    /// Proven in the transport's handshake.
    pub id: PeerKey,
    /// The seat of the committee that this key holds, if any.
    pub validator: Option<ValidatorIndex>,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.validator {
            Some(index) => write!(f, "validator {} ({})", index.0, self.id),
            None => write!(f, "{}", self.id),
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The two streams between peers. They share a connection but not its flow control, so votes overtake batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Small and urgent.
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

/// What happens on the network.
#[derive(Debug)]
pub enum Event {
    /// From now on messages can be sent to and come from this peer. Per peer, `PeerUp` and [`Event::PeerDown`] alternate.
    PeerUp(Peer),
    /// The link ended: what was sent and not received is lost. Nothing from this peer follows until it is up again.
    PeerDown(Peer),
    /// A message; per peer and channel in the order sent, without gaps as far as the sender's queue did not overflow.
    Message { from: Peer, channel: Channel, bytes: Bytes },
    /// A question, to be answered through `reply`; dropping it refuses.
    Request { from: Peer, bytes: Bytes, reply: Reply },
}

/// Answers one request.
#[derive(Debug)]
pub struct Reply(pub(crate) oneshot::Sender<Bytes>);

impl Reply {
    /// Sends the answer. An answer above the configured response limit is not sent: the asker sees a refusal.
    pub fn send(self, bytes: Bytes) {
        // The asker may have gone or given up meanwhile, which is no concern of the answerer's.
        let _ = self.0.send(bytes);
    }
}

/// The node's end of the event queue.
///
/// Every message in it holds a share of its sender's `inbox_bytes` until taken, so its size is bounded by the limits and a
/// slow consumer makes peers wait instead of memory grow.
#[derive(Debug)]
pub struct Events(mpsc::UnboundedReceiver<Queued>);

#[derive(Debug)]
struct Queued {
    /// `None`: the network has ended. Handles keep the queue alive, so it has to be said.
    event: Option<Event>,
    /// Returned when the event is taken.
    _inbox: Option<OwnedSemaphorePermit>,
}

impl Events {
    /// The next event; `None` after the network ended.
    pub async fn recv(&mut self) -> Option<Event> {
        let queued = self.0.recv().await;
        self.take(queued)
    }

    /// The next event if there is one already.
    pub fn try_recv(&mut self) -> Option<Event> {
        let queued = self.0.try_recv().ok();
        self.take(queued)
    }

    /// The next event, blocking the thread; `None` after the network ended. Not for use inside a runtime.
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

/// The network's end of the event queue.
#[derive(Clone, Debug)]
pub(crate) struct EventSender(mpsc::UnboundedSender<Queued>);

impl EventSender {
    pub fn send(&self, event: Event, inbox: Option<OwnedSemaphorePermit>) {
        // A consumer that has gone ends the whole network, see `closed`.
        let _ = self.0.send(Queued { event: Some(event), _inbox: inbox });
    }

    /// Nothing follows.
    pub fn end(&self) {
        let _ = self.0.send(Queued { event: None, _inbox: None });
    }

    /// Waits until the consumer dropped its end.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

/// An unbounded queue: its bound is in the permits.
pub(crate) fn queue() -> (EventSender, Events) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (EventSender(sender), Events(receiver))
}
