//! Chain in memory whose blocks are defined by the test.

use alloy_consensus::TxEip1559;
use alloy_consensus::proofs::calculate_transaction_root;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, address, keccak256};
use corniche_api::{
    Execution, Peer, Peers, Reason, RpcError, Statistics, TransactionStatus, TransactionTimes, Validator, Validators,
};
use corniche_crypto::{EthereumKey, VerifiedTransaction};
use corniche_engine::TraceEvent;
use corniche_rpc::{Backend, ChainBlock, ChainEvent, ChangedKeys, DagEvents, DevChain, DevCommand, DropTarget, SyncProgress};
use corniche_state::{ABI_VERSION, Account, Changes, Overlay, SharedTree, State, StateView, Tree};
use corniche_types::{
    BatchRef, Block, Certificate, CommitIndex, Epoch, FaultModel, Header, Height, Log, OrderedTransaction, OrderingRecord,
    ProtocolRules, Receipt, SignerBitmap, TimestampMs, Transaction, ValidatorIndex,
};
use corniche_vm::wasm::NoCache;
use corniche_vm::{BlockEnv, Vm, VmConfig};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use tokio::sync::{broadcast, watch};

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
    state: State,
    tree: SharedTree,
    /// Number of times the tree was requested.
    pub trees_given: AtomicUsize,
    changes: RwLock<Vec<Changes>>,
    /// If set, pruned states are read as old states; the value tells whether such reads complete.
    pub old_states: Mutex<Option<Whole>>,
    pool: Mutex<BTreeMap<B256, VerifiedTransaction>>,
    finalized: AtomicU64,
    events: broadcast::Sender<ChainEvent>,
    vm: Vm,
    pub syncing: Mutex<Option<SyncProgress>>,
    /// Error for the next submission.
    pub refusal: Mutex<Option<RpcError>>,
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
            blocks: RwLock::new(vec![Arc::new(ChainBlock::genesis(header))]),
            state,
            tree,
            trees_given: AtomicUsize::new(0),
            changes: RwLock::new(vec![genesis]),
            old_states: Mutex::default(),
            pool: Mutex::default(),
            finalized: AtomicU64::new(0),
            events: broadcast::channel(1024).0,
            vm: Vm::new(&VmConfig::default(), Arc::new(NoCache)).unwrap(),
            syncing: Mutex::default(),
            refusal: Mutex::default(),
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
        protocol_version: 1,
        engine: "mahi-mahi".into(),
        epoch: Epoch(0),
        committee_hash: B256::repeat_byte(0xc0),
        next_committee_hash: B256::repeat_byte(0xc0),
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

    fn block(&self, height: Height) -> Option<Arc<ChainBlock>> {
        self.blocks.read().unwrap().get(height.0 as usize).cloned()
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

    fn fee_address(&self, validator: ValidatorIndex) -> Option<Address> {
        Some(fee_address(validator))
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

    fn validators(&self) -> Validators {
        let validator = |index: u64| Validator {
            index,
            consensus_key: B256::repeat_byte(index as u8),
            bls_key: Bytes::from(vec![index as u8; 96]),
            network_key: B256::repeat_byte(0x10 + index as u8),
            fee_address: Address::repeat_byte(0xf0 + index as u8),
        };
        Validators {
            epoch: 0,
            committee_hash: B256::repeat_byte(0xc0),
            engine: "mahi-mahi".into(),
            quorum: 3,
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
        Ok(self.traced()?.iter().map(|(_, event)| super::dag::round(event)).max().unwrap_or(0))
    }

    fn dag_growth(&self) -> watch::Receiver<()> {
        self.growth.subscribe()
    }

    fn dag_events(&self, rounds: RangeInclusive<u64>, max: usize) -> Result<DagEvents, RpcError> {
        let mut events = self.traced()?;
        events.retain(|(_, event)| rounds.contains(&super::dag::round(event)));
        let more = events.len() > max;
        events.truncate(max);
        Ok(DagEvents { events, more, dropped: 3 })
    }
}

/// Smallest contract that uses both input and output of a call.
fn echo_module() -> Bytes {
    use wasm_encoder::{
        CodeSection, EntityType, ExportKind, ExportSection, Function, FunctionSection, ImportSection, MemArg, MemorySection,
        MemoryType, Module, TypeSection, ValType,
    };
    let mut types = TypeSection::new();
    types.ty().function([ValType::I32], []);
    types.ty().function([ValType::I32, ValType::I32], []);
    types.ty().function([ValType::I32], [ValType::I32]);
    let mut imports = ImportSection::new();
    imports.import("vm_hooks", "read_args", EntityType::Function(0));
    imports.import("vm_hooks", "write_result", EntityType::Function(1));
    let mut functions = FunctionSection::new();
    functions.function(2);
    let mut memories = MemorySection::new();
    memories.memory(MemoryType { minimum: 1, maximum: Some(1), memory64: false, shared: false, page_size_log2: None });
    let mut exports = ExportSection::new();
    exports.export("memory", ExportKind::Memory, 0);
    exports.export("user_entrypoint", ExportKind::Func, 2);
    let mut body = Function::new([]);
    let byte_at = MemArg { offset: 0, align: 0, memory_index: 0 };
    let mut code = body.instructions();
    code.i32_const(0).call(0).i32_const(0).local_get(0).call(1);
    code.i32_const(0).i32_load8_u(byte_at).i32_const(8).i32_eq().end();
    let mut codes = CodeSection::new();
    codes.function(&body);
    let mut module = Module::new();
    module.section(&types).section(&imports).section(&functions).section(&memories).section(&exports).section(&codes);
    module.finish().into()
}

const RELAY_MODULE: &str = r#"(module
  (import "vm_hooks" "read_args" (func $args (param i32)))
  (import "vm_hooks" "write_result" (func $result (param i32 i32)))
  (import "vm_hooks" "emit_log" (func $emit (param i32 i32 i32)))
  (import "vm_hooks" "storage_load_bytes32" (func $load (param i32 i32)))
  (import "vm_hooks" "storage_cache_bytes32" (func $store (param i32 i32)))
  (import "vm_hooks" "storage_flush_cache" (func $flush (param i32)))
  (import "vm_hooks" "call_contract" (func $call (param i32 i32 i32 i32 i64 i32) (result i32)))
  (import "vm_hooks" "delegate_call_contract" (func $delegate (param i32 i32 i32 i64 i32) (result i32)))
  (import "vm_hooks" "static_call_contract" (func $static (param i32 i32 i32 i64 i32) (result i32)))
  (import "vm_hooks" "read_return_data" (func $returned (param i32 i32 i32) (result i32)))
  (memory (export "memory") 2 2)
  ;; 0 the slot, 32 its value, 64 a topic, 96 wei, 128 a length, 1024 the input, 65536 what came back
  (func (export "user_entrypoint") (param $length i32) (result i32)
    (local $how i32) (local $status i32) (local $data i32)
    (call $args (i32.const 1024))
    (local.set $how (i32.or (i32.load8_u (i32.const 1024)) (i32.const 32)))
    (local.set $data (i32.sub (local.get $length) (i32.const 22)))
    (i32.store8 (i32.const 95) (i32.const 1))
    (call $emit (i32.const 64) (i32.const 32) (i32.const 1))
    (call $load (i32.const 0) (i32.const 32))
    (i32.store8 (i32.const 63) (i32.add (i32.load8_u (i32.const 63)) (i32.const 1)))
    (call $store (i32.const 0) (i32.const 32))
    (call $flush (i32.const 0))
    (i32.store8 (i32.const 127) (i32.load8_u (i32.const 1025)))
    (if (i32.eq (local.get $how) (i32.const 99)) (then (local.set $status (call $call
      (i32.const 1026) (i32.const 1046) (local.get $data) (i32.const 96) (i64.const -1) (i32.const 128)))))
    (if (i32.eq (local.get $how) (i32.const 100)) (then (local.set $status (call $delegate
      (i32.const 1026) (i32.const 1046) (local.get $data) (i64.const -1) (i32.const 128)))))
    (if (i32.eq (local.get $how) (i32.const 115)) (then (local.set $status (call $static
      (i32.const 1026) (i32.const 1046) (local.get $data) (i64.const -1) (i32.const 128)))))
    (i32.store8 (i32.const 95) (i32.const 2))
    (call $emit (i32.const 64) (i32.const 32) (i32.const 1))
    (drop (call $returned (i32.const 65536) (i32.const 0) (i32.load (i32.const 128))))
    (call $result (i32.const 65536) (i32.load (i32.const 128)))
    (select (local.get $status) (i32.const 0) (i32.eq (local.get $how) (i32.load8_u (i32.const 1024))))))"#;

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
