//! A validator's unbonding queue: stake that is still liable for what its votes signed.
//!
//! A ring of 16 entries by age. Each entry names a freeze: the first one that was computed without its stake. It is free
//! when the committee that sat `unbonding_epochs` ago comes from this freeze or a later one (S10). A committee that is kept
//! keeps its freeze, so stake that still votes is never free.

use crate::{
    Slots, Tag, ValidatorId,
    record::{FreezeNumber, PastCommittee},
    slots::{Area, Values as _, area},
};
use alloy_primitives::U256;
use corniche_types::{Epoch, StakingParameters};

/// Maximum number of entries.
const MAX_ENTRIES: u64 = 16;

/// Queue of one validator.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    id: ValidatorId,
    /// Position of the oldest entry.
    first: u64,
    length: u64,
}

/// One entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unbonding {
    /// Stake in wei.
    pub amount: U256,
    /// First freeze without this stake (s in S9). The stake is free once it is reached.
    pub first_freeze_without: FreezeNumber,
}

impl Unbonding {
    /// Returns whether the stake can be withdrawn. `reached` comes from [`reached_freeze`].
    pub fn is_free(&self, reached: FreezeNumber) -> bool {
        self.first_freeze_without <= reached
    }
}

impl Queue {
    /// Reads the positions of a validator's queue.
    pub fn load<S: Slots>(slots: &mut S, id: ValidatorId) -> Result<Self, S::Error> {
        let [first, length, ..] = slots.load_four(positions(id))?;
        Ok(Self { id, first, length: length.min(MAX_ENTRIES) })
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Reads all entries, the oldest one first.
    pub fn entries<S: Slots>(&self, slots: &mut S) -> Result<Vec<Unbonding>, S::Error> {
        (0..self.length).map(|age| self.entry(slots, age)).collect()
    }

    /// Adds stake. It joins the newest entry if that waits for the same freeze, or if the queue is full: then the whole entry
    /// waits for the later freeze, so stake is never liable for a shorter time.
    pub fn push<S: Slots>(&mut self, slots: &mut S, added: Unbonding) -> Result<(), S::Error> {
        if let Some(newest) = self.length.checked_sub(1) {
            let entry = self.entry(slots, newest)?;
            if entry.first_freeze_without == added.first_freeze_without || self.length >= MAX_ENTRIES {
                let amount = entry.amount.saturating_add(added.amount);
                return self.set_entry(slots, newest, Unbonding { amount, ..added });
            }
        }
        self.set_entry(slots, self.length, added)?;
        self.length = self.length.saturating_add(1);
        self.store(slots)
    }

    /// Removes the entries that are free, the oldest ones. Returns their number and their stake.
    pub fn take_free<S: Slots>(&mut self, slots: &mut S, reached: FreezeNumber) -> Result<(u64, U256), S::Error> {
        let (count, amount) = self.free(slots, reached)?;
        for age in 0..count {
            self.set_entry(slots, age, Unbonding::default())?;
        }
        self.first = self.first.wrapping_add(count) % MAX_ENTRIES;
        self.length = self.length.saturating_sub(count);
        self.store(slots)?;
        Ok((count, amount))
    }

    /// Returns number and stake of the entries that are free. `reached` comes from [`reached_freeze`].
    pub fn free<S: Slots>(&self, slots: &mut S, reached: FreezeNumber) -> Result<(u64, U256), S::Error> {
        let (mut count, mut amount) = (0u64, U256::ZERO);
        for age in 0..self.length {
            let entry = self.entry(slots, age)?;
            if !entry.is_free(reached) {
                break;
            }
            count = count.saturating_add(1);
            amount = amount.saturating_add(entry.amount);
        }
        Ok((count, amount))
    }

    /// Takes stake that voted in the committee of a freeze, from the oldest entries first. Returns the amount, which is less if there is
    /// less. Entries stay, so that all of them leave the queue in the same way.
    pub(crate) fn slash<S: Slots>(&self, slots: &mut S, committee: FreezeNumber, amount: U256) -> Result<U256, S::Error> {
        let mut taken = U256::ZERO;
        for age in 0..self.length {
            let entry = self.entry(slots, age)?;
            if entry.first_freeze_without <= committee {
                continue;
            }
            let part = entry.amount.min(amount.saturating_sub(taken));
            if !part.is_zero() {
                self.set_entry(slots, age, Unbonding { amount: entry.amount.saturating_sub(part), ..entry })?;
                taken = taken.saturating_add(part);
            }
        }
        Ok(taken)
    }

    fn entry<S: Slots>(&self, slots: &mut S, age: u64) -> Result<Unbonding, S::Error> {
        let place = self.place(age);
        let (amount, freeze) = (slots.load_number(place.slot(0))?, slots.load_number(place.slot(1))?);
        Ok(Unbonding { amount, first_freeze_without: FreezeNumber(freeze.saturating_to()) })
    }

    fn set_entry<S: Slots>(&self, slots: &mut S, age: u64, entry: Unbonding) -> Result<(), S::Error> {
        let place = self.place(age);
        slots.store_number(place.slot(0), entry.amount)?;
        slots.store_number(place.slot(1), U256::from(entry.first_freeze_without.0))
    }

    fn place(&self, age: u64) -> Area {
        area(Tag::Queue, self.id.0.into(), 1 + self.first.wrapping_add(age) % MAX_ENTRIES)
    }

    fn store<S: Slots>(&self, slots: &mut S) -> Result<(), S::Error> {
        // An empty queue starts at 0 again, so that a deleted validator leaves no slot.
        let first = if self.length == 0 { 0 } else { self.first };
        slots.store_four(positions(self.id), [first, self.length, 0, 0])
    }
}

/// Returns the freeze up to which unbondings are free in this epoch (S10): that of the committee which sat `unbonding_epochs`
/// ago. That of the genesis in the first epochs, in which nothing is free.
pub fn reached_freeze<S: Slots>(slots: &mut S, epoch: Epoch, parameters: &StakingParameters) -> Result<FreezeNumber, S::Error> {
    let Some(past) = epoch.0.checked_sub(parameters.unbonding_epochs) else { return Ok(FreezeNumber::GENESIS) };
    Ok(PastCommittee::load(slots, Epoch(past))?.map_or(FreezeNumber::GENESIS, |committee| committee.frozen_in))
}

fn positions(id: ValidatorId) -> alloy_primitives::B256 {
    area(Tag::Queue, id.0.into(), 0).slot(0)
}
