//! `ots_*`: Otterscan's methods.

use super::params::{account_at, block_by_hash};
use crate::jsonrpc::{Json, Params, json};
use crate::node::Node;
use crate::ots::{self, BlockName};
use alloy_primitives::{Address, B256};
use alloy_rpc_types_eth::Index;
use corniche_api::RpcError;
use corniche_origin::Origin;

/// `ots_getApiLevel`.
pub(super) fn api_level(params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0).and_then(|_| json(&ots::API_LEVEL))
}

/// `ots_hasCode`.
pub(super) fn has_code(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    let (address, block) = account_at(params)?;
    json(&ots::has_code(node, &address, block)?)
}

/// `ots_getTransactionError`.
pub(super) async fn transaction_error(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let hash: B256 = params.at_most(1)?.required(0)?;
    node.read(origin, move |node| json(&ots::transaction_error(node, &hash)?)).await
}

/// `ots_traceTransaction`.
pub(super) async fn trace_transaction(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let hash: B256 = params.at_most(1)?.required(0)?;
    node.call(origin, move |node| ots::trace_transaction(node, &hash)).await
}

/// `ots_getInternalOperations`.
pub(super) async fn internal_operations(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let hash: B256 = params.at_most(1)?.required(0)?;
    node.call(origin, move |node| ots::internal_operations(node, &hash)).await
}

/// `ots_getBlockDetails`.
pub(super) async fn block_details(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let block: BlockName = params.at_most(1)?.required(0)?;
    node.read(origin, move |node| ots::block_details(node, block.into())).await
}

/// `ots_getBlockDetailsByHash`.
pub(super) async fn block_details_by_hash(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let block = block_by_hash(params.at_most(1)?)?;
    node.read(origin, move |node| ots::block_details(node, block)).await
}

/// `ots_getBlockTransactions`.
pub(super) async fn block_transactions(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let block: BlockName = params.at_most(3)?.required(0)?;
    let (page, size): (Index, Index) = (params.required(1)?, params.required(2)?);
    node.read(origin, move |node| ots::block_transactions(node, block.into(), page.0, size.0)).await
}

/// `ots_searchTransactionsBefore`.
pub(super) async fn search_before(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (address, block, size) = ots_page(params)?;
    node.read(origin, move |node| ots::search_before(node, address, block, size)).await
}

/// `ots_searchTransactionsAfter`.
pub(super) async fn search_after(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (address, block, size) = ots_page(params)?;
    node.read(origin, move |node| ots::search_after(node, address, block, size)).await
}

/// `ots_getTransactionBySenderAndNonce`.
pub(super) async fn by_sender_and_nonce(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (sender, nonce): (Address, Index) = (params.at_most(2)?.required(0)?, params.required(1)?);
    node.read(origin, move |node| json(&ots::by_sender_and_nonce(node, sender, nonce.0 as u64)?)).await
}

/// `ots_getContractCreator`.
pub(super) async fn contract_creator(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let address: Address = params.at_most(1)?.required(0)?;
    node.call(origin, move |node| json(&ots::contract_creator(node, address)?)).await
}

/// Parses account, first block and page size.
fn ots_page(params: &Params<'_>) -> Result<(Address, u64, usize), RpcError> {
    let (address, block, size): (_, Index, Index) = (params.at_most(3)?.required(0)?, params.required(1)?, params.required(2)?);
    Ok((address, block.0 as u64, size.0))
}
