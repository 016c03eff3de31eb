//! Validation: checks that what a transaction has read is still current.
//!
//! Values are validated by push. [`Cells::publish`](crate::mvstore::Cells::publish) returns exactly the readers that
//! saw a content other than the current one, and [`Publication`] invalidates them before the writer counts as executed.
//! So a transaction that has executed and was not invalidated is valid with respect to everything published below it.
//! It is valid for good once everything below it is final.
//!
//! Predicate reads are not invalidated by every change. They are evaluated again when everything below is final (D8).

use crate::Predicate;
use crate::core::{Core, Outcome, PendingResult, Published};
use crate::mvstore::{CellId, Write};
use crate::schedule::Reader;
use corniche_state::{Account, Delta};
use corniche_types::{Address, B256, U256};
use corniche_vm::Executed;
use std::collections::btree_map::IntoIter;

/// D2: publishes an attempt's result to the store, key by key.
pub(crate) struct Publication {
    pub reader: Reader,
    /// Everything below is final, so this result will not change.
    exact: bool,
    accounts: IntoIter<Address, Option<Account>>,
    balances: IntoIter<Address, U256>,
    storage: IntoIter<(Address, B256), B256>,
    counters: IntoIter<(Address, B256), Delta>,
    work: PendingResult,
    /// Cells that earlier attempts published and this one does not.
    left: Option<Published>,
    invalidated: Vec<Reader>,
    /// Hash of the key read by the `invalidated` readers, for conflict prediction.
    key: u64,
    /// Number of results and attempts invalidated so far.
    pub invalidations: u64,
}

impl Publication {
    pub fn new(
        core: &Core<'_>,
        reader: Reader,
        exact: bool,
        outcome: Result<Executed, Outcome>,
        predicates: Vec<Predicate>,
    ) -> Self {
        let (outcome, changes, additions) = match outcome {
            Ok(Executed { receipt, mut changes, additions, .. }) => {
                let code = std::mem::take(&mut changes.code);
                core.add_code(&code);
                (Outcome::Executed { receipt: Box::new(receipt), code }, changes, additions)
            }
            Err(outcome) => (outcome, Default::default(), Default::default()),
        };
        Self {
            reader,
            exact,
            accounts: changes.accounts.into_iter(),
            balances: additions.balances.into_iter(),
            storage: changes.storage.into_iter(),
            counters: additions.counters.into_iter(),
            work: PendingResult { outcome: Some(outcome), predicates, ..PendingResult::default() },
            left: None,
            invalidated: Vec::new(),
            key: 0,
            invalidations: 0,
        }
    }

    /// Does one step: invalidates one reader, or publishes or withdraws one key. Returns false when nothing is left to
    /// do.
    pub fn step(&mut self, core: &Core<'_>) -> bool {
        if let Some(reader) = self.invalidated.pop() {
            if core.invalidate(reader) {
                self.invalidations += 1;
                core.record_conflict(reader.position, self.key);
            }
            return true;
        }
        if let Some((key, account)) = self.accounts.next() {
            self.account(core, key, Write::Value(account));
        } else if let Some((key, wei)) = self.balances.next() {
            match core.recipient(&key) {
                Some(recipient) => self.work.payments.insert(0, (recipient, wei)),
                None => self.account(core, key, Write::Addition(wei)),
            }
        } else if let Some((key, value)) = self.storage.next() {
            self.slot(core, key, Write::Value(value));
        } else if let Some((key, sum)) = self.counters.next() {
            self.slot(core, key, Write::Addition(sum));
        } else {
            return self.withdraw(core);
        }
        true
    }

    /// Returns the part that is stored under the transaction's lock.
    pub fn into_result(mut self) -> PendingResult {
        if self.exact {
            // The result is final, so it will never be withdrawn.
            self.work.published = Published::default();
        }
        self.work
    }

    fn account(&mut self, core: &Core<'_>, key: Address, write: Write<Address>) {
        let position = self.reader.position;
        let id = core.accounts.publish(&key, position, Some(write), self.exact, core.base, &mut self.invalidated);
        self.work.published.accounts.push(id);
        if !self.invalidated.is_empty() {
            self.key = core.accounts.hash(&key);
        }
    }

    fn slot(&mut self, core: &Core<'_>, key: (Address, B256), write: Write<(Address, B256)>) {
        let position = self.reader.position;
        let id = core.storage.publish(&key, position, Some(write), self.exact, core.base, &mut self.invalidated);
        self.work.published.storage.push(id);
        if !self.invalidated.is_empty() {
            self.key = core.storage.hash(&key);
        }
    }

    fn withdraw(&mut self, core: &Core<'_>) -> bool {
        let position = self.reader.position;
        let left = self.left.get_or_insert_with(|| {
            if self.reader.incarnation == 1 {
                return Published::default();
            }
            let mut left = core.schedule.with_result(position, |work| std::mem::take(&mut work.published));
            subtract(&mut left.accounts, &mut self.work.published.accounts);
            subtract(&mut left.storage, &mut self.work.published.storage);
            left
        });
        if let Some(id) = left.accounts.pop() {
            core.accounts.withdraw(id, position, self.exact, &mut self.invalidated);
        } else if let Some(id) = left.storage.pop() {
            core.storage.withdraw(id, position, self.exact, &mut self.invalidated);
        } else {
            return false;
        }
        true
    }
}

/// Removes the elements of `published` from `left`.
fn subtract(left: &mut Vec<CellId>, published: &mut [CellId]) {
    if !left.is_empty() {
        published.sort_unstable();
        left.retain(|id| published.binary_search(id).is_err());
    }
}
