//! Groups of blocks that are written in one database transaction. A transaction costs as much as many rows, so a group
//! has many blocks. But a waiting group uses memory, and the size of its blocks is untrusted.

use super::{contracts::MAX_ABI_BYTES, digest::Digest};
use alloy_primitives::Address;
use std::collections::BTreeSet;

/// Number of blocks at which a group is full. The other constants are limits in the same way: a group is full with the
/// first block that reaches one of them.
pub const BLOCKS_IN_GROUP: usize = 512;
/// Number of transactions at which a group is full.
pub const TRANSACTIONS_IN_GROUP: u64 = 4_000;
/// Bytes of rows at which a group is full.
const BYTES_IN_GROUP: usize = 32 << 20;
/// Number of contracts at which a group is full. Their ABIs are loaded before the group is written.
const CONTRACTS_IN_GROUP: usize = (64 << 20) / MAX_ABI_BYTES;

/// Blocks to be written; each is the parent of the next one.
#[derive(Debug, Default)]
pub struct Group {
    digests: Vec<Digest>,
    transactions: u64,
    bytes: usize,
    contracts: BTreeSet<Address>,
}

impl Group {
    /// Adds a block.
    pub fn push(&mut self, digest: Digest) {
        self.transactions += digest.transactions;
        self.bytes += digest.bytes();
        self.contracts.extend(&digest.loggers);
        self.contracts.extend(digest.created.iter().map(|(address, ..)| *address));
        self.digests.push(digest);
    }

    /// Returns the newest block.
    pub fn last(&self) -> Option<&Digest> {
        self.digests.last()
    }

    /// Returns `true` if the group has to be written before the next block is added.
    pub fn is_full(&self) -> bool {
        self.digests.len() >= BLOCKS_IN_GROUP
            || self.transactions >= TRANSACTIONS_IN_GROUP
            || self.bytes >= BYTES_IN_GROUP
            || self.contracts.len() >= CONTRACTS_IN_GROUP
    }

    /// Returns all blocks in order.
    pub fn into_digests(self) -> Vec<Digest> {
        self.digests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        indexer::digest::digest,
        node::{Block, Log, Receipt, Transaction, WholeBlock},
    };
    use alloy_primitives::{B256, Bytes, U64, U256};

    /// A block with one transaction that has an input of this size and these logs.
    fn block(input: usize, logs: Vec<Log>) -> Digest {
        let zero = U64::ZERO;
        let transaction = Transaction {
            hash: B256::ZERO,
            from: Address::ZERO,
            to: Some(Address::ZERO),
            nonce: zero,
            value: U256::ZERO,
            input: Bytes::from(vec![7; input]),
            gas: zero,
            kind: zero,
            max_fee_per_gas: None,
            max_priority_fee_per_gas: None,
        };
        let receipt = Receipt {
            transaction_hash: B256::ZERO,
            status: U64::from(1),
            gas_used: zero,
            effective_gas_price: U256::ZERO,
            contract_address: None,
            logs,
        };
        let block = Block {
            number: zero,
            hash: B256::ZERO,
            parent_hash: B256::ZERO,
            timestamp: zero,
            miner: Address::ZERO,
            gas_used: zero,
            gas_limit: zero,
            base_fee_per_gas: U256::ZERO,
            size: zero,
            state_root: B256::ZERO,
            transactions_root: B256::ZERO,
            receipts_root: B256::ZERO,
            mix_hash: B256::ZERO,
            extra_data: Bytes::new(),
            transactions: vec![transaction],
        };
        digest(&WholeBlock { block, receipts: vec![receipt], ordering: None }, None).unwrap()
    }

    fn log(by: u32, bytes: usize) -> Log {
        let address = Address::left_padding_from(&by.to_be_bytes());
        Log { address, topics: Vec::new(), data: Bytes::from(vec![7; bytes]) }
    }

    /// Returns the number of blocks in a full group.
    fn room(block: impl Fn(u32) -> Digest) -> usize {
        let mut group = Group::default();
        while !group.is_full() {
            group.push(block(group.digests.len() as u32));
        }
        group.into_digests().len()
    }

    #[test]
    fn group_is_limited_by_blocks_and_bytes() {
        assert_eq!(room(|_| block(0, Vec::new())), BLOCKS_IN_GROUP);
        assert_eq!(room(|_| block(1 << 20, Vec::new())), 32);
        assert_eq!(room(|_| block(0, vec![log(1, 1 << 19), log(1, 1 << 19)])), 32);
        // Empty logs use memory as well.
        assert!(room(|_| block(0, (0..10_000).map(|_| log(1, 0)).collect())) < 32);
        assert_eq!(room(|number| block(0, (0..64).map(|by| log(64 * number + by, 0)).collect())), CONTRACTS_IN_GROUP / 64);
    }
}
