//! Receipts: results of transactions, as stored and as hashed into the receipts root.

use alloy_consensus::{Eip658Value, Receipt as AlloyReceipt, ReceiptEnvelope, ReceiptWithBloom};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Bloom, Bytes, LogData};
use borsh::{BorshDeserialize, BorshSerialize};

/// An event a contract emitted: at most four topics, then data.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Log {
    /// Contract that emitted the event.
    pub address: Address,
    /// Searchable words; in Solidity's ABI, the first is keccak-256 of the event's signature.
    pub topics: Vec<B256>,
    /// Other data, in the contract's own encoding.
    pub data: Bytes,
}

impl From<&Log> for alloy_primitives::Log {
    fn from(log: &Log) -> Self {
        Self { address: log.address, data: LogData::new_unchecked(log.topics.clone(), log.data.clone()) }
    }
}

/// Result of one valid transaction, successful or reverted.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Receipt {
    /// keccak-256 of the transaction's bytes.
    pub transaction_hash: B256,
    /// EIP-2718 type: 0, 1 or 2.
    pub type_byte: u8,
    /// False if it reverted or failed: it only paid the fee and increased the nonce.
    pub success: bool,
    /// Gas paid for, after refunds.
    pub gas_used: u64,
    /// Gas used by this and all earlier transactions of the block.
    pub cumulative_gas_used: u64,
    /// Wei per gas paid.
    pub effective_gas_price: u128,
    /// Recovered signer.
    pub sender: Address,
    /// Callee; `None` for a creation.
    pub to: Option<Address>,
    /// Address of the created contract, for creations (including failed ones, as in Ethereum clients).
    pub contract_address: Option<Address>,
    /// Events in order; empty if the transaction failed.
    pub logs: Vec<Log>,
    /// Return or revert data, or a text with the reason if the node itself refused (for instance EVM init code). Not
    /// part of the receipts root; only our own RPC methods return it.
    pub output: Bytes,
}

impl Receipt {
    /// Returns the Bloom filter of the logs' addresses and topics, as in the header.
    pub fn logs_bloom(&self) -> Bloom {
        self.logs.iter().map(alloy_primitives::Log::from).collect::<Vec<_>>().iter().collect()
    }

    /// Returns the form that is hashed into the receipts root.
    pub fn to_envelope(&self) -> ReceiptEnvelope {
        let receipt = AlloyReceipt {
            status: Eip658Value::Eip658(self.success),
            cumulative_gas_used: self.cumulative_gas_used,
            logs: self.logs.iter().map(alloy_primitives::Log::from).collect(),
        };
        let with_bloom = ReceiptWithBloom { receipt, logs_bloom: self.logs_bloom() };
        match self.type_byte {
            0 => ReceiptEnvelope::Legacy(with_bloom),
            1 => ReceiptEnvelope::Eip2930(with_bloom),
            _ => ReceiptEnvelope::Eip1559(with_bloom),
        }
    }

    /// Appends the bytes that are hashed into the receipts root, and returns their Bloom filter.
    pub fn encode_hashed(&self, out: &mut Vec<u8>) -> Bloom {
        let envelope = self.to_envelope();
        envelope.encode_2718(out);
        *envelope.logs_bloom()
    }

    /// Returns the root of Ethereum's receipts trie for one block.
    pub fn root(receipts: &[Self]) -> B256 {
        let envelopes: Vec<_> = receipts.iter().map(Self::to_envelope).collect();
        alloy_consensus::proofs::calculate_receipt_root(&envelopes)
    }
}
