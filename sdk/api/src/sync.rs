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
    /// True while the node follows blocks that others order: always on a full node, and on a validator that does not order.
    pub follows: bool,
    /// Snapshots that it offers to peers, newest first.
    pub snapshots: Vec<OfferedSnapshot>,
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
