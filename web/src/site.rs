//! What every page and every question of the API may use.

use crate::{
    database::Database,
    indexer::{dag::AUTOBAHN, uploads::Uploads},
    limits::Limits,
    live::Live,
    mesh::Mesh,
    node::Node,
    state::{Snapshot, Standing},
};
use std::sync::Arc;

/// Shared by all requests.
#[derive(Debug)]
pub struct Site {
    /// What the indexer wrote.
    pub database: Database,
    /// For what changes too fast to be written down: balances, calls, what waits.
    pub node: Node,
    /// Who is connected with whom.
    pub mesh: Mesh,
    /// How the indexer stands.
    pub standing: Arc<Standing>,
    /// What pages are told as it happens.
    pub live: Live,
    /// Who asks too much.
    pub limits: Limits,
    /// What people say of contracts, on its way to the indexer.
    pub uploads: Uploads,
}

impl Site {
    /// How the indexer stands now.
    pub fn now(&self) -> Snapshot {
        self.standing.now()
    }

    /// Whether the order is one of lanes and slots, and not of rounds.
    pub fn has_lanes(&self) -> bool {
        self.now().committee.is_some_and(|committee| committee.engine == AUTOBAHN)
    }

    /// The newest block that a certificate covers which can be shown.
    pub fn certified(&self) -> Option<u64> {
        self.now().certified
    }
}
