#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod abi;
pub mod api;
pub mod app_state;
pub mod clock;
pub mod database;
pub mod format;
pub mod indexer;
pub mod indexer_status;
pub mod limits;
pub mod links;
pub mod live;
pub mod node;
pub mod pages;
pub mod peer_graph;
pub mod search;
pub mod server;
#[cfg(test)]
mod testing;
pub mod texts;
pub mod views;

use app_state::AppState;
use corniche_origin::Proxy;
use database::{Database, DatabaseError};
use indexer::{
    Indexer, Keep,
    uploads::{self, Inbox},
};
use indexer_status::{Halt, IndexerStatus};
use limits::{Rate, RateLimiter};
use live::Live;
use node::Node;
use peer_graph::PeerGraph;
use std::{future::Future, io, net::SocketAddr, sync::Arc};
use tokio::net::TcpListener;

/// Configuration of an explorer.
#[derive(Clone, Debug)]
pub struct Config {
    /// URL of the node's RPC.
    pub node: String,
    /// RPC URLs of further nodes of the network. The explorer asks them only for their peers.
    pub also_ask: Vec<String>,
    /// URL of the database; see [`database`].
    pub database: String,
    /// Address on which the explorer serves pages.
    pub listen: SocketAddr,
    /// Ticker of the chain's native currency, which has 18 decimals.
    pub currency: String,
    /// Data that the indexer keeps.
    pub keep: Keep,
    /// Request rate limit for each client address.
    pub rate: Rate,
    /// Reverse proxies whose forwarding header is trusted to name the client.
    pub proxies: Vec<Proxy>,
}

/// Error that prevents the explorer from running.
#[derive(Debug, thiserror::Error)]
pub enum ExplorerError {
    /// Database error.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Binding the listen address failed.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The configured listen address.
        address: SocketAddr,
        /// The operating system's error.
        error: io::Error,
    },
}

/// An explorer that is bound to its port. It serves requests and follows the node once [`Explorer::run`] is called.
pub struct Explorer {
    listener: TcpListener,
    app: Arc<AppState>,
    keep: Keep,
    inbox: Inbox,
    proxies: Vec<Proxy>,
}

impl Explorer {
    /// Opens the database and binds the port.
    ///
    /// # Errors
    /// If the database cannot be opened or the address cannot be bound.
    pub async fn open(config: &Config) -> Result<Self, ExplorerError> {
        let database = Database::open(&config.database).await?;
        let address = config.listen;
        let listener = TcpListener::bind(address).await.map_err(|error| ExplorerError::Listen { address, error })?;
        let (uploads, inbox) = uploads::channel();
        let app = AppState {
            database,
            node: Node::new(&config.node),
            peer_graph: PeerGraph::new(std::iter::once(&config.node).chain(&config.also_ask)),
            indexer_status: Arc::new(IndexerStatus::new(config.currency.clone())),
            live: Live::default(),
            limits: RateLimiter::new(config.rate),
            uploads,
        };
        Ok(Self { listener, app: Arc::new(app), keep: config.keep, inbox, proxies: config.proxies.clone() })
    }

    /// Returns the bound address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Runs the indexer and serves requests until `until` completes.
    pub async fn run(self, until: impl Future<Output = ()> + Send + 'static) -> Result<(), ExplorerError> {
        let Self { listener, app, keep, inbox, proxies } = self;
        let (indexer_status, live) = (Arc::clone(&app.indexer_status), app.live.clone());
        let watched = Arc::clone(&indexer_status);
        let indexer = Indexer::new(app.node.with_own_limit(), &app.database, indexer_status, live, keep).await?;
        let indexer = tokio::spawn(indexer.with_uploads(inbox).run());
        let end = indexer.abort_handle();
        tokio::spawn(async move {
            if indexer.await.is_err_and(|error| error.is_panic()) {
                watched.set_halt(Halt::Broken);
            }
        });
        // No graceful shutdown: pages with an open event stream would delay it without end.
        tokio::select! {
            () = server::serve(listener, server::router(app), proxies) => {}
            () = until => {}
        }
        end.abort();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::{
        io::AsyncReadExt,
        net::TcpStream,
        sync::oneshot,
        task::{JoinHandle, yield_now},
    };

    /// Accepts the next connection and reads the beginning of its request.
    async fn next(node: &TcpListener) -> (TcpStream, String) {
        let (mut socket, _) = node.accept().await.unwrap();
        let (mut said, mut bytes) = (String::new(), [0; 4_096]);
        while !said.contains("jsonrpc") && !said.contains("Upgrade") && !said.contains("upgrade") {
            let read = socket.read(&mut bytes).await.unwrap();
            assert_ne!(read, 0, "{said}");
            said += std::str::from_utf8(&bytes[..read]).unwrap();
        }
        (socket, said)
    }

    #[tokio::test]
    async fn indexer_has_its_own_request_limit() {
        let node = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let config = Config {
            node: format!("http://{}", node.local_addr().unwrap()),
            database: format!("sqlite://{}?mode=rwc", directory.path().join("explorer.db").display()),
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            currency: "CRN".into(),
            keep: Keep::default(),
            rate: Rate::default(),
            also_ask: Vec::new(),
            proxies: Vec::new(),
        };
        let explorer = Explorer::open(&config).await.unwrap();
        let mut held = Vec::new();
        let mut pages: Vec<JoinHandle<_>> = Vec::new();
        for _ in 0..node::MAX_CONCURRENT {
            let node_of_pages = explorer.app.node.clone();
            pages.push(tokio::spawn(async move { node_of_pages.heads().await }));
            held.push(next(&node).await);
        }
        let (end, over) = oneshot::channel::<()>();
        let run = tokio::spawn(explorer.run(async { _ = over.await }));
        loop {
            let (socket, said) = next(&node).await;
            let is_indexer = said.contains("eth_chainId");
            held.push((socket, said));
            if is_indexer {
                break;
            }
        }
        yield_now().await;
        assert!(pages.iter().all(|page| !page.is_finished()), "a page had to give its place away");
        drop((held, node, end));
        run.await.unwrap().unwrap();
    }
}
