//! HTTP server: one port for JSON-RPC over POST, WebSockets and `/health`, another for `/metrics`.
//!
//! Framing and method table are our own ([`crate::jsonrpc`], [`crate::dispatch`]), not those of a JSON-RPC
//! library. The maintained library, jsonrpsee 0.26, differs in four points that clients or the node's limits
//! need. It spawns an unbounded task for each WebSocket message. It replies "parse error" to JSON that is not
//! a request. It replies "internal error" to `eth_subscribe` over HTTP. It runs batch elements past its own
//! middleware, where requests are counted.

use crate::backend::{Backend, ChainEvent, DevChain};
use crate::budget::{self, BodyBuffer, Budget};
use crate::client::Client;
use crate::config::RpcConfig;
use crate::console;
use crate::faucet::Faucet;
use crate::jsonrpc::write_response;
use crate::listener::BoundedListener;
use crate::metrics::Metrics;
use crate::node::{Clock, LARGE_RESPONSE_BYTES, Node, wait_for_stop};
use crate::requests::{RpcResponse, handle_body};
use crate::websocket::{self, EventSources, PendingTransaction, Upgrade};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use corniche_api::{ErrorCode, Reason, RpcError};
use corniche_origin::Origin;
use futures::StreamExt;
use prometheus_client::registry::Registry;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

/// Interval at which a node without new blocks checks whether it is behind.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Parts of a server.
pub struct ServerParts {
    pub config: RpcConfig,
    /// Already bound, so that the caller chooses the address and sees bind errors early.
    pub listener: TcpListener,
    pub backend: Arc<dyn Backend>,
    /// From [`Metrics::register`].
    pub metrics: Metrics,
    /// Serves `registry` at `/metrics`; `None`: not served. Separate from the public port, because metrics
    /// are for operators.
    pub metrics_listener: Option<TcpListener>,
    pub registry: Arc<Registry>,
    pub clock: Clock,
}

/// Running server. Dropping it leaves the server running; [`Self::stop`] ends it.
#[derive(Debug)]
pub struct RpcServer {
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    stopping: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl RpcServer {
    /// Starts the server; must be called within a tokio runtime.
    pub fn start(parts: ServerParts) -> io::Result<Self> {
        Self::start_with(parts, None)
    }

    /// Like [`Self::start`], for a development chain.
    pub fn start_dev(parts: ServerParts, dev: Arc<dyn DevChain>) -> io::Result<Self> {
        Self::start_with(parts, Some(dev))
    }

    fn start_with(parts: ServerParts, dev: Option<Arc<dyn DevChain>>) -> io::Result<Self> {
        let ServerParts { config, listener, backend, metrics, metrics_listener, registry, clock } = parts;
        let address = listener.local_addr()?;
        let (stopping, stopped) = watch::channel(false);
        let node = Arc::new(Node::new(config, backend, dev, metrics, clock, stopped.clone()));
        let (pending, _) = broadcast::channel(node.config.max_pending_behind);
        let event_task = tokio::spawn(forward_events(Arc::clone(&node), pending.clone(), stopped.clone()));

        let console = tokio::spawn(console::run(Arc::clone(&node), stopped.clone()));

        let config = &node.config;
        let listener = BoundedListener::new(listener, config, node.metrics.clone());
        let websockets = budget::Resource::slots(Reason::ServerBusy, "WebSockets");
        let request_bytes =
            budget::Resource { reason: Reason::ServerBusy, units: "bytes of requests", largest: config.max_request_bytes };
        let server = Arc::new(Server {
            websockets: Budget::new(websockets, config.max_websockets, config.spare_loopback),
            request_bytes: Budget::new(request_bytes, config.max_request_bytes_in_flight, config.spare_loopback),
            pending,
            stopped: stopped.clone(),
            faucet: config.faucet.clone().map(Faucet::new),
            node: Arc::clone(&node),
        });
        let serving = axum::serve(listener, router(server).into_make_service_with_connect_info::<Client>())
            .with_graceful_shutdown(wait_for_stop(stopped.clone()));
        let serving = tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "the RPC server ended");
            }
        });
        let metrics_address = metrics_listener.as_ref().map(TcpListener::local_addr).transpose()?;
        let metrics = metrics_listener.map(|listener| tokio::spawn(serve_metrics(listener, registry, stopped)));
        let tasks = [event_task, console, serving].into_iter().chain(metrics).collect();
        Ok(Self { address, metrics_address, stopping, tasks })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address of `/metrics`.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Closes open connections; requests in progress get up to 3 s.
    pub async fn stop(self) {
        self.stopping.send_replace(true);
        for mut task in self.tasks {
            if tokio::time::timeout(Duration::from_secs(3), &mut task).await.is_err() {
                task.abort();
            }
        }
    }
}

/// Forwards the backend's events: new heads to everyone, pending transactions to filters and subscribers.
async fn forward_events(node: Arc<Node>, pending: broadcast::Sender<Arc<PendingTransaction>>, stopped: watch::Receiver<bool>) {
    let mut events = node.backend.subscribe();
    // Reports a head announced before the subscription.
    publish_head(&node);
    publish_epoch(&node);
    let stopped = wait_for_stop(stopped);
    tokio::pin!(stopped);
    let mut sync_check = tokio::time::interval(SYNC_INTERVAL);
    sync_check.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let event = tokio::select! {
            () = &mut stopped => return,
            // A node that falls behind gets no head events, so it has to check.
            _ = sync_check.tick() => {
                publish_sync_progress(&node);
                continue;
            }
            event = events.recv() => event,
        };
        match event {
            Ok(ChainEvent::Head(_)) => publish_head(&node),
            Ok(ChainEvent::Epoch(_)) => publish_epoch(&node),
            Err(broadcast::error::RecvError::Lagged(_)) => {
                node.early.send_modify(|()| {});
                publish_head(&node);
                publish_epoch(&node);
            }
            Ok(ChainEvent::Pending(hash)) => {
                node.filters.pending(hash);
                // An error means that there are no receivers.
                let _ = pending.send(Arc::new(PendingTransaction::new(hash)));
            }
            Ok(ChainEvent::Committed(_)) => node.early.send_modify(|()| {}),
            Ok(ChainEvent::Finalized(_)) => {}
            Ok(ChainEvent::Reverted(reverted)) => {
                node.filters.revert(&reverted);
                node.tip.clear();
                // Sent before the head, so that receivers of the head know of the revert.
                let _ = node.reverts.send(reverted);
                publish_head(&node);
            }
            Err(broadcast::error::RecvError::Closed) => return stopped.await,
        }
    }
}

fn publish_head(node: &Node) {
    node.heads.send_replace(node.backend.head());
    publish_sync_progress(node);
}

/// The running epoch never goes back, also not by a revert: a development chain has one epoch.
fn publish_epoch(node: &Node) {
    let running = node.backend.epoch();
    node.epochs.send_if_modified(|published| std::mem::replace(published, running) != running);
}

/// Subscribers are notified when catching up begins or ends, not of each step.
fn publish_sync_progress(node: &Node) {
    let progress = node.backend.syncing();
    node.syncing.send_if_modified(|published| {
        let changed = published.is_some() != progress.is_some();
        *published = progress;
        changed
    });
}

/// Same text as geth.
pub(crate) const INVALID_HOST: (StatusCode, &str) = (StatusCode::FORBIDDEN, "invalid host specified\n");
pub(crate) const INVALID_CONTENT_TYPE: (StatusCode, &str) =
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid content type, only application/json is supported\n");

struct Server {
    node: Arc<Node>,
    faucet: Option<Faucet>,
    websockets: Budget,
    request_bytes: Budget,
    pending: broadcast::Sender<Arc<PendingTransaction>>,
    stopped: watch::Receiver<bool>,
}

fn router(server: Arc<Server>) -> Router {
    let cors = cors(&server.node.config);
    Router::new()
        .route("/", any(root))
        .route("/health", get(health))
        .route("/faucet", get(faucet).post(request_faucet))
        .layer(cors)
        .with_state(server)
}

pub(crate) fn cors(config: &RpcConfig) -> CorsLayer {
    let origins = match &config.allowed_origins {
        None => AllowOrigin::any(),
        Some(origins) => AllowOrigin::list(origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok())),
    };
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::OPTIONS])
        .allow_headers(AllowHeaders::mirror_request())
        .max_age(Duration::from_secs(24 * 3600))
}

async fn root(State(server): State<Arc<Server>>, ConnectInfo(client): ConnectInfo<Client>, mut request: Request) -> Response {
    let client = client.resolve_proxies(&server.node.config.trusted_proxies, request.headers());
    if !is_host_allowed(&server.node.config, &request) {
        return INVALID_HOST.into_response();
    }
    if let Some(upgrade) = Upgrade::from_request(&mut request) {
        return server.upgrade(upgrade, client, request.headers());
    }
    match *request.method() {
        Method::POST => server.post(client, request).await,
        // Load balancers expect a 200 here.
        Method::GET | Method::HEAD => "Corniche JSON-RPC: POST requests here, or open a WebSocket.\n".into_response(),
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

impl Server {
    async fn post(self: &Arc<Self>, client: Client, request: Request) -> Response {
        let config = &self.node.config;
        if !is_json(request.headers()) {
            return match self.node.rate_limiter.take(&client, Instant::now()) {
                Ok(()) => INVALID_CONTENT_TYPE.into_response(),
                Err(error) => self.error_response(StatusCode::TOO_MANY_REQUESTS, error),
            };
        }
        let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if declared.is_some_and(|bytes: usize| bytes > config.max_request_bytes) {
            return self.reject(&client, StatusCode::PAYLOAD_TOO_LARGE, Reason::RequestTooLarge.error());
        }
        let body = self.read_body(client.origin, request.into_body());
        let body = match tokio::time::timeout(config.body_timeout, body).await {
            Ok(Ok(body)) => body,
            Ok(Err((status, error))) => return self.reject(&client, status, error),
            Err(_) => return StatusCode::REQUEST_TIMEOUT.into_response(),
        };
        let response = handle_body(&self.node, None, &client, &body.bytes).await;
        respond(response)
    }

    async fn read_body(&self, origin: Origin, body: Body) -> Result<BodyBuffer, (StatusCode, RpcError)> {
        let max_bytes = self.node.config.max_request_bytes;
        let mut chunks = body.into_data_stream();
        let mut body_bytes = BodyBuffer::default();
        while let Some(chunk) = chunks.next().await {
            // Bad framing, or the connection is cut off; then the response is lost too.
            let chunk = chunk.map_err(|_| {
                (StatusCode::BAD_REQUEST, RpcError::new(ErrorCode::InvalidRequest, "request body cannot be read"))
            })?;
            if chunk.len() > max_bytes - body_bytes.bytes.len() {
                return Err((StatusCode::PAYLOAD_TOO_LARGE, Reason::RequestTooLarge.error()));
            }
            let grown = body_bytes.grow(chunk.len(), max_bytes, &self.request_bytes, origin);
            grown.map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error))?;
            body_bytes.bytes.extend_from_slice(&chunk);
        }
        Ok(body_bytes)
    }

    /// Refuses a request without parsing it. It still counts as a request.
    fn reject(&self, client: &Client, status: StatusCode, error: RpcError) -> Response {
        match self.node.rate_limiter.take(client, Instant::now()) {
            Ok(()) => self.error_response(status, error),
            Err(error) => self.error_response(StatusCode::TOO_MANY_REQUESTS, error),
        }
    }

    /// Sends a JSON-RPC error for a request that cannot be read as JSON-RPC.
    fn error_response(&self, status: StatusCode, error: RpcError) -> Response {
        self.node.metrics.refused(&error);
        let mut text = String::new();
        write_response(&mut text, "null", &Err(error));
        (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
    }

    fn upgrade(self: &Arc<Self>, upgrade: Upgrade, client: Client, headers: &HeaderMap) -> Response {
        if !self.is_origin_allowed(headers) {
            return StatusCode::FORBIDDEN.into_response();
        }
        let reservation = match self.websockets.reserve(client.origin, 1) {
            Ok(reservation) => reservation,
            Err(error) => return self.reject(&client, StatusCode::SERVICE_UNAVAILABLE, error),
        };
        let sources = EventSources {
            heads: self.node.heads.subscribe(),
            reverts: self.node.reverts.subscribe(),
            syncing: self.node.syncing.subscribe(),
            epochs: self.node.epochs.subscribe(),
            pending: self.pending.subscribe(),
            dag: self.node.backend.dag_growth(),
            request_bytes: self.request_bytes.clone(),
            stopping: self.stopped.clone(),
        };
        let node = Arc::clone(&self.node);
        upgrade.accept(move |socket| async move {
            let _reservation = reservation;
            websocket::serve(node, client, socket, sources).await;
        })
    }

    /// Browsers send no preflight request before they open a WebSocket, only the Origin header.
    fn is_origin_allowed(&self, headers: &HeaderMap) -> bool {
        let (Some(allowed), Some(origin)) = (&self.node.config.allowed_origins, headers.get(header::ORIGIN)) else {
            return true;
        };
        allowed.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes())
    }
}

/// Checks the Host header, as geth does, against DNS rebinding. Allowed are IP addresses and the configured names.
pub(crate) fn is_host_allowed(config: &RpcConfig, request: &Request) -> bool {
    let Some(allowed) = &config.hosts else { return true };
    let header = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or("?"));
    let Some(host) = header.or_else(|| request.uri().authority().map(|authority| authority.as_str())) else { return true };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<std::net::IpAddr>().is_ok() || allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
}

/// A large response is sent in pieces; its memory is released with the last one.
fn respond(response: RpcResponse) -> Response {
    let RpcResponse { text, reserved, .. } = response;
    if text.len() <= LARGE_RESPONSE_BYTES {
        return ([(header::CONTENT_TYPE, "application/json")], text).into_response();
    }
    let headers = [(header::CONTENT_TYPE, "application/json".to_string()), (header::CONTENT_LENGTH, text.len().to_string())];
    let chunks = futures::stream::unfold((Bytes::from(text), reserved), |(mut rest, reserved)| async {
        if rest.is_empty() {
            return None;
        }
        let chunk = rest.split_to(rest.len().min(LARGE_RESPONSE_BYTES));
        Some((Ok::<_, std::convert::Infallible>(chunk), (rest, reserved)))
    });
    (headers, Body::from_stream(chunks)).into_response()
}

/// Accepts only content types that browsers send cross-origin after a preflight request.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let Some(content_type) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return false };
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    ["application/json", "application/json-rpc", "application/jsonrequest"]
        .iter()
        .any(|accepted| media_type.eq_ignore_ascii_case(accepted))
}

const NO_FAUCET: (StatusCode, &str) = (StatusCode::NOT_FOUND, "this node has no faucet\n");
/// Enough for an address.
const FAUCET_BODY_BYTES: usize = 4 << 10;

async fn faucet(State(server): State<Arc<Server>>) -> Response {
    match &server.faucet {
        Some(faucet) => axum::Json(faucet.describe(&server.node)).into_response(),
        None => NO_FAUCET.into_response(),
    }
}

async fn request_faucet(
    State(server): State<Arc<Server>>,
    ConnectInfo(client): ConnectInfo<Client>,
    request: Request,
) -> Response {
    if server.faucet.is_none() {
        return NO_FAUCET.into_response();
    }
    let client = client.resolve_proxies(&server.node.config.trusted_proxies, request.headers());
    if let Err(error) = server.node.rate_limiter.take(&client, Instant::now()) {
        return server.error_response(StatusCode::TOO_MANY_REQUESTS, error);
    }
    // Other web pages must not use up their visitors' limit: a cross-origin request that is not JSON needs no
    // preflight.
    if !is_host_allowed(&server.node.config, &request) {
        return INVALID_HOST.into_response();
    }
    if !is_json(request.headers()) {
        return INVALID_CONTENT_TYPE.into_response();
    }
    let body = axum::body::to_bytes(request.into_body(), FAUCET_BODY_BYTES);
    match tokio::time::timeout(server.node.config.body_timeout, body).await {
        Ok(Ok(body)) => {
            // Spawned as a task, so that it continues if the client disconnects.
            let granted = tokio::spawn(async move {
                let faucet = server.faucet.as_ref()?;
                Some(faucet.handle_request(&server.node, client.origin, &body).await)
            });
            match granted.await {
                Ok(Some((status, answer))) => (status, axum::Json(answer)).into_response(),
                _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            }
        }
        Ok(Err(_)) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

/// Returns 200 if the node is at the head of the chain, 503 while it catches up or cannot continue.
async fn health(State(server): State<Arc<Server>>) -> Response {
    let backend = &server.node.backend;
    let unavailable = backend.sync_status().unavailable;
    let syncing = backend.syncing().is_some() || unavailable.is_some();
    let status = if syncing { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let body = serde_json::json!({
        "status": if syncing { "syncing" } else { "ok" },
        "chainId": backend.chain_id(),
        "head": backend.head().0,
        "finalized": backend.finalized().0,
        "peers": backend.peer_count(),
        "unavailable": unavailable,
    });
    (status, axum::Json(body)).into_response()
}

/// Maximum number of open connections for `/metrics`.
const MAX_METRICS_CONNECTIONS: usize = 16;

/// Serves `registry` at `/metrics` until `stopped` becomes true.
pub async fn serve_metrics(listener: TcpListener, registry: Arc<Registry>, stopped: watch::Receiver<bool>) {
    let config = RpcConfig { max_connections: MAX_METRICS_CONNECTIONS, ..RpcConfig::default() };
    // Operators' connections are not counted in the metrics.
    let listener = BoundedListener::new(listener, &config, Metrics::default());
    let router = Router::new().route("/metrics", get(metrics)).with_state(registry);
    if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(wait_for_stop(stopped)).await {
        tracing::error!(%error, "the metrics server ended");
    }
}

async fn metrics(State(registry): State<Arc<Registry>>) -> Response {
    // The node's figures need reads of state and disk, for which connections on this thread must not wait.
    let encode = move || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).map(|()| text)
    };
    match tokio::task::spawn_blocking(encode).await {
        Ok(Ok(text)) => {
            ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
        }
        Ok(Err(_)) | Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
