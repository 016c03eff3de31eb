//! Data source of a gateway's RPC server.
//!
//! - `latest` names the newest block of a closed interval. States and calls at `latest` and `pending` also contain the transactions that
//!   this gateway knows to be committed since: a wallet sees its own transaction as soon as it has the receipt.
//! - `safe` and `finalized` name the newest block with a certificate.

use crate::archive::{Archive, Entry, Way};
use crate::certified_blocks::Request;
use crate::mail::Mail;
use crate::members::Members;
use crate::state::{GatewayState, Left};
use corniche_admission::Refusal;
use corniche_api::{
    CommitteeInfo, Dependency, EpochInfo, GatewayInfo, GatewayStatistics, Peers, Reason, ReplicaInfo, RpcError,
    ShardCertificate, ShardInfo, ShardedTransaction, Shards, Statistics, SyncStatus, TransactionStatus, TransactionWay,
    Validators,
};
use corniche_basil::message::Peer;
use corniche_crypto::VerifiedTransaction;
use corniche_engine::Committee;
use corniche_network::NetworkHandle;
use corniche_rpc::{Backend, ChainBlock, ChainEvent, ChangedKeys, EarlyTransaction, SyncProgress};
use corniche_service::{NewestBlocks, now, own_version, peers_response, refusal_error};
use corniche_state::{SharedTree, State, StateView};
use corniche_store::Reader;
use corniche_types::{
    Address, B256, Bytes, Certificate, Epoch, EpochChange, Genesis, Header, Height, ProtocolRules, SignerBitmap, wire,
};
use corniche_vm::Vm;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use tokio::sync::broadcast;

/// A running gateway, as its RPC server sees it.
pub struct GatewayBackend {
    pub genesis: Arc<Genesis>,
    pub members: Arc<Members>,
    pub reader: Reader,
    pub state: State,
    pub tree: SharedTree,
    pub archive: Archive,
    pub newest_blocks: NewestBlocks,
    pub committee: Committee,
    pub shared: Arc<GatewayState>,
    pub network: NetworkHandle,
    pub vm: Vm,
    pub mail: SyncSender<Mail<Request>>,
    /// Name of this gateway among clients.
    pub client: B256,
    pub rules: &'static ProtocolRules,
}

impl GatewayBackend {
    fn admit(&self, raw: Bytes) -> Result<B256, RpcError> {
        let refuse = |refusal: Refusal| {
            self.shared.counts.refused.inc();
            refusal_error(refusal)
        };
        let transaction = corniche_admission::check(raw, self.genesis.chain_id).map_err(refuse)?;
        let hash = transaction.hash();
        if self.reader.transaction(&hash).is_some() || self.shared.live().get(&hash).is_some() {
            return Err(refuse(Refusal::AlreadyKnown { hash }));
        }
        let state = self.shared.state();
        let base_fee = self.next_base_fee();
        let mut pool = self.shared.pool();
        let admitted = pool.admit(transaction.clone(), &*state, base_fee, now());
        let events = pool.take_events();
        drop(pool);
        for left in self.shared.note_events(events) {
            // If the queue is full, the gateway drops it when it does not run.
            let _ = self.mail.try_send(Mail::Own(Request::Forget(left)));
        }
        admitted.map_err(refuse)?;
        let sender = transaction.sender();
        if self.mail.try_send(Mail::Own(Request::Submit(transaction))).is_err() {
            self.shared.leave_pool(&[(hash, sender)], base_fee);
            return Err(Reason::NotAccepting.with("the gateway is busy; try again"));
        }
        self.shared.send(ChainEvent::Pending(hash));
        Ok(hash)
    }

    fn is_connected(&self, peer: Peer) -> bool {
        peer == Peer::Client(self.client) || self.members.network_key(peer).is_some_and(|key| self.network.is_up(&key))
    }

    fn describe(&self, entry: Entry) -> ShardedTransaction {
        let dependency = |id: B256| Dependency { id, hash: self.archive.hash(&id) };
        ShardedTransaction {
            id: entry.id,
            timestamp_us: entry.timestamp.time_us,
            gateway: entry.timestamp.client,
            shards: entry.shards.iter().map(|shard| shard.0.into()).collect(),
            way: match entry.way {
                Way::Fast => TransactionWay::Fast,
                Way::Logged(0) => TransactionWay::Logged,
                Way::Logged(_) => TransactionWay::Reconciled,
            },
            reads: entry.reads.into(),
            writes: entry.writes.into(),
            dependencies: entry.writers.iter().copied().map(dependency).collect(),
            attempts: entry.attempts.map(u64::from),
            recovered: entry.recovered,
        }
    }
}

impl Backend for GatewayBackend {
    fn chain_id(&self) -> u64 {
        self.genesis.chain_id
    }

    fn rules(&self, _height: Height) -> &'static ProtocolRules {
        self.rules
    }

    fn client_version(&self) -> String {
        own_version()
    }

    fn head(&self) -> Height {
        self.reader.head().height()
    }

    fn finalized(&self) -> Height {
        self.shared.certified().min(self.head())
    }

    fn first_block(&self) -> Height {
        self.reader.first_block()
    }

    fn block(&self, height: Height) -> Option<Arc<ChainBlock>> {
        self.newest_blocks.block(&self.reader, height)
    }

    fn header(&self, height: Height) -> Option<Header> {
        self.newest_blocks.header(&self.reader, height)
    }

    fn height_of(&self, block_hash: &B256) -> Option<Height> {
        self.reader.height_of(block_hash)
    }

    fn transaction(&self, hash: &B256) -> Option<(Height, u32)> {
        self.reader.transaction(hash)
    }

    fn early(&self, hash: &B256) -> Option<EarlyTransaction> {
        let live = self.shared.live();
        let early = live.get(hash)?;
        Some(EarlyTransaction {
            block_number: early.block,
            timestamp: early.time,
            raw: early.raw.clone(),
            receipt: early.receipt.clone(),
        })
    }

    fn state(&self, height: Height) -> Option<Arc<dyn StateView>> {
        if height > self.head() {
            return None;
        }
        self.state.at(height).map(|snapshot| Arc::new(snapshot) as Arc<dyn StateView>)
    }

    fn newest_state(&self) -> Option<Arc<dyn StateView>> {
        Some(self.shared.state())
    }

    fn historical_state(&self, height: Height) -> Option<Arc<dyn StateView>> {
        self.reader.state(height)
    }

    fn tree(&self) -> Option<SharedTree> {
        Some(self.tree.clone())
    }

    fn changed_keys(&self, height: Height) -> Option<ChangedKeys> {
        self.reader.block(height).map(|block| ChangedKeys::from(&block.committed.changes))
    }

    fn submit(&self, raw: Bytes) -> BoxFuture<'static, Result<B256, RpcError>> {
        let admitted = self.admit(raw);
        Box::pin(async move { admitted })
    }

    fn fee_addresses(&self, _epoch: Epoch, _state: &dyn StateView) -> Vec<Address> {
        // Tips go to nobody.
        vec![Address::ZERO; self.genesis.validators.len()]
    }

    fn pool_transaction(&self, hash: &B256) -> Option<VerifiedTransaction> {
        self.shared.pool().get(hash).cloned()
    }

    fn pool(&self, sender: Option<&Address>) -> Vec<VerifiedTransaction> {
        self.shared.pool().transactions(sender)
    }

    fn pending_nonce(&self, address: &Address) -> u64 {
        let state = self.shared.state();
        self.shared.pool().pending_nonce(address, &*state)
    }

    fn next_base_fee(&self) -> u64 {
        self.genesis.fees.initial_base_fee
    }

    fn vm(&self) -> &Vm {
        &self.vm
    }

    fn subscribe(&self) -> broadcast::Receiver<ChainEvent> {
        self.shared.events.subscribe()
    }

    fn peer_count(&self) -> usize {
        self.network.peers().len()
    }

    fn peers(&self) -> Peers {
        peers_response(&self.committee, Some(self.network.key()), Some(&self.network))
    }

    fn syncing(&self) -> Option<SyncProgress> {
        let config = &self.members.config;
        let closed = now().0.saturating_sub(config.close_after_ms) / config.close_ms;
        let first = self.genesis.timestamp_ms.0 / config.close_ms;
        let (current, highest) = (self.head(), Height(closed.saturating_sub(first)));
        (highest.0 > current.0 + 8).then_some(SyncProgress { starting: current, current, highest })
    }

    fn certificate(&self, _height: Height) -> Option<Certificate> {
        None
    }

    fn epoch_change(&self, _epoch: Epoch) -> Option<EpochChange> {
        None
    }

    fn epoch(&self) -> Epoch {
        Epoch(0)
    }

    fn epoch_info(&self, _epoch: Epoch) -> Option<EpochInfo> {
        None
    }

    fn committee_info(&self, _epoch: Epoch) -> Option<CommitteeInfo> {
        None
    }

    fn sync_status(&self) -> SyncStatus {
        let (head, certified) = (self.head().0, self.finalized().0);
        let target = self.syncing().map_or(head, |progress| progress.highest.0);
        SyncStatus {
            base: None,
            first_block: self.first_block().0,
            head,
            certified,
            target,
            unavailable: None,
            fetch: None,
            follows: true,
            snapshots: Vec::new(),
        }
    }

    fn status(&self, hash: &B256) -> Option<TransactionStatus> {
        // In this order: it may move from the pool to the committed ones, and from there into a block, between the look-ups.
        let is_pooled = self.shared.pool().get(hash).is_some();
        let is_committed = self.shared.live().get(hash).is_some();
        if let Some((height, _)) = self.reader.transaction(hash) {
            let (block_hash, block_number) = (self.reader.block(height)?.hash, height.0);
            return Some(if height <= self.finalized() {
                TransactionStatus::Certified { block_hash, block_number }
            } else {
                TransactionStatus::Executed { block_hash, block_number }
            });
        }
        if is_committed {
            return Some(TransactionStatus::Ordered);
        }
        if is_pooled {
            return Some(TransactionStatus::Pending);
        }
        Some(match self.shared.left(hash)? {
            Left::Dropped(reason) => TransactionStatus::Dropped { reason },
            Left::Replaced(by) => TransactionStatus::Replaced { by },
        })
    }

    fn validators(&self) -> Validators {
        let hash = self.genesis.committee_hash();
        let replicas = &self.genesis.validators[..self.members.replicas()];
        let quorum = self.members.shards.count() * self.members.shards.reachable();
        Validators { quorum: quorum as u64, ..Validators::in_epoch(&self.genesis, Epoch(0), hash, replicas) }
    }

    fn statistics(&self) -> Statistics {
        let pool = self.shared.pool();
        Statistics {
            pool_transactions: (pool.ready_len() + pool.queued_len()) as u64,
            executed: self.shared.counts.exported.get(),
            refused: self.shared.counts.refused.get(),
            ..Statistics::default()
        }
    }

    fn shards(&self) -> Option<Shards> {
        let shards = &self.members.shards;
        let replica = |id| ReplicaInfo {
            consensus_key: shards.key(id).copied().unwrap_or_default(),
            connected: self.is_connected(Peer::Replica(id)),
        };
        let shard = |id: corniche_basil::shards::ShardId| ShardInfo {
            shard: id.0.into(),
            replicas: shards.replicas(id).map(replica).collect(),
        };
        let gateways = self.members.gateways().map(|key| GatewayInfo {
            consensus_key: key,
            connected: self.is_connected(Peer::Client(key)),
            own: key == self.client,
        });
        let counts = &self.shared.counts;
        Some(Shards {
            faulty: (shards.validity() - 1) as u64,
            block_ms: self.members.config.close_ms,
            shards: shards.ids().map(shard).collect(),
            gateways: gateways.collect(),
            statistics: GatewayStatistics {
                fast: counts.fast.get(),
                logged: counts.logged.get(),
                reconciled: counts.reconciled.get(),
                retries: counts.retries.get(),
                dropped: counts.dropped.get(),
                recovered: counts.recovered.get(),
            },
        })
    }

    fn shard_of(&self, address: &Address) -> Option<u64> {
        let key = corniche_basil_contracts::keys::balance_key(*address);
        Some(self.members.shards.shard_of(&key).0.into())
    }

    fn sharded_transaction(&self, hash: &B256) -> Option<ShardedTransaction> {
        let early = self.shared.live().get(hash).map(|early| early.entry.clone());
        early.or_else(|| self.archive.entry(hash)).map(|entry| self.describe(entry))
    }

    fn shard_certificate(&self, height: Height) -> Option<ShardCertificate> {
        let (blocks, certificate) = self.archive.certificate(height)?;
        let signers = certificate.iter().filter_map(|one| self.members.index_of(Peer::Replica(one.replica)));
        Some(ShardCertificate {
            first_block: *blocks.start(),
            last_block: *blocks.end(),
            block_hash: self.reader.block(Height(*blocks.end()))?.hash,
            signers: SignerBitmap::from_signers(signers, self.members.replicas()).0,
            certificate: wire::encode(&certificate).into(),
        })
    }
}
