//! One WebSocket: requests in, answers and notifications out.
//!
//! One task owns the socket. It works on a bounded number of requests at a time and stops reading when there are that many;
//! while the client does not read, it waits in the write, so that a slow client costs one message and one task. The memory of a large
//! notification is lent from the same budget as that of large answers.

use crate::answer::{Reply, answer};
use crate::backend::{Reverted, SyncProgress};
use crate::budget::{Budget, Loan};
use crate::convert;
use crate::listener::Client;
use crate::logs;
use crate::node::{LARGE_RESPONSE_BYTES, Node};
use crate::server::until;
use crate::session::{Due, Session, notification};
use crate::txpool;
use alloy_primitives::U128;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use corniche_api::{Reason, RpcError};
use corniche_types::{B256, Height};
use futures::stream::{FuturesUnordered, SplitSink};
use futures::{SinkExt, StreamExt};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{broadcast, watch};

use close_code::{AWAY as GOING_AWAY, NORMAL, POLICY, SIZE as TOO_LARGE};

/// Blocks told about before the connection looks at other business again.
const BLOCKS_PER_TURN: u64 = 16;

/// JSON of a header.
const HEADER_JSON_BYTES: usize = 2 << 10;
/// Pings that a client may leave unanswered.
const PINGS_UNANSWERED: u32 = 2;

/// What a connection listens to.
pub(crate) struct News {
    pub heads: watch::Receiver<Height>,
    pub reverts: broadcast::Receiver<Arc<Reverted>>,
    pub syncing: watch::Receiver<Option<SyncProgress>>,
    pub pending: broadcast::Receiver<B256>,
    /// Of all bodies and messages that are being answered.
    pub request_bytes: Budget,
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
    let News { mut heads, mut reverts, mut syncing, mut pending, request_bytes, stopping } = news;
    let stopping = until(stopping);
    tokio::pin!(stopping);
    let (sink, mut messages) = socket.split();
    let mut writer = Writer { sink, node, client, timeout: node.config.idle_timeout / 2 };
    let mut working = FuturesUnordered::new();
    let mut ping = tokio::time::interval(node.config.idle_timeout / 3);
    ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut unanswered = 0;
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
            message = messages.next(), if has_room => {
                unanswered = 0;
                match message {
                    None => return Ok(()),
                    Some(Err(error)) => return writer.refuse(error).await,
                    Some(Ok(Message::Close(_))) => return writer.close(NORMAL, "").await,
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    // What the frame is called does not matter.
                    Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                        let bytes = message.into_data();
                        match request_bytes.lend(client.origin, bytes.len()) {
                            Err(error) => writer.tell(node.rates.take(client, Instant::now()).err().unwrap_or(error)).await?,
                            Ok(held) => working.push(async move {
                                let _held = held;
                                answer(node, Some(session), client, &bytes).await
                            }),
                        }
                    }
                }
            }
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
                    if let Err(parting) = writer.tell_pending(session, hash).await {
                        return writer.part(parting).await;
                    }
                }
                // The pool waits for nobody. Who missed some is told so, rather than left to believe that it knows all.
                Err(broadcast::error::RecvError::Lagged(missed)) => {
                    return writer.drop_slow(&format!("too slow: missed {missed} pending transactions")).await;
                }
                Err(broadcast::error::RecvError::Closed) => return writer.close(GOING_AWAY, "").await,
            },
            _ = ping.tick() => {
                // Our own pings are movement too, and a client that is gone without a word answers none of them. While its requests are worked
                // on, nothing is read.
                if unanswered >= PINGS_UNANSWERED && has_room {
                    return writer.drop_slow("no answer to pings").await;
                }
                unanswered += u32::from(has_room);
                writer.ping().await?;
            }
        }
        let progress = *syncing.borrow_and_update();
        for message in session.tell_syncing(progress) {
            writer.send(message).await?;
        }
        while let Ok(reverted) = reverts.try_recv() {
            for message in session.tell_reverted(&reverted) {
                writer.send(message).await?;
            }
        }
        let head = heads.borrow().0;
        let behind = session.next().map_or(0, |next| (head + 1).saturating_sub(next));
        if behind > node.config.max_blocks_behind {
            return writer.drop_slow(&format!("too slow: {behind} blocks behind")).await;
        }
        for _ in 0..BLOCKS_PER_TURN {
            let Some(next) = session.next().filter(|next| *next <= head) else { break };
            if let Err(parting) = writer.tell_block(session, Height(next)).await {
                return writer.part(parting).await;
            }
        }
        if session.next().is_some_and(|next| next <= head) {
            // More is due: come back after one look at everything else.
            heads.mark_changed();
        }
    }
}

/// Why a connection that tells its client something ends.
enum Parting {
    /// The client is told so.
    Slow(String),
    Failed(axum::Error),
}

impl From<axum::Error> for Parting {
    fn from(error: axum::Error) -> Self {
        Self::Failed(error)
    }
}

/// While a client does not read, its connection waits here, and is given up before the connection as a whole counts as idle.
struct Writer<'a> {
    sink: SplitSink<WebSocket, Message>,
    node: &'a Node,
    client: &'a Client,
    timeout: Duration,
}

impl Writer<'_> {
    /// What the block at `height` brings to those that have not heard of it.
    async fn tell_block(&mut self, session: &Session, height: Height) -> Result<(), Parting> {
        let block = self.node.backend.block(height);
        let mut told = 0;
        while let Some((id, due)) = session.take_due(height) {
            let Some(block) = &block else { continue };
            match due {
                Due::Header => self.notify(id, &convert::header(block), HEADER_JSON_BYTES, &mut told).await?,
                Due::Logs(filter) => {
                    for log in logs::matching(block, &filter) {
                        self.notify(id, &log, logs::json_bytes(&log), &mut told).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A transaction that entered the pool.
    async fn tell_pending(&mut self, session: &Session, hash: B256) -> Result<(), Parting> {
        let mut told = 0;
        for (id, full) in session.of_pending() {
            if !full {
                self.send(notification(id, &hash)).await?;
                continue;
            }
            let Some(waiting) = self.node.backend.pool_transaction(&hash) else { continue };
            let transaction = convert::pending_transaction(waiting.transaction(), waiting.sender());
            self.notify(id, &transaction, txpool::json_bytes(&waiting), &mut told).await?;
        }
        Ok(())
    }

    /// One notification of about so many bytes. A large one is made when there is memory for it, and the next when this one is on its way:
    /// what a block brings to all subscriptions at once may be a thousand times the block. `told` is what it brought so far.
    async fn notify<T: Serialize>(&mut self, id: U128, result: &T, bytes: usize, told: &mut usize) -> Result<(), Parting> {
        let most = self.node.config.max_notified_bytes;
        *told += bytes;
        if *told > most {
            return Err(Parting::Slow(format!("too much: a block brought more than {most} bytes of notifications")));
        }
        let lent = async {
            if bytes > LARGE_RESPONSE_BYTES {
                return self.node.response_bytes.lend_soon(self.client.origin, bytes).await;
            }
            Loan::default()
        };
        let Ok(_lent) = tokio::time::timeout(self.timeout, lent).await else {
            return Err(Parting::Slow(format!("server busy: no memory for a notification of {bytes} bytes")));
        };
        Ok(self.send(notification(id, result)).await?)
    }

    /// Waits for the client to read, but not for ever.
    async fn send(&mut self, text: String) -> Result<(), axum::Error> {
        if text.is_empty() {
            return Ok(());
        }
        let sent = tokio::time::timeout(self.timeout, self.sink.send(Message::Text(text.into()))).await;
        if sent.is_err() {
            self.node.metrics.slow_subscribers.inc();
        }
        sent.unwrap_or_else(|elapsed| Err(axum::Error::new(elapsed)))
    }

    /// Answers what is not even looked at.
    async fn tell(&mut self, error: RpcError) -> Result<(), axum::Error> {
        self.node.metrics.refused(&error);
        let mut text = String::new();
        crate::jsonrpc::write_response(&mut text, "null", &Err(error));
        self.send(text).await
    }

    async fn ping(&mut self) -> Result<(), axum::Error> {
        self.sink.send(Message::Ping(Default::default())).await
    }

    async fn part(&mut self, parting: Parting) -> Result<(), axum::Error> {
        match parting {
            Parting::Slow(reason) => self.drop_slow(&reason).await,
            Parting::Failed(error) => Err(error),
        }
    }

    /// Ends the connection of a client that does not keep up. It is told why; if it does not read at all, only the log and the counter
    /// know.
    async fn drop_slow(&mut self, reason: &str) -> Result<(), axum::Error> {
        self.node.metrics.slow_subscribers.inc();
        tracing::debug!(reason, "a subscriber is dropped");
        self.close(POLICY, reason).await
    }

    /// A message that is too large cannot be skipped; the client is told why the connection ends.
    async fn refuse(&mut self, error: axum::Error) -> Result<(), axum::Error> {
        if error.to_string().contains("too long") || error.to_string().contains("too large") {
            self.tell(Reason::RequestTooLarge.error()).await?;
            return self.close(TOO_LARGE, "message too large").await;
        }
        Err(error)
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
