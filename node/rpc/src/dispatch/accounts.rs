//! Accounts, their code and storage, at a block.

use super::params::{account_at, block_or_latest};
use crate::jsonrpc::{Json, Params, json};
use crate::node::Node;
use crate::proofs;
use crate::reads;
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use corniche_api::RpcError;
use corniche_origin::Origin;
use corniche_state::StateView;
use std::collections::BTreeMap;

/// `eth_getBalance`.
pub(super) async fn balance(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (address, block) = account_at(params)?;
    node.read_state(origin, block, move |state| json(&state.account(&address).unwrap_or_default().balance)).await
}

/// `eth_getTransactionCount`.
pub(super) async fn nonce(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (address, block) = account_at(params)?;
    if block == BlockId::Number(BlockNumberOrTag::Pending) {
        return json(&U64::from(node.backend.pending_nonce(&address)));
    }
    node.read_state(origin, block, move |state| json(&U64::from(state.account(&address).unwrap_or_default().nonce))).await
}

/// `eth_getCode`.
pub(super) async fn code(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (address, block) = account_at(params)?;
    let code = move |state: &dyn StateView| {
        let account = state.account(&address).unwrap_or_default();
        json(&if account.has_code() { state.code(&account.code_hash).unwrap_or_default() } else { Bytes::new() })
    };
    node.read_state(origin, block, code).await
}

/// `eth_getStorageAt`.
pub(super) async fn storage_at(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    params.at_most(3)?;
    let (address, slot) = (params.required(0)?, B256::from(params.required::<U256>(1)?));
    let block = block_or_latest(params, 2)?;
    node.read_state(origin, block, move |state| json(&state.storage(&address, &slot))).await
}

/// `eth_getStorageValues`.
pub(super) async fn storage_values(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let wanted: BTreeMap<Address, Vec<U256>> = params.at_most(2)?.required(0)?;
    let block = block_or_latest(params, 1)?;
    node.read(origin, move |node| json(&reads::storage_values(node, wanted, block)?)).await
}

/// `eth_getProof`.
pub(super) async fn proof(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let (address, slots) = (params.at_most(3)?.required(0)?, params.required(1)?);
    let block = block_or_latest(params, 2)?;
    node.prove(origin, move |node| proofs::get(node, address, slots, block)).await
}
