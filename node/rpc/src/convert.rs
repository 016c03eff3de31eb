//! Converts blocks, transactions, receipts and logs to Ethereum's JSON types.

use crate::backend::{ChainBlock, SyncProgress};
use alloy_consensus::transaction::Recovered;
use alloy_consensus::{Eip658Value, ReceiptEnvelope, ReceiptWithBloom};
use alloy_primitives::{U64, U256};
use alloy_rpc_types_eth::{Block, BlockTransactions, Header, Log, Transaction, TransactionReceipt};
use corniche_api::RpcError;
use corniche_types::Address;

/// Progress of catching up.
pub(crate) fn progress(progress: SyncProgress) -> serde_json::Value {
    serde_json::json!({
        "startingBlock": U64::from(progress.starting.0),
        "currentBlock": U64::from(progress.current.0),
        "highestBlock": U64::from(progress.highest.0),
    })
}

/// Header with its hash; also the payload of `newHeads`.
pub(crate) fn header(block: &ChainBlock) -> Header {
    Header {
        hash: block.hash,
        inner: block.header.clone(),
        // The difficulty is 0 from the first block on; some clients require the field.
        total_difficulty: Some(U256::ZERO),
        size: Some(U256::from(block.size())),
    }
}

/// Block with full transactions or with their hashes.
pub(crate) fn block(block: &ChainBlock, full: bool) -> Result<Block, RpcError> {
    let transactions = if full {
        let all = 0..block.transactions.len();
        BlockTransactions::Full(all.map(|index| transaction(block, index)).collect::<Result<_, _>>()?)
    } else {
        BlockTransactions::Hashes(block.receipts.iter().map(|receipt| receipt.transaction_hash).collect())
    };
    Ok(Block::new(header(block), transactions))
}

/// Executed transaction at `index`, which must exist.
pub(crate) fn transaction(block: &ChainBlock, index: usize) -> Result<Transaction, RpcError> {
    let (Some(raw), Some(receipt)) = (block.transactions.get(index), block.receipts.get(index)) else {
        return Err(RpcError::internal("block without a receipt for each transaction"));
    };
    let decoded = corniche_types::Transaction::decode(raw.clone());
    let decoded = decoded.map_err(|error| RpcError::internal(format!("stored transaction: {error}")))?;
    Ok(Transaction {
        inner: Recovered::new_unchecked(decoded.envelope().clone(), receipt.sender),
        block_hash: Some(block.hash),
        block_number: Some(block.header.number),
        transaction_index: Some(index as u64),
        effective_gas_price: Some(receipt.effective_gas_price),
        block_timestamp: Some(block.header.timestamp),
    })
}

/// Transaction of the pool: its block is null.
pub(crate) fn pending_transaction(transaction: &corniche_types::Transaction, sender: Address) -> Transaction {
    Transaction {
        inner: Recovered::new_unchecked(transaction.envelope().clone(), sender),
        block_hash: None,
        block_number: None,
        transaction_index: None,
        effective_gas_price: Some(transaction.max_fee_per_gas()),
        block_timestamp: None,
    }
}

/// Receipt of the executed transaction at `index`, which must exist.
pub(crate) fn receipt(block: &ChainBlock, index: usize) -> Result<TransactionReceipt, RpcError> {
    let receipt = block.receipts.get(index).ok_or_else(|| RpcError::internal("no such receipt"))?;
    let first_log: u64 = block.receipts[..index].iter().map(|earlier| earlier.logs.len() as u64).sum();
    let positions = (first_log..).zip(0..receipt.logs.len());
    let positions = positions.map(|(in_block, in_receipt)| LogPosition { receipt: index, in_receipt, in_block });
    let inner = alloy_consensus::Receipt {
        status: Eip658Value::Eip658(receipt.success),
        cumulative_gas_used: receipt.cumulative_gas_used,
        logs: positions.map(|position| log(block, position)).collect(),
    };
    let inner = ReceiptWithBloom { receipt: inner, logs_bloom: receipt.logs_bloom() };
    Ok(TransactionReceipt {
        inner: match receipt.type_byte {
            0 => ReceiptEnvelope::Legacy(inner),
            1 => ReceiptEnvelope::Eip2930(inner),
            _ => ReceiptEnvelope::Eip1559(inner),
        },
        transaction_hash: receipt.transaction_hash,
        transaction_index: Some(index as u64),
        block_hash: Some(block.hash),
        block_number: Some(block.header.number),
        gas_used: receipt.gas_used,
        effective_gas_price: receipt.effective_gas_price,
        blob_gas_used: None,
        blob_gas_price: None,
        from: receipt.sender,
        to: receipt.to,
        contract_address: receipt.contract_address,
    })
}

/// Position of a log in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPosition {
    /// Index of the receipt in the block.
    receipt: usize,
    /// Index of the log in the receipt.
    in_receipt: usize,
    /// Index of the log in the block.
    in_block: u64,
}

/// Positions of all logs of a block, in order, with the stored logs.
pub(crate) fn log_positions(block: &ChainBlock) -> impl Iterator<Item = (LogPosition, &corniche_types::Log)> {
    let logs = block
        .receipts
        .iter()
        .enumerate()
        .flat_map(|(receipt, of)| of.logs.iter().enumerate().map(move |(in_receipt, log)| (receipt, in_receipt, log)));
    logs.zip(0..).map(|((receipt, in_receipt, log), in_block)| (LogPosition { receipt, in_receipt, in_block }, log))
}

/// All logs of a block, in order.
pub(crate) fn logs(block: &ChainBlock) -> impl Iterator<Item = Log> {
    log_positions(block).map(|(position, _)| log(block, position))
}

/// Log at a position of this block.
pub(crate) fn log(block: &ChainBlock, position: LogPosition) -> Log {
    let receipt = &block.receipts[position.receipt];
    Log {
        inner: (&receipt.logs[position.in_receipt]).into(),
        block_hash: Some(block.hash),
        block_number: Some(block.header.number),
        block_timestamp: Some(block.header.timestamp),
        transaction_hash: Some(receipt.transaction_hash),
        transaction_index: Some(position.receipt as u64),
        log_index: Some(position.in_block),
        removed: false,
    }
}
