//! One WebSocket: reads requests, sends responses and notifications.
//!
//! One task owns the socket. It processes a bounded number of requests at a time and stops reading at that
//! number. While the client does not read, the task waits in the write, so a slow client costs one message
//! and one task. Large notifications use the memory budget of large responses; messages use the budget of
//! HTTP bodies.

mod frames;
mod handshake;

pub(crate) use handshake::Upgrade;

use crate::backend::{Reverted, SyncProgress};
use crate::budget::{Budget, Reservation, Resource};
use crate::client::Client;
use crate::convert;
use crate::dag;
use crate::log_match;
use crate::node::{LARGE_RESPONSE_BYTES, Node, wait_for_stop};
use crate::requests::{RpcResponse, handle_body};
use crate::session::{BlockNotification, Session, notification};
use crate::txpool;
use alloy_primitives::U128;
use corniche_api::{Reason, RpcError};
use corniche_origin::Origin;
use corniche_types::{B256, Height};
use frames::{Fault, Frames, Incoming, MemoryBudget, Outgoing};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use handshake::UpgradedStream;
use serde::Serialize;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{broadcast, watch};

/// Close codes, RFC 6455, section 7.4.1.
const GOING_AWAY: u16 = 1001;
const PROTOCOL: u16 = 1002;
const NOT_TEXT: u16 = 1007;
const POLICY: u16 = 1008;
const TOO_LARGE: u16 = 1009;

/// Number of blocks reported before the connection handles other events.
const BLOCKS_PER_TURN: u64 = 16;

/// Minimum time between two notifications of DAG growth. The DAG grows hundreds of times per second, and each
/// notified client queries the new rounds. More frequent updates would show people nothing more, and each
/// query reads the trace.
const MIN_DAG_NOTIFICATION_INTERVAL: Duration = Duration::from_millis(100);

/// Approximate size of a header as JSON, in bytes.
const HEADER_JSON_BYTES: usize = 2 << 10;
/// Time for a client to read the close frame and to close its side.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of unanswered pings.
const MAX_UNANSWERED_PINGS: u32 = 2;

/// Event sources and budget of a connection.
pub(crate) struct EventSources {
    pub heads: watch::Receiver<Height>,
    pub reverts: broadcast::Receiver<Arc<Reverted>>,
    pub syncing: watch::Receiver<Option<SyncProgress>>,
    pub pending: broadcast::Receiver<B256>,
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
    let ended = run_connection(&node, &session, &client, socket, sources).await;
    open.dec();
    if let Err(error) = ended {
        tracing::debug!(%error, "WebSocket ended");
    }
}

async fn run_connection(
    node: &Arc<Node>,
    session: &Session,
    client: &Client,
    socket: UpgradedStream,
    sources: EventSources,
) -> io::Result<()> {
    let EventSources { mut heads, mut reverts, mut syncing, mut pending, dag: mut growths, request_bytes, stopping } = sources;
    let stopping = wait_for_stop(stopping);
    tokio::pin!(stopping);
    let memory = MemoryBudget { budget: request_bytes, origin: client.origin, limit: node.config.max_request_bytes };
    let frames = Frames::new(socket, memory);
    let mut connection = Connection { frames, node, client, timeout: node.config.idle_timeout / 2 };
    let mut in_progress = FuturesUnordered::new();
    let mut ping = tokio::time::interval(node.config.idle_timeout / 3);
    ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut unanswered = 0;
    let mut next_growth = Instant::now();
    loop {
        let has_room = in_progress.len() < node.config.max_requests_per_websocket;
        tokio::select! {
            () = &mut stopping => return connection.close(GOING_AWAY, "the node is stopping").await,
            Some(response) = in_progress.next(), if !in_progress.is_empty() => {
                let RpcResponse { text, subscribed, reserved } = response;
                connection.send(text).await?;
                if session.start(&subscribed) {
                    // A new DAG subscription first gets the current state.
                    growths.mark_changed();
                }
                drop(reserved);
            }
            incoming = connection.frames.next(), if has_room => {
                let incoming = match incoming {
                    Ok(Some(incoming)) => incoming,
                    Ok(None) => return Ok(()),
                    Err(fault) => return connection.close_on_fault(fault).await,
                };
                unanswered = 0;
                match incoming {
                    Incoming::Message(message) => in_progress.push(async move {
                        // Captures the whole message: its memory is reserved until the response exists.
                        let message = message;
                        handle_body(node, Some(session), client, &message.bytes).await
                    }),
                    Incoming::Refused(error) => {
                        connection.send_error(node.rate_limiter.take(client, Instant::now()).err().unwrap_or(error)).await?;
                    }
                    Incoming::Ping(payload) => connection.send_frame(Outgoing::Pong(&payload)).await?,
                    Incoming::Pong => {}
                    Incoming::Close(code) => return connection.close_with(code, "").await,
                }
            }
            changed = heads.changed(), if session.follows_heads() => {
                if changed.is_err() {
                    return connection.close(GOING_AWAY, "").await;
                }
            }
            changed = syncing.changed(), if session.follows_syncing() => {
                if changed.is_err() {
                    return connection.close(GOING_AWAY, "").await;
                }
            }
            hash = pending.recv(), if session.follows_pending() => match hash {
                Ok(hash) => {
                    if let Err(disconnect) = connection.notify_pending(session, hash).await {
                        return connection.end(disconnect).await;
                    }
                }
                // The pool does not wait for slow subscribers. A client that missed transactions is
                // disconnected, so that it knows.
                Err(broadcast::error::RecvError::Lagged(missed)) => {
                    return connection.disconnect_slow(&format!("too slow: missed {missed} pending transactions")).await;
                }
                Err(broadcast::error::RecvError::Closed) => return connection.close(GOING_AWAY, "").await,
            },
            grown = dag_growth(&mut growths, next_growth), if session.follows_dag() => {
                if grown.is_err() {
                    return connection.close(GOING_AWAY, "").await;
                }
                next_growth = Instant::now() + MIN_DAG_NOTIFICATION_INTERVAL;
                connection.notify_dag(session).await?;
            }
            _ = ping.tick() => {
                // Our own pings count as traffic, so the idle timeout does not detect a client that vanished;
                // it leaves pings unanswered. While its requests are processed, nothing is read.
                if unanswered >= MAX_UNANSWERED_PINGS && has_room {
                    return connection.disconnect_slow("no answer to pings").await;
                }
                unanswered += u32::from(has_room);
                let limit = node.config.body_timeout;
                if connection.frames.receiving_for().is_some_and(|sending| sending > limit) {
                    return connection.disconnect_slow(&format!("too slow: a message that takes longer than {limit:?}")).await;
                }
                connection.send_frame(Outgoing::Ping).await?;
            }
        }
        let progress = *syncing.borrow_and_update();
        for message in session.sync_notifications(progress) {
            connection.send(message).await?;
        }
        while let Ok(reverted) = reverts.try_recv() {
            for message in session.revert_notifications(&reverted) {
                connection.send(message).await?;
            }
        }
        let head = heads.borrow().0;
        let behind = session.next().map_or(0, |next| (head + 1).saturating_sub(next));
        if behind > node.config.max_blocks_behind {
            return connection.disconnect_slow(&format!("too slow: {behind} blocks behind")).await;
        }
        for _ in 0..BLOCKS_PER_TURN {
            let Some(next) = session.next().filter(|next| *next <= head) else { break };
            if let Err(disconnect) = connection.notify_block(session, Height(next)).await {
                return connection.end(disconnect).await;
            }
        }
        if session.next().is_some_and(|next| next <= head) {
            // More is due: continue after the other events.
            heads.mark_changed();
        }
    }
}

/// Waits until the DAG has grown and `not_before` has passed. Growth meanwhile is merged into one event.
async fn dag_growth(growths: &mut watch::Receiver<()>, not_before: Instant) -> Result<(), watch::error::RecvError> {
    tokio::time::sleep_until(not_before.into()).await;
    growths.changed().await
}

/// Reason why a connection ends while it notifies its client.
enum Disconnect {
    /// The reason is sent to the client.
    Slow(String),
    Failed(io::Error),
}

impl From<io::Error> for Disconnect {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// While a client does not read, its connection waits here. This timeout is shorter than the idle timeout of
/// the connection.
struct Connection<'a> {
    frames: Frames<UpgradedStream>,
    node: &'a Node,
    client: &'a Client,
    timeout: Duration,
}

impl Connection<'_> {
    /// Sends the notifications of the block at `height`.
    async fn notify_block(&mut self, session: &Session, height: Height) -> Result<(), Disconnect> {
        let block = self.node.backend.block(height);
        let mut notified_bytes = 0;
        while let Some((id, notification_kind)) = session.next_notification(height) {
            let Some(block) = &block else { continue };
            match notification_kind {
                BlockNotification::Header => {
                    self.notify(id, &convert::header(block), HEADER_JSON_BYTES, &mut notified_bytes).await?
                }
                BlockNotification::Logs(filter) => {
                    for log in log_match::matching(block, &filter) {
                        self.notify(id, &log, log_match::json_bytes(&log), &mut notified_bytes).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Notifies of a transaction that entered the pool.
    async fn notify_pending(&mut self, session: &Session, hash: B256) -> Result<(), Disconnect> {
        let mut notified_bytes = 0;
        for (id, full) in session.pending_subscriptions() {
            if !full {
                self.send(notification(id, &hash)).await?;
                continue;
            }
            let Some(waiting) = self.node.backend.pool_transaction(&hash) else { continue };
            let transaction = convert::pending_transaction(waiting.transaction(), waiting.sender());
            self.notify(id, &transaction, txpool::json_bytes(&waiting), &mut notified_bytes).await?;
        }
        Ok(())
    }

    /// Notifies of the newest DAG round. A development chain after a reset may have no DAG; then nothing is
    /// sent.
    async fn notify_dag(&mut self, session: &Session) -> io::Result<()> {
        let Ok(growth) = dag::growth(self.node) else { return Ok(()) };
        for message in session.dag_notifications(growth) {
            self.send(message).await?;
        }
        Ok(())
    }

    /// Sends one notification of about `bytes` bytes. A large one waits for memory, and its memory is
    /// released before the next is made: one block may cause a thousand times its size in notifications.
    /// `notified_bytes` sums the bytes so far.
    async fn notify<T: Serialize>(
        &mut self,
        id: U128,
        result: &T,
        bytes: usize,
        notified_bytes: &mut usize,
    ) -> Result<(), Disconnect> {
        let limit = self.node.config.max_notified_bytes;
        *notified_bytes += bytes;
        if *notified_bytes > limit {
            return Err(Disconnect::Slow(format!("too slow: a block has more than {limit} bytes of notifications")));
        }
        let reservation = async {
            if bytes > LARGE_RESPONSE_BYTES {
                return self.node.response_bytes.reserve_when_free(self.client.origin, bytes).await;
            }
            Reservation::default()
        };
        let since = Instant::now();
        let reservation = tokio::time::timeout(self.timeout, reservation).await;
        self.frames.exclude_unread_since(since);
        let Ok(_reservation) = reservation else {
            return Err(Disconnect::Slow(format!("server busy: not enough memory for a notification of {bytes} bytes")));
        };
        Ok(self.send(notification(id, result)).await?)
    }

    async fn send(&mut self, text: String) -> io::Result<()> {
        if text.is_empty() { Ok(()) } else { self.send_frame(Outgoing::Text(&text)).await }
    }

    /// Sends, with a timeout for clients that do not read.
    async fn send_frame(&mut self, outgoing: Outgoing<'_>) -> io::Result<()> {
        let since = Instant::now();
        let sent = tokio::time::timeout(self.timeout, self.frames.send(outgoing)).await;
        self.frames.exclude_unread_since(since);
        if sent.is_err() {
            self.node.metrics.slow_subscribers.inc();
        }
        sent?
    }

    /// Sends an error for a message that was not parsed.
    async fn send_error(&mut self, error: RpcError) -> io::Result<()> {
        self.node.metrics.refused(&error);
        let mut text = String::new();
        crate::jsonrpc::write_response(&mut text, "null", &Err(error));
        self.send(text).await
    }

    async fn end(&mut self, disconnect: Disconnect) -> io::Result<()> {
        match disconnect {
            Disconnect::Slow(reason) => self.disconnect_slow(&reason).await,
            Disconnect::Failed(error) => Err(error),
        }
    }

    /// Disconnects a client that is too slow, with the reason. If it does not read at all, only the log and
    /// the counter record the reason.
    async fn disconnect_slow(&mut self, reason: &str) -> io::Result<()> {
        self.node.metrics.slow_subscribers.inc();
        tracing::debug!(reason, "a subscriber is dropped");
        self.close(POLICY, reason).await
    }

    /// Closes the connection after an unreadable frame, since nothing after it can be read; sends the reason.
    async fn close_on_fault(&mut self, fault: Fault) -> io::Result<()> {
        match fault {
            Fault::Io(error) => Err(error),
            Fault::NotText => self.close(NOT_TEXT, "invalid UTF-8").await,
            Fault::Protocol(why) => self.close(PROTOCOL, why).await,
            Fault::TooLarge => {
                self.send_error(Reason::RequestTooLarge.error()).await?;
                self.close(TOO_LARGE, "message too large").await
            }
        }
    }

    async fn close(&mut self, code: u16, reason: &str) -> io::Result<()> {
        self.close_with(Some(code), reason).await
    }

    async fn close_with(&mut self, code: Option<u16>, reason: &str) -> io::Result<()> {
        let closing = async {
            self.frames.send(Outgoing::Close(code, reason)).await?;
            self.frames.finish().await
        };
        tokio::time::timeout(CLOSE_TIMEOUT, closing).await.unwrap_or(Ok(()))
    }
}
