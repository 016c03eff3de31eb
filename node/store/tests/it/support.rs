//! Small chain, and directories for stores.

use corniche_engine::Ticket;
use corniche_state::{Account, Changes, CommittedBlock, StateView, Tree};
use corniche_store::{Backend, Options, Reader, Recovered, Store, StoreError, genesis_block};
use corniche_types::*;
use std::fs;
use std::path::{Path, PathBuf};

pub const BACKENDS: [Backend; 2] = [Backend::Sled, Backend::Redb];

/// Directory for tests that open thousands of stores: in memory if the system has a RAM disk, where syncs are
/// free.
pub fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

pub fn genesis() -> Genesis {
    let rich = GenesisAccount { balance: U256::from(1_000_000), ..Default::default() };
    let contract = GenesisAccount {
        code: Bytes::from_static(b"\0asm genesis code"),
        storage: [(B256::with_last_byte(1), B256::with_last_byte(9))].into(),
        ..Default::default()
    };
    Genesis {
        protocol_version: 1,
        upgrades: Vec::new(),
        chain_id: 77,
        currency: "COR".into(),
        timestamp_ms: TimestampMs(1_700_000_000_000),
        block_ms: 0,
        block_gas_limit: 30_000_000,
        batch_bytes: 1 << 20,
        batch_gas: 1 << 20,
        epoch_blocks: 1000,
        fees: FeeRules { initial_base_fee: 1, target_gas_per_second: 1 },
        engine: EngineConfig { name: "mahi-mahi".into(), parameters: Default::default() },
        validators: vec![],
        coin_shares: vec![],
        coin_public_key: Default::default(),
        accounts: [(Address::with_last_byte(1), rich), (Address::with_last_byte(2), contract)].into(),
        signatures: SignatureChecks::Everyone,
        staking: None,
        coin_draft: None,
        multicast: None,
    }
}

/// Generates the blocks of one chain, always identical.
#[derive(Clone)]
pub struct Chain {
    pub blocks: Vec<CommittedBlock>,
    tree: Tree,
    pub transactions_per_block: u64,
}

impl Chain {
    pub fn new() -> Self {
        let genesis = genesis_block(&genesis());
        let mut tree = Tree::default();
        tree.apply(&genesis.changes);
        Self { blocks: vec![genesis], tree, transactions_per_block: 3 }
    }

    pub fn of(heights: u64) -> Self {
        let mut chain = Self::new();
        (0..heights).for_each(|_| drop(chain.extend()));
        chain
    }

    pub fn head(&self) -> &CommittedBlock {
        self.blocks.last().unwrap()
    }

    pub fn hash(&self, height: u64) -> B256 {
        self.blocks[height as usize].block.hash()
    }

    pub fn extend(&mut self) -> CommittedBlock {
        let parent = self.head().block.clone();
        let height = parent.header.number + 1;
        let changes = changes_at(height, self.transactions_per_block);
        let resume = Resume {
            index: CommitIndex(height * 2),
            checkpoint: Bytes::from(format!("resume {height}").into_bytes()),
            ..Resume::default()
        };
        let header = Header {
            parent_hash: parent.hash(),
            number: height,
            timestamp: parent.header.timestamp + 1,
            state_root: self.tree.apply(&changes),
            ..parent.header
        };
        let transactions = 0..self.transactions_per_block;
        let raw = |index| Bytes::from(format!("transaction {index} of block {height}").repeat(4).into_bytes());
        let ordered = transactions.clone().map(|index| OrderedTransaction { author: ValidatorIndex(0), raw: raw(index) });
        let receipts = transactions.map(|index| receipt(height, index));
        let block = Block { header, ordering: parent.ordering, ordered: ordered.collect() };
        let committed = CommittedBlock { block, receipts: receipts.collect(), changes, resume };
        self.blocks.push(committed.clone());
        committed
    }

    pub fn certificate(&self, height: u64) -> Certificate {
        Certificate {
            epoch: Epoch(0),
            committee_hash: B256::repeat_byte(3),
            height: Height(height),
            header_hash: self.hash(height),
            fault_model: FaultModel::Byzantine,
            signers: SignerBitmap(Bytes::from_static(&[0x0f])),
            signature: Bytes::from(vec![height as u8; 48]),
        }
    }
}

pub fn transaction_hash(height: u64, index: u64) -> B256 {
    keccak256(format!("{height}/{index}"))
}

fn receipt(height: u64, index: u64) -> Receipt {
    Receipt {
        transaction_hash: transaction_hash(height, index),
        type_byte: 2,
        success: true,
        gas_used: 21_000,
        cumulative_gas_used: 21_000 * (index + 1),
        effective_gas_price: 7,
        sender: Address::with_last_byte(1),
        to: Some(Address::with_last_byte(2)),
        contract_address: None,
        logs: vec![Log { address: Address::with_last_byte(2), topics: vec![B256::repeat_byte(4)], data: Bytes::new() }],
        output: Bytes::new(),
    }
}

/// Accounts and slots that are created, changed and deleted; sometimes code.
fn changes_at(height: u64, width: u64) -> Changes {
    let mut changes = Changes::default();
    for index in 0..width {
        let number = (height * 7 + index * 3) % 50;
        let address = Address::with_last_byte(100 + number as u8);
        let account = Account { nonce: height, balance: U256::from(height * 1000 + index), ..Default::default() };
        changes.accounts.insert(address, (height % 5 != 4).then_some(account));
        let slot = B256::with_last_byte(number as u8);
        let value = if height % 7 == 3 { B256::ZERO } else { B256::from(U256::from(height)) };
        changes.storage.insert((Address::with_last_byte(2), slot), value);
    }
    if height % 6 == 1 {
        let code = Bytes::from(format!("\0asm code of {height}").into_bytes());
        let account = Account { code_hash: keccak256(&code), abi_version: 1, gas_version: 1, ..Default::default() };
        changes.accounts.insert(Address::with_last_byte(10 + (height % 80) as u8), Some(account));
        changes.code.insert(keccak256(&code), code);
    }
    changes
}

/// Small segments and no background thread: tests move the checkpoint themselves.
pub fn options(backend: Backend) -> Options {
    Options {
        backend,
        block_segment_bytes: 16 << 10,
        safety_segment_bytes: 1 << 10,
        checkpoint_lag: 4,
        checkpoint_blocks: 4,
        checkpoint_interval: None,
        window_blocks: 8,
        low_space_bytes: 0,
        exhausted_space_bytes: 0,
        ..Options::default()
    }
}

pub fn open(directory: &Path, options: Options) -> Result<(Store, Recovered), StoreError> {
    Store::open(directory, &genesis(), options)
}

/// Appends and syncs the blocks above the head, a certificate for every second one and a safety record for each.
pub fn append(store: &mut Store, chain: &Chain) {
    let head = store.reader().head().height().0;
    for committed in &chain.blocks[head as usize + 1..] {
        let height = committed.block.height().0;
        store.append_safety(Ticket(height), &safety_record(height)).unwrap();
        store.append_block(committed.clone()).unwrap();
        if height % 2 == 0 {
            store.append_certificate(&chain.certificate(height)).unwrap();
        }
        let synced = store.sync().unwrap();
        assert_eq!(synced.head, Height(height));
        assert_eq!(synced.tickets, [Ticket(height)]);
    }
}

pub fn safety_record(ticket: u64) -> Bytes {
    Bytes::from(format!("own proposal {ticket}").into_bytes())
}

/// Checks that everything synced is there, through every method.
pub fn assert_holds(chain: &Chain, store: &Store, recovered: &Recovered) {
    let head = chain.head();
    assert_eq!(*recovered.head.committed, *head);
    assert_eq!(recovered.resume, head.resume);
    assert_state(chain, recovered);
    assert_reader(chain, &store.reader());
    let certified = (head.block.height().0 / 2) * 2;
    let expected = (certified > 0).then(|| chain.certificate(certified));
    assert_eq!(recovered.certificate.as_deref().cloned(), expected);
}

pub fn assert_state(chain: &Chain, recovered: &Recovered) {
    let head = chain.head();
    assert_eq!(recovered.tree.root(), head.block.header.state_root);
    assert_eq!(recovered.state.head(), Some(head.block.height()));
    let mut all = Changes::default();
    chain.blocks.iter().for_each(|committed| all.merge(committed.changes.clone()));
    let latest = recovered.state.latest();
    for (address, account) in &all.accounts {
        assert_eq!(latest.account(address), *account, "{address}");
    }
    for ((address, slot), value) in &all.storage {
        assert_eq!(latest.storage(address, slot), *value);
    }
    for (hash, code) in &all.code {
        assert_eq!(latest.code(hash).as_ref(), Some(code));
    }
}

pub fn assert_reader(chain: &Chain, reader: &Reader) {
    assert_eq!(reader.head().hash, chain.head().block.hash());
    for (height, committed) in (0..).map(Height).zip(&chain.blocks) {
        let block = reader.block(height).unwrap_or_else(|| panic!("block {height}"));
        assert_eq!(*block.committed, *committed);
        assert_eq!(reader.header(height).as_ref(), Some(&committed.block.header));
        assert_eq!(reader.height_of(&block.hash), Some(height));
        assert_eq!(reader.block_by_hash(&block.hash).unwrap().hash, block.hash);
        assert_eq!(reader.committed(height).unwrap(), Bytes::from(wire::encode(committed)));
        assert_eq!(reader.receipts(height).unwrap(), committed.receipts);
        for (index, receipt) in (0u32..).zip(&committed.receipts) {
            assert_eq!(reader.transaction(&receipt.transaction_hash), Some((height, index)), "block {height}");
        }
        let covering = height.0.div_ceil(2) * 2;
        let covering = covering.max(2);
        let expected = (covering <= chain.head().block.height().0).then(|| chain.certificate(covering));
        assert_eq!(reader.certificate(height).as_deref().cloned(), expected, "certificate from {height}");
    }
    let above = chain.head().block.height().next();
    assert!(reader.block(above).is_none() && reader.committed(above).is_none() && reader.header(above).is_none());
    assert_eq!(reader.transaction(&B256::repeat_byte(0xee)), None);
    assert_eq!(reader.height_of(&B256::repeat_byte(0xee)), None);
    assert_eq!(reader.read_failures(), 0);
}

/// Files that a killed process would leave: copies them while the store still runs.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        // A file may disappear while it is copied: sled renames its snapshots.
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target)),
        }
    }
}

pub fn files_under(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(files_under(&entry.path())),
            false => files.push(entry.path()),
        }
    }
    files.sort();
    files
}

pub fn last_segment(directory: &Path) -> PathBuf {
    files_under(directory).pop().unwrap()
}
