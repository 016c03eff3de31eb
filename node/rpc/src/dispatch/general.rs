//! The node itself: version, network and modules.

use crate::dev;
use crate::jsonrpc::{Json, Params, json};
use crate::node::Node;
use crate::reads;
use alloy_primitives::{Bytes, U64, keccak256};
use corniche_api::{RpcError, openrpc};
use corniche_origin::Origin;
use std::collections::BTreeMap;

/// `web3_clientVersion`.
pub(super) fn client_version(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0).and_then(|_| json(&node.backend.client_version()))
}

/// `web3_sha3`.
pub(super) fn sha3(params: &Params<'_>) -> Result<Json, RpcError> {
    json(&keccak256(params.at_most(1)?.required::<Bytes>(0)?))
}

/// `net_version`.
pub(super) fn network_id(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0).and_then(|_| json(&node.backend.chain_id().to_string()))
}

/// `net_listening`.
pub(super) fn listening(params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0).and_then(|_| json(&true))
}

/// `net_peerCount`.
pub(super) fn peer_count(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0).and_then(|_| json(&U64::from(node.backend.peer_count())))
}

/// `rpc_discover`.
pub(super) async fn discover(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0)?;
    node.read(origin, |node| json(&openrpc::document(&node.backend.client_version(), &node.config.namespaces))).await
}

/// `rpc_modules`.
pub(super) fn modules(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0).and_then(|_| json(&node.config.namespaces.names().map(|name| (name, "1.0")).collect::<BTreeMap<_, _>>()))
}

/// `eth_chainId`.
pub(super) fn chain_id(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0).and_then(|_| json(&U64::from(node.backend.chain_id())))
}

/// `eth_syncing`.
pub(super) fn syncing(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0).and_then(|_| reads::syncing(node))
}

/// `eth_accounts`.
pub(super) fn accounts(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0).and_then(|_| json(&dev::accounts(node)))
}

/// `eth_blockNumber`.
pub(super) fn block_number(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(0).and_then(|_| json(&U64::from(node.backend.head().0)))
}
