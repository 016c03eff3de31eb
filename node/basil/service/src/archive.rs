//! Database of a gateway beside its blocks: certificates of transactions and blocks, and what is known about each transaction's way.
//!
//! Everything about a block is on disk before the block is.

use crate::members::Members;
use anyhow::Context;
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_basil::attestation::{Attestation, Statement, View};
use corniche_basil::certificate::{Certificate, Decided};
use corniche_basil::shards::ShardId;
use corniche_basil::shared::Shared;
use corniche_basil::transaction::{Timestamp, TransactionId};
use corniche_types::{B256, Height, wire};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;

/// How a transaction was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Way {
    /// All replicas of all its shards voted Commit.
    Fast,
    /// One shard logged the decision: in view 0 the client's, in a later view that of an election.
    Logged(View),
}

/// A gateway's knowledge about a transaction beside its receipt.
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

/// The database. Cheap to clone.
#[derive(Clone)]
pub struct Archive {
    database: sled::Db,
    /// By the hash of the wallet's transaction.
    entries: sled::Tree,
    /// Hash of the wallet's transaction by id.
    hashes: sled::Tree,
    /// By block and position.
    decided: sled::Tree,
    /// By the last block that they cover: the first one, and the signatures.
    certificates: sled::Tree,
}

impl Archive {
    pub fn open(directory: &Path) -> anyhow::Result<Self> {
        // Flushed explicitly.
        let config = sled::Config::new().path(directory).flush_every_ms(None);
        let database = config.open().with_context(|| format!("cannot open {}", directory.display()))?;
        let tree = |name| database.open_tree(name);
        Ok(Self {
            entries: tree("entries")?,
            hashes: tree("hashes")?,
            decided: tree("decided")?,
            certificates: tree("certificates")?,
            database,
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
    ///
    /// # Errors
    ///
    /// The disk fails.
    pub fn decided(&self, height: Height) -> anyhow::Result<Vec<Decided>> {
        let found = self.decided.scan_prefix(height.0.to_be_bytes()).values();
        found.map(|bytes| Ok(wire::decode(&bytes?)?)).collect()
    }

    /// Encoded bytes of a block's transactions.
    pub fn size(&self, height: Height) -> usize {
        let found = self.decided.scan_prefix(height.0.to_be_bytes()).values();
        found.map(|bytes| bytes.map_or(0, |bytes| bytes.len())).sum()
    }

    /// Stores the transactions of a block durably. The block must follow.
    ///
    /// # Errors
    ///
    /// The disk fails.
    pub fn put_block(&self, height: Height, transactions: &[(Shared<Decided>, B256, Entry)]) -> anyhow::Result<()> {
        if transactions.is_empty() {
            return Ok(());
        }
        for (position, (decided, hash, entry)) in (0u32..).zip(transactions) {
            self.hashes.insert(entry.id, hash.as_slice())?;
            self.entries.insert(hash, wire::encode(entry))?;
            let key = [&height.0.to_be_bytes()[..], &position.to_be_bytes()].concat();
            self.decided.insert(key, wire::encode(&**decided))?;
        }
        self.database.flush()?;
        Ok(())
    }

    /// The first certificate that covers a block, with the blocks that it covers.
    pub fn certificate(&self, height: Height) -> Option<(RangeInclusive<u64>, Vec<Attestation>)> {
        let (last, bytes) = self.certificates.range(height.0.to_be_bytes()..).next()?.ok()?;
        let (first, certificate): (u64, _) = wire::decode(&bytes).ok()?;
        let last = u64::from_be_bytes(last.as_ref().try_into().ok()?);
        (first..=last).contains(&height.0).then_some((first..=last, certificate))
    }

    /// Stores the certificate of some blocks.
    ///
    /// # Errors
    ///
    /// The disk fails.
    pub fn put_certificate(&self, blocks: RangeInclusive<u64>, certificate: &[Attestation]) -> anyhow::Result<()> {
        let content = wire::encode(&(*blocks.start(), certificate.to_vec()));
        self.certificates.insert(blocks.end().to_be_bytes(), content)?;
        self.database.flush()?;
        Ok(())
    }

    /// The newest block with a certificate.
    pub fn certified(&self) -> Height {
        let last = self.certificates.last().ok().flatten();
        Height(last.and_then(|(key, _)| key.as_ref().try_into().ok()).map_or(0, u64::from_be_bytes))
    }
}
