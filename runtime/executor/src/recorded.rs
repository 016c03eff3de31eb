//! A transaction's result together with everything it depends on. A later execution that reads the same values adopts
//! the result without running the transaction (rules S1 to S3 of Basil in a chain).
//!
//! Reads are recorded by content: only the value counts, not its writer or its position.

use corniche_crypto::VerifiedTransaction;
use corniche_state::{Account, AccountCode, StateView, is_in_range};
use corniche_types::{Address, B256, Bytes, SkipReason, U256};
use corniche_vm::{BlockEnv, BlockReads, Executed, NotExecuted, Vm};
use std::sync::{Mutex, PoisonError};

/// One transaction's result and everything it depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub transaction_hash: B256,
    pub tip_to: Address,
    /// Block in which it ran.
    pub env: BlockEnv,
    /// Fields of `env` that the result depends on (S3).
    pub block_reads: BlockReads,
    pub reads: Reads,
    pub outcome: Result<Executed, SkipReason>,
}

/// Everything read from a state, with the values. The bytes of code are not included: their hash determines them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    pub accounts: Vec<(Address, Option<Account>)>,
    /// Accounts of which only the code was read.
    pub codes: Vec<(Address, AccountCode)>,
    pub storage: Vec<((Address, B256), B256)>,
    pub predicates: Vec<Predicate>,
}

/// A call of [`StateView::storage_within`] with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predicate {
    pub key: (Address, B256),
    pub low: U256,
    pub high: U256,
    pub answer: bool,
}

impl Predicate {
    /// Returns the answer if the slot holds `value`.
    pub fn evaluate(&self, value: &B256) -> bool {
        is_in_range(value, &self.low, &self.high)
    }
}

impl Reads {
    /// Returns whether every read has the same result on `view`.
    pub fn still_hold(&self, view: &dyn StateView) -> bool {
        self.accounts.iter().all(|(address, account)| view.account(address) == *account)
            && self.codes.iter().all(|(address, code)| view.account_code(address) == *code)
            && self.storage.iter().all(|((address, slot), value)| view.storage(address, slot) == *value)
            && self
                .predicates
                .iter()
                .all(|asked| view.storage_within(&asked.key.0, &asked.key.1, &asked.low, &asked.high) == asked.answer)
    }
}

impl Recorded {
    /// Runs a transaction on `view` and records the result. Returns `None` without a result: `view` interrupted the
    /// run, or the node hit a fault. On a speculative state a fault may be spurious, so it counts only when the
    /// transaction runs in its place.
    pub fn run(
        vm: &Vm,
        recorder: &Recorder<'_>,
        env: &BlockEnv,
        transaction: &VerifiedTransaction,
        tip_to: Address,
    ) -> Option<Self> {
        let outcome = match vm.transact(recorder, env, transaction, tip_to) {
            Ok(executed) => Ok(executed),
            Err(NotExecuted::Skipped(reason)) => Err(reason),
            Err(NotExecuted::Interrupted | NotExecuted::Fault(_)) => return None,
        };
        let block_reads = outcome.as_ref().map(|executed| executed.block_reads.clone()).unwrap_or_default();
        let transaction_hash = transaction.transaction().hash();
        Some(Self { transaction_hash, tip_to, env: env.clone(), block_reads, reads: recorder.take(), outcome })
    }

    /// Returns whether this is the result of `transaction`, and the block fields it read have equal values in `env`.
    pub fn is_for(&self, transaction: &VerifiedTransaction, tip_to: &Address, env: &BlockEnv) -> bool {
        self.transaction_hash == transaction.transaction().hash()
            && self.tip_to == *tip_to
            && self.block_reads.still_hold(&self.env, env)
    }

    /// Returns the approximate memory use in bytes.
    pub fn memory_bytes(&self) -> usize {
        let Reads { accounts, codes, storage, predicates } = &self.reads;
        let reads = accounts.len() * 128 + codes.len() * 64 + storage.len() * 96 + predicates.len() * 160;
        let outcome = self.outcome.as_ref().map_or(0, |executed| {
            let logs = executed.receipt.logs.iter().map(|log| 96 + log.topics.len() * 32 + log.data.len()).sum::<usize>();
            let code = executed.changes.code.values().map(|code| 64 + code.len()).sum::<usize>();
            let keys = executed.changes.accounts.len() * 160
                + executed.changes.storage.len() * 128
                + (executed.additions.balances.len() + executed.additions.counters.len()) * 128;
            logs + code + keys + executed.receipt.output.len()
        });
        size_of::<Self>() + reads + outcome
    }
}

/// Forwards reads to another view and records them.
pub struct Recorder<'a> {
    view: &'a dyn StateView,
    reads: Mutex<Reads>,
}

impl<'a> Recorder<'a> {
    pub fn new(view: &'a dyn StateView) -> Self {
        Self { view, reads: Mutex::default() }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Reads) -> T) -> T {
        act(&mut self.reads.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take(&self) -> Reads {
        self.with(std::mem::take)
    }
}

impl StateView for Recorder<'_> {
    fn account(&self, address: &Address) -> Option<Account> {
        let account = self.view.account(address);
        self.with(|reads| reads.accounts.push((*address, account.clone())));
        account
    }

    fn account_code(&self, address: &Address) -> AccountCode {
        let code = self.view.account_code(address);
        self.with(|reads| reads.codes.push((*address, code)));
        code
    }

    fn storage(&self, address: &Address, slot: &B256) -> B256 {
        let value = self.view.storage(address, slot);
        self.with(|reads| reads.storage.push(((*address, *slot), value)));
        value
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        self.view.code(hash)
    }

    fn storage_within(&self, address: &Address, slot: &B256, low: &U256, high: &U256) -> bool {
        let answer = self.view.storage_within(address, slot, low, high);
        let predicate = Predicate { key: (*address, *slot), low: *low, high: *high, answer };
        self.with(|reads| reads.predicates.push(predicate));
        answer
    }

    fn interrupted(&self) -> bool {
        self.view.interrupted()
    }
}
