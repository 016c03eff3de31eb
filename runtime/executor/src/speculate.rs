//! Speculative execution of transactions before they are ordered (rules S1 to S6 of Basil in a chain).
//!
//! 1. [`Speculator::enqueue`] takes a proposal's transactions as soon as the proposal is seen. They queue in that order,
//!    which is their provisional position (S1).
//! 2. [`Speculator::next_waiting`] and [`Speculator::run`] run one transaction at a time while the thread is idle, on
//!    the newest state plus the provisional results so far. The result is kept with everything it depends on, by
//!    content ([`Recorded`]).
//! 3. [`Speculator::take`] passes the results of an ordered block's transactions to the executor. It adopts those whose
//!    reads resolve to equal values in their final position (S2). [`Speculator::retire`] then drops the results that
//!    the block made useless.
//!
//! Invariants: nothing here affects the outcome of a block. A missing, stale or misplaced result costs a run, never
//! correctness. The number and bytes of the results are bounded, in total and per author, and the youngest are dropped
//! first (S5).

use crate::{Candidate, Recorded, Recorder};
use corniche_crypto::VerifiedTransaction;
use corniche_state::{Changes, Overlay, StateView};
use corniche_types::{Address, B256, Bytes, ValidatorIndex, keccak256};
use corniche_vm::{BlockEnv, Vm};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Limits of speculative execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeculationLimits {
    /// Maximum number of transactions of one author that wait or whose results are kept.
    pub transactions_per_author: usize,
    /// Maximum total bytes of one author's waiting transactions and kept results.
    pub bytes_per_author: usize,
    /// Maximum gas limit of a transaction. Bounds the time for which one run delays an ordered block.
    pub gas: u64,
    /// Number of blocks after which an unused result is dropped.
    pub blocks: u64,
}

impl Default for SpeculationLimits {
    fn default() -> Self {
        Self { transactions_per_author: 512, bytes_per_author: 4 << 20, gas: 2_000_000, blocks: 64 }
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Speculator {
    limits: SpeculationLimits,
    waiting: VecDeque<QueuedTransaction>,
    /// Results in the order of their first run, by number.
    results: BTreeMap<u64, CachedResult>,
    by_hash: BTreeMap<B256, u64>,
    /// Number of the last result.
    count: u64,
    /// Number of executed blocks.
    blocks: u64,
    /// Usage by author: everything that waits or is kept.
    used: BTreeMap<ValidatorIndex, AuthorUsage>,
    counts: SpeculationCounts,
    /// Changes of the kept results up to `verified_up_to`, on top of the state.
    provisional: Changes,
    /// Number of the last result that is known to hold in its place. After an unexpected block it is lower than
    /// `count`: the remaining results are then checked again, a few per step, before a new transaction runs.
    verified_up_to: u64,
}

/// Counters of speculative execution (S6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpeculationCounts {
    /// Speculative runs.
    pub runs: u64,
    /// Runs without a result: the transaction was not valid in that state.
    pub without_result: u64,
    /// Transactions not run speculatively, because their author's share was used up.
    pub passed_over: u64,
}

/// Maximum number of results checked per step. A step ends at the first result that must run again, so ordered work
/// waits for at most one run.
const MAX_CHECKS_PER_STEP: usize = 16;

/// A transaction that was seen and has not run yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedTransaction {
    pub author: ValidatorIndex,
    pub raw: Bytes,
    hash: B256,
}

#[derive(Debug)]
struct CachedResult {
    recorded: Recorded,
    transaction: VerifiedTransaction,
    author: ValidatorIndex,
    bytes: usize,
    /// Number of executed blocks at its first run.
    since: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct AuthorUsage {
    transactions: usize,
    bytes: usize,
}

impl Speculator {
    pub fn new(limits: SpeculationLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Queues a proposal's transactions. Those above the author's share are skipped, and run only when they are
    /// ordered.
    pub fn enqueue(&mut self, author: ValidatorIndex, transactions: impl IntoIterator<Item = Bytes>) {
        for raw in transactions {
            let hash = keccak256(&raw);
            if self.by_hash.contains_key(&hash) {
                continue;
            }
            if !self.reserve(author, raw.len()) {
                self.counts.passed_over += 1;
                continue;
            }
            self.waiting.push_back(QueuedTransaction { author, raw, hash });
        }
    }

    /// Does one step in repairing the kept results after an unexpected block. A step checks a few results. It ends with
    /// the first one that no longer holds, which it runs again: all results that depend on it would fail too. Returns
    /// false when all results hold.
    pub fn repair(&mut self, vm: &Vm, state: &dyn StateView, env: &BlockEnv) -> bool {
        let behind = self.verified_up_to.saturating_add(1)..;
        let numbers: Vec<u64> = self.results.range(behind).map(|(number, _)| *number).take(MAX_CHECKS_PER_STEP).collect();
        for number in &numbers {
            self.verified_up_to = *number;
            if !self.recheck(*number, state, env) {
                self.rerun(*number, vm, state, env);
                break;
            }
        }
        if numbers.is_empty() {
            self.verified_up_to = self.count;
        }
        !numbers.is_empty()
    }

    /// Adds a result to the provisional changes; returns false if it does not hold there.
    fn recheck(&mut self, number: u64, state: &dyn StateView, env: &BlockEnv) -> bool {
        let Some(CachedResult { recorded, transaction, .. }) = self.results.get(&number) else { return true };
        let now = Overlay { base: state, changes: &self.provisional };
        let holds = recorded.is_for(transaction, &recorded.tip_to, env) && recorded.reads.still_hold(&now);
        if holds {
            let changed = changes_of(recorded, &now);
            self.provisional.merge(changed);
        }
        holds
    }

    /// Runs a transaction again and replaces its result.
    fn rerun(&mut self, number: u64, vm: &Vm, state: &dyn StateView, env: &BlockEnv) {
        let Some(CachedResult { recorded, transaction, author, since, .. }) = self.remove_result(number) else { return };
        if let Some((recorded, changed)) = self.attempt(vm, state, env, &transaction, recorded.tip_to)
            && self.keep(number, author, &transaction, recorded, since)
        {
            self.provisional.merge(changed);
        }
    }

    /// Returns the transaction that has waited longest. The caller verifies it and passes it to [`Self::run`].
    pub fn next_waiting(&mut self) -> Option<QueuedTransaction> {
        let waiting = self.waiting.pop_front()?;
        self.release(waiting.author, waiting.raw.len());
        Some(waiting)
    }

    /// Runs a verified transaction in a block like `env`, on top of `state` and the provisional results, and keeps the
    /// result.
    pub fn run(
        &mut self,
        vm: &Vm,
        state: &dyn StateView,
        env: &BlockEnv,
        author: ValidatorIndex,
        transaction: &VerifiedTransaction,
        tip_to: Address,
    ) {
        let hash = transaction.transaction().hash();
        if transaction.transaction().gas_limit() > self.limits.gas || self.by_hash.contains_key(&hash) {
            return;
        }
        let Some((recorded, changed)) = self.attempt(vm, state, env, transaction, tip_to) else { return };
        let number = self.count + 1;
        if self.keep(number, author, transaction, recorded, self.blocks) {
            if self.verified_up_to == self.count {
                self.provisional.merge(changed);
                self.verified_up_to = number;
            }
            self.count = number;
        }
    }

    /// Runs a transaction on the provisional state; returns the result and its changes. A skipped transaction has no
    /// result worth keeping: it changes nothing, and checking it again when it is ordered is cheap.
    fn attempt(
        &mut self,
        vm: &Vm,
        state: &dyn StateView,
        env: &BlockEnv,
        transaction: &VerifiedTransaction,
        tip_to: Address,
    ) -> Option<(Recorded, Changes)> {
        let now = Overlay { base: state, changes: &self.provisional };
        let recorded = Recorded::run(vm, &Recorder::new(&now), env, transaction, tip_to);
        self.counts.runs += 1;
        match recorded.filter(|recorded| recorded.outcome.is_ok()) {
            Some(recorded) => {
                let changed = changes_of(&recorded, &now);
                Some((recorded, changed))
            }
            None => {
                self.counts.without_result += 1;
                None
            }
        }
    }

    /// Keeps a result if its author's share has room for it.
    fn keep(
        &mut self,
        number: u64,
        author: ValidatorIndex,
        transaction: &VerifiedTransaction,
        recorded: Recorded,
        since: u64,
    ) -> bool {
        let bytes = recorded.memory_bytes() + transaction.transaction().raw().len();
        let fits = self.reserve(author, bytes);
        if fits {
            self.by_hash.insert(recorded.transaction_hash, number);
            self.results.insert(number, CachedResult { recorded, transaction: transaction.clone(), author, bytes, since });
        }
        fits
    }

    /// Returns the verified transaction with these bytes, if its result is kept. Equal bytes verify equally.
    pub fn verified(&self, raw: &[u8]) -> Option<VerifiedTransaction> {
        if self.results.is_empty() {
            return None;
        }
        let number = self.by_hash.get(&keccak256(raw))?;
        self.results.get(number).map(|kept| kept.transaction.clone())
    }

    /// Removes and returns the result for this candidate, if any.
    pub fn take(&mut self, candidate: &Candidate) -> Option<Recorded> {
        let hash = candidate.verified.as_ref().ok()?.transaction().hash();
        let kept = self.remove_result(*self.by_hash.get(&hash)?)?;
        Some(kept.recorded)
    }

    /// Updates the results after a block of these candidates; none of them needs to run any more. `as_expected`: all of
    /// them had results that were adopted. Then their provisional changes are now final, and the remaining ones still
    /// hold on top.
    pub fn retire(&mut self, candidates: &[Candidate], as_expected: bool) {
        self.blocks += 1;
        let settled: BTreeSet<B256> = candidates.iter().map(Candidate::hash).collect();
        let waiting = std::mem::take(&mut self.waiting);
        for waiting in waiting {
            if settled.contains(&waiting.hash) {
                self.release(waiting.author, waiting.raw.len());
            } else {
                self.waiting.push_back(waiting);
            }
        }
        let pointless: Vec<u64> = settled.iter().filter_map(|hash| self.by_hash.get(hash).copied()).collect();
        let oldest = self.blocks.saturating_sub(self.limits.blocks);
        let expired: Vec<u64> =
            self.results.iter().take_while(|(_, kept)| kept.since < oldest).map(|(number, _)| *number).collect();
        let as_expected = as_expected && expired.is_empty();
        for number in pointless.into_iter().chain(expired) {
            self.remove_result(number);
        }
        // Changes that became final stay here until they outweigh the rest.
        let keys = self.provisional.accounts.len() + self.provisional.storage.len();
        if !as_expected || keys > 1_024 + 16 * self.results.len() {
            self.provisional = Changes::default();
            self.verified_up_to = 0;
        }
    }

    /// Returns the hashes of the transactions whose results may still be adopted.
    pub fn hashes(&self) -> impl Iterator<Item = &B256> {
        self.by_hash.keys()
    }

    pub fn counts(&self) -> SpeculationCounts {
        self.counts
    }

    /// Number of transactions waiting to run.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Number of results that may still be adopted.
    pub fn kept(&self) -> usize {
        self.results.len()
    }

    fn remove_result(&mut self, number: u64) -> Option<CachedResult> {
        let kept = self.results.remove(&number)?;
        self.by_hash.remove(&kept.recorded.transaction_hash);
        self.release(kept.author, kept.bytes);
        Some(kept)
    }

    fn reserve(&mut self, author: ValidatorIndex, bytes: usize) -> bool {
        let limits = self.limits;
        let used = self.used.entry(author).or_default();
        let fits = used.transactions < limits.transactions_per_author && used.bytes + bytes <= limits.bytes_per_author;
        if fits {
            used.transactions += 1;
            used.bytes += bytes;
        }
        fits
    }

    fn release(&mut self, author: ValidatorIndex, bytes: usize) {
        if let Some(used) = self.used.get_mut(&author) {
            used.transactions -= 1;
            used.bytes -= bytes;
        }
    }
}

fn changes_of(recorded: &Recorded, now: &dyn StateView) -> Changes {
    match &recorded.outcome {
        Ok(executed) => merged(executed.additions.resolve(now), executed.changes.clone()),
        Err(_) => Changes::default(),
    }
}

fn merged(mut changes: Changes, later: Changes) -> Changes {
    changes.merge(later);
    changes
}
