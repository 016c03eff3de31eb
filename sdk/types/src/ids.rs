//! Newtypes for numbers that must not be confused.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(BorshSerialize, BorshDeserialize, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// Returns the next number.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// Number of a block; genesis is 0.
    Height(u64)
}
number! {
    /// Position of a commit in the order that an engine delivers, starting at 1 without gaps. Not a height: an empty
    /// commit makes no block, and several commits may share one.
    CommitIndex(u64)
}
number! {
    /// Number of a committee.
    Epoch(u64)
}
number! {
    /// Position of a validator in the committee of an epoch.
    ValidatorIndex(u16)
}
number! {
    /// Unix time in milliseconds.
    TimestampMs(u64)
}

impl ValidatorIndex {
    /// Index into a committee-sized slice.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::from(self.0)
    }
}
