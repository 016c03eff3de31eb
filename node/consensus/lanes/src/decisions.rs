//! Decided slots, of the engines that decide each slot on its own.

use crate::{Exchange, LaneValue, Position, Tip, advance};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::CommitIndex;
use std::collections::BTreeMap;

/// Slots above the last known decision in which a validator takes part. One that is further behind first learns decisions.
pub const MAX_SLOTS_AHEAD: u64 = 1_024;
/// Maximum number of decisions in one response.
pub const MAX_DECISIONS: usize = 256;

/// Number of decisions of this size in one response, at most about 1 MiB.
pub fn decisions_at_once(bytes: usize) -> usize {
    MAX_DECISIONS.min((1 << 20) / bytes).max(1)
}

/// Decisions up to this one are forgotten. `retain` of the delivered ones are kept, four times as many while no certificate covers
/// them.
pub fn retention_floor(delivered: u64, certified: u64, retain: u64) -> u64 {
    certified.min(delivered.saturating_sub(retain)).max(delivered.saturating_sub(4 * retain))
}

/// Position in the log. The first one is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Slot(pub u64);

impl Slot {
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Position for Slot {
    fn index(&self) -> CommitIndex {
        CommitIndex(self.0)
    }
}

struct Decision<V> {
    value: V,
    is_durable: bool,
}

/// Result of [`Decisions::add`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    New,
    /// Known or forgotten already, or too far ahead.
    Ignored,
    /// The slot was decided with another value: agreement is lost.
    Contradiction,
}

/// Decisions of this validator: delivered ones, which others may need, and those that wait for delivery. The last delivered slot belongs
/// to the engine's checkpoint, so it is an argument.
pub struct Decisions<V> {
    decided: BTreeMap<Slot, Decision<V>>,
    /// All slots up to this one are decided.
    contiguous: Slot,
    /// Slots up to this one are forgotten.
    floor: Slot,
}

impl<V: LaneValue> Decisions<V> {
    /// Decisions from the records.
    pub fn recovered(delivered: Slot, records: BTreeMap<Slot, V>) -> Self {
        let decided = |(slot, value)| (slot, Decision { value, is_durable: true });
        let mut decided: BTreeMap<_, _> = records.into_iter().map(decided).collect();
        let mut floor = delivered;
        // Slots before a gap are of no use for others.
        while floor.0 > 0 && decided.contains_key(&floor) {
            floor.0 -= 1;
        }
        decided.retain(|slot, _| *slot > floor);
        let mut decisions = Self { decided, contiguous: delivered, floor };
        decisions.advance_contiguous();
        decisions
    }

    /// All slots up to this one are decided.
    pub fn contiguous(&self) -> Slot {
        self.contiguous
    }

    /// Slots up to this one are forgotten.
    pub fn floor(&self) -> Slot {
        self.floor
    }

    pub fn last(&self) -> Option<Slot> {
        self.decided.last_key_value().map(|(slot, _)| *slot)
    }

    pub fn count(&self) -> usize {
        self.decided.len()
    }

    pub fn contains(&self, slot: Slot) -> bool {
        self.decided.contains_key(&slot)
    }

    pub fn get(&self, slot: Slot) -> Option<&V> {
        self.decided.get(&slot).map(|decision| &decision.value)
    }

    /// The decision of a slot, once it is on disk. Only then it is delivered: a commit may outlive a power cut in the caller's store, and a
    /// validator that delivered a slot takes no part in it any more, so it must be able to tell others the decision.
    pub fn durable(&self, slot: Slot) -> Option<&V> {
        self.decided.get(&slot).filter(|decision| decision.is_durable).map(|decision| &decision.value)
    }

    /// Consecutive decisions from a slot on, at most `most`.
    pub fn values_from(&self, first: Slot, most: usize) -> Vec<V> {
        (first.0..).map_while(|slot| self.get(Slot(slot))).take(most).cloned().collect()
    }

    /// Decisions above the delivered ones.
    pub fn waiting(&self, delivered: Slot) -> impl Iterator<Item = &V> {
        self.decided.range(delivered.next()..).map(|(_, decision)| &decision.value)
    }

    /// Advances tips to those of the decisions that wait for delivery.
    pub fn cover(&self, delivered: Slot, tips: &mut [Tip]) {
        self.waiting(delivered).for_each(|value| advance(tips, value.tips()));
    }

    /// Adds a decision that is not on disk yet. A delivered slot whose decision is not held was forgotten.
    pub fn add(&mut self, slot: Slot, value: &V, delivered: Slot) -> Added {
        if let Some(known) = self.get(slot) {
            return if known == value { Added::Ignored } else { Added::Contradiction };
        }
        if slot <= self.floor.max(delivered) || slot.0 > self.contiguous.0 + MAX_SLOTS_AHEAD {
            return Added::Ignored;
        }
        self.decided.insert(slot, Decision { value: value.clone(), is_durable: false });
        self.advance_contiguous();
        Added::New
    }

    pub fn mark_durable(&mut self, slot: Slot) {
        if let Some(decision) = self.decided.get_mut(&slot) {
            decision.is_durable = true;
        }
    }

    /// Returns true if nobody needs this validator in the slot any more, also after a power cut.
    pub fn is_settled(&self, slot: Slot, delivered: Slot) -> bool {
        slot <= self.floor || self.decided.get(&slot).map_or(slot <= delivered, |decision| decision.is_durable)
    }

    /// Forgets slots up to `floor`, and their batches.
    pub fn release(&mut self, floor: Slot, exchange: &mut Exchange) {
        while self.floor < floor {
            self.floor = self.floor.next();
            if let Some(decision) = self.decided.remove(&self.floor) {
                exchange.release(decision.value.tips());
            }
        }
    }

    fn advance_contiguous(&mut self) {
        while self.decided.contains_key(&self.contiguous.next()) {
            self.contiguous = self.contiguous.next();
        }
    }
}
