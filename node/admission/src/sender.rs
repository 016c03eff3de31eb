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

    pub fn fees(&self) -> Fees {
        Fees::of(&self.transaction)
    }
}

/// Fees per gas that a transaction offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fees {
    pub max: u128,
    /// At most `max`.
    pub priority: u128,
}

impl Fees {
    pub fn of(transaction: &VerifiedTransaction) -> Self {
        Self { max: transaction.max_fee_per_gas(), priority: transaction.max_priority_fee_per_gas() }
    }

    /// Tip per gas for the proposer; `None` if the base fee is not paid.
    pub fn tip(self, base_fee: u64) -> Option<u128> {
        let above_base = self.max.checked_sub(u128::from(base_fee))?;
        Some(self.priority.min(above_base))
    }

    /// Highest base fee at which the tip is the priority fee, and highest one that is paid.
    pub fn borders(self) -> [u128; 2] {
        [self.max.saturating_sub(self.priority), self.max]
    }
}

/// Lowest of several fees, and how often it occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lowest {
    fee: u128,
    count: usize,
}

impl Lowest {
    fn of(fees: impl Iterator<Item = u128>) -> Option<Self> {
        fees.fold(None, |lowest, fee| Some(lowest.map_or(Self { fee, count: 1 }, |lowest: Self| lowest.with(fee))))
    }

    fn with(self, fee: u128) -> Self {
        match fee.cmp(&self.fee) {
            Ordering::Less => Self { fee, count: 1 },
            Ordering::Equal => Self { count: self.count + 1, ..self },
            Ordering::Greater => self,
        }
    }

    /// `None` if the next one is unknown.
    fn without(self, fee: u128) -> Option<Self> {
        let count = self.count - usize::from(fee == self.fee);
        (count > 0).then_some(Self { count, ..self })
    }
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
    /// Lowest max fee and lowest priority fee of the waiting entries; `None` if unknown.
    lowest: Cell<Option<[Lowest; 2]>>,
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
        totals.add_fees(entry.fees());
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
            totals.remove_fees(entry.fees());
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

    /// Makes this node responsible for the waiting transactions that it would propose at some time. Returns those for which it was
    /// not.
    pub fn hand_over(&mut self) -> Vec<VerifiedTransaction> {
        let waiting = self.entries.values_mut().filter(|entry| entry.is_waiting());
        let others = waiting.filter(|entry| entry.responsibility.position.is_some() && !entry.responsibility.is_responsible);
        let changed = others.map(|entry| {
            entry.responsibility.is_responsible = true;
            entry.transaction.clone()
        });
        let changed: Vec<_> = changed.collect();
        self.is_responsible |= !changed.is_empty();
        changed
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
        self.totals.remove_fees(entry.fees());
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

    pub fn forget_recipients(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.recipients.clear());
    }

    /// Marks an entry as waiting again: its batch came back.
    pub fn requeue_entry(&mut self, nonce: u64) {
        let Some(entry) = self.entries.get_mut(&nonce).filter(|entry| !entry.is_waiting()) else { return };
        entry.in_flight_since = None;
        self.last_check = None;
        self.totals.waiting += 1;
        self.totals.waiting_from = self.totals.waiting_from.min(nonce);
        self.totals.add_fees(entry.fees());
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
            lowest: Cell::new(None),
        }
    }

    pub fn ready_len(&self) -> usize {
        usize::try_from(self.next_nonce() - self.nonce).expect("a queue is bounded")
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

    /// Lowest fees of the waiting entries. A later entry is worth no more to a proposer than the entries before it,
    /// and the lowest tip at any base fee follows from these.
    pub fn lowest_fees(&self) -> Option<Fees> {
        if self.totals.waiting == 0 {
            return None;
        }
        let [max, priority] = self.totals.lowest.get().or_else(|| self.count_lowest())?;
        self.totals.lowest.set(Some([max, priority]));
        Some(Fees { max: max.fee, priority: priority.fee })
    }

    fn count_lowest(&self) -> Option<[Lowest; 2]> {
        let fees = || self.entries.values().filter(|entry| entry.is_waiting()).map(Entry::fees);
        Some([Lowest::of(fees().map(|fees| fees.max))?, Lowest::of(fees().map(|fees| fees.priority))?])
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
        assert!(kept.lowest.get().is_none_or(|lowest| Some(lowest) == self.count_lowest()), "a lowest fee was stale");
    }
}

impl Totals {
    /// Updates the lowest fees for a new waiting entry.
    fn add_fees(&mut self, fees: Fees) {
        let Some([max, priority]) = self.lowest.get() else { return };
        self.lowest.set(Some([max.with(fees.max), priority.with(fees.priority)]));
    }

    /// Updates the lowest fees for a removed entry; the second-lowest ones are unknown.
    fn remove_fees(&mut self, fees: Fees) {
        let Some([max, priority]) = self.lowest.get() else { return };
        self.lowest.set(max.without(fees.max).zip(priority.without(fees.priority)).map(<[Lowest; 2]>::from));
    }
}
