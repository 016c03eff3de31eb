//! Tracks live records: one per block in the DAG, the own block that is not durable yet (W1, W2), and the rounds in
//! which a forgotten incarnation may have signed (K2).

use crate::message::{Round, SignedBlock};
use corniche_engine::Ticket;
use corniche_types::{Bytes, TimestampMs, wire};
use std::collections::BTreeMap;

/// Content of a record.
pub enum Record {
    Block(SignedBlock),
    /// This validator proposes nothing up to this round.
    Silence(Round),
}

impl Record {
    /// The two kinds have no tag: only a round is this short.
    pub fn decode(record: &Bytes) -> Self {
        if let Ok(round) = wire::decode(record) {
            return Self::Silence(round);
        }
        Self::Block(wire::decode(record).expect("a record was encoded by this engine, and its log verifies checksums"))
    }

    pub fn encode_silence(round: Round) -> Bytes {
        wire::encode(&round).into()
    }
}

/// Assigns tickets, and knows the records that are no longer needed.
pub struct Journal {
    next: Ticket,
    live: BTreeMap<Ticket, Round>,
}

impl Journal {
    /// Tickets continue above those of earlier incarnations.
    pub fn new(now: TimestampMs) -> Self {
        Self { next: Ticket::first(now), live: BTreeMap::new() }
    }

    /// Registers a record of an earlier incarnation.
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

    /// Drops the oldest records while their rounds are at or below `floor`. If that changed the lowest needed ticket,
    /// returns it.
    pub fn release(&mut self, floor: Round) -> Option<Ticket> {
        let before = self.live.len();
        while let Some(oldest) = self.live.first_entry().filter(|oldest| *oldest.get() <= floor) {
            oldest.remove();
        }
        let first = self.live.first_key_value().map_or(self.next, |(ticket, _)| *ticket);
        (self.live.len() < before).then_some(first)
    }
}
