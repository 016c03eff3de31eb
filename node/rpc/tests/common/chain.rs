//! Chain in memory whose blocks are defined by the test.

mod backend;
mod contracts;
mod staking;

use alloy_consensus::TxEip1559;
use alloy_consensus::proofs::calculate_transaction_root;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, address, keccak256};
use contracts::{RELAY_MODULE, echo_module};
use corniche_api::{Reason, RpcError};
use corniche_crypto::{EthereumKey, VerifiedTransaction};
use corniche_engine::TraceEvent;
use corniche_rpc::{Backend, ChainBlock, ChainEvent, DevCommand, SyncProgress};
use corniche_state::{ABI_VERSION, Account, Changes, Overlay, SharedTree, State, StateView, Tree};
use corniche_types::{
    BatchRef, Block, CommitIndex, Epoch, Header, Height, Log, OrderedTransaction, OrderingRecord, ProtocolRules, Receipt,
    StakingParameters, TimestampMs, Transaction, ValidatorIndex,
};
use corniche_vm::wasm::NoCache;
use corniche_vm::{BlockEnv, Vm, VmConfig};
use staking::add_staking;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::thread::ThreadId;
use tokio::sync::{broadcast, watch};

pub use staking::staking_parameters;

pub const CHAIN_ID: u64 = 7777;
pub const BASE_FEE: u64 = 1_000_000_000;
/// Blocks follow at intervals of 1 s.
const GENESIS_SECONDS: u64 = 1_700_000_000;
/// Returns its input; reverts with it if it starts with byte 8, as ABI-encoded Error(string) does.
pub const ECHO: Address = address!("00000000000000000000000000000000000000ec");
/// Forwards its input, which [`relayed`] encodes: emits log 1, counts in slot 0 if allowed, makes the call,
/// emits log 2, and ends like the call, with its output.
pub const RELAY: Address = address!("00000000000000000000000000000000000000ab");
/// Coinbase of all blocks.
pub const COINBASE: Address = Address::repeat_byte(0xfe);
const RANDOMNESS: B256 = B256::repeat_byte(0x99);
/// Proposer of all transactions.
pub const AUTHOR: ValidatorIndex = ValidatorIndex(2);
/// Account with the private key of 32 bytes 1.
pub const FUNDED: Address = address!("1a642f0e3c3af545e7acbd38b07251b3990914f1");

pub struct TestChain {
    /// Commands received as a development chain.
    pub told: Mutex<Vec<DevCommand>>,
    blocks: RwLock<Vec<Arc<ChainBlock>>>,
    /// Lowest block that the node has, apart from the genesis; 1 for a whole chain. The header and the state of the block below exist
    /// too, as in a snapshot.
    first_block: AtomicU64,
    /// Heights of the blocks that the server read, and the threads that read them.
    pub blocks_read: Mutex<Vec<(Height, ThreadId)>>,
    state: State,
    tree: SharedTree,
    /// Number of times the tree was requested.
    pub trees_given: AtomicUsize,
    changes: RwLock<Vec<Changes>>,
    /// If set, pruned states are read as old states; the value tells whether such reads complete.
    pub old_states: Mutex<Option<Whole>>,
    /// Number of times that a pooled transaction was read.
    pub pool_reads: AtomicUsize,
    pool: Mutex<BTreeMap<B256, VerifiedTransaction>>,
    finalized: AtomicU64,
    /// The running epoch.
    epoch: AtomicU64,
    events: broadcast::Sender<ChainEvent>,
    vm: Vm,
    pub syncing: Mutex<Option<SyncProgress>>,
    /// Error for the next submission.
    pub refusal: Mutex<Option<RpcError>>,
    /// Called with each submission.
    pub on_submit: Mutex<Option<Box<dyn FnMut() + Send>>>,
    /// The next submission is accepted; its response waits for this.
    pub answers_late: Mutex<Option<tokio::sync::oneshot::Receiver<()>>>,
    /// `None`: a node without a DAG.
    trace: Mutex<Option<Vec<(TimestampMs, TraceEvent)>>>,
    /// Signals new events in the trace.
    growth: watch::Sender<()>,
    /// While true, reading the state of block 0 waits; see [`Held`].
    held: Mutex<bool>,
    released: Condvar,
    waiting: Mutex<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    Yes,
    /// The state is pruned during the read.
    No,
}

/// Readers wait until it is dropped.
pub struct Held(Arc<TestChain>);

impl Drop for Held {
    fn drop(&mut self) {
        *self.0.held.lock().unwrap() = false;
        self.0.released.notify_all();
    }
}

pub fn key() -> EthereumKey {
    EthereumKey::from_bytes(&[1; 32]).unwrap()
}

/// A signed transfer of 1 wei.
pub fn transfer(nonce: u64) -> Bytes {
    key().sign(TxEip1559 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: u128::from(BASE_FEE) * 2,
        max_priority_fee_per_gas: 5_000_000,
        to: TxKind::Call(Address::repeat_byte(0x22)),
        value: U256::from(1),
        access_list: Default::default(),
        input: Bytes::new(),
    })
}

/// Input of the relay: kind of call ('c', 'd' or 's' for call, delegate call and static call; in capitals the
/// relay succeeds in any case), wei, target, and data.
pub fn relayed(how: char, wei: u8, to: Address, data: &[u8]) -> Bytes {
    [&[how as u8, wei][..], to.as_slice(), data].concat().into()
}

/// Signed call with enough gas.
pub fn call(nonce: u64, to: impl Into<TxKind>, input: Bytes) -> Bytes {
    key().sign(TxEip1559 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit: 2_000_000,
        max_fee_per_gas: u128::from(BASE_FEE) * 2,
        max_priority_fee_per_gas: 5_000_000,
        to: to.into(),
        input,
        ..TxEip1559::default()
    })
}

/// Log whose topics consist of the given bytes.
pub fn log(address: Address, topics: &[u8]) -> Log {
    Log { address, topics: topics.iter().map(|byte| B256::repeat_byte(*byte)).collect(), data: Bytes::from_static(&[1, 2]) }
}

impl TestChain {
    /// Chain with only the genesis.
    pub fn new() -> Self {
        Self::staked(4)
    }

    /// Chain with this number of validators in the staking contract.
    pub fn staked(validators: u32) -> Self {
        let state = State::default();
        let code = echo_module();
        let mut genesis = Changes::default();
        let funded = Account { balance: U256::from(10).pow(U256::from(20)), ..Account::default() };
        let echo = Account {
            nonce: 1,
            code_hash: keccak256(&code),
            abi_version: ABI_VERSION,
            gas_version: ProtocolRules::LATEST.gas_version,
            ..Account::default()
        };
        let relay_code = wat::parse_str(RELAY_MODULE).unwrap();
        let relay = Account { code_hash: keccak256(&relay_code), balance: U256::from(1_000), ..echo.clone() };
        genesis.code.insert(relay.code_hash, relay_code.into());
        genesis.accounts.insert(RELAY, Some(relay));
        genesis.code.insert(echo.code_hash, code);
        genesis.accounts.insert(FUNDED, Some(funded));
        genesis.accounts.insert(ECHO, Some(echo));
        genesis.storage.insert((ECHO, B256::with_last_byte(3)), B256::repeat_byte(0x55));
        add_staking(&mut genesis, validators);
        state.apply(Height(0), &genesis);
        let tree = SharedTree::new(Height(0), Tree::default());
        let state_root = tree.apply(Height(0), &genesis);
        let header = Header {
            state_root,
            gas_limit: 30_000_000,
            timestamp: GENESIS_SECONDS,
            base_fee_per_gas: Some(BASE_FEE),
            ..Header::default()
        };
        Self {
            told: Mutex::default(),
            first_block: AtomicU64::new(1),
            blocks_read: Mutex::default(),
            blocks: RwLock::new(vec![Arc::new(ChainBlock::genesis(header))]),
            state,
            tree,
            trees_given: AtomicUsize::new(0),
            changes: RwLock::new(vec![genesis]),
            old_states: Mutex::default(),
            pool_reads: AtomicUsize::new(0),
            pool: Mutex::default(),
            finalized: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            events: broadcast::channel(1024).0,
            vm: vm(Some(staking_parameters())),
            syncing: Mutex::default(),
            refusal: Mutex::default(),
            on_submit: Mutex::default(),
            answers_late: Mutex::default(),
            trace: Mutex::default(),
            growth: watch::Sender::default(),
            held: Mutex::new(false),
            released: Condvar::new(),
            waiting: Mutex::new(0),
        }
    }

    /// Adds a block of these transactions, each with its logs, and announces it.
    pub fn mine(&self, transactions: &[(Bytes, Vec<Log>)]) -> Arc<ChainBlock> {
        let block = self.add(transactions);
        let _ = self.events.send(ChainEvent::Head(block.height()));
        block
    }

    /// Adds a block without announcing it.
    pub fn add(&self, transactions: &[(Bytes, Vec<Log>)]) -> Arc<ChainBlock> {
        let decoded: Vec<_> = transactions.iter().map(|(raw, _)| verified(raw)).collect();
        let mut gas_used = 0;
        let receipts: Vec<Receipt> = decoded
            .iter()
            .zip(transactions)
            .map(|(transaction, (_, logs))| {
                let used = 21_000 + 1_000 * logs.len() as u64;
                gas_used += used;
                Receipt {
                    transaction_hash: transaction.hash(),
                    type_byte: transaction.transaction().type_byte(),
                    success: true,
                    gas_used: used,
                    cumulative_gas_used: gas_used,
                    effective_gas_price: transaction.transaction().effective_gas_price(BASE_FEE),
                    sender: transaction.sender(),
                    to: transaction.transaction().to(),
                    contract_address: None,
                    logs: logs.clone(),
                    output: Bytes::new(),
                }
            })
            .collect();
        self.push(&decoded, receipts, self.nonces_after(&decoded))
    }

    /// Adds a block of transactions that are really executed.
    pub fn execute(&self, transactions: &[Bytes]) -> Arc<ChainBlock> {
        let decoded: Vec<_> = transactions.iter().map(verified).collect();
        let base = self.state.latest();
        let env = BlockEnv {
            rules: ProtocolRules::LATEST,
            chain_id: CHAIN_ID,
            number: self.head().0 + 1,
            timestamp: timestamp(self.head().next()),
            base_fee: BASE_FEE,
            coinbase: COINBASE,
            gas_limit: 30_000_000,
            randomness: RANDOMNESS,
        };
        let (mut changes, mut receipts, mut gas_used) = (Changes::default(), Vec::new(), 0);
        for transaction in &decoded {
            let now = Overlay { base: &base, changes: &changes };
            let executed = self.vm.transact(&now, &env, transaction, fee_address(AUTHOR)).unwrap();
            let added = executed.additions.resolve(&now);
            changes.merge(executed.changes);
            changes.merge(added);
            gas_used += executed.receipt.gas_used;
            receipts.push(Receipt { cumulative_gas_used: gas_used, ..executed.receipt });
        }
        self.push(&decoded, receipts, changes)
    }

    fn push(&self, transactions: &[VerifiedTransaction], receipts: Vec<Receipt>, changes: Changes) -> Arc<ChainBlock> {
        let mut blocks = self.blocks.write().unwrap();
        let parent = blocks.last().unwrap().clone();
        let height = parent.height().next();
        let raw = |transaction: &VerifiedTransaction| transaction.transaction().raw().clone();
        let ordered: Vec<_> =
            transactions.iter().map(|transaction| OrderedTransaction { author: AUTHOR, raw: raw(transaction) }).collect();
        let ordering = ordering(height, &ordered);
        let envelopes: Vec<_> = transactions.iter().map(|transaction| transaction.transaction().envelope().clone()).collect();
        let header = Header {
            parent_hash: parent.hash,
            number: height.0,
            beneficiary: COINBASE,
            state_root: self.tree.apply(height, &changes),
            transactions_root: calculate_transaction_root(&envelopes),
            receipts_root: Receipt::root(&receipts),
            logs_bloom: receipts.iter().fold(Default::default(), |bloom, receipt| bloom | receipt.logs_bloom()),
            gas_limit: 30_000_000,
            gas_used: receipts.last().map_or(0, |receipt| receipt.cumulative_gas_used),
            timestamp: timestamp(height),
            extra_data: ordering.extra_data(),
            mix_hash: RANDOMNESS,
            base_fee_per_gas: Some(BASE_FEE),
            ..Header::default()
        };
        let block = Block { header, ordering, ordered };
        let block = Arc::new(ChainBlock::new(&block, block.hash(), receipts));
        self.state.apply(height, &changes);
        self.changes.write().unwrap().push(changes);
        let mut pool = self.pool.lock().unwrap();
        for receipt in &block.receipts {
            pool.remove(&receipt.transaction_hash);
        }
        drop(pool);
        blocks.push(block.clone());
        block
    }

    fn nonces_after(&self, transactions: &[VerifiedTransaction]) -> Changes {
        let mut changes = Changes::default();
        for transaction in transactions {
            let mut account = self.state.latest().account(&transaction.sender()).unwrap_or_default();
            account.nonce = transaction.transaction().nonce() + 1;
            changes.accounts.insert(transaction.sender(), Some(account));
        }
        changes
    }

    pub fn finalize(&self, height: u64) {
        self.finalized.store(height, Ordering::Relaxed);
        let _ = self.events.send(ChainEvent::Finalized(Height(height)));
    }

    /// Begins an epoch without announcing it.
    pub fn begin_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::SeqCst);
    }

    /// Announces the running epoch.
    pub fn announce_epoch(&self) {
        let _ = self.events.send(ChainEvent::Epoch(self.epoch()));
    }

    /// Makes the node a validator whose engine recorded these events.
    pub fn trace(&self, events: Vec<(TimestampMs, TraceEvent)>) {
        *self.trace.lock().unwrap() = Some(events);
        self.growth.send_replace(());
    }

    fn traced(&self) -> Result<Vec<(TimestampMs, TraceEvent)>, RpcError> {
        self.trace.lock().unwrap().clone().ok_or_else(|| Reason::DagNotAvailable.with("a full node"))
    }

    pub fn announce_head(&self) {
        let _ = self.events.send(ChainEvent::Head(self.head()));
    }

    pub fn forget_states_below(&self, height: u64) {
        self.state.prune_below(Height(height));
    }

    /// Deletes the blocks below this one, as a node does that began with a snapshot of the block below it.
    pub fn prune_below(&self, first: u64) {
        self.first_block.store(first, Ordering::SeqCst);
        self.forget_states_below(first - 1);
    }

    /// Adds a transaction to the pool immediately.
    pub fn pend(&self, raw: Bytes) {
        drop(self.submit(raw));
    }

    /// From now on, reading the state of block 0 waits until the returned guard is dropped. A failing test
    /// drops it too; its runtime waits for its readers.
    pub fn hold(self: &Arc<Self>) -> Held {
        *self.held.lock().unwrap() = true;
        Held(self.clone())
    }

    /// Number of pooled transactions.
    pub fn waiting_in_pool(&self) -> usize {
        self.pool.lock().unwrap().len()
    }

    /// Number of waiting readers.
    pub fn waiting(&self) -> u32 {
        *self.waiting.lock().unwrap()
    }
}

fn vm(staking: Option<StakingParameters>) -> Vm {
    Vm::new(&VmConfig { staking: staking.map(Arc::new), ..VmConfig::default() }, Arc::new(NoCache)).unwrap()
}

fn verified(raw: &Bytes) -> VerifiedTransaction {
    VerifiedTransaction::verify(Transaction::decode(raw.clone()).unwrap(), CHAIN_ID).unwrap()
}

fn timestamp(height: Height) -> u64 {
    GENESIS_SECONDS + height.0
}

pub fn fee_address(validator: ValidatorIndex) -> Address {
    Address::with_last_byte(0xf0 + validator.0 as u8)
}

fn ordering(height: Height, ordered: &[OrderedTransaction]) -> OrderingRecord {
    OrderingRecord {
        // The record of every second block has a head and a tail.
        protocol_version: if height.0.is_multiple_of(2) { 5 } else { 1 },
        engine: "mahi-mahi".into(),
        epoch: Epoch(0),
        committee_hash: B256::repeat_byte(0xc0),
        next: None,
        first_commit: CommitIndex(height.0 * 3),
        last_commit: CommitIndex(height.0 * 3 + 1),
        last_commit_consumed: ordered.len() as u32,
        leader: ValidatorIndex(1),
        time: TimestampMs(timestamp(height) * 1000),
        randomness: RANDOMNESS,
        batches: vec![BatchRef { author: AUTHOR, digest: B256::ZERO, first: 0, count: ordered.len() as u32 }],
        transactions_hash: Block::transactions_hash(ordered),
        skipped: vec![],
        resume_hash: B256::ZERO,
    }
}
