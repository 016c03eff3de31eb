//! Execution state of one block, shared by its workers.

use crate::conflict_predictor::ConflictPredictor;
use crate::mvstore::{CellId, Cells, Write};
use crate::schedule::{FinalizeResult, Position, Reader, Schedule};
use crate::seed::Seed;
use crate::small_deque::SmallDeque;
use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::{Candidate, Predicate, Recorded};
use corniche_state::StateView;
use corniche_types::{Address, B256, Bytes, Receipt, SkipReason, U256};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Shards of the store per thread; enough that two threads rarely need the same one.
const SHARDS_PER_THREAD: usize = 16;
/// Positions handed out at a time. Small blocks use fewer, so that each thread gets several batches.
const MAX_BATCH: usize = 8;
const BATCHES_PER_THREAD: usize = 32;

pub(crate) struct Core<'c> {
    /// The state before the block.
    pub base: &'c dyn StateView,
    pub accounts: Cells<Address>,
    /// D8: fee recipients of the block, sorted. Nearly every transaction adds to one of them, so payments are counted
    /// outside the store when a transaction becomes final. A reader of such an account waits for the frontier.
    recipients: Vec<Address>,
    pub storage: Cells<(Address, B256)>,
    /// Code deployed in this block, including by discarded attempts. Accounts refer to code by hash, so it needs no
    /// versions.
    code: Mutex<BTreeMap<B256, Bytes>>,
    pub schedule: Schedule<PendingResult>,
    /// Computed while the block already runs: an unpredicted conflict costs time only.
    predictor: OnceLock<ConflictPredictor>,
    totals: Mutex<BlockTotals>,
    /// The lowest final transaction that hit a fault (D5).
    fault: Mutex<Option<(Position, String)>>,
}

/// A transaction's result so far.
#[derive(Default)]
pub(crate) struct PendingResult {
    /// Recorded result to adopt if it still holds.
    pub recorded: Option<Box<Recorded>>,
    pub outcome: Option<Outcome>,
    /// Cells with a version of this transaction that is not folded yet.
    pub published: Published,
    /// Predicates to check again when everything below is final.
    pub predicates: Vec<Predicate>,
    /// Payments in wei, by index of the recipient.
    pub payments: SmallDeque<(usize, U256)>,
}

/// Accumulated results of the final transactions, in order.
#[derive(Default)]
pub(crate) struct BlockTotals {
    pub gas_used: u64,
    pub executed: Vec<Position>,
    pub skipped: Vec<(Position, SkipReason)>,
    pub code: BTreeMap<B256, Bytes>,
    /// Wei received by each recipient and not yet in the store.
    payments: Vec<U256>,
}

#[derive(Clone, Default)]
pub(crate) struct Published {
    pub accounts: Vec<CellId>,
    pub storage: Vec<CellId>,
}

pub(crate) enum Outcome {
    Executed { receipt: Box<Receipt>, code: BTreeMap<B256, Bytes> },
    Skipped(SkipReason),
    Fault(String),
}

impl<'c> Core<'c> {
    /// `results` holds each transaction's initial work; `recipients` are the accounts to which nearly all transactions
    /// add.
    pub fn new(
        base: &'c dyn StateView,
        results: impl ExactSizeIterator<Item = PendingResult>,
        mut recipients: Vec<Address>,
        threads: usize,
        seed: &Seed,
    ) -> Self {
        let keys = results.len();
        let shards = SHARDS_PER_THREAD * threads;
        let batch = (keys / (BATCHES_PER_THREAD * threads.max(1))).clamp(1, MAX_BATCH);
        recipients.sort_unstable();
        recipients.dedup();
        let totals = BlockTotals { payments: vec![U256::ZERO; recipients.len()], ..BlockTotals::default() };
        Self {
            base,
            accounts: Cells::new(shards, 2 * keys, seed.clone()),
            storage: Cells::new(shards, keys, seed.clone()),
            code: Mutex::default(),
            recipients,
            schedule: Schedule::new(results, batch),
            predictor: OnceLock::new(),
            totals: Mutex::new(totals),
            fault: Mutex::default(),
        }
    }

    /// Returns the index of a recipient.
    pub fn recipient(&self, address: &Address) -> Option<usize> {
        self.recipients.binary_search(address).ok()
    }

    /// Adds the payments from below `position` to the recipient's account. Everything below `position` must be final.
    pub fn pay_out(&self, recipient: usize, position: Position) {
        let wei = std::mem::take(&mut self.totals().payments[recipient]);
        if !wei.is_zero() {
            let write = Some(Write::Addition(wei));
            self.accounts.publish(&self.recipients[recipient], position, write, true, self.base, &mut Vec::new());
        }
    }

    /// Predicts conflicts. Called once per block.
    pub fn predict_conflicts(&self, candidates: &[Candidate]) {
        self.predictor.get_or_init(|| ConflictPredictor::new(candidates, self.accounts.seed()));
    }

    /// Lower positions that should be final before `position` runs.
    pub fn predecessors(&self, position: Position) -> impl Iterator<Item = Position> {
        self.predictor.get().into_iter().flat_map(move |predictor| predictor.predecessors(position))
    }

    /// Records a conflict of `position` with a lower one; `key` is the hash of the key.
    pub fn record_conflict(&self, position: Position, key: u64) {
        if let Some(predictor) = self.predictor.get() {
            predictor.record_conflict(position, key);
        }
    }

    pub fn code(&self, hash: &B256) -> Option<Bytes> {
        self.base.code(hash).or_else(|| self.code.lock().unwrap_or_else(PoisonError::into_inner).get(hash).cloned())
    }

    /// Must be called before the account that refers to the code is published.
    pub fn add_code(&self, code: &BTreeMap<B256, Bytes>) {
        if !code.is_empty() {
            let code = code.iter().map(|(hash, code)| (*hash, code.clone()));
            self.code.lock().unwrap_or_else(PoisonError::into_inner).extend(code);
        }
    }

    /// D3: invalidates `reader`, because a value it read changed.
    pub fn invalidate(&self, reader: Reader) -> bool {
        self.schedule.invalidate(reader, |work| self.withdraw_result(reader.position, work))
    }

    /// D3: turns everything a transaction has published into estimates.
    pub fn withdraw_result(&self, position: Position, work: &mut PendingResult) {
        for id in &work.published.accounts {
            self.accounts.estimate(*id, position);
        }
        for id in &work.published.storage {
            self.storage.estimate(*id, position);
        }
        work.outcome = None;
    }

    /// D4, D5, D8: makes `position` final if it is at the frontier and its result holds.
    pub fn finalize(&self, position: Position, bounds_violated: &mut u64) -> FinalizeResult {
        self.schedule.finalize(position, |work| {
            if !predicates_hold(&self.storage, self.base, position, &work.predicates) {
                *bounds_violated += 1;
                self.withdraw_result(position, work);
                return false;
            }
            let totals = &mut *self.totals();
            while let Some((recipient, wei)) = work.payments.pop_front() {
                totals.payments[recipient] = totals.payments[recipient].saturating_add(wei);
            }
            match &mut work.outcome {
                Some(Outcome::Executed { receipt, code }) => {
                    totals.gas_used = totals.gas_used.saturating_add(receipt.gas_used);
                    receipt.cumulative_gas_used = totals.gas_used;
                    totals.executed.push(position);
                    totals.code.append(code);
                }
                Some(Outcome::Skipped(reason)) => totals.skipped.push((position, *reason)),
                Some(Outcome::Fault(text)) => {
                    let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
                    fault.get_or_insert_with(|| (position, text.clone()));
                    self.schedule.close();
                }
                None => unreachable!("it has executed"),
            }
            true
        })
    }

    /// Returns whether everything is final and no transaction hit a fault.
    pub fn is_complete(&self) -> bool {
        self.schedule.all_final() && self.fault().is_none()
    }

    /// Returns the accumulated results. Everything must be final.
    pub fn take_totals(&self) -> BlockTotals {
        for recipient in 0..self.recipients.len() {
            self.pay_out(recipient, self.schedule.frontier());
        }
        std::mem::take(&mut *self.totals())
    }

    /// Returns an executed transaction's receipt and drops the rest of its result. Everything must be final.
    pub fn take_receipt(&self, position: Position) -> Receipt {
        match self.schedule.with_result(position, std::mem::take).outcome {
            Some(Outcome::Executed { receipt, .. }) => *receipt,
            _ => unreachable!("each executed transaction is taken once"),
        }
    }

    fn totals(&self) -> MutexGuard<'_, BlockTotals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn fault(&self) -> Option<(Position, String)> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// D8: returns whether every predicate still has its recorded answer. Everything below `position` must be final.
fn predicates_hold(
    storage: &Cells<(Address, B256)>,
    base: &dyn StateView,
    position: Position,
    predicates: &[Predicate],
) -> bool {
    predicates
        .iter()
        .all(|predicate| predicate.evaluate(&storage.final_content(&predicate.key, position, base)) == predicate.answer)
}
