//! Parameters that several methods share.

use crate::jsonrpc::Params;
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{Address, B256};
use corniche_api::RpcError;

/// Parses address and block; a missing block means `latest`.
pub(super) fn account_at(params: &Params<'_>) -> Result<(Address, BlockId), RpcError> {
    Ok((params.at_most(2)?.required(0)?, block_or_latest(params, 1)?))
}

pub(super) fn block_or_latest(params: &Params<'_>, position: usize) -> Result<BlockId, RpcError> {
    Ok(params.optional(position)?.unwrap_or_default())
}

pub(super) fn block_by_number(params: &Params<'_>) -> Result<BlockId, RpcError> {
    params.required::<BlockNumberOrTag>(0).map(BlockId::Number)
}

pub(super) fn block_by_hash(params: &Params<'_>) -> Result<BlockId, RpcError> {
    params.required::<B256>(0).map(BlockId::from)
}
