//! One connection: its events, and what each of them sends.

use super::EventSources;
use super::frames::{Fault, Frames, Incoming, MemoryBudget, Outgoing};
use super::handshake::UpgradedStream;
use super::pending::PendingTransaction;
use crate::backend::{ChainBlock, Reverted, SyncProgress};
use crate::budget::BodyBuffer;
use crate::client::Client;
use crate::convert::{self, LogPosition};
use crate::dag;
use crate::log_match::{self, LogFilter};
use crate::node::{LARGE_RESPONSE_BYTES, Node, wait_for_stop};
use crate::requests::{RpcResponse, handle_body};
use crate::session::{DueSubscriptions, Session, notification};
use alloy_primitives::U128;
use corniche_api::{Reason, RpcError};
use corniche_types::{Epoch, Height};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;

/// Close codes, RFC 6455, section 7.4.1.
const GOING_AWAY: u16 = 1001;
const PROTOCOL: u16 = 1002;
const NOT_TEXT: u16 = 1007;
const POLICY: u16 = 1008;
const TOO_LARGE: u16 = 1009;

/// Number of blocks reported before the connection handles other events.
const BLOCKS_PER_TURN: u64 = 16;
/// Number of epochs reported before the connection handles other events. More begin at once only on a node that catches up.
const EPOCHS_PER_TURN: usize = 16;

/// Time after which logs are searched again, if the server was busy.
const RETRY: Duration = Duration::from_millis(100);

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

/// Block with notifications due.
struct DueBlock {
    block: Arc<ChainBlock>,
    /// Subscriptions, each with the positions of its logs.
    logs: Vec<(U128, Vec<LogPosition>)>,
}

/// Reason why a connection ends.
enum End {
    /// The client closed its side.
    Finished,
    /// A close frame with this code and reason is sent.
    Close(Option<u16>, &'static str),
    /// The client is too slow; the reason is sent to it.
    Slow(String),
    /// A frame that cannot be read.
    Fault(Fault),
    Failed(io::Error),
}

impl End {
    /// End of a connection without one of its event sources: the server is stopping.
    fn without_source(_: watch::error::RecvError) -> Self {
        Self::Close(Some(GOING_AWAY), "")
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Connection of one client, with its event sources.
pub(super) struct Connection<'a> {
    frames: Frames<UpgradedStream>,
    node: &'a Arc<Node>,
    session: &'a Session,
    client: &'a Client,
    /// While a client does not read, its connection waits in a write. This timeout is shorter than the idle
    /// timeout of the connection.
    timeout: Duration,
    heads: watch::Receiver<Height>,
    reverts: broadcast::Receiver<Arc<Reverted>>,
    syncing: watch::Receiver<Option<SyncProgress>>,
    epochs: watch::Receiver<Epoch>,
    pending: broadcast::Receiver<Arc<PendingTransaction>>,
    dag: watch::Receiver<()>,
    stopping: watch::Receiver<bool>,
    unanswered_pings: u32,
    /// Time to search for logs again, because the server was busy.
    retry_at: Option<Instant>,
    /// Earliest time of the next notification of DAG growth.
    next_growth: Instant,
}

impl<'a> Connection<'a> {
    pub fn new(
        node: &'a Arc<Node>,
        session: &'a Session,
        client: &'a Client,
        socket: UpgradedStream,
        sources: EventSources,
    ) -> Self {
        let EventSources { heads, reverts, syncing, epochs, pending, dag, request_bytes, stopping } = sources;
        let memory = MemoryBudget { budget: request_bytes, origin: client.origin, limit: node.config.max_request_bytes };
        Self {
            frames: Frames::new(socket, memory),
            node,
            session,
            client,
            timeout: node.config.idle_timeout / 2,
            heads,
            reverts,
            syncing,
            epochs,
            pending,
            dag,
            stopping,
            unanswered_pings: 0,
            retry_at: None,
            next_growth: Instant::now(),
        }
    }

    /// Serves the client until either side ends the connection.
    pub async fn run(mut self) -> io::Result<()> {
        let end = self.handle_events().await;
        self.end(end).await
    }

    async fn handle_events(&mut self) -> End {
        let stopping = wait_for_stop(self.stopping.clone());
        tokio::pin!(stopping);
        let (node, session, client) = (self.node, self.session, self.client);
        let mut in_progress = FuturesUnordered::new();
        let mut ping = tokio::time::interval(node.config.idle_timeout / 3);
        ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let has_room = in_progress.len() < node.config.max_requests_per_websocket;
            let handled = tokio::select! {
                () = &mut stopping => Err(End::Close(Some(GOING_AWAY), "the node is stopping")),
                Some(response) = in_progress.next(), if !in_progress.is_empty() => self.respond(response).await,
                incoming = self.frames.next(), if has_room => self.receive(incoming).await.map(|message| {
                    in_progress.extend(message.map(|message| process_message(node, session, client, message)));
                }),
                changed = self.heads.changed(), if session.follows_heads() => changed.map_err(End::without_source),
                changed = self.syncing.changed(), if session.follows_syncing() => changed.map_err(End::without_source),
                changed = self.epochs.changed(), if session.follows_epochs() => changed.map_err(End::without_source),
                hash = self.pending.recv(), if session.follows_pending() => self.notify_pending(hash).await,
                grown = dag_growth(&mut self.dag, self.next_growth), if session.follows_dag() => self.notify_dag(grown).await,
                () = wait_until(self.retry_at) => Ok(()),
                _ = ping.tick() => self.ping(has_room).await,
            };
            let notified = match handled {
                Ok(()) => self.notify_due().await,
                Err(end) => Err(end),
            };
            if let Err(end) = notified {
                return end;
            }
        }
    }

    /// Sends the response to a message.
    async fn respond(&mut self, response: RpcResponse) -> Result<(), End> {
        let RpcResponse { text, subscribed, reserved } = response;
        self.send(text).await?;
        if self.session.start(&subscribed) {
            // A new DAG subscription first gets the current state.
            self.dag.mark_changed();
        }
        drop(reserved);
        Ok(())
    }

    /// Handles a frame of the client; returns a message to process.
    async fn receive(&mut self, incoming: Result<Option<Incoming>, Fault>) -> Result<Option<BodyBuffer>, End> {
        let incoming = incoming.map_err(End::Fault)?.ok_or(End::Finished)?;
        self.unanswered_pings = 0;
        match incoming {
            Incoming::Message(message) => return Ok(Some(message)),
            Incoming::Refused(error) => {
                let limited = self.node.rate_limiter.take(self.client, Instant::now());
                self.send_error(limited.err().unwrap_or(error)).await?;
            }
            Incoming::Ping(payload) => self.send_frame(Outgoing::Pong(&payload)).await?,
            Incoming::Pong => {}
            Incoming::Close(code) => return Err(End::Close(code, "")),
        }
        Ok(None)
    }

    /// Pings the client. Our own pings count as traffic, so the idle timeout does not detect a client that
    /// vanished; it leaves pings unanswered. While its requests are processed, nothing is read.
    async fn ping(&mut self, has_room: bool) -> Result<(), End> {
        if self.unanswered_pings >= MAX_UNANSWERED_PINGS && has_room {
            return Err(End::Slow("no answer to pings".into()));
        }
        self.unanswered_pings += u32::from(has_room);
        let limit = self.node.config.body_timeout;
        if self.frames.receiving_for().is_some_and(|sending| sending > limit) {
            return Err(End::Slow(format!("too slow: a message that takes longer than {limit:?}")));
        }
        Ok(self.send_frame(Outgoing::Ping).await?)
    }

    /// Sends all notifications that are due: sync progress, epochs, reverts and blocks.
    async fn notify_due(&mut self) -> Result<(), End> {
        let progress = *self.syncing.borrow_and_update();
        for message in self.session.sync_notifications(progress) {
            self.queue(&message).await?;
        }
        self.notify_epochs().await?;
        while let Ok(reverted) = self.reverts.try_recv() {
            for message in self.session.revert_notifications(&reverted) {
                self.queue(&message).await?;
            }
        }
        self.flush().await?;
        self.notify_blocks().await
    }

    /// Sends notifications of some of the epochs that are due. Requests a further turn if there are more.
    async fn notify_epochs(&mut self) -> Result<(), End> {
        let running = *self.epochs.borrow_and_update();
        for _ in 0..EPOCHS_PER_TURN {
            let Some((epoch, subscriptions)) = self.session.take_due_epoch(running) else { return Ok(()) };
            // A node that began with a snapshot may not know the beginning of an old one.
            let Some(info) = self.node.backend.epoch_info(epoch) else { continue };
            for id in subscriptions {
                self.queue(&notification(id, &info)).await?;
            }
        }
        self.epochs.mark_changed();
        Ok(())
    }

    /// Sends notifications of some of the blocks that are due. Requests a further turn if there are more.
    async fn notify_blocks(&mut self) -> Result<(), End> {
        self.retry_at = None;
        let session = self.session;
        let head = self.heads.borrow().0;
        let behind = session.next().map_or(0, |next| (head + 1).saturating_sub(next));
        if behind > self.node.config.max_blocks_behind {
            return Err(End::Slow(format!("too slow: {behind} blocks behind")));
        }
        for _ in 0..BLOCKS_PER_TURN {
            let Some(next) = session.next().filter(|next| *next <= head) else { return Ok(()) };
            if self.notify_block(Height(next)).await?.is_break() {
                return Ok(());
            }
            // A block without matches has no other await point, and peers share this thread.
            tokio::task::yield_now().await;
        }
        if session.next().is_some_and(|next| next <= head) {
            // More is due: continue after the other events.
            self.heads.mark_changed();
        }
        Ok(())
    }

    /// Sends the notifications of the block at `height`. Breaks if none was sent and a later event has to try again.
    async fn notify_block(&mut self, height: Height) -> Result<ControlFlow<()>, End> {
        // Only for notifications the block is read: the bloom excludes most filters.
        let bloom = self.node.backend.logs_bloom(height).unwrap_or_default();
        let DueSubscriptions { headers, logs } = self.session.due(height, bloom);
        let due = match (headers.is_empty(), logs.is_empty()) {
            (true, true) => None,
            (false, true) => self.node.backend.block(height).map(|block| DueBlock { block, logs: Vec::new() }),
            (_, false) => match find_logs(self.node, self.client, height, logs).await {
                Ok(due) => due,
                // The server is busy. A subscriber without a turn for long is too many blocks behind in the end.
                Err(_) => {
                    self.retry_at = Some(Instant::now() + RETRY);
                    return Ok(ControlFlow::Break(()));
                }
            },
        };
        if !self.reverts.is_empty() {
            // The block may have been read before or after the revert, which has to be reported first.
            self.heads.mark_changed();
            return Ok(ControlFlow::Break(()));
        }
        self.session.advance(height);
        let Some(DueBlock { block, logs }) = due else { return Ok(ControlFlow::Continue(())) };
        let mut notified_bytes = 0;
        if !headers.is_empty() {
            let header = rendered(&convert::header(&block));
            for id in headers {
                self.notify(id, &header, HEADER_JSON_BYTES, &mut notified_bytes).await?;
            }
        }
        for (id, positions) in logs {
            for position in positions {
                let log = convert::log(&block, position);
                self.notify(id, &log, log_match::json_bytes(&log), &mut notified_bytes).await?;
            }
        }
        self.flush().await?;
        Ok(ControlFlow::Continue(()))
    }

    /// Notifies of a transaction that entered the pool. The pool does not wait for slow subscribers. A client
    /// that missed transactions is disconnected, so that it knows.
    async fn notify_pending(&mut self, pending: Result<Arc<PendingTransaction>, RecvError>) -> Result<(), End> {
        let pending = pending.map_err(|error| match error {
            RecvError::Lagged(missed) => End::Slow(format!("too slow: missed {missed} pending transactions")),
            RecvError::Closed => End::Close(Some(GOING_AWAY), ""),
        })?;
        let subscriptions = self.session.pending_subscriptions();
        let transaction = subscriptions.iter().any(|(_, full)| *full).then(|| pending.rendered(&*self.node.backend)).flatten();
        let mut notified_bytes = 0;
        for (id, full) in subscriptions {
            match &transaction {
                _ if !full => self.queue(&notification(id, &pending.hash)).await?,
                Some(transaction) => self.notify(id, &*transaction.json, transaction.bytes, &mut notified_bytes).await?,
                None => {}
            }
        }
        Ok(self.flush().await?)
    }

    /// Notifies of the newest DAG round. A development chain after a reset may have no DAG; then nothing is
    /// sent.
    async fn notify_dag(&mut self, grown: Result<(), watch::error::RecvError>) -> Result<(), End> {
        grown.map_err(End::without_source)?;
        self.next_growth = Instant::now() + MIN_DAG_NOTIFICATION_INTERVAL;
        let Ok(growth) = dag::growth(self.node) else { return Ok(()) };
        for message in self.session.dag_notifications(growth) {
            self.queue(&message).await?;
        }
        Ok(self.flush().await?)
    }

    /// Queues one notification of about `bytes` bytes. A large one is sent immediately. It waits for memory, and its
    /// memory is released before the next is made: one block may cause a thousand times its size in notifications.
    /// `notified_bytes` sums the bytes so far.
    async fn notify<T: Serialize + ?Sized>(
        &mut self,
        id: U128,
        result: &T,
        bytes: usize,
        notified_bytes: &mut usize,
    ) -> Result<(), End> {
        let limit = self.node.config.max_notified_bytes;
        *notified_bytes += bytes;
        if *notified_bytes > limit {
            return Err(End::Slow(format!("too slow: a block has more than {limit} bytes of notifications")));
        }
        if bytes <= LARGE_RESPONSE_BYTES {
            return Ok(self.queue(&notification(id, result)).await?);
        }
        self.flush().await?;
        let reservation = self.node.response_bytes.reserve_when_free(self.client.origin, bytes);
        let since = Instant::now();
        let reservation = tokio::time::timeout(self.timeout, reservation).await;
        self.frames.exclude_unread_since(since);
        let Ok(_reservation) = reservation else {
            return Err(End::Slow(format!("server busy: not enough memory for a notification of {bytes} bytes")));
        };
        Ok(self.send(notification(id, result)).await?)
    }

    /// Queues a notification for [`Self::flush`]. Sends what is queued when that becomes large.
    async fn queue(&mut self, text: &str) -> io::Result<()> {
        if self.frames.queued_bytes() + text.len() > LARGE_RESPONSE_BYTES {
            return self.send_frame(Outgoing::Text(text)).await;
        }
        self.frames.queue(text);
        Ok(())
    }

    /// Sends the queued notifications.
    async fn flush(&mut self) -> io::Result<()> {
        if self.frames.queued_bytes() == 0 { Ok(()) } else { self.send_frame(Outgoing::Queued).await }
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

    async fn end(&mut self, end: End) -> io::Result<()> {
        match end {
            End::Finished => Ok(()),
            End::Close(code, reason) => self.close_with(code, reason).await,
            End::Slow(reason) => self.disconnect_slow(&reason).await,
            End::Fault(fault) => self.close_on_fault(fault).await,
            End::Failed(error) => Err(error),
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

/// Processes a message. Owns it: its memory is reserved until the response exists.
async fn process_message(node: &Arc<Node>, session: &Session, client: &Client, message: BodyBuffer) -> RpcResponse {
    handle_body(node, Some(session), client, &message.bytes).await
}

/// Finds the logs of the block at `height` that match these filters. It runs on the threads for reads: each filter is
/// compared with each log, and a block may have 80,000 of them.
async fn find_logs(
    node: &Node,
    client: &Client,
    height: Height,
    filters: Vec<(U128, Arc<LogFilter>)>,
) -> Result<Option<DueBlock>, RpcError> {
    // One more than a block may notify of, so that the client is disconnected.
    let mut room = node.config.max_notified_bytes / log_match::LOG_JSON_BYTES + 1;
    let job = move |node: &Node| {
        let Some(block) = node.backend.block(height) else { return Ok(None) };
        let find = |(id, filter): (U128, Arc<LogFilter>)| {
            let positions: Vec<_> = log_match::matching_positions(&block, &filter).take(room).collect();
            room -= positions.len();
            (id, positions)
        };
        let logs = filters.into_iter().map(find).collect();
        Ok(Some(DueBlock { block, logs }))
    };
    node.scan(client.origin, job).await
}

/// JSON text for several notifications.
fn rendered(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("headers and transactions have string keys only")
}

/// Waits until this time; for ever without one.
async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

/// Waits until the DAG has grown and `not_before` has passed. Growth meanwhile is merged into one event.
async fn dag_growth(growths: &mut watch::Receiver<()>, not_before: Instant) -> Result<(), watch::error::RecvError> {
    tokio::time::sleep_until(not_before.into()).await;
    growths.changed().await
}
