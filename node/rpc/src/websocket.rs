//! One WebSocket: requests in, answers and notifications out.
//!
//! One task owns the socket. It works on a bounded number of requests at a time and stops reading when there are that many;
//! while the client does not read, it waits in the write, so that a slow client costs one message and one task.

use crate::answer::{Reply, answer};
use crate::backend::SyncProgress;
use crate::listener::Client;
use crate::node::Node;
use crate::server::until;
use crate::session::Session;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use corniche_api::{Reason, RpcError};
use corniche_types::{B256, Height};
use futures::stream::{FuturesUnordered, SplitSink};
use futures::{SinkExt, StreamExt};
use prometheus_client::metrics::counter::Counter;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, watch};

use close_code::{AWAY as GOING_AWAY, NORMAL, POLICY, SIZE as TOO_LARGE};

/// Blocks told about before the connection looks at other business again.
const BLOCKS_PER_TURN: u64 = 16;

/// What a connection listens to.
pub(crate) struct News {
    pub heads: watch::Receiver<Height>,
    pub syncing: watch::Receiver<Option<SyncProgress>>,
    pub pending: broadcast::Receiver<B256>,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
}

/// Serves the socket until either side ends it.
pub(crate) async fn serve(node: Arc<Node>, client: Client, socket: WebSocket, news: News) {
    let open = &node.metrics.websockets;
    open.inc();
    let session = Session::new(node.config.max_subscriptions_per_websocket, node.metrics.subscriptions.clone());
    let ended = converse(&node, &session, &client, socket, news).await;
    open.dec();
    if let Err(error) = ended {
        tracing::debug!(%error, "WebSocket ended");
    }
}

async fn converse(
    node: &Arc<Node>,
    session: &Session,
    client: &Client,
    socket: WebSocket,
    news: News,
) -> Result<(), axum::Error> {
    let News { mut heads, mut syncing, mut pending, stopping } = news;
    let stopping = until(stopping);
    tokio::pin!(stopping);
    let (sink, mut messages) = socket.split();
    let mut writer =
        Writer { sink, timeout: node.config.idle_timeout / 2, slow_subscribers: node.metrics.slow_subscribers.clone() };
    let mut working = FuturesUnordered::new();
    let mut ping = tokio::time::interval(node.config.idle_timeout / 3);
    ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let has_room = working.len() < node.config.max_requests_per_websocket;
        tokio::select! {
            () = &mut stopping => return writer.close(GOING_AWAY, "the node is stopping").await,
            Some(reply) = working.next(), if !working.is_empty() => {
                let Reply { text, subscribed, reserved } = reply;
                writer.send(text).await?;
                session.start(&subscribed);
                drop(reserved);
            }
            message = messages.next(), if has_room => match message {
                None => return Ok(()),
                Some(Err(error)) => return refuse(node, &mut writer, error).await,
                Some(Ok(Message::Close(_))) => return writer.close(NORMAL, "").await,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                // What the frame is called does not matter.
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                    let bytes = message.into_data();
                    working.push(async move { answer(node, Some(session), client, &bytes).await });
                }
            },
            changed = heads.changed(), if session.follows_heads() => {
                if changed.is_err() {
                    return writer.close(GOING_AWAY, "").await;
                }
            }
            changed = syncing.changed(), if session.follows_syncing() => {
                if changed.is_err() {
                    return writer.close(GOING_AWAY, "").await;
                }
            }
            hash = pending.recv(), if session.follows_pending() => match hash {
                Ok(hash) => {
                    for message in session.tell_pending(node, hash) {
                        writer.send(message).await?;
                    }
                }
                // The pool waits for nobody. Who missed some is told so, rather than left to believe that it knows all.
                Err(broadcast::error::RecvError::Lagged(missed)) => {
                    return writer.drop_slow(node, &format!("too slow: missed {missed} pending transactions")).await;
                }
                Err(broadcast::error::RecvError::Closed) => return writer.close(GOING_AWAY, "").await,
            },
            _ = ping.tick() => writer.sink.send(Message::Ping(Default::default())).await?,
        }
        let progress = *syncing.borrow_and_update();
        for message in session.tell_syncing(progress) {
            writer.send(message).await?;
        }
        let head = heads.borrow().0;
        let behind = session.next().map_or(0, |next| (head + 1).saturating_sub(next));
        if behind > node.config.max_blocks_behind {
            return writer.drop_slow(node, &format!("too slow: {behind} blocks behind")).await;
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
        return writer.close(TOO_LARGE, "message too large").await;
    }
    Err(error)
}

/// While a client does not read, its connection waits here, and is given up before the connection as a whole counts as idle.
struct Writer {
    sink: SplitSink<WebSocket, Message>,
    timeout: Duration,
    slow_subscribers: Counter,
}

impl Writer {
    /// Waits for the client to read, but not for ever.
    async fn send(&mut self, text: String) -> Result<(), axum::Error> {
        if text.is_empty() {
            return Ok(());
        }
        let sent = tokio::time::timeout(self.timeout, self.sink.send(Message::Text(text.into()))).await;
        if sent.is_err() {
            self.slow_subscribers.inc();
        }
        sent.unwrap_or_else(|elapsed| Err(axum::Error::new(elapsed)))
    }

    /// Ends the connection of a client that does not keep up. It is told why; if it does not read at all, only the log and the counter
    /// know.
    async fn drop_slow(&mut self, node: &Node, reason: &str) -> Result<(), axum::Error> {
        node.metrics.slow_subscribers.inc();
        tracing::debug!(reason, "a subscriber is dropped");
        self.close(POLICY, reason).await
    }

    async fn close(&mut self, code: u16, reason: &str) -> Result<(), axum::Error> {
        let farewell = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
        let closing = async {
            self.sink.send(farewell).await?;
            self.sink.close().await
        };
        let closed = tokio::time::timeout(Duration::from_secs(1), closing).await;
        closed.unwrap_or(Ok(()))
    }
}
