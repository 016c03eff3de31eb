//! Virtual time.

use corniche_types::TimestampMs;
use std::{
    fmt,
    ops::{Add, AddAssign, Sub},
};

/// A point in virtual time or a duration, in microseconds. A world starts at [`Micros::START`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u64);

impl Micros {
    pub const ZERO: Self = Self(0);
    /// Start of worlds: one second, so that times before the start can be represented.
    pub const START: Self = Self(1_000_000);
    /// Later than anything.
    pub const NEVER: Self = Self(u64::MAX);

    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// Converts to the engines' milliseconds, rounded down.
    pub const fn timestamp(self) -> TimestampMs {
        TimestampMs(self.0 / 1_000)
    }

    /// Converts from the engines' milliseconds.
    pub const fn from_timestamp(timestamp: TimestampMs) -> Self {
        Self::from_millis(timestamp.0)
    }

    /// Returns `parts` millionths of the duration.
    pub const fn scale_ppm(self, parts: u32) -> Self {
        // Durations in a simulation are below 2^44 µs (half a year).
        Self(self.0.saturating_mul(parts as u64) / 1_000_000)
    }
}

impl Add for Micros {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Micros {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Saturates at zero.
impl Sub for Micros {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
