//! Admin interface: `/health` and `/metrics` over HTTP.

use crate::{DropReason, Metrics, StartError};
use axum::{
    Router, extract,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use prometheus_client::registry::Registry;
use serde_json::json;
use std::{
    io,
    net::{SocketAddr, TcpListener},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::Sleep,
};

const MAX_CONNECTIONS: usize = 16;
/// Life of a connection, so that idle ones cannot take all places for ever.
const CONNECTION_TIME: Duration = Duration::from_secs(60);

/// Sources of the responses.
pub(crate) struct State {
    pub metrics: Metrics,
    pub registry: Registry,
}

/// Binds the address, and returns it with the port that the system has chosen for port 0.
pub(crate) fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    });
    bound.map_err(StartError::io("listen on", address))
}

/// Serves until the sender of `stopped` is dropped.
pub(crate) fn serve(listener: TcpListener, state: State, mut stopped: watch::Receiver<()>) {
    let run = async move {
        let listener = Listener {
            listener: tokio::net::TcpListener::from_std(listener)?,
            places: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        };
        let router = Router::new().route("/health", get(health)).route("/metrics", get(metrics)).with_state(Arc::new(state));
        tokio::select! {
            // Open connections end with the process.
            result = axum::serve(listener, router).into_future() => result,
            _ = stopped.changed() => Ok(()),
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    if let Err(error) = runtime.and_then(|runtime| runtime.block_on(run)) {
        tracing::error!(%error, "the admin interface ended");
    }
}

/// Returns 503 if a group has no numbers left, else 200.
async fn health(extract::State(state): extract::State<Arc<State>>) -> Response {
    let metrics = &state.metrics;
    let mut is_exhausted = false;
    let mut groups = Vec::new();
    for group in metrics.groups() {
        let (epoch, seq) = (metrics.epoch(group), metrics.seq(group));
        is_exhausted |= seq == u64::MAX;
        let status = if epoch.is_some() { "serving" } else { "standby" };
        groups.push(json!({ "group": group, "status": status, "epoch": epoch, "seq": seq, "begun": metrics.begun(group) }));
    }
    let refused = DropReason::STARTS.map(|reason| (reason.name().to_owned(), metrics.dropped(reason).into()));
    let refused = serde_json::Map::from_iter(refused);
    let (code, status) = if is_exhausted { (StatusCode::SERVICE_UNAVAILABLE, "exhausted") } else { (StatusCode::OK, "ok") };
    (code, axum::Json(json!({ "status": status, "groups": groups, "refused": refused }))).into_response()
}

async fn metrics(extract::State(state): extract::State<Arc<State>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &state.registry) {
        Ok(()) => {
            ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Accepts connections below the limit and closes others at once.
struct Listener {
    listener: tokio::net::TcpListener,
    places: Arc<Semaphore>,
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    if let Ok(place) = self.places.clone().try_acquire_owned() {
                        let end = Box::pin(tokio::time::sleep(CONNECTION_TIME));
                        return (Connection { stream, end, _place: place }, address);
                    }
                }
                // Mostly the process is out of file descriptors; retrying at once would only spin.
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Connection that fails after [`CONNECTION_TIME`] and frees its place when dropped.
struct Connection {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    fn poll_end(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_end(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
