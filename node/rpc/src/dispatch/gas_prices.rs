//! Prices of gas.

use super::params::block_or_latest;
use crate::fees;
use crate::jsonrpc::{Json, Params, json};
use crate::node::Node;
use alloy_primitives::U64;
use alloy_rpc_types_eth::Index;
use corniche_api::RpcError;
use corniche_origin::Origin;

/// `eth_gasPrice`.
pub(super) async fn gas_price(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0)?;
    node.read(origin, |node| json(&U64::from(fees::gas_price(node)))).await
}

/// `eth_maxPriorityFeePerGas`.
pub(super) async fn max_priority_fee(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0)?;
    node.read(origin, |node| json(&U64::from(fees::suggested_tip(node)))).await
}

/// `eth_feeHistory`.
pub(super) async fn fee_history(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(3)?;
    let (count, newest) = (params.required::<Index>(0)?, block_or_latest(params, 1)?);
    let percentiles: Option<Vec<f64>> = params.optional(2)?;
    node.read(origin, move |node| json(&fees::history(node, count.0, newest, percentiles.as_deref())?)).await
}

/// `eth_baseFee`.
pub(super) fn base_fee(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0).and_then(|_| json(&U64::from(node.backend.next_base_fee())))
}
