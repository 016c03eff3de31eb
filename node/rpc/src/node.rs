//! State shared by all method handlers: backend and limits; also resolves block ids.

use crate::backend::{Backend, ChainBlock, DevChain, Reverted, SyncProgress};
use crate::budget::{self, Budget};
use crate::config::RpcConfig;
use crate::deadline::{DeadlineView, RequestDeadline};
use crate::fair_executor::FairExecutor;
use crate::filters::{self, Filters};
use crate::jsonrpc::Json;
use crate::metrics::Metrics;
use crate::rate_limit::{RateLimiter, RateLimits};
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{Address, B256, U128};
use corniche_api::{Reason, RpcError};
use corniche_origin::Origin;
use corniche_state::{StateView, Tree};
use corniche_types::{Epoch, Header, Height, TimestampMs};
use std::collections::BTreeSet;
use std::ops::{Deref, RangeInclusive};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{broadcast, watch};

/// Wall clock. Expiry of filters and the faucet's days depend on it.
pub type Clock = Arc<dyn Fn() -> TimestampMs + Send + Sync>;

/// Larger responses reserve memory of the shared budget, and are sent in pieces of this size.
pub(crate) const LARGE_RESPONSE_BYTES: usize = 64 << 10;

/// The node as one request sees it. Cheap to create.
pub(crate) struct Node {
    shared: Arc<SharedState>,
    /// Deadline of the request; `None` for requests that are always short.
    deadline: Option<Arc<RequestDeadline>>,
}

/// State shared by all requests.
pub(crate) struct SharedState {
    pub backend: Arc<dyn Backend>,
    dev: Option<Arc<dyn DevChain>>,
    pub config: RpcConfig,
    pub metrics: Metrics,
    pub filters: Filters,
    pub tip: TipCache,
    /// Tree for proofs and its height, once the first proof was requested.
    pub proof_tree: Mutex<Option<(Height, Tree)>>,
    pub clock: Clock,
    /// Budget for responses above [`LARGE_RESPONSE_BYTES`], from creation until they are sent.
    pub response_bytes: Budget,
    /// Sends each new head.
    pub heads: watch::Sender<Height>,
    /// Changes whenever a transaction gets a receipt before its block.
    pub early: watch::Sender<()>,
    /// Sends the sync progress when catching up begins and when it ends.
    pub syncing: watch::Sender<Option<SyncProgress>>,
    /// Sends each epoch that begins.
    pub epochs: watch::Sender<Epoch>,
    /// Becomes true when the server stops.
    pub stopped: watch::Receiver<bool>,
    pub rate_limiter: RateLimiter,
    /// Serialises creating the node's own transactions.
    pub send_lock: tokio::sync::Mutex<()>,
    /// Sends the blocks that a development chain reverted.
    pub reverts: broadcast::Sender<Arc<Reverted>>,
    /// Accounts whose transactions a development chain accepts unsigned.
    pub impersonated: Mutex<BTreeSet<Address>>,
    /// Budget for requests that wait for a receipt.
    pub awaited_receipts: Budget,
    /// Budget for addresses and topics of filters and log subscriptions.
    pub log_criteria: Budget,
    calls: FairExecutor,
    reads: FairExecutor,
    /// One at a time, because proofs share one tree.
    provers: FairExecutor,
}

/// Cached suggestion of a tip for one head: wallets ask for it far more often than it changes.
#[derive(Debug, Default)]
pub(crate) struct TipCache(Mutex<Option<(Height, u64)>>);

impl TipCache {
    pub fn get(&self, head: Height) -> Option<u64> {
        self.lock().filter(|(height, _)| *height == head).map(|(_, tip)| tip)
    }

    pub fn set(&self, head: Height, tip: u64) {
        *self.lock() = Some((head, tip));
    }

    /// Call it after a revert: another block may follow at the same height.
    pub fn clear(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Height, u64)>> {
        // Every critical section leaves the entry consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for Node {
    type Target = SharedState;

    fn deref(&self) -> &SharedState {
        &self.shared
    }
}

impl SharedState {
    /// Development commands; `None` on all other chains.
    pub fn dev(&self) -> Option<&dyn DevChain> {
        self.dev.as_deref()
    }
}

impl Node {
    pub fn new(
        config: RpcConfig,
        backend: Arc<dyn Backend>,
        dev: Option<Arc<dyn DevChain>>,
        metrics: Metrics,
        clock: Clock,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let spare_loopback = config.spare_loopback;
        let budget = |kind, limit| Budget::new(kind, limit, spare_loopback);
        let awaited_receipts = budget::Resource::slots(Reason::ServerBusy, "awaited receipts");
        let filters = budget::Resource::slots(Reason::TooManyFilters, "filters");
        let log_criteria = budget::Resource {
            reason: Reason::TooManyLogCriteria,
            units: "addresses and topics",
            // A filter has addresses, and topics in four positions.
            largest: 5 * config.max_log_criteria,
        };
        let response_bytes =
            budget::Resource { reason: Reason::ServerBusy, units: "bytes of responses", largest: config.max_response_bytes };
        let limits = RateLimits {
            address: config.requests_per_second,
            connection: config.requests_per_second_per_connection,
            spare_loopback,
        };
        let shared = SharedState {
            heads: watch::Sender::new(backend.head()),
            early: watch::Sender::new(()),
            syncing: watch::Sender::new(backend.syncing()),
            epochs: watch::Sender::new(backend.epoch()),
            stopped,
            reverts: broadcast::Sender::new(64),
            impersonated: Mutex::default(),
            send_lock: tokio::sync::Mutex::default(),
            rate_limiter: RateLimiter::new(limits),
            awaited_receipts: budget(awaited_receipts, config.max_awaited_receipts),
            log_criteria: budget(log_criteria, config.max_log_criteria_in_use),
            filters: Filters::new(budget(filters, config.max_filters), config.filter_lifetime),
            calls: FairExecutor::new(config.max_running_calls, config.max_waiting_calls),
            reads: FairExecutor::new(config.max_running_reads, config.max_waiting_reads),
            provers: FairExecutor::new(1, config.max_waiting_calls),
            response_bytes: budget(response_bytes, config.max_response_bytes_in_flight),
            tip: TipCache::default(),
            proof_tree: Mutex::default(),
            backend,
            dev,
            config,
            metrics,
            clock,
        };
        Self { shared: Arc::new(shared), deadline: None }
    }

    /// Runs a contract call, or similar long work, on a thread outside the async runtime, with the timeout
    /// for requests. The timeout starts when the job starts, not while it is queued.
    pub async fn call(
        &self,
        client: Origin,
        job: impl FnOnce(&Self) -> Result<Json, RpcError> + Send + 'static,
    ) -> Result<Json, RpcError> {
        self.compute(client, move |node| node.reserve_response(client, job(node)?)).await
    }

    /// Like [`Self::call`], for results that are not a response yet.
    pub async fn compute<T: Send + 'static>(
        &self,
        client: Origin,
        job: impl FnOnce(&Self) -> Result<T, RpcError> + Send + 'static,
    ) -> Result<T, RpcError> {
        self.run_with_deadline(&self.calls, client, job).await
    }

    /// Makes proofs, with the same timeout. Separate from calls, because a proof may have to wait for the
    /// sealer.
    pub async fn prove(
        &self,
        client: Origin,
        job: impl FnOnce(&Self) -> Result<Json, RpcError> + Send + 'static,
    ) -> Result<Json, RpcError> {
        self.run_with_deadline(&self.provers, client, move |node| node.reserve_response(client, job(node)?)).await
    }

    async fn run_with_deadline<T: Send + 'static>(
        &self,
        executor: &FairExecutor,
        client: Origin,
        job: impl FnOnce(&Self) -> Result<T, RpcError> + Send + 'static,
    ) -> Result<T, RpcError> {
        let shared = Arc::clone(&self.shared);
        let job = move || {
            let deadline = RequestDeadline::from_now(shared.config.max_call_time);
            let node = Self { shared, deadline: Some(Arc::clone(&deadline)) };
            let response = job(&node);
            deadline.check()?;
            response
        };
        executor.run(client, job).await
    }

    /// Reads blocks, with the same timeout. Has its own threads, so that calls cannot starve reads.
    pub async fn read(
        &self,
        client: Origin,
        job: impl FnOnce(&Self) -> Result<Json, RpcError> + Send + 'static,
    ) -> Result<Json, RpcError> {
        self.scan(client, move |node| node.reserve_response(client, job(node)?)).await
    }

    /// Like [`Self::read`], for results that are not a response yet.
    pub async fn scan<T: Send + 'static>(
        &self,
        client: Origin,
        job: impl FnOnce(&Self) -> Result<T, RpcError> + Send + 'static,
    ) -> Result<T, RpcError> {
        let node = Self { shared: Arc::clone(&self.shared), deadline: None };
        self.reads.run(client, move || job(&node)).await
    }

    /// Reads a few keys of a state: at once if the state is in memory, otherwise like [`Self::read`].
    pub async fn read_state(
        &self,
        client: Origin,
        id: BlockId,
        read_state: impl FnOnce(&dyn StateView) -> Result<Json, RpcError> + Send + 'static,
    ) -> Result<Json, RpcError> {
        let in_memory = || self.newest_state(id).or_else(|| self.backend.state(self.height(id)?));
        if let Some(state) = in_memory() {
            return read_state(&*state);
        }
        self.read(client, move |node| {
            let (_, state) = node.state(id)?;
            let response = read_state(&*state)?;
            ensure_available(&*state)?;
            Ok(response)
        })
        .await
    }

    /// Checks the size limit and reserves memory for a large response, while only one copy exists.
    fn reserve_response(&self, client: Origin, mut response: Json) -> Result<Json, RpcError> {
        let bytes = response.text.get().len();
        if bytes > self.config.max_response_bytes {
            return Err(Reason::ResponseTooLarge.error());
        }
        if bytes > LARGE_RESPONSE_BYTES {
            response.reserved = self.response_bytes.reserve(client, bytes)?;
        }
        Ok(response)
    }

    /// Creates a filter that starts at the head.
    pub fn add_filter(&self, client: Origin, kind: filters::FilterKind) -> Result<U128, RpcError> {
        self.filters.add(client, kind, self.backend.head(), (self.clock)())
    }

    /// Resolves a block id to a height; `None` if there is no such block. Blocks are final when they are
    /// made, so there is no pending block: `pending` means the head. `earliest` is the genesis, which every node has, also
    /// one that does not have the blocks after it.
    pub fn height(&self, id: BlockId) -> Option<Height> {
        let head = self.backend.head();
        match id {
            BlockId::Hash(hash) => self.backend.height_of(&hash.block_hash),
            BlockId::Number(BlockNumberOrTag::Latest | BlockNumberOrTag::Pending) => Some(head),
            BlockId::Number(BlockNumberOrTag::Safe | BlockNumberOrTag::Finalized) => Some(self.backend.finalized()),
            BlockId::Number(BlockNumberOrTag::Earliest) => Some(Height(0)),
            BlockId::Number(BlockNumberOrTag::Number(number)) => (number <= head.0).then_some(Height(number)),
        }
    }

    /// Refuses a block of the chain that this node does not have. Accepts heights above the head.
    ///
    /// # Errors
    ///
    /// [`Reason::BlockNotAvailable`].
    pub fn ensure_kept(&self, height: Height) -> Result<(), RpcError> {
        self.ensure_range_kept(height.0..=height.0)
    }

    /// Like [`Self::ensure_kept`], for all blocks of a range.
    pub fn ensure_range_kept(&self, heights: RangeInclusive<u64>) -> Result<(), RpcError> {
        let first = self.backend.first_block().0;
        // Every node has the genesis.
        let lowest = (*heights.start()).max(1);
        if lowest <= *heights.end() && lowest < first { Err(RpcError::pruned_below(first)) } else { Ok(()) }
    }

    /// Like [`Self::height`], for methods that need the block.
    ///
    /// # Errors
    ///
    /// [`Reason::BlockNotAvailable`].
    pub fn kept_height(&self, id: BlockId) -> Result<Option<Height>, RpcError> {
        let height = self.height(id);
        height.map_or(Ok(()), |height| self.ensure_kept(height))?;
        Ok(height)
    }

    /// The block with this id; `None` if there is no such block.
    ///
    /// # Errors
    ///
    /// [`Reason::BlockNotAvailable`].
    pub fn block(&self, id: BlockId) -> Result<Option<Arc<ChainBlock>>, RpcError> {
        self.height(id).map_or(Ok(None), |height| self.block_at(height))
    }

    /// Like [`Self::block`], by height.
    pub fn block_at(&self, height: Height) -> Result<Option<Arc<ChainBlock>>, RpcError> {
        let block = self.backend.block(height);
        if block.is_none() {
            // Checked after reading: the block may have been deleted just before.
            self.ensure_kept(height)?;
        }
        Ok(block)
    }

    /// Header of a block whose state was found.
    ///
    /// # Errors
    ///
    /// [`Reason::BlockNotAvailable`], or [`Reason::HeaderNotFound`] after a revert.
    pub fn header_at(&self, height: Height) -> Result<Header, RpcError> {
        if let Some(header) = self.backend.header(height) {
            return Ok(header);
        }
        self.ensure_kept(height)?;
        Err(Reason::HeaderNotFound.error())
    }

    /// Block of an executed transaction, and its position there. `None` for an unknown transaction, also for one whose block this
    /// node does not have.
    pub fn executed(&self, hash: &B256) -> Option<(Arc<ChainBlock>, usize)> {
        let (height, index) = self.backend.transaction(hash)?;
        Some((self.backend.block(height)?, index as usize))
    }

    /// As [`Self::executed`]. A committed transaction before its block is in a block of its own, whose hash is zero.
    pub fn executed_or_early(&self, hash: &B256) -> Option<(Arc<ChainBlock>, usize)> {
        // In this order: an early one may move into its block between the two look-ups.
        let early = self.backend.early(hash);
        self.executed(hash).or_else(|| Some((Arc::new(early?.into_block()), 0)))
    }

    /// State after a block, from memory or from disk.
    pub fn available_state(&self, height: Height) -> Option<Arc<dyn StateView>> {
        self.backend.state(height).or_else(|| self.backend.historical_state(height))
    }

    /// State that is newer than any block's, if `id` names it.
    fn newest_state(&self, id: BlockId) -> Option<Arc<dyn StateView>> {
        let is_newest = matches!(id, BlockId::Number(BlockNumberOrTag::Latest | BlockNumberOrTag::Pending));
        is_newest.then(|| self.backend.newest_state()).flatten()
    }

    /// State at a block, or for `latest` and `pending` also a newer one ([`Backend::newest_state`]).
    ///
    /// # Errors
    ///
    /// The block does not exist, or its state is pruned. Values are never reported as zero instead.
    pub fn state(&self, id: BlockId) -> Result<(Height, Arc<dyn StateView>), RpcError> {
        let height = self.height(id).ok_or_else(|| Reason::HeaderNotFound.error())?;
        let state = self
            .newest_state(id)
            .or_else(|| self.available_state(height))
            .ok_or_else(|| Reason::StateNotAvailable.with(format!("the state of block {height} is pruned")))?;
        let state = match &self.deadline {
            Some(deadline) => Arc::new(DeadlineView { view: state, deadline: Arc::clone(deadline) }),
            None => state,
        };
        Ok((height, state))
    }
}

/// Call it after reading a state: a state on disk may have been pruned meanwhile.
pub(crate) fn ensure_available(state: &dyn StateView) -> Result<(), RpcError> {
    if state.interrupted() { Err(state_unavailable()) } else { Ok(()) }
}

pub(crate) fn state_unavailable() -> RpcError {
    Reason::StateNotAvailable.with("it was pruned or could not be read")
}

/// Returns when the server stops.
pub(crate) async fn wait_for_stop(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender was dropped without a stop: keep serving.
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}
