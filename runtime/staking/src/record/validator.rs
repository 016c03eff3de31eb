//! Validator: stake, accounts, keys and endpoints.

use crate::{
    Keys, Slots, Tag, ValidatorId,
    slots::{Area, Values as _, area, epoch_number, epoch_of},
};
use alloy_primitives::{Address, Bytes, U256};
use corniche_types::Epoch;

/// Maximum bytes of a validator's endpoints.
pub const MAX_ENDPOINT_BYTES: usize = 256;

/// Offsets of the fields.
const STATUS: u64 = 0;
const BONDED: u64 = 1;
const ACCOUNTS: u64 = 2;
const KEYS: u64 = 6;
const ENDPOINTS: u64 = 6 + Keys::SLOTS;
/// Slots of a record; the length of the endpoints has one.
const SLOTS: u64 = ENDPOINTS + 1 + MAX_ENDPOINT_BYTES as u64 / 32;

/// Place of a validator's record.
#[derive(Clone, Copy, Debug)]
pub struct Validator(Area);

/// Numbers of a validator that share a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Position in the [`Registry`](super::Registry).
    pub position: u64,
    /// First epoch in which it may be a candidate again after a conviction.
    pub jailed_until: Epoch,
    /// Epoch of the last rotation of its keys.
    pub rotated_in: Option<Epoch>,
}

/// Accounts of a validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// Owns the stake.
    Owner = 0,
    /// Becomes owner when it accepts.
    NextOwner = 1,
    /// May change keys and endpoints.
    Operator = 2,
    /// Receives fees and rewards.
    Fee = 3,
}

impl Validator {
    /// Returns the record of a number. It need not be registered.
    pub fn new(id: ValidatorId) -> Self {
        Self(area(Tag::Record, id.0.into(), 0))
    }

    /// Reads the status; `None` if no validator is registered with the number.
    pub fn status<S: Slots>(self, slots: &mut S) -> Result<Option<Status>, S::Error> {
        let [position, jailed_until, rotated_in, _] = slots.load_four(self.0.slot(STATUS))?;
        Ok(position.checked_sub(1).map(|position| Status {
            position,
            jailed_until: Epoch(jailed_until),
            rotated_in: epoch_of(rotated_in),
        }))
    }

    /// Writes the status. From then on the validator is registered.
    pub fn set_status<S: Slots>(self, slots: &mut S, status: Status) -> Result<(), S::Error> {
        let (position, rotated_in) = (status.position.saturating_add(1), epoch_number(status.rotated_in));
        slots.store_four(self.0.slot(STATUS), [position, status.jailed_until.0, rotated_in, 0])
    }

    /// Reads the bonded stake.
    pub fn bonded<S: Slots>(self, slots: &mut S) -> Result<U256, S::Error> {
        slots.load_number(self.0.slot(BONDED))
    }

    /// Writes the bonded stake.
    pub fn set_bonded<S: Slots>(self, slots: &mut S, bonded: U256) -> Result<(), S::Error> {
        slots.store_number(self.0.slot(BONDED), bonded)
    }

    /// Reads an account.
    pub fn account<S: Slots>(self, slots: &mut S, role: Role) -> Result<Address, S::Error> {
        slots.load_address(self.0.after(ACCOUNTS).slot(role as u64))
    }

    /// Writes an account.
    pub fn set_account<S: Slots>(self, slots: &mut S, role: Role, account: Address) -> Result<(), S::Error> {
        slots.store_address(self.0.after(ACCOUNTS).slot(role as u64), account)
    }

    /// Reads the keys.
    pub fn keys<S: Slots>(self, slots: &mut S) -> Result<Keys, S::Error> {
        Keys::load(slots, self.0.after(KEYS))
    }

    /// Writes the keys.
    pub fn set_keys<S: Slots>(self, slots: &mut S, keys: &Keys) -> Result<(), S::Error> {
        keys.store(slots, self.0.after(KEYS))
    }

    /// Reads the endpoints.
    pub fn endpoints<S: Slots>(self, slots: &mut S) -> Result<Bytes, S::Error> {
        slots.load_bytes(self.0.after(ENDPOINTS), MAX_ENDPOINT_BYTES)
    }

    /// Reads the endpoints as lines of printable ASCII. Anybody may have chosen them: other bytes are escaped as in Rust.
    pub fn endpoint_lines<S: Slots>(self, slots: &mut S) -> Result<Vec<String>, S::Error> {
        Ok(lines(&self.endpoints(slots)?))
    }

    /// Writes the endpoints, at most [`MAX_ENDPOINT_BYTES`].
    pub fn set_endpoints<S: Slots>(self, slots: &mut S, endpoints: &[u8]) -> Result<(), S::Error> {
        slots.store_bytes(self.0.after(ENDPOINTS), endpoints)
    }

    /// Deletes the record.
    pub fn delete<S: Slots>(self, slots: &mut S) -> Result<(), S::Error> {
        (0..SLOTS).try_for_each(|offset| slots.store(self.0.slot(offset), Default::default()))
    }
}

fn lines(bytes: &[u8]) -> Vec<String> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| line.escape_ascii().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_printable() {
        assert_eq!(lines(b""), [""; 0]);
        assert_eq!(
            lines(b"/ip4/192.0.2.1/tcp/30303\n\n/dns4/a.example/tcp/1\n"),
            ["/ip4/192.0.2.1/tcp/30303", "/dns4/a.example/tcp/1"]
        );
        let all: Vec<u8> = (0..=255).collect();
        let shown = lines(&all);
        assert_eq!(shown.len(), 2, "one newline");
        assert!(shown.concat().bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{shown:?}");
        assert_eq!(lines("\u{1b}[31m\u{202e}".as_bytes()), ["\\x1b[31m\\xe2\\x80\\xae"]);
    }
}
