//! Whether what a transaction has read is still so.
//!
//! Values are validated by push: [`Cells::publish`](crate::mvstore::Cells::publish) hands over exactly the readers that saw another
//! content than is there now, and [`Publication`] tells them, before the writer counts as executed. So a transaction that has executed and
//! was not told otherwise is valid as far as what is below it has been published, and when all below is final it is valid.
//!
//! What only asked about a bound is not told of every change. It is asked again in its turn, when all below is final (D8).

use crate::Predicate;
use crate::core::{Core, Outcome, Published, Work};
use crate::mvstore::{CellId, Cells, Write};
use crate::schedule::{Position, Reader};
use corniche_state::{Account, StateView, Sum};
use corniche_types::{Address, B256, U256};
use corniche_vm::Executed;
use std::collections::btree_map::IntoIter;

/// D8: whether every question still has its answer. All below `position` is final.
pub(crate) fn predicates_hold(
    storage: &Cells<(Address, B256)>,
    base: &dyn StateView,
    position: Position,
    predicates: &[Predicate],
) -> bool {
    predicates.iter().all(|predicate| predicate.ask(&storage.settled(&predicate.key, position, base)) == predicate.answer)
}

/// D2: an attempt's result on its way into the store, key by key.
pub(crate) struct Publication {
    pub reader: Reader,
    /// All below is final: this is the last word.
    exact: bool,
    accounts: IntoIter<Address, Option<Account>>,
    balances: IntoIter<Address, U256>,
    storage: IntoIter<(Address, B256), B256>,
    counters: IntoIter<(Address, B256), Sum>,
    work: Work,
    /// What earlier attempts published and this one does not.
    left: Option<Published>,
    invalidated: Vec<Reader>,
    /// The key that those have read, for foresight.
    key: u64,
    /// Results and attempts made void so far.
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
            work: Work { outcome: Some(outcome), predicates, ..Work::default() },
            left: None,
            invalidated: Vec::new(),
            key: 0,
            invalidations: 0,
        }
    }

    /// Does one thing: tells one reader, or publishes or withdraws one key. False when there is no more.
    pub fn step(&mut self, core: &Core<'_>) -> bool {
        if let Some(reader) = self.invalidated.pop() {
            if core.invalidate(reader) {
                self.invalidations += 1;
                core.conflict(reader.position, self.key);
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

    /// What remains of it under the transaction's lock.
    pub fn into_work(mut self) -> Work {
        if self.exact {
            // Nobody will take it back.
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

/// Takes what is in `published` out of `left`.
fn subtract(left: &mut Vec<CellId>, published: &mut [CellId]) {
    if !left.is_empty() {
        published.sort_unstable();
        left.retain(|id| published.binary_search(id).is_err());
    }
}
