//! Contents of the pool.

use crate::jsonrpc::{Json, Params};
use crate::node::Node;
use crate::txpool;
use alloy_primitives::Address;
use corniche_api::RpcError;
use corniche_origin::Origin;

/// `txpool_status`.
pub(super) async fn status(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0)?;
    node.read(origin, txpool::status).await
}

/// `txpool_content`.
pub(super) async fn content(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0)?;
    node.read(origin, txpool::content).await
}

/// `txpool_contentFrom`.
pub(super) async fn content_from(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let sender: Address = params.at_most(1)?.required(0)?;
    node.read(origin, move |node| txpool::content_from(node, &sender)).await
}

/// `txpool_inspect`.
pub(super) async fn inspect(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0)?;
    node.read(origin, txpool::inspect).await
}
