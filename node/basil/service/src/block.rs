//! Makes blocks. Everything in one follows from its transactions and the block before it, so all gateways make the same blocks.

use crate::members::Members;
use anyhow::Context;
use corniche_basil::certificate::Decided;
use corniche_basil::message::Peer;
use corniche_basil::shared::Shared;
use corniche_basil::transaction::Timestamp;
use corniche_basil_contracts::{Chain, chain, keys};
use corniche_executor::BlockOutput;
use corniche_state::{Changes, CommittedBlock, Overlay, StateView};
use corniche_types::{
    B256, Block, CommitIndex, Epoch, Genesis, Header, Height, OrderedTransaction, OrderingRecord, Receipt, Resume, TimestampMs,
    U256, ValidatorIndex,
};

/// Rules of a chain's blocks.
pub struct BlockRules<'a> {
    pub members: &'a Members,
    pub genesis: &'a Genesis,
    pub chain: &'a Chain,
}

/// Beginning of a block's interval, µs.
pub fn start_us(genesis: &Genesis, number: u64) -> u64 {
    let block_ms = genesis.block_ms;
    (genesis.timestamp_ms.0 / block_ms + number.saturating_sub(1)).saturating_mul(block_ms).saturating_mul(1_000)
}

/// Receipt of a committed transaction, from its own reads and the code in `state`. `None` if the code of a contract is not there.
///
/// # Errors
///
/// It does not run here.
pub fn receipt(chain: &Chain, decided: &Decided, state: &dyn StateView) -> anyhow::Result<Option<Receipt>> {
    chain.receipt_in(state, &decided.transaction).map_err(|error| {
        anyhow::anyhow!(
            "transaction {} is committed, but does not run here ({error}): more than f replicas of a shard are faulty, or this gateway \
             differs from them",
            chain::hash(&decided.transaction.call)
        )
    })
}

impl BlockRules<'_> {
    /// Makes the block after `parent` with all committed transactions of its interval, in the serial order. `base` is the state before
    /// it; `apply` returns the state root after the changes.
    ///
    /// # Errors
    ///
    /// A transaction does not run here.
    pub fn make(
        &self,
        parent: (Height, B256),
        base: &dyn StateView,
        transactions: &[Shared<Decided>],
        apply: impl FnOnce(&Changes) -> B256,
    ) -> anyhow::Result<CommittedBlock> {
        let height = parent.0.next();
        let start_us = start_us(self.genesis, height.0);
        let env = self.chain.block(Timestamp { time_us: start_us, client: B256::ZERO });
        assert_eq!(env.number, height.0, "invariant: the time of a block gives its number");
        let (mut changes, mut receipts, mut ordered) = (Changes::default(), Vec::new(), Vec::new());
        for decided in transactions {
            let state = Overlay { base, changes: &changes };
            let receipt = receipt(self.chain, decided, &state)?;
            receipts.push(receipt.context("a committed transaction calls a contract without code")?);
            let made = keys::changes(&decided.transaction.writes, &state);
            changes.merge(made);
            let gateway = self.members.index_of(Peer::Client(decided.transaction.timestamp.client));
            let (author, raw) = (gateway.unwrap_or(ValidatorIndex(0)), decided.transaction.call.clone());
            ordered.push(OrderedTransaction { author, raw });
        }
        let raw: Vec<_> = ordered.iter().map(|transaction| transaction.raw.clone()).collect();
        let output = BlockOutput::new(receipts, Vec::new(), changes, &raw);
        let resume = Resume { epoch: Epoch(0), index: CommitIndex(height.0), checkpoint: Default::default() };
        let ordering = OrderingRecord {
            protocol_version: env.rules.version,
            engine: self.genesis.engine.name.clone(),
            epoch: Epoch(0),
            committee_hash: self.genesis.committee_hash(),
            next: None,
            first_commit: CommitIndex(height.0),
            last_commit: CommitIndex(height.0),
            last_commit_consumed: u32::try_from(ordered.len()).unwrap_or(u32::MAX),
            leader: ValidatorIndex(0),
            time: TimestampMs(start_us / 1_000),
            randomness: env.randomness,
            batches: Vec::new(),
            transactions_hash: Block::transactions_hash(&ordered),
            skipped: Vec::new(),
            resume_hash: resume.hash(),
        };
        let header = Header {
            parent_hash: parent.1,
            beneficiary: env.coinbase,
            state_root: apply(&output.changes),
            transactions_root: output.transactions_root,
            receipts_root: output.receipts_root,
            logs_bloom: output.logs_bloom,
            difficulty: U256::ZERO,
            number: height.0,
            // It bounds each transaction. Nobody bounds their sum, because nobody orders.
            gas_limit: env.gas_limit.max(output.gas_used),
            gas_used: output.gas_used,
            timestamp: env.timestamp,
            extra_data: ordering.extra_data(),
            mix_hash: env.randomness,
            base_fee_per_gas: Some(env.base_fee),
            ..Header::default()
        };
        let block = Block { header, ordering, ordered };
        Ok(CommittedBlock { block, receipts: output.receipts, changes: output.changes, resume })
    }
}
