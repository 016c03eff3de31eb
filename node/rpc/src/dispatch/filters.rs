//! Log queries and filters.

use crate::filter_polls;
use crate::filters::FilterKind;
use crate::jsonrpc::{Json, Params, json};
use crate::logs;
use crate::node::Node;
use alloy_primitives::U128;
use alloy_rpc_types_eth::Filter;
use corniche_api::RpcError;
use corniche_origin::Origin;

/// `eth_getLogs`.
pub(super) async fn logs(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let filter: Filter = params.at_most(1)?.required(0)?;
    node.read(origin, move |node| json(&logs::search(node, &filter)?)).await
}

/// `eth_newFilter`.
pub(super) fn new_log_filter(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let filter: Filter = params.at_most(1)?.required(0)?;
    logs::ensure_begin_kept(node, &filter)?;
    json(&node.add_filter(origin, FilterKind::Logs(logs::keep(node, origin, filter)?))?)
}

/// `eth_newBlockFilter`.
pub(super) fn new_block_filter(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0)?;
    json(&node.add_filter(origin, FilterKind::Blocks)?)
}

/// `eth_newPendingTransactionFilter`.
pub(super) fn new_pending_filter(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let full = params.at_most(1)?.optional(0)?.unwrap_or(false);
    json(&node.add_filter(origin, FilterKind::Pending { full })?)
}

/// `eth_getFilterChanges`.
pub(super) async fn changes(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let id: U128 = params.at_most(1)?.required(0)?;
    node.read(origin, move |node| filter_polls::changes(node, id)).await
}

/// `eth_getFilterLogs`.
pub(super) async fn all_logs(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let id: U128 = params.at_most(1)?.required(0)?;
    node.read(origin, move |node| filter_polls::all_logs(node, id)).await
}

/// `eth_uninstallFilter`.
pub(super) fn uninstall(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    json(&node.filters.remove(params.at_most(1)?.required(0)?))
}
