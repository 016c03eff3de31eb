//! Ring of the last 64 committees, for evidence and for stake that waits: hash, price of a vote and seats.

use crate::{
    Slots, Tag, ValidatorId,
    record::{Committee, FreezeNumber},
    slots::{Area, Values as _, area, epoch_number, epoch_of, narrow},
};
use alloy_primitives::{B256, U256};
use corniche_types::{Epoch, Votes};

/// Number of epochs in the ring.
pub const RING_EPOCHS: u64 = 64;

/// Returns the epochs that are in the ring while an epoch runs, ascending.
pub fn ring_epochs(running: Epoch) -> impl Iterator<Item = Epoch> {
    let first = running.0.saturating_add(1).saturating_sub(RING_EPOCHS);
    (first..=running.0).map(Epoch)
}

/// A committee of the ring, without its seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastCommittee {
    /// Epoch in which it sat.
    pub epoch: Epoch,
    /// Hash of the committee, part of everything that it signed.
    pub hash: B256,
    /// Freeze that made it.
    pub frozen_in: FreezeNumber,
    /// Number of members.
    pub members: u64,
    /// W: all votes.
    pub total: Votes,
    /// Price of a vote, in wei.
    pub unit: U256,
}

/// Seat of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The member.
    pub id: ValidatorId,
    /// Its votes.
    pub votes: Votes,
    /// Hash of the keys that it signed with ([`Keys::signing_hash`](crate::Keys::signing_hash)).
    pub signing_hash: B256,
}

impl PastCommittee {
    /// Reads the committee of an epoch; `None` if the ring does not have it.
    pub fn load<S: Slots>(slots: &mut S, epoch: Epoch) -> Result<Option<Self>, S::Error> {
        let place = head(epoch);
        let [stored, frozen_in, members, total] = slots.load_four(place.slot(1))?;
        if epoch_of(stored) != Some(epoch) {
            return Ok(None);
        }
        let (hash, unit) = (slots.load(place.slot(0))?, slots.load_number(place.slot(2))?);
        Ok(Some(Self { epoch, hash, frozen_in: FreezeNumber(frozen_in), members, total: Votes(narrow(total)), unit }))
    }

    /// Reads a seat; `None` if the committee has no such index.
    pub fn seat<S: Slots>(&self, slots: &mut S, index: u64) -> Result<Option<Seat>, S::Error> {
        if index >= self.members {
            return Ok(None);
        }
        let place = seat(self.epoch, index);
        let [id, votes, ..] = slots.load_four(place.slot(0))?;
        let (id, votes) = (ValidatorId(narrow(id)), Votes(narrow(votes)));
        Ok(Some(Seat { id, votes, signing_hash: slots.load(place.slot(1))? }))
    }

    /// Reads the seats of the validators that are convicted for what they signed in this epoch, by index: two slots for each member.
    pub fn convicted<S: Slots>(&self, slots: &mut S) -> Result<Vec<(u64, Seat)>, S::Error> {
        let mut convicted = Vec::new();
        for index in 0..self.members {
            let [id, ..] = slots.load_four(seat(self.epoch, index).slot(0))?;
            if is_convicted(slots, self.epoch, ValidatorId(narrow(id)))?
                && let Some(seat) = self.seat(slots, index)?
            {
                convicted.push((index, seat));
            }
        }
        Ok(convicted)
    }

    /// Writes the committee of an epoch over that of 64 epochs before.
    pub fn store<S: Slots>(slots: &mut S, epoch: Epoch, hash: B256, committee: &Committee) -> Result<(), S::Error> {
        for (index, member) in (0u64..).zip(&committee.members) {
            let place = seat(epoch, index);
            slots.store_four(place.slot(0), [member.id.0.into(), member.votes.0.into(), 0, 0])?;
            slots.store(place.slot(1), member.keys.signing_hash())?;
        }
        let (members, total) = (committee.members.len() as u64, committee.weights().total());
        let place = head(epoch);
        slots.store(place.slot(0), hash)?;
        slots.store_four(place.slot(1), [epoch_number(Some(epoch)), committee.frozen_in.0, members, total.0.into()])?;
        slots.store_number(place.slot(2), committee.unit)
    }
}

/// Returns whether a validator is convicted for what it signed in an epoch of the ring.
pub fn is_convicted<S: Slots>(slots: &mut S, epoch: Epoch, id: ValidatorId) -> Result<bool, S::Error> {
    Ok(slots.load_number(conviction(epoch, id))? == U256::from(epoch_number(Some(epoch))))
}

/// Records a conviction. It overwrites one of 64 epochs before.
pub fn set_convicted<S: Slots>(slots: &mut S, epoch: Epoch, id: ValidatorId) -> Result<(), S::Error> {
    slots.store_number(conviction(epoch, id), U256::from(epoch_number(Some(epoch))))
}

fn head(epoch: Epoch) -> Area {
    area(Tag::Ring, epoch.0 % RING_EPOCHS, 0)
}

fn seat(epoch: Epoch, index: u64) -> Area {
    area(Tag::Ring, epoch.0 % RING_EPOCHS, index.saturating_add(1))
}

fn conviction(epoch: Epoch, id: ValidatorId) -> B256 {
    area(Tag::Conviction, epoch.0 % RING_EPOCHS, id.0.into()).slot(0)
}
