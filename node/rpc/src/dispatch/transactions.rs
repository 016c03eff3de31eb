//! Transactions and receipts.

use super::params::{block_by_hash, block_by_number};
use crate::jsonrpc::{Json, Params, json};
use crate::node::Node;
use crate::raw;
use crate::reads;
use alloy_primitives::B256;
use corniche_api::RpcError;
use corniche_origin::Origin;

/// `eth_getTransactionByHash`.
pub(super) async fn by_hash(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let hash: B256 = params.at_most(1)?.required(0)?;
    node.read(origin, move |node| reads::transaction_by_hash(node, &hash)).await
}

/// `eth_getTransactionByBlockHashAndIndex`.
pub(super) async fn by_block_hash(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (block, index) = (block_by_hash(params)?, params.at_most(2)?.required(1)?);
    node.read(origin, move |node| reads::transaction_in_block(node, block, index)).await
}

/// `eth_getTransactionByBlockNumberAndIndex`.
pub(super) async fn by_block_number(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (block, index) = (block_by_number(params)?, params.at_most(2)?.required(1)?);
    node.read(origin, move |node| reads::transaction_in_block(node, block, index)).await
}

/// `eth_getTransactionReceipt`.
pub(super) async fn receipt(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let hash: B256 = params.at_most(1)?.required(0)?;
    node.read(origin, move |node| reads::receipt(node, &hash)).await
}

/// `eth_getRawTransactionByHash` and `debug_getRawTransaction`.
pub(super) async fn raw_by_hash(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let hash: B256 = params.at_most(1)?.required(0)?;
    node.read(origin, move |node| json(&raw::transaction(node, &hash))).await
}

/// `eth_getRawTransactionByBlockHashAndIndex`.
pub(super) async fn raw_by_block_hash(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (block, index) = (block_by_hash(params)?, params.at_most(2)?.required(1)?);
    node.read(origin, move |node| json(&raw::transaction_in_block(node, block, index)?)).await
}

/// `eth_getRawTransactionByBlockNumberAndIndex`.
pub(super) async fn raw_by_block_number(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (block, index) = (block_by_number(params)?, params.at_most(2)?.required(1)?);
    node.read(origin, move |node| json(&raw::transaction_in_block(node, block, index)?)).await
}
