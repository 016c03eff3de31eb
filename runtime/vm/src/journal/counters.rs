//! Counters: slots that a transaction adds to, or takes from, without reading them (D8).
//!
//! While a slot is not loaded the journal knows what was added to it since the transaction began, and nothing of what was there.
//! Whether a bound allows more is asked of the view, as a range of what was there, so that only this bit is a dependency. Once the slot
//! is loaded it stays loaded, and what was added before is part of its value: a slot is never among the changes *and* the
//! additions. An undo entry made before the loading then names a value: what was there, and the sum of that time.
//!
//! A view that takes its answers back may contradict itself. Nothing here panics on it; the result means nothing then.

use super::{Journal, Slot, SlotKey, Undo};
use alloy_primitives::{B256, U256};
use corniche_state::{Sum, lies_within};

impl Slot {
    /// A slot in which `original` was found and to which `added` was added.
    pub(super) fn counted(original: B256, added: Sum) -> Self {
        let current = add(original, added);
        Self { original, current, priced: current }
    }
}

impl Journal<'_> {
    /// Whether the slot's number plus or minus the amount keeps within the bound: at most it after adding, at least it
    /// after taking away.
    pub fn may_count(&self, key: &SlotKey, change: Sum, bound: &U256) -> bool {
        let allowed = match change {
            Sum::Plus(amount) => bound.checked_sub(amount).map(|most| (U256::ZERO, most)),
            Sum::Minus(amount) => bound.checked_add(amount).map(|least| (least, U256::MAX)),
        };
        allowed.is_some_and(|range| self.is_within(key, range))
    }

    /// Whether the slot holds zero.
    pub fn is_zero(&self, key: &SlotKey) -> bool {
        self.is_within(key, (U256::ZERO, U256::ZERO))
    }

    /// Adds what [`may_count`](Self::may_count) allowed.
    pub fn count(&mut self, key: &SlotKey, change: Sum) {
        if let Some((place, slot)) = self.known_slot(key) {
            let undo = Undo::Counted(place, slot.current, slot.priced);
            slot.current = add(slot.current, change);
            slot.priced = slot.current;
            self.undo.push(undo);
            return;
        }
        let before = self.added(key);
        self.undo.push(Undo::Counter(*key, before));
        self.set_added(*key, before.and(change));
    }

    /// Takes a count back: `before` is what was added when the slot was not loaded yet. By now it may be.
    pub(super) fn uncount(&mut self, key: SlotKey, before: Sum) {
        match self.known_slot(&key) {
            Some((_, slot)) => *slot = Slot::counted(slot.original, before),
            None => self.set_added(key, before),
        }
    }

    fn added(&self, key: &SlotKey) -> Sum {
        self.additions.counters.get(key).copied().unwrap_or(Sum::ZERO)
    }

    fn set_added(&mut self, key: SlotKey, sum: Sum) {
        if sum.is_zero() {
            self.additions.counters.remove(&key);
        } else {
            self.additions.counters.insert(key, sum);
        }
    }

    /// Whether the slot's number lies within the range, both ends included. Does not load it.
    fn is_within(&self, key: &SlotKey, (low, high): (U256, U256)) -> bool {
        if let Some(slot) = self.storage.get(key).and_then(|touched| touched.loaded.as_ref()) {
            return lies_within(&slot.current, &low, &high);
        }
        // The same of what was there before this transaction added. That the number lies between 0 and 2^256 - 1 is known, so these two
        // ends bound nothing; others that fall out of it bound nothing either, or leave nothing.
        let base = match self.added(key) {
            Sum::Plus(added) => {
                let high = if high == U256::MAX { Some(high) } else { high.checked_sub(added) };
                high.map(|high| (low.saturating_sub(added), high))
            }
            Sum::Minus(taken) => {
                let low = if low.is_zero() { Some(low) } else { low.checked_add(taken) };
                low.map(|low| (low, high.saturating_add(taken)))
            }
        };
        match base {
            None => false,
            Some((U256::ZERO, U256::MAX)) => true,
            Some((low, high)) => self.view.storage_within(&key.0, &key.1, &low, &high),
        }
    }
}

pub(super) fn add(word: B256, sum: Sum) -> B256 {
    sum.add_to(U256::from_be_bytes(word.0)).into()
}
