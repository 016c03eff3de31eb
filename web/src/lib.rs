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
    /// The server ended.
    #[error("the explorer's server ended: {0}")]
    Serve(io::Error),
}

/// An explorer that listens; it begins to follow and to answer when it runs.
pub struct Explorer {
    listener: TcpListener,
    site: Arc<Site>,
    keep: Keep,
    inbox: Inbox,
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
        Ok(Self { listener, site: Arc::new(site), keep: config.keep, inbox })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Follows the node and answers until `until` is over.
    pub async fn run(self, until: impl Future<Output = ()> + Send + 'static) -> Result<(), ExplorerError> {
        let Self { listener, site, keep, inbox } = self;
        let (standing, live) = (Arc::clone(&site.standing), site.live.clone());
        let watched = Arc::clone(&standing);
        let indexer = Indexer::new(site.node.clone(), &site.database, standing, live, keep).await?;
        let indexer = tokio::spawn(indexer.with_uploads(inbox).run());
        let end = indexer.abort_handle();
        tokio::spawn(async move {
            if indexer.await.is_err_and(|error| error.is_panic()) {
                watched.halt(Halt::Broken);
            }
        });
        let service = server::router(site).into_make_service_with_connect_info::<SocketAddr>();
        // Not a graceful end: pages that listen would never let go.
        let served = tokio::select! {
            served = axum::serve(listener, service) => served.map_err(ExplorerError::Serve),
            () = until => Ok(()),
        };
        end.abort();
        served
    }
}
