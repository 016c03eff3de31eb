//! What this chain has and Ethereum has no word for: heads by status, the committee, what execution did.

use crate::quantity;
use alloy_primitives::{Address, B256, Bytes};
use corniche_types::Genesis;
use serde::{Deserialize, Serialize};

/// The newest block of each status: `corniche_getHeads`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heads {
    /// Durable here, with receipts: what Ethereum's methods call `latest`.
    pub executed: HeadBlock,
    /// Signed by a quorum, and all before it: `safe` and `finalized`.
    pub certified: HeadBlock,
}

/// A block, named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeadBlock {
    /// keccak-256 of its header.
    pub hash: B256,
    /// Its height; the genesis has 0.
    #[serde(with = "quantity")]
    pub number: u64,
    /// The time that was agreed on with its order, in Unix milliseconds.
    #[serde(with = "quantity")]
    pub timestamp_ms: u64,
}

/// Who orders and signs: `corniche_getValidators`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Validators {
    /// Number of the committee; the first has 0.
    #[serde(with = "quantity")]
    pub epoch: u64,
    /// What the committee signs as ([`Genesis::committee_hash`]).
    pub committee_hash: B256,
    /// The ordering engine's word.
    pub engine: String,
    /// How many signatures make a certificate.
    #[serde(with = "quantity")]
    pub quorum: u64,
    /// In the order of the committee: what other answers call a validator is its place here.
    pub validators: Vec<Validator>,
}

/// A member of the committee.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Validator {
    /// Its place in the committee, from 0.
    #[serde(with = "quantity")]
    pub index: u64,
    /// ed25519: signs the engine's messages.
    pub consensus_key: B256,
    /// BLS12-381, compressed: signs headers.
    pub bls_key: Bytes,
    /// ed25519: the identity of its connections.
    pub network_key: B256,
    /// Whom its tips go to.
    pub fee_address: Address,
}

impl Validators {
    /// The committee of a genesis; `quorum` is the engine's word for how many suffice.
    pub fn of(genesis: &Genesis, quorum: usize) -> Self {
        let validators = genesis.validators.iter().zip(0..).map(|(validator, index)| Validator {
            index,
            consensus_key: validator.consensus_key,
            bls_key: validator.bls_key.clone(),
            network_key: validator.network_key,
            fee_address: validator.fee_address,
        });
        Self {
            epoch: 0,
            committee_hash: genesis.committee_hash(),
            engine: genesis.engine.name.clone(),
            quorum: quorum as u64,
            validators: validators.collect(),
        }
    }
}

/// Counts since this node started: `corniche_getStatistics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Statistics {
    /// Transactions that wait in the pool now.
    #[serde(with = "quantity")]
    pub pool_transactions: u64,
    /// Transactions in blocks.
    #[serde(with = "quantity")]
    pub executed: u64,
    /// Transactions that were ordered and not executed.
    #[serde(with = "quantity")]
    pub skipped: u64,
    /// Transactions that admission refused.
    #[serde(with = "quantity")]
    pub refused: u64,
    /// Of the executed: how many had their result ready when they were ordered, because an early run of theirs still held.
    #[serde(with = "quantity")]
    pub adopted: u64,
    /// Runs of ordered transactions.
    #[serde(with = "quantity")]
    pub runs: u64,
    /// Those of them after a transaction's first, because transactions of a block met.
    #[serde(with = "quantity")]
    pub runs_again: u64,
    /// Runs before ordering.
    #[serde(with = "quantity")]
    pub early_runs: u64,
    /// Those of them without a result.
    #[serde(with = "quantity")]
    pub early_without_result: u64,
    /// Transactions that were seen before ordering and not run, being above their author's share.
    #[serde(with = "quantity")]
    pub early_passed_over: u64,
}

/// What running a block took on one node, in one run of that node: `corniche_getExecution`. No fact of the chain: other nodes, and this one
/// another time, come to the same block another way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    /// Threads that ran it side by side. Each is a lane, numbered from 0.
    #[serde(with = "quantity")]
    pub threads: u64,
    /// Runs of its transactions: what `runs_of` adds up to.
    #[serde(with = "quantity")]
    pub runs: u64,
    /// Those of them after a transaction's first, because transactions of the block met.
    #[serde(with = "quantity")]
    pub runs_again: u64,
    /// How often a transaction had to wait for an earlier one, before it ran or in the middle.
    #[serde(with = "quantity")]
    pub waits: u64,
    /// How many had their result ready, because an early run of theirs still held.
    #[serde(with = "quantity")]
    pub adopted: u64,
    /// From when its execution began to the changed state, in microseconds: checking signatures, running, applying the changes.
    #[serde(with = "quantity")]
    pub duration_us: u64,
    /// A byte for each transaction of the block, in order: the lane that came to its result.
    pub lane_of: Bytes,
    /// The same: how often it ran, where 0 means that its result was ready.
    pub runs_of: Bytes,
    /// Eight bytes for each, the big end first: when it came to this node's pool, in Unix milliseconds by this node's clock. Zeros stand
    /// where that is not known; nothing at all where the node does not tell.
    #[serde(default)]
    pub received_of: Bytes,
}

/// When a transaction came to where it is: part of `corniche_getTransactionStatus`. What is not known is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TransactionTimes {
    /// It entered this node's pool: Unix milliseconds by this node's clock. Of executed transactions it is remembered for a while.
    #[serde(with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub received_ms: Option<u64>,
    /// It left the pool without having been executed, by the same clock.
    #[serde(with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
    /// The time that was agreed on with its block's order.
    #[serde(with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub ordered_ms: Option<u64>,
}
