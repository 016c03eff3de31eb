//! Which validator is asked to propose a transaction, when (see [`Rotation`]).
//!
//! A node forwards what its users, and nodes outside the committee, give it; what a validator passed on to it, that one sees
//! to. The owner gets it at once, and the validator after the owner as well, which may propose it when the first turn is over;
//! also where the node that was asked is the owner, which may crash. With every further turn without anything of the sender
//! executed, one more is told, and the owner once more in case the first message was lost. Only validators that are connected
//! count, so that a crash that is noticed costs nothing; after a start, those count that had no time to connect yet.

use super::{Mode, Pipeline};
use crate::execution::VerifiedTransaction;
use crate::message::{FORWARDED_BYTES, FORWARDED_TRANSACTIONS, PeerMessage};
use crate::words::{NodeKey, Output};
use corniche_admission::{EDGE_MS, Rotation, Standing, TURN_MS};
use corniche_types::{Address, Bytes, Header, TimestampMs, ValidatorIndex};
use std::collections::{BTreeMap, BTreeSet};

/// What is forwarded within so long after a message goes in the next one; the first does not wait.
const GATHER_MS: u64 = 5;
/// Transactions that others are told of again go at most so many at a time, with so many bytes, so often: they share the
/// queues to a peer with the engine's batches.
const TOLD_AT_A_TIME: usize = 256;
const TOLD_BYTES: usize = 256 << 10;
/// Who is told of a new transaction.
const TOLD_AT_ONCE: usize = 2;
const TELL_MS: u64 = 500;

/// Who is there to be asked, and what is on its way to them.
pub(super) struct Forwarding {
    own: Option<ValidatorIndex>,
    validators: usize,
    /// Validators that are connected.
    reachable: BTreeMap<ValidatorIndex, NodeKey>,
    /// Validators that were not connected since the start, until they had time for it.
    awaited: BTreeSet<ValidatorIndex>,
    awaited_until: TimestampMs,
    /// `None`: no buckets, every validator proposes what it is given.
    rotation: Option<Rotation>,
    /// The last rotation, until no more transactions of it may come.
    before: Option<(Rotation, TimestampMs)>,
    /// The next rotation, and when it begins.
    next: Option<(Rotation, TimestampMs)>,
    gathered: BTreeMap<NodeKey, Vec<Bytes>>,
    last_sent: TimestampMs,
    last_told: TimestampMs,
}

impl Forwarding {
    pub fn new(own: Option<ValidatorIndex>, validators: usize, rotation: Option<Rotation>, now: TimestampMs) -> Self {
        Self {
            awaited: (0..validators).map(validator_index).collect(),
            awaited_until: TimestampMs(now.0.saturating_add(TURN_MS)),
            own,
            validators,
            reachable: BTreeMap::new(),
            rotation: rotation.filter(|_| validators > 1),
            before: None,
            next: None,
            gathered: BTreeMap::new(),
            last_sent: TimestampMs(0),
            last_told: TimestampMs(0),
        }
    }

    pub fn peer_up(&mut self, index: ValidatorIndex, key: NodeKey) {
        self.reachable.insert(index, key);
        self.awaited.remove(&index);
    }

    pub fn peer_down(&mut self, key: &NodeKey) {
        self.reachable.retain(|_, other| other != key);
    }

    /// Whether this node passes anything on: a full node does, and a validator that has others beside it.
    fn forwards(&self) -> bool {
        self.own.is_none() || self.rotation.is_some()
    }

    /// Our place in a sender's order.
    fn place(&self, now: TimestampMs, sender: &Address) -> Option<u32> {
        match &self.rotation {
            Some(rotation) => self.place_by(rotation, now, sender),
            None => self.own.map(|_| 0),
        }
    }

    fn place_by(&self, rotation: &Rotation, now: TimestampMs, sender: &Address) -> Option<u32> {
        let own = self.own?;
        let is_awaited = |index| now < self.awaited_until && self.awaited.contains(&index);
        // Those before us whom a forwarding node could have reached instead.
        let ahead = self.order(rotation, sender).take_while(|(index, _)| *index != own);
        let ahead = ahead.filter(|(index, key)| key.is_some() || is_awaited(*index)).count();
        Some(u32::try_from(ahead).expect("a committee is small"))
    }

    /// Whether a node that still goes by the last rotation takes us for the owner.
    fn owned_before(&self, now: TimestampMs, sender: &Address) -> bool {
        let before = self.before.as_ref().filter(|(_, until)| now <= *until);
        before.is_some_and(|(rotation, _)| self.place_by(rotation, now, sender) == Some(0))
    }

    /// Takes the next rotation if its time has come; true if so.
    fn begin_rotation(&mut self, now: TimestampMs) -> bool {
        let Some((next, _)) = self.next.take_if(|(_, begins)| *begins <= now) else { return false };
        let until = TimestampMs(now.0.saturating_add(EDGE_MS));
        self.before = self.rotation.replace(next).map(|before| (before, until));
        true
    }

    /// All validators in a sender's order, with the key of each one that is connected.
    fn order(&self, rotation: &Rotation, sender: &Address) -> impl Iterator<Item = (ValidatorIndex, Option<NodeKey>)> {
        let first = rotation.owner(sender, self.validators);
        (first..first + self.validators).map(|number| {
            let index = validator_index(number % self.validators);
            (index, self.reachable.get(&index).copied())
        })
    }

    /// Whom to ask in turn; `None` stands for this node, if it `proposes` now.
    fn asked(&self, sender: &Address, proposes: bool) -> Vec<Option<NodeKey>> {
        let rotation = self.rotation.unwrap_or_default();
        let asked = self.order(&rotation, sender).filter_map(|(index, key)| match key {
            _ if proposes && Some(index) == self.own => Some(None),
            key => key.map(Some),
        });
        asked.collect()
    }

    fn gather(&mut self, transaction: &VerifiedTransaction, to: &[Option<NodeKey>]) {
        for peer in to.iter().flatten() {
            let raw = transaction.transaction().raw().clone();
            self.gathered.entry(*peer).or_default().push(raw);
        }
    }

    /// When there is something to send.
    fn send_at(&self) -> Option<TimestampMs> {
        (!self.gathered.is_empty()).then(|| TimestampMs(self.last_sent.0 + GATHER_MS))
    }
}

impl Pipeline {
    /// What this node has to do with a transaction that came from a peer, or from a user.
    pub(super) fn standing(&self, now: TimestampMs, sender: &Address, from: Option<NodeKey>) -> Standing {
        let validator = from.and_then(|peer| self.peers.get(&peer)).is_some_and(Option::is_some);
        let standing = Standing {
            place: self.forwarding.place(now, sender),
            ours: self.forwarding.forwards() && !validator,
            passed_on: from.is_some(),
            disputed: false,
        };
        let at_edge = validator && self.forwarding.owned_before(now, sender);
        if at_edge { standing.at_edge() } else { standing }
    }

    /// Passes on what has just come from a user.
    pub(super) fn forward(&mut self, transaction: &VerifiedTransaction) {
        let asked = self.forwarding.asked(&transaction.sender(), self.mode == Mode::Ordering);
        self.forwarding.gather(transaction, &asked[..asked.len().min(TOLD_AT_ONCE)]);
    }

    /// Tells further validators of what was not executed in its turn.
    pub(super) fn tell_others(&mut self, now: TimestampMs) {
        if self.tell_at().is_none_or(|at| now < at) {
            return;
        }
        self.forwarding.last_told = now;
        for (turns, transaction) in self.pool.take_turns(TOLD_AT_A_TIME, TOLD_BYTES) {
            let asked = self.forwarding.asked(&transaction.sender(), self.mode == Mode::Ordering);
            if asked.is_empty() {
                continue;
            }
            let next = (turns as usize + TOLD_AT_ONCE - 1) % asked.len();
            let again = [asked[0], asked[next]];
            self.forwarding.gather(&transaction, if next == 0 { &again[..1] } else { &again });
        }
    }

    fn tell_at(&self) -> Option<TimestampMs> {
        let turn = self.pool.next_turn()?;
        Some(turn.max(TimestampMs(self.forwarding.last_told.0 + TELL_MS)))
    }

    /// Sends what was gathered, unless something was sent just now.
    pub(super) fn send_gathered(&mut self, now: TimestampMs) {
        if self.forwarding.send_at().is_none_or(|at| now < at) {
            return;
        }
        self.forwarding.last_sent = now;
        for (to, raw) in std::mem::take(&mut self.forwarding.gathered) {
            for transactions in in_messages(raw) {
                self.out.push_back(Output::Send { to, message: PeerMessage::Transactions(transactions) });
            }
        }
    }

    /// When forwarding has something to do.
    pub(super) fn forwarding_deadline(&self) -> Option<TimestampMs> {
        let rotation = self.forwarding.next.map(|(_, begins)| begins);
        [self.forwarding.send_at(), self.tell_at(), self.pool.next_due(), rotation].into_iter().flatten().min()
    }

    /// A block is in the chain: perhaps the first one of another rotation.
    pub(super) fn next_rotation(&mut self, now: TimestampMs, header: &Header) {
        let Some(rotation) = self.forwarding.rotation else { return };
        let newest = self.forwarding.next.map_or(rotation, |(next, _)| next);
        if let Some(next) = newest.next(header) {
            self.forwarding.next = Some((next, Rotation::begins(header, now)));
            self.rotate(now);
        }
    }

    /// Begins the next rotation if its time has come.
    pub(super) fn rotate(&mut self, now: TimestampMs) {
        if self.forwarding.begin_rotation(now) {
            let edge = TimestampMs(now.0.saturating_sub(EDGE_MS));
            self.pool.rotate(edge, |sender| self.forwarding.place(now, sender) == Some(0));
        }
    }
}

fn validator_index(number: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(number).expect("invariant: a committee has 16-bit indices"))
}

/// In order, as many to a message as one may carry.
fn in_messages(raw: Vec<Bytes>) -> Vec<Vec<Bytes>> {
    let mut messages: Vec<Vec<Bytes>> = Vec::new();
    let mut bytes = 0;
    for transaction in raw {
        let size = transaction.len();
        let fits = bytes + size <= FORWARDED_BYTES;
        match messages.last_mut().filter(|last| fits && last.len() < FORWARDED_TRANSACTIONS) {
            Some(last) => last.push(transaction),
            None => {
                bytes = 0;
                messages.push(vec![transaction]);
            }
        }
        bytes += size;
    }
    messages
}
