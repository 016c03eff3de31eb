//! Forwards transactions to the validators that should propose them, at the right time (see [`Rotation`]).
//!
//! A node forwards transactions from its users and from nodes outside the committee. A transaction forwarded
//! by a validator is not forwarded again. The owner gets it at once, and so does the next validator, which
//! may propose it after the first turn. This also holds if the receiving node is the owner, because it may
//! crash. After each further turn without an executed transaction of the sender, one more validator gets it.
//! The owner gets it again too, in case the first message was lost. Only connected validators count, so a
//! detected crash costs no turn. After a start, validators that had no time to connect yet count too. A
//! validator that missed its turns still gets its transactions, but the others do not wait for it
//! ([`Reputation`]).

use super::{Mode, Pipeline, reputation::Reputation};
use crate::execution::VerifiedTransaction;
use crate::message::{FORWARDED_BYTES, FORWARDED_TRANSACTIONS, PeerMessage};
use crate::words::{NodeKey, Output};
use corniche_admission::{EDGE_MS, Rotation, Standing, TURN_MS, Waited};
use corniche_engine::Committee;
use corniche_types::{Address, B256, Block, Bytes, Header, Receipt, SkipReason, TimestampMs, ValidatorIndex};
use std::collections::{BTreeMap, BTreeSet};

/// Transactions within this time after a message are gathered into the next one; the first is sent at once.
const GATHER_MS: u64 = 5;
/// Limits of repeated forwarding: transactions and bytes per interval `TELL_MS`. They share the peers' queues
/// with the engine's batches.
const TOLD_AT_A_TIME: usize = 256;
const TOLD_BYTES: usize = 256 << 10;
/// Number of validators that get a new transaction at once, and interval of repeated forwarding.
const TOLD_AT_ONCE: usize = 2;
const TELL_MS: u64 = 500;

/// Reachable validators, and transactions to be sent to them.
pub(super) struct Forwarding {
    own: Option<ValidatorIndex>,
    validators: usize,
    /// Connected validators.
    reachable: BTreeMap<ValidatorIndex, NodeKey>,
    /// Validators that were not connected since the start, until they had time for it.
    awaited: BTreeSet<ValidatorIndex>,
    awaited_until: TimestampMs,
    /// `None`: no buckets; every validator proposes the transactions that it receives.
    rotation: Option<Rotation>,
    /// Previous rotation, until no more of its transactions may arrive.
    before: Option<(Rotation, TimestampMs)>,
    /// Next rotation, and when it begins.
    next: Option<(Rotation, TimestampMs)>,
    /// Time when the rotation began here.
    began: TimestampMs,
    reputation: Reputation,
    gathered: BTreeMap<NodeKey, Vec<Bytes>>,
    last_sent: TimestampMs,
    last_told: TimestampMs,
}

impl Forwarding {
    pub fn new(own: Option<ValidatorIndex>, committee: &Committee, rotation: Option<Rotation>, now: TimestampMs) -> Self {
        let validators = committee.size();
        Self {
            awaited: (0..validators).map(validator_index).collect(),
            awaited_until: TimestampMs(now.0.saturating_add(TURN_MS)),
            own,
            validators,
            reachable: BTreeMap::new(),
            rotation: rotation.filter(|_| validators > 1),
            before: None,
            next: None,
            began: now,
            reputation: Reputation::new(committee.faulty()),
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

    /// True if this node forwards transactions: full nodes do, and validators that are not alone.
    fn forwards(&self) -> bool {
        self.own.is_none() || self.rotation.is_some()
    }

    /// Our position in a sender's order.
    fn place(&self, now: TimestampMs, sender: &Address) -> Option<u32> {
        match &self.rotation {
            Some(rotation) => self.place_by(rotation, now, sender),
            None => self.own.map(|_| 0),
        }
    }

    fn place_by(&self, rotation: &Rotation, now: TimestampMs, sender: &Address) -> Option<u32> {
        let own = self.own?;
        let is_awaited = |index| now < self.awaited_until && self.awaited.contains(&index);
        // Validators before us that a forwarding node could have reached instead.
        let ahead = self.order(rotation, sender).take_while(|(index, _)| *index != own);
        let is_waited_for = |index| !self.reputation.is_silent(index);
        let ahead = ahead.filter(|(index, key)| (key.is_some() || is_awaited(*index)) && is_waited_for(*index)).count();
        Some(u32::try_from(ahead).expect("a committee is small"))
    }

    /// True if a node that still uses the previous rotation takes us for the owner.
    fn owned_before(&self, now: TimestampMs, sender: &Address) -> bool {
        let before = self.before.as_ref().filter(|(_, until)| now <= *until);
        before.is_some_and(|(rotation, _)| self.place_by(rotation, now, sender) == Some(0))
    }

    /// Switches to the next rotation if it is time; returns true if so.
    fn begin_rotation(&mut self, now: TimestampMs) -> bool {
        let Some((next, _)) = self.next.take_if(|(_, begins)| *begins <= now) else { return false };
        let until = TimestampMs(now.0.saturating_add(EDGE_MS));
        self.began = now;
        self.before = self.rotation.replace(next).map(|before| (before, until));
        true
    }

    /// All validators in a sender's order, with the keys of connected ones.
    fn order(&self, rotation: &Rotation, sender: &Address) -> impl Iterator<Item = (ValidatorIndex, Option<NodeKey>)> {
        let first = rotation.owner(sender, self.validators);
        (first..first + self.validators).map(|number| {
            let index = validator_index(number % self.validators);
            (index, self.reachable.get(&index).copied())
        })
    }

    /// Validators to ask in turn: connected ones, and this one (without a key) if it `proposes` now; silent
    /// ones last.
    fn asked(&self, sender: &Address, proposes: bool) -> Vec<(ValidatorIndex, Option<NodeKey>)> {
        let rotation = self.rotation.unwrap_or_default();
        let is_there = |index: ValidatorIndex, key: Option<NodeKey>| {
            if Some(index) == self.own { proposes } else { key.is_some() }
        };
        let connected = self.order(&rotation, sender).filter(|(index, key)| is_there(*index, *key));
        let (silent, mut asked): (Vec<_>, Vec<_>) = connected.partition(|(index, _)| self.reputation.is_silent(*index));
        asked.extend(silent);
        asked
    }

    /// Validators to ask at once: the first ones, and silent ones whose turn it was.
    fn asked_at_once(&self, sender: &Address, proposes: bool) -> Vec<(ValidatorIndex, Option<NodeKey>)> {
        let asked = self.asked(sender, proposes);
        let first = asked.first().copied();
        let is_before_first =
            |index: ValidatorIndex| first.is_some_and(|(first, _)| self.distance(sender, index) < self.distance(sender, first));
        let (now, later) = asked.split_at(asked.len().min(TOLD_AT_ONCE));
        let skipped = later.iter().filter(|(index, _)| is_before_first(*index));
        now.iter().chain(skipped).copied().collect()
    }

    /// Position of a validator in this sender's order of all validators.
    fn distance(&self, sender: &Address, index: ValidatorIndex) -> usize {
        let first = self.rotation.unwrap_or_default().owner(sender, self.validators);
        (index.as_usize() + self.validators - first) % self.validators
    }

    fn gather(&mut self, transaction: &VerifiedTransaction, to: &[(ValidatorIndex, Option<NodeKey>)]) {
        for peer in to.iter().filter_map(|(_, key)| key.as_ref()) {
            let raw = transaction.transaction().raw().clone();
            self.gathered.entry(*peer).or_default().push(raw);
        }
    }

    /// Time for the next message.
    fn send_at(&self) -> Option<TimestampMs> {
        (!self.gathered.is_empty()).then(|| TimestampMs(self.last_sent.0 + GATHER_MS))
    }
}

impl Pipeline {
    /// Responsibility of this node for a transaction from a peer or a user.
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

    /// Forwards a new transaction of a user.
    pub(super) fn forward(&mut self, transaction: &VerifiedTransaction) {
        let asked = self.forwarding.asked_at_once(&transaction.sender(), self.mode == Mode::Ordering);
        self.forwarding.gather(transaction, &asked);
        let indices = asked.into_iter().map(|(index, _)| index).collect();
        self.pool.set_asked(&transaction.hash(), indices);
    }

    /// Forwards a copy to its owner, if that one may have missed recent transactions.
    pub(super) fn forward_copy(&mut self, now: TimestampMs, transaction: &VerifiedTransaction) {
        let Some(rotation) = self.forwarding.rotation else { return };
        let Some((owner, key)) = self.forwarding.order(&rotation, &transaction.sender()).next() else { return };
        if key.is_some() && self.forwarding.reputation.is_suspected(owner, now) {
            self.forwarding.gather(transaction, &[(owner, key)]);
            self.pool.set_asked(&transaction.hash(), vec![owner]);
        }
    }

    /// Updates reputation and latency from a block, before the pool removes its transactions.
    pub(super) fn judge(&mut self, now: TimestampMs, block: &Block, receipts: &[Receipt]) {
        if self.forwarding.rotation.is_none() {
            return;
        }
        for (ordered, receipt) in block.executed().zip(receipts) {
            let (author, sender) = (ordered.author, receipt.sender);
            self.judge_proposer(author, &sender);
            let Some(waited) = self.pool.waited(&receipt.transaction_hash) else { continue };
            let ms = now.0.saturating_sub(waited.since.0);
            self.forwarding.reputation.ordered_after(ms);
            if waited.came_at >= self.forwarding.began {
                self.judge_others(now, author, &sender, &waited);
            }
        }
        self.judge_duplicates(block, receipts);
        self.pool.set_turn(self.forwarding.reputation.turn());
    }

    /// A silent validator's proposals often come after those of the validator that takes its turn, as
    /// duplicates.
    fn judge_duplicates(&mut self, block: &Block, receipts: &[Receipt]) {
        let duplicates = block.ordering.skipped.iter().filter(|skipped| skipped.reason == SkipReason::NonceTooLow);
        let author_of = |position: u32| block.ordered.get(usize::try_from(position).ok()?).map(|ordered| ordered.author);
        let duplicates = duplicates.filter_map(|skipped| Some((author_of(skipped.position)?, skipped.hash)));
        // Each counts once, however often it is in a batch.
        let duplicates: BTreeSet<_> = duplicates.filter(|(author, _)| self.forwarding.reputation.owes(*author)).collect();
        if duplicates.is_empty() {
            return;
        }
        let executed = block.executed().zip(receipts);
        let executed: BTreeMap<B256, (ValidatorIndex, Address)> =
            executed.map(|(ordered, receipt)| (receipt.transaction_hash, (ordered.author, receipt.sender))).collect();
        for (author, hash) in duplicates {
            if let Some((_, sender)) = executed.get(&hash).filter(|(first, _)| *first != author) {
                self.judge_proposer(author, sender);
            }
        }
    }

    fn judge_proposer(&mut self, author: ValidatorIndex, sender: &Address) {
        if self.forwarding.reputation.owes(author) && self.forwarding.distance(sender, author) == 0 {
            self.forwarding.reputation.proposed(author);
        }
    }

    /// Updates the reputation after `author` had a transaction ordered: validators before it may have missed
    /// their turns.
    fn judge_others(&mut self, now: TimestampMs, author: ValidatorIndex, sender: &Address, waited: &Waited) {
        let forwarding = &mut self.forwarding;
        let turns = now.0.saturating_sub(waited.since.0) / self.pool.turn();
        let place = forwarding.distance(sender, author);
        let before: Vec<_> =
            forwarding.order(&forwarding.rotation.unwrap_or_default(), sender).take(place).map(|(index, _)| index).collect();
        for (distance, index) in before.into_iter().enumerate() {
            // Validators other than the owner wait for the turn before theirs, if they got the transaction at
            // the same time as the owner.
            let patience = if distance == 0 { 1 } else { 2 };
            if Some(index) == forwarding.own || turns < patience {
                continue;
            }
            if waited.asked.contains(&index) {
                forwarding.reputation.missed(index);
            } else if distance == 0 {
                forwarding.reputation.suspect(index, now);
            }
        }
    }

    /// Forwards transactions that were not executed in their turn to further validators.
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

    /// Sends the gathered transactions, unless a message was just sent.
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

    /// Next time at which forwarding has work.
    pub(super) fn forwarding_deadline(&self) -> Option<TimestampMs> {
        let rotation = self.forwarding.next.map(|(_, begins)| begins);
        [self.forwarding.send_at(), self.tell_at(), self.pool.next_due(), rotation].into_iter().flatten().min()
    }

    /// Handles a new block, which may be the first of another rotation.
    pub(super) fn next_rotation(&mut self, now: TimestampMs, header: &Header) {
        let Some(rotation) = self.forwarding.rotation else { return };
        let newest = self.forwarding.next.map_or(rotation, |(next, _)| next);
        if let Some(next) = newest.next(header) {
            self.forwarding.next = Some((next, Rotation::begins(header, now)));
            self.rotate(now);
        }
    }

    /// Starts the next rotation if it is time.
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

/// Splits transactions into messages, in order, within the limits of a message.
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
