//! Results without an Ethereum equivalent: heads by status, the committee, execution statistics.

use crate::quantity;
use alloy_primitives::{Address, B256, Bytes};
use corniche_types::{Epoch, FaultModel, Genesis, SignatureChecks, ValidatorInfo, Weights};
use serde::{Deserialize, Serialize};

/// The newest block of each status: `corniche_getHeads`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heads {
    /// Newest durable block with receipts; Ethereum's methods call it `latest`.
    pub executed: HeadBlock,
    /// Newest block signed by a quorum, with all its ancestors; `safe` and `finalized`.
    pub certified: HeadBlock,
}

/// Identifies a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeadBlock {
    /// keccak-256 of its header.
    pub hash: B256,
    /// Height; the genesis block has 0.
    #[serde(with = "quantity")]
    pub number: u64,
    /// Agreed time of its order, in Unix milliseconds.
    #[serde(with = "quantity")]
    pub timestamp_ms: u64,
}

/// The committee that orders and signs blocks: `corniche_getValidators`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Validators {
    /// Number of the committee; the first has 0.
    #[serde(with = "quantity")]
    pub epoch: u64,
    /// Hash that identifies the committee in signatures ([`Genesis::committee_hash`]).
    pub committee_hash: B256,
    /// Name of the ordering engine.
    pub engine: String,
    /// Faults that the engine tolerates. A node from before this field has an engine that tolerates Byzantine validators.
    #[serde(default)]
    pub fault_model: FaultModel,
    /// Minimum votes of the signers of a certificate.
    #[serde(with = "quantity")]
    pub quorum: u64,
    /// Validators that check the signature of a transaction.
    #[serde(default)]
    pub signatures: SignatureChecks,
    /// Members in committee order. Other results of this epoch identify a validator by its position in this list.
    pub validators: Vec<Validator>,
}

/// A member of the committee.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Validator {
    /// Position in the committee, from 0.
    #[serde(with = "quantity")]
    pub index: u64,
    /// ed25519 public key; signs the engine's messages.
    pub consensus_key: B256,
    /// BLS12-381 public key, compressed; signs headers.
    pub bls_key: Bytes,
    /// ed25519 public key; the identity of its connections.
    pub network_key: B256,
    /// Recipient of its tips.
    pub fee_address: Address,
    /// Its votes in every quorum. A node from before votes does not name them: each validator has one.
    #[serde(with = "quantity", default = "one")]
    pub votes: u64,
}

fn one() -> u64 {
    1
}

impl Validators {
    /// The committee of an epoch.
    pub fn in_epoch(genesis: &Genesis, epoch: Epoch, committee_hash: B256, members: &[ValidatorInfo]) -> Self {
        let weights = Weights::new(members.iter().map(|member| member.votes), genesis.fault_model());
        let validators = members.iter().zip(0..).map(|(validator, index)| Validator {
            index,
            consensus_key: validator.consensus_key,
            bls_key: validator.bls_key.clone(),
            network_key: validator.network_key,
            fee_address: validator.fee_address,
            votes: validator.votes.0.into(),
        });
        Self {
            epoch: epoch.0,
            committee_hash,
            engine: genesis.engine.name.clone(),
            fault_model: genesis.fault_model(),
            quorum: weights.quorum().0.into(),
            signatures: genesis.signatures,
            validators: validators.collect(),
        }
    }
}

/// Counts since this node started: `corniche_getStatistics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Statistics {
    /// Transactions in the pool now.
    #[serde(with = "quantity")]
    pub pool_transactions: u64,
    /// Transactions in blocks.
    #[serde(with = "quantity")]
    pub executed: u64,
    /// Transactions that were ordered but not executed.
    #[serde(with = "quantity")]
    pub skipped: u64,
    /// Transactions rejected on admission to the pool.
    #[serde(with = "quantity")]
    pub refused: u64,
    /// Executed transactions whose result was ready when they were ordered, because their speculative run was still valid.
    #[serde(with = "quantity")]
    pub adopted: u64,
    /// Executions of ordered transactions.
    #[serde(with = "quantity")]
    pub runs: u64,
    /// Executions after a transaction's first one, because of conflicts between transactions of a block.
    #[serde(with = "quantity")]
    pub runs_again: u64,
    /// Speculative executions before ordering.
    #[serde(with = "quantity")]
    pub early_runs: u64,
    /// Speculative executions without a result.
    #[serde(with = "quantity")]
    pub early_without_result: u64,
    /// Transactions seen before ordering that were not run, because their author's share was used up.
    #[serde(with = "quantity")]
    pub early_passed_over: u64,
}

/// Statistics of one execution of a block on one node: `corniche_getExecution`. Not part of consensus: they differ between
/// nodes, and between two executions on the same node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    /// Threads that executed the block in parallel. Each thread is a lane, numbered from 0.
    #[serde(with = "quantity")]
    pub threads: u64,
    /// Executions of its transactions: the sum of `runs_of`.
    #[serde(with = "quantity")]
    pub runs: u64,
    /// Executions after a transaction's first one, because of conflicts between transactions of the block.
    #[serde(with = "quantity")]
    pub runs_again: u64,
    /// Number of times a transaction waited for an earlier one, before or during its execution.
    #[serde(with = "quantity")]
    pub waits: u64,
    /// Transactions whose result was ready, because their speculative run was still valid.
    #[serde(with = "quantity")]
    pub adopted: u64,
    /// Duration in microseconds: signature checks, execution, and applying the changes to the state.
    #[serde(with = "quantity")]
    pub duration_us: u64,
    /// One byte per transaction of the block, in order: the lane that produced its result.
    pub lane_of: Bytes,
    /// One byte per transaction of the block, in order: number of executions; 0 if its result was ready.
    pub runs_of: Bytes,
    /// Eight bytes per transaction, big-endian: when it entered this node's pool, in Unix milliseconds of this node's clock. Zero if
    /// unknown. Empty if the node does not provide these times.
    #[serde(default)]
    pub received_of: Bytes,
}

/// Times of a transaction: part of `corniche_getTransactionStatus`. Unknown times are omitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TransactionTimes {
    /// When it entered this node's pool: Unix milliseconds of this node's clock. Kept for a limited time after execution.
    #[serde(with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub received_ms: Option<u64>,
    /// When it left the pool without execution, by the same clock.
    #[serde(with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
    /// Agreed time of its block's order, in Unix milliseconds.
    #[serde(with = "quantity::optional", skip_serializing_if = "Option::is_none")]
    pub ordered_ms: Option<u64>,
}
