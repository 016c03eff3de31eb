//! Attendance: whether a validator is ready for the next epoch.

use crate::{
    Slots, Tag, ValidatorId,
    slots::{Values as _, area},
};
use alloy_primitives::B256;
use corniche_types::Epoch;

/// Attendance of a validator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attendance {
    /// Last epoch in which it announced itself.
    pub announced_in: Option<Epoch>,
    /// Highest protocol version that its node knew then.
    pub version: u32,
    /// Epoch in whose freeze it is no candidate, because it acknowledged no dealing as a future member (S13).
    pub excluded_in: Option<Epoch>,
}

impl Attendance {
    /// Reads the attendance of a validator.
    pub fn load<S: Slots>(slots: &mut S, id: ValidatorId) -> Result<Self, S::Error> {
        let [announced_in, version, excluded_in, _] = slots.load_four(place(id))?;
        Ok(Self {
            announced_in: announced_in.checked_sub(1).map(Epoch),
            version: u32::try_from(version).unwrap_or(u32::MAX),
            excluded_in: excluded_in.checked_sub(1).map(Epoch),
        })
    }

    /// Writes the attendance of a validator.
    pub fn store<S: Slots>(&self, slots: &mut S, id: ValidatorId) -> Result<(), S::Error> {
        let number = |epoch: Option<Epoch>| epoch.map_or(0, |epoch| epoch.0.saturating_add(1));
        slots.store_four(place(id), [number(self.announced_in), self.version.into(), number(self.excluded_in), 0])
    }
}

fn place(id: ValidatorId) -> B256 {
    area(Tag::Attendance, id.0.into(), 0).slot(0)
}
