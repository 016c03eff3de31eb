#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod abi;
pub mod api;
pub mod database;
pub mod format;
pub mod indexer;
pub mod limits;
pub mod links;
pub mod live;
pub mod mesh;
pub mod node;
pub mod pages;
pub mod search;
pub mod server;
pub mod site;
pub mod state;
pub mod words;

use corniche_origin::Proxy;
use database::{Database, DatabaseError};
use indexer::{
    Indexer, Keep,
    uploads::{self, Inbox},
};
use limits::{Limits, Rate};
use live::Live;
use mesh::Mesh;
use node::Node;
use site::Site;
use state::{Halt, Standing};
use std::{future::Future, io, net::SocketAddr, sync::Arc};
use tokio::net::TcpListener;

/// What an explorer follows, and where it is found.
#[derive(Clone, Debug)]
pub struct Config {
    /// URL of the node's RPC.
    pub node: String,
    /// URLs of further nodes of its network, which are asked for nothing but their peers.
    pub also_ask: Vec<String>,
    /// URL of the database; see [`database`].
    pub database: String,
    /// Where pages are served.
    pub listen: SocketAddr,
    /// Ticker of the chain's currency, of 18 decimals.
    pub currency: String,
    /// What the indexer keeps.
    pub keep: Keep,
    /// How much one address may ask.
    pub rate: Rate,
    /// Proxies before it, which are believed whom they ask for.
    pub proxies: Vec<Proxy>,
}

/// Why there is no explorer.
#[derive(Debug, thiserror::Error)]
pub enum ExplorerError {
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The address cannot be had.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// The system's reason.
        error: io::Error,
    },
}

/// An explorer that listens; it begins to follow and to answer when it runs.
pub struct Explorer {
    listener: TcpListener,
    site: Arc<Site>,
    keep: Keep,
    inbox: Inbox,
    proxies: Vec<Proxy>,
}

impl Explorer {
    /// Opens the database and the port.
    pub async fn open(config: &Config) -> Result<Self, ExplorerError> {
        let database = Database::open(&config.database).await?;
        let address = config.listen;
        let listener = TcpListener::bind(address).await.map_err(|error| ExplorerError::Listen { address, error })?;
        let (uploads, inbox) = uploads::channel();
        let site = Site {
            database,
            node: Node::new(&config.node),
            mesh: Mesh::new(std::iter::once(&config.node).chain(&config.also_ask)),
            standing: Arc::new(Standing::new(config.currency.clone())),
            live: Live::default(),
            limits: Limits::new(config.rate),
            uploads,
        };
        Ok(Self { listener, site: Arc::new(site), keep: config.keep, inbox, proxies: config.proxies.clone() })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Follows the node and answers until `until` is over.
    pub async fn run(self, until: impl Future<Output = ()> + Send + 'static) -> Result<(), ExplorerError> {
        let Self { listener, site, keep, inbox, proxies } = self;
        let (standing, live) = (Arc::clone(&site.standing), site.live.clone());
        let watched = Arc::clone(&standing);
        let indexer = Indexer::new(site.node.apart(), &site.database, standing, live, keep).await?;
        let indexer = tokio::spawn(indexer.with_uploads(inbox).run());
        let end = indexer.abort_handle();
        tokio::spawn(async move {
            if indexer.await.is_err_and(|error| error.is_panic()) {
                watched.halt(Halt::Broken);
            }
        });
        // Not a graceful end: pages that listen would never let go.
        tokio::select! {
            () = server::serve(listener, server::router(site), proxies) => {}
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

    /// What connects next, and the beginning of what it says.
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
    async fn the_indexer_asks_though_pages_wait_for_all_their_answers() {
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
        for _ in 0..node::MOST_AT_ONCE {
            let node_of_pages = explorer.site.node.clone();
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
