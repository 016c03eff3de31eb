//! State shared by all method handlers: backend and limits; also resolves block ids.

use crate::backend::{Backend, ChainBlock, Reverted, SyncProgress};
use crate::budget::{self, Budget};
use crate::config::RpcConfig;
use crate::faucet::Faucet;
use crate::fees::TipMemo;
use crate::filters::{self, Filters};
use crate::jsonrpc::Json;
use crate::metrics::Metrics;
use crate::proofs::Proofs;
use crate::rates::{Allowed, Rates};
use crate::time::{Allowance, Timed};
use crate::work::Work;
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{Address, U128};
use corniche_api::{Reason, RpcError};
use corniche_origin::Origin;
use corniche_state::StateView;
use corniche_types::{Height, TimestampMs};
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use tokio::sync::{broadcast, watch};

/// Wall clock. Expiry of filters and the faucet's days depend on it.
pub type Clock = Arc<dyn Fn() -> TimestampMs + Send + Sync>;

/// Larger responses reserve memory of the shared budget, and are sent in pieces of this size.
pub(crate) const LARGE_RESPONSE_BYTES: usize = 64 << 10;

/// The node as one request sees it. Cheap to create.
pub(crate) struct Node {
    common: Arc<Common>,
    /// Deadline of the request; `None` for requests that are always short.
    allowance: Option<Arc<Allowance>>,
}

/// State shared by all requests.
pub(crate) struct Common {
    pub backend: Arc<dyn Backend>,
    pub config: RpcConfig,
    pub metrics: Metrics,
    pub filters: Filters,
    pub tip: TipMemo,
    pub proofs: Proofs,
    pub clock: Clock,
    /// Budget for responses above [`LARGE_RESPONSE_BYTES`], from creation until they are sent.
    pub response_bytes: Budget,
    /// Sends each new head.
    pub heads: watch::Sender<Height>,
    /// Sends the sync progress when catching up begins and when it ends.
    pub syncing: watch::Sender<Option<SyncProgress>>,
    /// Becomes true when the server stops.
    pub stopped: watch::Receiver<bool>,
    pub rates: Rates,
    /// Serialises creating the node's own transactions.
    pub sending: tokio::sync::Mutex<()>,
    pub faucet: Option<Faucet>,
    /// Sends the blocks that a development chain reverted.
    pub reverts: broadcast::Sender<Arc<Reverted>>,
    /// Accounts whose transactions a development chain accepts unsigned.
    pub impersonated: Mutex<BTreeSet<Address>>,
    /// Budget for requests that wait for a receipt.
    pub awaited_receipts: Budget,
    calls: Work,
    reads: Work,
    /// One at a time, because proofs share one tree.
    provers: Work,
}

impl Deref for Node {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

impl Node {
    pub fn new(
        config: RpcConfig,
        backend: Arc<dyn Backend>,
        metrics: Metrics,
        clock: Clock,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let spare_loopback = config.spare_loopback;
        let budget = |kind, most| Budget::new(kind, most, spare_loopback);
        let awaited_receipts = budget::Kind::places(Reason::ServerBusy, "awaited receipts");
        let filters = budget::Kind::places(Reason::TooManyFilters, "filters");
        let response_bytes =
            budget::Kind { reason: Reason::ServerBusy, units: "bytes of answers", largest: config.max_response_bytes };
        let allowed = Allowed {
            address: config.requests_per_second,
            connection: config.requests_per_second_per_connection,
            spare_loopback,
        };
        let common = Common {
            heads: watch::Sender::new(backend.head()),
            syncing: watch::Sender::new(backend.syncing()),
            stopped,
            faucet: config.faucet.clone().map(Faucet::new),
            reverts: broadcast::Sender::new(64),
            impersonated: Mutex::default(),
            sending: tokio::sync::Mutex::default(),
            rates: Rates::new(allowed),
            awaited_receipts: budget(awaited_receipts, config.max_awaited_receipts),
            filters: Filters::new(budget(filters, config.max_filters), config.filter_lifetime),
            calls: Work::new(config.max_running_calls, config.max_waiting_calls),
            reads: Work::new(config.max_running_reads, config.max_waiting_reads),
            provers: Work::new(1, config.max_waiting_calls),
            response_bytes: budget(response_bytes, config.max_response_bytes_in_flight),
            tip: TipMemo::default(),
            proofs: Proofs::default(),
            backend,
            config,
            metrics,
            clock,
        };
        Self { common: Arc::new(common), allowance: None }
    }

    /// Runs a contract call, or similar long work, on a thread outside the async runtime, with the timeout
    /// for requests. The timeout starts when the job starts, not while it is queued.
    pub async fn call(
        &self,
        client: Origin,
        job: impl FnOnce(&Self) -> Result<Json, RpcError> + Send + 'static,
    ) -> Result<Json, RpcError> {
        self.compute(client, move |node| node.within_limits(client, job(node)?)).await
    }

    /// Like [`Self::call`], for results that are not a response yet.
    pub async fn compute<T: Send + 'static>(
        &self,
        client: Origin,
        job: impl FnOnce(&Self) -> Result<T, RpcError> + Send + 'static,
    ) -> Result<T, RpcError> {
        self.timed(&self.calls, client, job).await
    }

    /// Makes proofs, with the same timeout. Separate from calls, because a proof may have to wait for the
    /// sealer.
    pub async fn prove(
        &self,
        client: Origin,
        job: impl FnOnce(&Self) -> Result<Json, RpcError> + Send + 'static,
    ) -> Result<Json, RpcError> {
        self.timed(&self.provers, client, move |node| node.within_limits(client, job(node)?)).await
    }

    async fn timed<T: Send + 'static>(
        &self,
        work: &Work,
        client: Origin,
        job: impl FnOnce(&Self) -> Result<T, RpcError> + Send + 'static,
    ) -> Result<T, RpcError> {
        let common = Arc::clone(&self.common);
        let job = move || {
            let allowance = Allowance::from_now(common.config.max_call_time);
            let node = Self { common, allowance: Some(Arc::clone(&allowance)) };
            let answer = job(&node);
            allowance.check()?;
            answer
        };
        work.run(client, job).await
    }

    /// Reads blocks, with the same timeout. Has its own threads, so that calls cannot starve reads.
    pub async fn read(
        &self,
        client: Origin,
        job: impl FnOnce(&Self) -> Result<Json, RpcError> + Send + 'static,
    ) -> Result<Json, RpcError> {
        let node = Self { common: Arc::clone(&self.common), allowance: None };
        self.reads.run(client, move || node.within_limits(client, job(&node)?)).await
    }

    /// Reads a few keys of a state: at once if the state is in memory, otherwise like [`Self::read`].
    pub async fn look(
        &self,
        client: Origin,
        id: BlockId,
        look: impl FnOnce(&dyn StateView) -> Result<Json, RpcError> + Send + 'static,
    ) -> Result<Json, RpcError> {
        if let Some(state) = self.height(id).and_then(|height| self.backend.state(height)) {
            return look(&*state);
        }
        self.read(client, move |node| {
            let (_, state) = node.state(id)?;
            let answer = look(&*state)?;
            still_there(&*state)?;
            Ok(answer)
        })
        .await
    }

    /// Checks the size limit and reserves memory for a large response, while only one copy exists.
    fn within_limits(&self, client: Origin, mut answer: Json) -> Result<Json, RpcError> {
        let bytes = answer.text.get().len();
        if bytes > self.config.max_response_bytes {
            return Err(Reason::ResponseTooLarge.error());
        }
        if bytes > LARGE_RESPONSE_BYTES {
            answer.reserved = self.response_bytes.lend(client, bytes)?;
        }
        Ok(answer)
    }

    /// Creates a filter that starts at the head.
    pub fn add_filter(&self, client: Origin, kind: filters::Kind) -> Result<U128, RpcError> {
        self.filters.add(client, kind, self.backend.head(), (self.clock)())
    }

    /// Resolves a block id to a height; `None` if there is no such block. Blocks are final when they are
    /// made, so there is no pending block: `pending` means the head.
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

    pub fn block(&self, id: BlockId) -> Option<Arc<ChainBlock>> {
        self.height(id).and_then(|height| self.backend.block(height))
    }

    /// State after a block, from memory or from disk.
    pub fn kept_state(&self, height: Height) -> Option<Arc<dyn StateView>> {
        self.backend.state(height).or_else(|| self.backend.old_state(height))
    }

    /// State at a block.
    ///
    /// # Errors
    ///
    /// The block does not exist, or its state is pruned. Values are never reported as zero instead.
    pub fn state(&self, id: BlockId) -> Result<(Height, Arc<dyn StateView>), RpcError> {
        let height = self.height(id).ok_or_else(|| Reason::HeaderNotFound.error())?;
        let state = self.kept_state(height).ok_or_else(|| {
            Reason::StateNotAvailable.with(format!("this node does not keep the state of block {height} any more"))
        })?;
        let state = match &self.allowance {
            Some(allowance) => Arc::new(Timed { view: state, allowance: Arc::clone(allowance) }),
            None => state,
        };
        Ok((height, state))
    }
}

/// Call it after reading a state: a state on disk may have been pruned meanwhile.
pub(crate) fn still_there(state: &dyn StateView) -> Result<(), RpcError> {
    if state.interrupted() { Err(interrupted()) } else { Ok(()) }
}

pub(crate) fn interrupted() -> RpcError {
    Reason::StateNotAvailable.with("it was forgotten, or could not be read, while it was being read")
}
