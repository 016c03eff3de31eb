//! Request buckets: which validator proposes a sender's transactions (Mir-BFT §5.2 and rows 2, 4 and 8 of its
//! checklist, without its engine).
//!
//! All transactions of a sender are in one bucket, so that its nonces stay in order. A bucket has one owner:
//! the validator at place 0 of the sender's order. Every validator computes the same order from the chain.
//! The order changes with the rotation, so no validator owns a sender for long. If the owner does not get a
//! transaction ordered, other validators that hold it take over after a turn, so no validator can censor it.
//! A turn lasts [`TURN_MS`], or less if the node measured that ordering is faster
//! ([`Pool::set_turn`](crate::Pool::set_turn)).
//!
//! Validators see the first block of a rotation at different times. So the rotation begins later, at a time
//! derived from this block ([`Rotation::begins`]). Differences of the clocks and message delays remain.
//! Within [`ROTATION_OVERLAP_MS`] of the beginning, a validator uses its places in both orders to find out by which of
//! them it was sent a transaction: the first two of an order get it at once. If it is owner in one order and
//! second in the other, it gives the other owner [`ROTATION_OVERLAP_MS`], or a turn if the rotation began after the
//! transaction arrived.
//!
//! The bucket depends on the sender, not on the transaction, so the content of a transaction cannot influence
//! it. An address generated to belong to one validator belongs to another in the next rotation.

use corniche_types::{Address, B256, Header, TimestampMs, keccak256};

/// Maximum length of a turn in ms: the time that a validator at place `p` gives each validator before it.
pub const TURN_MS: u64 = 2_000;
/// Minimum length of a turn in ms, however fast the network is.
pub const MIN_TURN_MS: u64 = 200;
/// Number of turns after which any validator that has a transaction proposes it, even if others of its sender
/// were executed meanwhile.
pub(crate) const MAX_TURNS: u64 = 4;
/// Length of a rotation in seconds of chain time.
pub const ROTATION_SECONDS: u64 = 30;
/// Transactions that arrive within this time of a rotation may have been sent to either owner. The owner in
/// doubt waits this long for the other one.
pub const ROTATION_OVERLAP_MS: u64 = 500;
/// Delay of a rotation after the time of its first block, so that all validators have executed that block.
pub const ROTATION_LEAD_MS: u64 = 2_000;

/// Assignment of senders to validators, until the next rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    number: u64,
    /// Randomness of the first block of this rotation: unknown before that block.
    seed: B256,
}

impl Rotation {
    /// Rotation after the newest of these headers, which descend in height without a gap. Reads only the
    /// headers of that rotation. Without headers it is the rotation of an empty chain. If the headers do not
    /// go back far enough, because the chain is pruned, this node has a different order until the next
    /// rotation.
    pub fn from_headers(newest_first: impl IntoIterator<Item = Header>) -> Self {
        let mut headers = newest_first.into_iter();
        let Some(newest) = headers.next() else { return Self::default() };
        let newest = Self::of(&newest);
        headers.map(|header| Self::of(&header)).take_while(|older| older.number == newest.number).last().unwrap_or(newest)
    }

    /// Rotation after a further block; `None` if it does not change.
    pub fn next(&self, header: &Header) -> Option<Self> {
        Some(Self::of(header)).filter(|next| next.number != self.number)
    }

    /// Time at which the rotation with this first block begins, for a node that executes it now. No node
    /// waits longer than the lead, whatever its clock or the chain's time.
    pub fn begins(first: &Header, now: TimestampMs) -> TimestampMs {
        let time = first.timestamp.saturating_mul(1_000).min(now.0);
        TimestampMs(time.saturating_add(ROTATION_LEAD_MS))
    }

    fn of(header: &Header) -> Self {
        Self { number: header.timestamp / ROTATION_SECONDS, seed: header.mix_hash }
    }

    /// The seat of a sender's owner among this number of seats: H(sender ‖ seed) modulo the number. A validator has a seat
    /// for each vote. The others follow along the table of seats, and the first seat follows the last.
    pub fn owner(&self, sender: &Address, seats: usize) -> usize {
        let hash = keccak256([sender.as_slice(), self.seed.as_slice()].concat());
        let [a, b, c, d, e, f, g, h, ..] = hash.0;
        let seats = u64::try_from(seats.max(1)).expect("a committee is small");
        usize::try_from(u64::from_be_bytes([a, b, c, d, e, f, g, h]) % seats).expect("a committee is small")
    }
}

/// Responsibility of this node for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Responsibility {
    /// Its place in the sender's order; the owner has 0. `None`: this node proposes nothing.
    pub position: Option<u32>,
    /// A user, or a node outside the committee, submitted it to this node: this node makes sure that some
    /// validator proposes it.
    pub is_responsible: bool,
    /// Another node had it before, and forwarded it when this node's turn was near. For users' transactions
    /// this node waits for all validators before it.
    pub forwarded: bool,
    /// This node is second, and was the owner until the rotation a moment ago: it gives the new owner
    /// [`ROTATION_OVERLAP_MS`].
    pub disputed: bool,
}

impl Responsibility {
    /// Standing at a node that proposes every transaction it receives.
    pub const ALONE: Self = Self { position: Some(0), is_responsible: false, forwarded: false, disputed: false };

    /// Time at which a transaction may be proposed here. It was proposable since `since`, and turns have
    /// `turn` ms. `None`: never.
    pub(crate) fn due(self, since: TimestampMs, turn: u64) -> Option<TimestampMs> {
        let wait = match self.position? {
            0 => 0,
            _ if self.disputed => ROTATION_OVERLAP_MS,
            _ if self.forwarded => turn,
            position => u64::from(position) * turn,
        };
        Some(TimestampMs(since.0.saturating_add(wait)))
    }

    /// Corrects the place for a transaction that may have been sent according to the previous rotation, in
    /// which this node owns it. The first `at_once` validators of an order get a transaction at once.
    pub fn adjust_for_rotation(self, at_once: u32) -> Self {
        match self.position {
            Some(position) if (1..at_once).contains(&position) => Self { disputed: true, ..self },
            // Owner in the new order, or none of its first ones, so it was sent by the old one.
            position => Self { position: position.map(|_| 0), ..self },
        }
    }

    /// Combines two standings of a transaction that arrived twice.
    pub(crate) fn and(self, other: Self) -> Self {
        let position = match (self.position, other.position) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self {
            position,
            is_responsible: self.is_responsible || other.is_responsible,
            forwarded: self.forwarded || other.forwarded,
            disputed: self.disputed || other.disputed,
        }
    }
}
