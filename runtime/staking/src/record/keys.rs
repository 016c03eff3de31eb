//! Keys: their slots, and the owner of each one that was ever registered, except coin keys.

use crate::{
    Keys, Slots, ValidatorId,
    record::Validator,
    slots::{Area, Values as _, key_area},
};
use alloy_primitives::B256;

impl Keys {
    /// Number of slots.
    pub(crate) const SLOTS: u64 = 7;

    /// Reads keys.
    pub(crate) fn load<S: Slots>(slots: &mut S, from: Area) -> Result<Self, S::Error> {
        Ok(Self {
            consensus: slots.load(from.slot(0))?,
            network: slots.load(from.slot(1))?,
            bls: slots.load_fixed(from.after(2))?,
            coin: slots.load_fixed(from.after(5))?,
        })
    }

    /// Writes keys.
    pub(crate) fn store<S: Slots>(&self, slots: &mut S, to: Area) -> Result<(), S::Error> {
        slots.store(to.slot(0), self.consensus)?;
        slots.store(to.slot(1), self.network)?;
        slots.store_fixed(to.after(2), self.bls.as_slice())?;
        slots.store_fixed(to.after(5), self.coin.as_slice())
    }
}

/// Entry of the table of keys. Entries are never deleted: evidence names keys, and a key serves one validator only (S7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyOwner {
    /// Validator that registered the key.
    pub id: ValidatorId,
    /// True from a conviction on: a validator with this key is no candidate (K3).
    pub is_banned: bool,
}

impl KeyOwner {
    /// Reads the entry of a key; `None` if it was never registered.
    pub fn load<S: Slots>(slots: &mut S, key_hash: B256) -> Result<Option<Self>, S::Error> {
        let [_, _, banned, number] = slots.load_four(key_area(key_hash).slot(0))?;
        let number = number.checked_sub(1).and_then(|number| u32::try_from(number).ok());
        Ok(number.map(|number| Self { id: ValidatorId(number), is_banned: banned != 0 }))
    }

    /// Writes the entry of a key.
    pub fn store<S: Slots>(&self, slots: &mut S, key_hash: B256) -> Result<(), S::Error> {
        let number = u64::from(self.id.0).saturating_add(1);
        slots.store_four(key_area(key_hash).slot(0), [0, 0, self.is_banned.into(), number])
    }
}

/// Sets a validator's keys, and records new ones as used.
pub(crate) fn set_keys<S: Slots>(slots: &mut S, id: ValidatorId, keys: &Keys) -> Result<(), S::Error> {
    for hash in keys.hashes() {
        if KeyOwner::load(slots, hash)?.is_none() {
            KeyOwner { id, is_banned: false }.store(slots, hash)?;
        }
    }
    Validator::new(id).set_keys(slots, keys)
}

/// Returns the hash of a key that is not free: one that was ever registered, or one that is repeated. Keys that stay in
/// their columns of `current` are free, and so are coin keys.
pub(crate) fn used_key<S: Slots>(slots: &mut S, keys: &Keys, current: Option<&Keys>) -> Result<Option<B256>, S::Error> {
    let hashes = keys.hashes();
    let current = current.map(Keys::hashes);
    for (column, hash) in hashes.iter().enumerate() {
        let is_repeated = hashes.iter().take(column).any(|other| other == hash);
        let stays = current.is_some_and(|current| current.get(column) == Some(hash));
        if is_repeated || (!stays && KeyOwner::load(slots, *hash)?.is_some()) {
            return Ok(Some(*hash));
        }
    }
    Ok(None)
}
