//! Running transactions before they are ordered (rules S1 to S6 of Basil in a chain).
//!
//! 1. [`Speculator::offer`]: a proposal's transactions, as soon as it is seen. They wait in that order, which is their
//!    provisional position (S1).
//! 2. [`Speculator::next_waiting`] and [`Speculator::run`]: one at a time, when there is nothing better to do, against the newest state and
//!    the provisional results so far. The result is kept with what it follows from, by content ([`Recorded`]).
//! 3. [`Speculator::take`]: when a block is ordered, the results of its transactions go to the executor, which adopts those
//!    whose reads resolve to the same in their place (S2). [`Speculator::settle`] then forgets whatever the block made pointless.
//!
//! What always holds: nothing here decides anything. A result that is missing, stale or wrong about its place costs a run, never
//! correctness; what is kept is bounded in number and bytes, each author's share too, and the youngest are dropped first (S5).

use crate::{Candidate, Recorded, Recorder};
use corniche_crypto::VerifiedTransaction;
use corniche_state::{Changes, Overlay, StateView};
use corniche_types::{Address, B256, Bytes, ValidatorIndex, keccak256};
use corniche_vm::{BlockEnv, Vm};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How much may be run early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeculationLimits {
    /// Transactions of one author that wait or are kept.
    pub transactions_per_author: usize,
    /// Bytes of one author's transactions that wait, and of their results.
    pub bytes_per_author: usize,
    /// Gas that one transaction may declare: a single run must not keep the thread from an ordered block for long.
    pub gas: u64,
    /// Blocks after which a result that no block asked for is forgotten.
    pub blocks: u64,
}

impl Default for SpeculationLimits {
    fn default() -> Self {
        Self { transactions_per_author: 512, bytes_per_author: 4 << 20, gas: 2_000_000, blocks: 64 }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Speculator {
    limits: SpeculationLimits,
    waiting: VecDeque<Waiting>,
    /// Results in the order in which they were come to.
    results: BTreeMap<u64, Kept>,
    by_hash: BTreeMap<B256, u64>,
    /// Results so far.
    count: u64,
    /// Blocks settled.
    blocks: u64,
    /// Of everything that waits or is kept.
    used: BTreeMap<ValidatorIndex, Used>,
    counts: SpeculationCounts,
    /// What the kept results up to `gathered` change, on top of the state.
    provisional: Changes,
    /// Number of the last result that is known to hold where it stands. Behind the newest one after a block that was not as
    /// expected: then the rest is looked through again, a few at a time, before anything new is run.
    gathered: u64,
}

/// What speculation did so far (S6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpeculationCounts {
    /// Transactions run early.
    pub runs: u64,
    /// Of these, those without a result: not valid in the state they met.
    pub without_result: u64,
    /// Transactions seen and not run early: above their author's share.
    pub passed_over: u64,
}

/// Results checked in one step. A step ends at the first one that has to run again: ordered work waits for one run at most.
const CHECKS_PER_STEP: usize = 16;

/// A transaction that was seen and not yet run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub author: ValidatorIndex,
    pub raw: Bytes,
    hash: B256,
}

#[derive(Debug)]
struct Kept {
    recorded: Recorded,
    transaction: VerifiedTransaction,
    author: ValidatorIndex,
    bytes: usize,
    /// Blocks settled when it was run.
    since: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Used {
    transactions: usize,
    bytes: usize,
}

impl Speculator {
    pub fn new(limits: SpeculationLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Takes a proposal's transactions; what is above the author's share is passed over, and will run when it is ordered.
    pub fn offer(&mut self, author: ValidatorIndex, transactions: impl IntoIterator<Item = Bytes>) {
        for raw in transactions {
            let hash = keccak256(&raw);
            if self.by_hash.contains_key(&hash) {
                continue;
            }
            if !self.reserve(author, raw.len()) {
                self.counts.passed_over += 1;
                continue;
            }
            self.waiting.push_back(Waiting { author, raw, hash });
        }
    }

    /// Takes one step in the repair of the kept results after a block that was not as expected. A step checks a few of them and ends
    /// with the first one that no longer holds, which it runs again: everything built on it would fail as well. Returns false when all
    /// results hold.
    pub fn repair(&mut self, vm: &Vm, state: &dyn StateView, env: &BlockEnv) -> bool {
        let behind = self.gathered.saturating_add(1)..;
        let numbers: Vec<u64> = self.results.range(behind).map(|(number, _)| *number).take(CHECKS_PER_STEP).collect();
        for number in &numbers {
            self.gathered = *number;
            if !self.adopt_again(*number, state, env) {
                self.run_again(*number, vm, state, env);
                break;
            }
        }
        if numbers.is_empty() {
            self.gathered = self.count;
        }
        !numbers.is_empty()
    }

    /// Adds a result to what is provisional; false if it does not hold there.
    fn adopt_again(&mut self, number: u64, state: &dyn StateView, env: &BlockEnv) -> bool {
        let Some(Kept { recorded, transaction, .. }) = self.results.get(&number) else { return true };
        let now = Overlay { base: state, changes: &self.provisional };
        let holds = recorded.is_of(transaction, &recorded.tip_to, env) && recorded.reads.hold(&now);
        if holds {
            let changed = changes_of(recorded, &now);
            self.provisional.merge(changed);
        }
        holds
    }

    /// Replaces a result by that of another run, in its place.
    fn run_again(&mut self, number: u64, vm: &Vm, state: &dyn StateView, env: &BlockEnv) {
        let Some(Kept { recorded, transaction, author, since, .. }) = self.forget(number) else { return };
        if let Some((recorded, changed)) = self.attempt(vm, state, env, &transaction, recorded.tip_to)
            && self.keep(number, author, &transaction, recorded, since)
        {
            self.provisional.merge(changed);
        }
    }

    /// The transaction that has waited longest. Check it, and hand it to [`Self::run`].
    pub fn next_waiting(&mut self) -> Option<Waiting> {
        let waiting = self.waiting.pop_front()?;
        self.release(waiting.author, waiting.raw.len());
        Some(waiting)
    }

    /// Runs a checked transaction in a block like `env` on top of `state` and of the provisional results, and keeps what came of it.
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
            if self.gathered == self.count {
                self.provisional.merge(changed);
                self.gathered = number;
            }
            self.count = number;
        }
    }

    /// The result on top of what is provisional, with what it changes there. A skipped transaction changes nothing and is checked at
    /// once when it is ordered: that is no result worth keeping.
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

    /// Keeps a result if there is room for it in its author's share.
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
            self.results.insert(number, Kept { recorded, transaction: transaction.clone(), author, bytes, since });
        }
        fits
    }

    /// The transaction of these bytes, if it was checked and its result is kept. The same bytes, so the same verdict.
    pub fn verified(&self, raw: &[u8]) -> Option<VerifiedTransaction> {
        if self.results.is_empty() {
            return None;
        }
        let number = self.by_hash.get(&keccak256(raw))?;
        self.results.get(number).map(|kept| kept.transaction.clone())
    }

    /// The result for this candidate, if there is one.
    pub fn take(&mut self, candidate: &Candidate) -> Option<Recorded> {
        let hash = candidate.verified.as_ref().ok()?.transaction().hash();
        let kept = self.forget(*self.by_hash.get(&hash)?)?;
        Some(kept.recorded)
    }

    /// The state has moved by a block of these candidates: they need not run any more. `as_expected`: all of them had been run
    /// and their results adopted, so what is provisional has become final and the rest of it still stands on top.
    pub fn settle(&mut self, candidates: &[Candidate], as_expected: bool) {
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
            self.forget(number);
        }
        // What became final stays in here until it outweighs the rest.
        let keys = self.provisional.accounts.len() + self.provisional.storage.len();
        if !as_expected || keys > 1_024 + 16 * self.results.len() {
            self.provisional = Changes::default();
            self.gathered = 0;
        }
    }

    /// The transactions whose results wait to be adopted.
    pub fn hashes(&self) -> impl Iterator<Item = &B256> {
        self.by_hash.keys()
    }

    pub fn counts(&self) -> SpeculationCounts {
        self.counts
    }

    /// Transactions that wait to be run.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Results that wait to be adopted.
    pub fn kept(&self) -> usize {
        self.results.len()
    }

    fn forget(&mut self, number: u64) -> Option<Kept> {
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
