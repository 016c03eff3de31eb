//! The ledger of a gateway: blocks from closed ranges of the serial order (A5), with the state after each, in the store of a node.
//!
//! A block contains all committed transactions with timestamps in one interval of `block_ms`, in their serial order.

use crate::archive::{Archive, Entry};
use crate::block::{self, BlockRules};
use crate::certified_blocks::CertifiedBlocks;
use crate::members::Members;
use anyhow::ensure;
use corniche_basil::attestation::Attestation;
use corniche_basil::certificate::Decided;
use corniche_basil::shards::{ShardId, Shards};
use corniche_basil::shared::Shared;
use corniche_basil::transaction::TransactionId;
use corniche_basil_contracts::{Chain, chain};
use corniche_state::{SharedTree, State};
use corniche_store::{Options, Reader, Store};
use corniche_types::{Address, B256, Genesis, Height};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

/// Bytes of transactions after which a certificate's range ends, so that another gateway can get it in one message.
const MAX_CERTIFIED_BYTES: usize = 4 << 20;

/// A gateway's blocks and state.
pub struct Ledger {
    members: Arc<Members>,
    genesis: Arc<Genesis>,
    chain: Chain,
    store: Store,
    archive: Archive,
    state: State,
    tree: SharedTree,
    head: (Height, B256),
    certified: Height,
    /// States of as many blocks stay in memory.
    recent_states: u64,
}

impl Ledger {
    /// Opens or creates the ledger in a directory.
    ///
    /// # Errors
    ///
    /// The directory cannot be read, is of another chain, or lost a part of its content.
    pub fn open(
        data: &Path,
        genesis: Arc<Genesis>,
        members: Arc<Members>,
        options: Options,
        recent_states: u64,
    ) -> anyhow::Result<Self> {
        let (store, recovered) = Store::open(data, &genesis, options)?;
        let archive = Archive::open(&data.join("shards"))?;
        let head = recovered.head.height();
        let certified = archive.certified();
        let path = data.display();
        let remedy = "delete the directory, and the gateway gets everything from others";
        ensure!(certified <= head, "{path} has a certificate of block {}, but only {head} blocks; {remedy}", certified.0);
        for number in certified.0 + 1..=head.0 {
            let transactions = store.reader().block(Height(number)).map_or(0, |block| block.receipts().len());
            let found = archive.decided(Height(number))?.len();
            ensure!(found == transactions, "{path} lost certificates of transactions in block {number}; {remedy}");
        }
        Ok(Self {
            tree: SharedTree::new(head, recovered.tree),
            head: (head, recovered.head.hash),
            state: recovered.state,
            chain: crate::chain_of(&genesis, store.code_cache())?,
            certified,
            members,
            genesis,
            store,
            archive,
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

    pub fn genesis(&self) -> &Genesis {
        &self.genesis
    }

    pub fn archive(&self) -> Archive {
        self.archive.clone()
    }

    pub fn head(&self) -> Height {
        self.head.0
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
        block::start_us(&self.genesis, number)
    }

    /// Appends the blocks of a range, durably. The transactions are all of the range, in the serial order; `note` has what this gateway
    /// knows about one. Returns the hashes and senders of the wallets' transactions.
    ///
    /// # Errors
    ///
    /// A transaction does not run, or the disk fails.
    pub fn append(
        &mut self,
        below_us: u64,
        transactions: Vec<Shared<Decided>>,
        note: impl Fn(&B256) -> Option<Entry>,
    ) -> anyhow::Result<Vec<(B256, Address)>> {
        let mut appended = Vec::with_capacity(transactions.len());
        let mut rest = transactions.into_iter().peekable();
        while self.exported_us() < below_us {
            let end_us = self.start_us(self.head().0 + 2);
            let mut own = Vec::new();
            while let Some(next) = rest.next_if(|next| next.transaction.timestamp.time_us < end_us) {
                own.push(next);
            }
            self.append_block(own, &note, &mut appended)?;
        }
        assert!(rest.next().is_none(), "invariant: ranges end where blocks do");
        self.finish()?;
        Ok(appended)
    }

    /// Appends checked blocks that are new, with their certificate, durably. Returns the hashes and senders of the wallets' transactions.
    ///
    /// # Errors
    ///
    /// A transaction does not run, or the disk fails.
    pub fn append_certified(&mut self, blocks: CertifiedBlocks) -> anyhow::Result<Vec<(B256, Address)>> {
        let covered = blocks.first..=blocks.last();
        let mut appended = Vec::new();
        for (number, decided) in (blocks.first..).zip(blocks.blocks) {
            if number == self.head().0 + 1 {
                self.append_block(decided.into_iter().map(Shared::new).collect(), |_| None, &mut appended)?;
            }
        }
        self.finish()?;
        self.certify(covered, &blocks.certificate)?;
        Ok(appended)
    }

    fn append_block(
        &mut self,
        transactions: Vec<Shared<Decided>>,
        note: impl Fn(&B256) -> Option<Entry>,
        appended: &mut Vec<(B256, Address)>,
    ) -> anyhow::Result<()> {
        let height = self.head().next();
        let rules = BlockRules { members: &self.members, genesis: &self.genesis, chain: &self.chain };
        let committed =
            rules.make(self.head, &self.state.latest(), &transactions, |changes| self.tree.apply(height, changes))?;
        let with_entry = |decided: Shared<Decided>| {
            let hash = chain::hash(&decided.transaction.call);
            let entry = note(&hash).unwrap_or_else(|| Entry::of(&decided, &self.members, None, false));
            (decided, hash, entry)
        };
        let transactions: Vec<_> = transactions.into_iter().map(with_entry).collect();
        self.archive.put_block(height, &transactions)?;
        let senders = committed.receipts.iter().map(|receipt| receipt.sender);
        appended.extend(transactions.iter().map(|(_, hash, _)| *hash).zip(senders));
        self.state.apply(height, &committed.changes);
        self.head = (height, committed.block.hash());
        Ok(self.store.append_block(committed)?)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.store.sync()?;
        self.state.prune_below(Height(self.head().0.saturating_sub(self.recent_states)));
        Ok(())
    }

    /// Blocks of the next certificate: at most so many, and not many bytes. Empty if all are certified.
    pub fn next_certified(&self, max_blocks: u64) -> RangeInclusive<u64> {
        let first = self.certified.0 + 1;
        let (mut last, mut bytes) = (self.certified.0, 0);
        while last < self.head().0.min(self.certified.0 + max_blocks) && bytes < MAX_CERTIFIED_BYTES {
            last += 1;
            bytes += self.archive.size(Height(last));
        }
        first..=last
    }

    /// Each shard's committed transactions in some blocks, in order: what its replicas list about the range.
    ///
    /// # Errors
    ///
    /// The disk fails.
    pub fn lists(&self, blocks: RangeInclusive<u64>) -> anyhow::Result<BTreeMap<ShardId, Vec<TransactionId>>> {
        let decided: Vec<_> = blocks.map(|number| self.archive.decided(Height(number))).collect::<anyhow::Result<_>>()?;
        Ok(lists(&self.members.shards, decided.iter().flatten()))
    }

    /// Stores the certificate of some blocks.
    ///
    /// # Errors
    ///
    /// The disk fails.
    pub fn certify(&mut self, blocks: RangeInclusive<u64>, certificate: &[Attestation]) -> anyhow::Result<()> {
        self.archive.put_certificate(blocks.clone(), certificate)?;
        self.certified = self.certified.max(Height(*blocks.end()));
        Ok(())
    }
}

/// Committed transactions of each shard, in order.
pub fn lists<'a>(shards: &Shards, transactions: impl Iterator<Item = &'a Decided>) -> BTreeMap<ShardId, Vec<TransactionId>> {
    let mut ids: BTreeMap<ShardId, Vec<TransactionId>> = shards.ids().map(|shard| (shard, Vec::new())).collect();
    for decided in transactions {
        let id = decided.transaction.id(shards);
        for shard in decided.transaction.involved(shards) {
            ids.entry(shard).or_default().push(id);
        }
    }
    ids
}
