//! `eth_getFilterChanges` and `eth_getFilterLogs`: results of filters, read from the chain.

use crate::convert;
use crate::filters::FilterKind;
use crate::jsonrpc::{Json, json};
use crate::logs;
use crate::node::Node;
use crate::txpool;
use alloy_primitives::{B256, U128};
use corniche_api::{Reason, RpcError};
use corniche_types::Height;

/// Maximum number of block hashes per response.
const MAX_BLOCK_HASHES: u64 = 1024;
/// Maximum number of attempts when reverts interfere with a poll.
const MAX_POLL_ATTEMPTS: usize = 8;

/// `eth_getFilterChanges`.
pub(crate) fn changes(node: &Node, id: U128) -> Result<Json, RpcError> {
    // Retries if a development chain reverts meanwhile; the number of attempts is bounded.
    for _ in 0..MAX_POLL_ATTEMPTS {
        if let Some(changes_found) = try_changes(node, id)? {
            return Ok(changes_found);
        }
    }
    json::<[B256; 0]>(&[])
}

fn try_changes(node: &Node, id: U128) -> Result<Option<Json>, RpcError> {
    let (kind, position) = node.filters.get(id, (node.clock)())?;
    let from = position.next;
    let head = node.backend.head().0;
    match kind {
        FilterKind::Blocks => {
            if let Err(error) = node.ensure_range_kept(from..=head) {
                // The next poll continues after the missing blocks.
                node.filters.advance(id, position, node.backend.first_block().0);
                return Err(error);
            }
            let end = (head + 1).min(from + MAX_BLOCK_HASHES);
            let hashes: Vec<B256> =
                (from..end).filter_map(|height| node.backend.block(Height(height))).map(|block| block.hash).collect();
            node.filters.advance(id, position, end).map(|_| json(&hashes)).transpose()
        }
        FilterKind::Logs(filter) => {
            let batch = logs::collect_logs(node, &filter, from, head);
            let next = batch.as_ref().map_or_else(|(_, next)| *next, |batch| batch.next);
            // If the response fails, the client gets no logs, so the removed ones are kept.
            let Ok(batch) = batch else {
                let removed = node.filters.advance(id, position, next);
                node.filters.restore_removed(id, removed.unwrap_or_default());
                return batch.map(|_| None).map_err(|(error, _)| error);
            };
            let Some(removed) = node.filters.advance(id, position, next) else { return Ok(None) };
            json(&[removed, batch.logs].concat()).map(Some)
        }
        FilterKind::Pending { full } => {
            let (hashes, next) = node.filters.pending_since(from);
            if !full {
                node.filters.advance(id, position, next);
                return json(&hashes).map(Some);
            }
            let (mut changes_found, mut bytes) = (Vec::new(), 0);
            for (number, hash) in (next - hashes.len() as u64..).zip(&hashes) {
                let Some(waiting) = node.backend.pool_transaction(hash) else { continue };
                bytes += txpool::json_bytes(&waiting);
                if bytes > node.config.max_response_bytes && !changes_found.is_empty() {
                    // The rest follows with the next poll.
                    node.filters.advance(id, position, number);
                    return json(&changes_found).map(Some);
                }
                changes_found.push(convert::pending_transaction(waiting.transaction(), waiting.sender()));
            }
            node.filters.advance(id, position, next);
            json(&changes_found).map(Some)
        }
    }
}

/// `eth_getFilterLogs`: all logs that match a log filter, like `eth_getLogs`.
pub(crate) fn all_logs(node: &Node, id: U128) -> Result<Json, RpcError> {
    match node.filters.get(id, (node.clock)())?.0 {
        FilterKind::Logs(filter) => json(&logs::search(node, &filter)?),
        FilterKind::Blocks | FilterKind::Pending { .. } => Err(Reason::FilterNotFound.error()),
    }
}
