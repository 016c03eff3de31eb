//! Data source of the RPC server: store, state and the copy of the pool.

use crate::{
    epoch_log::EpochLog, newest_blocks::NewestBlocks, peers, shared::Shared, snapshots::Shelf, status::describe_epoch,
};
use corniche_admission::Refusal;
use corniche_api::{
    CommitteeInfo, EpochInfo, ErrorCode, Execution, Peers, Reason, RpcError, Statistics, SyncStatus, TransactionStatus,
    TransactionTimes, Validators,
};
use corniche_crypto::VerifiedTransaction;
use corniche_network::{NetworkHandle, PeerKey};
use corniche_rpc::{Backend, ChainBlock, ChainEvent, ChangedKeys, DagEvents, SyncProgress};
use corniche_state::{SharedTree, State, StateView};
use corniche_store::{Reader, Trace};
use corniche_types::{Address, B256, Bloom, Bytes, Certificate, Epoch, EpochChange, Genesis, Header, Height, ProtocolRules};
use corniche_vm::Vm;
use futures::future::BoxFuture;
use std::{
    ops::RangeInclusive,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::{broadcast, watch};

/// Running node, as seen by its RPC server.
pub struct NodeBackend {
    pub genesis: Arc<Genesis>,
    pub readers: Arc<ReaderHandle>,
    pub epoch_log: EpochLog,
    /// Snapshots that this node offers; `None`: a node without peers.
    pub shelf: Option<Arc<Shelf>>,
    pub newest_blocks: NewestBlocks,
    pub shared: Arc<Shared>,
    pub network: Option<NetworkHandle>,
    /// Identity among peers, with or without a network.
    pub identity: Option<PeerKey>,
    pub vm: Vm,
    pub starting: Height,
    /// Response to `web3_clientVersion`.
    pub version: String,
}

/// Readers of an open chain.
pub struct Readers {
    pub reader: Reader,
    pub state: State,
    pub tree: SharedTree,
    pub dag: Dag,
}

/// Default client version.
pub fn own_version() -> String {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("corniche/v{}/{os}-{arch}", env!("CARGO_PKG_VERSION"))
}

/// Current view: a suspended chain resumes with another one.
pub struct ReaderHandle(RwLock<Arc<Readers>>);

impl ReaderHandle {
    pub fn new(readers: Readers) -> Self {
        Self(RwLock::new(Arc::new(readers)))
    }

    pub fn current(&self) -> Arc<Readers> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn replace(&self, readers: Readers) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let previous = std::mem::replace(&mut *current, Arc::new(readers));
        // Dropped after the lock, so that readers do not wait for the end of its trace thread.
        drop(current);
        drop(previous);
    }
}

/// Source of `corniche_getDag`.
pub enum Dag {
    FullNode,
    /// Validator without a trace, by configuration or after an error.
    NotTraced,
    Traced(Trace),
}

impl Dag {
    /// `None` if there is no trace.
    pub fn traced(&self) -> Option<&Trace> {
        self.trace().ok()
    }

    fn trace(&self) -> Result<&Trace, RpcError> {
        match self {
            Self::FullNode => Err(Reason::DagNotAvailable.with("a full node does not order; use a validator")),
            Self::NotTraced => Err(Reason::DagNotAvailable.with("limits.trace_mib is 0, or see the log of the node")),
            Self::Traced(trace) => Ok(trace),
        }
    }
}

impl Backend for NodeBackend {
    fn chain_id(&self) -> u64 {
        self.genesis.chain_id
    }

    fn rules(&self, height: Height) -> &'static ProtocolRules {
        let genesis = &self.genesis;
        if genesis.epochs().is_none() {
            return genesis.rules_at(height);
        }
        let reader = &self.readers.current().reader;
        let record = |height| reader.ordering(height).map(|(record, _)| record);
        let head = reader.head().height();
        let version = if height > head {
            record(head).map(|record| record.next_protocol_version())
        } else {
            record(height).map(|record| record.protocol_version)
        };
        let version = genesis.version_at(height, version.unwrap_or(genesis.protocol_version));
        // A node with a block of an unknown version is about to halt (U3).
        ProtocolRules::of(version).unwrap_or(ProtocolRules::LATEST)
    }

    fn client_version(&self) -> String {
        self.version.clone()
    }

    fn head(&self) -> Height {
        self.readers.current().reader.head().height()
    }

    fn finalized(&self) -> Height {
        self.readers.current().reader.certified().min(self.head())
    }

    fn first_block(&self) -> Height {
        self.readers.current().reader.first_block()
    }

    fn header(&self, height: Height) -> Option<Header> {
        self.newest_blocks.header(&self.readers.current().reader, height)
    }

    fn block(&self, height: Height) -> Option<Arc<ChainBlock>> {
        self.newest_blocks.block(&self.readers.current().reader, height)
    }

    fn logs_bloom(&self, height: Height) -> Option<Bloom> {
        self.header(height).map(|header| header.logs_bloom)
    }

    fn timestamp(&self, height: Height) -> Option<u64> {
        self.header(height).map(|header| header.timestamp)
    }

    fn height_of(&self, block_hash: &B256) -> Option<Height> {
        self.readers.current().reader.height_of(block_hash)
    }

    fn transaction(&self, hash: &B256) -> Option<(Height, u32)> {
        self.readers.current().reader.transaction(hash)
    }

    fn state(&self, height: Height) -> Option<Arc<dyn StateView>> {
        if height > self.head() {
            return None;
        }
        self.readers.current().state.at(height).map(|snapshot| Arc::new(snapshot) as Arc<dyn StateView>)
    }

    fn historical_state(&self, height: Height) -> Option<Arc<dyn StateView>> {
        self.readers.current().reader.state(height)
    }

    fn tree(&self) -> Option<SharedTree> {
        Some(self.readers.current().tree.clone())
    }

    fn changed_keys(&self, height: Height) -> Option<ChangedKeys> {
        self.readers.current().reader.block(height).map(|block| ChangedKeys::from(&block.committed.changes))
    }

    fn submit(&self, raw: Bytes) -> BoxFuture<'static, Result<B256, RpcError>> {
        let (shared, chain_id) = (self.shared.clone(), self.genesis.chain_id);
        Box::pin(async move {
            // Verifying a signature takes 35 µs, less than passing it to another thread and back. Batches yield after each.
            let check = || {
                let checked = shared.verify_once(|known| corniche_admission::check_once(raw.clone(), chain_id, known));
                checked.map_err(|refusal| {
                    shared.counters.refused.fetch_add(1, Ordering::Relaxed);
                    refusal_error(refusal)
                })
            };
            shared.admit(check).await
        })
    }

    fn fee_addresses(&self, epoch: Epoch, state: &dyn StateView) -> Vec<Address> {
        corniche_pipeline::fee_addresses(&self.genesis, epoch, state)
    }

    fn pool_transaction(&self, hash: &B256) -> Option<VerifiedTransaction> {
        self.shared.pool_view.transaction(hash)
    }

    fn pool(&self, sender: Option<&Address>) -> Vec<VerifiedTransaction> {
        match sender {
            Some(sender) => self.shared.pool_view.of_sender(sender),
            None => self.shared.pool_view.all(),
        }
    }

    fn pending_nonce(&self, address: &Address) -> u64 {
        match self.state(self.head()) {
            Some(state) => self.shared.pool_view.pending_nonce(address, &*state),
            None => 0,
        }
    }

    fn next_base_fee(&self) -> u64 {
        self.shared.next_base_fee()
    }

    fn vm(&self) -> &Vm {
        &self.vm
    }

    fn subscribe(&self) -> broadcast::Receiver<ChainEvent> {
        self.shared.events.subscribe()
    }

    fn peer_count(&self) -> usize {
        self.network.as_ref().map_or(0, |network| network.peers().len())
    }

    fn peers(&self) -> Peers {
        peers::peers_response(&self.shared.committee(), self.identity, self.network.as_ref())
    }

    fn syncing(&self) -> Option<SyncProgress> {
        let (current, highest) = (self.head(), Height(self.shared.target.load(Ordering::Relaxed)));
        // A full node is usually one or two blocks behind the newest certificate.
        (highest.0 > current.0 + 8).then_some(SyncProgress { starting: self.starting, current, highest })
    }

    fn certificate(&self, height: Height) -> Option<Certificate> {
        self.readers.current().reader.certificate(height).as_deref().cloned()
    }

    fn epoch_change(&self, epoch: Epoch) -> Option<EpochChange> {
        self.epoch_log.change(epoch)
    }

    fn epoch(&self) -> Epoch {
        self.shared.committee().epoch()
    }

    fn epoch_info(&self, epoch: Epoch) -> Option<EpochInfo> {
        describe_epoch(&self.genesis, &self.epoch_log, epoch)
    }

    fn committee_info(&self, epoch: Epoch) -> Option<CommitteeInfo> {
        self.describe_committee(epoch)
    }

    fn sync_status(&self) -> SyncStatus {
        self.describe_sync()
    }

    fn status(&self, hash: &B256) -> Option<TransactionStatus> {
        let Some((height, _)) = self.readers.current().reader.transaction(hash) else {
            return self.shared.pool_view.status(hash);
        };
        let block_hash = self.readers.current().reader.block(height)?.hash;
        let block_number = height.0;
        Some(if height <= self.finalized() {
            TransactionStatus::Certified { block_hash, block_number }
        } else {
            TransactionStatus::Executed { block_hash, block_number }
        })
    }

    fn pool_times(&self, hash: &B256) -> TransactionTimes {
        self.shared.pool_view.times(hash)
    }

    fn validators(&self) -> Validators {
        let committee = self.shared.committee();
        let members: Vec<_> = committee.members().map(|(_, member)| member.clone()).collect();
        Validators::in_epoch(&self.genesis, committee.epoch(), committee.hash(), &members)
    }

    fn statistics(&self) -> Statistics {
        let counters = &self.shared.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            pool_transactions: self.shared.pool_view.len() as u64,
            executed: read(&counters.executed),
            skipped: read(&counters.skipped),
            refused: read(&counters.refused),
            adopted: read(&counters.transactions_adopted),
            runs: read(&counters.transactions_run),
            runs_again: read(&counters.transactions_run_again),
            early_runs: read(&counters.early_runs),
            early_without_result: read(&counters.early_without_result),
            early_passed_over: read(&counters.early_passed_over),
        }
    }

    fn execution(&self, height: Height) -> Option<Execution> {
        let stats = self.shared.executions.get(height)?;
        let block = self.readers.current().reader.block(height)?;
        let hashes: Vec<_> = block.receipts().iter().map(|receipt| receipt.transaction_hash).collect();
        Some(Execution { received_of: self.shared.pool_view.received_of(&hashes), ..stats })
    }

    fn dag_newest_round(&self) -> Result<u64, RpcError> {
        Ok(self.readers.current().dag.trace()?.newest_round().unwrap_or(0))
    }

    fn dag_growth(&self) -> watch::Receiver<()> {
        self.shared.dag.subscribe()
    }

    fn dag_events(&self, rounds: RangeInclusive<u64>, max: usize) -> Result<DagEvents, RpcError> {
        let readers = self.readers.current();
        let trace = readers.dag.trace()?;
        let window = trace.read(rounds, max);
        let events = window.records.into_iter().map(|record| (record.time, record.event)).collect();
        Ok(DagEvents { events, more: window.more, dropped: trace.dropped() })
    }
}

/// Admission's refusal as an RPC error: geth's code for refused transactions, and geth's text.
pub fn refusal_error(refusal: Refusal) -> RpcError {
    RpcError::new(ErrorCode::Refused, refusal.to_string())
}
