//! Transfers as Block-STM tasks.

use crate::chain::Chain;
use aptos_parallel_executor::{
    executor::{MVHashMapView, ParallelTransactionExecutor},
    task::{ExecutionStatus, ExecutorTask, Transaction, TransactionOutput},
};
use corniche_executor::BlockOutput;
use corniche_state::{Account, Changes, StateView};
use corniche_types::{Address, B256, Bloom, Bytes, Receipt, U256};
use corniche_vm::Executed;
use std::{collections::BTreeMap, convert::Infallible, marker::PhantomData};

const THREADS: usize = 2;

/// Position in the block; the transaction itself is in the chain.
pub struct Position(usize);

impl Transaction for Position {
    type Key = Address;
    type Value = Option<Account>;
}

pub struct Output {
    executed: Option<Executed>,
    /// All writes except the tip.
    writes: Vec<(Address, Option<Account>)>,
}

impl TransactionOutput for Output {
    type T = Position;

    fn get_writes(&self) -> Vec<(Address, Option<Account>)> {
        self.writes.clone()
    }

    fn skip_output() -> Self {
        Self { executed: None, writes: Vec::new() }
    }
}

/// State as Block-STM presents it to one attempt, on top of the state before the block.
struct View<'a> {
    versions: &'a MVHashMapView<'a, Address, Option<Account>>,
    chain: &'a Chain,
}

impl StateView for View<'_> {
    fn account(&self, address: &Address) -> Option<Account> {
        match self.versions.read(address) {
            Some(account) => (*account).clone(),
            None => self.chain.view.account(address),
        }
    }

    fn storage(&self, address: &Address, slot: &B256) -> B256 {
        self.chain.view.storage(address, slot)
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        self.chain.view.code(hash)
    }
}

/// Complete transaction of this chain: the virtual machine checks nonce, fee and balance, transfers the
/// value, and makes the receipt.
struct Task<'a>(&'a Chain);

impl<'a> ExecutorTask for Task<'a> {
    type T = Position;
    type Output = Output;
    type Error = Infallible;
    type Argument = &'a Chain;

    fn init(chain: &'a Chain) -> Self {
        Self(chain)
    }

    fn execute_transaction(
        &self,
        versions: &MVHashMapView<Address, Option<Account>>,
        Position(position): &Position,
    ) -> ExecutionStatus<Output, Infallible> {
        let candidate = &self.0.candidates[*position];
        let transaction = candidate.verified.as_ref().expect("they were signed for this chain");
        let tips = self.0.fee_addresses();
        let view = View { versions, chain: self.0 };
        // Results of stale reads are executed again.
        let Ok(executed) = self.0.vm.transact(&view, &self.0.env, transaction, tips[candidate.author.as_usize()]) else {
            return ExecutionStatus::Success(Output::skip_output());
        };
        let mut writes: Vec<_> =
            executed.changes.accounts.iter().map(|(address, account)| (*address, account.clone())).collect();
        for (address, wei) in executed.additions.balances.iter().filter(|(address, _)| !tips.contains(address)) {
            writes.push((*address, Some(view.account(address).unwrap_or_default().credited(*wei))));
        }
        ExecutionStatus::Success(Output { executed: Some(executed), writes })
    }
}

/// Executes the block's transactions; returns receipts and writes of each.
pub fn execute(chain: &Chain) -> Vec<Output> {
    let block = (0..chain.candidates.len()).map(Position).collect();
    let executor = ParallelTransactionExecutor::<Position, Task<'_>>::new(THREADS);
    executor.execute_transactions_parallel(chain, block).unwrap_or_else(|_| unreachable!("no transaction aborts a block"))
}

/// Computes sums, changes and roots.
pub fn finish(chain: &Chain, outputs: Vec<Output>) -> BlockOutput {
    let mut changes = Changes::default();
    let mut receipts = Vec::with_capacity(outputs.len());
    let (mut gas_used, mut logs_bloom) = (0, Bloom::ZERO);
    let mut tips: BTreeMap<Address, U256> = BTreeMap::new();
    let known = chain.fee_addresses();
    for output in outputs {
        let executed = output.executed.expect("every transfer of the workload is valid");
        let mut receipt = executed.receipt;
        gas_used += receipt.gas_used;
        receipt.cumulative_gas_used = gas_used;
        logs_bloom |= receipt.logs_bloom();
        receipts.push(receipt);
        changes.accounts.extend(output.writes);
        for (address, wei) in executed.additions.balances.into_iter().filter(|(address, _)| known.contains(address)) {
            *tips.entry(address).or_default() += wei;
        }
    }
    for (address, wei) in tips {
        changes.accounts.insert(address, Some(chain.view.account(&address).unwrap_or_default().credited(wei)));
    }
    let raw = |candidate: &corniche_executor::Candidate, out: &mut Vec<u8>| out.extend_from_slice(&candidate.raw);
    BlockOutput {
        transactions_root: alloy_trie::root::ordered_trie_root_with_encoder(&chain.candidates, raw),
        receipts_root: Receipt::root(&receipts),
        receipts,
        skipped: Vec::new(),
        changes,
        gas_used,
        logs_bloom,
    }
}

/// Numbers of the two accounts.
struct Numbers(usize, usize);

impl Transaction for Numbers {
    type Key = usize;
    type Value = u64;
}

struct Moved([(usize, u64); 2]);

impl TransactionOutput for Moved {
    type T = Numbers;

    fn get_writes(&self) -> Vec<(usize, u64)> {
        self.0.to_vec()
    }

    fn skip_output() -> Self {
        Self([(0, 0); 2])
    }
}

struct Move<'a>(PhantomData<&'a Chain>);

impl<'a> ExecutorTask for Move<'a> {
    type T = Numbers;
    type Output = Moved;
    type Error = Infallible;
    type Argument = &'a Chain;

    fn init(_: &'a Chain) -> Self {
        Self(PhantomData)
    }

    fn execute_transaction(
        &self,
        view: &MVHashMapView<usize, u64>,
        Numbers(from, to): &Numbers,
    ) -> ExecutionStatus<Moved, Infallible> {
        let [rest, sum] = [from, to].map(|account| view.read(account).map_or(1 << 40, |balance| *balance));
        ExecutionStatus::Success(Moved([(*from, rest - 1), (*to, sum + 1)]))
    }
}

/// Same block, but each transaction only reads and writes two numbers: the cost of Block-STM itself.
pub fn bare(chain: &Chain) {
    let block = chain.transfers.iter().map(|(from, to)| Numbers(*from, *to)).collect();
    let executor = ParallelTransactionExecutor::<Numbers, Move<'_>>::new(THREADS);
    let moved =
        executor.execute_transactions_parallel(chain, block).unwrap_or_else(|_| unreachable!("no transaction aborts a block"));
    assert_eq!(moved.len(), chain.transfers.len());
}
