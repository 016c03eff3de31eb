//! How a block was ordered: `corniche_getOrdering`.

use crate::{Reason, quantity};
use alloy_primitives::{B256, Bytes};
use corniche_types::{OrderingRecord, SkipReason};
use serde::{Deserialize, Serialize};

/// A block's ordering record as JSON. Anyone can check it: keccak-256 of `encoded` is the header's `extraData`. From protocol
/// version 5 on `encoded` ends with keccak-256 of `encodedTail`. Together they contain the data of the other fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ordering {
    /// Version of the rules under which the block was built and executed; the first is 1.
    #[serde(with = "quantity")]
    pub protocol_version: u64,
    /// Name of the ordering engine in the genesis.
    pub engine: String,
    /// Number of the committee that ordered it; the first is 0.
    #[serde(with = "quantity")]
    pub epoch: u64,
    /// Hash of the committee that ordered it.
    pub committee_hash: B256,
    /// Hash of the committee of the next block; differs only at the end of an epoch.
    pub next_committee_hash: B256,
    /// First commit with transactions in the block.
    #[serde(with = "quantity")]
    pub first_commit: u64,
    /// Last commit with transactions in the block.
    #[serde(with = "quantity")]
    pub last_commit: u64,
    /// Number of transactions of the last commit in blocks up to and including this one.
    #[serde(with = "quantity")]
    pub last_commit_consumed: u64,
    /// Leader of the last commit, by position in the committee.
    #[serde(with = "quantity")]
    pub leader: u64,
    /// Agreed time of the last commit, in Unix milliseconds. The header has it in seconds.
    #[serde(with = "quantity")]
    pub timestamp_ms: u64,
    /// The last commit's randomness: the header's `mixHash`.
    pub randomness: B256,
    /// Sources of its transactions, in order.
    pub batches: Vec<BatchRange>,
    /// keccak-256 over the hashes of all its ordered transactions, skipped ones included.
    pub transactions_hash: B256,
    /// Ordered transactions that were not executed, in order.
    pub skipped: Vec<SkippedTransaction>,
    /// keccak-256 of the point from which a validator that knows this block may continue ordering.
    pub resume_hash: B256,
    /// Canonical bytes: of the whole record, or of its head from protocol version 5 on.
    pub encoded: Bytes,
    /// Canonical bytes of the tail, which are the batches and the skipped transactions; `null` below protocol version 5.
    pub encoded_tail: Option<Bytes>,
}

/// Part of a validator's batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchRange {
    /// Author, by position in the committee.
    #[serde(with = "quantity")]
    pub author: u64,
    /// blake3 of the whole batch's bytes.
    pub digest: B256,
    /// Position in the batch of the first transaction in the block, from 0.
    #[serde(with = "quantity")]
    pub first: u64,
    /// Number of consecutive transactions in the block.
    #[serde(with = "quantity")]
    pub count: u64,
}

/// A transaction that was ordered but not executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SkippedTransaction {
    /// Position among the block's ordered transactions, from 0.
    #[serde(with = "quantity")]
    pub position: u64,
    /// keccak-256 of its bytes.
    pub hash: B256,
    /// Phrase of a [`Reason`]. Notices of validators to the staking contract are listed here, too: `validator notice applied`, or
    /// `validator notice without effect`.
    pub reason: String,
}

fn phrase(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Notice => "validator notice applied",
        SkipReason::NoticeRefused => "validator notice without effect",
        reason => Reason::from(reason).phrase(),
    }
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
            reason: phrase(skipped.reason).into(),
        });
        Self {
            protocol_version: record.protocol_version.into(),
            engine: record.engine.clone(),
            epoch: record.epoch.0,
            committee_hash: record.committee_hash,
            next_committee_hash: record.next_committee_hash(),
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
            encoded: record.encode_hashed().into(),
            encoded_tail: record.has_head().then(|| record.encode_tail().into()),
        }
    }
}
