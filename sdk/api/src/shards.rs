//! Results for chains whose state is split over shards (Basil). Other chains respond with null.

use crate::quantity;
use alloy_primitives::{B256, Bytes};
use serde::{Deserialize, Serialize};

/// Members of a sharded chain, as a gateway sees them: `corniche_getShards`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shards {
    /// f: replicas of each shard that may be faulty. A shard has 5f + 1.
    #[serde(with = "quantity")]
    pub faulty: u64,
    /// Interval of a block, ms.
    #[serde(with = "quantity")]
    pub block_ms: u64,
    /// By number.
    pub shards: Vec<ShardInfo>,
    /// Members that may propose transactions.
    pub gateways: Vec<GatewayInfo>,
    /// Counts of this gateway since it started.
    pub statistics: GatewayStatistics,
}

/// A shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardInfo {
    /// Number, from 0.
    #[serde(with = "quantity")]
    pub shard: u64,
    /// In the order of the genesis.
    pub replicas: Vec<ReplicaInfo>,
}

/// A replica of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaInfo {
    /// ed25519 key of its votes.
    pub consensus_key: B256,
    /// True if this gateway has a connection with it.
    pub connected: bool,
}

/// A gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayInfo {
    /// ed25519 key with which it signs proposals.
    pub consensus_key: B256,
    /// True if the queried gateway has a connection with it, and for itself.
    pub connected: bool,
    /// True for the queried gateway.
    pub own: bool,
}

/// Counts of a gateway since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayStatistics {
    /// Own transactions that all replicas committed at once.
    #[serde(with = "quantity")]
    pub fast: u64,
    /// Own transactions whose decision was logged.
    #[serde(with = "quantity")]
    pub logged: u64,
    /// Own transactions whose decision an election made.
    #[serde(with = "quantity")]
    pub reconciled: u64,
    /// Attempts that aborted, and were repeated.
    #[serde(with = "quantity")]
    pub retries: u64,
    /// Transactions that were given up.
    #[serde(with = "quantity")]
    pub dropped: u64,
    /// Transactions of other gateways that this one finished.
    #[serde(with = "quantity")]
    pub recovered: u64,
}

/// The way of a committed transaction over the shards: `corniche_getShardedTransaction`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardedTransaction {
    /// Hash of the proposal: timestamp, reads, writes, and the wallet's transaction.
    pub id: B256,
    /// Its position in the serial order: Unix time in µs of the gateway's clock.
    #[serde(with = "quantity")]
    pub timestamp_us: u64,
    /// Key of the gateway that proposed it.
    pub gateway: B256,
    /// Shards that own a value that it read or wrote.
    #[serde(with = "quantity::list")]
    pub shards: Vec<u64>,
    /// How it was decided.
    pub way: TransactionWay,
    /// Number of values that it read.
    #[serde(with = "quantity")]
    pub reads: u64,
    /// Number of values that it wrote.
    #[serde(with = "quantity")]
    pub writes: u64,
    /// Transactions that wrote the values that it read.
    pub dependencies: Vec<Dependency>,
    /// Number of attempts of the queried gateway; `null` for a transaction of another one.
    #[serde(with = "quantity::optional")]
    pub attempts: Option<u64>,
    /// True if the queried gateway finished it for another one that stopped.
    pub recovered: bool,
}

/// How a transaction was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TransactionWay {
    /// All replicas of its shards voted for it: one round trip.
    Fast,
    /// One shard logged the decision: two round trips.
    Logged,
    /// Clients disagreed about the decision, and an election of replicas made it.
    Reconciled,
}

/// A transaction whose write another one read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// Hash of its proposal.
    pub id: B256,
    /// Hash of the wallet's transaction; `null` while the queried gateway has no block with it.
    pub hash: Option<B256>,
}

/// Proof that some blocks are complete: `corniche_getShardCertificate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShardCertificate {
    /// First block that it covers.
    #[serde(with = "quantity")]
    pub first_block: u64,
    /// Last block that it covers.
    #[serde(with = "quantity")]
    pub last_block: u64,
    /// Hash of the last block. Headers are not signed: they follow from the signed transactions.
    pub block_hash: B256,
    /// Replicas that signed, 4f + 1 of each shard: one bit for each, in the order of the genesis, least significant bit of the first byte first.
    pub signers: Bytes,
    /// The signed statements, encoded with borsh: `Vec<corniche_basil::attestation::Attestation>`.
    pub certificate: Bytes,
}
