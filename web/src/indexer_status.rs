//! State of the explorer: the followed chain, the indexer's progress and its errors. The indexer writes it; pages read
//! it.

use alloy_primitives::B256;
use corniche_api::{Heads, Validators};
use std::sync::{PoisonError, RwLock};

/// Reason why the indexer stopped permanently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// The database belongs to another chain.
    #[error(
        "wrong chain: the database has chain {known}, the node has chain {found} (chain ID and genesis hash). A node with a new \
             genesis has another chain; use an empty database, or the former node"
    )]
    AnotherChain {
        /// Chain in the database.
        known: String,
        /// Chain of the node.
        found: String,
    },
    /// The node no longer has the next blocks.
    #[error(
        "blocks {next} to {} are not available on this node; it has block {first} and later. Use a node that has them, or an empty \
             database, which then begins with block {first}",
        .first - 1
    )]
    Pruned {
        /// Next block to index.
        next: u64,
        /// First block that the node has.
        first: u64,
    },
    /// A bug in the explorer ended the indexer.
    #[error("the indexer failed with an internal error; read the log, then restart the explorer")]
    Broken,
    /// The node's blocks differ from the indexed ones although this chain cannot be reverted.
    #[error(
        "block {number}: the node and the database have different blocks, and this chain cannot be reverted. Compare the block \
             with another node; use an empty database if the indexed block is wrong"
    )]
    Contradiction {
        /// Number of the block that differs.
        number: u64,
    },
}

/// State of the explorer; see the module.
#[derive(Debug, Default)]
pub struct IndexerStatus(RwLock<Snapshot>);

/// A copy of the state at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Ticker of the chain's native currency.
    pub currency: String,
    /// Chain id; `None` before the node's first response.
    pub chain_id: Option<u64>,
    /// Hash of the genesis block.
    pub genesis: Option<B256>,
    /// `true` for a development chain, which may be reverted.
    pub development: bool,
    /// The validators.
    pub committee: Option<Validators>,
    /// The node's newest blocks.
    pub heads: Option<Heads>,
    /// Reason why the node serves no DAG data, if it rejected the request.
    pub dag_unavailable: Option<String>,
    /// Number of entries that the node's consensus trace dropped since the node started.
    pub dag_dropped: u64,
    /// The first indexed block after the genesis, if the node did not have the blocks below it. `None` for a whole chain.
    pub first: Option<u64>,
    /// The newest indexed block, and its time in Unix milliseconds.
    pub indexed: Option<(u64, u64)>,
    /// The newest block that an indexed certificate covers. The node may know a newer one.
    pub certified: Option<u64>,
    /// The newest block whose traces were indexed. `None` if traces are not indexed, or if it is not yet known whether
    /// the node serves them.
    pub traced: Option<u64>,
    /// Error of the last indexer turn, if it failed.
    pub last_error: Option<String>,
    /// Reason why the indexer stopped permanently.
    pub halt: Option<Halt>,
}

impl IndexerStatus {
    /// Creates the state; only the configured currency is known.
    pub fn new(currency: String) -> Self {
        Self(RwLock::new(Snapshot { currency, ..Snapshot::default() }))
    }

    /// Returns a copy of the current state.
    pub fn snapshot(&self) -> Snapshot {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Sets the identity of the chain.
    pub fn set_chain(&self, chain_id: u64, genesis: B256, development: bool, committee: Validators) {
        self.change(|now| {
            (now.chain_id, now.genesis, now.development) = (Some(chain_id), Some(genesis), development);
            now.committee = Some(committee);
        });
    }

    /// Sets the node's newest blocks.
    pub fn set_heads(&self, heads: &Heads) {
        self.change(|now| now.heads = Some(heads.clone()));
    }

    /// Sets the number of dropped DAG entries and clears the reason for missing DAG data.
    pub fn set_dag_dropped(&self, dropped: u64) {
        self.change(|now| (now.dag_unavailable, now.dag_dropped) = (None, dropped));
    }

    /// Sets the reason why the node serves no DAG data.
    pub fn set_dag_unavailable(&self, why: String) {
        self.change(|now| now.dag_unavailable = Some(why));
    }

    /// Sets the first indexed block after the genesis; `None` for a whole chain.
    pub fn set_first(&self, first: Option<u64>) {
        self.change(|now| now.first = first);
    }

    /// Sets the newest indexed block.
    pub fn set_indexed(&self, number: u64, time_ms: u64) {
        self.change(|now| now.indexed = Some((number, time_ms)));
    }

    /// Sets the newest block that an indexed certificate covers; `None` after the chain was reverted.
    pub fn set_certified(&self, number: Option<u64>) {
        self.change(|now| now.certified = number);
    }

    /// Sets the newest block whose traces are indexed.
    pub fn set_traced(&self, number: Option<u64>) {
        self.change(|now| now.traced = number);
    }

    /// Clears the error after a successful turn.
    pub fn clear_error(&self) {
        self.change(|now| now.last_error = None);
    }

    /// Sets the error of a failed turn. The indexer retries.
    pub fn set_error(&self, why: String) {
        self.change(|now| now.last_error = Some(why));
    }

    /// Sets the reason why the indexer stopped permanently.
    pub fn set_halt(&self, halt: Halt) {
        self.change(|now| now.halt = Some(halt));
    }
}
