//! Follows a node and writes down what its blocks mean.
//!
//! ```text
//! node ──whole blocks──▶ digest ──rows──▶ write ──▶ database        blocks, in order, each group in one database transaction
//!      ──certificates──▶                                            who signed, once a block is certified
//!      ──traces───────▶                                             calls inside transactions, where the node serves traces
//!      ──DAG──────────▶                                             rounds of the ordering, kept as long as configured
//!      ──executions───▶                                             what running the newest blocks took on that node
//! ```
//!
//! What is known of the chain is in the database and nowhere else: the indexer begins after the newest block that is there. Only blocks go
//! forward by themselves; the other lanes follow them and remember how far they came in `meta`.
//!
//! This chain does not go back, but one for development does when it is told to. Then the blocks here no longer lead up to what the node
//! has, and the indexer begins again from the first one. Any other chain that contradicts what is written is refused, and so is one with
//! another first block.

mod books;
pub mod calls;
pub mod certificates;
pub mod contracts;
pub mod dag;
pub mod digest;
pub mod events;
pub mod executions;
mod group;
pub mod ledger;
mod progress;
mod subscription;
pub mod tokens;
pub mod uploads;
pub mod write;

use crate::{
    database::{Database, DatabaseError},
    live::{Live, Tick},
    node::{Node, NodeError, WholeBlock},
    state::{Halt, Standing},
};
use alloy_primitives::B256;
use certificates::Chain;
use contracts::Code;
use digest::{Digest, Nonsense, digest};
use futures::{StreamExt, TryStreamExt, stream};
use group::Group;
pub use group::{BLOCKS_IN_GROUP, TRANSACTIONS_IN_GROUP};
use progress::Progress;
use serde_json::json;
use sqlx::{Any, pool::PoolConnection};
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use subscription::News;
use write::{Asked, Tip};

/// Blocks of one request at most, and requests on the way at once. A node bounds its answers; where blocks are too large for that, there are
/// fewer in a request.
const BLOCKS_AT_ONCE: u64 = 16;
const REQUESTS_AT_ONCE: usize = 4;

/// Between two looks at the node when nothing says that there is something new.
const PAUSE: Duration = Duration::from_millis(250);

/// After a failure.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Contracts whose code is asked for in one request.
const CODES_AT_ONCE: usize = 16;

/// Where it stands in `meta` what the node said of its chain and its validators, for pages while it is away.
const INTRODUCTION: &str = "introduction";

/// What the indexer keeps.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// Rounds of the DAG.
    pub dag_rounds: u64,
    /// Whether calls inside transactions are asked for, which the node has to run again for it.
    pub calls: bool,
}

impl Default for Keep {
    fn default() -> Self {
        Self { dag_rounds: 20_000, calls: true }
    }
}

/// Why a turn of the indexer ended early.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The database.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The node.
    #[error("the node does not answer: {0}")]
    Node(#[from] NodeError),
    /// What the node answered.
    #[error(transparent)]
    Nonsense(#[from] Nonsense),
    /// This database is not of this node's chain.
    #[error("{0}")]
    Halt(Halt),
}

/// The indexer, with the one connection that writes.
pub struct Indexer {
    node: Node,
    database: Database,
    connection: PoolConnection<Any>,
    standing: Arc<Standing>,
    live: Live,
    tip: Option<Tip>,
    /// Whether the node is known to be of the database's chain.
    introduced: bool,
    /// Whether the chain may go back; asked once.
    development: bool,
    /// Validators; asked once.
    committee: u64,
    /// Of catching up.
    progress: Progress,
    /// Blocks of the next requests.
    at_once: u64,
    /// Up to the node's head: what comes now is new, and is told to pages.
    at_head: bool,
    dag: dag::Lane,
    calls: calls::Lane,
    executions: executions::Lane,
    uploads: Option<uploads::Inbox>,
    /// What the node said by itself; nothing where nobody listens.
    news: Arc<News>,
}

impl Indexer {
    /// Nothing is asked or written before [`Indexer::run`].
    pub async fn new(
        node: Node,
        database: &Database,
        standing: Arc<Standing>,
        live: Live,
        keep: Keep,
    ) -> Result<Self, DatabaseError> {
        let mut connection = database.writer().await?;
        let tip = write::tip(&mut connection).await?;
        // What was written before counts before the node says anything new.
        if let Some(said) = write::remembered(&mut connection, INTRODUCTION).await?
            && let Ok((chain_id, genesis, development, committee)) = serde_json::from_str(&said)
        {
            standing.introduced(chain_id, genesis, development, committee);
        }
        if let Some(tip) = tip {
            standing.indexed(tip.number, write::time_of(&mut connection, tip.number).await?);
        }
        standing.certified(certificates::reached(&mut connection).await?);
        let (dag, calls) = (dag::Lane::new(keep.dag_rounds), calls::Lane::new(keep.calls));
        let progress = Progress::begin(tip.map_or(0, |tip| tip.number), Instant::now());
        let (development, committee, at_head, uploads) = (false, 0, false, None);
        let (introduced, at_once, executions) = (false, BLOCKS_AT_ONCE, executions::Lane::default());
        Ok(Self {
            node,
            database: database.clone(),
            connection,
            standing,
            live,
            tip,
            introduced,
            development,
            committee,
            progress,
            at_once,
            at_head,
            dag,
            calls,
            executions,
            uploads,
            news: Arc::default(),
        })
    }

    /// The same, which writes what people upload as well.
    pub fn with_uploads(self, uploads: uploads::Inbox) -> Self {
        Self { uploads: Some(uploads), ..self }
    }

    /// Follows the node until the task is dropped, or the node turns out to be of another chain.
    pub async fn run(mut self) {
        let topics = self.dag.topics();
        let listening = tokio::spawn(subscription::listen(self.node.url().to_owned(), topics, Arc::clone(&self.news)));
        while let Some(pause) = self.step().await {
            if !pause.is_zero() {
                let _ = tokio::time::timeout(pause, self.news.new_head()).await;
            }
        }
        listening.abort();
    }

    /// One round, and how long to wait before the next one; `None`: there is none. May be dropped at any point: what is not written
    /// then is asked for again.
    pub async fn step(&mut self) -> Option<Duration> {
        if let Some(uploads) = self.uploads.as_mut().filter(|_| self.introduced) {
            uploads.serve(&self.node, &mut self.connection, self.tip.map(|tip| tip.number)).await;
        }
        let turn = match self.introduced {
            false => self.introduce().await.map(|()| true),
            true => self.turn().await,
        };
        let turn = match turn {
            Err(IndexError::Halt(halt @ Halt::Contradiction { .. })) => Err(self.why_contradicted(halt).await),
            turn => turn,
        };
        match turn {
            Ok(busy) => {
                self.standing.works();
                Some(if busy { Duration::ZERO } else { PAUSE })
            }
            Err(IndexError::Halt(halt)) => {
                tracing::error!(%halt, "the explorer stops here");
                self.standing.halt(halt);
                None
            }
            Err(error) => {
                if let IndexError::Database(_) = error
                    && let Ok(connection) = self.database.writer().await
                {
                    // The one that failed may never work again.
                    self.connection = connection;
                }
                tracing::warn!(%error, "the explorer waits");
                self.standing.waits(error.to_string());
                // A node that was away may be another one now.
                self.introduced = false;
                Some(PAUSE_AFTER_FAILURE)
            }
        }
    }

    /// Is this the chain that the database is of?
    async fn introduce(&mut self) -> Result<(), IndexError> {
        let (chain_id, genesis) = self.node.identity().await?;
        let found = format!("{chain_id} {genesis}");
        match write::remembered(&mut self.connection, "chain").await? {
            None => write::remember(&mut self.connection, "chain", found).await?,
            Some(known) if known != found => return Err(IndexError::Halt(Halt::AnotherChain { known, found })),
            Some(_) => {}
        }
        self.development = self.node.is_development().await?;
        self.calls.served = self.node.has_traces().await?;
        self.standing.traced(self.calls.reached(&mut self.connection).await?);
        let committee = self.node.validators().await?;
        self.committee = committee.validators.len() as u64;
        self.dag.introduced(&committee.engine, self.committee);
        self.executions.introduced();
        let said = json!((chain_id, genesis, self.development, &committee));
        write::remember(&mut self.connection, INTRODUCTION, said.to_string()).await?;
        self.standing.introduced(chain_id, genesis, self.development, committee);
        self.introduced = true;
        Ok(())
    }

    /// Blocks that contradict what is written may be those of another chain: of a node that was wiped and begun anew meanwhile. That is known
    /// once the node said again who it is.
    async fn why_contradicted(&mut self, halt: Halt) -> IndexError {
        match self.introduce().await {
            Ok(()) => IndexError::Halt(halt),
            Err(error) => error,
        }
    }

    /// One round through all lanes. Answers whether there is more to do at once.
    async fn turn(&mut self) -> Result<bool, IndexError> {
        let heads = self.node.heads().await?;
        let heard_ms = now_ms();
        self.standing.heads(&heads);
        let next = self.tip.map_or(0, |tip| tip.number + 1);
        if !self.still_leads_to(heads.executed.number, heads.executed.hash).await? {
            self.begin_again().await?;
            return Ok(true);
        }
        let behind = heads.executed.number.saturating_add(1).saturating_sub(next);
        self.at_head = behind <= 2 * BLOCKS_AT_ONCE;
        let too_large = behind > 0 && self.fetch(next, behind).await?;
        // A node may be behind what it said; then there is nothing to do at once.
        let grew = self.tip.map_or(0, |tip| tip.number + 1) != next;
        let tip = self.tip.map_or(0, |tip| tip.number);
        let [certified, executed] = [heads.certified, heads.executed].map(|head| head.number.min(tip));
        let heard_ms = self.at_head.then_some(heard_ms);
        let chain = Chain { committee: self.committee, development: self.development, heard_ms };
        // Certificates may be many to catch up with, or not to be had, and rounds do not wait for them at the node. What is wrong with one lane
        // is said when the others had their turn.
        let dag = self.dag.follow(&self.node, &mut self.connection, &self.live, &self.standing, &self.news).await;
        // Before the certificate, with which a block's page is final.
        let told = self.at_head && self.executions.follow(&self.node, &mut self.connection, executed).await?;
        let certified = certificates::follow(&self.node, &mut self.connection, certified, chain).await;
        if let Ok(Some(certified)) = certified {
            self.standing.certified(Some(certified));
            self.live.send(Tick::Certified { number: certified });
        }
        let traced = self.at_head && self.calls.follow(&self.node, &mut self.connection, executed).await?;
        self.standing.traced(self.calls.reached(&mut self.connection).await?);
        dag?;
        let certified = certified?.is_some();
        Ok(grew || too_large || traced || told || certified)
    }

    /// Whether the blocks that are written are the node's.
    async fn still_leads_to(&mut self, head: u64, head_hash: B256) -> Result<bool, IndexError> {
        let Some(tip) = self.tip else { return Ok(true) };
        if head > tip.number {
            // The next block names its parent; that is looked at when it comes.
            return Ok(true);
        }
        let same = write::hash_of(&mut self.connection, head).await? == Some(head_hash);
        match self.development {
            true => Ok(same && head == tip.number),
            // A node that catches up has fewer blocks, and the same ones.
            false if same => Ok(true),
            false => Err(IndexError::Halt(Halt::Contradiction { number: head })),
        }
    }

    async fn begin_again(&mut self) -> Result<(), IndexError> {
        // Blocks that are gone may be those of a node that was wiped meanwhile.
        self.introduce().await?;
        tracing::info!("the chain went back: the explorer begins again");
        write::clear(&mut self.connection).await?;
        self.standing.certified(None);
        self.dag.forget();
        self.calls.forget();
        self.executions.forget();
        self.tip = None;
        self.live.send(Tick::Reverted);
        Ok(())
    }

    /// Fetches blocks side by side and writes them in order. Answers whether it ended at blocks that are too large for one answer, so that
    /// there will be fewer in the next request.
    async fn fetch(&mut self, first: u64, count: u64) -> Result<bool, IndexError> {
        let (node, at_once) = (self.node.clone(), self.at_once);
        let starts = (first..first + count).step_by(at_once as usize);
        let pieces = starts.map(move |start| {
            let node = node.clone();
            let count = at_once.min(first + count - start);
            async move { node.whole_blocks(start, count).await }
        });
        let mut pieces = stream::iter(pieces).buffered(REQUESTS_AT_ONCE);
        let mut group = Group::default();
        self.at_once = BLOCKS_AT_ONCE.min(2 * at_once);
        // A while at most: the other lanes have something to do as well.
        for _ in 0..64 {
            let follow = match pieces.try_next().await {
                Ok(Some(blocks)) => self.take(&mut group, blocks).await,
                Ok(None) => break,
                Err(error) if error.is_refusal() && at_once > 1 => {
                    self.at_once = 1;
                    break;
                }
                Err(error) => Err(error.into()),
            };
            match follow {
                Ok(Follow::Tip) => {}
                Ok(Follow::Later) => break,
                Ok(Follow::Another) if self.development => return self.begin_again().await.map(|()| false),
                // What came before is right, whatever comes now.
                other => {
                    self.write(group).await?;
                    let number = self.tip.map_or(0, |tip| tip.number);
                    return other.and(Err(IndexError::Halt(Halt::Contradiction { number })));
                }
            }
        }
        self.write(group).await?;
        Ok(self.at_once < at_once)
    }

    /// Adds blocks that follow the tip to those that wait, and writes these when they are enough.
    async fn take(&mut self, group: &mut Group, blocks: Vec<WholeBlock>) -> Result<Follow, IndexError> {
        let seen_ms = self.at_head.then(now_ms);
        for whole in &blocks {
            let one = digest(whole, seen_ms)?;
            if one.left_out > 0 {
                let Digest { number, left_out, .. } = &one;
                tracing::warn!(
                    "block {number} is too large for its places: {left_out} transactions, logs and transfers are left out"
                );
            }
            let tip = group.last().map(|last| Tip { number: last.number, hash: last.hash }).or(self.tip);
            match tip {
                // The node had fewer blocks when it was asked for those before: it is catching up, or went back. The next turn sees it.
                _ if one.number != tip.map_or(0, |tip| tip.number + 1) => return Ok(Follow::Later),
                Some(tip) if tip.hash != one.parent => return Ok(Follow::Another),
                _ => group.push(one),
            }
            if group.is_full() {
                self.write(std::mem::take(group)).await?;
            }
        }
        Ok(Follow::Tip)
    }

    async fn write(&mut self, group: Group) -> Result<(), IndexError> {
        let digests = group.into_digests();
        let Some(last) = digests.last() else { return Ok(()) };
        let (number, time_ms) = (last.number, last.time_ms);
        let tip = Tip { number, hash: last.hash };
        let ticks: Vec<_> = digests.iter().map(Tick::of).collect();
        let written = async {
            let asked = self.ask_about(&digests).await?;
            Ok(write::write(&mut self.connection, digests, &asked).await?)
        };
        if let Err(error) = written.await {
            // Nothing of the group is there, unless somebody else wrote it.
            self.tip = write::tip(&mut self.connection).await?;
            return Err(error);
        }
        self.tip = Some(tip);
        self.standing.indexed(number, time_ms);
        self.tell(number);
        if self.at_head {
            ticks.into_iter().for_each(|tick| self.live.send(tick));
        }
        Ok(())
    }

    /// A line now and then while there is far to go.
    fn tell(&mut self, number: u64) {
        let Some(per_second) = self.progress.come_to(number, self.at_head, Instant::now()) else { return };
        let head = self.standing.now().heads.map_or(0, |heads| heads.executed.number);
        tracing::info!("read {number} of {head} blocks, {per_second:.0} a second");
    }

    /// What blocks bring up and do not say.
    async fn ask_about(&mut self, digests: &[Digest]) -> Result<Asked, IndexError> {
        let unknown = write::unknown(&mut self.connection, digests).await?;
        let mut asked = Asked::default();
        let names = tokens::names(&self.node, &unknown.tokens).await?;
        asked.tokens = unknown.tokens.into_iter().zip(names).collect();
        for addresses in unknown.contracts.chunks(CODES_AT_ONCE) {
            let codes = self.node.codes(addresses.to_vec()).await?;
            let codes = addresses.iter().zip(codes).filter(|(_, code)| !code.is_empty());
            asked.contracts.extend(codes.map(|(address, code)| (*address, Code::read(&code))));
        }
        Ok(asked)
    }
}

/// How blocks that came go with those that are there.
enum Follow {
    /// They are the next ones.
    Tip,
    /// Some are missing between.
    Later,
    /// The first names another block as the one before it.
    Another,
}

/// Unix milliseconds by this machine's clock.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::testing;

    #[tokio::test]
    async fn what_was_written_before_counts_from_the_start() {
        let filled = testing::filled().await;
        filled.write_block(41, 1_700_000_000_000).await;
        let (standing, live) = (Arc::new(Standing::default()), Live::default());
        let (node, database) = (filled.site.node.clone(), &filled.site.database);
        let _indexer = Indexer::new(node, database, Arc::clone(&standing), live, Keep::default()).await.unwrap();
        assert_eq!(standing.now().indexed, Some((41, 1_700_000_000_000)));
    }
}
