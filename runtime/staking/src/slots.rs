//! Storage slots, and the values in them.
//!
//! All places follow from a [`Tag`] and two numbers. A place is an area of consecutive slots, at the hash of these.
//! Numbers are big-endian words, like those of Solidity.

use alloy_primitives::{Address, B256, Bytes, FixedBytes, U256, keccak256};
use corniche_state::StateView;
use corniche_types::{Epoch, STAKING_ADDRESS};
use std::{collections::BTreeMap, convert::Infallible};

/// The contract's storage, and a code check for other accounts. Slots that were never stored are zero.
///
/// Everything that a call or a block stores takes effect, or nothing: the implementation reverts after an error.
pub trait Slots {
    /// Reason why a slot is not accessible, for instance too little gas.
    type Error;

    /// Reads a slot.
    fn load(&mut self, slot: B256) -> Result<B256, Self::Error>;

    /// Writes a slot.
    fn store(&mut self, slot: B256, value: B256) -> Result<(), Self::Error>;

    /// Returns whether an account has code. Fees may not go to such an account.
    fn has_code(&mut self, account: Address) -> Result<bool, Self::Error>;
}

/// Values in slots.
pub(crate) trait Values: Slots {
    /// Reads a number.
    fn load_number(&mut self, slot: B256) -> Result<U256, Self::Error> {
        Ok(self.load(slot)?.into())
    }

    /// Writes a number.
    fn store_number(&mut self, slot: B256, value: U256) -> Result<(), Self::Error> {
        self.store(slot, value.into())
    }

    /// Reads four numbers that share a slot.
    fn load_four(&mut self, slot: B256) -> Result<[u64; 4], Self::Error> {
        let mut limbs = self.load_number(slot)?.into_limbs();
        limbs.reverse();
        Ok(limbs)
    }

    /// Writes four numbers into one slot, the first one in the highest bits.
    fn store_four(&mut self, slot: B256, mut values: [u64; 4]) -> Result<(), Self::Error> {
        values.reverse();
        self.store_number(slot, U256::from_limbs(values))
    }

    /// Reads an address.
    fn load_address(&mut self, slot: B256) -> Result<Address, Self::Error> {
        Ok(Address::from_word(self.load(slot)?))
    }

    /// Writes an address.
    fn store_address(&mut self, slot: B256, value: Address) -> Result<(), Self::Error> {
        self.store(slot, value.into_word())
    }

    /// Reads `N` bytes from consecutive slots.
    fn load_fixed<const N: usize>(&mut self, from: Area) -> Result<FixedBytes<N>, Self::Error> {
        let mut bytes = FixedBytes::ZERO;
        for (offset, chunk) in (0u64..).zip(bytes.chunks_mut(WORD)) {
            let word = self.load(from.slot(offset))?;
            chunk.iter_mut().zip(word).for_each(|(byte, stored)| *byte = stored);
        }
        Ok(bytes)
    }

    /// Writes bytes into consecutive slots. The rest of the last slot is zero.
    fn store_fixed(&mut self, to: Area, bytes: &[u8]) -> Result<(), Self::Error> {
        for (offset, chunk) in (0u64..).zip(bytes.chunks(WORD)) {
            self.store(to.slot(offset), B256::right_padding_from(chunk))?;
        }
        Ok(())
    }

    /// Reads a byte string: its length, followed by the bytes. At most `most` bytes.
    fn load_bytes(&mut self, from: Area, most: usize) -> Result<Bytes, Self::Error> {
        let length = usize::try_from(self.load_number(from.slot(0))?).unwrap_or(most).min(most);
        let mut bytes = Vec::with_capacity(length);
        for offset in (1u64..).take(length.div_ceil(WORD)) {
            bytes.extend(self.load(from.slot(offset))?);
        }
        bytes.truncate(length);
        Ok(bytes.into())
    }

    /// Writes a byte string. Slots of a longer one before it are left.
    fn store_bytes(&mut self, to: Area, bytes: &[u8]) -> Result<(), Self::Error> {
        self.store_number(to.slot(0), U256::from(bytes.len()))?;
        self.store_fixed(to.after(1), bytes)
    }
}

impl<S: Slots> Values for S {}

/// Reads a number that fits 32 bits, because this contract wrote it.
pub(crate) fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Number of an epoch in a slot, where 0 is none.
pub(crate) fn epoch_number(epoch: Option<Epoch>) -> u64 {
    epoch.map_or(0, |epoch| epoch.0.saturating_add(1))
}

/// Epoch of an [`epoch_number`].
pub(crate) fn epoch_of(number: u64) -> Option<Epoch> {
    number.checked_sub(1).map(Epoch)
}

/// Bytes of a slot.
const WORD: usize = 32;

/// Slots in memory, without any account: for a genesis, and for tests.
impl Slots for BTreeMap<B256, B256> {
    type Error = Infallible;

    fn load(&mut self, slot: B256) -> Result<B256, Infallible> {
        Ok(self.get(&slot).copied().unwrap_or_default())
    }

    fn store(&mut self, slot: B256, value: B256) -> Result<(), Infallible> {
        if value.is_zero() {
            self.remove(&slot);
        } else {
            self.insert(slot, value);
        }
        Ok(())
    }

    fn has_code(&mut self, _account: Address) -> Result<bool, Infallible> {
        Ok(false)
    }
}

/// The contract's slots in a state. They cannot be written.
pub struct StateSlots<'s>(pub &'s dyn StateView);

/// Reason why a slot of a state is not accessible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The state can no longer be read ([`StateView::interrupted`]).
    #[error("the state was interrupted")]
    Interrupted,
    /// A past state does not change.
    #[error("the state is read-only")]
    ReadOnly,
}

impl Slots for StateSlots<'_> {
    type Error = ReadError;

    fn load(&mut self, slot: B256) -> Result<B256, ReadError> {
        let value = self.0.storage(&STAKING_ADDRESS, &slot);
        if self.0.interrupted() { Err(ReadError::Interrupted) } else { Ok(value) }
    }

    fn store(&mut self, _slot: B256, _value: B256) -> Result<(), ReadError> {
        Err(ReadError::ReadOnly)
    }

    fn has_code(&mut self, account: Address) -> Result<bool, ReadError> {
        let has_code = self.0.account_code(&account).is_contract();
        if self.0.interrupted() { Err(ReadError::Interrupted) } else { Ok(has_code) }
    }
}

/// Kind of a place. The numbers are part of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// (0, 0) counts, epoch and phase; (0, 1) numbers of all registered validators.
    Header = 0x00,
    /// (id) a validator.
    Record = 0x01,
    /// (hash of a key) its owner.
    Key = 0x02,
    /// (id, position) an unbonding.
    Queue = 0x03,
    /// (epoch mod 64, 0) a past committee; (…, 1 + index) a seat in it.
    Ring = 0x04,
    /// (side, dealer) a dealing of a coin, by the index of the dealer.
    Dealing = 0x05,
    /// (side, member) dealings that a member acknowledged, by its index.
    Acknowledgement = 0x06,
    /// (side, dealer) values that a dealer showed, by its index.
    Opening = 0x07,
    /// (side, 0) keys of a coin.
    CoinKeys = 0x08,
    /// (epoch mod 64, id) a conviction.
    Conviction = 0x09,
    /// (id) readiness for the next epoch.
    Attendance = 0x0a,
    /// (epoch mod 2, 0) the sitting or the next committee; (…, 1 + index) a member.
    Committee = 0x0b,
}

/// Consecutive slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area(U256);

impl Area {
    /// Returns the slot at an offset.
    pub fn slot(self, offset: u64) -> B256 {
        self.after(offset).0.into()
    }

    /// Returns the area without its first slots.
    #[must_use]
    pub fn after(self, offset: u64) -> Self {
        Self(self.0.wrapping_add(U256::from(offset)))
    }
}

/// Returns the area of a tag and two numbers: at keccak256(tag ‖ a ‖ b), with both as 8 bytes, big-endian.
pub(crate) fn area(tag: Tag, a: u64, b: u64) -> Area {
    hashed(&[&[tag as u8], &a.to_be_bytes(), &b.to_be_bytes()])
}

/// Returns the area of a key with this hash: at keccak256(tag ‖ hash).
pub(crate) fn key_area(hash: B256) -> Area {
    hashed(&[&[Tag::Key as u8], hash.as_slice()])
}

fn hashed(parts: &[&[u8]]) -> Area {
    Area(keccak256(parts.concat()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::b256;

    #[test]
    fn values_are_read_as_written() {
        let mut slots = BTreeMap::new();
        let place = area(Tag::Record, 7, 0);
        slots.store_four(place.slot(0), [1, 2, u64::MAX, 4]).unwrap();
        assert_eq!(slots.load_four(place.slot(0)), Ok([1, 2, u64::MAX, 4]));
        assert_eq!(slots.load_number(place.slot(0)).unwrap() & U256::from(u64::MAX), U256::from(4));
        slots.store_address(place.slot(1), corniche_types::STAKING_ADDRESS).unwrap();
        assert_eq!(slots.load_address(place.slot(1)), Ok(corniche_types::STAKING_ADDRESS));
        for length in [0, 1, 31, 32, 33, 48, 96, 256] {
            let bytes: Vec<u8> = (1..=255).cycle().take(length).collect();
            slots.store_bytes(place, &bytes).unwrap();
            assert_eq!(slots.load_bytes(place, 256).unwrap(), bytes);
            assert_eq!(slots.load_bytes(place, 20).unwrap(), bytes[..length.min(20)]);
        }
        let key = FixedBytes::<48>::repeat_byte(3);
        slots.store_fixed(place, key.as_slice()).unwrap();
        assert_eq!(slots.load_fixed::<48>(place), Ok(key));
        slots.store(place.slot(0), B256::ZERO).unwrap();
        assert!(!slots.contains_key(&place.slot(0)), "zero is no entry");
    }

    /// Proofs name slots, so they are frozen.
    #[test]
    fn slots_are_frozen() {
        assert_eq!(area(Tag::Header, 0, 0).slot(0), keccak256([0u8; 17]));
        let mut bytes = vec![4, 0, 0, 0, 0, 0, 0, 0, 63];
        bytes.extend([0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(area(Tag::Ring, 63, 256).slot(0), keccak256(&bytes));
        assert_eq!(area(Tag::Ring, 63, 256).slot(2), b256!("1af02d2bc6508e61b6f1cdb2e645b8f92a9166f0dfa793db85b3e199e82e04ff"));
        assert_eq!(key_area(B256::ZERO).slot(0), keccak256([&[2u8][..], &[0; 32]].concat()));
        assert_eq!(Area(U256::MAX).slot(1), B256::ZERO, "offsets wrap");
    }
}
