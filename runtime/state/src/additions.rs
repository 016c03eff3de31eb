//! Additions of a transaction to values that it has not read.
//!
//! Additions to one key commute. A transaction that only adds to a balance or a counter need not know its value, so two
//! such transactions do not depend on each other. A key that a transaction has read, or reads later, is in its
//! [`Changes`] instead, never in both.

use crate::{Changes, StateView};
use corniche_types::{Address, B256, U256};
use std::collections::BTreeMap;

/// Amounts by key; all are non-zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Additions {
    /// Wei added, by account.
    pub balances: BTreeMap<Address, U256>,
    /// Counters, by account and storage slot. The transaction has checked with [`StateView::storage_within`] that the
    /// sum is within its bounds, so it neither overflows nor becomes negative.
    pub counters: BTreeMap<(Address, B256), Delta>,
}

/// A signed amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    Plus(U256),
    Minus(U256),
}

impl Delta {
    /// Returns `value` plus this amount. Wraps if the bounds were not checked: the result is then meaningless, but must
    /// not panic.
    pub fn add_to(self, value: U256) -> U256 {
        match self {
            Self::Plus(amount) => value.wrapping_add(amount),
            Self::Minus(amount) => value.wrapping_sub(amount),
        }
    }

    pub const ZERO: Self = Self::Plus(U256::ZERO);

    /// Returns the absolute amount.
    pub fn amount(self) -> U256 {
        match self {
            Self::Plus(amount) | Self::Minus(amount) => amount,
        }
    }

    pub fn is_zero(self) -> bool {
        self.amount().is_zero()
    }

    /// Returns the sum of both; zero is [`Delta::ZERO`]. Wraps if no value could have taken both.
    pub fn and(self, other: Self) -> Self {
        let (more, less) = match (self, other) {
            (Self::Plus(one), Self::Plus(two)) => return Self::Plus(one.wrapping_add(two)),
            (Self::Minus(one), Self::Minus(two)) => (U256::ZERO, one.wrapping_add(two)),
            (Self::Plus(more), Self::Minus(less)) | (Self::Minus(less), Self::Plus(more)) => (more, less),
        };
        if less > more { Self::Minus(less - more) } else { Self::Plus(more - less) }
    }
}

impl Additions {
    pub fn is_empty(&self) -> bool {
        self.balances.is_empty() && self.counters.is_empty()
    }

    /// Returns the new values, given the current ones in `view`.
    pub fn resolve(&self, view: &dyn StateView) -> Changes {
        let credited =
            |(address, wei): (&Address, &U256)| (*address, Some(view.account(address).unwrap_or_default().credited(*wei)));
        let counted = |(key, sum): (&(Address, B256), &Delta)| {
            let before = U256::from_be_bytes(view.storage(&key.0, &key.1).0);
            (*key, B256::from(sum.add_to(before)))
        };
        Changes {
            accounts: self.balances.iter().map(credited).collect(),
            storage: self.counters.iter().map(counted).collect(),
            ..Changes::default()
        }
    }
}
