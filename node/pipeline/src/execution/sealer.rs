//! Second half of the execution stage: computes the header and hash of an executed block.

use super::{Executed, ExecutionStart, UnsealedBlock};
use corniche_executor::BlockOutput;
use corniche_state::{CommittedBlock, SharedTree};
use corniche_types::{
    B256, Block, Bytes, Epoch, Genesis, Header, Height, NextEpoch, OrderingRecord, ProtocolRules, Receipt, Skipped, U256,
    header_hash,
};
use std::sync::{Arc, mpsc::Sender};

/// Maximum size of the return data stored with a block's receipts, in bytes. A byte of return data costs 0.25 gas,
/// so with a large block gas limit the return data could exceed the maximum record size of the block log. No root in
/// the header covers return data, so dropping it does not affect consensus.
const MAX_OUTPUT_BYTES: usize = 128 << 20;

/// Seals blocks in the order they were executed: state tree, ordering record, header, hash.
pub struct Sealer {
    engine: String,
    /// Epoch of the next block, and the hash of its committee.
    epoch: Epoch,
    committee_hash: B256,
    tree: SharedTree,
    parent: Height,
    parent_hash: B256,
    /// Sends each block hash to the runner, which writes it into the state some blocks later.
    sealed: Sender<B256>,
}

impl Sealer {
    pub(super) fn new(genesis: &Genesis, start: ExecutionStart, sealed: Sender<B256>) -> Self {
        Self {
            engine: genesis.engine.name.clone(),
            epoch: start.epoch.epoch,
            committee_hash: start.epoch.committee_hash,
            tree: SharedTree::new(Height(start.head.number), start.tree),
            parent: Height(start.head.number),
            parent_hash: header_hash(&start.head),
            sealed,
        }
    }

    /// Returns the state tree after the last sealed block. It serves state proofs.
    pub fn tree(&self) -> SharedTree {
        self.tree.clone()
    }

    /// Seals the next executed block.
    pub fn seal(&mut self, unsealed: UnsealedBlock) -> Executed {
        assert_eq!(unsealed.height(), self.parent.next(), "invariant: blocks are sealed in the order they were run");
        let UnsealedBlock { plan, env, output, returned, next, .. } = unsealed;
        let BlockOutput { mut receipts, skipped, changes, transactions_root, receipts_root, logs_bloom, gas_used } = output;
        truncate_outputs(&mut receipts, MAX_OUTPUT_BYTES);
        let state_root = self.tree.apply(Height(env.number), &changes);
        let ordering = self.ordering_record(&plan, skipped, next, env.rules);
        if let Some(next) = &ordering.next {
            (self.epoch, self.committee_hash) = (self.epoch.next(), next.committee_hash);
        }
        let header = Header {
            parent_hash: self.parent_hash,
            beneficiary: env.coinbase,
            state_root,
            transactions_root,
            receipts_root,
            logs_bloom,
            difficulty: U256::ZERO,
            number: env.number,
            gas_limit: env.gas_limit,
            gas_used,
            timestamp: env.timestamp,
            extra_data: ordering.extra_data(),
            mix_hash: plan.randomness,
            base_fee_per_gas: Some(env.base_fee),
            ..Header::default()
        };
        let hash = header_hash(&header);
        self.parent = Height(env.number);
        self.parent_hash = hash;
        // The runner is dropped only when nothing more will be executed.
        let _ = self.sealed.send(hash);
        let block = Block { header, ordering, ordered: plan.ordered };
        let committed = CommittedBlock { block, receipts, changes, resume: plan.resume };
        Executed { hash, committed: Arc::new(committed), returned }
    }

    fn ordering_record(
        &self,
        plan: &crate::BlockPlan,
        skipped: Vec<Skipped>,
        next: Option<NextEpoch>,
        rules: &ProtocolRules,
    ) -> OrderingRecord {
        OrderingRecord {
            protocol_version: rules.version,
            engine: self.engine.clone(),
            epoch: self.epoch,
            committee_hash: self.committee_hash,
            next,
            first_commit: plan.first_commit,
            last_commit: plan.last_commit,
            last_commit_consumed: plan.last_commit_consumed,
            leader: plan.leader,
            time: plan.time,
            randomness: plan.randomness,
            batches: plan.batches.clone(),
            transactions_hash: Block::transactions_hash(&plan.ordered),
            skipped,
            resume_hash: plan.resume.hash(),
        }
    }
}

/// Drops return data beyond the limit.
fn truncate_outputs(receipts: &mut [Receipt], limit: usize) {
    let mut left = limit;
    for receipt in receipts {
        match left.checked_sub(receipt.output.len()) {
            Some(rest) => left = rest,
            None => receipt.output = Bytes::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt(output: usize) -> Receipt {
        Receipt {
            transaction_hash: B256::ZERO,
            type_byte: 2,
            success: true,
            gas_used: 21_000,
            cumulative_gas_used: 21_000,
            effective_gas_price: 1,
            sender: Default::default(),
            to: None,
            contract_address: None,
            logs: Vec::new(),
            output: Bytes::from(vec![1; output]),
        }
    }

    #[test]
    fn return_data_is_bounded() {
        let mut receipts = [10, 80, 20, 10, 1].map(receipt);
        truncate_outputs(&mut receipts, 100);
        assert_eq!(receipts.map(|receipt| receipt.output.len()), [10, 80, 0, 10, 0]);
    }
}
