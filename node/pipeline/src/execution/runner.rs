//! The first half: running a block's transactions and writing what they changed.

use super::{ExecutionStart, VerifiedTransaction};
use crate::BlockPlan;
use corniche_executor::{BlockOutput, Candidate, fees, serial};
use corniche_state::{State, StateView};
use corniche_types::{Address, Genesis, Header, Height, OrderedTransaction, SkipReason, Skipped, ValidatorIndex};
use corniche_vm::{BlockEnv, Vm};
use std::sync::Arc;

/// Runs blocks one after the other. What the next block has to know of the last one is its [`Parent`] and the state, so it
/// can begin before anybody has hashed the last one.
pub struct Runner {
    genesis: Arc<Genesis>,
    fee_addresses: Vec<Address>,
    vm: Vm,
    state: State,
    parent: Parent,
}

/// A block that was run and not yet sealed. Its changes are in the state.
#[derive(Debug)]
pub struct Ran {
    pub(super) plan: BlockPlan,
    pub(super) env: BlockEnv,
    pub(super) output: BlockOutput,
    pub(super) returned: Vec<(ValidatorIndex, VerifiedTransaction)>,
}

impl Ran {
    pub fn height(&self) -> Height {
        Height(self.env.number)
    }
}

/// What the next block's environment is made from. Nothing in it is a hash.
struct Parent {
    number: u64,
    timestamp: u64,
    base_fee: u64,
    /// Gas used by the blocks that carry the parent's timestamp, the parent included.
    gas_in_second: u64,
}

impl Parent {
    fn of_header(header: &Header, gas_in_second: u64) -> Self {
        let base_fee = header.base_fee_per_gas.unwrap_or(1);
        Self { number: header.number, timestamp: header.timestamp, base_fee, gas_in_second }
    }

    fn next(&self, env: &BlockEnv, gas_used: u64) -> Self {
        let before = if env.timestamp == self.timestamp { self.gas_in_second } else { 0 };
        Self { number: env.number, timestamp: env.timestamp, base_fee: env.base_fee, gas_in_second: before + gas_used }
    }
}

impl Runner {
    pub(super) fn new(genesis: Arc<Genesis>, vm: Vm, start: &ExecutionStart) -> Self {
        Self {
            fee_addresses: genesis.validators.iter().map(|validator| validator.fee_address).collect(),
            genesis,
            vm,
            state: start.state.clone(),
            parent: Parent::of_header(&start.head, start.gas_in_second),
        }
    }

    /// The base fee of a block in the given second on top of the last block run.
    pub fn base_fee_at(&self, second: u64) -> u64 {
        let Parent { timestamp, base_fee, gas_in_second, .. } = self.parent;
        fees::next_base_fee(&self.genesis.fees, base_fee, timestamp, gas_in_second, second)
    }

    /// Runs the next block. `verify` checks all ordered transactions' signatures, in order; the rim does it on several
    /// threads ([`super::verify_all`] is the plain version).
    pub fn run(
        &mut self,
        plan: BlockPlan,
        verify: impl FnOnce(&[OrderedTransaction], u64) -> Vec<Result<VerifiedTransaction, SkipReason>>,
    ) -> Ran {
        let vm = self.vm.clone();
        self.run_by(plan, verify, |view, env, candidates, fee_addresses| {
            serial::execute_block(&vm, view, env, candidates, fee_addresses)
        })
    }

    /// The same with another way of running the candidates; everything around it is as in [`Self::run`].
    pub fn run_by(
        &mut self,
        plan: BlockPlan,
        verify: impl FnOnce(&[OrderedTransaction], u64) -> Vec<Result<VerifiedTransaction, SkipReason>>,
        run: impl FnOnce(&dyn StateView, &BlockEnv, &[Candidate], &[Address]) -> BlockOutput,
    ) -> Ran {
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
        drop(snapshot);
        self.state.apply(Height(env.number), &output.changes);
        self.parent = self.parent.next(&env, output.gas_used);
        let returned = returned_transactions(&output.skipped, &candidates);
        Ran { plan, env, output, returned }
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
