//! Re-execution of blocks for tracers. Traces are not stored: the transactions of a block run again on the
//! state before it. Their results must equal the receipts. A difference is a fault of this node, and the
//! trace is then not returned.

use crate::backend::ChainBlock;
use crate::node::{Node, ensure_available, state_unavailable};
use crate::prepare::block_env;
use alloy_eips::BlockId;
use alloy_primitives::Address;
use corniche_api::{Reason, RpcError};
use corniche_crypto::VerifiedTransaction;
use corniche_state::{Changes, Overlay, StateView};
use corniche_types::{Epoch, OrderingRecord, Transaction, ValidatorIndex};
use corniche_vm::{BlockEnv, NotExecuted, Trace, TraceFrame};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Executes a block's transactions one after the other.
pub(crate) struct Replay<'n> {
    node: &'n Node,
    block: Arc<ChainBlock>,
    env: BlockEnv,
    base: Arc<dyn StateView>,
    /// Changes since the block began.
    changes: Changes,
    /// Proposer of each transaction, who receives its tip.
    authors: Vec<ValidatorIndex>,
    /// By index of the validator.
    fee_addresses: Vec<Address>,
    next: usize,
}

impl<'n> Replay<'n> {
    /// Starts at the block's beginning.
    ///
    /// # Errors
    ///
    /// The genesis block cannot be traced, nor a block whose parent state is pruned.
    pub fn new(node: &'n Node, block: Arc<ChainBlock>) -> Result<Self, RpcError> {
        let parent = block.height().0.checked_sub(1).ok_or_else(|| Reason::GenesisNotTraceable.error())?;
        let (_, base) = node.state(BlockId::from(parent))?;
        let authors = block.ordering.as_ref().map(authors).unwrap_or_default();
        let epoch = block.ordering.as_ref().map_or(Epoch(0), |ordering| ordering.epoch);
        let fee_addresses = node.backend.fee_addresses(epoch, &*base);
        let env = block_env(node, &block.header);
        Ok(Self { node, env, block, base, changes: Changes::default(), authors, fee_addresses, next: 0 })
    }

    /// Executes the transactions before this position.
    pub fn skip_to(&mut self, position: usize) -> Result<(), RpcError> {
        while self.next < position {
            self.run(None)?;
        }
        Ok(())
    }

    /// Executes the next transaction, which must exist. With `places`, runs it once more to find where frames
    /// fail.
    pub fn run_traced(&mut self, trace: &mut Trace, places: bool) -> Result<(), RpcError> {
        if !places {
            return self.run(Some(trace));
        }
        let (next, changes) = (self.next, self.changes.clone());
        let mut first = trace.empty_copy();
        self.run(Some(&mut first))?;
        if !first.root().is_some_and(TraceFrame::has_backtrace) {
            *trace = first;
            return Ok(());
        }
        (self.next, self.changes) = (next, changes);
        *trace = first.empty_copy().with_backtrace();
        self.run(Some(trace))
    }

    /// Executes the next transaction, which must exist.
    pub fn run(&mut self, trace: Option<&mut Trace>) -> Result<(), RpcError> {
        let position = self.next;
        let (raw, receipt) = (&self.block.transactions[position], &self.block.receipts[position]);
        let fault = |what: &str| {
            let (number, hash) = (self.block.header.number, receipt.transaction_hash);
            tracing::error!(number, %hash, "replay of a stored transaction failed: {what}");
            RpcError::internal("internal error")
        };
        let transaction = Transaction::decode(raw.clone())
            .ok()
            .and_then(|transaction| VerifiedTransaction::verify(transaction, self.env.chain_id).ok())
            .ok_or_else(|| fault("it is not valid"))?;
        ensure_available(&*self.base)?;
        let now = Overlay { base: &*self.base, changes: &self.changes };
        let executed = match self.node.backend.vm().replay(&now, &self.env, &transaction, self.tip_recipient(position), trace) {
            Ok(executed) => executed,
            Err(NotExecuted::Skipped(reason)) => return Err(fault(&format!("it is skipped: {reason:?}"))),
            Err(NotExecuted::Interrupted) => return Err(state_unavailable()),
            Err(NotExecuted::Fault(error)) => return Err(fault(&error.0)),
        };
        let again = &executed.receipt;
        if (again.success, again.gas_used, &again.logs) != (receipt.success, receipt.gas_used, &receipt.logs) {
            return Err(fault("the result differs"));
        }
        let added = executed.additions.resolve(&now);
        self.changes.merge(executed.changes);
        self.changes.merge(added);
        self.next += 1;
        Ok(())
    }

    /// State before the next transaction.
    pub fn view(&self) -> Overlay<'_> {
        Overlay { base: &*self.base, changes: &self.changes }
    }

    fn tip_recipient(&self, position: usize) -> Address {
        let author = self.authors.get(position).and_then(|author| self.fee_addresses.get(author.as_usize()));
        author.copied().unwrap_or(self.env.coinbase)
    }
}

/// Proposer of each executed transaction.
fn authors(ordering: &OrderingRecord) -> Vec<ValidatorIndex> {
    let skipped: BTreeSet<usize> = ordering.skipped.iter().map(|skipped| skipped.position as usize).collect();
    let ordered = ordering.batches.iter().flat_map(|batch| std::iter::repeat_n(batch.author, batch.count as usize));
    ordered.enumerate().filter(|(position, _)| !skipped.contains(position)).map(|(_, author)| author).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::B256;
    use corniche_types::{BatchRef, CommitIndex, Epoch, SkipReason, Skipped, TimestampMs};

    #[test]
    fn authors_skip_skipped_transactions() {
        let batch = |author, count| BatchRef { author: ValidatorIndex(author), digest: B256::ZERO, first: 7, count };
        let skipped = |position| Skipped { position, hash: B256::ZERO, reason: SkipReason::NonceTooLow };
        let ordering = OrderingRecord {
            protocol_version: 1,
            engine: "mahi-mahi".into(),
            epoch: Epoch(0),
            committee_hash: B256::ZERO,
            next: None,
            first_commit: CommitIndex(1),
            last_commit: CommitIndex(1),
            last_commit_consumed: 6,
            leader: ValidatorIndex(1),
            time: TimestampMs(0),
            randomness: B256::ZERO,
            batches: vec![batch(3, 2), batch(1, 0), batch(0, 1), batch(3, 3)],
            transactions_hash: B256::ZERO,
            skipped: vec![skipped(1), skipped(2), skipped(5)],
            resume_hash: B256::ZERO,
        };
        assert_eq!(authors(&ordering), [3, 3, 3].map(ValidatorIndex));
        assert_eq!(authors(&OrderingRecord { skipped: vec![], ..ordering }), [3, 3, 0, 3, 3, 3].map(ValidatorIndex));
    }
}
