//! Request buckets: which validator proposes whose transactions (Mir-BFT §5.2 and rows 2, 4 and 8 of its checklist, without
//! its engine).
//!
//! All of a sender's transactions are in one bucket, so that its nonces stay in order, and a bucket has one owner: the
//! validator in place 0 of the sender's order. Every validator computes the same order from the chain. It changes with the
//! rotation, so nobody owns a sender for long; and a validator that holds a transaction which its owner does not get
//! ordered takes over after a turn, so nobody can keep one out at all. A turn lasts [`TURN_MS`], or less where the node
//! measured that transactions are ordered faster ([`Pool::set_turn`](crate::Pool::set_turn)).
//!
//! Validators see the first block of a rotation at different times, so the rotation begins later, at a time that this block
//! names ([`Rotation::begins`]). What is left is the difference of their clocks and the delay of a message. Within [`EDGE_MS`]
//! of the beginning a validator finds out from its places in both orders by which of them it was sent a transaction: the
//! first two of an order get it at once. Where it is owner by one and second by the other, it gives the other owner
//! [`EDGE_MS`], or a turn if the rotation began after the transaction came.
//!
//! The bucket is of the sender and not of the transaction: what a transaction contains cannot steer it, and an address made
//! to fall to one validator falls to another one in the next rotation.

use corniche_types::{Address, B256, Header, TimestampMs, keccak256};

/// How long a validator in place `p` lets those before it try, for each of them, at most.
pub const TURN_MS: u64 = 2_000;
/// And at least, however fast the network is.
pub const MIN_TURN_MS: u64 = 300;
/// What waits so many turns, with whatever of its sender executed meanwhile, anybody proposes who has it.
pub(crate) const MOST_TURNS: u64 = 4;
/// A rotation lasts so long on the clock of the chain.
pub const ROTATION_SECONDS: u64 = 30;
/// Transactions that come within so long of a rotation may have been sent to either owner. The one that is in doubt waits for
/// the other one as long.
pub const EDGE_MS: u64 = 500;
/// A rotation begins this long after the time of its first block: long enough for all validators to have executed the block.
pub const ROTATION_LEAD_MS: u64 = 2_000;

/// Who owns whom, until the next rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    number: u64,
    /// Randomness of the first block of this rotation: nobody knows it before that block.
    seed: B256,
}

impl Rotation {
    /// The rotation after the newest of these headers, which go back in height without a gap; as many as share a rotation
    /// are taken. Without any it is the one of an empty chain. With too few of them (a chain that is not kept so far back)
    /// this node has an order of its own until the next rotation.
    pub fn of_chain(newest_first: impl IntoIterator<Item = Header>) -> Self {
        let mut headers = newest_first.into_iter();
        let Some(newest) = headers.next() else { return Self::default() };
        let newest = Self::of(&newest);
        headers.map(|header| Self::of(&header)).take_while(|older| older.number == newest.number).last().unwrap_or(newest)
    }

    /// The rotation after a further block; `None` when it is still this one.
    pub fn next(&self, header: &Header) -> Option<Self> {
        Some(Self::of(header)).filter(|next| next.number != self.number)
    }

    /// When the rotation that this block is the first of begins, for a node that executes it now. No node waits for longer than
    /// the lead, whatever its clock or the chain's shows.
    pub fn begins(first: &Header, now: TimestampMs) -> TimestampMs {
        let time = first.timestamp.saturating_mul(1_000).min(now.0);
        TimestampMs(time.saturating_add(ROTATION_LEAD_MS))
    }

    fn of(header: &Header) -> Self {
        Self { number: header.timestamp / ROTATION_SECONDS, seed: header.mix_hash }
    }

    /// Where the order of this sender begins among so many validators: bucket = H(sender ‖ seed). The others follow by index,
    /// the first after the last.
    pub fn owner(&self, sender: &Address, validators: usize) -> usize {
        let hash = keccak256([sender.as_slice(), self.seed.as_slice()].concat());
        let [a, b, c, d, e, f, g, h, ..] = hash.0;
        let validators = u64::try_from(validators.max(1)).expect("a committee is small");
        usize::try_from(u64::from_be_bytes([a, b, c, d, e, f, g, h]) % validators).expect("a committee is small")
    }
}

/// What this node has to do with a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its place in the sender's order; 0 owns. `None`: this node proposes nothing.
    pub place: Option<u32>,
    /// It was given to this node by a user, or by a node outside the committee: this node sees to it that somebody proposes
    /// it.
    pub ours: bool,
    /// Another node had it before, and passed it on when the turn of this one was near; for what a user gives this node, it
    /// waits for all that are before it.
    pub passed_on: bool,
    /// It is second, and was the owner before the rotation began a moment ago: it gives the owner [`EDGE_MS`].
    pub disputed: bool,
}

impl Standing {
    /// Of a node that proposes whatever it is given.
    pub const ALONE: Self = Self { place: Some(0), ours: false, passed_on: false, disputed: false };

    /// When a transaction may be proposed here that could have been since then, with turns of so many ms; `None`: never.
    pub(crate) fn due(self, since: TimestampMs, turn: u64) -> Option<TimestampMs> {
        let wait = match self.place? {
            0 => 0,
            _ if self.disputed => EDGE_MS,
            _ if self.passed_on => turn,
            place => u64::from(place) * turn,
        };
        Some(TimestampMs(since.0.saturating_add(wait)))
    }

    /// Corrects the place for a transaction that a node may have sent by the last rotation, by which this node owns it.
    pub fn at_edge(self) -> Self {
        match self.place {
            Some(1) => Self { disputed: true, ..self },
            // Neither owner nor second by the new one: it was sent by the last.
            place => Self { place: place.map(|_| 0), ..self },
        }
    }

    /// Known by both ways.
    pub(crate) fn and(self, other: Self) -> Self {
        let place = match (self.place, other.place) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self {
            place,
            ours: self.ours || other.ours,
            passed_on: self.passed_on || other.passed_on,
            disputed: self.disputed || other.disputed,
        }
    }
}
