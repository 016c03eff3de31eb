//! `corniche_*`: ordering, certificates, epochs, validators, the DAG, and shards.

use super::params::block_or_latest;
use crate::dag;
use crate::jsonrpc::{Json, Params, json};
use crate::node::Node;
use crate::reads;
use crate::staking;
use alloy_primitives::{Address, B256, U64};
use corniche_api::{Certificate, DagRange, EpochChange, EpochId, MAX_EPOCH_CHANGES, Ordering, RpcError};
use corniche_origin::Origin;
use corniche_types::Epoch;

/// `corniche_getOrdering`.
pub(super) async fn ordering(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let block = block_or_latest(params.at_most(1)?, 0)?;
    node.read(origin, move |node| {
        let block = node.block(block)?;
        json(&block.and_then(|block| block.ordering.as_ref().map(Ordering::from)))
    })
    .await
}

/// `corniche_getCertificate`.
pub(super) async fn certificate(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let block = block_or_latest(params.at_most(1)?, 0)?;
    node.read(origin, move |node| {
        let certificate = node.kept_height(block)?.and_then(|height| node.backend.certificate(height));
        json(&certificate.as_ref().map(Certificate::from))
    })
    .await
}

/// `corniche_getEpochChanges`.
pub(super) async fn epoch_changes(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let params = params.at_most(2)?;
    let first = params.required::<U64>(0)?.to::<u64>();
    let count = params.optional::<U64>(1)?.map_or(MAX_EPOCH_CHANGES, |count| count.to()).min(MAX_EPOCH_CHANGES);
    node.read(origin, move |node| {
        let epochs = (first..first.saturating_add(count)).map(Epoch);
        let changes = epochs.map_while(|epoch| node.backend.epoch_change(epoch));
        json(&changes.map(|change| EpochChange::from(&change)).collect::<Vec<_>>())
    })
    .await
}

/// `corniche_getEpoch`.
pub(super) async fn epoch(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let id: EpochId = params.at_most(1)?.required(0)?;
    node.read(origin, move |node| json(&node.backend.epoch_info(numbered(node, id)))).await
}

/// `corniche_getCommittee`.
pub(super) async fn committee(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let id: EpochId = params.at_most(1)?.required(0)?;
    node.read(origin, move |node| json(&node.backend.committee_info(numbered(node, id)))).await
}

fn numbered(node: &Node, id: EpochId) -> Epoch {
    id.number().map_or_else(|| node.backend.epoch(), Epoch)
}

/// `corniche_getTransactionStatus`.
pub(super) async fn transaction_status(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let hash: B256 = params.at_most(1)?.required(0)?;
    node.read(origin, move |node| json(&reads::transaction_report(node, &hash))).await
}

/// `corniche_getHeads`.
pub(super) async fn heads(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0)?;
    node.read(origin, |node| json(&reads::heads(node)?)).await
}

/// `corniche_getValidators`.
pub(super) fn validators(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0).and_then(|_| json(&node.backend.validators()))
}

/// `corniche_getStaking`. It reads many slots, so it takes turns with calls, and has their timeout.
pub(super) async fn staking(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let block = block_or_latest(params.at_most(1)?, 0)?;
    node.call(origin, move |node| json(&staking::at(node, block)?)).await
}

/// `corniche_getOffences`. It reads many slots, too.
pub(super) async fn offences(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let from = params.at_most(1)?.required::<U64>(0)?.to();
    node.call(origin, move |node| json(&staking::offences(node, Epoch(from))?)).await
}

/// `corniche_getSyncStatus`.
pub(super) fn sync_status(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0).and_then(|_| json(&node.backend.sync_status()))
}

/// `corniche_getPeers`.
pub(super) fn peers(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0).and_then(|_| json(&node.backend.peers()))
}

/// `corniche_getStatistics`.
pub(super) fn statistics(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0).and_then(|_| json(&node.backend.statistics()))
}

/// `corniche_getExecution`.
pub(super) async fn execution(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let block = block_or_latest(params.at_most(1)?, 0)?;
    node.read(origin, move |node| json(&node.kept_height(block)?.and_then(|height| node.backend.execution(height)))).await
}

/// `corniche_getShards`.
pub(super) fn shards(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0).and_then(|_| json(&node.backend.shards()))
}

/// `corniche_getShard`.
pub(super) fn shard(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    let account: Address = params.at_most(1)?.required(0)?;
    json(&node.backend.shard_of(&account).map(U64::from))
}

/// `corniche_getShardedTransaction`.
pub(super) async fn sharded_transaction(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let hash: B256 = params.at_most(1)?.required(0)?;
    node.read(origin, move |node| json(&node.backend.sharded_transaction(&hash))).await
}

/// `corniche_getShardCertificate`.
pub(super) async fn shard_certificate(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let block = block_or_latest(params.at_most(1)?, 0)?;
    node.read(origin, move |node| json(&node.kept_height(block)?.and_then(|height| node.backend.shard_certificate(height))))
        .await
}

/// `corniche_getDag`.
pub(super) async fn dag(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let range = DagRange::new(params.at_most(2)?.required(0)?, params.required::<U64>(1)?.to());
    node.read(origin, move |node| json(&dag::section(node, range)?)).await
}
