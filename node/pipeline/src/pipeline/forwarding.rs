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
//!
//! An engine may say that only some validators propose now. Then the others are skipped, and hand over what they would
//! have proposed.

use super::{Pipeline, reputation::Reputation};
use crate::execution::VerifiedTransaction;
use crate::io::{NodeKey, Output};
use crate::message::{MAX_FORWARDED_BYTES, MAX_FORWARDED_TRANSACTIONS, PeerMessage};
use corniche_admission::{ROTATION_OVERLAP_MS, Responsibility, Rotation, TURN_MS, WaitingTime};
use corniche_engine::Committee;
use corniche_types::{Address, B256, Block, Bytes, Header, Receipt, SkipReason, TimestampMs, ValidatorIndex, Weights};
use std::collections::{BTreeMap, BTreeSet};

/// Transactions within this time after a message are gathered into the next one; the first is sent at once. A message
/// costs its receiver more than the transactions in it, so the time grows with their number.
const BATCHING_DELAY_MS: u64 = 5;
const MAX_BATCHING_DELAY_MS: u64 = 20;
/// Limits of repeated forwarding: transactions and bytes per interval `REFORWARD_INTERVAL_MS`. They share the peers' queues
/// with the engine's batches.
const MAX_REFORWARDED: usize = 256;
const MAX_REFORWARDED_BYTES: usize = 256 << 10;
/// Maximum number of transactions that are forwarded at once when the engine does not let this node propose any more.
const MAX_HANDED_OVER: usize = 4_096;
/// Minimum number of validators that get a new transaction at once, and interval of repeated forwarding.
const INITIAL_RECIPIENTS: usize = 2;
const REFORWARD_INTERVAL_MS: u64 = 500;

/// Reachable validators, and transactions to be sent to them.
pub(super) struct Forwarding {
    own: Option<ValidatorIndex>,
    is_sharded: bool,
    /// All validators in order, by the seat of the first one.
    orders: Vec<Vec<ValidatorIndex>>,
    /// Number of validators that get a new transaction at once.
    at_once: usize,
    /// Connected validators.
    reachable: BTreeMap<ValidatorIndex, NodeKey>,
    /// Validators that were not connected since the start, until they had time for it.
    connecting: BTreeSet<ValidatorIndex>,
    connecting_until: TimestampMs,
    /// `None`: no buckets; every validator proposes its users' transactions.
    rotation: Option<Rotation>,
    /// Validators that the engine lets propose now.
    proposers: BTreeSet<ValidatorIndex>,
    /// Previous rotation, until no more of its transactions may arrive.
    previous: Option<(Rotation, TimestampMs)>,
    /// Next rotation, and when it begins.
    next: Option<(Rotation, TimestampMs)>,
    /// Time when the rotation began here.
    began: TimestampMs,
    reputation: Reputation,
    queued: BTreeMap<NodeKey, Vec<Bytes>>,
    last_sent: TimestampMs,
    batching_delay_ms: u64,
    last_forwarded: TimestampMs,
}

impl Forwarding {
    /// If `is_sharded`, validators with F + 1 votes get a new transaction, because they check its signature for the others. A full
    /// node's transactions are forwarded to them by the validators that get them.
    pub fn new(
        own: Option<ValidatorIndex>,
        committee: &Committee,
        is_sharded: bool,
        rotation: Option<Rotation>,
        now: TimestampMs,
    ) -> Self {
        let orders = orders(committee.weights());
        let checkers = if is_sharded && own.is_some() { checkers(&orders, committee.weights()) } else { 0 };
        Self {
            at_once: checkers.max(INITIAL_RECIPIENTS),
            connecting: committee.indices().collect(),
            connecting_until: TimestampMs(now.0.saturating_add(TURN_MS)),
            own,
            is_sharded,
            orders,
            reachable: BTreeMap::new(),
            proposers: committee.indices().collect(),
            rotation: rotation.filter(|_| committee.size() > 1),
            previous: None,
            next: None,
            began: now,
            reputation: Reputation::new(committee.weights()),
            queued: BTreeMap::new(),
            last_sent: TimestampMs(0),
            batching_delay_ms: BATCHING_DELAY_MS,
            last_forwarded: TimestampMs(0),
        }
    }

    /// Continues with another committee, of which these members are connected. What is queued stays queued.
    pub fn start_epoch(
        &mut self,
        own: Option<ValidatorIndex>,
        committee: &Committee,
        connected: impl IntoIterator<Item = (ValidatorIndex, NodeKey)>,
        now: TimestampMs,
    ) {
        let before = std::mem::replace(self, Self::new(own, committee, self.is_sharded, self.rotation, now));
        (self.previous, self.next) = (before.previous, before.next);
        (self.queued, self.last_sent, self.batching_delay_ms) = (before.queued, before.last_sent, before.batching_delay_ms);
        self.last_forwarded = before.last_forwarded;
        connected.into_iter().for_each(|(index, key)| self.peer_up(index, key));
    }

    pub fn peer_up(&mut self, index: ValidatorIndex, key: NodeKey) {
        self.reachable.insert(index, key);
        self.connecting.remove(&index);
    }

    pub fn peer_down(&mut self, key: &NodeKey) {
        self.reachable.retain(|_, other| other != key);
    }

    pub fn set_proposers(&mut self, proposers: BTreeSet<ValidatorIndex>) {
        self.proposers = proposers;
    }

    /// True if this node proposes its transactions, as soon as its engine asks for some.
    fn proposes(&self) -> bool {
        self.own.is_some_and(|own| self.proposers.contains(&own))
    }

    /// True if this node forwards transactions: full nodes do, validators that do not propose now, and those that are not alone.
    fn forwards(&self) -> bool {
        !self.proposes() || self.rotation.is_some()
    }

    /// Our position in a sender's order. Without buckets, only transactions of other validators have an order: those that they
    /// cannot propose.
    fn position(&self, now: TimestampMs, sender: &Address, is_from_validator: bool) -> Option<u32> {
        match &self.rotation {
            Some(rotation) => self.position_by(rotation, now, sender),
            None if is_from_validator => self.position_by(&Rotation::default(), now, sender),
            None => self.own.map(|_| 0),
        }
    }

    fn position_by(&self, rotation: &Rotation, now: TimestampMs, sender: &Address) -> Option<u32> {
        let own = self.own?;
        let is_connecting = |index| now < self.connecting_until && self.connecting.contains(&index);
        // Validators before us that a forwarding node could have reached instead.
        let ahead = self.order(rotation, sender).take_while(|(index, _)| *index != own);
        let is_waited_for = |index| self.proposers.contains(&index) && !self.reputation.is_silent(index);
        let ahead = ahead.filter(|(index, key)| (key.is_some() || is_connecting(*index)) && is_waited_for(*index)).count();
        Some(u32::try_from(ahead).expect("a committee is small"))
    }

    /// True if this node owns the sender in the current rotation.
    fn owns(&self, now: TimestampMs, sender: &Address) -> bool {
        self.rotation.as_ref().is_some_and(|rotation| self.position_by(rotation, now, sender) == Some(0))
    }

    /// True if a node that still uses the previous rotation takes us for the owner.
    fn owned_before(&self, now: TimestampMs, sender: &Address) -> bool {
        let previous = self.previous.as_ref().filter(|(_, until)| now <= *until);
        previous.is_some_and(|(rotation, _)| self.position_by(rotation, now, sender) == Some(0))
    }

    /// Switches to the next rotation if it is time; returns true if so.
    fn begin_rotation(&mut self, now: TimestampMs) -> bool {
        let Some((next, _)) = self.next.take_if(|(_, begins)| *begins <= now) else { return false };
        let until = TimestampMs(now.0.saturating_add(ROTATION_OVERLAP_MS));
        self.began = now;
        self.previous = self.rotation.replace(next).map(|previous| (previous, until));
        true
    }

    /// All validators in a sender's order, with the keys of connected ones.
    fn order(&self, rotation: &Rotation, sender: &Address) -> impl Iterator<Item = (ValidatorIndex, Option<NodeKey>)> {
        let order = &self.orders[rotation.owner(sender, self.orders.len())];
        order.iter().map(|index| (*index, self.reachable.get(index).copied()))
    }

    /// Validators to ask in turn: connected ones that propose, and this one (without a key) if it `orders` now;
    /// silent ones last.
    fn recipients(&self, sender: &Address, orders: bool) -> Vec<(ValidatorIndex, Option<NodeKey>)> {
        let rotation = self.rotation.unwrap_or_default();
        let is_reachable = |index, key: Option<NodeKey>| if Some(index) == self.own { orders } else { key.is_some() };
        let order = self.order(&rotation, sender).filter(|(index, _)| self.proposers.contains(index));
        let connected = order.filter(|(index, key)| is_reachable(*index, *key));
        let (silent, mut recipients): (Vec<_>, Vec<_>) = connected.partition(|(index, _)| self.reputation.is_silent(*index));
        recipients.extend(silent);
        recipients
    }

    /// Validators to ask at once: the first ones, and silent ones whose turn it was.
    fn initial_recipients(&self, sender: &Address, orders: bool) -> Vec<(ValidatorIndex, Option<NodeKey>)> {
        let recipients = self.recipients(sender, orders);
        let first = recipients.first().map(|(index, _)| *index);
        let rotation = self.rotation.unwrap_or_default();
        let order = self.order(&rotation, sender).map(|(index, _)| index);
        let before_first: Vec<_> = order.take_while(|index| Some(*index) != first).collect();
        let (now, later) = recipients.split_at(recipients.len().min(self.at_once));
        let skipped = later.iter().filter(|(index, _)| before_first.contains(index));
        now.iter().chain(skipped).copied().collect()
    }

    /// Connected validators that do not get this sender's transactions at once.
    pub fn attestation_recipients(&self, sender: &Address, orders: bool) -> Vec<NodeKey> {
        let at_once = self.recipients(sender, orders).into_iter().take(self.at_once);
        let at_once: BTreeSet<_> = at_once.map(|(index, _)| index).collect();
        let others = self.reachable.iter().filter(|(index, _)| !at_once.contains(index));
        others.map(|(_, key)| *key).collect()
    }

    /// Position of a validator in this sender's order of all validators.
    fn distance(&self, sender: &Address, index: ValidatorIndex) -> usize {
        let rotation = self.rotation.unwrap_or_default();
        let mut order = self.order(&rotation, sender);
        order.position(|(other, _)| other == index).expect("invariant: an order names all validators")
    }

    fn queue(&mut self, transaction: &VerifiedTransaction, to: &[(ValidatorIndex, Option<NodeKey>)]) {
        for peer in to.iter().filter_map(|(_, key)| key.as_ref()) {
            let raw = transaction.transaction().raw().clone();
            self.queued.entry(*peer).or_default().push(raw);
        }
    }

    /// Returns the queued transactions, and gathers the next ones for a time in proportion to their number.
    fn take_queued(&mut self, now: TimestampMs) -> BTreeMap<NodeKey, Vec<Bytes>> {
        let queued = std::mem::take(&mut self.queued);
        let transactions: usize = queued.values().map(Vec::len).sum();
        let per_message = transactions / queued.len().max(1);
        let most = MAX_BATCHING_DELAY_MS / BATCHING_DELAY_MS;
        self.batching_delay_ms = BATCHING_DELAY_MS * (per_message as u64).clamp(1, most);
        self.last_sent = now;
        queued
    }

    /// Time for the next message.
    fn send_at(&self) -> Option<TimestampMs> {
        (!self.queued.is_empty()).then(|| TimestampMs(self.last_sent.0 + self.batching_delay_ms))
    }
}

impl Pipeline {
    /// Responsibility of this node for a transaction from a peer or a user.
    pub(super) fn responsibility(&self, now: TimestampMs, sender: &Address, from: Option<NodeKey>) -> Responsibility {
        let validator = from.and_then(|peer| self.peers.get(&peer)).is_some_and(|peer| peer.validator.is_some());
        let position = self.forwarding.position(now, sender, validator);
        let at_once = u32::try_from(self.forwarding.at_once).expect("a committee is small");
        let responsibility = Responsibility {
            position,
            // A validator that sends it to one that does not propose may not know that, or may be down soon.
            is_responsible: self.forwarding.forwards() && (!validator || !self.forwarding.proposes()),
            forwarded: from.is_some() && position.is_none_or(|position| position >= at_once),
            disputed: false,
        };
        let at_edge = validator && self.forwarding.owned_before(now, sender);
        if at_edge { responsibility.adjust_for_rotation(at_once) } else { responsibility }
    }

    /// Forwards a new transaction of a user.
    pub(super) fn forward(&mut self, transaction: &VerifiedTransaction) {
        let recipients = self.forwarding.initial_recipients(&transaction.sender(), self.mode.is_ordering());
        self.forwarding.queue(transaction, &recipients);
        let indices = recipients.into_iter().map(|(index, _)| index).collect();
        self.pool.set_recipients(&transaction.hash(), indices);
    }

    /// If the engine does not let this node propose: it forwards what it would have proposed.
    pub(super) fn hand_over(&mut self) {
        if !self.forwarding.proposes() {
            // The others follow at the end of the turn.
            let handed_over = self.pool.hand_over();
            handed_over.iter().take(MAX_HANDED_OVER).for_each(|transaction| self.forward(transaction));
        }
    }

    /// Forwards a copy to its owner, if that one may have missed recent transactions.
    pub(super) fn forward_copy(&mut self, now: TimestampMs, transaction: &VerifiedTransaction) {
        let Some(rotation) = self.forwarding.rotation else { return };
        let Some((owner, key)) = self.forwarding.order(&rotation, &transaction.sender()).next() else { return };
        if key.is_some() && self.forwarding.reputation.is_suspected(owner, now) {
            self.forwarding.queue(transaction, &[(owner, key)]);
            self.pool.set_recipients(&transaction.hash(), vec![owner]);
        }
    }

    /// Updates reputation and latency from a block, before the pool removes its transactions.
    pub(super) fn update_reputation(&mut self, now: TimestampMs, block: &Block, receipts: &[Receipt]) {
        if self.forwarding.rotation.is_none() {
            return;
        }
        for (ordered, receipt) in block.executed().zip(receipts) {
            let (author, sender) = (ordered.author, receipt.sender);
            self.record_proposal(author, &sender);
            let Some(waited) = self.pool.waited(&receipt.transaction_hash) else { continue };
            let ms = now.0.saturating_sub(waited.since.0);
            self.forwarding.reputation.record_latency(ms);
            if waited.arrived_at >= self.forwarding.began {
                self.record_missed_turns(now, author, &sender, &waited);
            }
        }
        self.record_duplicates(block, receipts);
        self.pool.set_turn(self.forwarding.reputation.turn());
    }

    /// A silent validator's proposals often come after those of the validator that takes its turn, as
    /// duplicates.
    fn record_duplicates(&mut self, block: &Block, receipts: &[Receipt]) {
        let duplicates = block.ordering.skipped.iter().filter(|skipped| skipped.reason == SkipReason::NonceTooLow);
        let author_of = |position: u32| block.ordered.get(usize::try_from(position).ok()?).map(|ordered| ordered.author);
        let duplicates = duplicates.filter_map(|skipped| Some((author_of(skipped.position)?, skipped.hash)));
        // Each counts once, however often it is in a batch.
        let duplicates: BTreeSet<_> = duplicates.filter(|(author, _)| self.forwarding.reputation.has_debt(*author)).collect();
        if duplicates.is_empty() {
            return;
        }
        let executed = block.executed().zip(receipts);
        let executed: BTreeMap<B256, (ValidatorIndex, Address)> =
            executed.map(|(ordered, receipt)| (receipt.transaction_hash, (ordered.author, receipt.sender))).collect();
        for (author, hash) in duplicates {
            if let Some((_, sender)) = executed.get(&hash).filter(|(first, _)| *first != author) {
                self.record_proposal(author, sender);
            }
        }
    }

    fn record_proposal(&mut self, author: ValidatorIndex, sender: &Address) {
        if self.forwarding.reputation.has_debt(author) && self.forwarding.distance(sender, author) == 0 {
            self.forwarding.reputation.proposed(author);
        }
    }

    /// Updates the reputation after `author` had a transaction ordered: validators before it may have missed
    /// their turns.
    fn record_missed_turns(&mut self, now: TimestampMs, author: ValidatorIndex, sender: &Address, waited: &WaitingTime) {
        let forwarding = &mut self.forwarding;
        let turns = now.0.saturating_sub(waited.since.0) / self.pool.turn();
        let position = forwarding.distance(sender, author);
        let previous: Vec<_> =
            forwarding.order(&forwarding.rotation.unwrap_or_default(), sender).take(position).map(|(index, _)| index).collect();
        for (distance, index) in previous.into_iter().enumerate() {
            // Validators other than the owner wait for the turn before theirs, if they got the transaction at
            // the same time as the owner.
            let min_turns = distance as u64 + 1;
            let is_ours = Some(index) == forwarding.own;
            if is_ours || turns < min_turns || !forwarding.proposers.contains(&index) {
                continue;
            }
            if waited.recipients.contains(&index) {
                forwarding.reputation.missed(index);
            } else if distance == 0 {
                forwarding.reputation.suspect(index, now);
            }
        }
    }

    /// Forwards transactions that were not executed in their turn to further validators.
    pub(super) fn forward_again(&mut self, now: TimestampMs) {
        if self.next_forward_at().is_none_or(|at| now < at) {
            return;
        }
        self.forwarding.last_forwarded = now;
        for (turns, transaction) in self.pool.take_overdue(MAX_REFORWARDED, MAX_REFORWARDED_BYTES) {
            let recipients = self.forwarding.recipients(&transaction.sender(), self.mode.is_ordering());
            if recipients.is_empty() {
                continue;
            }
            let next = (turns as usize + INITIAL_RECIPIENTS - 1) % recipients.len();
            let again = [recipients[0], recipients[next]];
            self.forwarding.queue(&transaction, if next == 0 { &again[..1] } else { &again });
        }
    }

    fn next_forward_at(&self) -> Option<TimestampMs> {
        let turn = self.pool.next_turn()?;
        Some(turn.max(TimestampMs(self.forwarding.last_forwarded.0 + REFORWARD_INTERVAL_MS)))
    }

    /// Sends the gathered transactions, unless a message was just sent.
    pub(super) fn send_queued(&mut self, now: TimestampMs) {
        if self.forwarding.send_at().is_none_or(|at| now < at) {
            return;
        }
        for (to, raw) in self.forwarding.take_queued(now) {
            for transactions in split_into_messages(raw) {
                self.out.push_back(Output::Send { to: vec![to], message: PeerMessage::Transactions(transactions) });
            }
        }
    }

    /// Next time at which forwarding has work.
    pub(super) fn forwarding_deadline(&self) -> Option<TimestampMs> {
        let rotation = self.forwarding.next.map(|(_, begins)| begins);
        [self.forwarding.send_at(), self.next_forward_at(), self.pool.next_due(), rotation].into_iter().flatten().min()
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
            let edge = TimestampMs(now.0.saturating_sub(ROTATION_OVERLAP_MS));
            self.pool.rotate(edge, |sender| self.forwarding.owns(now, sender));
            self.hand_over();
        }
    }
}

/// The order from each seat on: the owners of the seats along the table, without repeats. A sender belongs to a seat, so a
/// validator owns as large a part of them as it has of the votes.
fn orders(weights: &Weights) -> Vec<Vec<ValidatorIndex>> {
    let seats = weights.seats();
    let from = |first: usize| {
        let mut named = BTreeSet::new();
        seats[first..].iter().chain(&seats[..first]).copied().filter(|owner| named.insert(*owner)).collect()
    };
    (0..seats.len()).map(from).collect()
}

/// Number of validators that have F + 1 votes, whichever seat they are counted from.
fn checkers(orders: &[Vec<ValidatorIndex>], weights: &Weights) -> usize {
    let needed = |order: &Vec<_>| weights.take_votes(order.iter().copied(), weights.validity()).len();
    orders.iter().map(needed).max().unwrap_or(0)
}

/// Splits transactions into messages, in order, within the limits of a message.
fn split_into_messages(raw: Vec<Bytes>) -> Vec<Vec<Bytes>> {
    let mut messages: Vec<Vec<Bytes>> = Vec::new();
    let mut bytes = 0;
    for transaction in raw {
        let size = transaction.len();
        let fits = bytes + size <= MAX_FORWARDED_BYTES;
        match messages.last_mut().filter(|last| fits && last.len() < MAX_FORWARDED_TRANSACTIONS) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::{FaultModel, Votes};

    fn weights(votes: &[u32]) -> Weights {
        Weights::new(votes.iter().copied().map(Votes), FaultModel::Byzantine)
    }

    #[test]
    fn one_vote_each_gives_the_order_by_index() {
        let orders = orders(&weights(&[1; 5]));
        let expected: Vec<Vec<_>> =
            (0..5).map(|first| (0..5).map(|next| ValidatorIndex((first + next) % 5)).collect()).collect();
        assert_eq!(orders, expected);
        let seven = weights(&[1; 7]);
        assert_eq!(checkers(&self::orders(&seven), &seven), 3);
    }

    #[test]
    fn each_order_names_all_and_seats_are_votes() {
        let votes = [3, 2, 2, 1, 1, 1];
        let orders = orders(&weights(&votes));
        let owned = |validator: u16| orders.iter().filter(|order| order[0] == ValidatorIndex(validator)).count() as u32;
        assert_eq!([0, 1, 2, 3, 4, 5].map(owned), votes);
        assert!(orders.iter().all(|order| order.iter().collect::<BTreeSet<_>>().len() == 6 && order.len() == 6));
        // F = 3. From the seats of the small ones, the next large one is needed too.
        let enough = |order: &[ValidatorIndex]| weights(&votes).weigh(order.iter().copied()) > Votes(3);
        let count = checkers(&orders, &weights(&votes));
        assert!(orders.iter().all(|order| enough(&order[..count])));
        assert!(orders.iter().any(|order| !enough(&order[..count - 1])));
    }
}
