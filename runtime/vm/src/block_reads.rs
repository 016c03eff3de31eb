//! The block in which a transaction runs. Records which of its fields the transaction has read. A result from one block is valid in another one in which
//! all these fields are equal.

use alloy_primitives::{Address, B256};
use corniche_types::ProtocolRules;

/// The block in which a transaction runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockEnv {
    /// Rules of the block; contracts cannot read them.
    pub rules: &'static ProtocolRules,
    pub chain_id: u64,
    pub number: u64,
    /// Seconds.
    pub timestamp: u64,
    pub base_fee: u64,
    pub coinbase: Address,
    pub gas_limit: u64,
    pub randomness: B256,
}

/// A field of [`BlockEnv`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockField {
    ChainId = 1,
    Number = 2,
    Timestamp = 4,
    BaseFee = 8,
    Coinbase = 16,
    GasLimit = 32,
    Randomness = 64,
}

/// The fields read. Every transaction reads the base fee and the gas limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockReads {
    /// One bit per field.
    fields: u8,
    /// Cold accounts that were accessed. The coinbase is warm from the start, so accessing the coinbase of one of the
    /// two blocks costs different gas.
    reached: Vec<Address>,
}

impl Default for BlockReads {
    fn default() -> Self {
        Self { fields: BlockField::BaseFee as u8 | BlockField::GasLimit as u8, reached: Vec::new() }
    }
}

impl BlockReads {
    pub fn insert(&mut self, field: BlockField) {
        self.fields |= field as u8;
    }

    pub(crate) fn record_access(&mut self, address: &Address, was_cold: bool, block: &BlockEnv) {
        if *address == block.coinbase {
            self.insert(BlockField::Coinbase);
        } else if was_cold {
            self.reached.push(*address);
        }
    }

    /// Returns the cold accounts that were accessed, except the coinbase.
    pub(crate) fn reached(&self) -> &[Address] {
        &self.reached
    }

    /// Returns whether everything read of block `then` is equal in block `now`.
    pub fn still_hold(&self, then: &BlockEnv, now: &BlockEnv) -> bool {
        let unseen = |field: BlockField| self.fields & field as u8 == 0;
        then.rules == now.rules
            && (unseen(BlockField::ChainId) || then.chain_id == now.chain_id)
            && (unseen(BlockField::Number) || then.number == now.number)
            && (unseen(BlockField::Timestamp) || then.timestamp == now.timestamp)
            && (unseen(BlockField::BaseFee) || then.base_fee == now.base_fee)
            && (unseen(BlockField::GasLimit) || then.gas_limit == now.gas_limit)
            && (unseen(BlockField::Randomness) || then.randomness == now.randomness)
            && (then.coinbase == now.coinbase || (unseen(BlockField::Coinbase) && !self.reached.contains(&now.coinbase)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: BlockEnv = BlockEnv {
        rules: corniche_types::ProtocolRules::LATEST,
        chain_id: 1,
        number: 2,
        timestamp: 3,
        base_fee: 4,
        coinbase: Address::repeat_byte(5),
        gas_limit: 6,
        randomness: B256::repeat_byte(7),
    };

    #[test]
    fn read_fields_must_match() {
        let changed = [
            (BlockField::ChainId, BlockEnv { chain_id: 9, ..BLOCK }),
            (BlockField::Number, BlockEnv { number: 9, ..BLOCK }),
            (BlockField::Timestamp, BlockEnv { timestamp: 9, ..BLOCK }),
            (BlockField::BaseFee, BlockEnv { base_fee: 9, ..BLOCK }),
            (BlockField::Coinbase, BlockEnv { coinbase: Address::ZERO, ..BLOCK }),
            (BlockField::GasLimit, BlockEnv { gas_limit: 9, ..BLOCK }),
            (BlockField::Randomness, BlockEnv { randomness: B256::ZERO, ..BLOCK }),
        ];
        for (field, other) in changed {
            let always = matches!(field, BlockField::BaseFee | BlockField::GasLimit);
            assert_eq!(BlockReads::default().still_hold(&BLOCK, &other), !always, "{field:?}");
            let mut seen = BlockReads::default();
            seen.insert(field);
            assert!(seen.still_hold(&BLOCK, &BLOCK) && !seen.still_hold(&BLOCK, &other), "{field:?}");
        }
    }

    #[test]
    fn access_to_coinbase_is_recorded() {
        let other = BlockEnv { coinbase: Address::repeat_byte(8), ..BLOCK };
        let reached = |address: Address, was_cold| {
            let mut seen = BlockReads::default();
            seen.record_access(&address, was_cold, &BLOCK);
            seen.still_hold(&BLOCK, &other)
        };
        assert!(reached(Address::repeat_byte(1), true));
        assert!(!reached(other.coinbase, true) && !reached(BLOCK.coinbase, false));
        assert!(reached(other.coinbase, false), "warm for another reason, and so in both");
    }
}
