//! Accepts connections. Limits their number, slow requests and slow readers.
//!
//! Serves HTTP/1.1 only. Browsers use HTTP/2 only over TLS, which a proxy terminates, and detecting its preface has no
//! time limit.

use crate::limits::ConcurrencyLimit;
use axum::{
    Router,
    extract::{ConnectInfo, Request},
    http::StatusCode,
    response::IntoResponse,
};
use corniche_origin::{Proxy, proxy};
use futures::future::{Either, select};
use hyper::{
    body::Incoming,
    rt::{Sleep, Timer},
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpListener,
};

/// Maximum number of open connections in total. A page with an event stream keeps one open.
const MAX_CONNECTIONS: usize = 4_096;

/// Maximum number of open connections from one address. Browsers open six to a server.
const MAX_PER_ADDRESS: usize = 128;

/// Timeout from the connection's start or the end of a response to the end of the next request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout from the head of a request to the head of its response, including the body of the request and requests to
/// the node. The body of the response may take any time, because event streams last for hours.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of a write while the client reads nothing.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause after a failed accept.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Accepts and serves connections; never returns. A connection above a limit is closed at once, so that the client
/// notices early. `proxies` are trusted to name the client in a header.
pub async fn serve(listener: TcpListener, router: Router, proxies: Vec<Proxy>) {
    let proxies: Arc<[Proxy]> = proxies.into();
    let limit = ConcurrencyLimit::new(MAX_CONNECTIONS, MAX_PER_ADDRESS);
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Mostly out of file descriptors; an immediate retry would spin.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
                continue;
            }
        };
        // A proxy connects on behalf of many clients.
        let counted = Some(from.ip()).filter(|address| !proxy::trusts(&proxies, *address));
        let Ok(permit) = limit.acquire(counted) else { continue };
        // Responses are written whole, so Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        let (router, proxies) = (router.clone(), Arc::clone(&proxies));
        tokio::spawn(async move {
            serve_connection(stream, from, router, proxies, TokioTimer::new()).await;
            drop(permit);
        });
    }
}

/// Serves one connection until it ends.
async fn serve_connection<IO, T>(io: IO, peer: SocketAddr, router: Router, proxies: Arc<[Proxy]>, timer: T)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: Timer + Clone + Unpin + Send + Sync + 'static,
{
    let router = TowerToHyperService::new(router);
    let clock = timer.clone();
    let answer = service_fn(move |mut request: Request<Incoming>| {
        let client = proxy::client(&proxies, peer.ip(), request.headers());
        request.extensions_mut().insert(ConnectInfo(SocketAddr::new(client, peer.port())));
        let (answer, time) = (Box::pin(router.call(request)), clock.sleep(RESPONSE_TIMEOUT));
        async move {
            match select(answer, time).await {
                Either::Left((answer, _)) => answer,
                Either::Right(_) => Ok::<_, Infallible>(StatusCode::REQUEST_TIMEOUT.into_response()),
            }
        }
    });
    let io = TokioIo::new(TimeoutStream { io, timer: timer.clone(), timeout: None });
    let served = http1::Builder::new().timer(timer).header_read_timeout(HEAD_TIMEOUT).serve_connection(io, answer).await;
    if let Err(error) = served {
        tracing::debug!(%error, %peer, "a connection ended early");
    }
}

/// A stream that fails if the peer reads nothing for [`WRITE_TIMEOUT`].
struct TimeoutStream<IO, T> {
    io: IO,
    timer: T,
    /// Timer that runs while the peer reads nothing.
    timeout: Option<Pin<Box<dyn Sleep>>>,
}

impl<IO: Unpin, T: Timer + Unpin> TimeoutStream<IO, T> {
    fn write<R>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut IO>, &mut Context<'_>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if let Poll::Ready(written) = write(Pin::new(&mut self.io), context) {
            self.timeout = None;
            return Poll::Ready(written);
        }
        let timeout = self.timeout.get_or_insert_with(|| self.timer.sleep(WRITE_TIMEOUT));
        ready!(timeout.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<IO: AsyncRead + Unpin, T: Unpin> AsyncRead for TimeoutStream<IO, T> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_read(context, buffer)
    }
}

impl<IO: AsyncWrite + Unpin, T: Timer + Unpin> AsyncWrite for TimeoutStream<IO, T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().write(context, |io, context| io.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().write(context, |io, context| io.poll_write_vectored(context, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().write(context, |io, context| io.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().write(context, |io, context| io.poll_shutdown(context))
    }
}

#[cfg(test)]
mod tests;
