//! One WebSocket: requests in, answers and notifications out.
//!
//! One task owns the socket. It works on a bounded number of requests at a time and stops reading when there are that many;
//! while the client does not read, it waits in the write, so that a slow client costs one message and one task.

use crate::backend::SyncProgress;
use crate::dispatch::{Reply, answer};
use crate::listener::Origin;
use crate::node::Node;
use crate::server::until;
use crate::session::Session;
use axum::extract::ws::{Message, WebSocket};
use corniche_api::{Reason, RpcError};
use corniche_types::{B256, Height};
use futures::stream::{FuturesUnordered, SplitSink};
use futures::{SinkExt, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, watch};

/// Blocks told about before the connection looks at other business again.
const BLOCKS_PER_TURN: u64 = 16;
/// A subscriber further behind than this is disconnected: it would not catch up.
const MAX_BLOCKS_BEHIND: u64 = 10_000;

/// What a connection listens to.
pub(crate) struct News {
    pub heads: watch::Receiver<Height>,
    pub syncing: watch::Receiver<Option<SyncProgress>>,
    pub pending: broadcast::Receiver<B256>,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
}

/// Serves the socket until either side ends it.
pub(crate) async fn serve(node: Arc<Node>, origin: Origin, socket: WebSocket, news: News) {
    let open = &node.metrics.websockets;
    open.inc();
    let session = Session::new(node.config.max_subscriptions_per_websocket, node.metrics.subscriptions.clone());
    let ended = converse(&node, &session, origin, socket, news).await;
    open.dec();
    if let Err(error) = ended {
        tracing::debug!(%error, "WebSocket ended");
    }
}

async fn converse(
    node: &Arc<Node>,
    session: &Session,
    origin: Origin,
    socket: WebSocket,
    news: News,
) -> Result<(), axum::Error> {
    let News { mut heads, mut syncing, mut pending, stopping } = news;
    let stopping = until(stopping);
    tokio::pin!(stopping);
    let (sink, mut messages) = socket.split();
    let mut writer = Writer { sink, timeout: node.config.idle_timeout };
    let mut working = FuturesUnordered::new();
    let mut ping = tokio::time::interval(node.config.idle_timeout / 3);
    ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let has_room = working.len() < node.config.max_requests_per_websocket;
        tokio::select! {
            () = &mut stopping => return writer.close().await,
            Some(reply) = working.next(), if !working.is_empty() => {
                let Reply { text, subscribed, reserved } = reply;
                writer.send(text).await?;
                session.start(&subscribed);
                drop(reserved);
            }
            message = messages.next(), if has_room => match message {
                None => return Ok(()),
                Some(Err(error)) => return refuse(node, &mut writer, error).await,
                Some(Ok(Message::Close(_))) => return writer.close().await,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                // What the frame is called does not matter.
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                    let bytes = message.into_data();
                    working.push(async move { answer(node, Some(session), origin, &bytes).await });
                }
            },
            changed = heads.changed(), if session.follows_heads() => {
                if changed.is_err() {
                    return writer.close().await;
                }
            }
            changed = syncing.changed(), if session.follows_syncing() => {
                if changed.is_err() {
                    return writer.close().await;
                }
            }
            hash = pending.recv(), if session.follows_pending() => match hash {
                Ok(hash) => {
                    for message in session.tell_pending(node, hash) {
                        writer.send(message).await?;
                    }
                }
                // Those in between are lost to this subscriber; the pool does not wait for it.
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return writer.close().await,
            },
            _ = ping.tick() => writer.sink.send(Message::Ping(Default::default())).await?,
        }
        let progress = *syncing.borrow_and_update();
        for message in session.tell_syncing(progress) {
            writer.send(message).await?;
        }
        let head = heads.borrow().0;
        if session.next().is_some_and(|next| head.saturating_sub(next) > MAX_BLOCKS_BEHIND) {
            return writer.close().await;
        }
        for _ in 0..BLOCKS_PER_TURN {
            let Some(next) = session.next().filter(|next| *next <= head) else { break };
            for message in session.tell_block(node, Height(next)) {
                writer.send(message).await?;
            }
        }
        if session.next().is_some_and(|next| next <= head) {
            // More is due: come back after one look at everything else.
            heads.mark_changed();
        }
    }
}

/// A message that is too large cannot be skipped; the client is told why the connection ends.
async fn refuse(node: &Node, writer: &mut Writer, error: axum::Error) -> Result<(), axum::Error> {
    if error.to_string().contains("too long") || error.to_string().contains("too large") {
        let refusal: RpcError = Reason::RequestTooLarge.error();
        node.metrics.refused(&refusal);
        let mut text = String::new();
        crate::jsonrpc::write_response(&mut text, "null", &Err(refusal));
        writer.send(text).await?;
        return writer.close().await;
    }
    Err(error)
}

struct Writer {
    sink: SplitSink<WebSocket, Message>,
    timeout: Duration,
}

impl Writer {
    /// Waits for the client to read, but not for ever.
    async fn send(&mut self, text: String) -> Result<(), axum::Error> {
        if text.is_empty() {
            return Ok(());
        }
        let sent = tokio::time::timeout(self.timeout, self.sink.send(Message::Text(text.into()))).await;
        sent.unwrap_or_else(|elapsed| Err(axum::Error::new(elapsed)))
    }

    async fn close(&mut self) -> Result<(), axum::Error> {
        let closed = tokio::time::timeout(Duration::from_secs(1), self.sink.close()).await;
        closed.unwrap_or(Ok(()))
    }
}
