//! Follows a node and writes its blocks to the database.
//!
//! ```text
//! node ──whole blocks──▶ digest ──rows──▶ write ──▶ database   blocks in order, each group in one transaction
//!      ──certificates──▶                                       signatures, once a block is certified
//!      ──traces────────▶                                       inner calls, if the node serves traces
//!      ──DAG───────────▶                                       rounds of the DAG, kept as long as configured
//!      ──executions────▶                                       statistics of the newest blocks on that node
//! ```
//!
//! The database is the only state: the indexer starts after the newest block in it. Blocks come first; the other tasks
//! follow them and store their progress in `meta`.
//!
//! This chain has no reorganizations, but a development chain can be reverted. Then the node's blocks no longer extend
//! the indexed ones, and the indexer starts again from the first block. Any other chain that contradicts the indexed
//! blocks is rejected, and so is a chain with another genesis block.
//!
//! A node may lack old blocks: it deleted them, or began with a snapshot. Then the index has the genesis and the blocks from the first
//! one that the node had, and pages say so. Later gaps are not accepted, because sums over them would be wrong.

pub mod calls;
pub mod certificates;
pub mod contracts;
pub mod dag;
pub mod digest;
pub mod events;
pub mod executions;
mod fetch;
mod group;
pub mod ledger;
mod progress;
mod subscription;
mod token_balances;
pub mod tokens;
pub mod uploads;
pub mod write;

use crate::{
    clock::now_ms,
    database::{Database, DatabaseError},
    indexer_status::{Halt, IndexerStatus},
    live::{Live, Tick},
    node::{Node, NodeError},
};
use alloy_primitives::B256;
use certificates::Chain;
use digest::InvalidBlock;
pub use group::{BLOCKS_IN_GROUP, TRANSACTIONS_IN_GROUP};
use progress::Progress;
use serde_json::json;
use sqlx::{Any, pool::PoolConnection};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use subscription::Notifications;
use write::Tip;

/// Maximum number of blocks of one request. A node limits the size of its responses, so large blocks are
/// fetched in smaller requests.
const BLOCKS_AT_ONCE: u64 = 16;

/// Polling interval without a notification from the node.
const PAUSE: Duration = Duration::from_millis(250);

/// Pause after a failure.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Key in `meta`: the node's chain and validators, so that pages can show them while the node is unreachable.
const INTRODUCTION: &str = "introduction";

/// Key in `meta`: the first indexed block after the genesis, if it is not block 1.
const FIRST: &str = "first";

/// Optional data that the indexer keeps.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// Number of rounds of the DAG to keep.
    pub dag_rounds: u64,
    /// `true` if inner calls are indexed. The node has to re-execute blocks to trace them.
    pub calls: bool,
}

impl Default for Keep {
    fn default() -> Self {
        Self { dag_rounds: 20_000, calls: true }
    }
}

/// Error that ends a turn of the indexer.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// Database error.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The node does not respond or rejects a request.
    #[error("node unavailable: {0}")]
    Node(#[from] NodeError),
    /// The node sent an invalid block.
    #[error(transparent)]
    InvalidBlock(#[from] InvalidBlock),
    /// The database belongs to another chain.
    #[error("{0}")]
    Halt(Halt),
}

/// The indexer. It owns the only connection that writes.
pub struct Indexer {
    node: Node,
    database: Database,
    connection: PoolConnection<Any>,
    indexer_status: Arc<IndexerStatus>,
    live: Live,
    tip: Option<Tip>,
    /// First block after the genesis; 1 for a whole chain.
    first: u64,
    /// `true` if the node is known to have the database's chain.
    identified: bool,
    /// `true` if the chain may be reverted; set by `identify_chain`.
    development: bool,
    /// Number of validators; set by `identify_chain`.
    committee: u64,
    /// Progress log of the initial sync.
    progress: Progress,
    /// Number of blocks in the next requests.
    at_once: u64,
    /// `true` once the indexer has reached the node's head: blocks are new, and pages are notified.
    at_head: bool,
    dag: dag::SyncTask,
    calls: calls::SyncTask,
    executions: executions::SyncTask,
    uploads: Option<uploads::Inbox>,
    /// Notifications of the node; empty without a subscription.
    notifications: Arc<Notifications>,
}

impl Indexer {
    /// Creates the indexer. Sends and writes nothing before [`Indexer::run`].
    pub async fn new(
        node: Node,
        database: &Database,
        indexer_status: Arc<IndexerStatus>,
        live: Live,
        keep: Keep,
    ) -> Result<Self, DatabaseError> {
        let mut connection = database.writer().await?;
        let tip = write::tip(&mut connection).await?;
        // Stored data is used until the node responds.
        if let Some(stored) = write::meta(&mut connection, INTRODUCTION).await?
            && let Ok((chain_id, genesis, development, committee)) = serde_json::from_str(&stored)
        {
            indexer_status.set_chain(chain_id, genesis, development, committee);
        }
        if let Some(tip) = tip {
            indexer_status.set_indexed(tip.number, write::time_of(&mut connection, tip.number).await?);
        }
        let first = write::meta(&mut connection, FIRST).await?.and_then(|first| first.parse().ok());
        indexer_status.set_first(first);
        indexer_status.set_certified(certificates::reached(&mut connection).await?);
        let (dag, calls) = (dag::SyncTask::new(keep.dag_rounds), calls::SyncTask::new(keep.calls));
        let progress = Progress::begin(tip.map_or(0, |tip| tip.number), Instant::now());
        let (development, committee, at_head, uploads) = (false, 0, false, None);
        let (identified, at_once, executions) = (false, BLOCKS_AT_ONCE, executions::SyncTask::default());
        Ok(Self {
            node,
            database: database.clone(),
            connection,
            indexer_status,
            live,
            tip,
            first: first.unwrap_or(1),
            identified,
            development,
            committee,
            progress,
            at_once,
            at_head,
            dag,
            calls,
            executions,
            uploads,
            notifications: Arc::default(),
        })
    }

    /// Also processes uploaded ABIs.
    pub fn with_uploads(self, uploads: uploads::Inbox) -> Self {
        Self { uploads: Some(uploads), ..self }
    }

    /// Follows the node until the task is dropped or the indexer halts.
    pub async fn run(mut self) {
        let topics = self.dag.topics();
        let listening = tokio::spawn(subscription::listen(self.node.url().to_owned(), topics, Arc::clone(&self.notifications)));
        while let Some(pause) = self.step().await {
            if !pause.is_zero() {
                let _ = tokio::time::timeout(pause, self.notifications.new_head()).await;
            }
        }
        listening.abort();
    }

    /// Runs one turn and returns the pause before the next one; `None` if the indexer has halted. Cancel-safe: data
    /// that was not written is fetched again.
    pub async fn step(&mut self) -> Option<Duration> {
        if let Some(uploads) = self.uploads.as_mut().filter(|_| self.identified) {
            uploads.serve(&self.node, &mut self.connection, self.tip.map(|tip| tip.number)).await;
        }
        let turn = match self.identified {
            false => self.identify_chain().await.map(|()| true),
            true => self.turn().await,
        };
        let turn = match turn {
            Err(IndexError::Halt(halt @ Halt::Contradiction { .. })) => Err(self.explain_contradiction(halt).await),
            turn => turn,
        };
        match turn {
            Ok(busy) => {
                self.indexer_status.clear_error();
                Some(if busy { Duration::ZERO } else { PAUSE })
            }
            Err(IndexError::Halt(halt)) => {
                tracing::error!(%halt, "the indexer stops");
                self.indexer_status.set_halt(halt);
                None
            }
            Err(error) => {
                if let IndexError::Database(_) = error
                    && let Ok(connection) = self.database.writer().await
                {
                    // A failed connection may not recover.
                    self.connection = connection;
                }
                tracing::warn!(%error, "indexing failed; retrying");
                self.indexer_status.set_error(error.to_string());
                // The node may have been replaced while it was unreachable.
                self.identified = false;
                Some(PAUSE_AFTER_FAILURE)
            }
        }
    }

    /// Checks that the node has the database's chain. An empty database takes over the node's chain.
    async fn identify_chain(&mut self) -> Result<(), IndexError> {
        let (chain_id, genesis) = self.node.identity().await?;
        let found = format!("{chain_id} {genesis}");
        match write::meta(&mut self.connection, "chain").await? {
            None => write::set_meta(&mut self.connection, "chain", found).await?,
            Some(known) if known != found => return Err(IndexError::Halt(Halt::AnotherChain { known, found })),
            Some(_) => {}
        }
        self.development = self.node.is_development().await?;
        self.calls.served = self.node.has_traces().await?;
        self.indexer_status.set_traced(self.calls.reached(&mut self.connection).await?);
        let committee = self.node.validators().await?;
        self.committee = committee.validators.len() as u64;
        self.dag.chain_identified(&committee.engine, self.committee);
        self.executions.chain_identified();
        let stored = json!((chain_id, genesis, self.development, &committee));
        write::set_meta(&mut self.connection, INTRODUCTION, stored.to_string()).await?;
        self.indexer_status.set_chain(chain_id, genesis, self.development, committee);
        self.identified = true;
        Ok(())
    }

    /// Returns the reason for contradicting blocks. The node may have been wiped and started with another chain, which
    /// its identity shows.
    async fn explain_contradiction(&mut self, halt: Halt) -> IndexError {
        match self.identify_chain().await {
            Ok(()) => IndexError::Halt(halt),
            Err(error) => error,
        }
    }

    /// Runs all tasks once. Returns `true` if there is more to do at once.
    async fn turn(&mut self) -> Result<bool, IndexError> {
        let heads = match self.node.heads().await {
            Ok(heads) => heads,
            Err(error) => {
                // The node has the snapshot that it began with, but no block yet.
                self.begin_at(error.first_available_block().ok_or(error)?).await?;
                return Ok(false);
            }
        };
        let heard_ms = now_ms();
        self.indexer_status.set_heads(&heads);
        let next = self.next();
        if !self.extends_tip_of(heads.executed.number, heads.executed.hash).await? {
            self.restart_from_genesis().await?;
            return Ok(true);
        }
        let behind = heads.executed.number.saturating_add(1).saturating_sub(next);
        self.at_head = behind <= 2 * BLOCKS_AT_ONCE;
        let too_large = behind > 0 && self.fetch(next, behind).await?;
        // A node may have fewer blocks than it reported; then there is nothing more to do at once.
        let grew = self.next() != next;
        let tip = self.tip.map_or(0, |tip| tip.number);
        let [certified, executed] = [heads.certified, heads.executed].map(|head| head.number.min(tip));
        let heard_ms = self.at_head.then_some(heard_ms);
        let chain = Chain { committee: self.committee, development: self.development, heard_ms };
        // Certificates may be missing, or take long to catch up, and the node drops rounds meanwhile. So the error of
        // one task is returned only after the others have run.
        let dag =
            self.dag.follow(&self.node, &mut self.connection, &self.live, &self.indexer_status, &self.notifications).await;
        // Before the certificate, because the page of a block is final with it.
        let has_statistics = self.at_head && self.executions.follow(&self.node, &mut self.connection, executed).await?;
        let certified = certificates::follow(&self.node, &mut self.connection, certified, chain).await;
        if let Ok(Some(certified)) = certified {
            self.indexer_status.set_certified(Some(certified));
            self.live.send(Tick::Certified { number: certified });
        }
        let traced = self.at_head && self.calls.follow(&self.node, &mut self.connection, executed).await?;
        self.indexer_status.set_traced(self.calls.reached(&mut self.connection).await?);
        dag?;
        let certified = certified?.is_some();
        Ok(grew || too_large || traced || has_statistics || certified)
    }

    /// Number of the next block.
    fn next(&self) -> u64 {
        next_after(self.tip, self.first)
    }

    /// Continues with the first block that the node has. Only a database without later blocks can do so.
    async fn begin_at(&mut self, first: u64) -> Result<(), IndexError> {
        let next = self.next();
        if first <= next.max(self.first) {
            return Ok(());
        }
        if self.tip.is_some_and(|tip| tip.number > 0) {
            return Err(IndexError::Halt(Halt::Pruned { next, first }));
        }
        tracing::warn!(
            "blocks below {first} are not available on this node; totals and token balances begin with block {first}"
        );
        // The other tasks have nothing to do below it.
        let below = first - 1;
        for (key, number) in [(FIRST, first), (certificates::KEY, below), (calls::KEY, below), (executions::KEY, below)] {
            write::set_meta(&mut self.connection, key, number.to_string()).await?;
        }
        self.calls.reset();
        self.executions.reset();
        self.first = first;
        self.progress = Progress::begin(below, Instant::now());
        self.indexer_status.set_first(Some(first));
        Ok(())
    }

    /// Returns `true` if the indexed blocks agree with the node's head.
    async fn extends_tip_of(&mut self, head: u64, head_hash: B256) -> Result<bool, IndexError> {
        let Some(tip) = self.tip else { return Ok(true) };
        if head > tip.number {
            // The next block's parent hash is checked when it is read.
            return Ok(true);
        }
        if !self.development && (1..self.first).contains(&head) {
            // A node that syncs from the genesis. The blocks that it has are not indexed.
            return Ok(true);
        }
        let same = write::hash_of(&mut self.connection, head).await? == Some(head_hash);
        match self.development {
            true => Ok(same && head == tip.number),
            // A node that syncs has fewer blocks of the same chain.
            false if same => Ok(true),
            false => Err(IndexError::Halt(Halt::Contradiction { number: head })),
        }
    }

    async fn restart_from_genesis(&mut self) -> Result<(), IndexError> {
        // The blocks may have vanished because the node was wiped meanwhile.
        self.identify_chain().await?;
        tracing::info!("chain reverted; indexing again from the first block");
        write::clear(&mut self.connection).await?;
        self.indexer_status.set_certified(None);
        self.dag.reset();
        self.calls.reset();
        self.executions.reset();
        self.tip = None;
        self.first = 1;
        self.indexer_status.set_first(None);
        self.live.send(Tick::Reverted);
        Ok(())
    }
}

/// Number of the block after the tip. `first` is the first block after the genesis.
fn next_after(tip: Option<Tip>, first: u64) -> u64 {
    match tip {
        None => 0,
        Some(Tip { number: 0, .. }) => first,
        Some(tip) => tip.number + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn stored_certificates_count_from_the_start() {
        let filled = testing::test_app().await;
        filled.write_block(41, 1_700_000_000_000).await;
        let (indexer_status, live) = (Arc::new(IndexerStatus::default()), Live::default());
        let (node, database) = (filled.app.node.clone(), &filled.app.database);
        let _indexer = Indexer::new(node, database, Arc::clone(&indexer_status), live, Keep::default()).await.unwrap();
        assert_eq!(indexer_status.snapshot().indexed, Some((41, 1_700_000_000_000)));
    }
}
