//! One WebSocket: requests in, answers and notifications out.
//!
//! One task owns the socket. It works on a bounded number of requests at a time and stops reading when there are that many;
//! while the client does not read, it waits in the write, so that a slow client costs one message and one task. The memory of a large
//! notification is lent from the same budget as that of large answers, and that of a message from the same as that of HTTP bodies.

mod frames;
mod handshake;

pub(crate) use handshake::Upgrade;

use crate::answer::{Reply, answer};
use crate::backend::{Reverted, SyncProgress};
use crate::budget::{Budget, Kind, Loan};
use crate::convert;
use crate::dag;
use crate::listener::Client;
use crate::logs;
use crate::node::{LARGE_RESPONSE_BYTES, Node};
use crate::server::until;
use crate::session::{Due, Session, notification};
use crate::txpool;
use alloy_primitives::U128;
use corniche_api::{Reason, RpcError};
use corniche_origin::Origin;
use corniche_types::{B256, Height};
use frames::{Fault, Frames, Incoming, Lender, Outgoing};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use handshake::Upgradable;
use serde::Serialize;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{broadcast, watch};

/// Why a connection ends, RFC 6455, section 7.4.1.
const GOING_AWAY: u16 = 1001;
const PROTOCOL: u16 = 1002;
const NOT_TEXT: u16 = 1007;
const POLICY: u16 = 1008;
const TOO_LARGE: u16 = 1009;

/// Blocks told about before the connection looks at other business again.
const BLOCKS_PER_TURN: u64 = 16;

/// From one word on the DAG to the next. It grows hundreds of times a second, and who is told asks what came: more often would show people
/// nothing more, and each question costs a reading of the trace.
const BETWEEN_GROWTHS: Duration = Duration::from_millis(100);

/// JSON of a header.
const HEADER_JSON_BYTES: usize = 2 << 10;
/// How long a client has to read why the connection ends, and to end it too.
const FAREWELL: Duration = Duration::from_secs(1);
/// Pings that a client may leave unanswered.
const PINGS_UNANSWERED: u32 = 2;

/// What a connection listens to.
pub(crate) struct News {
    pub heads: watch::Receiver<Height>,
    pub reverts: broadcast::Receiver<Arc<Reverted>>,
    pub syncing: watch::Receiver<Option<SyncProgress>>,
    pub pending: broadcast::Receiver<B256>,
    /// Changes when the DAG has grown.
    pub dag: watch::Receiver<()>,
    /// Of all bodies and messages that are being answered.
    pub request_bytes: Budget,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
}

/// Bytes of the messages in a client's stream behind the handshake, up to what is none. For fuzzing.
#[doc(hidden)]
pub async fn read_websocket(stream: &[u8], most: usize) -> usize {
    let kind = Kind { reason: Reason::ServerBusy, units: "bytes", largest: most };
    let lender = Lender { budget: Budget::new(kind, 2 * most, true), origin: Origin::of([127, 0, 0, 1].into()), most };
    let mut frames = Frames::new(tokio::io::join(stream, tokio::io::sink()), lender);
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
pub(crate) async fn serve(node: Arc<Node>, client: Client, socket: Upgradable, news: News) {
    let open = &node.metrics.websockets;
    open.inc();
    let session = Session::new(node.config.max_subscriptions_per_websocket, node.metrics.subscriptions.clone());
    let ended = converse(&node, &session, &client, socket, news).await;
    open.dec();
    if let Err(error) = ended {
        tracing::debug!(%error, "WebSocket ended");
    }
}

async fn converse(node: &Arc<Node>, session: &Session, client: &Client, socket: Upgradable, news: News) -> io::Result<()> {
    let News { mut heads, mut reverts, mut syncing, mut pending, dag: mut growths, request_bytes, stopping } = news;
    let stopping = until(stopping);
    tokio::pin!(stopping);
    let lender = Lender { budget: request_bytes, origin: client.origin, most: node.config.max_request_bytes };
    let frames = Frames::new(socket, lender);
    let mut line = Line { frames, node, client, timeout: node.config.idle_timeout / 2 };
    let mut working = FuturesUnordered::new();
    let mut ping = tokio::time::interval(node.config.idle_timeout / 3);
    ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut unanswered = 0;
    let mut next_growth = Instant::now();
    loop {
        let has_room = working.len() < node.config.max_requests_per_websocket;
        tokio::select! {
            () = &mut stopping => return line.close(GOING_AWAY, "the node is stopping").await,
            Some(reply) = working.next(), if !working.is_empty() => {
                let Reply { text, subscribed, reserved } = reply;
                line.send(text).await?;
                if session.start(&subscribed) {
                    // Who follows the DAG begins with how it stands.
                    growths.mark_changed();
                }
                drop(reserved);
            }
            incoming = line.frames.next(), if has_room => {
                let incoming = match incoming {
                    Ok(Some(incoming)) => incoming,
                    Ok(None) => return Ok(()),
                    Err(fault) => return line.refuse(fault).await,
                };
                unanswered = 0;
                match incoming {
                    Incoming::Message(message) => working.push(async move {
                        // All of it goes along: its memory is lent until it is answered.
                        let message = message;
                        answer(node, Some(session), client, &message.bytes).await
                    }),
                    Incoming::Refused(error) => {
                        line.tell(node.rates.take(client, Instant::now()).err().unwrap_or(error)).await?;
                    }
                    Incoming::Ping(payload) => line.say(Outgoing::Pong(&payload)).await?,
                    Incoming::Pong => {}
                    Incoming::Close(code) => return line.part_with(code, "").await,
                }
            }
            changed = heads.changed(), if session.follows_heads() => {
                if changed.is_err() {
                    return line.close(GOING_AWAY, "").await;
                }
            }
            changed = syncing.changed(), if session.follows_syncing() => {
                if changed.is_err() {
                    return line.close(GOING_AWAY, "").await;
                }
            }
            hash = pending.recv(), if session.follows_pending() => match hash {
                Ok(hash) => {
                    if let Err(parting) = line.tell_pending(session, hash).await {
                        return line.part(parting).await;
                    }
                }
                // The pool waits for nobody. Who missed some is told so, rather than left to believe that it knows all.
                Err(broadcast::error::RecvError::Lagged(missed)) => {
                    return line.drop_slow(&format!("too slow: missed {missed} pending transactions")).await;
                }
                Err(broadcast::error::RecvError::Closed) => return line.close(GOING_AWAY, "").await,
            },
            grown = growth(&mut growths, next_growth), if session.follows_dag() => {
                if grown.is_err() {
                    return line.close(GOING_AWAY, "").await;
                }
                next_growth = Instant::now() + BETWEEN_GROWTHS;
                line.tell_dag(session).await?;
            }
            _ = ping.tick() => {
                // Our own pings are movement too, and a client that is gone without a word answers none of them. While its requests are worked
                // on, nothing is read.
                if unanswered >= PINGS_UNANSWERED && has_room {
                    return line.drop_slow("no answer to pings").await;
                }
                unanswered += u32::from(has_room);
                let most = node.config.body_timeout;
                if line.frames.sending_for().is_some_and(|sending| sending > most) {
                    return line.drop_slow(&format!("too slow: a message that takes longer than {most:?}")).await;
                }
                line.say(Outgoing::Ping).await?;
            }
        }
        let progress = *syncing.borrow_and_update();
        for message in session.tell_syncing(progress) {
            line.send(message).await?;
        }
        while let Ok(reverted) = reverts.try_recv() {
            for message in session.tell_reverted(&reverted) {
                line.send(message).await?;
            }
        }
        let head = heads.borrow().0;
        let behind = session.next().map_or(0, |next| (head + 1).saturating_sub(next));
        if behind > node.config.max_blocks_behind {
            return line.drop_slow(&format!("too slow: {behind} blocks behind")).await;
        }
        for _ in 0..BLOCKS_PER_TURN {
            let Some(next) = session.next().filter(|next| *next <= head) else { break };
            if let Err(parting) = line.tell_block(session, Height(next)).await {
                return line.part(parting).await;
            }
        }
        if session.next().is_some_and(|next| next <= head) {
            // More is due: come back after one look at everything else.
            heads.mark_changed();
        }
    }
}

/// Waits until the DAG has grown and may be told of. What comes while nobody waits is one growth.
async fn growth(growths: &mut watch::Receiver<()>, not_before: Instant) -> Result<(), watch::error::RecvError> {
    tokio::time::sleep_until(not_before.into()).await;
    growths.changed().await
}

/// Why a connection that tells its client something ends.
enum Parting {
    /// The client is told so.
    Slow(String),
    Failed(io::Error),
}

impl From<io::Error> for Parting {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// While a client does not read, its connection waits here, and is given up before the connection as a whole counts as idle.
struct Line<'a> {
    frames: Frames<Upgradable>,
    node: &'a Node,
    client: &'a Client,
    timeout: Duration,
}

impl Line<'_> {
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

    /// How far the DAG goes. A development chain that begins again may be without one: then there is nothing to say.
    async fn tell_dag(&mut self, session: &Session) -> io::Result<()> {
        let Ok(growth) = dag::growth(self.node) else { return Ok(()) };
        for message in session.tell_dag(growth) {
            self.send(message).await?;
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
        let since = Instant::now();
        let lent = tokio::time::timeout(self.timeout, lent).await;
        self.frames.nobody_read_since(since);
        let Ok(_lent) = lent else {
            return Err(Parting::Slow(format!("server busy: no memory for a notification of {bytes} bytes")));
        };
        Ok(self.send(notification(id, result)).await?)
    }

    async fn send(&mut self, text: String) -> io::Result<()> {
        if text.is_empty() { Ok(()) } else { self.say(Outgoing::Text(&text)).await }
    }

    /// Waits for the client to read, but not for ever.
    async fn say(&mut self, outgoing: Outgoing<'_>) -> io::Result<()> {
        let since = Instant::now();
        let said = tokio::time::timeout(self.timeout, self.frames.send(outgoing)).await;
        self.frames.nobody_read_since(since);
        if said.is_err() {
            self.node.metrics.slow_subscribers.inc();
        }
        said?
    }

    /// Answers what is not even looked at.
    async fn tell(&mut self, error: RpcError) -> io::Result<()> {
        self.node.metrics.refused(&error);
        let mut text = String::new();
        crate::jsonrpc::write_response(&mut text, "null", &Err(error));
        self.send(text).await
    }

    async fn part(&mut self, parting: Parting) -> io::Result<()> {
        match parting {
            Parting::Slow(reason) => self.drop_slow(&reason).await,
            Parting::Failed(error) => Err(error),
        }
    }

    /// Ends the connection of a client that does not keep up. It is told why; if it does not read at all, only the log and the counter
    /// know.
    async fn drop_slow(&mut self, reason: &str) -> io::Result<()> {
        self.node.metrics.slow_subscribers.inc();
        tracing::debug!(reason, "a subscriber is dropped");
        self.close(POLICY, reason).await
    }

    /// After what cannot be read nothing can; the client is told why the connection ends.
    async fn refuse(&mut self, fault: Fault) -> io::Result<()> {
        match fault {
            Fault::Io(error) => Err(error),
            Fault::NotText => self.close(NOT_TEXT, "a text that is not UTF-8").await,
            Fault::Protocol(why) => self.close(PROTOCOL, why).await,
            Fault::TooLarge => {
                self.tell(Reason::RequestTooLarge.error()).await?;
                self.close(TOO_LARGE, "message too large").await
            }
        }
    }

    async fn close(&mut self, code: u16, reason: &str) -> io::Result<()> {
        self.part_with(Some(code), reason).await
    }

    async fn part_with(&mut self, code: Option<u16>, reason: &str) -> io::Result<()> {
        let closing = async {
            self.frames.send(Outgoing::Close(code, reason)).await?;
            self.frames.finish().await
        };
        tokio::time::timeout(FAREWELL, closing).await.unwrap_or(Ok(()))
    }
}
