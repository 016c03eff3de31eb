//! Server of a node that fetches a snapshot and has no chain yet.
//!
//! Every request gets a response at once. `/health`, `/metrics`, `corniche_getSyncStatus`, `eth_syncing` and `eth_chainId` respond as
//! those of [`RpcServer`](crate::RpcServer), and all other methods with an error that names the progress. There are no WebSockets.

use crate::SyncProgress;
use crate::client::Client;
use crate::config::RpcConfig;
use crate::convert;
use crate::jsonrpc::{Body, Json, Message, json, write_response};
use crate::listener::BoundedListener;
use crate::metrics::Metrics;
use crate::node::wait_for_stop;
use crate::requests::append_element;
use crate::server::{INVALID_CONTENT_TYPE, INVALID_HOST, cors, is_host_allowed, is_json, serve_metrics};
use alloy_primitives::U64;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use corniche_api::{FetchStatus, Method, Reason, RpcError, SyncStatus};
use corniche_types::Height;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Most bytes of a request. The methods that are served have no parameters, and nothing counts the memory of requests here.
const MAX_BODY_BYTES: usize = 16 << 10;

/// Parts of a [`StartingServer`]. The listeners are duplicates, because another server uses the sockets afterwards.
pub struct StartingParts {
    pub config: RpcConfig,
    pub listener: TcpListener,
    pub metrics_listener: Option<TcpListener>,
    pub registry: Arc<Registry>,
    pub chain_id: u64,
    pub progress: Arc<dyn Fn() -> FetchStatus + Send + Sync>,
}

/// Server of a node without a chain. [`Self::stop`] ends it.
pub struct StartingServer {
    stopping: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

struct Starting {
    config: RpcConfig,
    chain_id: u64,
    progress: Arc<dyn Fn() -> FetchStatus + Send + Sync>,
}

impl StartingServer {
    /// Starts the server; must be called within a tokio runtime.
    pub fn start(parts: StartingParts) -> Self {
        let StartingParts { config, listener, metrics_listener, registry, chain_id, progress } = parts;
        let (stopping, stopped) = watch::channel(false);
        let listener = BoundedListener::new(listener, &config, Metrics::default());
        let router = Router::new().route("/", post(respond)).route("/health", get(health)).layer(cors(&config));
        let router = router.with_state(Arc::new(Starting { config, chain_id, progress }));
        let serving = axum::serve(listener, router.into_make_service_with_connect_info::<Client>())
            .with_graceful_shutdown(wait_for_stop(stopped.clone()));
        let serving = tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "the RPC server ended");
            }
        });
        let metrics = metrics_listener.map(|listener| tokio::spawn(serve_metrics(listener, registry, stopped)));
        Self { stopping, tasks: [serving].into_iter().chain(metrics).collect() }
    }

    /// Closes the connections, so that the next server gets all new ones.
    pub async fn stop(self) {
        self.stopping.send_replace(true);
        for mut task in self.tasks {
            if tokio::time::timeout(Duration::from_secs(1), &mut task).await.is_err() {
                task.abort();
            }
        }
    }
}

async fn health(State(node): State<Arc<Starting>>) -> Response {
    let fetch = (node.progress)();
    let body = serde_json::json!({
        "status": "syncing", "chainId": node.chain_id, "head": 0, "finalized": 0, "peers": fetch.peers, "unavailable": null,
    });
    (StatusCode::SERVICE_UNAVAILABLE, axum::Json(body)).into_response()
}

async fn respond(State(node): State<Arc<Starting>>, request: Request) -> Response {
    if !is_host_allowed(&node.config, &request) {
        return INVALID_HOST.into_response();
    }
    if !is_json(request.headers()) {
        return INVALID_CONTENT_TYPE.into_response();
    }
    let body = axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES.min(node.config.max_request_bytes));
    match tokio::time::timeout(node.config.body_timeout, body).await {
        Ok(Ok(body)) => ([(header::CONTENT_TYPE, "application/json")], node.respond(&body)).into_response(),
        Ok(Err(_)) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

impl Starting {
    fn respond(&self, body: &[u8]) -> String {
        let mut text = String::new();
        match Body::parse(body, self.config.max_batch) {
            Body::Refused(error) => write_response(&mut text, "null", &Err(error)),
            Body::Single(message) => self.write(&mut text, message),
            Body::Batch(elements) => {
                for element in elements {
                    let mut one = String::new();
                    self.write(&mut one, Message::parse(element.get()));
                    append_element(&mut text, &one);
                }
                if !text.is_empty() {
                    text.push(']');
                }
            }
        }
        text
    }

    fn write(&self, out: &mut String, message: Message<'_>) {
        match message {
            Message::Call(call) => write_response(out, call.id.get(), &self.call(&call.method)),
            Message::Invalid => write_response(out, "null", &Err(Message::invalid())),
            Message::Notification => {}
        }
    }

    fn call(&self, method: &str) -> Result<Json, RpcError> {
        let fetch = (self.progress)();
        match Method::from_name(method) {
            None => Err(RpcError::method_not_found(method)),
            Some(Method::EthChainId) => json(&U64::from(self.chain_id)),
            Some(Method::EthSyncing) => {
                let highest = Height(fetch.height.unwrap_or_default());
                json(&convert::progress(SyncProgress { starting: Height(0), current: Height(0), highest }))
            }
            Some(Method::CornicheGetSyncStatus) => json(&SyncStatus {
                base: None,
                first_block: 1,
                head: 0,
                certified: 0,
                target: fetch.height.unwrap_or_default(),
                unavailable: None,
                fetch: Some(fetch),
                follows: true,
                snapshots: Vec::new(),
            }),
            Some(_) => {
                let FetchStatus { phase, chunks, fetched_chunks, peers, .. } = fetch;
                let progress = match chunks {
                    0 => format!("phase {phase}, {peers} peers; try again"),
                    _ => format!("{fetched_chunks} of {chunks} chunks; try again"),
                };
                Err(Reason::FetchingSnapshot.with(progress))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    fn starting(chunks: u64) -> Starting {
        let status = move || FetchStatus {
            phase: if chunks > 0 { "chunks" } else { "trust" }.into(),
            peers: 3,
            height: Some(900),
            chunks,
            fetched_chunks: 45,
            ..FetchStatus::default()
        };
        Starting { config: RpcConfig::default(), chain_id: 7, progress: Arc::new(status) }
    }

    fn request(method: &str) -> String {
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": []}).to_string()
    }

    #[test]
    fn progress_is_served_and_everything_else_is_refused() {
        let node = starting(120);
        let respond = |body: String| serde_json::from_str::<Value>(&node.respond(body.as_bytes())).unwrap();
        assert_eq!(respond(request("eth_chainId"))["result"], "0x7");
        assert_eq!(respond(request("eth_syncing"))["result"]["highestBlock"], "0x384");
        let status = respond(request("corniche_getSyncStatus"));
        assert_eq!((&status["result"]["fetch"]["fetchedChunks"], &status["result"]["head"]), (&json!("0x2d"), &json!("0x0")));
        let refused = respond(request("eth_blockNumber"))["error"].clone();
        assert_eq!(refused, json!({"code": -32005, "message": "the node fetches a snapshot: 45 of 120 chunks; try again"}));
        assert_eq!(respond(request("eth_unknown"))["error"]["code"], -32601);
        assert_eq!(respond("junk".into())["error"]["code"], -32700);
        let batch = respond(format!("[{},{{}},{}]", request("eth_chainId"), request("eth_call")));
        assert_eq!(batch.as_array().unwrap().iter().filter(|element| element.get("error").is_some()).count(), 2);
        let early = starting(0).respond(request("eth_call").as_bytes());
        assert!(early.contains("phase trust, 3 peers; try again"), "{early}");
    }

    /// The next server gets the connections to the same address.
    #[tokio::test]
    async fn the_address_is_handed_over() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap().into_std().unwrap();
        let address = listener.local_addr().unwrap();
        let Starting { config, chain_id, progress } = starting(1);
        let parts = StartingParts {
            config,
            listener: TcpListener::from_std(listener.try_clone().unwrap()).unwrap(),
            metrics_listener: None,
            registry: Arc::default(),
            chain_id,
            progress,
        };
        let server = StartingServer::start(parts);
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.starts_with("HTTP/1.1 503") && text.contains("\"status\":\"syncing\""), "{text}");
        // An idle connection does not keep it.
        let _idle = TcpStream::connect(address).await.unwrap();
        server.stop().await;
        let next = TcpListener::from_std(listener).unwrap();
        let _client = TcpStream::connect(address).await.unwrap();
        next.accept().await.unwrap();
    }
}
