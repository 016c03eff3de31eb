//! One WebSocket: reads requests, sends responses and notifications.
//!
//! One task owns the socket. It processes a bounded number of requests at a time and stops reading at that
//! number. While the client does not read, the task waits in the write, so a slow client costs one message
//! and one task. Small notifications of one event share a write, because a client may have many subscriptions to
//! the same topic. Large notifications use the memory budget of large responses; messages use the budget of
//! HTTP bodies.

mod connection;
mod frames;
mod handshake;
mod pending;

pub(crate) use handshake::Upgrade;
pub(crate) use pending::PendingTransaction;

use crate::backend::{Reverted, SyncProgress};
use crate::budget::{Budget, Resource};
use crate::client::Client;
use crate::node::Node;
use crate::session::Session;
use connection::Connection;
use corniche_api::Reason;
use corniche_origin::Origin;
use corniche_types::{Epoch, Height};
use frames::{Frames, Incoming, MemoryBudget};
use handshake::UpgradedStream;
use std::sync::Arc;
use tokio::sync::{broadcast, watch};

/// Event sources and budget of a connection.
pub(crate) struct EventSources {
    pub heads: watch::Receiver<Height>,
    pub reverts: broadcast::Receiver<Arc<Reverted>>,
    pub syncing: watch::Receiver<Option<SyncProgress>>,
    pub epochs: watch::Receiver<Epoch>,
    pub pending: broadcast::Receiver<Arc<PendingTransaction>>,
    /// Changes when the DAG has grown.
    pub dag: watch::Receiver<()>,
    /// Budget for all bodies and messages that are being processed.
    pub request_bytes: Budget,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
}

/// Parses a client's stream after the handshake until the first error; returns the bytes of its messages. For
/// fuzzing.
#[doc(hidden)]
pub async fn read_websocket(stream: &[u8], limit: usize) -> usize {
    let resource = Resource { reason: Reason::ServerBusy, units: "bytes", largest: limit };
    let memory =
        MemoryBudget { budget: Budget::new(resource, 2 * limit, true), origin: Origin::of([127, 0, 0, 1].into()), limit };
    let mut frames = Frames::new(tokio::io::join(stream, tokio::io::sink()), memory);
    let mut read = 0;
    while let Ok(Some(incoming)) = frames.next().await {
        read += match incoming {
            Incoming::Message(message) => message.bytes.len(),
            Incoming::Ping(payload) => payload.len(),
            Incoming::Refused(_) | Incoming::Pong | Incoming::Close(_) => 0,
        };
    }
    read
}

/// Serves the socket until either side ends it.
pub(crate) async fn serve(node: Arc<Node>, client: Client, socket: UpgradedStream, sources: EventSources) {
    let open = &node.metrics.websockets;
    open.inc();
    let session = Session::new(node.config.max_subscriptions_per_websocket, node.metrics.subscriptions.clone());
    let ended = Connection::new(&node, &session, &client, socket, sources).run().await;
    open.dec();
    if let Err(error) = ended {
        tracing::debug!(%error, "WebSocket ended");
    }
}
