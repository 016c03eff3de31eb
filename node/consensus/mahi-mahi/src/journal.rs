//! Which records are live: one per block in the DAG, and the own block on its way there (W1, W2).

use crate::message::Round;
use corniche_engine::Ticket;
use corniche_types::TimestampMs;
use std::collections::BTreeMap;

/// Hands out tickets and knows which of them are not needed any more.
pub struct Journal {
    next: Ticket,
    live: BTreeMap<Ticket, Round>,
}

impl Journal {
    /// Tickets continue after the records of earlier lives.
    pub fn new(now: TimestampMs) -> Self {
        Self { next: Ticket::first(now), live: BTreeMap::new() }
    }

    /// A record of an earlier life.
    pub fn recovered(&mut self, ticket: Ticket, round: Round) {
        self.live.insert(ticket, round);
        self.next = self.next.max(ticket.next());
    }

    pub fn append(&mut self, round: Round) -> Ticket {
        let ticket = self.next;
        self.next = ticket.next();
        self.live.insert(ticket, round);
        ticket
    }

    /// Drops the oldest records as long as they are of rounds up to `floor`. Returns the ticket below which none is needed, when
    /// that changed.
    pub fn release(&mut self, floor: Round) -> Option<Ticket> {
        let before = self.live.len();
        while let Some(oldest) = self.live.first_entry().filter(|oldest| *oldest.get() <= floor) {
            oldest.remove();
        }
        let first = self.live.first_key_value().map_or(self.next, |(ticket, _)| *ticket);
        (self.live.len() < before).then_some(first)
    }
}
