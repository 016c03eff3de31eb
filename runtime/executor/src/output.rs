//! Result of a block, and the roots over it.

use crate::Candidate;
use corniche_state::Changes;
use corniche_types::{B256, Bloom, Bytes, Receipt, Skipped};

/// The results of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockOutput {
    /// One receipt per executed transaction, in order.
    pub receipts: Vec<Receipt>,
    /// The skipped candidates, by position.
    pub skipped: Vec<Skipped>,
    pub changes: Changes,
    pub gas_used: u64,
    /// Ethereum's trie root over the raw bytes of the executed transactions.
    pub transactions_root: B256,
    pub receipts_root: B256,
    pub logs_bloom: Bloom,
}

impl BlockOutput {
    /// Assembles the results of the transactions; adds cumulative gas, roots and bloom.
    pub fn new(mut receipts: Vec<Receipt>, skipped: Vec<Skipped>, changes: Changes, executed: &[Bytes]) -> Self {
        let mut gas_used = 0u64;
        let mut logs_bloom = Bloom::ZERO;
        for receipt in &mut receipts {
            // Cannot overflow: the genesis bounds a block's declared gas, and used gas is at most the declared gas.
            gas_used = gas_used.saturating_add(receipt.gas_used);
            receipt.cumulative_gas_used = gas_used;
            logs_bloom |= receipt.logs_bloom();
        }
        Self {
            transactions_root: transactions_root(executed),
            receipts_root: Receipt::root(&receipts),
            receipts,
            skipped,
            changes,
            gas_used,
            logs_bloom,
        }
    }
}

fn transactions_root(executed: &[Bytes]) -> B256 {
    alloy_trie::root::ordered_trie_root_with_encoder(executed, |raw, out| out.extend_from_slice(raw))
}

impl Candidate {
    pub(crate) fn skipped(&self, position: usize, reason: corniche_types::SkipReason) -> Skipped {
        let position = u32::try_from(position).expect("a block is bounded far below 2^32 transactions");
        Skipped { position, hash: self.hash(), reason }
    }
}
