//! Registry: numbers of all registered validators, for the freeze. Registration and deletion keep it and the records in step.

use crate::{
    Keys, Slots, Tag, ValidatorId,
    record::{Role, Status, Validator, keys::set_keys},
    slots::{Area, Values as _, area},
};
use alloy_primitives::{Address, U256};
use corniche_types::Epoch;

/// Maximum number of registered validators.
pub const MAX_REGISTERED: u64 = 1_000;

/// Number of registered validators, and of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registry {
    /// Registered validators.
    pub count: u64,
    /// Number that the next validator gets.
    pub next: u64,
}

impl Registry {
    /// Reads the counts.
    pub fn load<S: Slots>(slots: &mut S) -> Result<Self, S::Error> {
        let [count, next, ..] = slots.load_four(place().slot(0))?;
        Ok(Self { count, next })
    }

    fn store<S: Slots>(&self, slots: &mut S) -> Result<(), S::Error> {
        slots.store_four(place().slot(0), [self.count, self.next, 0, 0])
    }

    /// Adds a validator. Returns its number and its position; `None` if there are too many.
    pub fn insert<S: Slots>(mut self, slots: &mut S) -> Result<Option<(ValidatorId, u64)>, S::Error> {
        let Ok(number) = u32::try_from(self.next) else { return Ok(None) };
        if self.count >= MAX_REGISTERED {
            return Ok(None);
        }
        let position = self.count;
        slots.store_number(entry(position), U256::from(number))?;
        self.count = self.count.saturating_add(1);
        self.next = self.next.saturating_add(1);
        self.store(slots)?;
        Ok(Some((ValidatorId(number), position)))
    }

    /// Removes the validator at a position. Returns the one that has the position now, if any: the last one.
    fn remove<S: Slots>(mut self, slots: &mut S, position: u64) -> Result<Option<ValidatorId>, S::Error> {
        self.count = self.count.saturating_sub(1);
        let last = slots.load_number(entry(self.count))?;
        slots.store_number(entry(position), last)?;
        slots.store_number(entry(self.count), U256::ZERO)?;
        self.store(slots)?;
        Ok((position != self.count).then(|| id(last)))
    }

    /// Reads the numbers of all registered validators, in no particular order.
    pub fn ids<S: Slots>(&self, slots: &mut S) -> Result<Vec<ValidatorId>, S::Error> {
        (0..self.count.min(MAX_REGISTERED)).map(|position| Ok(id(slots.load_number(entry(position))?))).collect()
    }
}

/// A validator to register. Keys and stake are checked.
pub(crate) struct NewValidator {
    pub owner: Address,
    pub operator: Address,
    pub fee: Address,
    pub keys: Keys,
    pub stake: U256,
}

impl NewValidator {
    /// Registers the validator. Returns `None`, without any change, if there are too many.
    pub fn register<S: Slots>(&self, slots: &mut S) -> Result<Option<ValidatorId>, S::Error> {
        let registry = Registry::load(slots)?;
        let Some((id, position)) = registry.insert(slots)? else { return Ok(None) };
        let validator = Validator::new(id);
        validator.set_status(slots, Status { position, jailed_until: Epoch(0), rotated_in: None })?;
        validator.set_bonded(slots, self.stake)?;
        validator.set_account(slots, Role::Owner, self.owner)?;
        validator.set_account(slots, Role::Operator, self.operator)?;
        validator.set_account(slots, Role::Fee, self.fee)?;
        set_keys(slots, id, &self.keys)?;
        Ok(Some(id))
    }
}

/// Deletes a validator without stake. Its keys stay used, and its number is never used again.
pub(crate) fn delete_validator<S: Slots>(slots: &mut S, id: ValidatorId, status: Status) -> Result<(), S::Error> {
    let moved = Registry::load(slots)?.remove(slots, status.position)?;
    if let Some(moved) = moved {
        let validator = Validator::new(moved);
        if let Some(other) = validator.status(slots)? {
            validator.set_status(slots, Status { position: status.position, ..other })?;
        }
    }
    Validator::new(id).delete(slots)
}

fn id(number: U256) -> ValidatorId {
    ValidatorId(number.saturating_to())
}

fn place() -> Area {
    area(Tag::Header, 0, 1)
}

fn entry(position: u64) -> alloy_primitives::B256 {
    place().after(1).slot(position)
}
