//! `txpool_*`: contents of the pool in geth's format. `pending` transactions are executable now, `queued`
//! ones wait for an earlier nonce.

use crate::convert;
use crate::jsonrpc::{Json, json};
use crate::node::Node;
use alloy_primitives::{Address, U64};
use alloy_rpc_types_eth::Transaction;
use corniche_api::{Reason, RpcError};
use corniche_crypto::VerifiedTransaction;
use corniche_state::StateView;
use serde::Serialize;
use std::collections::BTreeMap;

/// Approximate size of one transaction as JSON without its data, in bytes.
const TRANSACTION_JSON_BYTES: usize = 700;

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct PendingAndQueued<T> {
    pending: T,
    queued: T,
}

/// Keyed by nonce; JSON writes it in decimal digits, as geth does.
type ByNonce<T> = BTreeMap<u64, T>;
/// Keyed by checksummed address.
type ByAddress<T> = BTreeMap<String, ByNonce<T>>;

/// `txpool_status`.
pub(crate) fn status(node: &Node) -> Result<Json, RpcError> {
    let (mut pending, mut queued) = (0, 0);
    let state = head_state(node)?;
    for sender in node.backend.pool(None).chunk_by(|one, next| one.sender() == next.sender()) {
        let (now, later) = split_at_gap(sender, &*state);
        pending += now.len();
        queued += later.len();
    }
    json(&PendingAndQueued { pending: U64::from(pending), queued: U64::from(queued) })
}

/// `txpool_content`.
pub(crate) fn content(node: &Node) -> Result<Json, RpcError> {
    let pool = node.backend.pool(None);
    check_size(node, &pool)?;
    json(&by_address(&pool, &*head_state(node)?, full_transaction))
}

/// `txpool_contentFrom`.
pub(crate) fn content_from(node: &Node, sender: &Address) -> Result<Json, RpcError> {
    let pool = node.backend.pool(Some(sender));
    check_size(node, &pool)?;
    let (now, later) = split_at_gap(&pool, &*head_state(node)?);
    json(&PendingAndQueued { pending: by_nonce(now, full_transaction), queued: by_nonce(later, full_transaction) })
}

/// `txpool_inspect`: one line per transaction.
pub(crate) fn inspect(node: &Node) -> Result<Json, RpcError> {
    json(&by_address(&node.backend.pool(None), &*head_state(node)?, summary_line))
}

fn head_state(node: &Node) -> Result<std::sync::Arc<dyn StateView>, RpcError> {
    Ok(node.state(Default::default())?.1)
}

/// Splits one sender's transactions, sorted by nonce: those that follow the account's nonce without a gap,
/// and the rest.
fn split_at_gap<'p>(
    transactions: &'p [VerifiedTransaction],
    state: &dyn StateView,
) -> (&'p [VerifiedTransaction], &'p [VerifiedTransaction]) {
    let Some(first) = transactions.first() else { return (&[], &[]) };
    let next = state.account(&first.sender()).map_or(0, |account| account.nonce);
    let nonce = |transaction: &VerifiedTransaction| transaction.transaction().nonce();
    // A block may have been executed between reading the pool and reading the state.
    let executed = transactions.partition_point(|transaction| nonce(transaction) < next);
    let waiting = &transactions[executed..];
    let executable = waiting.iter().zip(next..).take_while(|(transaction, expected)| nonce(transaction) == *expected).count();
    waiting.split_at(executable)
}

fn by_address<T>(
    pool: &[VerifiedTransaction],
    state: &dyn StateView,
    render: impl Fn(&VerifiedTransaction) -> T + Copy,
) -> PendingAndQueued<ByAddress<T>> {
    let mut all = PendingAndQueued { pending: BTreeMap::new(), queued: BTreeMap::new() };
    for sender in pool.chunk_by(|one, next| one.sender() == next.sender()) {
        let name = sender[0].sender().to_checksum(None);
        let (now, later) = split_at_gap(sender, state);
        if !now.is_empty() {
            all.pending.insert(name.clone(), by_nonce(now, render));
        }
        if !later.is_empty() {
            all.queued.insert(name, by_nonce(later, render));
        }
    }
    all
}

fn by_nonce<T>(transactions: &[VerifiedTransaction], render: impl Fn(&VerifiedTransaction) -> T) -> ByNonce<T> {
    transactions.iter().map(|transaction| (transaction.transaction().nonce(), render(transaction))).collect()
}

fn full_transaction(transaction: &VerifiedTransaction) -> Transaction {
    convert::pending_transaction(transaction.transaction(), transaction.sender())
}

/// Same text as geth.
fn summary_line(transaction: &VerifiedTransaction) -> String {
    let transaction = transaction.transaction();
    let to = transaction.to().map_or_else(|| "contract creation".to_string(), |to| to.to_checksum(None));
    let (value, gas, price) = (transaction.value(), transaction.gas_limit(), transaction.max_fee_per_gas());
    format!("{to}: {value} wei + {gas} gas × {price} wei")
}

/// Approximate size of a transaction as JSON, in bytes.
pub(crate) fn json_bytes(transaction: &VerifiedTransaction) -> usize {
    TRANSACTION_JSON_BYTES + 2 * transaction.transaction().raw().len()
}

/// Refuses a response that would be too large, before writing it.
fn check_size(node: &Node, pool: &[VerifiedTransaction]) -> Result<(), RpcError> {
    let bytes = pool.iter().map(json_bytes).sum::<usize>();
    let limit = node.config.max_response_bytes;
    if bytes > limit {
        return Err(Reason::ResponseTooLarge.with(format!(
            "{} transactions, about {bytes} bytes of at most {limit}; ask for one sender's with txpool_contentFrom",
            pool.len()
        )));
    }
    Ok(())
}
