//! The execution stage: block plans in, blocks with their results out. Deterministic and without I/O; the rim gives it a
//! thread of its own, the simulator calls it in place.

use crate::BlockPlan;
use corniche_executor::{BlockOutput, Candidate, fees, serial, verify_ordered};
use corniche_state::{CommittedBlock, State, StateView, Tree};
use corniche_types::{
    Address, B256, Block, Epoch, Genesis, Header, Height, OrderedTransaction, OrderingRecord, SkipReason, U256, ValidatorIndex,
    header_hash,
};
use corniche_vm::{BlockEnv, Vm};
use std::sync::Arc;

pub use corniche_crypto::VerifiedTransaction;

/// Executes blocks one after the other on top of a head.
pub struct ExecutionStage {
    genesis: Arc<Genesis>,
    committee_hash: B256,
    fee_addresses: Vec<Address>,
    vm: Vm,
    state: State,
    tree: Tree,
    parent: Header,
    parent_hash: B256,
    /// Gas used by the blocks that carry the parent's timestamp, the parent included.
    gas_in_second: u64,
}

/// One executed block.
#[derive(Clone, Debug)]
pub struct Executed {
    pub hash: B256,
    pub committed: Arc<CommittedBlock>,
    /// Skipped transactions that may become valid, with the validator to whose pool they return.
    pub returned: Vec<(ValidatorIndex, VerifiedTransaction)>,
}

/// Where execution continues.
pub struct ExecutionStart {
    pub state: State,
    pub tree: Tree,
    pub head: Header,
    /// Gas used by the blocks that carry the head's timestamp, the head included.
    pub gas_in_second: u64,
}

impl ExecutionStage {
    pub fn new(genesis: Arc<Genesis>, vm: Vm, start: ExecutionStart) -> Self {
        Self {
            committee_hash: genesis.committee_hash(),
            fee_addresses: genesis.validators.iter().map(|validator| validator.fee_address).collect(),
            genesis,
            vm,
            state: start.state,
            tree: start.tree,
            parent_hash: header_hash(&start.head),
            parent: start.head,
            gas_in_second: start.gas_in_second,
        }
    }

    /// The base fee of a block in the given second on top of the current head.
    pub fn base_fee_at(&self, second: u64) -> u64 {
        let parent_base_fee = self.parent.base_fee_per_gas.unwrap_or(1);
        fees::next_base_fee(&self.genesis.fees, parent_base_fee, self.parent.timestamp, self.gas_in_second, second)
    }

    /// Executes the next block. `verify` checks all ordered transactions' signatures, in order; the rim does it on several
    /// threads ([`verify_all`] is the plain version).
    pub fn execute(
        &mut self,
        plan: BlockPlan,
        verify: impl FnOnce(&[OrderedTransaction], u64) -> Vec<Result<VerifiedTransaction, SkipReason>>,
    ) -> Executed {
        let vm = self.vm.clone();
        self.execute_by(plan, verify, |view, env, candidates, fee_addresses| {
            serial::execute_block(&vm, view, env, candidates, fee_addresses)
        })
    }

    /// The same with another way of running the candidates; everything around it, roots, header and ordering record, is as in
    /// [`Self::execute`].
    pub fn execute_by(
        &mut self,
        plan: BlockPlan,
        verify: impl FnOnce(&[OrderedTransaction], u64) -> Vec<Result<VerifiedTransaction, SkipReason>>,
        run: impl FnOnce(&dyn StateView, &BlockEnv, &[Candidate], &[Address]) -> BlockOutput,
    ) -> Executed {
        let env = self.env(&plan);
        let verified = verify(&plan.ordered, self.genesis.chain_id);
        let candidates: Vec<Candidate> = plan
            .ordered
            .iter()
            .zip(verified)
            .map(|(ordered, verified)| Candidate { author: ordered.author, raw: ordered.raw.clone(), verified })
            .collect();
        let snapshot = self.state.latest();
        let output = run(&snapshot, &env, &candidates, &self.fee_addresses);
        let state_root = self.tree.apply(&output.changes);
        self.state.apply(Height(env.number), &output.changes);

        let ordering = self.ordering_record(&plan, output.skipped.clone());
        let header = Header {
            parent_hash: self.parent_hash,
            beneficiary: env.coinbase,
            state_root,
            transactions_root: output.transactions_root,
            receipts_root: output.receipts_root,
            logs_bloom: output.logs_bloom,
            difficulty: U256::ZERO,
            number: env.number,
            gas_limit: env.gas_limit,
            gas_used: output.gas_used,
            timestamp: env.timestamp,
            extra_data: ordering.extra_data(),
            mix_hash: plan.randomness,
            base_fee_per_gas: Some(env.base_fee),
            ..Header::default()
        };
        let hash = header_hash(&header);
        let same_second = header.timestamp == self.parent.timestamp;
        self.gas_in_second = if same_second { self.gas_in_second } else { 0 } + header.gas_used;
        self.parent = header.clone();
        self.parent_hash = hash;
        let returned = returned_transactions(&ordering, &candidates);
        let block = Block { header, ordering, ordered: plan.ordered };
        let committed = CommittedBlock { block, receipts: output.receipts, changes: output.changes, resume: plan.resume };
        Executed { hash, committed: Arc::new(committed), returned }
    }

    fn env(&self, plan: &BlockPlan) -> BlockEnv {
        // The header carries seconds, non-decreasing (design §3).
        let timestamp = self.parent.timestamp.max(plan.time.0 / 1000);
        BlockEnv {
            chain_id: self.genesis.chain_id,
            number: self.parent.number + 1,
            timestamp,
            base_fee: self.base_fee_at(timestamp),
            coinbase: self.fee_addresses.get(plan.leader.as_usize()).copied().unwrap_or_default(),
            gas_limit: self.genesis.block_gas_limit,
            randomness: plan.randomness,
        }
    }

    fn ordering_record(&self, plan: &BlockPlan, skipped: Vec<corniche_types::Skipped>) -> OrderingRecord {
        OrderingRecord {
            engine: self.genesis.engine.name.clone(),
            epoch: Epoch(0),
            committee_hash: self.committee_hash,
            next_committee_hash: self.committee_hash,
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

/// Checks every transaction of a block on the calling thread.
pub fn verify_all(ordered: &[OrderedTransaction], chain_id: u64) -> Vec<Result<VerifiedTransaction, SkipReason>> {
    ordered.iter().map(|transaction| verify_ordered(&transaction.raw, chain_id)).collect()
}

fn returned_transactions(ordering: &OrderingRecord, candidates: &[Candidate]) -> Vec<(ValidatorIndex, VerifiedTransaction)> {
    let may_return = ordering.skipped.iter().filter(|skipped| skipped.reason.returns_to_pool());
    may_return
        .filter_map(|skipped| {
            let candidate = &candidates[skipped.position as usize];
            candidate.verified.clone().ok().map(|verified| (candidate.author, verified))
        })
        .collect()
}
