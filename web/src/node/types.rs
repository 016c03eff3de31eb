//! The fields that the explorer reads of the node's responses.

use alloy_primitives::{Address, B256, Bytes, U64, U256};
use corniche_api::Ordering;
use serde::{Deserialize, Serialize};

/// A block with its transactions, as `eth_getBlockByNumber` answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Block {
    /// Block number.
    pub number: U64,
    /// Hash of the header.
    pub hash: B256,
    /// Hash of the parent block.
    pub parent_hash: B256,
    /// Unix time in seconds.
    pub timestamp: U64,
    /// Fee recipient.
    pub miner: Address,
    /// Gas used by all transactions.
    pub gas_used: U64,
    /// Gas limit of the block.
    pub gas_limit: U64,
    /// Base fee in wei per gas.
    #[serde(default)]
    pub base_fee_per_gas: U256,
    /// Size in bytes, RLP-encoded.
    #[serde(default)]
    pub size: U64,
    /// State root after the block.
    pub state_root: B256,
    /// Root of the transactions trie.
    pub transactions_root: B256,
    /// Root of the receipts trie.
    pub receipts_root: B256,
    /// Randomness that contracts read as `prevrandao`.
    pub mix_hash: B256,
    /// keccak-256 of the ordering record, or of its head from protocol version 5 on.
    pub extra_data: Bytes,
    /// Transactions, in order of execution.
    pub transactions: Vec<Transaction>,
}

/// A transaction of a block.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Transaction {
    /// Transaction hash.
    pub hash: B256,
    /// Sender.
    pub from: Address,
    /// Recipient; `None` for a contract creation.
    pub to: Option<Address>,
    /// Nonce of the sender.
    pub nonce: U64,
    /// Value in wei.
    pub value: U256,
    /// Calldata, or init code of a contract creation.
    pub input: Bytes,
    /// Gas limit.
    pub gas: U64,
    /// Transaction type: 0, 1 or 2.
    #[serde(rename = "type", default)]
    pub kind: U64,
    /// Max fee in wei per gas.
    #[serde(default)]
    pub max_fee_per_gas: Option<U256>,
    /// Max priority fee in wei per gas. The author of the batch receives it.
    #[serde(default)]
    pub max_priority_fee_per_gas: Option<U256>,
}

/// The receipt of a transaction.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    /// Transaction hash.
    pub transaction_hash: B256,
    /// 1 for success, 0 for a revert.
    pub status: U64,
    /// Gas used by this transaction.
    pub gas_used: U64,
    /// Effective gas price in wei.
    pub effective_gas_price: U256,
    /// Address of the created contract.
    #[serde(default)]
    pub contract_address: Option<Address>,
    /// Logs, in order.
    pub logs: Vec<Log>,
}

/// A log of a receipt.
#[derive(Clone, Debug, Deserialize)]
pub struct Log {
    /// The contract that emitted it.
    pub address: Address,
    /// At most four topics. The first one identifies the event.
    pub topics: Vec<B256>,
    /// ABI-encoded values that are not indexed.
    pub data: Bytes,
}

/// A block with its receipts and its ordering record.
#[derive(Clone, Debug)]
pub struct WholeBlock {
    /// Header and transactions.
    pub block: Block,
    /// One receipt for each transaction.
    pub receipts: Vec<Receipt>,
    /// Ordering record; `None` for the genesis block.
    pub ordering: Option<Ordering>,
}

/// A read-only call of a contract.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Call {
    /// Caller; the node's default if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Address>,
    /// Called contract.
    pub to: Address,
    /// Value in wei.
    pub value: U256,
    /// Selector and arguments.
    pub input: Bytes,
    /// Gas limit; the node's limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gas: Option<U64>,
}

/// A frame of the `callTracer`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallFrame {
    /// `CALL`, `DELEGATECALL`, `STATICCALL`, `CREATE` or `CREATE2`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Caller.
    #[serde(default)]
    pub from: Address,
    /// Called or created contract.
    #[serde(default)]
    pub to: Option<Address>,
    /// Value in wei.
    #[serde(default)]
    pub value: Option<U256>,
    /// Gas limit of the frame.
    #[serde(default)]
    pub gas: U64,
    /// Gas used, inner calls included.
    #[serde(default)]
    pub gas_used: U64,
    /// Calldata or init code.
    #[serde(default)]
    pub input: Bytes,
    /// Return data or revert data.
    #[serde(default)]
    pub output: Bytes,
    /// Error of a failed frame.
    #[serde(default)]
    pub error: Option<String>,
    /// Message of Solidity's `Error(string)`.
    #[serde(default)]
    pub revert_reason: Option<String>,
    /// Inner calls.
    #[serde(default)]
    pub calls: Vec<CallFrame>,
}

impl CallFrame {
    /// Returns the frame and its inner calls with their depths, in the order in which they began, at most `most`.
    /// Iterative, because the depth is untrusted.
    pub fn flatten_calls(self, most: usize) -> Vec<(u64, Self)> {
        let mut frames = Vec::new();
        let mut stack = vec![(0, self)];
        while let Some((depth, mut frame)) = stack.pop() {
            if frames.len() == most {
                break;
            }
            stack.extend(std::mem::take(&mut frame.calls).into_iter().rev().map(|inner| (depth + 1, inner)));
            frames.push((depth, frame));
        }
        frames
    }
}

/// A transaction of a traced block.
#[derive(Clone, Debug, Deserialize)]
pub struct TracedTransaction {
    /// Its outermost call; `None` when it could not be traced.
    #[serde(default)]
    pub result: Option<CallFrame>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(gas: u64, calls: Vec<CallFrame>) -> CallFrame {
        CallFrame { gas_used: U64::from(gas), calls, ..CallFrame::default() }
    }

    #[test]
    fn frames_are_in_call_order() {
        let tree = frame(0, vec![frame(1, vec![frame(2, vec![]), frame(3, vec![])]), frame(4, vec![])]);
        let frames = tree.clone().flatten_calls(10);
        let found: Vec<_> = frames.into_iter().map(|(depth, frame)| (depth, frame.gas_used.to::<u64>())).collect();
        assert_eq!(found, [(0, 0), (1, 1), (2, 2), (2, 3), (1, 4)]);
        assert_eq!(tree.flatten_calls(3).len(), 3);
    }
}
