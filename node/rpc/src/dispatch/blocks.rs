//! Blocks.

use super::params::{block_by_hash, block_by_number};
use crate::jsonrpc::{Json, Params, json};
use crate::node::Node;
use crate::raw;
use crate::reads;
use alloy_eips::BlockId;
use alloy_primitives::U64;
use alloy_rpc_types_eth::Index;
use corniche_api::RpcError;
use corniche_origin::Origin;

/// `eth_getBlockByNumber`.
pub(super) async fn by_number(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (block, full) = (block_by_number(params)?, params.at_most(2)?.optional(1)?.unwrap_or(false));
    node.read(origin, move |node| reads::block_json(node, block, full)).await
}

/// `eth_getBlockByHash`.
pub(super) async fn by_hash(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (block, full) = (block_by_hash(params)?, params.at_most(2)?.optional(1)?.unwrap_or(false));
    node.read(origin, move |node| reads::block_json(node, block, full)).await
}

/// `eth_getBlockReceipts`.
pub(super) async fn receipts(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let block = params.at_most(1)?.required(0)?;
    node.read(origin, move |node| reads::block_receipts(node, block)).await
}

/// `eth_getBlockTransactionCountByNumber`.
pub(super) async fn transaction_count_by_number(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let block = block_by_number(params.at_most(1)?)?;
    node.read(origin, move |node| json(&node.block(block)?.map(|block| U64::from(block.transactions.len())))).await
}

/// `eth_getBlockTransactionCountByHash`.
pub(super) async fn transaction_count_by_hash(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let block = block_by_hash(params.at_most(1)?)?;
    node.read(origin, move |node| json(&node.block(block)?.map(|block| U64::from(block.transactions.len())))).await
}

/// `eth_getUncleCountByBlockNumber`.
pub(super) fn uncle_count_by_number(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    let block = block_by_number(params.at_most(1)?)?;
    json(&node.kept_height(block)?.map(|_| U64::ZERO))
}

/// `eth_getUncleCountByBlockHash`.
pub(super) fn uncle_count_by_hash(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    let block = block_by_hash(params.at_most(1)?)?;
    json(&node.kept_height(block)?.map(|_| U64::ZERO))
}

/// `eth_getUncleByBlockNumberAndIndex`.
pub(super) fn uncle_by_number(params: &Params<'_>) -> Result<Json, RpcError> {
    let _: (BlockId, Index) = (block_by_number(params)?, params.at_most(2)?.required(1)?);
    json(&())
}

/// `eth_getUncleByBlockHashAndIndex`.
pub(super) fn uncle_by_hash(params: &Params<'_>) -> Result<Json, RpcError> {
    let _: (BlockId, Index) = (block_by_hash(params)?, params.at_most(2)?.required(1)?);
    json(&())
}

/// `debug_getRawHeader`.
pub(super) async fn raw_header(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let block = params.at_most(1)?.required(0)?;
    node.read(origin, move |node| json(&raw::header(node, block)?)).await
}

/// `debug_getRawBlock`.
pub(super) async fn raw_block(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let block = params.at_most(1)?.required(0)?;
    node.read(origin, move |node| json(&raw::whole_block(node, block)?)).await
}

/// `debug_getRawReceipts`.
pub(super) async fn raw_receipts(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let block = params.at_most(1)?.required(0)?;
    node.read(origin, move |node| json(&raw::receipts(node, block)?)).await
}
