//! Stake: who may order transactions, and with how many votes.
//!
//! The staking contract is native code at [`STAKING_ADDRESS`](corniche_types::STAKING_ADDRESS). This crate has its rules as
//! functions over storage slots ([`Slots`]): calls of accounts ([`contract::call`]), the calendar of epochs ([`calendar`]), the
//! layout of the storage ([`record`]) and an overview for readers ([`Overview`]). Validators sign their keys with [`sign_keys`].
//! The virtual machine charges gas, moves value and keeps the journal. [`genesis_changes`] returns the state at height 0.
//!
//! Steps of an epoch:
//!
//! 1. Validators announce that they are ready ([`Notice`], [`calendar::announce`]).
//! 2. At the freeze, votes are computed from the stake of those who did ([`calendar::freeze`], [`votes::allocate_votes`]).
//! 3. At the end, the frozen committee takes over, or the old one is kept ([`calendar::activate`]).
//!
//! Stake that is unbonded stays liable until no committee with it can be accused any more ([`record::Queue`]).
//!
//! Always true: the contract's balance is at least all bonded and all queued stake. Nothing here depends on a clock, on
//! randomness or on the order of a map. No input causes a panic.
//!
//! When an epoch ends, announcements of the next committee decide about the protocol version ([`upgrade`]).
//!
//! Where the engine has a coin, the sitting committee deals one to the next committee between the freeze and the end ([`coin`]).
//! Evidence of a contradiction costs stake ([`evidence`]).
//!
//! The rules are those of validators.md, with the differences of decisions 0028 to 0033 and 0037.

#![warn(missing_docs)]

pub mod calendar;
pub mod coin;
pub mod contract;
pub mod evidence;
mod genesis;
pub mod interface;
mod notice;
mod overview;
pub mod record;
mod registration;
mod slots;
pub mod upgrade;
pub mod votes;

pub use genesis::{GenesisValidator, add_staking, genesis_changes, genesis_slots};
pub use notice::{
    AuthorKeys, MAX_BATCH_NOTICES, Notice, NoticeAuthor, NoticeBody, NoticeKind, NoticeSigner, Statement, VerifiedNotice,
};
pub use overview::{Overview, ValidatorOverview};
pub use registration::{Keys, SigningKeys, sign_keys};
pub use slots::{ReadError, Slots, StateSlots, Tag};

use borsh::{BorshDeserialize, BorshSerialize};

/// Number of a registered validator. Numbers ascend from 0 and are never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct ValidatorId(pub u32);

impl std::fmt::Display for ValidatorId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
