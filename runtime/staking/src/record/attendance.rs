//! Attendance: whether a validator is ready for the next epoch.

use crate::{
    Slots, Tag, ValidatorId,
    slots::{Values as _, area, epoch_number, epoch_of, narrow},
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
    /// Epoch in whose freeze it is no candidate, because it acknowledged too few dealings as a newcomer (S13).
    pub excluded_in: Option<Epoch>,
}

impl Attendance {
    /// Reads the attendance of a validator.
    pub fn load<S: Slots>(slots: &mut S, id: ValidatorId) -> Result<Self, S::Error> {
        let [announced_in, version, excluded_in, _] = slots.load_four(place(id))?;
        Ok(Self { announced_in: epoch_of(announced_in), version: narrow(version), excluded_in: epoch_of(excluded_in) })
    }

    /// Writes the attendance of a validator.
    pub fn store<S: Slots>(&self, slots: &mut S, id: ValidatorId) -> Result<(), S::Error> {
        let (announced_in, excluded_in) = (epoch_number(self.announced_in), epoch_number(self.excluded_in));
        slots.store_four(place(id), [announced_in, self.version.into(), excluded_in, 0])
    }
}

fn place(id: ValidatorId) -> B256 {
    area(Tag::Attendance, id.0.into(), 0).slot(0)
}
