//! One peer, connected: its two channels, each a queue, a stream and a task.

use crate::{
    Channel, Event, Peer, PeerInfo,
    frame::{self, FrameError, HEADER_BYTES},
    observed::Observed,
    shared::{INBOX_BYTES_LIMIT, Shared},
    streams::Opener,
    throttle::Throttle,
};
use corniche_types::Bytes;
use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, future::Either, io::BufReader, pin_mut};
use libp2p::{Stream, swarm::ConnectionId};
use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout,
};

/// Result of sending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// On its way; lost if the link ends first.
    Queued,
    /// There is no link with this peer.
    NotConnected,
    /// The peer takes messages more slowly than they are made; this one was dropped and counted.
    QueueFull,
    /// Above the channel's limit, so the peer would refuse it.
    Oversized,
}

/// Messages up to this size are written together.
const BATCH_BYTES: usize = 64 * 1024;

/// Read from a stream at once, for many small messages.
const READ_BYTES: usize = 32 * 1024;

/// Cost of a message in queues and inboxes besides its bytes, so that empty messages are bounded too.
const MESSAGE_OVERHEAD: usize = 128;

/// Why a link ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkEnd {
    #[error("the peer closed the {0:?} stream")]
    Closed(Channel),
    #[error("the {0:?} stream failed: {1}")]
    Failed(Channel, io::Error),
    #[error("a {channel:?} message of {length} bytes, the limit is {limit}")]
    Oversized { channel: Channel, length: usize, limit: usize },
    #[error("no progress within a message on the {0:?} stream for too long")]
    Stalled(Channel),
}

/// The sending side of a link, and what its tasks share.
pub(crate) struct Link {
    pub peer: Peer,
    pub connection: ConnectionId,
    pub opener: Opener,
    since: SystemTime,
    observed: Observed,
    /// Requests of ours in flight.
    pub outgoing_requests: Arc<Semaphore>,
    /// Requests of the peer in progress.
    pub incoming_requests: Arc<Semaphore>,
    pub throttle: Throttle,
    /// Turns to be answered.
    pub response_turns: Semaphore,
    pub response_meter: Throttle,
    queues: [Queue; 2],
    /// When the peer last sent a message or a request.
    last_received: Mutex<std::time::Instant>,
    /// Guards the order of events: nothing of this link is reported after its `PeerDown`.
    up: Mutex<bool>,
    shared: Arc<Shared>,
}

struct Queue {
    sender: mpsc::Sender<Bytes>,
    bytes: Arc<AtomicUsize>,
}

/// The receiving sides of a link's queues.
pub(crate) struct Backlog {
    receiver: mpsc::Receiver<Bytes>,
    bytes: Arc<AtomicUsize>,
}

impl Link {
    /// A link that is up from now on.
    pub fn new(
        peer: Peer,
        connection: ConnectionId,
        opener: Opener,
        observed: Observed,
        shared: Arc<Shared>,
    ) -> (Self, [Backlog; 2]) {
        let limits = &shared.config.limits;
        let mut backlogs = Vec::new();
        let queues = Channel::ALL.map(|channel| {
            let (sender, receiver) = mpsc::channel(limits.channel(channel).queue_frames.max(1));
            let bytes = Arc::new(AtomicUsize::new(0));
            backlogs.push(Backlog { receiver, bytes: bytes.clone() });
            Queue { sender, bytes }
        });
        let rate = if peer.is_validator { limits.validator_rate } else { limits.guest_rate };
        let in_flight = || Arc::new(Semaphore::new(limits.requests_in_flight));
        let (outgoing_requests, incoming_requests) = (in_flight(), in_flight());
        let answer_bytes =
            if peer.is_validator { limits.validator_answer_bytes_per_second } else { limits.guest_answer_bytes_per_second };
        let link = Self {
            response_turns: Semaphore::new(limits.answers_per_peer),
            response_meter: Throttle::of_bytes(answer_bytes),
            peer,
            connection,
            opener,
            since: SystemTime::now(),
            observed,
            outgoing_requests,
            incoming_requests,
            throttle: Throttle::new(rate.frames_per_second, rate.bytes_per_second),
            queues,
            last_received: Mutex::new(std::time::Instant::now()),
            up: Mutex::new(false),
            shared,
        };
        (link, backlogs.try_into().unwrap_or_else(|_| unreachable!("one backlog for each of two channels")))
    }

    pub fn info(&self) -> PeerInfo {
        let (agent_version, round_trip) = self.observed.get();
        PeerInfo { peer: self.peer, connected: self.since, agent_version, round_trip }
    }

    /// Queues a message, or drops it: never waits.
    pub fn send(&self, channel: Channel, bytes: Bytes) -> Sent {
        if bytes.len() > self.shared.sending_limit(channel) {
            return Sent::Oversized;
        }
        let limits = self.shared.config.limits.channel(channel);
        let queue = &self.queues[channel.index()];
        let cost = bytes.len() + MESSAGE_OVERHEAD;
        let before = queue.bytes.fetch_add(cost, Ordering::Relaxed);
        // A single message always fits, whatever the limits say.
        let fits = before == 0 || before.saturating_add(cost) <= limits.queue_bytes;
        if fits && queue.sender.try_send(bytes).is_ok() {
            return Sent::Queued;
        }
        queue.bytes.fetch_sub(cost, Ordering::Relaxed);
        self.shared.counters.channel(channel).frames_dropped.increment();
        Sent::QueueFull
    }

    /// Reports `PeerUp`.
    pub fn open(&self) {
        *self.up() = true;
        self.shared.counters.general.links_opened.increment();
        self.shared.events.send(Event::PeerUp(self.peer), None);
    }

    /// Reports `PeerDown`, the last event of this link.
    pub fn close(&self) {
        let mut up = self.up();
        if std::mem::replace(&mut *up, false) {
            self.shared.counters.general.links_closed.increment();
            self.shared.events.send(Event::PeerDown(self.peer), None);
        }
    }

    /// When the peer last sent a message or a request, or when the link came up.
    pub fn last_received(&self) -> std::time::Instant {
        *self.last_received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports something that came over this link, unless it has ended.
    pub fn report(&self, event: Event, inbox: Option<OwnedSemaphorePermit>) {
        *self.last_received.lock().unwrap_or_else(PoisonError::into_inner) = std::time::Instant::now();
        let up = self.up();
        if *up {
            self.shared.events.send(event, inbox);
        }
    }

    /// Waits until there is room for a message of this length in the queue to the consumer.
    pub async fn inbox_share(&self, channel: Channel, length: usize) -> OwnedSemaphorePermit {
        let size = self.shared.config.limits.channel(channel).inbox_bytes.clamp(1, INBOX_BYTES_LIMIT);
        let share = (length + MESSAGE_OVERHEAD).min(size) as u32;
        let inbox = self.shared.inbox(&self.peer, channel);
        inbox.acquire_many_owned(share).await.expect("inboxes are never closed")
    }

    fn up(&self) -> std::sync::MutexGuard<'_, bool> {
        self.up.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries one channel of a link until it ends.
///
/// Reading and writing are one task: neither waits for the other, so two nodes that both have much to write cannot block
/// each other, and the halves of the stream never contend.
pub(crate) async fn run_channel(link: Arc<Link>, channel: Channel, stream: Stream, backlog: Backlog) -> LinkEnd {
    let (reader, writer) = stream.split();
    let reading = read_messages(&link, channel, reader);
    let writing = write_messages(&link, channel, writer, backlog);
    pin_mut!(reading, writing);
    match futures::future::select(reading, writing).await {
        Either::Left((end, _)) | Either::Right((end, _)) => end,
    }
}

async fn read_messages(link: &Link, channel: Channel, reader: impl AsyncRead + Unpin) -> LinkEnd {
    let limit = link.shared.config.limits.frame_bytes(channel, link.peer.is_validator);
    let stall = link.shared.config.timing.stall;
    let counters = link.shared.counters.channel(channel);
    let mut reader = BufReader::with_capacity(READ_BYTES, reader);
    loop {
        let length = match frame::read_length(&mut reader, limit).await {
            Ok(length) => length,
            Err(FrameError::Closed) => return LinkEnd::Closed(channel),
            Err(FrameError::Oversized { length, limit }) => return LinkEnd::Oversized { channel, length, limit },
            Err(FrameError::Io(error)) => return LinkEnd::Failed(channel, error),
        };
        if link.throttle.wait(length).await {
            link.shared.counters.general.throttled.increment();
        }
        let bytes = match frame::read_body(&mut reader, length, stall).await {
            Ok(body) => Bytes::from(body),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return LinkEnd::Stalled(channel),
            Err(error) => return LinkEnd::Failed(channel, error),
        };
        // Only a whole message takes room in the inbox, or slow guests could occupy the one they share.
        let share = link.inbox_share(channel, length).await;
        counters.frames_received.increment();
        counters.bytes_received.add(length + HEADER_BYTES);
        link.report(Event::Message { from: link.peer, channel, bytes }, Some(share));
    }
}

async fn write_messages(link: &Link, channel: Channel, mut writer: impl AsyncWrite + Unpin, mut backlog: Backlog) -> LinkEnd {
    let counters = link.shared.counters.channel(channel);
    let stall = link.shared.config.timing.stall;
    let mut batch = Vec::with_capacity(BATCH_BYTES);
    loop {
        let Some(first) = backlog.receiver.recv().await else { return LinkEnd::Closed(channel) };
        let mut next = Some(first);
        let (mut frames, mut cost) = (0, 0);
        let mut large = None;
        while let Some(message) = next.take() {
            frames += 1;
            cost += message.len() + MESSAGE_OVERHEAD;
            batch.extend_from_slice(&frame::header(message.len()));
            if message.len() > BATCH_BYTES {
                // Not worth copying: written from where it is.
                large = Some(message);
                break;
            }
            batch.extend_from_slice(&message);
            if batch.len() < BATCH_BYTES {
                next = backlog.receiver.try_recv().ok();
            }
        }
        let large = large.unwrap_or_default();
        let written = async {
            write_all(&mut writer, &batch, stall).await?;
            write_all(&mut writer, &large, stall).await?;
            if backlog.receiver.is_empty() {
                timeout(stall, writer.flush()).await??;
            }
            io::Result::Ok(())
        };
        match written.await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return LinkEnd::Stalled(channel),
            Err(error) => return LinkEnd::Failed(channel, error),
        }
        counters.frames_sent.add(frames);
        counters.bytes_sent.add(batch.len() + large.len());
        backlog.bytes.fetch_sub(cost, Ordering::Relaxed);
        batch.clear();
    }
}

/// Writes everything as long as something is taken within `stall` each time.
async fn write_all(writer: &mut (impl AsyncWrite + Unpin), mut bytes: &[u8], stall: Duration) -> io::Result<()> {
    while !bytes.is_empty() {
        match timeout(stall, writer.write(bytes)).await?? {
            0 => return Err(io::Error::from(io::ErrorKind::WriteZero)),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}
