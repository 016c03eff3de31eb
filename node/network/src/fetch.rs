//! Requests: one stream each, with one message in each direction. Closing the stream without a response means
//! refusal.

use crate::{
    Channel, Event, Fault,
    event::Reply,
    frame::{self, FrameError},
    link::Link,
    shared::Shared,
    streams::{OpenError, Protocol},
};
use corniche_types::Bytes;
use futures::AsyncWriteExt;
use libp2p::Stream;
use std::{io, sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, SemaphorePermit, oneshot},
    time::timeout,
};

/// Rate at which a peer must read a response, besides [`crate::Timing::request`]: 64 kB a second. State sync expects as much.
const SLOWEST_BYTES_PER_MS: u64 = 64;

/// Reason why a request failed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RequestError {
    #[error("there is no link with this peer")]
    NotConnected,
    /// Try another peer, or later.
    #[error("as many requests as allowed are in flight with this peer")]
    Busy,
    #[error("the request has {length} bytes, the limit is {limit}")]
    RequestTooLarge { length: usize, limit: usize },
    /// A fault is counted against the peer.
    #[error("the response has {length} bytes, the limit is {limit}")]
    AnswerTooLarge { length: usize, limit: usize },
    /// The peer does not have the data, is too busy, or shuts down.
    #[error("the peer refused the request")]
    Refused,
    #[error("timeout")]
    TimedOut,
    #[error("the connection failed: {0}")]
    Failed(String),
}

impl From<OpenError> for RequestError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Ended => Self::NotConnected,
            OpenError::Unsupported(_) | OpenError::Failed(_) => Self::Failed(error.to_string()),
        }
    }
}

impl From<io::Error> for RequestError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Sends one request to a peer.
pub(crate) async fn ask(shared: &Shared, link: &Link, request: Bytes, time: Duration) -> Result<Bytes, RequestError> {
    let limit = shared.config.limits.request_bytes;
    if request.len() > limit {
        return Err(RequestError::RequestTooLarge { length: request.len(), limit });
    }
    let _in_flight = link.outgoing_requests.clone().try_acquire_owned().map_err(|_| RequestError::Busy)?;
    shared.counters.general.requests_sent.increment();
    let response = timeout(time, exchange(shared, link, &request)).await;
    let response = response.unwrap_or(Err(RequestError::TimedOut));
    if response.is_err() {
        shared.counters.general.requests_failed.increment();
    }
    response
}

async fn exchange(shared: &Shared, link: &Link, request: &Bytes) -> Result<Bytes, RequestError> {
    let mut stream = link.opener.open(Protocol::Fetch).await?;
    write(&mut stream, request).await?;
    shared.counters.general.request_bytes_sent.add(request.len());
    match frame::read(&mut stream, shared.config.limits.response_bytes).await {
        Ok(response) => {
            shared.counters.general.request_bytes_received.add(response.len());
            Ok(response.into())
        }
        Err(FrameError::Closed) => Err(RequestError::Refused),
        Err(FrameError::Oversized { length, limit }) => Err(RequestError::AnswerTooLarge { length, limit }),
        Err(FrameError::Io(error)) => Err(error.into()),
    }
}

/// Fault of a requesting peer, if any.
pub(crate) type RequesterFault = Option<(Fault, String)>;

/// Answers one request of a peer: reads it, passes it to the node, writes the node's response.
pub(crate) async fn respond(
    shared: Arc<Shared>,
    link: Arc<Link>,
    mut stream: Stream,
    _in_progress: OwnedSemaphorePermit,
) -> RequesterFault {
    let general = &shared.counters.general;
    let time = shared.config.timing.request;
    let request = match timeout(time, frame::read(&mut stream, shared.config.limits.request_bytes)).await {
        Ok(Ok(request)) => request,
        Ok(Err(error @ FrameError::Oversized { .. })) => return Some((Fault::Oversized, format!("request: {error}"))),
        Ok(Err(FrameError::Closed | FrameError::Io(_))) | Err(_) => return None,
    };
    general.request_bytes_received.add(request.len());
    if link.throttle.wait(request.len()).await {
        general.throttled.increment();
    }
    let Ok(_turn) = timeout(time, turn(&shared, &link)).await else {
        refuse(&shared, &mut stream).await;
        return None;
    };
    // A request uses the inbox share of bulk messages, because it may stay in the queue after this task.
    let inbox = timeout(time, link.inbox_share(Channel::Bulk, request.len())).await.ok();
    let (reply, replied) = oneshot::channel();
    if inbox.is_some() {
        link.report(Event::Request { from: link.peer, bytes: request.into(), reply: Reply(reply) }, inbox);
    } else {
        drop(reply);
    }
    let response = match timeout(time, replied).await {
        Ok(Ok(response)) if response.len() <= shared.config.limits.response_bytes => response,
        _ => {
            refuse(&shared, &mut stream).await;
            return None;
        }
    };
    link.response_meter.charge(response.len());
    if !link.peer.is_validator {
        shared.guest_response_meter.charge(response.len());
    }
    let written = timeout(time + Duration::from_millis(response.len() as u64 / SLOWEST_BYTES_PER_MS), async {
        write(&mut stream, &response).await?;
        stream.close().await
    });
    if let Ok(Ok(())) = written.await {
        general.requests_served.increment();
        general.request_bytes_sent.add(response.len());
    } else {
        general.requests_refused.increment();
    }
    None
}

/// Waits until the peer may get a response: its turn, its byte rate, and, outside the committee, a place
/// among all guests.
async fn turn<'a>(shared: &'a Shared, link: &'a Link) -> (SemaphorePermit<'a>, Option<SemaphorePermit<'a>>) {
    const OPEN: &str = "turns are never closed";
    let turn = link.response_turns.acquire().await.expect(OPEN);
    link.response_meter.paid().await;
    if link.peer.is_validator {
        return (turn, None);
    }
    shared.guest_response_meter.paid().await;
    (turn, Some(shared.guest_answers.acquire().await.expect(OPEN)))
}

async fn refuse(shared: &Shared, stream: &mut Stream) {
    shared.counters.general.requests_refused.increment();
    // A proper close distinguishes a refusal from a failure.
    let _ = timeout(shared.config.timing.request, stream.close()).await;
}

async fn write(stream: &mut Stream, message: &Bytes) -> io::Result<()> {
    stream.write_all(&frame::header(message.len())).await?;
    stream.write_all(message).await?;
    stream.flush().await
}
