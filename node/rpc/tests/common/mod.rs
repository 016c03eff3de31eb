//! Node in memory, with HTTP and WebSocket clients of our own, so that tests see every byte of a response.
#![allow(dead_code, unused_imports, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod chain;
mod client;
pub mod dag;
mod examples;
pub mod schema;

pub use chain::{
    AUTHOR, CHAIN_ID, COINBASE, ECHO, FUNDED, RELAY, TestChain, Whole, call, fee_address, key, log, relayed,
    staking_parameters, transfer,
};
pub use client::{Client, HttpAnswer, WebSocket};
pub use examples::examples;

use corniche_api::Namespaces;
use corniche_rpc::{Metrics, RpcConfig, RpcServer, ServerParts};
use corniche_types::TimestampMs;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::TcpListener;

/// Server on a free port of the loopback interface.
pub struct Fixture {
    pub chain: Arc<TestChain>,
    pub client: Client,
    pub server: RpcServer,
    /// The server's clock, in ms.
    pub now: Arc<AtomicU64>,
}

impl Fixture {
    /// Serves the methods of all namespaces.
    pub async fn start() -> Self {
        Self::with(RpcConfig { namespaces: Namespaces::all(), ..RpcConfig::default() }).await
    }

    pub async fn with(config: RpcConfig) -> Self {
        Self::serve(TestChain::new(), config).await
    }

    pub async fn serve(chain: TestChain, config: RpcConfig) -> Self {
        let chain = Arc::new(chain);
        let now = Arc::new(AtomicU64::new(0));
        let mut registry = Registry::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let metrics_listener = Some(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let parts = ServerParts {
            config,
            listener,
            backend: chain.clone(),
            metrics: Metrics::register(&mut registry),
            metrics_listener,
            registry: Arc::new(registry),
            clock: {
                let now = now.clone();
                Arc::new(move || TimestampMs(now.load(Ordering::Relaxed)))
            },
        };
        let server = RpcServer::start_dev(parts, chain.clone()).unwrap();
        Self { chain, client: Client::new(server.address()), server, now }
    }

    /// Text of `/metrics`.
    pub async fn metrics(&self) -> String {
        let address = self.server.metrics_address().unwrap();
        let answer = Client::new(address).http("GET", "/metrics", &[], b"").await;
        assert_eq!(answer.status, 200);
        answer.body
    }
}
