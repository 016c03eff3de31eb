//! Keys of the coin, and the messages with which members deal them.
//!
//! There are two sides of slots: that of the sitting committee's coin, and the other one for the next coin. Everything is marked
//! with the coin that it is for, so nothing has to be deleted.

use crate::{
    Slots, Tag,
    slots::{Area, Values as _, area, epoch_number},
};
use alloy_primitives::{B256, Bytes};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{Epoch, ValidatorIndex, Votes, wire};
use std::collections::BTreeSet;

/// A coin: the one of the genesis, or one that the members of an epoch dealt for the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct CoinRef {
    /// Epoch that it was dealt for; 0 for the coin of the genesis, which is not in the contract.
    pub generation: Epoch,
    /// Side of its slots, 0 or 1.
    pub(crate) side: u64,
}

/// Keys of a coin that members dealt.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct CoinKeys {
    /// Hash of the members that it was dealt to.
    pub members_hash: B256,
    /// Dealers whose polynomials are in it, by their index in the committee that dealt.
    pub qualified: BTreeSet<ValidatorIndex>,
    /// Votes of members whose shares are as good as public.
    pub exposed: Votes,
    /// Public key of the coin.
    pub combined: Bytes,
    /// Public key of each share.
    pub shares: Vec<Bytes>,
}

impl CoinRef {
    /// The coin of the genesis.
    pub const GENESIS: Self = Self { generation: Epoch(0), side: 0 };

    /// Returns the coin that is dealt for an epoch while this one is in use.
    pub(crate) fn following(self, generation: Epoch) -> Self {
        Self { generation, side: u64::from(self.side == 0) }
    }

    /// Returns whether there is a message of this kind, right or wrong, of a validator by its index.
    pub(crate) fn has<S: Slots>(self, slots: &mut S, tag: Tag, of: ValidatorIndex) -> Result<bool, S::Error> {
        let [mark, ..] = slots.load_four(self.place(tag, of).slot(0))?;
        Ok(mark == epoch_number(Some(self.generation)))
    }

    /// Reads a message; `None` if there is none, or a wrong one.
    pub(crate) fn load<S: Slots, T: BorshDeserialize>(
        self,
        slots: &mut S,
        tag: Tag,
        of: ValidatorIndex,
    ) -> Result<Option<T>, S::Error> {
        if !self.has(slots, tag, of)? {
            return Ok(None);
        }
        let bytes = slots.load_bytes(self.place(tag, of).after(1), MAX_MESSAGE_BYTES)?;
        Ok(wire::decode(&bytes).ok())
    }

    /// Writes a message; `None`: a wrong one.
    pub(crate) fn store<S: Slots>(
        self,
        slots: &mut S,
        tag: Tag,
        of: ValidatorIndex,
        message: Option<&impl BorshSerialize>,
    ) -> Result<(), S::Error> {
        let place = self.place(tag, of);
        slots.store_four(place.slot(0), [epoch_number(Some(self.generation)), 0, 0, 0])?;
        // No encoding is empty.
        slots.store_bytes(place.after(1), &message.map(wire::encode).unwrap_or_default())
    }

    /// Reads the keys; `None` for a coin that is not settled, or of the genesis.
    pub fn keys<S: Slots>(self, slots: &mut S) -> Result<Option<CoinKeys>, S::Error> {
        self.load(slots, Tag::CoinKeys, KEYS)
    }

    /// Writes the keys.
    pub(crate) fn set_keys<S: Slots>(self, slots: &mut S, keys: &CoinKeys) -> Result<(), S::Error> {
        self.store(slots, Tag::CoinKeys, KEYS, Some(keys))
    }

    fn place(self, tag: Tag, of: ValidatorIndex) -> Area {
        area(tag, self.side, of.0.into())
    }
}

/// Place of the keys among those of a tag.
const KEYS: ValidatorIndex = ValidatorIndex(0);

/// More than a dealing for, or the keys of, the largest committee.
const MAX_MESSAGE_BYTES: usize = 1 << 17;
