//! Blocks and snapshots that a node has: `corniche_getSyncStatus`.

use crate::quantity;
use serde::{Deserialize, Serialize};

/// Blocks and snapshots that a node has: `corniche_getSyncStatus`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncStatus {
    /// Height of the snapshot with which the node began; `null` if it has all blocks.
    #[serde(with = "quantity::optional")]
    pub base: Option<u64>,
    /// Lowest block that is stored, apart from the genesis. It is one above `head` directly after a start from a snapshot.
    #[serde(with = "quantity")]
    pub first_block: u64,
    /// Newest block.
    #[serde(with = "quantity")]
    pub head: u64,
    /// Newest certified block.
    #[serde(with = "quantity")]
    pub certified: u64,
    /// Newest certified block of which the node knows, from peers or by itself.
    #[serde(with = "quantity")]
    pub target: u64,
    /// Next block of this node, if no connected peer has it any more: the node needs an archive among its peers, or a snapshot. Otherwise
    /// `null`.
    #[serde(with = "quantity::optional", default)]
    pub unavailable: Option<u64>,
    /// Progress of a node that fetches a snapshot and has no block yet; `null` otherwise.
    #[serde(default)]
    pub fetch: Option<FetchStatus>,
    /// True while the node follows blocks that others order: always on a full node, and on a validator that does not order.
    pub follows: bool,
    /// Snapshots that it offers to peers, newest first.
    pub snapshots: Vec<OfferedSnapshot>,
}

/// How far a node is that fetches a snapshot. Numbers of chunks and bytes are 0 before a snapshot is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FetchStatus {
    /// `trust`: committees of all epochs; `offers`: choice of a snapshot; `manifest`: list of its chunks; `chunks`: the state itself.
    pub phase: String,
    /// Connected peers.
    #[serde(with = "quantity")]
    pub peers: u64,
    /// Newest epoch whose committee is known.
    #[serde(with = "quantity")]
    pub epoch: u64,
    /// Height of the snapshot's block; `null` before one is chosen.
    #[serde(with = "quantity::optional")]
    pub height: Option<u64>,
    /// Chunks of the snapshot.
    #[serde(with = "quantity")]
    pub chunks: u64,
    /// Chunks that are fetched.
    #[serde(with = "quantity")]
    pub fetched_chunks: u64,
    /// Bytes of all chunks.
    #[serde(with = "quantity")]
    pub bytes: u64,
    /// Bytes of the chunks that are fetched.
    #[serde(with = "quantity")]
    pub fetched_bytes: u64,
}

/// A snapshot of the state that a node offers to its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedSnapshot {
    /// Height of its block.
    #[serde(with = "quantity")]
    pub height: u64,
    /// Accounts and storage slots in it.
    #[serde(with = "quantity")]
    pub entries: u64,
    /// Bytes of its entries, without codes.
    #[serde(with = "quantity")]
    pub bytes: u64,
}
