//! `debug_getRaw*` and `eth_getRawTransaction*`: blocks and what is in them as bytes, from which anyone computes the hashes and roots
//! in the header.

use crate::backend::ChainBlock;
use crate::node::Node;
use alloy_eips::BlockId;
use alloy_primitives::{B256, Bytes};
use alloy_rlp::{Encodable, Header as ListHeader};
use alloy_rpc_types_eth::Index;
use corniche_api::{Reason, RpcError};
use std::sync::Arc;

fn block(node: &Node, id: BlockId) -> Result<Arc<ChainBlock>, RpcError> {
    node.block(id).ok_or_else(|| Reason::HeaderNotFound.error())
}

pub(crate) fn header(node: &Node, id: BlockId) -> Result<Bytes, RpcError> {
    Ok(alloy_rlp::encode(&block(node, id)?.header).into())
}

/// RLP of header, transactions and no uncles.
pub(crate) fn whole_block(node: &Node, id: BlockId) -> Result<Bytes, RpcError> {
    let block = block(node, id)?;
    let mut transactions = Vec::new();
    for raw in &block.transactions {
        // A legacy transaction is a list of its own; a typed one stands in the list as a string of bytes.
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

/// As they are hashed into the receipts root.
pub(crate) fn receipts(node: &Node, id: BlockId) -> Result<Vec<Bytes>, RpcError> {
    let encoded = |receipt: &corniche_types::Receipt| {
        let mut bytes = Vec::new();
        receipt.encode_hashed(&mut bytes);
        Bytes::from(bytes)
    };
    Ok(block(node, id)?.receipts.iter().map(encoded).collect())
}

/// Of a block or of the pool; nothing of one that is unknown, as geth answers.
pub(crate) fn transaction(node: &Node, hash: &B256) -> Bytes {
    let executed = || {
        let (height, index) = node.backend.transaction(hash)?;
        node.backend.block(height)?.transactions.get(index as usize).cloned()
    };
    let waiting = || Some(node.backend.pool_transaction(hash)?.transaction().raw().clone());
    // It may have gone from the pool into a block between two looks.
    executed().or_else(waiting).or_else(executed).unwrap_or_default()
}

/// Nothing where the block is unknown or shorter, as geth answers.
pub(crate) fn transaction_in_block(node: &Node, block: BlockId, index: Index) -> Bytes {
    node.block(block).and_then(|block| block.transactions.get(index.0).cloned()).unwrap_or_default()
}
