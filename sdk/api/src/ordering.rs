//! How a block was ordered: `corniche_getOrdering`.

use crate::{Reason, quantity};
use alloy_primitives::{B256, Bytes};
use corniche_types::OrderingRecord;
use serde::{Deserialize, Serialize};

/// A block's ordering record as JSON. Anyone can check it: keccak-256 of `encoded` is the header's `extraData`, and
/// `encoded` says the same as the other fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ordering {
    /// Version of the rules that the block was built and executed under; 1 is the first.
    #[serde(with = "quantity")]
    pub protocol_version: u64,
    /// The ordering engine's word in the genesis.
    pub engine: String,
    /// Number of the committee that ordered it; the first has 0.
    #[serde(with = "quantity")]
    pub epoch: u64,
    /// Hash of the committee that ordered it.
    pub committee_hash: B256,
    /// Hash of the committee of the next block; another one only where an epoch ends.
    pub next_committee_hash: B256,
    /// First commit that the block holds something of.
    #[serde(with = "quantity")]
    pub first_commit: u64,
    /// Last commit that the block holds something of.
    #[serde(with = "quantity")]
    pub last_commit: u64,
    /// How many transactions of the last commit are in blocks up to and including this one.
    #[serde(with = "quantity")]
    pub last_commit_consumed: u64,
    /// Validator by position in the committee.
    #[serde(with = "quantity")]
    pub leader: u64,
    /// The time that was agreed on with the last commit, in Unix milliseconds. The header says it in seconds.
    #[serde(with = "quantity")]
    pub timestamp_ms: u64,
    /// The last commit's randomness: the header's `mixHash`.
    pub randomness: B256,
    /// Where its transactions come from, in their order.
    pub batches: Vec<BatchRange>,
    /// keccak-256 over the hashes of all its ordered transactions, skipped ones included.
    pub transactions_hash: B256,
    /// Which of its ordered transactions were not executed, in their order.
    pub skipped: Vec<SkippedTransaction>,
    /// keccak-256 of the point from which a validator that knows this block may go on ordering.
    pub resume_hash: B256,
    /// The record's canonical bytes.
    pub encoded: Bytes,
}

/// Part of a validator's batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchRange {
    /// Who proposed it: validator by position in the committee.
    #[serde(with = "quantity")]
    pub author: u64,
    /// blake3 of the whole batch's bytes.
    pub digest: B256,
    /// Place in the batch of the first transaction that the block took, from 0.
    #[serde(with = "quantity")]
    pub first: u64,
    /// How many it took, one after the other.
    #[serde(with = "quantity")]
    pub count: u64,
}

/// A transaction that was ordered and not executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SkippedTransaction {
    /// Place among the block's ordered transactions, from 0.
    #[serde(with = "quantity")]
    pub position: u64,
    /// keccak-256 of its bytes.
    pub hash: B256,
    /// In the words of [`Reason`].
    pub reason: String,
}

impl From<&OrderingRecord> for Ordering {
    fn from(record: &OrderingRecord) -> Self {
        let batches = record.batches.iter().map(|batch| BatchRange {
            author: batch.author.0.into(),
            digest: batch.digest,
            first: batch.first.into(),
            count: batch.count.into(),
        });
        let skipped = record.skipped.iter().map(|skipped| SkippedTransaction {
            position: skipped.position.into(),
            hash: skipped.hash,
            reason: Reason::from(skipped.reason).phrase().into(),
        });
        Self {
            protocol_version: record.protocol_version.into(),
            engine: record.engine.clone(),
            epoch: record.epoch.0,
            committee_hash: record.committee_hash,
            next_committee_hash: record.next_committee_hash,
            first_commit: record.first_commit.0,
            last_commit: record.last_commit.0,
            last_commit_consumed: record.last_commit_consumed.into(),
            leader: record.leader.0.into(),
            timestamp_ms: record.time.0,
            randomness: record.randomness,
            batches: batches.collect(),
            transactions_hash: record.transactions_hash,
            skipped: skipped.collect(),
            resume_hash: record.resume_hash,
            encoded: record.encode().into(),
        }
    }
}
