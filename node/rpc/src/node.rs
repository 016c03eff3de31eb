//! What all method handlers share: the backend, the limits, and how a block is named.

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

/// Tells the time of day; only the age of filters depends on it.
pub type Clock = Arc<dyn Fn() -> TimestampMs + Send + Sync>;

/// Answers above this are counted against the limit of all large ones, and sent in pieces of this size.
pub(crate) const LARGE_RESPONSE_BYTES: usize = 64 << 10;

/// The node as one request sees it. Cheap to make.
pub(crate) struct Node {
    common: Arc<Common>,
    /// How long the request may run; `None` where nothing runs long.
    allowance: Option<Arc<Allowance>>,
}

/// What all requests share.
pub(crate) struct Common {
    pub backend: Arc<dyn Backend>,
    pub config: RpcConfig,
    pub metrics: Metrics,
    pub filters: Filters,
    pub tip: TipMemo,
    pub proofs: Proofs,
    pub clock: Clock,
    /// For answers above [`LARGE_RESPONSE_BYTES`], from when they are made until they are sent.
    pub response_bytes: Budget,
    /// The newest head, told as it comes.
    pub heads: watch::Sender<Height>,
    /// What catching up looks like, told when it begins and when it ends.
    pub syncing: watch::Sender<Option<SyncProgress>>,
    /// Becomes true when the server stops.
    pub stopped: watch::Receiver<bool>,
    pub rates: Rates,
    /// The node's own transactions are made one after the other.
    pub sending: tokio::sync::Mutex<()>,
    pub faucet: Option<Faucet>,
    /// Blocks that a development chain took back.
    pub reverts: broadcast::Sender<Arc<Reverted>>,
    /// Accounts whose transactions a development chain takes unsigned.
    pub impersonated: Mutex<BTreeSet<Address>>,
    /// Places for requests that wait for a receipt.
    pub awaited_receipts: Budget,
    calls: Work,
    reads: Work,
    /// One at a time: they share a tree.
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

    /// Runs a contract, or something as long, off the threads that serve connections, and not for longer than a request may take. The time
    /// begins when its turn has come.
    pub async fn call(
        &self,
        client: Origin,
        job: impl FnOnce(&Self) -> Result<Json, RpcError> + Send + 'static,
    ) -> Result<Json, RpcError> {
        self.compute(client, move |node| node.within_limits(client, job(node)?)).await
    }

    /// The same for what is not an answer yet.
    pub async fn compute<T: Send + 'static>(
        &self,
        client: Origin,
        job: impl FnOnce(&Self) -> Result<T, RpcError> + Send + 'static,
    ) -> Result<T, RpcError> {
        self.timed(&self.calls, client, job).await
    }

    /// Makes proofs, likewise, and beside calls: one may have to wait for the sealer.
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

    /// Reads blocks, likewise. Calls cannot use up its room.
    pub async fn read(
        &self,
        client: Origin,
        job: impl FnOnce(&Self) -> Result<Json, RpcError> + Send + 'static,
    ) -> Result<Json, RpcError> {
        let node = Self { common: Arc::clone(&self.common), allowance: None };
        self.reads.run(client, move || node.within_limits(client, job(&node)?)).await
    }

    /// Reads a few keys of a state: at once where it is in memory, and like [`Self::read`] where it is not.
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

    /// Refuses an answer that is too large, now or ever, while it is still the only copy.
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

    /// A filter that goes on from here.
    pub fn add_filter(&self, client: Origin, kind: filters::Kind) -> Result<U128, RpcError> {
        self.filters.add(client, kind, self.backend.head(), (self.clock)())
    }

    /// The height a client means; `None` when there is no such block. Blocks become final as they are made, so there is no
    /// pending block: `pending` is the head.
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

    /// From memory, or from disk.
    pub fn kept_state(&self, height: Height) -> Option<Arc<dyn StateView>> {
        self.backend.state(height).or_else(|| self.backend.old_state(height))
    }

    /// State is read at a block that exists and is recent enough; anything else is an error, never zero.
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

/// To be asked after reading a state: one that lies on disk may have been forgotten meanwhile.
pub(crate) fn still_there(state: &dyn StateView) -> Result<(), RpcError> {
    if state.interrupted() { Err(interrupted()) } else { Ok(()) }
}

pub(crate) fn interrupted() -> RpcError {
    Reason::StateNotAvailable.with("it was forgotten, or could not be read, while it was being read")
}
