//! The state as one attempt at a transaction sees it: the block's results below its position (D1).

use crate::core::Core;
use crate::mvstore::{Cells, Key, Part, ReadResult};
use crate::schedule::{Position, Reader};
use crate::sync::{Mutex, MutexGuard, PoisonError};
use crate::{Predicate, Recorded};
use corniche_state::{Account, AccountCode, StateView};
use corniche_types::{Address, B256, Bytes, U256};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) struct Attempt<'c> {
    pub reader: Reader,
    /// Everything below is final, so the attempt reads final values.
    pub exact: bool,
    /// Everything below this position was final when the attempt began.
    frontier: Position,
    core: &'c Core<'c>,
    seen: Mutex<Seen>,
    halted: AtomicBool,
}

#[derive(Default)]
struct Seen {
    predicates: Vec<Predicate>,
    halt: Option<Halt>,
}

/// Why an attempt cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// It needs a value that this lower writer is about to write again.
    Writer(Position),
    /// It needs a value that is known only when everything below is final.
    Frontier,
}

impl<'c> Attempt<'c> {
    pub fn new(core: &'c Core<'c>, reader: Reader, frontier: Position) -> Self {
        Self {
            reader,
            exact: frontier == reader.position,
            frontier,
            core,
            seen: Mutex::default(),
            halted: AtomicBool::new(false),
        }
    }

    pub fn halt(&self) -> Option<Halt> {
        self.seen().halt
    }

    pub fn is_stale(&self) -> bool {
        !self.exact && self.core.schedule.is_stale(self.reader)
    }

    /// Returns the predicates to check when everything below is final.
    pub fn into_predicates(self) -> Vec<Predicate> {
        std::mem::take(&mut self.seen().predicates)
    }

    /// S2: returns whether everything that `recorded` has read is the same here. Every check is a normal read and
    /// registers in the index of readers, so a later change invalidates the result like any other. It costs one look-up
    /// per read.
    pub fn holds(&self, recorded: &Recorded) -> bool {
        recorded.reads.still_hold(self) && self.halt().is_none()
    }

    fn read<K: Key<Content: Default>>(&self, cells: &Cells<K>, key: &K, part: Part) -> K::Content {
        let position = self.reader.position;
        let reader = (!self.exact).then_some(self.reader);
        let halt = match cells.read(key, part, position, reader, self.frontier, self.core.base) {
            ReadResult::Found(content) => return content,
            ReadResult::Estimate(writer) => Halt::Writer(writer),
            ReadResult::NotFinal => Halt::Frontier,
        };
        self.core.record_conflict(position, cells.hash(key));
        self.stop(halt);
        K::Content::default()
    }

    fn stop(&self, halt: Halt) {
        self.seen().halt.get_or_insert(halt);
        self.halted.store(true, Ordering::Release);
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateView for Attempt<'_> {
    fn account(&self, address: &Address) -> Option<Account> {
        if let Some(recipient) = self.core.recipient(address) {
            if !self.exact {
                self.stop(Halt::Frontier);
                return None;
            }
            self.core.pay_out(recipient, self.reader.position);
        }
        self.read(&self.core.accounts, address, Part::Whole)
    }

    /// Payments change no code, so this needs no wait for those to the fee recipients.
    fn account_code(&self, address: &Address) -> AccountCode {
        AccountCode::of(self.read(&self.core.accounts, address, Part::Fixed).as_ref())
    }

    fn storage(&self, address: &Address, slot: &B256) -> B256 {
        self.read(&self.core.storage, &(*address, *slot), Part::Whole)
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        self.core.code(hash)
    }

    /// D8: answered immediately, and checked again when everything below is final.
    fn storage_within(&self, address: &Address, slot: &B256, low: &U256, high: &U256) -> bool {
        let key = (*address, *slot);
        let (position, storage) = (self.reader.position, &self.core.storage);
        let mut predicate = Predicate { key, low: *low, high: *high, answer: false };
        if self.exact {
            return predicate.evaluate(&storage.final_content(&key, position, self.core.base));
        }
        predicate.answer = predicate.evaluate(&storage.read_speculative(&key, position, self.frontier, self.core.base));
        let answer = predicate.answer;
        self.seen().predicates.push(predicate);
        answer
    }

    fn interrupted(&self) -> bool {
        self.halted.load(Ordering::Acquire) || self.is_stale()
    }
}
