//! Counters: slots that a transaction adds to or subtracts from without reading them (D8).
//!
//! While a slot is not loaded, the journal holds only the sum of the transaction's additions, not the slot's value. A
//! bound is checked by asking the view whether the value is in a range, so only this bit is a dependency. A loaded slot
//! stays loaded, with earlier additions included in its value. So a slot is never in both the changes *and* the
//! additions. An undo entry from before the load then restores a value: the original plus the earlier sum.
//!
//! An interrupted view may give contradictory answers. The code must not panic on these; its result is then discarded.

use super::{Journal, Slot, SlotKey, Undo};
use alloy_primitives::{B256, U256};
use corniche_state::{Delta, is_in_range};

impl Slot {
    /// A slot with value `original` to which `added` was added.
    pub(super) fn counted(original: B256, added: Delta) -> Self {
        let current = add(original, added);
        Self { original, current, priced: current }
    }
}

impl Journal<'_> {
    /// Returns whether the result stays within the bound: at most `bound` after an addition, at least `bound` after a
    /// subtraction.
    pub fn may_count(&self, key: &SlotKey, change: Delta, bound: &U256) -> bool {
        let allowed = match change {
            Delta::Plus(amount) => bound.checked_sub(amount).map(|most| (U256::ZERO, most)),
            Delta::Minus(amount) => bound.checked_add(amount).map(|least| (least, U256::MAX)),
        };
        allowed.is_some_and(|range| self.is_within(key, range))
    }

    /// Returns whether the slot is zero.
    pub fn is_zero(&self, key: &SlotKey) -> bool {
        self.is_within(key, (U256::ZERO, U256::ZERO))
    }

    /// Applies a change that [`may_count`](Self::may_count) has permitted.
    pub fn count(&mut self, key: &SlotKey, change: Delta) {
        if let Some((at, slot)) = self.known_slot(key) {
            let undo = Undo::Counted(at, slot.current, slot.priced);
            slot.current = add(slot.current, change);
            slot.priced = slot.current;
            self.undo.push(undo);
            return;
        }
        let before = self.added(key);
        self.undo.push(Undo::Counter(*key, before));
        self.set_added(*key, before.and(change));
    }

    /// Undoes a count. `before` is the sum before it, when the slot was not loaded; it may be loaded now.
    pub(super) fn uncount(&mut self, key: SlotKey, before: Delta) {
        match self.known_slot(&key) {
            Some((_, slot)) => *slot = Slot::counted(slot.original, before),
            None => self.set_added(key, before),
        }
    }

    fn added(&self, key: &SlotKey) -> Delta {
        self.additions.counters.get(key).copied().unwrap_or(Delta::ZERO)
    }

    fn set_added(&mut self, key: SlotKey, sum: Delta) {
        if sum.is_zero() {
            self.additions.counters.remove(&key);
        } else {
            self.additions.counters.insert(key, sum);
        }
    }

    /// Returns whether the slot's value is in the inclusive range. Does not load the slot.
    fn is_within(&self, key: &SlotKey, (low, high): (U256, U256)) -> bool {
        if let Some(slot) = self.storage.get(key).and_then(|touched| touched.loaded.as_ref()) {
            return is_in_range(&slot.current, &low, &high);
        }
        // Translate the range to the value before this transaction's additions. Every value is between 0 and 2^256 - 1,
        // so these two limits restrict nothing. Other limits that overflow in the translation restrict nothing, or
        // leave an empty range.
        let base = match self.added(key) {
            Delta::Plus(added) => {
                let high = if high == U256::MAX { Some(high) } else { high.checked_sub(added) };
                high.map(|high| (low.saturating_sub(added), high))
            }
            Delta::Minus(taken) => {
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

pub(super) fn add(word: B256, sum: Delta) -> B256 {
    sum.add_to(U256::from_be_bytes(word.0)).into()
}
