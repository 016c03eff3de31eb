//! One sender's transactions by nonce.

use crate::{
    Standing,
    buckets::{MOST_TURNS, TURN_MS},
};
use corniche_crypto::VerifiedTransaction;
use corniche_state::Account;
use corniche_types::{TimestampMs, U256, ValidatorIndex};
use std::{cell::Cell, cmp::Ordering, collections::BTreeMap};

/// A pooled transaction.
#[derive(Debug)]
pub(crate) struct Entry {
    pub transaction: VerifiedTransaction,
    /// Position in the order of arrival; survives being requeued.
    pub arrival: u64,
    pub arrived_at: TimestampMs,
    /// What this node has to do with it.
    pub standing: Standing,
    /// Validators that this node sent it to when it came.
    pub asked: Vec<ValidatorIndex>,
    /// When it was cut: since when it could have been proposed.
    pub cut_after: Option<TimestampMs>,
    /// Gas limit × max fee + value.
    pub cost: U256,
    /// The count of blocks when it was cut into a batch; `None` while it waits.
    pub in_flight_since: Option<u64>,
    /// How many times its batch was given up for lost.
    pub lost: u32,
}

impl Entry {
    pub fn waits(&self) -> bool {
        self.in_flight_since.is_none()
    }

    /// What a proposer gets per gas; `None` when the transaction does not even pay the base fee.
    pub fn tip(&self, base_fee: u64) -> Option<u128> {
        tip(&self.transaction, base_fee)
    }
}

pub(crate) fn tip(transaction: &VerifiedTransaction, base_fee: u64) -> Option<u128> {
    let above_base = transaction.max_fee_per_gas().checked_sub(u128::from(base_fee))?;
    Some(transaction.max_priority_fee_per_gas().min(above_base))
}

/// See the module documentation. Entries from `nonce` on without a gap are ready, the ones after the first gap are queued.
///
/// A sender may have a thousand entries and adds them one by one, so what admission asks of all of them is kept up to date
/// ([`Tally`]) rather than counted again each time.
#[derive(Debug, Default)]
pub(crate) struct SenderQueue {
    /// The account's nonce when last looked at; no entry is below it.
    nonce: u64,
    entries: BTreeMap<u64, Entry>,
    tally: Tally,
    /// The account, and the count of blocks, as of which every entry was looked at; whatever is added later was looked at then.
    pub fresh: Option<(u64, Account)>,
    /// Since when its first waiting transaction could be proposed, and nothing of this sender was executed.
    pub proposable_since: Option<TimestampMs>,
    /// The same, whatever was executed: an owner that orders one of many a turn holds up the others no longer than this says.
    waiting_since: Option<TimestampMs>,
    /// Turns that ended since then, after each of which another validator was told.
    pub turns: u32,
    /// Some of these this node sees to, or did.
    pub ours: bool,
}

/// What one pass over the entries finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally {
    /// The first nonce, from the account's on, that no entry has.
    ready_end: u64,
    /// No entry below it waits; what it holds of them has no gap.
    waiting_from: u64,
    waiting: usize,
    cost: U256,
    /// The lowest tip among those that wait, at this base fee, and how many have it; `None` when not known.
    lowest_tip: Cell<Option<(u64, Option<u128>, usize)>>,
}

impl SenderQueue {
    pub fn nonce(&self) -> u64 {
        self.nonce
    }

    pub fn entries(&self) -> &BTreeMap<u64, Entry> {
        &self.entries
    }

    /// True when it changed. The caller takes out entries that are now below it.
    pub fn set_nonce(&mut self, nonce: u64) -> bool {
        let changed = self.nonce != nonce;
        if changed {
            self.nonce = nonce;
            self.proposable_since = None;
            self.count_again();
        }
        changed
    }

    /// Adds an entry that waits, at a nonce that has none.
    pub fn insert(&mut self, nonce: u64, entry: Entry) {
        self.ours |= entry.standing.ours;
        let tally = &mut self.tally;
        tally.cost = tally.cost.saturating_add(entry.cost);
        tally.waiting += 1;
        tally.waiting_from = tally.waiting_from.min(nonce);
        tally.add_tip(&entry);
        self.entries.insert(nonce, entry);
        while self.entries.contains_key(&self.tally.ready_end) {
            self.tally.ready_end += 1;
        }
    }

    pub fn remove(&mut self, nonce: u64) -> Option<Entry> {
        let entry = self.entries.remove(&nonce)?;
        let tally = &mut self.tally;
        if nonce >= self.nonce {
            tally.ready_end = tally.ready_end.min(nonce);
        }
        if entry.waits() {
            tally.waiting -= 1;
            tally.take_tip(&entry);
        }
        if tally.cost == U256::MAX {
            self.count_again();
        } else {
            tally.cost -= entry.cost;
        }
        Some(entry)
    }

    /// This node has something more to do with an entry.
    pub fn learn(&mut self, nonce: u64, standing: Standing) {
        if let Some(entry) = self.entries.get_mut(&nonce) {
            entry.standing = entry.standing.and(standing);
            self.ours |= standing.ours;
        }
    }

    /// Owns transactions that were passed on since then and that the old order gives to none of its first two: their sender knew the new
    /// order, by which this node is the owner.
    pub fn own_since(&mut self, since: TimestampMs) {
        let recent = self.entries.values_mut().filter(|entry| entry.arrived_at >= since && !entry.standing.ours);
        let meant = recent.filter(|entry| entry.standing.passed_on && entry.standing.place > Some(1));
        meant.for_each(|entry| entry.standing.place = Some(0));
    }

    /// When this one may be proposed here; `None` when it cannot be proposed anywhere, or not here.
    pub fn due(&self, entry: &Entry, turn: u64) -> Option<TimestampMs> {
        let due = entry.standing.due(self.proposable_since?.max(entry.arrived_at), turn)?;
        let waiting_since = self.waiting_since?.max(entry.arrived_at);
        Some(due.min(TimestampMs(waiting_since.0.saturating_add(MOST_TURNS * TURN_MS))))
    }

    /// When the turn ends that goes on; `None` when there is nobody to be told.
    pub fn turn_ends(&self, turn: u64) -> Option<TimestampMs> {
        let since = self.turns_since().filter(|_| self.ours)?;
        Some(TimestampMs(since.0.saturating_add(u64::from(self.turns + 1) * turn)))
    }

    /// Whether its first waiting transaction could be proposed now; by whom is another question.
    pub fn set_proposable(&mut self, proposable: bool, now: TimestampMs, turn: u64) {
        if !proposable {
            (self.proposable_since, self.waiting_since) = (None, None);
        } else if self.proposable_since.is_none() {
            self.proposable_since = Some(now);
            self.waiting_since.get_or_insert(now);
            self.turns = self.turns_by(now, turn);
        }
    }

    /// A step of the nonce begins the turns anew, but not for ever.
    fn turns_since(&self) -> Option<TimestampMs> {
        let (since, waiting_since) = (self.proposable_since?, self.waiting_since?);
        Some(if since.0 - waiting_since.0 < MOST_TURNS * TURN_MS { since } else { waiting_since })
    }

    /// The turns that ended by now; see [`Self::turns`].
    pub fn turns_by(&self, now: TimestampMs, turn: u64) -> u32 {
        let waits = self.turns_since().map_or(0, |since| now.0.saturating_sub(since.0));
        // One less than the most, so that the next one can be counted.
        u32::try_from(waits / turn).unwrap_or(u32::MAX).min(u32::MAX - 1)
    }

    /// Those that this node sees to and that wait, for a turn at least; where steps do not count any more, for as long as that
    /// takes.
    pub fn overdue(&self, now: TimestampMs, turn: u64) -> impl Iterator<Item = &Entry> {
        let waits = if self.turns_since() == self.proposable_since { turn } else { MOST_TURNS * TURN_MS };
        let before = TimestampMs(now.0.saturating_sub(waits));
        self.entries.values().filter(move |entry| entry.waits() && entry.standing.ours && entry.arrived_at <= before)
    }

    /// It was cut into a batch when so many blocks had been seen.
    pub fn depart(&mut self, nonce: u64, blocks: u64) {
        let since = self.proposable_since;
        let Some(entry) = self.entries.get_mut(&nonce).filter(|entry| entry.waits()) else { return };
        self.tally.waiting -= 1;
        self.tally.take_tip(entry);
        if self.tally.waiting_from == nonce {
            self.tally.waiting_from += 1;
        }
        entry.in_flight_since = Some(blocks);
        entry.cut_after = since.map(|since| since.max(entry.arrived_at));
    }

    /// Its next transaction, and since when it could have been proposed, whether it was cut here or not.
    pub fn first_since(&self) -> Option<(&Entry, TimestampMs)> {
        let first = self.entries.get(&self.nonce)?;
        let waits_since = || self.proposable_since.map(|since| since.max(first.arrived_at));
        let since = if first.waits() { waits_since() } else { first.cut_after };
        Some((first, since?))
    }

    pub fn set_asked(&mut self, nonce: u64, asked: Vec<ValidatorIndex>) {
        if let Some(entry) = self.entries.get_mut(&nonce) {
            entry.asked = asked;
        }
    }

    /// Its batch came back.
    pub fn wait_again(&mut self, nonce: u64) {
        let Some(entry) = self.entries.get_mut(&nonce).filter(|entry| !entry.waits()) else { return };
        entry.in_flight_since = None;
        self.fresh = None;
        self.tally.waiting += 1;
        self.tally.waiting_from = self.tally.waiting_from.min(nonce);
        self.tally.add_tip(entry);
    }

    pub fn all_wait_again(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.in_flight_since = None);
        self.fresh = None;
        self.count_again();
    }

    /// Gives up those that were cut when at most so many blocks had been seen; true if there are any.
    pub fn give_up(&mut self, cut_by: u64) -> bool {
        let mut any = false;
        for entry in self.entries.values_mut().filter(|entry| entry.in_flight_since.is_some_and(|since| since <= cut_by)) {
            entry.in_flight_since = None;
            entry.lost += 1;
            any = true;
        }
        if any {
            self.count_again();
        }
        any
    }

    fn count_again(&mut self) {
        self.tally = self.count();
    }

    /// The tally from nothing.
    fn count(&self) -> Tally {
        let run = (self.nonce..=u64::MAX).zip(self.entries.range(self.nonce..));
        let run = run.take_while(|(expected, (nonce, _))| expected == *nonce);
        let in_flight = run.clone().take_while(|(_, (_, entry))| !entry.waits()).count();
        Tally {
            ready_end: self.nonce + run.count() as u64,
            waiting_from: self.nonce + in_flight as u64,
            waiting: self.entries.values().filter(|entry| entry.waits()).count(),
            cost: self.entries.values().fold(U256::ZERO, |sum, entry| sum.saturating_add(entry.cost)),
            lowest_tip: Cell::new(None),
        }
    }

    pub fn ready_len(&self) -> usize {
        usize::try_from(self.next_nonce() - self.nonce).expect("a queue is bounded")
    }

    pub fn any_waits(&self) -> bool {
        self.tally.waiting > 0
    }

    /// The first one that waits, from this nonce on, before any gap.
    pub fn next_waiting(&self, from: u64) -> Option<&Entry> {
        let tally = &self.tally;
        let skips = (self.nonce..tally.waiting_from).contains(&from) && tally.waiting_from <= tally.ready_end;
        let from = if skips { tally.waiting_from } else { from };
        let run = (from..=u64::MAX).zip(self.entries.range(from..));
        let mut entries = run.take_while(|(expected, (nonce, _))| expected == *nonce).map(|(_, (_, entry))| entry);
        entries.find(|entry| entry.waits())
    }

    /// The nonce after the ready ones.
    pub fn next_nonce(&self) -> u64 {
        self.tally.ready_end.max(self.nonce)
    }

    /// What all entries but the one at `nonce` may cost together.
    pub fn cost_without(&self, nonce: u64) -> U256 {
        if self.tally.cost == U256::MAX {
            let others = self.entries.iter().filter(|(other, _)| **other != nonce);
            return others.fold(U256::ZERO, |sum, (_, entry)| sum.saturating_add(entry.cost));
        }
        self.tally.cost - self.entries.get(&nonce).map_or(U256::ZERO, |entry| entry.cost)
    }

    pub fn cost_in_flight(&self) -> U256 {
        let in_flight = self.entries.values().filter(|entry| !entry.waits());
        in_flight.fold(U256::ZERO, |sum, entry| sum.saturating_add(entry.cost))
    }

    /// The entry whose loss opens no gap, unless it is in flight.
    pub fn tail(&self) -> Option<&Entry> {
        self.entries.values().next_back().filter(|entry| entry.waits())
    }

    /// The lowest tip among those that wait: no later one is worth more to a proposer than the ones it follows.
    pub fn lowest_tip(&self, base_fee: u64) -> Option<u128> {
        if let Some((_, lowest, _)) = self.tally.lowest_tip.get().filter(|(at, _, _)| *at == base_fee) {
            return lowest;
        }
        let tips = || self.entries.values().filter(|entry| entry.waits()).map(|entry| entry.tip(base_fee));
        let lowest = tips().min()?;
        let count = tips().filter(|tip| *tip == lowest).count();
        self.tally.lowest_tip.set(Some((base_fee, lowest, count)));
        lowest
    }

    /// What is kept up to date says what counting says.
    #[cfg(test)]
    pub fn assert_consistent(&self) {
        let (kept, counted) = (&self.tally, self.count());
        assert_eq!(
            (self.next_nonce(), kept.waiting, kept.cost),
            (counted.ready_end, counted.waiting, counted.cost),
            "a tally was stale"
        );
        let below = self.entries.range(..kept.waiting_from);
        assert!(below.clone().all(|(_, entry)| !entry.waits()), "one that waits would be passed over");
        if let Some((base_fee, lowest, count)) = kept.lowest_tip.get() {
            let tips: Vec<_> = self.entries.values().filter(|entry| entry.waits()).map(|entry| entry.tip(base_fee)).collect();
            assert_eq!(tips.iter().min(), Some(&lowest), "a lowest tip was stale");
            assert_eq!(tips.iter().filter(|tip| **tip == lowest).count(), count);
        }
    }
}

impl Tally {
    /// One more waits.
    fn add_tip(&mut self, entry: &Entry) {
        let Some((base_fee, lowest, count)) = self.lowest_tip.get() else { return };
        let tip = entry.tip(base_fee);
        match tip.cmp(&lowest) {
            Ordering::Less => self.lowest_tip.set(Some((base_fee, tip, 1))),
            Ordering::Equal => self.lowest_tip.set(Some((base_fee, lowest, count + 1))),
            Ordering::Greater => {}
        }
    }

    /// One less waits; who had the lowest tip second is not known.
    fn take_tip(&mut self, entry: &Entry) {
        let Some((base_fee, lowest, count)) = self.lowest_tip.get() else { return };
        if entry.tip(base_fee) == lowest {
            self.lowest_tip.set((count > 1).then_some((base_fee, lowest, count - 1)));
        }
    }
}
