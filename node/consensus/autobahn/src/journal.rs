//! Tracks the records on disk and which of them are still needed.
//!
//! A record has a [`Subject`]; only the newest durable record of a subject counts. Records are released oldest first. A
//! record that is needed for long (the last car of a quiet lane) would hold back all later ones, so it is written
//! again.

use crate::{
    message::{Birth, CommitQc, Cut, Position, SignedCar, Slot, Tip},
    slots::SlotRecord,
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::Ticket;
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, wire};
use std::collections::BTreeMap;

/// All records of this engine.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Record {
    /// This validator has had a life: if no other record is found, records were lost (R5).
    Born,
    /// A car, and whether this validator voted for it.
    Car {
        car: SignedCar,
        voted: bool,
    },
    /// A vote for a car whose record has no vote.
    Vote(Tip),
    Slot(Box<SlotRecord>),
    Commit(Cut, CommitQc),
    /// The identifier of this disk.
    Birth(Birth),
    /// The first disk that another validator announced to this one.
    Met(Birth),
    Silence(Silence),
}

/// R5: this validator never signs anything about these, because a forgotten life may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Silence {
    /// Slots up to this one.
    pub slots: Slot,
    /// Per lane, the last silent position; empty: none.
    pub lanes: Vec<Position>,
}

impl Record {
    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }
}

/// The subject of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    Born,
    Car(Tip),
    Vote(Tip),
    Slot(Slot),
    Commit(Slot),
    Birth,
    Met(ValidatorIndex),
    Silence,
}

/// With fewer records, nothing is written again.
const FEW: usize = 64;
/// Maximum number of records written again at once: 16, or 1/16 of the needed ones if that is more.
const COPIES: usize = 16;
/// Number of obsolete records that may be held back, in addition to the number of needed ones.
pub const SPARE_RECORDS: usize = 16 * FEW;

/// Assigns tickets, and knows the records that are needed.
pub struct Journal {
    next: Ticket,
    live: BTreeMap<Ticket, Subject>,
    /// The newest durable record of each subject.
    newest: BTreeMap<Subject, Ticket>,
    /// Number of records at which to search for ones to write again.
    crowded: usize,
}

impl Journal {
    /// Tickets continue above those of earlier lives.
    pub fn new(now: TimestampMs) -> Self {
        let next = Ticket::first(now);
        Self { next, live: BTreeMap::new(), newest: BTreeMap::new(), crowded: FEW }
    }

    /// Registers a record of an earlier life.
    pub fn recovered(&mut self, ticket: Ticket, subject: Subject) {
        self.live.insert(ticket, subject);
        self.next = self.next.max(ticket.next());
        self.durable(ticket);
    }

    pub fn append(&mut self, subject: Subject) -> Ticket {
        let ticket = self.next;
        self.next = ticket.next();
        self.live.insert(ticket, subject);
        ticket
    }

    pub fn durable(&mut self, ticket: Ticket) {
        if let Some(subject) = self.live.get(&ticket) {
            let newest = self.newest.entry(*subject).or_insert(ticket);
            *newest = ticket.max(*newest);
        }
    }

    /// Drops the oldest records while they are not needed. If that changed the lowest needed ticket, returns it.
    pub fn release(&mut self, is_needed: impl Fn(&Subject) -> bool) -> Option<Ticket> {
        let before = self.live.len();
        while let Some((ticket, subject)) = self.live.first_key_value().map(|(ticket, subject)| (*ticket, *subject)) {
            let newest = self.newest.get(&subject);
            // Not durable yet, or the newest record of a needed subject.
            if newest.is_none_or(|newest| *newest == ticket && is_needed(&subject) || *newest < ticket) {
                break;
            }
            self.live.remove(&ticket);
            if newest == Some(&ticket) {
                self.newest.remove(&subject);
            }
        }
        if self.live.len() < before {
            self.crowded = self.crowded.min(2 * self.live.len() + FEW);
        }
        let first = self.live.first_key_value().map_or(self.next, |(ticket, _)| *ticket);
        (self.live.len() < before).then_some(first)
    }

    /// Returns the subjects to write again, because they hold back many obsolete records.
    pub fn crowded_by(&mut self, is_needed: impl Fn(&Subject) -> bool) -> Vec<Subject> {
        if self.live.len() < self.crowded {
            return Vec::new();
        }
        let kept = |(ticket, subject): &(&Ticket, &Subject)| self.newest.get(subject) == Some(ticket) && is_needed(subject);
        let needed = self.live.iter().filter(kept).count();
        let copies = COPIES.max(needed / COPIES);
        // The next search comes after this many new records, so that its cost is spread over them.
        self.crowded = (2 * needed + FEW).max(self.live.len() + copies);
        if self.live.len() < 2 * needed + FEW {
            return Vec::new();
        }
        // Long-needed records are in the older half; the newer half contains recent ones.
        let older = self.live.iter().take(self.live.len() / 2);
        older.filter(kept).map(|(_, subject)| *subject).take(copies).collect()
    }

    /// Number of records on disk or in progress.
    pub fn count(&self) -> usize {
        self.live.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(number: u64) -> Subject {
        Subject::Slot(Slot(number))
    }

    fn write(journal: &mut Journal, subject: Subject) -> Ticket {
        let ticket = journal.append(subject);
        journal.durable(ticket);
        ticket
    }

    #[test]
    fn tickets_are_never_used_twice_even_when_the_records_are_lost() {
        let mut first = Journal::new(TimestampMs(1_000));
        let last = (0..1_000).map(|_| first.append(Subject::Born)).last().unwrap();
        assert!(Journal::new(TimestampMs(1_001)).append(Subject::Born) > last);
        let mut second = Journal::new(TimestampMs(5));
        second.recovered(last, Subject::Born);
        assert_eq!(second.append(Subject::Born), Ticket(last.0 + 1));
    }

    #[test]
    fn a_record_goes_when_a_newer_one_of_its_subject_is_durable_or_nobody_needs_it() {
        let mut journal = Journal::new(TimestampMs(0));
        let old = write(&mut journal, slot(1));
        let new = journal.append(slot(1));
        assert_eq!(journal.release(|_| true), None, "the newer one is not durable");
        journal.durable(new);
        assert_eq!(journal.release(|_| true), Some(new));
        let other = write(&mut journal, slot(2));
        assert_eq!(journal.release(|subject| *subject == slot(2)), Some(other));
        assert_eq!((old.0, journal.count()), (0, 1));
    }

    #[test]
    fn what_is_needed_for_long_is_written_again_and_holds_nothing_back() {
        let mut journal = Journal::new(TimestampMs(0));
        write(&mut journal, Subject::Born);
        let mut most = 0;
        for number in 0..1_000 {
            write(&mut journal, slot(number));
            let needed = |subject: &Subject| *subject == Subject::Born || *subject == slot(number);
            for subject in journal.crowded_by(needed) {
                write(&mut journal, subject);
            }
            journal.release(needed);
            most = most.max(journal.count());
        }
        assert!(most <= 2 * FEW + 2 * COPIES, "{most}");
        assert!(journal.newest.contains_key(&Subject::Born));
    }
}
