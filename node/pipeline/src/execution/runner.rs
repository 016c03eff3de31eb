//! First half: runs a block's transactions and writes their changes to the state.

use super::{
    AncestorHashes, ExecutionStart, VerifiedTransaction,
    staking::{BlockEnd, EpochEnd},
};
use crate::{BlockPlan, Directives, blocks::KNOWN, fee_addresses};
use corniche_executor::{
    BlockOutput, Candidate, Runs, SingleThread, SpeculationCounts, SpeculationLimits, Speculator, Statistics, WorkerPool, fees,
    parallel,
};
use corniche_state::{Overlay, State, StateView};
use corniche_types::{
    Address, B256, Bytes, Genesis, Header, Height, KnownVersions, NextEpoch, OrderedTransaction, SkipReason, Skipped,
    ValidatorIndex, certified,
};
use corniche_vm::{BlockEnv, Vm};
use std::sync::Arc;

/// Executes blocks one after the other. The next block needs only the [`Parent`] and the state, so it can
/// start before the last one is hashed.
pub struct Runner {
    genesis: Arc<Genesis>,
    known: KnownVersions,
    /// Version of the next block's epoch.
    epoch_version: u32,
    /// Recipients of fees, by index of the members of the next block's committee.
    fee_addresses: Vec<Address>,
    vm: Vm,
    state: State,
    parent: Parent,
    ancestors: AncestorHashes,
    pool: Arc<dyn WorkerPool>,
    /// `None` on a real network.
    directives: Option<Arc<dyn Directives>>,
    /// `None`: transactions run only after they are ordered.
    speculator: Option<Speculator>,
    statistics: Statistics,
}

/// Block that was executed and is not sealed yet. Its changes are in the state.
#[derive(Debug)]
pub struct UnsealedBlock {
    pub(super) plan: BlockPlan,
    pub(super) env: BlockEnv,
    pub(super) output: BlockOutput,
    pub(super) returned: Vec<(ValidatorIndex, VerifiedTransaction)>,
    /// The next epoch, if the block is the last one of its epoch.
    pub(super) next: Option<NextEpoch>,
    runs: Runs,
}

impl UnsealedBlock {
    pub fn height(&self) -> Height {
        Height(self.env.number)
    }

    /// Execution statistics of the block; empty after [`Runner::run_with`].
    pub fn runs(&self) -> &Runs {
        &self.runs
    }
}

/// Inputs for the next block's environment. Contains no hash.
struct Parent {
    number: u64,
    timestamp: u64,
    base_fee: u64,
    /// Gas used by the blocks with the parent's timestamp, including the parent.
    gas_in_second: u64,
}

impl Parent {
    fn from_header(header: &Header, gas_in_second: u64) -> Self {
        let base_fee = header.base_fee_per_gas.unwrap_or(1);
        Self { number: header.number, timestamp: header.timestamp, base_fee, gas_in_second }
    }

    fn next(&self, env: &BlockEnv, gas_used: u64) -> Self {
        let before = if env.timestamp == self.timestamp { self.gas_in_second } else { 0 };
        Self { number: env.number, timestamp: env.timestamp, base_fee: env.base_fee, gas_in_second: before + gas_used }
    }
}

impl Runner {
    pub(super) fn new(genesis: Arc<Genesis>, vm: Vm, start: &ExecutionStart, ancestors: AncestorHashes) -> Self {
        Self {
            fee_addresses: fee_addresses(&genesis, start.epoch.epoch, &start.state.latest()),
            genesis,
            known: start.known,
            epoch_version: start.epoch.protocol_version,
            vm,
            state: start.state.clone(),
            parent: Parent::from_header(&start.head, start.gas_in_second),
            ancestors,
            pool: Arc::new(SingleThread),
            directives: None,
            speculator: None,
            statistics: Statistics::default(),
        }
    }

    /// Uses these threads instead of the caller's.
    #[must_use]
    pub fn with_pool(self, pool: Arc<dyn WorkerPool>) -> Self {
        Self { pool, ..self }
    }

    /// Runs transactions speculatively before they are ordered, up to these limits.
    #[must_use]
    pub fn with_speculation(self, limits: SpeculationLimits) -> Self {
        Self { speculator: Some(Speculator::new(limits)), ..self }
    }

    /// Applies these directives, which an [`Extension`](crate::Extension) orders.
    #[must_use]
    pub fn with_directives(self, directives: Option<Arc<dyn Directives>>) -> Self {
        Self { directives, ..self }
    }

    /// Returns memory of native stacks to the system, on every thread that executes. See [`Vm::release_stacks`].
    pub fn release_stacks(&self) {
        let vm = &self.vm;
        self.pool.run(&|_| vm.release_stacks());
    }

    /// Execution statistics so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Base fee of a block in the given second on top of the last executed block.
    pub fn base_fee_at(&self, second: u64) -> u64 {
        let Parent { timestamp, base_fee, gas_in_second, .. } = self.parent;
        fees::next_base_fee(&self.genesis.fees, base_fee, timestamp, gas_in_second, second)
    }

    /// Executes the next block. `verify` checks the signatures of all ordered transactions, in order; the
    /// node does it on several threads ([`super::verify_all`] is the single-threaded version).
    pub fn run(
        &mut self,
        plan: BlockPlan,
        verify: impl FnOnce(&[OrderedTransaction], u64) -> Vec<Result<VerifiedTransaction, SkipReason>>,
    ) -> UnsealedBlock {
        let env = self.env(&plan);
        let candidates = self.check(&plan, verify);
        let recorded = match &mut self.speculator {
            Some(speculator) if speculator.kept() > 0 => {
                candidates.iter().map(|candidate| speculator.take(candidate)).collect()
            }
            _ => Vec::new(),
        };
        let view = self.state.latest();
        let (output, runs) =
            parallel::execute_block(&self.vm, &view, &env, &candidates, &self.fee_addresses, &*self.pool, recorded);
        drop(view);
        self.statistics += runs.statistics;
        if let Some(speculator) = &mut self.speculator {
            speculator.retire(&candidates, runs.statistics.adopted == runs.statistics.transactions);
        }
        UnsealedBlock { runs, ..self.finish(plan, env, &candidates, output) }
    }

    /// Like [`Self::run`], but runs the candidates with `run`.
    pub fn run_with(
        &mut self,
        plan: BlockPlan,
        verify: impl FnOnce(&[OrderedTransaction], u64) -> Vec<Result<VerifiedTransaction, SkipReason>>,
        run: impl FnOnce(&dyn StateView, &BlockEnv, &[Candidate], &[Address]) -> BlockOutput,
    ) -> UnsealedBlock {
        let env = self.env(&plan);
        let candidates = self.check(&plan, verify);
        let view = self.state.latest();
        let output = run(&view, &env, &candidates, &self.fee_addresses);
        drop(view);
        self.finish(plan, env, &candidates, output)
    }

    /// Offers transactions that will probably be ordered soon (rule S1). Cheap: they only wait for
    /// [`Self::speculate`].
    pub fn offer(&mut self, author: ValidatorIndex, transactions: Vec<Bytes>) {
        if let Some(speculator) = &mut self.speculator {
            speculator.enqueue(author, transactions);
        }
    }

    /// Speculatively runs one offered transaction, as if in a block of this second, or refreshes existing
    /// results. Returns false if there is nothing to do. Call it only when no block waits: ordered
    /// transactions have priority (S6).
    pub fn speculate(
        &mut self,
        second: u64,
        verify: impl FnOnce(&Bytes, u64) -> Result<VerifiedTransaction, SkipReason>,
    ) -> bool {
        let Some(env) = self.expected_env(second) else { return false };
        let Some(speculator) = &mut self.speculator else { return false };
        let view = self.state.latest();
        if speculator.repair(&self.vm, &view, &env) {
            return true;
        }
        let Some(waiting) = speculator.next_waiting() else { return false };
        if let Ok(transaction) = verify(&waiting.raw, env.chain_id) {
            let tip_recipient = self.fee_addresses.get(waiting.author.as_usize()).copied().unwrap_or(env.coinbase);
            speculator.run(&self.vm, &view, &env, waiting.author, &transaction, tip_recipient);
        }
        true
    }

    /// Counters of speculation.
    pub fn speculation(&self) -> SpeculationCounts {
        self.speculator.as_ref().map(Speculator::counts).unwrap_or_default()
    }

    /// Hashes of the transactions with speculative results that may still be adopted.
    pub fn speculated(&self) -> Vec<B256> {
        self.speculator.iter().flat_map(Speculator::hashes).copied().collect()
    }

    /// Candidates of a plan. The signatures of transactions that ran speculatively were verified then and are
    /// not verified again.
    fn check(
        &self,
        plan: &BlockPlan,
        verify: impl FnOnce(&[OrderedTransaction], u64) -> Vec<Result<VerifiedTransaction, SkipReason>>,
    ) -> Vec<Candidate> {
        let known = |ordered: &OrderedTransaction| self.speculator.as_ref()?.verified(&ordered.raw);
        let mut verified: Vec<Option<Result<VerifiedTransaction, SkipReason>>> =
            plan.ordered.iter().map(|ordered| known(ordered).map(Ok)).collect();
        let unknown = plan.ordered.iter().zip(&verified).filter(|(_, verified)| verified.is_none());
        let unknown: Vec<OrderedTransaction> = unknown.map(|(ordered, _)| ordered.clone()).collect();
        let mut checked = verify(&unknown, self.genesis.chain_id).into_iter();
        verified.iter_mut().filter(|verified| verified.is_none()).for_each(|verified| *verified = checked.next());
        let candidate = |(ordered, verified): (&OrderedTransaction, Option<_>)| Candidate {
            author: ordered.author,
            raw: ordered.raw.clone(),
            verified: verified.expect("invariant: one verdict for each transaction"),
        };
        plan.ordered.iter().zip(verified).map(candidate).collect()
    }

    fn finish(&mut self, plan: BlockPlan, env: BlockEnv, candidates: &[Candidate], mut output: BlockOutput) -> UnsealedBlock {
        if let Some(directives) = &self.directives {
            let view = Overlay { base: &self.state.latest(), changes: &output.changes };
            let changes = directives.changes(&plan.ordered, &view, env.rules);
            output.changes.merge(changes);
        }
        let ended = BlockEnd {
            genesis: &self.genesis,
            height: Height(env.number),
            protocol_version: env.rules.version,
            time: plan.time,
            candidates,
            skipped: &mut output.skipped,
            view: &self.state.latest(),
            changes: &mut output.changes,
        }
        .run();
        let next = ended.map(|EpochEnd { next, fee_addresses }| {
            self.fee_addresses = fee_addresses;
            self.epoch_version = next.protocol_version;
            next
        });
        // Written last, after any other change of that account; the next block's transactions are the first
        // to see it.
        if let Some((number, hash)) = self.ancestors.written_by(env.number) {
            output.changes.storage.insert((certified::ADDRESS, certified::slot(number)), hash);
        }
        self.state.apply(Height(env.number), &output.changes);
        self.parent = self.parent.next(&env, output.gas_used);
        let returned = returned_transactions(&output.skipped, candidates);
        UnsealedBlock { plan, env, output, returned, next, runs: Runs::default() }
    }

    /// Expected environment of the next block. Before a result is adopted, the values that its transaction
    /// read are compared with the actual ones (S3). `None` if the next block's version is unknown.
    fn expected_env(&self, second: u64) -> Option<BlockEnv> {
        self.env_in(second, Address::ZERO, B256::ZERO)
    }

    fn env(&self, plan: &BlockPlan) -> BlockEnv {
        let coinbase = self.fee_addresses.get(plan.leader.as_usize()).copied().unwrap_or_default();
        let env = self.env_in(plan.time.0 / 1000, coinbase, plan.randomness).expect(KNOWN);
        let base_fee = self.directives.as_ref().and_then(|directives| directives.settings(&plan.ordered).base_fee);
        BlockEnv { base_fee: base_fee.unwrap_or(env.base_fee), ..env }
    }

    fn env_in(&self, second: u64, coinbase: Address, randomness: B256) -> Option<BlockEnv> {
        let version = self.genesis.version_at(Height(self.parent.number + 1), self.epoch_version);
        // The header has seconds that do not decrease (design §3).
        let timestamp = self.parent.timestamp.max(second);
        Some(BlockEnv {
            rules: self.known.rules(version)?,
            chain_id: self.genesis.chain_id,
            number: self.parent.number + 1,
            timestamp,
            base_fee: self.base_fee_at(timestamp),
            coinbase,
            gas_limit: self.genesis.block_gas_limit,
            randomness,
        })
    }
}

fn returned_transactions(skipped: &[Skipped], candidates: &[Candidate]) -> Vec<(ValidatorIndex, VerifiedTransaction)> {
    let may_return = skipped.iter().filter(|skipped| skipped.reason.returns_to_pool());
    may_return
        .filter_map(|skipped| {
            let candidate = &candidates[skipped.position as usize];
            candidate.verified.clone().ok().map(|verified| (candidate.author, verified))
        })
        .collect()
}
