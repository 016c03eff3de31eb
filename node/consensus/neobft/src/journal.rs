//! Tickets of the records on disk, and which of them are still needed.

use crate::{
    message::{BodyId, Slot},
    record::Record,
};
use corniche_engine::Ticket;
use corniche_types::TimestampMs;
use std::collections::{BTreeMap, VecDeque};

/// Assigns tickets, and knows the oldest record that is needed.
pub struct Journal {
    next: Ticket,
    /// The oldest record that was not released.
    first: Ticket,
    /// Newest record of each entry above the log's floor. Ascending: an entry's record makes those of later slots obsolete.
    entries: BTreeMap<Slot, Ticket>,
    bodies: BTreeMap<BodyId, Ticket>,
    /// Own CONFIRMs with epoch and last number.
    confirms: VecDeque<(Ticket, u32, u64)>,
    /// The newest durable record of all promises.
    promises: Option<Ticket>,
}

impl Journal {
    /// Tickets continue above those of earlier incarnations.
    pub fn new(now: TimestampMs, last: Option<Ticket>) -> Self {
        let next = last.map_or(Ticket::first(now), |last| last.next().max(Ticket::first(now)));
        let (entries, bodies, confirms) = Default::default();
        Self { next, first: next, entries, bodies, confirms, promises: None }
    }

    /// Registers the records of earlier incarnations, in the order in which they were written.
    pub fn recover(&mut self, records: &[(Ticket, Record)]) {
        for (ticket, record) in records {
            match record {
                Record::Promises(_) => self.set_promises(*ticket),
                Record::Entry { slot, .. } => self.entry(*slot, *ticket),
                Record::Replaced { from, entries, .. } => {
                    self.truncate(from.before());
                    (from.0..).zip(entries).for_each(|(slot, _)| self.entry(Slot(slot), *ticket));
                }
                Record::Entered { end, .. } => self.truncate(*end),
                Record::Body { body, .. } => self.body(*body, *ticket),
                Record::Confirm { epoch, vote } => {
                    self.confirm(*ticket, *epoch, vote.from.saturating_add(vote.digests.len() as u64));
                }
                Record::Blocked { .. }
                | Record::Voted { .. }
                | Record::Prepared(_)
                | Record::Leaving(_)
                | Record::Checkpoint(_) => {}
            }
        }
        self.first = records.first().map_or(self.next, |(ticket, _)| *ticket);
    }

    pub fn take(&mut self) -> Ticket {
        let ticket = self.next;
        self.next = ticket.next();
        ticket
    }

    pub fn entry(&mut self, slot: Slot, ticket: Ticket) {
        _ = self.entries.split_off(&slot);
        self.entries.insert(slot, ticket);
    }

    /// Returns true if the log's entry of this slot is in this record.
    pub fn is_newest(&self, slot: Slot, ticket: Ticket) -> bool {
        self.entries.get(&slot) == Some(&ticket)
    }

    /// The log ends at this slot now.
    pub fn truncate(&mut self, to: Slot) {
        _ = self.entries.split_off(&to.next());
    }

    pub fn body(&mut self, body: BodyId, ticket: Ticket) {
        self.bodies.insert(body, ticket);
    }

    pub fn drop_body(&mut self, body: &BodyId) {
        self.bodies.remove(body);
    }

    pub fn confirm(&mut self, ticket: Ticket, epoch: u32, last: u64) {
        self.confirms.push_back((ticket, epoch, last));
    }

    /// CONFIRMs of earlier epochs, and up to this number, are not needed.
    pub fn release_confirms(&mut self, epoch: u32, through: u64) {
        while self.confirms.front().is_some_and(|(_, of, last)| *of < epoch || *of == epoch && *last <= through) {
            self.confirms.pop_front();
        }
    }

    pub fn set_promises(&mut self, ticket: Ticket) {
        self.promises = Some(ticket);
    }

    /// Entries up to this slot are not needed. Returns the oldest needed record.
    pub fn release(&mut self, floor: Slot) -> Option<Ticket> {
        self.entries = self.entries.split_off(&floor.next());
        let entry = self.entries.first_key_value().map(|(_, ticket)| *ticket);
        let body = self.bodies.values().min().copied();
        let confirm = self.confirms.front().map(|(ticket, ..)| *ticket);
        let first = [self.promises, entry, body, confirm].into_iter().flatten().min()?;
        // Without a record of all promises, any record may contain one.
        self.promises.filter(|_| first > self.first)?;
        self.first = first;
        Some(first)
    }
}
