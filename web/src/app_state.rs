//! State that all pages and API requests share.

use crate::{
    clock::DAY_MS,
    database::Database,
    indexer::{dag::Form, uploads::Uploads},
    indexer_status::{IndexerStatus, Snapshot},
    limits::RateLimiter,
    live::Live,
    node::Node,
    peer_graph::PeerGraph,
};
use std::sync::Arc;

/// State shared by all requests.
#[derive(Debug)]
pub struct AppState {
    /// Database, filled by the indexer.
    pub database: Database,
    /// Node, queried for values that the database does not store: balances, calls and pending transactions.
    pub node: Node,
    /// Peer graph of the network.
    pub peer_graph: PeerGraph,
    /// Status of the indexer.
    pub indexer_status: Arc<IndexerStatus>,
    /// Events for open pages.
    pub live: Live,
    /// Rate limits of clients.
    pub limits: RateLimiter,
    /// Uploaded interfaces on their way to the indexer.
    pub uploads: Uploads,
}

impl AppState {
    /// Returns the current status of the indexer.
    pub fn status(&self) -> Snapshot {
        self.indexer_status.snapshot()
    }

    /// Returns the form of the engine's order; the default while the engine is unknown.
    pub fn form(&self) -> Form {
        self.status().committee.map(|committee| Form::of(&committee.engine)).unwrap_or_default()
    }

    /// Returns the newest block that a certificate in the database covers.
    pub fn certified(&self) -> Option<u64> {
        self.status().certified
    }

    /// Returns the day of the newest block. Days follow the chain's time, which is UTC.
    pub fn today(&self) -> u64 {
        self.status().indexed.map_or(0, |(_, time_ms)| time_ms / DAY_MS)
    }
}
