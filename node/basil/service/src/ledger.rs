//! The ledger of a gateway: blocks from closed ranges of the serial order (A5), with the state after each, in the store of a node.
//!
//! A block contains all committed transactions with timestamps in one interval of `block_ms`, in their serial order. Blocks and their
//! hashes follow from the transactions alone, so all gateways make the same ones.
//!
//! Beside the blocks there is a database with each transaction's certificate, what is known about its way, and the certificates of blocks.

use crate::members::Members;
use crate::sections::Section;
use anyhow::{Context, ensure};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_basil::attestation::{Attestation, Statement, View};
use corniche_basil::certificate::{Certificate, Decided};
use corniche_basil::message::Peer;
use corniche_basil::replica::list_hash;
use corniche_basil::shards::ShardId;
use corniche_basil::shared::Shared;
use corniche_basil::transaction::{Timestamp, TransactionId};
use corniche_basil_contracts::chain::{self, Run};
use corniche_basil_contracts::{Chain, keys};
use corniche_executor::BlockOutput;
use corniche_state::{Changes, CommittedBlock, Overlay, SharedTree, State};
use corniche_store::{Options, Reader, Store};
use corniche_types::{
    B256, Block, CommitIndex, Epoch, Genesis, Header, Height, OrderedTransaction, OrderingRecord, Receipt, Resume, TimestampMs,
    U256, ValidatorIndex, header_hash, wire,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

/// How a transaction was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Way {
    /// All replicas of all its shards voted Commit.
    Fast,
    /// One shard logged the decision: in view 0 the client's, in a later view that of an election.
    Logged(View),
}

/// What a gateway knows about a transaction beside its receipt.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Entry {
    pub id: TransactionId,
    pub timestamp: Timestamp,
    pub way: Way,
    pub shards: Vec<ShardId>,
    pub reads: u32,
    pub writes: u32,
    /// Transactions that wrote what it read, without the genesis.
    pub writers: BTreeSet<TransactionId>,
    /// Number of attempts with their own timestamps, for transactions of this gateway.
    pub attempts: Option<u32>,
    /// True if this gateway finished it for another one that stopped.
    pub recovered: bool,
}

impl Entry {
    /// Place in the serial order.
    pub fn position(&self) -> (Timestamp, TransactionId) {
        (self.timestamp, self.id)
    }

    pub fn of(decided: &Decided, members: &Members, attempts: Option<u32>, recovered: bool) -> Self {
        let transaction = &decided.transaction;
        let way = match &decided.certificate {
            Certificate::Logged(_, logged) => Way::Logged(match logged.first().map(|first| &first.statement) {
                Some(Statement::Logged { decision_view, .. }) => *decision_view,
                _ => 0,
            }),
            _ => Way::Fast,
        };
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let writers = transaction.reads.iter().filter(|read| !read.version.is_genesis());
        Self {
            id: transaction.id(&members.shards),
            timestamp: transaction.timestamp,
            way,
            shards: transaction.involved(&members.shards).into_iter().collect(),
            reads: count(transaction.reads.len()),
            writes: count(transaction.writes.len()),
            writers: writers.map(|read| read.version.writer).collect(),
            attempts,
            recovered,
        }
    }
}

/// Database beside the blocks. Cheap to clone.
#[derive(Clone)]
pub struct Records {
    /// By the hash of the wallet's transaction.
    entries: sled::Tree,
    /// Hash of the wallet's transaction by id.
    hashes: sled::Tree,
    /// By block and position.
    decided: sled::Tree,
    /// By the block that they end with; each covers the blocks since the one before.
    certificates: sled::Tree,
}

impl Records {
    fn open(directory: &Path) -> anyhow::Result<Self> {
        let database = sled::open(directory).with_context(|| format!("cannot open {}", directory.display()))?;
        let tree = |name| database.open_tree(name);
        Ok(Self {
            entries: tree("entries")?,
            hashes: tree("hashes")?,
            decided: tree("decided")?,
            certificates: tree("certificates")?,
        })
    }

    pub fn entry(&self, hash: &B256) -> Option<Entry> {
        wire::decode(&self.entries.get(hash).ok()??).ok()
    }

    /// Hash of the wallet's transaction with this id.
    pub fn hash(&self, id: &TransactionId) -> Option<B256> {
        B256::try_from(&self.hashes.get(id).ok()??[..]).ok()
    }

    /// Transactions of a block with their certificates, in order.
    pub fn decided(&self, height: Height) -> Vec<Decided> {
        let found = self.decided.scan_prefix(height.0.to_be_bytes()).values();
        found.filter_map(|bytes| wire::decode(&bytes.ok()?).ok()).collect()
    }

    /// The first certificate that covers a block, with the blocks that it covers.
    pub fn certificate(&self, height: Height) -> Option<(RangeInclusive<u64>, Vec<Attestation>)> {
        let (last, bytes) = self.certificates.range(height.0.to_be_bytes()..).next()?.ok()?;
        let before = self.certificates.range(..height.0.to_be_bytes()).next_back().and_then(Result::ok);
        let number = |key: &[u8]| key.try_into().map(u64::from_be_bytes).unwrap_or_default();
        let first = before.map_or(1, |(key, _)| number(&key) + 1);
        Some((first..=number(&last), wire::decode(&bytes).ok()?))
    }

    fn certified(&self) -> Height {
        let last = self.certificates.last().ok().flatten();
        Height(last.and_then(|(key, _)| key.as_ref().try_into().ok()).map_or(0, u64::from_be_bytes))
    }
}

/// A gateway's blocks and state.
pub struct Ledger {
    members: Arc<Members>,
    genesis: Arc<Genesis>,
    chain: Chain,
    store: Store,
    records: Records,
    state: State,
    tree: SharedTree,
    parent: Header,
    parent_hash: B256,
    certified: Height,
    /// States of as many blocks stay in memory.
    recent_states: u64,
}

impl Ledger {
    /// Opens or creates the ledger in a directory. `make_chain` gets the store, for its cache of compiled code.
    ///
    /// # Errors
    ///
    /// The directory cannot be read, or is of another chain.
    pub fn open(
        data: &Path,
        genesis: Arc<Genesis>,
        members: Arc<Members>,
        options: Options,
        recent_states: u64,
        make_chain: impl FnOnce(&Store) -> anyhow::Result<Chain>,
    ) -> anyhow::Result<Self> {
        let (store, recovered) = Store::open(data, &genesis, options)?;
        let records = Records::open(&data.join("shards"))?;
        let head = recovered.head.height();
        let certified = records.certified();
        ensure!(
            certified <= head,
            "{} has a certificate of block {}, but only {head} blocks; delete the directory, and the gateway fetches everything again",
            data.display(),
            certified.0
        );
        let chain = make_chain(&store)?;
        Ok(Self {
            tree: SharedTree::new(head, recovered.tree),
            parent_hash: header_hash(recovered.head.header()),
            parent: recovered.head.header().clone(),
            state: recovered.state,
            certified,
            members,
            genesis,
            chain,
            store,
            records,
            recent_states,
        })
    }

    pub fn reader(&self) -> Reader {
        self.store.reader()
    }

    pub fn state(&self) -> State {
        self.state.clone()
    }

    pub fn tree(&self) -> SharedTree {
        self.tree.clone()
    }

    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    pub fn records(&self) -> Records {
        self.records.clone()
    }

    pub fn head(&self) -> Height {
        Height(self.parent.number)
    }

    pub fn certified(&self) -> Height {
        self.certified
    }

    /// Where the blocks end, µs.
    pub fn exported_us(&self) -> u64 {
        self.start_us(self.head().0 + 1)
    }

    /// Beginning of a block's interval, µs.
    pub fn start_us(&self, number: u64) -> u64 {
        let block_ms = self.genesis.block_ms;
        (self.genesis.timestamp_ms.0 / block_ms + number - 1).saturating_mul(block_ms).saturating_mul(1_000)
    }

    /// Appends the blocks of a range, durably. The transactions are all of the range, in the serial order; `note` has what this gateway
    /// knows about one. Returns the hashes of the wallets' transactions.
    ///
    /// # Errors
    ///
    /// The range does not continue the ledger, a transaction does not run, or the disk fails.
    pub fn append(
        &mut self,
        below_us: u64,
        transactions: Vec<Shared<Decided>>,
        note: impl Fn(&B256) -> Option<Entry>,
    ) -> anyhow::Result<Vec<B256>> {
        let mut hashes = Vec::with_capacity(transactions.len());
        let mut rest = transactions.into_iter().peekable();
        while self.exported_us() < below_us {
            let end_us = self.start_us(self.head().0 + 2);
            ensure!(end_us <= below_us, "invariant: ranges end where blocks do");
            let mut own = Vec::new();
            while let Some(next) = rest.next_if(|next| next.transaction.timestamp.time_us < end_us) {
                own.push(next);
            }
            self.append_block(&own, &note, &mut hashes)?;
        }
        ensure!(rest.next().is_none(), "invariant: no transaction is after its range");
        self.store.sync()?;
        self.state.prune_below(Height(self.head().0.saturating_sub(self.recent_states)));
        Ok(hashes)
    }

    fn append_block(
        &mut self,
        transactions: &[Shared<Decided>],
        note: impl Fn(&B256) -> Option<Entry>,
        hashes: &mut Vec<B256>,
    ) -> anyhow::Result<()> {
        let height = self.head().next();
        let start_us = self.start_us(height.0);
        let env = self.chain.block(Timestamp { time_us: start_us, client: B256::ZERO });
        ensure!(env.number == height.0, "invariant: the time of a block gives its number");
        let base = self.state.latest();
        let (mut changes, mut receipts, mut ordered) = (Changes::default(), Vec::new(), Vec::new());
        for (position, decided) in (0u32..).zip(transactions) {
            let receipt = receipt(&self.chain, decided)?;
            let hash = receipt.transaction_hash;
            let made = keys::changes(&decided.transaction.writes, &Overlay { base: &base, changes: &changes });
            changes.merge(made);
            receipts.push(receipt);
            let author = self.members.index_of(Peer::Client(decided.transaction.timestamp.client)).unwrap_or(ValidatorIndex(0));
            ordered.push(OrderedTransaction { author, raw: decided.transaction.call.clone() });
            let entry = note(&hash).unwrap_or_else(|| Entry::of(decided, &self.members, None, false));
            self.records.hashes.insert(entry.id, hash.as_slice())?;
            self.records.entries.insert(hash, wire::encode(&entry))?;
            let key = [&height.0.to_be_bytes()[..], &position.to_be_bytes()].concat();
            self.records.decided.insert(key, wire::encode(&**decided))?;
            hashes.push(hash);
        }
        let raw: Vec<_> = ordered.iter().map(|transaction| transaction.raw.clone()).collect();
        let output = BlockOutput::new(receipts, Vec::new(), changes, &raw);
        let resume = Resume { epoch: Epoch(0), index: CommitIndex(height.0), checkpoint: Default::default() };
        let ordering = OrderingRecord {
            protocol_version: env.rules.version,
            engine: self.genesis.engine.name.clone(),
            epoch: Epoch(0),
            committee_hash: self.genesis.committee_hash(),
            next: None,
            first_commit: CommitIndex(height.0),
            last_commit: CommitIndex(height.0),
            last_commit_consumed: u32::try_from(ordered.len()).unwrap_or(u32::MAX),
            leader: ValidatorIndex(0),
            time: TimestampMs(start_us / 1_000),
            randomness: env.randomness,
            batches: Vec::new(),
            transactions_hash: Block::transactions_hash(&ordered),
            skipped: Vec::new(),
            resume_hash: resume.hash(),
        };
        let header = Header {
            parent_hash: self.parent_hash,
            beneficiary: env.coinbase,
            state_root: self.tree.apply(height, &output.changes),
            transactions_root: output.transactions_root,
            receipts_root: output.receipts_root,
            logs_bloom: output.logs_bloom,
            difficulty: U256::ZERO,
            number: height.0,
            // It bounds each transaction. Nobody bounds their sum, because nobody orders.
            gas_limit: env.gas_limit.max(output.gas_used),
            gas_used: output.gas_used,
            timestamp: env.timestamp,
            extra_data: ordering.extra_data(),
            mix_hash: env.randomness,
            base_fee_per_gas: Some(env.base_fee),
            ..Header::default()
        };
        self.state.apply(height, &output.changes);
        self.parent_hash = header_hash(&header);
        self.parent = header.clone();
        let block = Block { header, ordering, ordered };
        Ok(self.store.append_block(CommittedBlock { block, receipts: output.receipts, changes: output.changes, resume })?)
    }

    /// Appends the blocks of a checked section that are new, with their certificate, durably. Returns the hashes of the wallets'
    /// transactions.
    ///
    /// # Errors
    ///
    /// A transaction does not run, or the disk fails.
    pub fn append_section(&mut self, section: Section) -> anyhow::Result<Vec<B256>> {
        let last = section.last();
        let mut hashes = Vec::new();
        for (number, decided) in (section.first..).zip(section.blocks) {
            if number == self.head().0 + 1 {
                let decided: Vec<_> = decided.into_iter().map(Shared::new).collect();
                self.append_block(&decided, |_| None, &mut hashes)?;
            }
        }
        self.store.sync()?;
        self.state.prune_below(Height(self.head().0.saturating_sub(self.recent_states)));
        self.certify(Height(last), &section.certificate)?;
        Ok(hashes)
    }

    /// Hashes of each shard's list of the committed transactions in some blocks: what its replicas sign about the range.
    pub fn lists(&self, blocks: RangeInclusive<u64>) -> BTreeMap<ShardId, B256> {
        lists(&self.members, blocks.flat_map(|number| self.records.decided(Height(number))))
    }

    /// The last block of the next certificate: at most so many blocks, and it ends with the block that reaches so many transactions.
    pub fn section_end(&self, max_blocks: u64, max_transactions: usize) -> Height {
        let mut transactions = 0;
        let mut last = self.certified;
        while last.0 < self.certified.0 + max_blocks && transactions < max_transactions {
            last = last.next();
            transactions += self.store.reader().block(last).map_or(0, |block| block.receipts().len());
        }
        last
    }

    pub fn genesis(&self) -> &Genesis {
        &self.genesis
    }

    /// Stores a certificate of the blocks up to `height`.
    ///
    /// # Errors
    ///
    /// The disk fails.
    pub fn certify(&mut self, height: Height, certificate: &[Attestation]) -> anyhow::Result<()> {
        self.records.certificates.insert(height.0.to_be_bytes(), wire::encode(&certificate.to_vec()))?;
        self.certified = height;
        Ok(())
    }
}

/// Receipt of a committed transaction, from its own reads.
pub fn receipt(chain: &Chain, decided: &Decided) -> anyhow::Result<Receipt> {
    let transaction = &decided.transaction;
    let wallet = chain.decode(&transaction.call).map_err(anyhow::Error::msg)?;
    let values = transaction.reads.iter().map(|read| (read.key.clone(), read.value.clone())).collect();
    match chain.run(transaction.timestamp, &wallet, &values) {
        Run::Done(ran) if ran.writes == transaction.writes => Ok(ran.receipt),
        run => anyhow::bail!(
            "transaction {} is committed, but does not run here ({run:?}): more than f replicas of a shard are faulty, or this gateway \
             differs from them",
            chain::hash(&transaction.call)
        ),
    }
}

/// See [`Ledger::lists`].
pub fn lists(members: &Members, transactions: impl Iterator<Item = Decided>) -> BTreeMap<ShardId, B256> {
    let mut ids: BTreeMap<ShardId, Vec<TransactionId>> = members.shards.ids().map(|shard| (shard, Vec::new())).collect();
    for decided in transactions {
        let id = decided.transaction.id(&members.shards);
        for shard in decided.transaction.involved(&members.shards) {
            ids.entry(shard).or_default().push(id);
        }
    }
    ids.into_iter().map(|(shard, ids)| (shard, list_hash(&members.shards, &ids))).collect()
}
