//! `debug_getRaw*` and `eth_getRawTransaction*`: blocks and their contents as encoded bytes, so that clients
//! can recompute the hashes and roots of the header.

use crate::backend::ChainBlock;
use crate::node::Node;
use alloy_eips::BlockId;
use alloy_primitives::{B256, Bytes};
use alloy_rlp::{Encodable, Header as ListHeader};
use alloy_rpc_types_eth::Index;
use corniche_api::{Reason, RpcError};
use std::sync::Arc;

fn block(node: &Node, id: BlockId) -> Result<Arc<ChainBlock>, RpcError> {
    node.block(id)?.ok_or_else(|| Reason::HeaderNotFound.error())
}

pub(crate) fn header(node: &Node, id: BlockId) -> Result<Bytes, RpcError> {
    Ok(alloy_rlp::encode(&block(node, id)?.header).into())
}

/// RLP of header, transactions and an empty list of uncles.
pub(crate) fn whole_block(node: &Node, id: BlockId) -> Result<Bytes, RpcError> {
    let block = block(node, id)?;
    let mut transactions = Vec::new();
    for raw in &block.transactions {
        // A legacy transaction is an RLP list; a typed one is a byte string.
        match raw.first() {
            Some(first) if *first >= 0xc0 => transactions.extend_from_slice(raw),
            _ => raw.as_ref().encode(&mut transactions),
        }
    }
    let mut body = Vec::new();
    block.header.encode(&mut body);
    ListHeader { list: true, payload_length: transactions.len() }.encode(&mut body);
    body.extend_from_slice(&transactions);
    ListHeader { list: true, payload_length: 0 }.encode(&mut body);
    let mut encoded = Vec::with_capacity(body.len() + 9);
    ListHeader { list: true, payload_length: body.len() }.encode(&mut encoded);
    encoded.extend_from_slice(&body);
    Ok(encoded.into())
}

/// Receipts as they are encoded for the receipts root.
pub(crate) fn receipts(node: &Node, id: BlockId) -> Result<Vec<Bytes>, RpcError> {
    let encoded = |receipt: &corniche_types::Receipt| {
        let mut bytes = Vec::new();
        receipt.encode_hashed(&mut bytes);
        Bytes::from(bytes)
    };
    Ok(block(node, id)?.receipts.iter().map(encoded).collect())
}

/// Bytes of a transaction in a block or in the pool; empty if it is unknown, as in geth.
pub(crate) fn transaction(node: &Node, hash: &B256) -> Bytes {
    let executed = || {
        let (block, index) = node.executed(hash)?;
        block.transactions.get(index).cloned()
    };
    let waiting = || Some(node.backend.pool_transaction(hash)?.transaction().raw().clone());
    // It may have moved from the pool into a block between the two lookups.
    executed().or_else(waiting).or_else(executed).unwrap_or_default()
}

/// Empty if the block is unknown or has fewer transactions, as in geth.
pub(crate) fn transaction_in_block(node: &Node, block: BlockId, index: Index) -> Result<Bytes, RpcError> {
    Ok(node.block(block)?.and_then(|block| block.transactions.get(index.0).cloned()).unwrap_or_default())
}
