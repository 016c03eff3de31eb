//! Listener with limits on connections and on idle time.

use crate::client::Client;
use crate::config::RpcConfig;
use crate::metrics::Metrics;
use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use corniche_origin::{Origin, Proxy, proxy};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// Accepts connections below the limit and closes others at once. So clients learn it sooner, and idle
/// connections cannot fill the kernel's accept queue.
pub(crate) struct BoundedListener {
    listener: TcpListener,
    slots: Arc<Semaphore>,
    /// Number of open connections by address, and its limit.
    addresses: Arc<Mutex<BTreeMap<Origin, usize>>>,
    max_per_address: usize,
    /// Proxies connect for many clients, so the limit per address does not apply to them.
    proxies: Vec<Proxy>,
    idle_timeout: Duration,
    metrics: Metrics,
}

impl BoundedListener {
    pub fn new(listener: TcpListener, config: &RpcConfig, metrics: Metrics) -> Self {
        Self {
            listener,
            slots: Arc::new(Semaphore::new(config.max_connections)),
            addresses: Arc::default(),
            max_per_address: config.max_connections_per_address,
            proxies: config.trusted_proxies.clone(),
            idle_timeout: config.idle_timeout,
            metrics,
        }
    }

    /// Takes a place of the total limit and one of the address's limit.
    fn admit(&self, peer: IpAddr) -> Option<ConnectionSlot> {
        let origin = Origin::of(peer);
        let permit = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        let mut addresses = lock(&self.addresses);
        let open = addresses.entry(origin).or_default();
        if *open >= self.max_per_address && !proxy::trusts(&self.proxies, peer) {
            return None;
        }
        *open += 1;
        Some(ConnectionSlot { addresses: self.addresses.clone(), origin, _permit: permit })
    }
}

impl axum::serve::Listener for BoundedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let (stream, address) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Mostly the process is out of file descriptors; retrying at once would only spin.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    continue;
                }
            };
            let Some(slot) = self.admit(address.ip()) else {
                self.metrics.connections_refused.inc();
                continue;
            };
            // Responses are written whole; Nagle's algorithm would only delay them.
            let _ = stream.set_nodelay(true);
            self.metrics.connections.inc();
            return (Connection::new(stream, slot, self.idle_timeout, self.metrics.clone()), address);
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

fn lock(addresses: &Mutex<BTreeMap<Origin, usize>>) -> MutexGuard<'_, BTreeMap<Origin, usize>> {
    // Every critical section leaves the map consistent.
    addresses.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Place in the limits, given back when dropped.
struct ConnectionSlot {
    addresses: Arc<Mutex<BTreeMap<Origin, usize>>>,
    origin: Origin,
    _permit: OwnedSemaphorePermit,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut addresses = lock(&self.addresses);
        if let Some(open) = addresses.get_mut(&self.origin) {
            *open -= 1;
            if *open == 0 {
                addresses.remove(&self.origin);
            }
        }
    }
}

impl Connected<IncomingStream<'_, BoundedListener>> for Client {
    /// Called once per connection.
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Self {
        let peer = stream.remote_addr().ip();
        Self { peer, origin: Origin::of(peer), connection: Arc::default() }
    }
}

/// Connection that fails with a timeout after a time without traffic, and frees its place when dropped.
pub(crate) struct Connection {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    idle_timeout: Duration,
    metrics: Metrics,
    _slot: ConnectionSlot,
}

impl Connection {
    fn new(stream: TcpStream, slot: ConnectionSlot, idle_timeout: Duration, metrics: Metrics) -> Self {
        let idle = Box::pin(tokio::time::sleep(idle_timeout));
        Self { stream, idle, idle_timeout, metrics, _slot: slot }
    }

    fn reset_idle_timer(&mut self) {
        let deadline = Instant::now() + self.idle_timeout;
        self.idle.as_mut().reset(deadline);
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match Pin::new(&mut this.stream).poll_read(context, buffer) {
            Poll::Ready(result) => {
                this.reset_idle_timer();
                Poll::Ready(result)
            }
            Poll::Pending => this.idle.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into())),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.after_write(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, buffers);
        this.after_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

impl Connection {
    fn after_write(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(result) => {
                self.reset_idle_timer();
                Poll::Ready(result)
            }
            Poll::Pending => self.idle.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into())),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.metrics.connections.dec();
    }
}
