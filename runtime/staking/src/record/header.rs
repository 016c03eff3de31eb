//! Header: the running epoch and its calendar phase.

use crate::{
    Slots, Tag,
    slots::{Area, Values as _, area},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{Epoch, Height, TimestampMs};

/// State of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The running epoch.
    pub epoch: Epoch,
    /// Time of the block that ended the epoch before; the genesis time in epoch 0.
    pub start: TimestampMs,
    /// Height of that block.
    pub start_height: Height,
    /// Freeze that made the sitting committee.
    pub frozen_in: FreezeNumber,
    /// Step of the calendar that was last.
    pub phase: Phase,
}

/// Number of a freeze: e + 1 in epoch e.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct FreezeNumber(pub u64);

impl FreezeNumber {
    /// Number for the genesis committee, which no freeze made.
    pub const GENESIS: Self = Self(0);

    /// Returns the number of the freeze in an epoch.
    pub fn in_epoch(epoch: Epoch) -> Self {
        Self(epoch.0.saturating_add(1))
    }
}

/// Last step of an epoch's calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// None: votes are not frozen yet.
    Open = 0,
    /// Votes are frozen, and the next committee takes over at the end.
    Frozen = 1,
    /// Votes are frozen, and the sitting committee is kept at the end.
    Kept = 2,
    /// Votes are frozen, and the sitting committee deals a coin to the next one.
    Dealing = 3,
    /// Members of the next committee acknowledge the dealings.
    Acknowledging = 4,
    /// Dealers show what was not acknowledged.
    Opening = 5,
}

impl Phase {
    fn from_number(number: u64) -> Self {
        match number {
            1 => Self::Frozen,
            2 => Self::Kept,
            3 => Self::Dealing,
            4 => Self::Acknowledging,
            5 => Self::Opening,
            _ => Self::Open,
        }
    }

    /// Returns whether there is a next committee. It takes over unless its coin fails.
    pub fn has_next(self) -> bool {
        match self {
            Self::Frozen | Self::Dealing | Self::Acknowledging | Self::Opening => true,
            Self::Open | Self::Kept => false,
        }
    }
}

impl Header {
    /// Reads the header.
    pub fn load<S: Slots>(slots: &mut S) -> Result<Self, S::Error> {
        let [epoch, start, start_height, phase] = slots.load_four(place().slot(0))?;
        let [frozen_in, ..] = slots.load_four(place().slot(1))?;
        Ok(Self {
            epoch: Epoch(epoch),
            start: TimestampMs(start),
            start_height: Height(start_height),
            frozen_in: FreezeNumber(frozen_in),
            phase: Phase::from_number(phase),
        })
    }

    /// Writes the header.
    pub fn store<S: Slots>(&self, slots: &mut S) -> Result<(), S::Error> {
        let calendar = [self.epoch.0, self.start.0, self.start_height.0, self.phase as u64];
        slots.store_four(place().slot(0), calendar)?;
        slots.store_four(place().slot(1), [self.frozen_in.0, 0, 0, 0])
    }

    /// Returns the first freeze without stake that is unbonded now (S9).
    pub fn first_freeze_without(&self) -> FreezeNumber {
        match self.phase {
            Phase::Open => FreezeNumber::in_epoch(self.epoch),
            _ => FreezeNumber::in_epoch(self.epoch.next()),
        }
    }
}

fn place() -> Area {
    area(Tag::Header, 0, 0)
}
