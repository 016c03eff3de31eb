//! Submits transactions: single ones, several of a batch together, and with waiting for the receipt.

use crate::convert;
use crate::jsonrpc::{Json, Params, json};
use crate::node::Node;
use alloy_primitives::{B256, Bytes};
use alloy_rpc_types_eth::{Index, TransactionReceipt};
use corniche_api::{Reason, RpcError, TransactionStatus};
use corniche_origin::Origin;
use std::time::{Duration, Instant};

/// `eth_sendRawTransaction`.
pub(crate) async fn submit(node: &Node, params: &Params<'_>) -> Result<Json, RpcError> {
    let raw: Bytes = params.at_most(1)?.required(0)?;
    json(&node.backend.submit(raw).await?)
}

/// Like [`submit`]; also returns the time it took.
pub(crate) async fn submit_timed(node: &Node, params: &Params<'_>) -> (Result<Json, RpcError>, Duration) {
    let started = Instant::now();
    (submit(node, params).await, started.elapsed())
}

/// `eth_sendRawTransactionSync` (EIP-7966): returns the receipt once there is one. There is no polling: a
/// waiting request costs one lookup per new block.
pub(crate) async fn submit_and_wait(node: &Node, origin: Origin, params: &Params<'_>) -> Result<Json, RpcError> {
    let raw: Bytes = params.at_most(2)?.required(0)?;
    let requested = params.optional::<Index>(1)?.filter(|requested| requested.0 > 0);
    let timeout = requested.map_or(node.config.receipt_timeout, |requested| Duration::from_millis(requested.0 as u64));
    let timeout = timeout.min(node.config.max_receipt_timeout);
    let _reservation = node.awaited_receipts.reserve(origin, 1)?;

    let (mut heads, mut early, mut stopped) = (node.heads.subscribe(), node.early.subscribe(), node.stopped.clone());
    let submitted = node.backend.submit(raw).await;
    if submitted.is_err() {
        // A refusal may take no await point. A batch of them must not hold the thread, which peers share.
        tokio::task::yield_now().await;
    }
    let hash = submitted?;
    let timed_out = tokio::time::sleep(timeout);
    tokio::pin!(timed_out);
    loop {
        heads.mark_unchanged();
        early.mark_unchanged();
        if let Some(receipt) = poll_receipt(node, &hash)? {
            return json(&receipt);
        }
        tokio::select! {
            Ok(()) = early.changed() => {}
            changed = heads.changed() => changed.map_err(|_| Reason::NotAccepting.with("the node is stopping"))?,
            _ = stopped.wait_for(|stopped| *stopped) => return Err(RpcError::not_processed_in(timeout, hash)),
            () = &mut timed_out => return Err(RpcError::not_processed_in(timeout, hash)),
        }
    }
}

/// Returns the receipt of an executed transaction, `None` while it waits, an error if it will never be
/// executed.
fn poll_receipt(node: &Node, hash: &B256) -> Result<Option<TransactionReceipt>, RpcError> {
    if let Some((block, index)) = node.executed_or_early(hash) {
        return convert::receipt(&block, index).map(Some);
    }
    match node.backend.status(hash) {
        Some(TransactionStatus::Dropped { reason }) => Err(Reason::TransactionDropped.with(reason)),
        Some(TransactionStatus::Replaced { by }) => Err(Reason::TransactionReplaced.with(by)),
        _ => Ok(None),
    }
}
