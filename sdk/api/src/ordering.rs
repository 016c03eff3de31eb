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
    pub engine: String,
    #[serde(with = "quantity")]
    pub epoch: u64,
    pub committee_hash: B256,
    pub next_committee_hash: B256,
    #[serde(with = "quantity")]
    pub first_commit: u64,
    #[serde(with = "quantity")]
    pub last_commit: u64,
    #[serde(with = "quantity")]
    pub last_commit_consumed: u64,
    /// Validator by position in the committee.
    #[serde(with = "quantity")]
    pub leader: u64,
    #[serde(with = "quantity")]
    pub timestamp_ms: u64,
    pub randomness: B256,
    pub batches: Vec<BatchRange>,
    pub transactions_hash: B256,
    pub skipped: Vec<SkippedTransaction>,
    pub resume_hash: B256,
    /// The record's canonical bytes.
    pub encoded: Bytes,
}

/// Part of a validator's batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchRange {
    #[serde(with = "quantity")]
    pub author: u64,
    pub digest: B256,
    #[serde(with = "quantity")]
    pub first: u64,
    #[serde(with = "quantity")]
    pub count: u64,
}

/// A transaction that was ordered and not executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SkippedTransaction {
    #[serde(with = "quantity")]
    pub position: u64,
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
