//! Calls, estimates, simulations and traces.

use super::params::{block_by_hash, block_by_number, block_or_latest};
use crate::access_list;
use crate::call;
use crate::jsonrpc::{Json, Params, json};
use crate::node::Node;
use crate::prepare::CallRequest;
use crate::simulate;
use crate::trace::{self, TraceRequest};
use alloy_primitives::{B256, U64};
use corniche_api::RpcError;
use corniche_origin::Origin;

/// `eth_call`.
pub(super) async fn call(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let call_request = call_request(params)?;
    node.call(origin, move |node| json(&call::call(node, call_request)?)).await
}

/// `eth_estimateGas`.
pub(super) async fn estimate_gas(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let call_request = call_request(params)?;
    node.call(origin, move |node| json(&U64::from(call::estimate(node, call_request)?))).await
}

/// `eth_createAccessList`.
pub(super) async fn create_access_list(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let call_request = call_request(params)?;
    node.call(origin, move |node| json(&access_list::create(node, call_request)?)).await
}

/// `eth_simulateV1`.
pub(super) async fn simulate(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (payload, block) = (params.at_most(2)?.required(0)?, block_or_latest(params, 1)?);
    node.call(origin, move |node| simulate::simulate(node, payload, block)).await
}

/// `debug_traceCall`.
pub(super) async fn trace(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (call, block) = (params.at_most(3)?.required(0)?, block_or_latest(params, 1)?);
    let request = trace_request(params, 2)?;
    node.call(origin, move |node| trace::call(node, call, block, request)).await
}

/// `debug_traceTransaction`.
pub(super) async fn trace_transaction(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (hash, request): (B256, TraceRequest) = (params.at_most(2)?.required(0)?, trace_request(params, 1)?);
    node.call(origin, move |node| trace::transaction(node, &hash, &request)).await
}

/// `debug_traceBlockByNumber`.
pub(super) async fn trace_block_by_number(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (block, request) = (block_by_number(params.at_most(2)?)?, trace_request(params, 1)?);
    node.call(origin, move |node| trace::block(node, block, &request)).await
}

/// `debug_traceBlockByHash`.
pub(super) async fn trace_block_by_hash(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (block, request) = (block_by_hash(params.at_most(2)?)?, trace_request(params, 1)?);
    node.call(origin, move |node| trace::block(node, block, &request)).await
}

fn call_request(params: &Params<'_>) -> Result<CallRequest, RpcError> {
    params.at_most(4)?;
    Ok(CallRequest {
        request: params.required(0)?,
        block: block_or_latest(params, 1)?,
        overrides: params.optional(2)?,
        block_overrides: params.optional(3)?,
    })
}

fn trace_request(params: &Params<'_>, position: usize) -> Result<TraceRequest, RpcError> {
    Ok(params.optional(position)?.unwrap_or_default())
}
