//! `ots_*`: methods for Otterscan, an explorer without its own database. The JSON follows Erigon, for which
//! Otterscan was made.
//!
//! There is no index by address. An account's activity is found by binary search over the kept states. Older
//! blocks are scanned one by one, up to the timeout for queries.

mod search;

use crate::backend::ChainBlock;
use crate::convert;
use crate::jsonrpc::{Json, json};
use crate::node::{Node, ensure_available};
use crate::replay::Replay;
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_api::{Reason, RpcError};
use corniche_types::Receipt;
use corniche_vm::{FrameKind, Trace, TraceFrame, TraceLimits};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json as value};
use std::sync::Arc;

pub(crate) use search::{by_sender_and_nonce, contract_creator, search_after, search_before};

/// Level of Erigon's API that these methods follow.
pub(crate) const API_LEVEL: u64 = 8;

/// Block id in Otterscan's requests: Ethereum's form or a plain number.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum BlockName {
    Number(u64),
    Name(BlockNumberOrTag),
}

impl From<BlockName> for BlockId {
    fn from(name: BlockName) -> Self {
        match name {
            BlockName::Number(number) => number.into(),
            BlockName::Name(name) => name.into(),
        }
    }
}

/// `ots_getBlockDetails` and `ots_getBlockDetailsByHash`.
pub(crate) fn block_details(node: &Node, block: BlockId) -> Result<Json, RpcError> {
    let Some(block) = node.block(block)? else { return json(&()) };
    let mut details = without_bloom(&block)?;
    if let Some(members) = details.as_object_mut() {
        members.remove("transactions");
    }
    let fees: U256 =
        block.receipts.iter().map(|receipt| U256::from(receipt.gas_used) * U256::from(receipt.effective_gas_price)).sum();
    // There is no block reward; proposers receive only fees.
    let zero = U256::ZERO;
    json(&value!({
        "block": details,
        "issuance": {"blockReward": zero, "uncleReward": zero, "issuance": zero},
        "totalFees": fees,
    }))
}

/// `ots_getBlockTransactions`: a page of transactions, counted from the block's end, in block order.
pub(crate) fn block_transactions(node: &Node, block: BlockId, page: usize, size: usize) -> Result<Json, RpcError> {
    let Some(block) = node.block(block)? else { return json(&()) };
    let end = block.transactions.len().saturating_sub(page.saturating_mul(size));
    let range = end.saturating_sub(size)..end;
    let mut details = without_bloom(&block)?;
    let transactions = range.clone().map(|index| {
        let mut transaction = full_transaction(&block, index)?;
        if let Some(Value::String(input)) = transaction.get_mut("input") {
            // Only the function selector remains.
            input.truncate("0x".len() + 8);
        }
        Ok(transaction)
    });
    details["transactions"] = transactions.collect::<Result<Value, RpcError>>()?;
    let receipts: Value = range.map(|index| short_receipt(&block, index)).collect::<Result<_, _>>()?;
    json(&value!({"fullblock": details, "receipts": receipts}))
}

/// Block with its transaction count and without its logs bloom, which Otterscan does not use.
fn without_bloom(block: &ChainBlock) -> Result<Value, RpcError> {
    let mut details = to_value(&convert::block(block, false)?)?;
    details["logsBloom"] = Value::Null;
    details["transactionCount"] = block.transactions.len().into();
    Ok(details)
}

fn full_transaction(block: &ChainBlock, index: usize) -> Result<Value, RpcError> {
    to_value(&convert::transaction(block, index)?)
}

/// Receipt without logs, with the timestamp.
fn short_receipt(block: &ChainBlock, index: usize) -> Result<Value, RpcError> {
    let mut receipt = full_receipt(block, index)?;
    (receipt["logs"], receipt["logsBloom"]) = (Value::Null, Value::Null);
    Ok(receipt)
}

fn full_receipt(block: &ChainBlock, index: usize) -> Result<Value, RpcError> {
    let mut receipt = to_value(&convert::receipt(block, index)?)?;
    receipt["timestamp"] = block.header.timestamp.into();
    Ok(receipt)
}

fn to_value(details: &impl Serialize) -> Result<Value, RpcError> {
    serde_json::to_value(details).map_err(|error| RpcError::internal(format!("cannot encode the response: {error}")))
}

/// `ots_hasCode`.
pub(crate) fn has_code(node: &Node, address: &Address, block: BlockId) -> Result<bool, RpcError> {
    let state = node.state(block)?.1;
    let has_code = state.account(address).is_some_and(|account| account.has_code());
    ensure_available(&*state)?;
    Ok(has_code)
}

/// `ots_getTransactionError`: output of a failed transaction; empty if it succeeded.
pub(crate) fn transaction_error(node: &Node, hash: &B256) -> Result<Bytes, RpcError> {
    let (block, index) = executed_transaction(node, hash)?;
    let receipt = block.receipts.get(index).ok_or_else(|| RpcError::internal("no such receipt"))?;
    Ok(if receipt.success { Bytes::new() } else { receipt.output.clone() })
}

fn executed_transaction(node: &Node, hash: &B256) -> Result<(Arc<ChainBlock>, usize), RpcError> {
    node.executed(hash).ok_or_else(|| Reason::TransactionNotFound.error())
}

/// Recorder with a byte limit for one response: the JSON text has about twice as many bytes.
fn recorder(node: &Node) -> Trace {
    Trace::new(TraceLimits { bytes: node.config.max_response_bytes / 2, top_only: false })
}

/// Call trace of the transaction; the outermost frame is the root.
fn call_trace(node: &Node, hash: &B256) -> Result<Option<TraceFrame>, RpcError> {
    let (block, index) = executed_transaction(node, hash)?;
    let mut replay = Replay::new(node, block)?;
    replay.skip_to(index)?;
    let mut trace = recorder(node);
    replay.run(Some(&mut trace))?;
    if trace.overflowed() {
        return Err(Reason::TraceTooLarge.with("its calls have too much data"));
    }
    Ok(trace.into_parts().0)
}

/// `ots_traceTransaction`: all calls in the order in which they were made.
pub(crate) fn trace_transaction(node: &Node, hash: &B256) -> Result<Json, RpcError> {
    #[derive(Serialize)]
    struct Entry<'t> {
        #[serde(rename = "type")]
        kind: &'static str,
        depth: u32,
        from: Address,
        to: Address,
        /// `None` for kinds of calls that cannot transfer wei.
        value: Option<U256>,
        input: &'t Bytes,
        output: &'t Bytes,
    }

    let root = call_trace(node, hash)?;
    let mut entries = Vec::new();
    let mut stack: Vec<(u32, &TraceFrame)> = root.iter().map(|root| (0, root)).collect();
    while let Some((depth, frame)) = stack.pop() {
        let transfers_value = !matches!(frame.kind, FrameKind::StaticCall | FrameKind::DelegateCall);
        entries.push(Entry {
            kind: crate::trace::opcode_name(frame.kind),
            depth,
            from: frame.from,
            to: frame.to,
            value: transfers_value.then_some(frame.value),
            input: &frame.input,
            output: &frame.output,
        });
        stack.extend(frame.calls.iter().rev().map(|call| (depth + 1, call)));
    }
    json(&entries)
}

/// `ots_getInternalOperations`: transfers of wei and contract creations inside a transaction that were not
/// reverted.
pub(crate) fn internal_operations(node: &Node, hash: &B256) -> Result<Json, RpcError> {
    #[derive(Serialize)]
    struct Operation {
        /// 0: transfer, 2: CREATE, 3: CREATE2. Otterscan's 1, SELFDESTRUCT, does not exist on this chain.
        #[serde(rename = "type")]
        kind: u8,
        from: Address,
        to: Address,
        value: U256,
    }

    let root = call_trace(node, hash)?;
    let mut operations = Vec::new();
    visit_unreverted(root.as_ref(), &mut |depth, frame| {
        let kind = match frame.kind {
            FrameKind::Call if !frame.value.is_zero() => 0,
            FrameKind::Create => 2,
            FrameKind::Create2 => 3,
            FrameKind::Call | FrameKind::StaticCall | FrameKind::DelegateCall => return,
        };
        if depth > 0 {
            operations.push(Operation { kind, from: frame.from, to: frame.to, value: frame.value });
        }
    });
    json(&operations)
}

/// Frames that were not reverted, in the order in which they began, each with its depth.
fn visit_unreverted<'t>(root: Option<&'t TraceFrame>, visit: &mut impl FnMut(u32, &'t TraceFrame)) {
    let mut stack: Vec<(u32, &TraceFrame)> = root.map(|root| (0, root)).into_iter().collect();
    while let Some((depth, frame)) = stack.pop() {
        if frame.ending.is_success() {
            visit(depth, frame);
            stack.extend(frame.calls.iter().rev().map(|call| (depth + 1, call)));
        }
    }
}

/// True if the account is sender, recipient, created contract or emitter of a log. Calls that leave no trace
/// in the receipt are not seen.
fn involves(receipt: &Receipt, address: &Address) -> bool {
    receipt.sender == *address
        || receipt.to == Some(*address)
        || receipt.contract_address == Some(*address)
        || receipt.logs.iter().any(|log| log.address == *address)
}
