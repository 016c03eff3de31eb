//! What the RPC server needs from the node behind it.
//!
//! The server owns nothing: every answer is read through [`Backend`] at the moment it is asked for. Implementations answer
//! from memory or from local disk, never wait for the network, and may be called from many threads at once.

use alloy_primitives::{Address, B256, Bloom, Bytes, U256};
use corniche_api::{Execution, Peers, Reason, RpcError, Statistics, TransactionStatus, TransactionTimes, Validators};
use corniche_crypto::{EthereumKey, VerifiedTransaction};
use corniche_engine::TraceEvent;
use corniche_state::{Changes, SharedTree, StateView};
use corniche_types::{Block, Certificate, Header, Height, OrderingRecord, ProtocolRules, Receipt, TimestampMs, ValidatorIndex};
use corniche_vm::Vm;
use futures::future::BoxFuture;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::sync::Arc;
use tokio::sync::{broadcast, watch};

/// Keys that a block wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    pub accounts: Vec<Address>,
    pub slots: Vec<(Address, B256)>,
}

impl From<&Changes> for Changed {
    fn from(changes: &Changes) -> Self {
        Self { accounts: changes.accounts.keys().copied().collect(), slots: changes.storage.keys().copied().collect() }
    }
}

/// A node, as far as its clients are concerned. Object-safe; the server holds it as `Arc<dyn Backend>`.
///
/// Heights 0 to [`Self::head`] exist, without gaps, and nothing about a block ever changes: there are no reorganisations. A
/// development chain may go back ([`ChainEvent::Reverted`]), and then on with other blocks.
pub trait Backend: Send + Sync + 'static {
    fn chain_id(&self) -> u64;

    /// The rules that the block at `height` is executed under.
    fn rules(&self, height: Height) -> &'static ProtocolRules;

    /// For instance `corniche/v0.1.0/linux-x86_64/rust1.95`: answered by `web3_clientVersion`.
    fn client_version(&self) -> String;

    /// The newest durable block: what clients call `latest`.
    fn head(&self) -> Height;

    /// The newest certified block: `safe` and `finalized`. At most [`Self::head`].
    fn finalized(&self) -> Height;

    /// The block at `height`; `None` above the head.
    fn block(&self, height: Height) -> Option<Arc<ChainBlock>>;

    /// The logs bloom of the block at `height`, for scanning many blocks; override it where that is cheaper than the block.
    fn logs_bloom(&self, height: Height) -> Option<Bloom> {
        self.block(height).map(|block| block.header.logs_bloom)
    }

    /// Unix seconds of the block at `height`; override it where that is cheaper than the block.
    fn timestamp(&self, height: Height) -> Option<u64> {
        self.block(height).map(|block| block.header.timestamp)
    }

    fn height_of(&self, block_hash: &B256) -> Option<Height>;

    /// Block and position within it of an executed transaction.
    fn transaction(&self, hash: &B256) -> Option<(Height, u32)>;

    /// The state after the block at `height`; `None` when it is not kept any more. The head's is always there.
    fn state(&self, height: Height) -> Option<Arc<dyn StateView>>;

    /// The same where [`Self::state`] has none, from disk: who reads it asks afterwards whether it was
    /// [`interrupted`](StateView::interrupted).
    fn old_state(&self, _height: Height) -> Option<Arc<dyn StateView>> {
        None
    }

    /// The tree whose root stands in headers, for proofs; it may stand at a height above [`Self::head`]. `None`: there are no proofs.
    fn tree(&self) -> Option<SharedTree> {
        None
    }

    /// What the block at `height` wrote; asked for only where there is a tree.
    fn changed(&self, _height: Height) -> Option<Changed> {
        None
    }

    /// Hands signed bytes to admission. The error is what the client is told: see [`corniche_api::Reason`].
    fn submit(&self, raw: Bytes) -> BoxFuture<'static, Result<B256, RpcError>>;

    /// Where the tips of a validator's transactions go; `None` for one that the committee does not have.
    fn fee_address(&self, validator: ValidatorIndex) -> Option<Address>;

    /// A transaction waiting in the pool.
    fn pool_transaction(&self, hash: &B256) -> Option<VerifiedTransaction>;

    /// What waits in the pool, of one sender or of all, by sender and then by nonce.
    fn pool(&self, sender: Option<&Address>) -> Vec<VerifiedTransaction>;

    /// The nonce a wallet should use next, with the pool counted in.
    fn pending_nonce(&self, address: &Address) -> u64;

    /// Wei per gas in the next block.
    fn next_base_fee(&self) -> u64;

    /// For calls and estimates.
    fn vm(&self) -> &Vm;

    /// News from now on. Every height is announced or followed by one that is: a receiver that lags reads the blocks it
    /// missed by height.
    fn subscribe(&self) -> broadcast::Receiver<ChainEvent>;

    fn peer_count(&self) -> usize;

    /// The node itself and the peers it has links with, as far as strangers may know.
    fn peers(&self) -> Peers;

    /// `None` when the node is at the head of the chain as far as it knows.
    fn syncing(&self) -> Option<SyncProgress>;

    /// The certificate of the lowest certified block at or above `height`: it covers the block at `height` too.
    fn certificate(&self, height: Height) -> Option<Certificate>;

    /// Where a transaction stands; `None` when nothing is known of it.
    fn status(&self, hash: &B256) -> Option<TransactionStatus>;

    /// When a transaction entered this node's pool, and when it left it unexecuted; what is known of it. An executed one is asked for
    /// too, and may be remembered for a while.
    fn pool_times(&self, _hash: &B256) -> TransactionTimes {
        TransactionTimes::default()
    }

    /// Who orders and signs.
    fn validators(&self) -> Validators;

    /// What execution did since the node started.
    fn statistics(&self) -> Statistics;

    /// What running the block at `height` took; `None` when that is not kept any more.
    fn execution(&self, _height: Height) -> Option<Execution> {
        None
    }

    /// What only a development chain takes; `None` elsewhere.
    fn dev(&self) -> Option<&dyn DevChain> {
        None
    }

    /// The newest round of which [`Self::dag_events`] knows something. The error is what the client is told: a node that
    /// orders nothing has no DAG.
    fn dag_newest_round(&self) -> Result<u64, RpcError> {
        Err(Reason::DagNotAvailable.error())
    }

    /// Changes whenever [`Self::dag_events`] has more to tell, of whatever round. Listened to only where [`Self::dag_newest_round`] answers.
    fn dag_growth(&self) -> watch::Receiver<()> {
        watch::channel(()).1
    }

    /// What the engine did in these rounds, at most `max` events.
    fn dag_events(&self, _rounds: RangeInclusive<u64>, _max: usize) -> Result<DagEvents, RpcError> {
        Err(Reason::DagNotAvailable.error())
    }
}

/// A development chain: it is told more than transactions, and holds keys.
pub trait DevChain: Send + Sync {
    /// Of the accounts whose transactions it signs.
    fn keys(&self) -> Vec<EthereumKey>;

    /// Names this chain since it began, in this process: another after a restart or [`DevOrder::Reset`].
    fn instance(&self) -> B256;

    /// Whether transactions make blocks by themselves.
    fn automine(&self) -> bool;

    /// Told what contracts said in a run, by whom and in order: a transaction, by its hash, or a method that leaves nothing behind. Printing it
    /// must not wait for anybody.
    fn said(&self, _run: &dyn Display, _lines: &[(Address, &str)]) {}

    /// Does it, and answers when what it comes to can be read. The number is a snapshot's name, seconds, a time, or whether (1)
    /// there was such a snapshot or such a transaction; otherwise 0.
    fn order(&self, order: DevOrder) -> BoxFuture<'static, Result<u64, RpcError>>;
}

/// What a development chain is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DevOrder {
    Mine {
        blocks: u64,
        apart_seconds: Option<u64>,
    },
    Set(Vec<AccountChange>),
    Skip {
        seconds: u64,
    },
    Next {
        timestamp: u64,
    },
    /// Of the next block.
    BaseFee {
        wei: u64,
    },
    /// The same.
    Randomness(B256),
    Drop(DropOrder),
    Automine(bool),
    Interval {
        ms: u64,
    },
    Snapshot,
    Revert {
        id: u64,
    },
    /// Back to the genesis, as after a start.
    Reset,
}

/// What is to leave the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropOrder {
    One(B256),
    Of(Address),
    All,
}

/// How an account should be.
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
    /// In the order in which they happened, each with the time by the node's clock. After a restart the engine may have said
    /// some of them again.
    pub events: Vec<(TimestampMs, TraceEvent)>,
    /// There are more than were asked for.
    pub more: bool,
    /// Events of any round that were let go since the node started.
    pub dropped: u64,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainEvent {
    /// A block is durable.
    Head(Height),
    /// A transaction entered the pool.
    Pending(B256),
    /// A block, and with it all before it, is certified.
    Finalized(Height),
    /// A development chain went back.
    Reverted(Arc<Reverted>),
}

/// Blocks that are not part of the chain any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reverted {
    /// The newest block that is left.
    pub to: Height,
    /// Ascending.
    pub removed: Vec<Arc<ChainBlock>>,
}

/// Where catching up began, is, and leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncProgress {
    pub starting: Height,
    pub current: Height,
    pub highest: Height,
}

/// A block as clients see it. Transactions stay encoded until somebody asks for them in full: hashes and senders are in
/// the receipts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainBlock {
    pub header: Header,
    pub hash: B256,
    /// `None` for the genesis block, which nobody ordered.
    pub ordering: Option<OrderingRecord>,
    /// The executed transactions in order: EIP-2718 bytes.
    pub transactions: Vec<Bytes>,
    /// One per transaction.
    pub receipts: Vec<Receipt>,
}

impl ChainBlock {
    /// A stored block with its receipts, one per executed transaction. `hash` is the header's.
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

    /// Bytes of the block in Ethereum's encoding: RLP([header, transactions, uncles]), in which typed transactions stand as byte
    /// strings and legacy ones as lists.
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

    /// The time that was agreed on with its order; the genesis block's is what its header says.
    pub fn time(&self) -> TimestampMs {
        self.ordering.as_ref().map_or(TimestampMs(self.header.timestamp * 1000), |ordering| ordering.time)
    }
}
