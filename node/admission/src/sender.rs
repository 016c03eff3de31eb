//! One sender's transactions by nonce.

use crate::{
    Responsibility,
    rotation::{MAX_TURNS, TURN_MS},
};
use corniche_crypto::VerifiedTransaction;
use corniche_state::Account;
use corniche_types::{TimestampMs, U256, ValidatorIndex};
use std::{cell::Cell, cmp::Ordering, collections::BTreeMap};

#[derive(Debug)]
pub(crate) struct Entry {
    pub transaction: VerifiedTransaction,
    /// Position in the order of arrival; kept when it is requeued.
    pub arrival: u64,
    pub arrived_at: TimestampMs,
    /// Responsibility of this node for it.
    pub responsibility: Responsibility,
    /// Validators to which this node sent it on arrival.
    pub recipients: Vec<ValidatorIndex>,
    /// If it was cut: the time since when it was proposable.
    pub cut_after: Option<TimestampMs>,
    /// Gas limit × max fee + value.
    pub cost: U256,
    /// Number of blocks when it was cut into a batch; `None` while it waits.
    pub in_flight_since: Option<u64>,
    /// Number of its batches that counted as lost.
    pub lost: u32,
}

impl Entry {
    pub fn is_waiting(&self) -> bool {
        self.in_flight_since.is_none()
    }

    /// Tip per gas for the proposer; `None` if the transaction does not pay the base fee.
    pub fn tip(&self, base_fee: u64) -> Option<u128> {
        tip(&self.transaction, base_fee)
    }
}

pub(crate) fn tip(transaction: &VerifiedTransaction, base_fee: u64) -> Option<u128> {
    let above_base = transaction.max_fee_per_gas().checked_sub(u128::from(base_fee))?;
    Some(transaction.max_priority_fee_per_gas().min(above_base))
}

/// Transactions of a sender. Entries from `nonce` on without a gap are ready; those after the first gap are
/// queued.
///
/// A sender may have a thousand entries and add them one by one. So the sums that admission needs are kept up
/// to date ([`Totals`]) instead of being computed each time.
#[derive(Debug, Default)]
pub(crate) struct SenderQueue {
    /// Nonce of the account at the last check; all entries have at least this nonce.
    nonce: u64,
    entries: BTreeMap<u64, Entry>,
    totals: Totals,
    /// Account and number of blocks at the last check of all entries; later entries are checked when they are
    /// added.
    pub last_check: Option<(u64, Account)>,
    /// Time since when its first waiting transaction is proposable; restarts when a transaction of this
    /// sender is executed.
    pub proposable_since: Option<TimestampMs>,
    /// Like `proposable_since`, but not restarted by executions. It bounds the delay by an owner that orders
    /// only one transaction per turn.
    waiting_since: Option<TimestampMs>,
    /// Number of turns that ended since then; after each, another validator got the transactions.
    pub turns: u32,
    /// True if this node is, or was, responsible for some of these.
    pub is_responsible: bool,
}

/// Sums over the entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Totals {
    /// First nonce, from the account's on, without an entry.
    ready_end: u64,
    /// No entry below it waits, and the entries below it have no gap.
    waiting_from: u64,
    waiting: usize,
    cost: U256,
    /// Lowest tip of the waiting entries at this base fee, and their number; `None` if unknown.
    lowest_tip: Cell<Option<(u64, Option<u128>, usize)>>,
}

impl SenderQueue {
    pub fn nonce(&self) -> u64 {
        self.nonce
    }

    pub fn entries(&self) -> &BTreeMap<u64, Entry> {
        &self.entries
    }

    /// Returns true if it changed. The caller must remove the entries below it.
    pub fn set_nonce(&mut self, nonce: u64) -> bool {
        let changed = self.nonce != nonce;
        if changed {
            self.nonce = nonce;
            self.proposable_since = None;
            self.recount();
        }
        changed
    }

    /// Adds a waiting entry at a free nonce.
    pub fn insert(&mut self, nonce: u64, entry: Entry) {
        self.is_responsible |= entry.responsibility.is_responsible;
        let totals = &mut self.totals;
        totals.cost = totals.cost.saturating_add(entry.cost);
        totals.waiting += 1;
        totals.waiting_from = totals.waiting_from.min(nonce);
        totals.add_tip(&entry);
        self.entries.insert(nonce, entry);
        while self.entries.contains_key(&self.totals.ready_end) {
            self.totals.ready_end += 1;
        }
    }

    pub fn remove(&mut self, nonce: u64) -> Option<Entry> {
        let entry = self.entries.remove(&nonce)?;
        let totals = &mut self.totals;
        if nonce >= self.nonce {
            totals.ready_end = totals.ready_end.min(nonce);
        }
        if entry.is_waiting() {
            totals.waiting -= 1;
            totals.remove_tip(&entry);
        }
        if totals.cost == U256::MAX {
            self.recount();
        } else {
            totals.cost -= entry.cost;
        }
        Some(entry)
    }

    /// Adds a responsibility for an entry.
    pub fn add_responsibility(&mut self, nonce: u64, responsibility: Responsibility) {
        if let Some(entry) = self.entries.get_mut(&nonce) {
            entry.responsibility = entry.responsibility.and(responsibility);
            self.is_responsible |= responsibility.is_responsible;
        }
    }

    /// Takes ownership of transactions that were forwarded since then, if this node was neither first nor
    /// second for them in the old order. Their sender knew the new order, in which this node is the owner.
    pub fn take_ownership_since(&mut self, since: TimestampMs) {
        let recent =
            self.entries.values_mut().filter(|entry| entry.arrived_at >= since && !entry.responsibility.is_responsible);
        let matching = recent.filter(|entry| entry.responsibility.forwarded && entry.responsibility.position > Some(1));
        matching.for_each(|entry| entry.responsibility.position = Some(0));
    }

    /// Time at which this entry may be proposed here; `None` if it is not proposable, or not here.
    pub fn due(&self, entry: &Entry, turn: u64) -> Option<TimestampMs> {
        let due = entry.responsibility.due(self.proposable_since?.max(entry.arrived_at), turn)?;
        let waiting_since = self.waiting_since?.max(entry.arrived_at);
        Some(due.min(TimestampMs(waiting_since.0.saturating_add(MAX_TURNS * TURN_MS))))
    }

    /// End of the current turn; `None` if no further validator needs the transactions.
    pub fn turn_ends(&self, turn: u64) -> Option<TimestampMs> {
        let since = self.turns_since().filter(|_| self.is_responsible)?;
        Some(TimestampMs(since.0.saturating_add(u64::from(self.turns + 1) * turn)))
    }

    /// Sets whether its first waiting transaction is proposable now, by any validator.
    pub fn set_proposable(&mut self, proposable: bool, now: TimestampMs, turn: u64) {
        if !proposable {
            (self.proposable_since, self.waiting_since) = (None, None);
        } else if self.proposable_since.is_none() {
            self.proposable_since = Some(now);
            self.waiting_since.get_or_insert(now);
            self.turns = self.turns_by(now, turn);
        }
    }

    /// A step of the nonce restarts the turns, but only up to [`MAX_TURNS`].
    fn turns_since(&self) -> Option<TimestampMs> {
        let (since, waiting_since) = (self.proposable_since?, self.waiting_since?);
        Some(if since.0 - waiting_since.0 < MAX_TURNS * TURN_MS { since } else { waiting_since })
    }

    /// Number of turns that ended by now; see [`Self::turns`].
    pub fn turns_by(&self, now: TimestampMs, turn: u64) -> u32 {
        let waits = self.turns_since().map_or(0, |since| now.0.saturating_sub(since.0));
        // One less than the maximum, so that the next one can be counted.
        u32::try_from(waits / turn).unwrap_or(u32::MAX).min(u32::MAX - 1)
    }

    /// Waiting entries for which this node is responsible, and that arrived at least a turn ago. After
    /// [`MAX_TURNS`] without a pause: at least that many turns ago.
    pub fn overdue(&self, now: TimestampMs, turn: u64) -> impl Iterator<Item = &Entry> {
        let waits = if self.turns_since() == self.proposable_since { turn } else { MAX_TURNS * TURN_MS };
        let before = TimestampMs(now.0.saturating_sub(waits));
        self.entries
            .values()
            .filter(move |entry| entry.is_waiting() && entry.responsibility.is_responsible && entry.arrived_at <= before)
    }

    /// Marks an entry as cut into a batch after this number of blocks.
    pub fn mark_in_flight(&mut self, nonce: u64, blocks: u64) {
        let since = self.proposable_since;
        let Some(entry) = self.entries.get_mut(&nonce).filter(|entry| entry.is_waiting()) else { return };
        self.totals.waiting -= 1;
        self.totals.remove_tip(entry);
        if self.totals.waiting_from == nonce {
            self.totals.waiting_from += 1;
        }
        entry.in_flight_since = Some(blocks);
        entry.cut_after = since.map(|since| since.max(entry.arrived_at));
    }

    /// Its next transaction, and the time since when it was proposable, cut here or not.
    pub fn first_since(&self) -> Option<(&Entry, TimestampMs)> {
        let first = self.entries.get(&self.nonce)?;
        let waits_since = || self.proposable_since.map(|since| since.max(first.arrived_at));
        let since = if first.is_waiting() { waits_since() } else { first.cut_after };
        Some((first, since?))
    }

    pub fn set_recipients(&mut self, nonce: u64, recipients: Vec<ValidatorIndex>) {
        if let Some(entry) = self.entries.get_mut(&nonce) {
            entry.recipients = recipients;
        }
    }

    /// Marks an entry as waiting again: its batch came back.
    pub fn requeue_entry(&mut self, nonce: u64) {
        let Some(entry) = self.entries.get_mut(&nonce).filter(|entry| !entry.is_waiting()) else { return };
        entry.in_flight_since = None;
        self.last_check = None;
        self.totals.waiting += 1;
        self.totals.waiting_from = self.totals.waiting_from.min(nonce);
        self.totals.add_tip(entry);
    }

    pub fn requeue_entries(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.in_flight_since = None);
        self.last_check = None;
        self.recount();
    }

    /// Marks entries that were cut after at most this number of blocks as lost; returns true if there are
    /// any.
    pub fn mark_lost(&mut self, cut_by: u64) -> bool {
        let mut any = false;
        for entry in self.entries.values_mut().filter(|entry| entry.in_flight_since.is_some_and(|since| since <= cut_by)) {
            entry.in_flight_since = None;
            entry.lost += 1;
            any = true;
        }
        if any {
            self.recount();
        }
        any
    }

    fn recount(&mut self) {
        self.totals = self.count();
    }

    /// Computes the tally from the entries.
    fn count(&self) -> Totals {
        let run = (self.nonce..=u64::MAX).zip(self.entries.range(self.nonce..));
        let run = run.take_while(|(expected, (nonce, _))| expected == *nonce);
        let in_flight = run.clone().take_while(|(_, (_, entry))| !entry.is_waiting()).count();
        Totals {
            ready_end: self.nonce + run.count() as u64,
            waiting_from: self.nonce + in_flight as u64,
            waiting: self.entries.values().filter(|entry| entry.is_waiting()).count(),
            cost: self.entries.values().fold(U256::ZERO, |sum, entry| sum.saturating_add(entry.cost)),
            lowest_tip: Cell::new(None),
        }
    }

    pub fn ready_len(&self) -> usize {
        usize::try_from(self.next_nonce() - self.nonce).expect("a queue is bounded")
    }

    pub fn any_waiting(&self) -> bool {
        self.totals.waiting > 0
    }

    /// First waiting entry from this nonce on, before any gap.
    pub fn next_waiting(&self, from: u64) -> Option<&Entry> {
        let totals = &self.totals;
        let skips = (self.nonce..totals.waiting_from).contains(&from) && totals.waiting_from <= totals.ready_end;
        let from = if skips { totals.waiting_from } else { from };
        let run = (from..=u64::MAX).zip(self.entries.range(from..));
        let mut entries = run.take_while(|(expected, (nonce, _))| expected == *nonce).map(|(_, (_, entry))| entry);
        entries.find(|entry| entry.is_waiting())
    }

    /// Nonce after the ready entries.
    pub fn next_nonce(&self) -> u64 {
        self.totals.ready_end.max(self.nonce)
    }

    /// Maximum cost of all entries except the one at `nonce`.
    pub fn cost_without(&self, nonce: u64) -> U256 {
        if self.totals.cost == U256::MAX {
            let others = self.entries.iter().filter(|(other, _)| **other != nonce);
            return others.fold(U256::ZERO, |sum, (_, entry)| sum.saturating_add(entry.cost));
        }
        self.totals.cost - self.entries.get(&nonce).map_or(U256::ZERO, |entry| entry.cost)
    }

    pub fn cost_in_flight(&self) -> U256 {
        let in_flight = self.entries.values().filter(|entry| !entry.is_waiting());
        in_flight.fold(U256::ZERO, |sum, entry| sum.saturating_add(entry.cost))
    }

    /// Last entry, whose removal leaves no gap, unless it is in flight.
    pub fn tail(&self) -> Option<&Entry> {
        self.entries.values().next_back().filter(|entry| entry.is_waiting())
    }

    /// Lowest tip of the waiting entries. A later entry is worth no more to a proposer than the entries
    /// before it.
    pub fn lowest_tip(&self, base_fee: u64) -> Option<u128> {
        if let Some((_, lowest, _)) = self.totals.lowest_tip.get().filter(|(at, _, _)| *at == base_fee) {
            return lowest;
        }
        let tips = || self.entries.values().filter(|entry| entry.is_waiting()).map(|entry| entry.tip(base_fee));
        let lowest = tips().min()?;
        let count = tips().filter(|tip| *tip == lowest).count();
        self.totals.lowest_tip.set(Some((base_fee, lowest, count)));
        lowest
    }

    /// Checks the tally against a new count.
    #[cfg(test)]
    pub fn assert_consistent(&self) {
        let (kept, counted) = (&self.totals, self.count());
        assert_eq!(
            (self.next_nonce(), kept.waiting, kept.cost),
            (counted.ready_end, counted.waiting, counted.cost),
            "a tally was stale"
        );
        let below = self.entries.range(..kept.waiting_from);
        assert!(below.clone().all(|(_, entry)| !entry.is_waiting()), "one that waits would be passed over");
        if let Some((base_fee, lowest, count)) = kept.lowest_tip.get() {
            let tips: Vec<_> =
                self.entries.values().filter(|entry| entry.is_waiting()).map(|entry| entry.tip(base_fee)).collect();
            assert_eq!(tips.iter().min(), Some(&lowest), "a lowest tip was stale");
            assert_eq!(tips.iter().filter(|tip| **tip == lowest).count(), count);
        }
    }
}

impl Totals {
    /// Updates the lowest tip for a new waiting entry.
    fn add_tip(&mut self, entry: &Entry) {
        let Some((base_fee, lowest, count)) = self.lowest_tip.get() else { return };
        let tip = entry.tip(base_fee);
        match tip.cmp(&lowest) {
            Ordering::Less => self.lowest_tip.set(Some((base_fee, tip, 1))),
            Ordering::Equal => self.lowest_tip.set(Some((base_fee, lowest, count + 1))),
            Ordering::Greater => {}
        }
    }

    /// Updates the lowest tip for a removed entry; the second-lowest tip is unknown.
    fn remove_tip(&mut self, entry: &Entry) {
        let Some((base_fee, lowest, count)) = self.lowest_tip.get() else { return };
        if entry.tip(base_fee) == lowest {
            self.lowest_tip.set((count > 1).then_some((base_fee, lowest, count - 1)));
        }
    }
}
