//! Short methods that read the chain.

use crate::convert;
use crate::jsonrpc::{Json, json};
use crate::node::{Node, ensure_available};
use alloy_eips::BlockId;
use alloy_primitives::{Address, B256, U256};
use alloy_rpc_types_eth::Index;
use corniche_api::{HeadBlock, Heads, Reason, RpcError, TransactionReport, TransactionStatus, TransactionTimes};
use corniche_types::Height;
use std::collections::BTreeMap;

pub(crate) fn syncing(node: &Node) -> Result<Json, RpcError> {
    match node.backend.syncing() {
        None => json(&false),
        Some(progress) => json(&convert::progress(progress)),
    }
}

/// `eth_getStorageValues`: slots of several accounts, at most `max_slots`.
pub(crate) fn storage_values(
    node: &Node,
    wanted: BTreeMap<Address, Vec<U256>>,
    block: BlockId,
) -> Result<BTreeMap<Address, Vec<B256>>, RpcError> {
    let (slots, most) = (wanted.values().map(Vec::len).sum::<usize>(), node.config.max_slots);
    if slots > most {
        return Err(Reason::TooManySlots.with(format!("{slots} of at most {most}")));
    }
    let state = node.state(block)?.1;
    let values = |(address, slots): (Address, Vec<U256>)| {
        let values = slots.into_iter().map(|slot| state.storage(&address, &B256::from(slot))).collect();
        (address, values)
    };
    let answer = wanted.into_iter().map(values).collect();
    ensure_available(&*state)?;
    Ok(answer)
}

pub(crate) fn block_json(node: &Node, block: BlockId, full: bool) -> Result<Json, RpcError> {
    let block = node.block(block)?;
    json(&block.map(|block| convert::block(&block, full)).transpose()?)
}

pub(crate) fn block_receipts(node: &Node, block: BlockId) -> Result<Json, RpcError> {
    let Some(block) = node.block(block)? else { return json(&()) };
    let receipts = (0..block.receipts.len()).map(|index| convert::receipt(&block, index));
    json(&receipts.collect::<Result<Vec<_>, _>>()?)
}

pub(crate) fn transaction_in_block(node: &Node, block: BlockId, index: Index) -> Result<Json, RpcError> {
    let block = node.block(block)?.filter(|block| index.0 < block.transactions.len());
    json(&block.map(|block| convert::transaction(&block, index.0)).transpose()?)
}

pub(crate) fn transaction_by_hash(node: &Node, hash: &B256) -> Result<Json, RpcError> {
    // In this order: it may move from the pool into a block between the two look-ups.
    let waiting = node.backend.pool_transaction(hash);
    if let Some((block, index)) = node.executed_or_early(hash) {
        return json(&convert::transaction(&block, index)?);
    }
    json(&waiting.map(|waiting| convert::pending_transaction(waiting.transaction(), waiting.sender())))
}

/// Status of a transaction, and the times that are known.
pub(crate) fn transaction_report(node: &Node, hash: &B256) -> Option<TransactionReport> {
    let status = node.backend.status(hash)?;
    let times = match status {
        TransactionStatus::Executed { block_number, .. } | TransactionStatus::Certified { block_number, .. } => {
            let ordered = node.backend.block(Height(block_number)).map(|block| block.time().0);
            // It may have left this node's pool and been executed through another node's.
            TransactionTimes { ordered_ms: ordered, left_ms: None, ..node.backend.pool_times(hash) }
        }
        _ => node.backend.pool_times(hash),
    };
    Some(TransactionReport { status, times })
}

pub(crate) fn heads(node: &Node) -> Result<Heads, RpcError> {
    let head = |height| -> Result<HeadBlock, RpcError> {
        let block = node.block_at(height)?.ok_or_else(|| RpcError::internal("no block at a head"))?;
        Ok(HeadBlock { hash: block.hash, number: height.0, timestamp_ms: block.time().0 })
    };
    Ok(Heads { executed: head(node.backend.head())?, certified: head(node.backend.finalized())? })
}

pub(crate) fn receipt(node: &Node, hash: &B256) -> Result<Json, RpcError> {
    let Some((block, index)) = node.executed_or_early(hash) else { return json(&()) };
    json(&convert::receipt(&block, index)?)
}
