//! Chain as the server sees it, and its commands as a development chain.

use super::super::dag;
use super::{BASE_FEE, CHAIN_ID, TestChain, Whole, fee_address, key};
use alloy_primitives::{Address, B256, Bloom, Bytes};
use corniche_api::{
    CommitteeInfo, CommitteeSeat, Dependency, EpochInfo, Execution, FollowingEpoch, GatewayInfo, GatewayStatistics,
    OfferedSnapshot, Peer, Peers, ReplicaInfo, RpcError, ShardCertificate, ShardInfo, ShardedTransaction, Shards, Statistics,
    SyncStatus, TransactionStatus, TransactionTimes, TransactionWay, Validator, Validators,
};
use corniche_crypto::{EthereumKey, VerifiedTransaction};
use corniche_rpc::{Backend, ChainBlock, ChainEvent, ChangedKeys, DagEvents, DevChain, DevCommand, DropTarget, SyncProgress};
use corniche_state::{Account, Changes, SharedTree, StateView};
use corniche_types::{
    Certificate, Epoch, EpochChange, FaultModel, Header, Height, LightMember, ProtocolRules, SignatureChecks, SignerBitmap,
    Transaction, ValidatorIndex, Votes,
};
use corniche_vm::Vm;
use futures::future::BoxFuture;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::{broadcast, watch};

impl Backend for TestChain {
    fn chain_id(&self) -> u64 {
        CHAIN_ID
    }

    fn rules(&self, _height: Height) -> &'static ProtocolRules {
        ProtocolRules::LATEST
    }

    fn client_version(&self) -> String {
        "corniche/test".into()
    }

    fn head(&self) -> Height {
        self.blocks.read().unwrap().last().unwrap().height()
    }

    fn finalized(&self) -> Height {
        Height(self.finalized.load(Ordering::Relaxed))
    }

    fn first_block(&self) -> Height {
        Height(self.first_block.load(Ordering::SeqCst))
    }

    fn header(&self, height: Height) -> Option<Header> {
        let kept = height == Height(0) || height.next() >= self.first_block();
        self.blocks.read().unwrap().get(height.0 as usize).filter(|_| kept).map(|block| block.header.clone())
    }

    fn block(&self, height: Height) -> Option<Arc<ChainBlock>> {
        self.blocks_read.lock().unwrap().push((height, std::thread::current().id()));
        if height != Height(0) && height < self.first_block() {
            return None;
        }
        self.blocks.read().unwrap().get(height.0 as usize).cloned()
    }

    fn logs_bloom(&self, height: Height) -> Option<Bloom> {
        self.header(height).map(|header| header.logs_bloom)
    }

    fn timestamp(&self, height: Height) -> Option<u64> {
        self.header(height).map(|header| header.timestamp)
    }

    fn height_of(&self, block_hash: &B256) -> Option<Height> {
        self.blocks.read().unwrap().iter().find(|block| block.hash == *block_hash).map(|block| block.height())
    }

    fn transaction(&self, hash: &B256) -> Option<(Height, u32)> {
        self.blocks.read().unwrap().iter().find_map(|block| {
            let index = block.receipts.iter().position(|receipt| receipt.transaction_hash == *hash)?;
            Some((block.height(), index as u32))
        })
    }

    fn state(&self, height: Height) -> Option<Arc<dyn StateView>> {
        if height == Height(0) {
            let mut held = self.held.lock().unwrap();
            *self.waiting.lock().unwrap() += 1;
            while *held {
                held = self.released.wait(held).unwrap();
            }
            *self.waiting.lock().unwrap() -= 1;
        }
        self.state.at(height).map(|snapshot| Arc::new(snapshot) as Arc<dyn StateView>)
    }

    fn fee_addresses(&self, _: Epoch, _: &dyn StateView) -> Vec<Address> {
        (0..4).map(ValidatorIndex).map(fee_address).collect()
    }

    fn tree(&self) -> Option<SharedTree> {
        self.trees_given.fetch_add(1, Ordering::SeqCst);
        Some(self.tree.clone())
    }

    fn changed_keys(&self, height: Height) -> Option<ChangedKeys> {
        self.changes.read().unwrap().get(height.0 as usize).map(ChangedKeys::from)
    }

    fn historical_state(&self, height: Height) -> Option<Arc<dyn StateView>> {
        let whole = (*self.old_states.lock().unwrap())?;
        let mut changes = Changes::default();
        self.changes.read().unwrap()[..=height.0 as usize].iter().for_each(|block| changes.merge(block.clone()));
        Some(Arc::new(OldState { changes, whole }))
    }

    fn submit(&self, raw: Bytes) -> BoxFuture<'static, Result<B256, RpcError>> {
        if let Some(on_submit) = &mut *self.on_submit.lock().unwrap() {
            on_submit();
        }
        if let Some(refusal) = self.refusal.lock().unwrap().take() {
            return Box::pin(async { Err(refusal) });
        }
        let verified = Transaction::decode(raw).map_err(RpcError::from).and_then(|transaction| {
            VerifiedTransaction::verify(transaction, CHAIN_ID)
                .map_err(|error| RpcError::new(corniche_api::ErrorCode::Refused, error.to_string()))
        });
        let answer = verified.map(|transaction| {
            let hash = transaction.hash();
            self.pool.lock().unwrap().insert(hash, transaction);
            let _ = self.events.send(ChainEvent::Pending(hash));
            hash
        });
        let late = self.answers_late.lock().unwrap().take();
        Box::pin(async {
            if let Some(late) = late {
                let _ = late.await;
            }
            answer
        })
    }

    fn pool_transaction(&self, hash: &B256) -> Option<VerifiedTransaction> {
        self.pool_reads.fetch_add(1, Ordering::SeqCst);
        self.pool.lock().unwrap().get(hash).cloned()
    }

    fn pool(&self, sender: Option<&Address>) -> Vec<VerifiedTransaction> {
        let pool = self.pool.lock().unwrap();
        let wanted = pool.values().filter(|waiting| sender.is_none_or(|sender| *sender == waiting.sender()));
        let mut wanted: Vec<_> = wanted.cloned().collect();
        wanted.sort_by_key(|waiting| (waiting.sender(), waiting.transaction().nonce()));
        wanted
    }

    fn pending_nonce(&self, address: &Address) -> u64 {
        let waiting = self.pool.lock().unwrap().values().filter(|transaction| transaction.sender() == *address).count();
        self.state.latest().account(address).unwrap_or_default().nonce + waiting as u64
    }

    fn next_base_fee(&self) -> u64 {
        BASE_FEE
    }

    fn vm(&self) -> &Vm {
        &self.vm
    }

    fn subscribe(&self) -> broadcast::Receiver<ChainEvent> {
        self.events.subscribe()
    }

    fn peer_count(&self) -> usize {
        3
    }

    /// Validator 3, and a peer that has not identified itself.
    fn peers(&self) -> Peers {
        let peer = |key: u8| Peer {
            peer_id: format!("12D3KooW{key}"),
            network_key: B256::repeat_byte(key),
            validator: None,
            fee_address: None,
            version: None,
            connected_ms: Some(1_700_000_000_123),
            round_trip_us: None,
        };
        let version = || Some("corniche/0.1.0".to_owned());
        let own = Peer { validator: Some(0), version: version(), connected_ms: None, ..peer(0x10) };
        let fee_address = Some(Address::repeat_byte(0xf3));
        let third = Peer { validator: Some(3), fee_address, version: version(), round_trip_us: Some(420), ..peer(0x13) };
        Peers { own: Some(own), peers: vec![third, peer(0x77)] }
    }

    fn syncing(&self) -> Option<SyncProgress> {
        *self.syncing.lock().unwrap()
    }

    fn epoch_change(&self, epoch: Epoch) -> Option<EpochChange> {
        let block = self.block(self.finalized())?;
        let members = vec![LightMember { bls_key: [2; 96], votes: Votes(3) }];
        let certificate = self.certificate(self.finalized())?;
        let change = EpochChange { header: block.header.clone(), head: vec![1, 5].into(), certificate, members: Some(members) };
        (epoch == Epoch(0)).then_some(change)
    }

    fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::SeqCst))
    }

    /// Epochs of a minute with ten blocks each.
    fn epoch_info(&self, epoch: Epoch) -> Option<EpochInfo> {
        let running = self.epoch();
        let hash = |epoch: u64| B256::repeat_byte(0xc0 + epoch as u8);
        let time = |epoch: u64| 1_700_000_000_000 + epoch * 60_000;
        let next = (epoch < running).then(|| FollowingEpoch {
            committee_hash: hash(epoch.0 + 1),
            light_root: B256::repeat_byte(0x11),
            protocol_version: 5,
        });
        (epoch <= running).then(|| EpochInfo {
            epoch: epoch.0,
            first_block: epoch.0 * 10 + 1,
            last_block: next.as_ref().map(|_| epoch.0 * 10 + 10),
            start_ms: time(epoch.0),
            end_ms: next.as_ref().map(|_| time(epoch.0 + 1)),
            due_ms: Some(time(epoch.0 + 1)),
            committee_hash: hash(epoch.0),
            protocol_version: 5,
            next,
        })
    }

    fn committee_info(&self, epoch: Epoch) -> Option<CommitteeInfo> {
        let EpochInfo { epoch, committee_hash, last_block, .. } = self.epoch_info(epoch)?;
        let is_running = last_block.is_none();
        let members = self.validators().validators.into_iter().map(|validator| CommitteeSeat {
            index: validator.index,
            id: Some(validator.index),
            bls_key: validator.bls_key,
            votes: validator.votes,
            consensus_key: is_running.then_some(validator.consensus_key),
            network_key: is_running.then_some(validator.network_key),
            fee_address: is_running.then_some(validator.fee_address),
        });
        Some(CommitteeInfo { epoch, committee_hash, quorum: 3, members: members.collect() })
    }

    fn sync_status(&self) -> SyncStatus {
        let first_block = self.first_block().0;
        let snapshot = OfferedSnapshot { height: 1, entries: 12, bytes: 1_024 };
        SyncStatus {
            base: first_block.checked_sub(1).filter(|base| *base > 0),
            first_block,
            head: self.head().0,
            certified: self.finalized().0,
            target: self.head().0,
            unavailable: None,
            fetch: None,
            follows: true,
            snapshots: vec![snapshot],
        }
    }

    fn certificate(&self, height: Height) -> Option<Certificate> {
        let certified = self.finalized();
        let block = self.block(certified).filter(|_| height <= certified && certified.0 > 0)?;
        Some(Certificate {
            epoch: Epoch(0),
            committee_hash: B256::repeat_byte(0xc0),
            height: certified,
            header_hash: block.hash,
            fault_model: FaultModel::Byzantine,
            signers: SignerBitmap::from_signers([0, 1, 2].map(ValidatorIndex), 4),
            signature: Bytes::from(vec![0xaa; 48]),
        })
    }

    fn status(&self, hash: &B256) -> Option<TransactionStatus> {
        let Some((height, _)) = self.transaction(hash) else {
            return self.pool_transaction(hash).map(|_| TransactionStatus::Pending);
        };
        let (block_hash, block_number) = (self.block(height)?.hash, height.0);
        Some(if height <= self.finalized() {
            TransactionStatus::Certified { block_hash, block_number }
        } else {
            TransactionStatus::Executed { block_hash, block_number }
        })
    }

    fn pool_times(&self, hash: &B256) -> TransactionTimes {
        let executed = self.transaction(hash).map(|_| TransactionTimes {
            received_ms: Some(1_700_000_000_456),
            left_ms: Some(1_700_000_000_789),
            ..TransactionTimes::default()
        });
        let received = self.pool_transaction(hash).map(|_| 1_700_000_000_123);
        executed.unwrap_or(TransactionTimes { received_ms: received, ..TransactionTimes::default() })
    }

    fn shards(&self) -> Option<Shards> {
        let key = B256::repeat_byte(7);
        let replicas = vec![ReplicaInfo { consensus_key: key, connected: true }];
        Some(Shards {
            faulty: 1,
            block_ms: 1_000,
            shards: vec![ShardInfo { shard: 0, replicas }],
            gateways: vec![GatewayInfo { consensus_key: key, connected: true, own: true }],
            statistics: GatewayStatistics::default(),
        })
    }

    fn shard_of(&self, _address: &Address) -> Option<u64> {
        Some(0)
    }

    fn sharded_transaction(&self, hash: &B256) -> Option<ShardedTransaction> {
        Some(ShardedTransaction {
            id: *hash,
            timestamp_us: 1,
            gateway: *hash,
            shards: vec![0],
            way: TransactionWay::Fast,
            reads: 2,
            writes: 1,
            dependencies: vec![Dependency { id: *hash, hash: None }],
            attempts: Some(1),
            recovered: false,
        })
    }

    fn shard_certificate(&self, height: Height) -> Option<ShardCertificate> {
        Some(ShardCertificate {
            first_block: height.0,
            last_block: height.0,
            block_hash: B256::ZERO,
            signers: Bytes::from_static(&[31]),
            certificate: Bytes::new(),
        })
    }

    fn validators(&self) -> Validators {
        let validator = |index: u64| Validator {
            index,
            consensus_key: B256::repeat_byte(index as u8),
            bls_key: Bytes::from(vec![index as u8; 96]),
            network_key: B256::repeat_byte(0x10 + index as u8),
            fee_address: Address::repeat_byte(0xf0 + index as u8),
            votes: 1,
        };
        Validators {
            epoch: 0,
            committee_hash: B256::repeat_byte(0xc0),
            engine: "mahi-mahi".into(),
            fault_model: FaultModel::Byzantine,
            quorum: 3,
            signatures: SignatureChecks::Everyone,
            validators: (0..4).map(validator).collect(),
        }
    }

    fn statistics(&self) -> Statistics {
        Statistics { pool_transactions: self.waiting_in_pool() as u64, executed: 7, adopted: 5, ..Statistics::default() }
    }

    /// Only for block 1.
    fn execution(&self, height: Height) -> Option<Execution> {
        let (lane_of, runs_of) = (Bytes::from(vec![0, 3]), Bytes::from(vec![1, 2]));
        let received_of = Bytes::from([1_700_000_000_456u64.to_be_bytes(), [0; 8]].concat());
        let told = Execution { threads: 4, runs: 3, runs_again: 1, duration_us: 250, lane_of, runs_of, ..Execution::default() };
        (height == Height(1)).then_some(Execution { received_of, ..told })
    }

    fn dag_newest_round(&self) -> Result<u64, RpcError> {
        Ok(self.traced()?.iter().map(|(_, event)| dag::round(event)).max().unwrap_or(0))
    }

    fn dag_growth(&self) -> watch::Receiver<()> {
        self.growth.subscribe()
    }

    fn dag_events(&self, rounds: RangeInclusive<u64>, max: usize) -> Result<DagEvents, RpcError> {
        let mut events = self.traced()?;
        events.retain(|(_, event)| rounds.contains(&dag::round(event)));
        let more = events.len() > max;
        events.truncate(max);
        Ok(DagEvents { events, more, dropped: 3 })
    }
}

struct OldState {
    changes: Changes,
    whole: Whole,
}

impl StateView for OldState {
    fn account(&self, address: &Address) -> Option<Account> {
        self.changes.accounts.get(address).cloned().flatten()
    }

    fn storage(&self, address: &Address, slot: &B256) -> B256 {
        self.changes.storage.get(&(*address, *slot)).copied().unwrap_or_default()
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        self.changes.code.get(hash).cloned()
    }

    fn interrupted(&self) -> bool {
        self.whole == Whole::No
    }
}

/// Accepts all commands and records them.
impl DevChain for TestChain {
    fn keys(&self) -> Vec<EthereumKey> {
        vec![key()]
    }

    fn automine(&self) -> bool {
        true
    }

    fn instance(&self) -> B256 {
        B256::repeat_byte(9)
    }

    fn execute(&self, command: DevCommand) -> BoxFuture<'static, Result<u64, RpcError>> {
        let number = match &command {
            DevCommand::IncreaseTime { seconds } => *seconds,
            DevCommand::SetNextTimestamp { timestamp } => *timestamp,
            DevCommand::Snapshot | DevCommand::Revert { .. } | DevCommand::DropTransactions(DropTarget::Transaction(_)) => 1,
            _ => 0,
        };
        self.told.lock().unwrap().push(command);
        Box::pin(async move { Ok(number) })
    }
}
