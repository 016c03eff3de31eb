//! Tracks the records that an engine has on disk, and which of them are still needed.
//!
//! A record has a key; only the newest durable record of a key counts. Records are released oldest first. A record that is
//! needed for long would hold back all later ones, so it is written again.

use crate::Ticket;
use corniche_types::TimestampMs;
use std::collections::BTreeMap;

/// With fewer records, nothing is written again.
const MIN_RECORDS: usize = 64;
/// Maximum number of records written again at once: 16, or 1/16 of the needed ones if that is more.
const MIN_REWRITES: usize = 16;
/// Number of obsolete records that may be held back, in addition to the number of needed ones.
pub const SPARE_RECORDS: usize = 16 * MIN_RECORDS;

/// Assigns tickets, and knows the records that are needed.
pub struct Journal<K> {
    next: Ticket,
    live: BTreeMap<Ticket, K>,
    /// The newest durable record of each key.
    newest: BTreeMap<K, Ticket>,
    /// Number of records at which to search for ones to write again.
    rewrite_threshold: usize,
}

impl<K: Copy + Ord> Journal<K> {
    /// Tickets continue above those of earlier incarnations.
    pub fn new(now: TimestampMs) -> Self {
        let next = Ticket::first(now);
        Self { next, live: BTreeMap::new(), newest: BTreeMap::new(), rewrite_threshold: MIN_RECORDS }
    }

    /// Registers a record of an earlier incarnation.
    pub fn recovered(&mut self, ticket: Ticket, key: K) {
        self.live.insert(ticket, key);
        self.next = self.next.max(ticket.next());
        self.durable(ticket);
    }

    pub fn append(&mut self, key: K) -> Ticket {
        let ticket = self.next;
        self.next = ticket.next();
        self.live.insert(ticket, key);
        ticket
    }

    pub fn durable(&mut self, ticket: Ticket) {
        if let Some(key) = self.live.get(&ticket) {
            let newest = self.newest.entry(*key).or_insert(ticket);
            *newest = ticket.max(*newest);
        }
    }

    /// Drops the oldest records while they are not needed. If that changed the lowest needed ticket, returns it.
    pub fn release(&mut self, is_needed: impl Fn(&K) -> bool) -> Option<Ticket> {
        let before = self.live.len();
        while let Some((ticket, key)) = self.live.first_key_value().map(|(ticket, key)| (*ticket, *key)) {
            let newest = self.newest.get(&key);
            // Not durable yet, or the newest record of a needed key.
            if newest.is_none_or(|newest| *newest == ticket && is_needed(&key) || *newest < ticket) {
                break;
            }
            self.live.remove(&ticket);
            if newest == Some(&ticket) {
                self.newest.remove(&key);
            }
        }
        if self.live.len() < before {
            self.rewrite_threshold = self.rewrite_threshold.min(2 * self.live.len() + MIN_RECORDS);
        }
        let first = self.live.first_key_value().map_or(self.next, |(ticket, _)| *ticket);
        (self.live.len() < before).then_some(first)
    }

    /// Returns the keys to write again, because they hold back many obsolete records.
    pub fn records_to_rewrite(&mut self, is_needed: impl Fn(&K) -> bool) -> Vec<K> {
        if self.live.len() < self.rewrite_threshold {
            return Vec::new();
        }
        let kept = |(ticket, key): &(&Ticket, &K)| self.newest.get(key) == Some(ticket) && is_needed(key);
        // Nothing is obsolete before it is on disk. Otherwise a burst of writes would copy the same records again and again.
        let is_written = |(ticket, key): &(&Ticket, &K)| self.newest.get(key).is_some_and(|newest| *newest >= **ticket);
        let needed = self.live.iter().filter(|record| kept(record) || !is_written(record)).count();
        let copies = MIN_REWRITES.max(needed / MIN_REWRITES);
        // The next search comes after this many new records, so that its cost is spread over them.
        self.rewrite_threshold = (2 * needed + MIN_RECORDS).max(self.live.len() + copies);
        if self.live.len() < 2 * needed + MIN_RECORDS {
            return Vec::new();
        }
        // Long-needed records are in the older half; the newer half contains recent ones.
        let older = self.live.iter().take(self.live.len() / 2);
        older.filter(kept).map(|(_, key)| *key).take(copies).collect()
    }

    /// Number of records on disk or in progress.
    pub fn count(&self) -> usize {
        self.live.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key of the record of a start.
    const STARTED: u64 = 0;

    fn write(journal: &mut Journal<u64>, key: u64) -> Ticket {
        let ticket = journal.append(key);
        journal.durable(ticket);
        ticket
    }

    #[test]
    fn tickets_are_unique_after_record_loss() {
        let mut first = Journal::new(TimestampMs(1_000));
        let last = (0..1_000).map(|_| first.append(STARTED)).last().unwrap();
        assert!(Journal::new(TimestampMs(1_001)).append(STARTED) > last);
        let mut second = Journal::new(TimestampMs(5));
        second.recovered(last, STARTED);
        assert_eq!(second.append(STARTED), Ticket(last.0 + 1));
    }

    #[test]
    fn obsolete_records_are_released() {
        let mut journal = Journal::new(TimestampMs(0));
        let old = write(&mut journal, 1);
        let new = journal.append(1);
        assert_eq!(journal.release(|_| true), None, "the newer one is not durable");
        journal.durable(new);
        assert_eq!(journal.release(|_| true), Some(new));
        let other = write(&mut journal, 2);
        assert_eq!(journal.release(|key| *key == 2), Some(other));
        assert_eq!((old.0, journal.count()), (0, 1));
    }

    #[test]
    fn records_in_progress_hold_nothing_back() {
        let mut journal = Journal::new(TimestampMs(0));
        write(&mut journal, STARTED);
        for number in 1..1_000 {
            journal.append(number);
            assert_eq!(journal.records_to_rewrite(|_| true), [0; 0], "{number} records are being written");
        }
    }

    #[test]
    fn long_needed_records_are_rewritten() {
        let mut journal = Journal::new(TimestampMs(0));
        write(&mut journal, STARTED);
        let mut most = 0;
        for number in 1..1_000 {
            write(&mut journal, number);
            let needed = |key: &u64| *key == STARTED || *key == number;
            for key in journal.records_to_rewrite(needed) {
                write(&mut journal, key);
            }
            journal.release(needed);
            most = most.max(journal.count());
        }
        assert!(most <= 2 * MIN_RECORDS + 2 * MIN_REWRITES, "{most}");
        assert!(journal.newest.contains_key(&STARTED));
    }
}
