//! Messages between members: their bytes on the network, and the queue of a member's thread.

use crate::members::Members;
use corniche_basil::message::{Message, Peer};
use corniche_basil::verify::{Checked, Verifier};
use corniche_network::{Channel, Event, Events, Fault, NetworkHandle};
use corniche_types::{Bytes, TimestampMs, wire};
use prometheus_client::metrics::counter::Counter;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Number of messages that wait for a member's thread; further ones are dropped, and their senders repeat them.
const QUEUE: usize = 8_192;
/// Messages above this size use the channel for bulk, so that votes overtake them.
const BULK_BYTES: usize = 16 << 10;
/// Wait of a thread without a deadline.
const IDLE: Duration = Duration::from_secs(1);

/// Events for a member's thread.
pub enum Mail<T> {
    Message {
        from: Peer,
        bytes: Bytes,
    },
    /// A request of this process.
    Own(T),
    Stop,
}

pub fn queue<T>() -> (SyncSender<Mail<T>>, Receiver<Mail<T>>) {
    sync_channel(QUEUE)
}

/// Waits for the next event until a deadline. `None`: the deadline passed.
pub fn receive<T>(mail: &Receiver<Mail<T>>, now: TimestampMs, deadline: Option<TimestampMs>) -> Option<Mail<T>> {
    let wait = deadline.map_or(IDLE, |deadline| Duration::from_millis(deadline.0.saturating_sub(now.0)).min(IDLE));
    match mail.recv_timeout(wait) {
        Ok(mail) => Some(mail),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(Mail::Stop),
    }
}

/// Counts of a member's mail.
#[derive(Debug, Default)]
pub struct Counters {
    pub received: Counter,
    pub dropped: Counter,
    pub refused: Counter,
    pub sent: Counter,
}

/// Forwards messages of members from the network to a thread, until one of both ends. `answer` responds to requests of members.
pub async fn forward<T: Send>(
    mut events: Events,
    members: Arc<Members>,
    mail: SyncSender<Mail<T>>,
    counters: Arc<Counters>,
    answer: impl Fn(&[u8]) -> Option<Bytes> + Clone + Send + 'static,
) {
    while let Some(event) = events.recv().await {
        match event {
            Event::PeerUp(_) | Event::PeerDown(_) => {}
            Event::Message { from, bytes, .. } => {
                // A peer that the genesis does not list.
                let Some(from) = members.at(&from.id) else { continue };
                counters.received.inc();
                if mail.try_send(Mail::Message { from, bytes }).is_err() {
                    counters.dropped.inc();
                }
            }
            Event::Request { from, bytes, reply } => {
                // Dropping the reply refuses it.
                if members.at(&from.id).is_none() {
                    continue;
                }
                let answer = answer.clone();
                tokio::task::spawn_blocking(move || {
                    if let Some(bytes) = answer(&bytes) {
                        reply.send(bytes);
                    }
                });
            }
        }
    }
}

/// A member's end of the network.
pub struct Post {
    pub members: Arc<Members>,
    pub network: NetworkHandle,
    pub verifier: Verifier,
    pub counters: Arc<Counters>,
    /// The last message that was sent, with its bytes: most go to several members.
    last: Option<(Arc<Message>, Bytes)>,
}

impl Post {
    pub fn new(members: Arc<Members>, network: NetworkHandle, verifier: Verifier, counters: Arc<Counters>) -> Self {
        Self { members, network, verifier, counters, last: None }
    }

    pub fn send(&mut self, to: Peer, message: Arc<Message>) {
        let Some(key) = self.members.network_key(to) else { return };
        let bytes = match &self.last {
            Some((last, bytes)) if Arc::ptr_eq(last, &message) => bytes.clone(),
            _ => {
                let bytes = Bytes::from(wire::encode(&*message));
                self.last = Some((message, bytes.clone()));
                bytes
            }
        };
        let channel = if bytes.len() > BULK_BYTES { Channel::Bulk } else { Channel::Votes };
        self.counters.sent.inc();
        // Messages may be lost: those that need one ask again.
        self.network.send(key, channel, bytes);
    }

    /// Decodes and checks a message. A sender of an invalid one is penalised.
    pub fn open(&mut self, from: Peer, bytes: &Bytes) -> Option<Checked> {
        let decoded = wire::decode::<Message>(bytes).map_err(|error| error.to_string());
        let checked = decoded.and_then(|message| self.verifier.check(from, message).map_err(|fault| fault.to_string()));
        let error = match checked {
            Ok(checked) => return Some(checked),
            Err(error) => error,
        };
        self.counters.refused.inc();
        tracing::warn!(?from, error, "invalid message");
        if let Some(key) = self.members.network_key(from) {
            self.network.penalise(key, Fault::NeverValid);
        }
        None
    }
}
