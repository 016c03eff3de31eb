//! What is on disk and which of it is still needed.
//!
//! A record is about a [`Subject`]; of one subject only the newest durable record counts. Records are given up oldest first, so one that is
//! needed for long (the last car of a lane that went quiet) would hold back all later ones: it is written again.

use crate::{
    message::{Birth, CommitQc, Cut, Position, SignedCar, Slot, Tip},
    slots::SlotRecord,
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::Ticket;
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, wire};
use std::collections::BTreeMap;

/// Everything this engine persists.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Record {
    /// This validator has had a life: if nothing else is found, something was lost (R5).
    Born,
    /// A car, and whether it was voted for.
    Car {
        car: SignedCar,
        voted: bool,
    },
    /// A vote for a car that was recorded without.
    Vote(Tip),
    Slot(Box<SlotRecord>),
    Commit(Cut, CommitQc),
    /// The name of this disk.
    Birth(Birth),
    /// The first disk of another validator that this one was told of.
    Met(Birth),
    Silence(Silence),
}

/// R5: what this validator signs nothing about for good, because a life that it forgot may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Silence {
    /// Slots up to this one.
    pub slots: Slot,
    /// Per lane, cars up to this position; empty: none.
    pub lanes: Vec<Position>,
}

impl Record {
    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }
}

/// What a record is about.
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

/// Below so many records nothing is written again.
const FEW: usize = 64;
/// Records written again at once, at most: so many, or this part of those that are needed.
const COPIES: usize = 16;
/// Records that may be held back besides as many as are needed.
pub const SPARE_RECORDS: usize = 16 * FEW;

/// Hands out tickets and knows which of them are needed.
pub struct Journal {
    next: Ticket,
    live: BTreeMap<Ticket, Subject>,
    /// The newest durable record of each subject.
    newest: BTreeMap<Subject, Ticket>,
    /// The number of records at which to look for ones to write again.
    crowded: usize,
}

impl Journal {
    /// Tickets continue after the records of earlier lives.
    pub fn new(now: TimestampMs) -> Self {
        let next = Ticket::first(now);
        Self { next, live: BTreeMap::new(), newest: BTreeMap::new(), crowded: FEW }
    }

    /// A record of an earlier life.
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

    /// Drops the oldest records as long as they are not needed. Returns the ticket below which none is, when that changed.
    pub fn release(&mut self, is_needed: impl Fn(&Subject) -> bool) -> Option<Ticket> {
        let before = self.live.len();
        while let Some((ticket, subject)) = self.live.first_key_value().map(|(ticket, subject)| (*ticket, *subject)) {
            let newest = self.newest.get(&subject);
            // Not durable yet, or newest of something that is needed.
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

    /// What to write again, because it holds back many that are not needed.
    pub fn crowded_by(&mut self, is_needed: impl Fn(&Subject) -> bool) -> Vec<Subject> {
        if self.live.len() < self.crowded {
            return Vec::new();
        }
        let kept = |(ticket, subject): &(&Ticket, &Subject)| self.newest.get(subject) == Some(ticket) && is_needed(subject);
        let needed = self.live.iter().filter(kept).count();
        let copies = COPIES.max(needed / COPIES);
        // Looked at again when this many more have come: the cost of looking is spread over them.
        self.crowded = (2 * needed + FEW).max(self.live.len() + copies);
        if self.live.len() < 2 * needed + FEW {
            return Vec::new();
        }
        // What is needed for long lies in the older half; the newer one is what came lately.
        let older = self.live.iter().take(self.live.len() / 2);
        older.filter(kept).map(|(_, subject)| *subject).take(copies).collect()
    }

    /// Records on disk or on their way.
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
