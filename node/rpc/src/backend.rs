//! Interface between the RPC server and the node behind it.
//!
//! The server stores no chain data: it reads every response through [`Backend`] at the time of the request.
//! Implementations read memory or local disk, never wait for the network, and may be called from many threads
//! at once.

use alloy_primitives::{Address, B256, Bloom, Bytes, U256};
use corniche_api::{
    CommitteeInfo, EpochInfo, Execution, Peers, Reason, RpcError, ShardCertificate, ShardedTransaction, Shards, Statistics,
    SyncStatus, TransactionStatus, TransactionTimes, Validators,
};
use corniche_crypto::{EthereumKey, VerifiedTransaction};
use corniche_engine::TraceEvent;
use corniche_state::{Changes, SharedTree, StateView};
use corniche_types::{
    Block, Certificate, Epoch, EpochChange, Header, Height, OrderingRecord, ProtocolRules, Receipt, TimestampMs,
};
use corniche_vm::Vm;
use futures::future::BoxFuture;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::sync::Arc;
use tokio::sync::{broadcast, watch};

/// Keys written by a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedKeys {
    pub accounts: Vec<Address>,
    pub slots: Vec<(Address, B256)>,
}

impl From<&Changes> for ChangedKeys {
    fn from(changes: &Changes) -> Self {
        Self { accounts: changes.accounts.keys().copied().collect(), slots: changes.storage.keys().copied().collect() }
    }
}

/// The node as its clients see it. Object-safe; the server holds it as `Arc<dyn Backend>`.
///
/// The genesis exists, and heights [`Self::first_block`] to [`Self::head`] without gaps. Blocks never change: there are no
/// reorganisations. Only a development chain may revert ([`ChainEvent::Reverted`]) and then continue with other blocks.
pub trait Backend: Send + Sync + 'static {
    fn chain_id(&self) -> u64;

    /// Protocol rules under which the block at `height` is executed.
    fn rules(&self, height: Height) -> &'static ProtocolRules;

    /// Response to `web3_clientVersion`, for instance `corniche/v0.1.0/linux-x86_64/rust1.95`.
    fn client_version(&self) -> String;

    /// Newest durable block: `latest` for clients.
    fn head(&self) -> Height;

    /// Newest certified block: `safe` and `finalized`. At most [`Self::head`].
    fn finalized(&self) -> Height;

    /// Lowest block that this node has, apart from the genesis: 1 for a whole chain. It rises when old blocks are deleted. It is one
    /// above [`Self::head`] directly after a start from a snapshot.
    fn first_block(&self) -> Height;

    /// The block at `height`; `None` above the head, and from 1 to below [`Self::first_block`].
    fn block(&self, height: Height) -> Option<Arc<ChainBlock>>;

    /// Header of the block at `height`. Override it where that is cheaper than reading the block, or where a node has headers
    /// without blocks: that of a snapshot is enough for calls on its state.
    fn header(&self, height: Height) -> Option<Header> {
        self.block(height).map(|block| block.header.clone())
    }

    /// Logs bloom of the block at `height`, for scanning many blocks. Override it where reading the bloom is
    /// cheaper than reading the block.
    fn logs_bloom(&self, height: Height) -> Option<Bloom> {
        self.header(height).map(|header| header.logs_bloom)
    }

    /// Unix seconds of the block at `height`. Override it where that is cheaper than reading the block.
    fn timestamp(&self, height: Height) -> Option<u64> {
        self.header(height).map(|header| header.timestamp)
    }

    fn height_of(&self, block_hash: &B256) -> Option<Height>;

    /// Height of the block of an executed transaction, and the position in that block.
    fn transaction(&self, hash: &B256) -> Option<(Height, u32)>;

    /// State after the block at `height`; `None` once it is pruned. The state of the head always exists.
    fn state(&self, height: Height) -> Option<Arc<dyn StateView>>;

    /// Like [`Self::state`], but from disk, for heights where that returns `None`. After reading, the caller
    /// must check whether the view was [`interrupted`](StateView::interrupted).
    fn historical_state(&self, _height: Height) -> Option<Arc<dyn StateView>> {
        None
    }

    /// State tree whose root is in the headers, for proofs. Its height may be above [`Self::head`]. `None`:
    /// this node serves no proofs.
    fn tree(&self) -> Option<SharedTree> {
        None
    }

    /// Keys written by the block at `height`. Called only if there is a tree.
    fn changed_keys(&self, _height: Height) -> Option<ChangedKeys> {
        None
    }

    /// Submits signed bytes to admission. The error goes to the client: see [`corniche_api::Reason`].
    fn submit(&self, raw: Bytes) -> BoxFuture<'static, Result<B256, RpcError>>;

    /// Recipients of tips in an epoch, by index of the validator. `state` is one of that epoch.
    fn fee_addresses(&self, epoch: Epoch, state: &dyn StateView) -> Vec<Address>;

    /// Transaction in the pool.
    fn pool_transaction(&self, hash: &B256) -> Option<VerifiedTransaction>;

    /// Transactions in the pool, of one sender or of all, sorted by sender and nonce.
    fn pool(&self, sender: Option<&Address>) -> Vec<VerifiedTransaction>;

    /// Next nonce for a wallet to use, with the pooled transactions counted.
    fn pending_nonce(&self, address: &Address) -> u64;

    /// Base fee of the next block, in wei per gas.
    fn next_base_fee(&self) -> u64;

    /// A transaction that is committed, and whose block comes later. Only chains without an order of blocks before execution have these.
    fn early(&self, _hash: &B256) -> Option<EarlyTransaction> {
        None
    }

    /// State that calls and reads at `latest` and `pending` use, if it is newer than that of the head: it contains the transactions of
    /// [`Self::early`].
    fn newest_state(&self) -> Option<Arc<dyn StateView>> {
        None
    }

    /// Virtual machine for calls and estimates.
    fn vm(&self) -> &Vm;

    /// Subscribes to events from now on. Heights may be skipped, but a later height always follows. A
    /// receiver that lags reads the missed blocks by height.
    fn subscribe(&self) -> broadcast::Receiver<ChainEvent>;

    fn peer_count(&self) -> usize;

    /// This node and the peers it has links with, restricted to public information.
    fn peers(&self) -> Peers;

    /// `None` if the node is at the head of the chain, to its knowledge.
    fn syncing(&self) -> Option<SyncProgress>;

    /// Certificate of the lowest certified block at or above `height`; it covers the block at `height` too.
    fn certificate(&self, height: Height) -> Option<Certificate>;

    /// Proof of the committee after an epoch. `None` if the epoch has not ended, or its end is not known here.
    fn epoch_change(&self, epoch: Epoch) -> Option<EpochChange>;

    /// The running epoch.
    fn epoch(&self) -> Epoch;

    /// Description of an epoch. `None` if it has not begun, or its beginning is not known here.
    fn epoch_info(&self, epoch: Epoch) -> Option<EpochInfo>;

    /// Committee of the running or of a past epoch. `None` if the epoch has not begun, or its committee is not known here.
    fn committee_info(&self, epoch: Epoch) -> Option<CommitteeInfo>;

    /// Blocks and snapshots of this node.
    fn sync_status(&self) -> SyncStatus;

    /// Status of a transaction; `None` if it is unknown.
    fn status(&self, hash: &B256) -> Option<TransactionStatus>;

    /// Times at which a transaction entered this node's pool and left it unexecuted, as far as known. Also
    /// called for executed transactions, whose times may be kept for a while.
    fn pool_times(&self, _hash: &B256) -> TransactionTimes {
        TransactionTimes::default()
    }

    /// Current validators.
    fn validators(&self) -> Validators;

    /// Execution statistics since the node started.
    fn statistics(&self) -> Statistics;

    /// Cost of executing the block at `height`; `None` once it is dropped.
    fn execution(&self, _height: Height) -> Option<Execution> {
        None
    }

    /// Shards and gateways; `None` on a chain without shards.
    fn shards(&self) -> Option<Shards> {
        None
    }

    /// Number of the shard of an account; `None` on a chain without shards.
    fn shard_of(&self, _address: &Address) -> Option<u64> {
        None
    }

    /// Way of a committed transaction over the shards.
    fn sharded_transaction(&self, _hash: &B256) -> Option<ShardedTransaction> {
        None
    }

    /// Certificate of the replicas of all shards that covers a block.
    fn shard_certificate(&self, _height: Height) -> Option<ShardCertificate> {
        None
    }

    /// Newest round that [`Self::dag_events`] covers.
    ///
    /// # Errors
    ///
    /// A node that takes no part in ordering has no DAG. The error goes to the client.
    fn dag_newest_round(&self) -> Result<u64, RpcError> {
        Err(Reason::DagNotAvailable.error())
    }

    /// Changes whenever [`Self::dag_events`] has more events, of any round. Used only where
    /// [`Self::dag_newest_round`] succeeds.
    fn dag_growth(&self) -> watch::Receiver<()> {
        watch::channel(()).1
    }

    /// Consensus events of these rounds, at most `max`.
    fn dag_events(&self, _rounds: RangeInclusive<u64>, _max: usize) -> Result<DagEvents, RpcError> {
        Err(Reason::DagNotAvailable.error())
    }
}

/// Development chain: accepts further commands and holds keys.
pub trait DevChain: Send + Sync {
    /// Keys of the accounts whose transactions it signs.
    fn keys(&self) -> Vec<EthereumKey>;

    /// Id of this chain in this process. It changes with a restart and with [`DevCommand::Reset`].
    fn instance(&self) -> B256;

    /// True if every transaction produces a block immediately.
    fn automine(&self) -> bool;

    /// Prints what contracts logged to the console in a run, with their addresses, in order. The run is a
    /// transaction hash or a method that changes no state. Must not block.
    fn print_console(&self, _run: &dyn Display, _lines: &[(Address, &str)]) {}

    /// Applies the command; returns once its effect is visible. The number is a snapshot id, seconds or a
    /// time. For commands that look for a snapshot or transaction it is 1 if found, else 0. All others return
    /// 0.
    fn execute(&self, command: DevCommand) -> BoxFuture<'static, Result<u64, RpcError>>;
}

/// Command for a development chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DevCommand {
    Mine {
        blocks: u64,
        interval_seconds: Option<u64>,
    },
    SetAccounts(Vec<AccountChange>),
    IncreaseTime {
        seconds: u64,
    },
    SetNextTimestamp {
        timestamp: u64,
    },
    /// Base fee of the next block.
    SetNextBaseFee {
        wei: u64,
    },
    /// Randomness of the next block.
    SetNextRandomness(B256),
    DropTransactions(DropTarget),
    SetAutomine(bool),
    SetInterval {
        ms: u64,
    },
    Snapshot,
    Revert {
        id: u64,
    },
    /// Goes back to the genesis, as after a start.
    Reset,
}

/// Transactions to drop from the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropTarget {
    Transaction(B256),
    Sender(Address),
    All,
}

/// New value for a part of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountChange {
    Balance(Address, U256),
    Nonce(Address, u64),
    Code(Address, Bytes),
    Storage(Address, B256, B256),
}

/// Part of an engine's trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DagEvents {
    /// Events in the order in which they happened, with the time of the node's clock. A restarted engine may
    /// repeat some of them.
    pub events: Vec<(TimestampMs, TraceEvent)>,
    /// True if there are more events than requested.
    pub more: bool,
    /// Number of events, of any round, dropped since the node started.
    pub dropped: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainEvent {
    /// A block is durable.
    Head(Height),
    /// A transaction entered the pool.
    Pending(B256),
    /// A transaction is committed, and has a receipt ([`Backend::early`]). Its block comes later.
    Committed(B256),
    /// A block, and with it all before it, is certified.
    Finalized(Height),
    /// An epoch begins.
    Epoch(Epoch),
    /// A development chain reverted some blocks.
    Reverted(Arc<Reverted>),
}

/// Blocks that are no longer part of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reverted {
    /// Newest block that remains.
    pub to: Height,
    /// Ascending by height.
    pub removed: Vec<Arc<ChainBlock>>,
}

/// Progress of catching up: start, current height and target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncProgress {
    pub starting: Height,
    pub current: Height,
    pub highest: Height,
}

/// A transaction with its receipt, before its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlyTransaction {
    /// Number of the block that will contain it.
    pub block_number: u64,
    /// Unix seconds of that block.
    pub timestamp: u64,
    pub raw: Bytes,
    pub receipt: Receipt,
}

impl EarlyTransaction {
    /// A block with this transaction only. Its hash, which nobody knows yet, is zero.
    pub fn into_block(self) -> ChainBlock {
        let header = Header { number: self.block_number, timestamp: self.timestamp, ..Header::default() };
        ChainBlock { header, hash: B256::ZERO, ordering: None, transactions: vec![self.raw], receipts: vec![self.receipt] }
    }
}

/// Block as clients see it. Transactions stay encoded until a client asks for them in full; the receipts
/// contain hashes and senders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainBlock {
    pub header: Header,
    pub hash: B256,
    /// `None` for the genesis block, which was not ordered.
    pub ordering: Option<OrderingRecord>,
    /// Executed transactions in order, as EIP-2718 bytes.
    pub transactions: Vec<Bytes>,
    /// One per transaction.
    pub receipts: Vec<Receipt>,
}

impl ChainBlock {
    /// Builds it from a stored block and its receipts, one per executed transaction. `hash` is the hash of
    /// the header.
    pub fn new(block: &Block, hash: B256, receipts: Vec<Receipt>) -> Self {
        let transactions: Vec<Bytes> = block.executed().map(|executed| executed.raw.clone()).collect();
        debug_assert_eq!(transactions.len(), receipts.len(), "one receipt per executed transaction");
        let ordering = (block.header.number > 0).then(|| block.ordering.clone());
        Self { header: block.header.clone(), hash, ordering, transactions, receipts }
    }

    /// Block 0.
    pub fn genesis(header: Header) -> Self {
        let hash = corniche_types::header_hash(&header);
        Self { header, hash, ordering: None, transactions: Vec::new(), receipts: Vec::new() }
    }

    pub fn height(&self) -> Height {
        Height(self.header.number)
    }

    /// Size of the block in Ethereum's encoding, in bytes: RLP([header, transactions, uncles]). Typed
    /// transactions are byte strings in the list, legacy ones are lists.
    pub fn size(&self) -> u64 {
        use alloy_rlp::{Encodable, length_of_length};
        let list = |payload: usize| payload + length_of_length(payload);
        let one = |raw: &Bytes| match raw.first() {
            Some(byte) if *byte >= 0xc0 => raw.len(),
            _ => raw.as_ref().length(),
        };
        let body = list(self.transactions.iter().map(one).sum());
        list(self.header.length() + body + list(0)) as u64
    }

    /// Time that consensus agreed on together with the order. For the genesis block: the time of its header.
    pub fn time(&self) -> TimestampMs {
        self.ordering.as_ref().map_or(TimestampMs(self.header.timestamp * 1000), |ordering| ordering.time)
    }
}
