//! Tickets of the records on disk, and which of them are still needed.

use crate::{
    message::{EpochNumber, Sn},
    record::Record,
};
use corniche_engine::Ticket;
use corniche_types::TimestampMs;
use std::collections::BTreeMap;

/// An action that waits for a record.
pub(crate) enum AfterDurable {
    Accepted(EpochNumber, Sn),
    Prepared(EpochNumber, Sn),
    Left(EpochNumber),
    Echoed(EpochNumber),
    /// All promises, and everything before them.
    Promises,
    /// Like the one before, after the delivery of this checkpoint.
    Checkpoint(Sn),
    /// This checkpoint is stable.
    Stable(Sn),
}

/// Assigns tickets, and knows the oldest record that is needed.
pub(crate) struct Journal {
    next: Ticket,
    /// The oldest record that was not released.
    first: Ticket,
    /// The oldest record about each number that is kept.
    oldest: BTreeMap<Sn, Ticket>,
    /// The newest durable record of all promises.
    promises: Option<Ticket>,
}

impl Journal {
    /// Registers the records of earlier incarnations, ascending. Tickets continue above them.
    pub fn new(now: TimestampMs, records: &[(Ticket, Record)]) -> Self {
        let next = records.last().map_or(Ticket::first(now), |(last, _)| last.next().max(Ticket::first(now)));
        let first = records.first().map_or(next, |(first, _)| *first);
        let mut journal = Self { next, first, oldest: BTreeMap::new(), promises: None };
        for (ticket, record) in records {
            journal.register(*ticket, record);
            if matches!(record, Record::Promises(_)) {
                journal.promises = Some(*ticket);
            }
        }
        journal
    }

    pub fn take(&mut self, record: &Record) -> Ticket {
        let ticket = self.next;
        self.next = ticket.next();
        self.register(ticket, record);
        ticket
    }

    fn register(&mut self, ticket: Ticket, record: &Record) {
        if let Some(sn) = record.sn() {
            self.oldest.entry(sn).or_insert(ticket);
        }
    }

    /// The record of all promises with this ticket is on disk.
    pub fn set_promises(&mut self, ticket: Ticket) {
        self.promises = Some(ticket);
    }

    /// Records about numbers up to `floor` are not needed. Returns the oldest needed record if it changed.
    pub fn release(&mut self, floor: Sn) -> Option<Ticket> {
        self.oldest = self.oldest.split_off(&floor.next());
        // Without a record of all promises, any record may contain one.
        let promises = self.promises?;
        let first = self.oldest.values().min().map_or(promises, |oldest| promises.min(*oldest));
        let is_new = first > self.first;
        self.first = self.first.max(first);
        is_new.then_some(first)
    }
}
