//! The safety log: what this validator's engine must find again after a crash, until it releases it.

use crate::StoreError;
use crate::log::{Found, Log, Position, Settings};
use crate::record::{SafetyRecord, unreadable};
use corniche_engine::Ticket;
use corniche_types::Bytes;
use std::collections::BTreeMap;

pub(crate) struct SafetyLog {
    log: Log,
    /// Greatest ticket in each segment that has one.
    greatest: BTreeMap<u64, Ticket>,
    /// Records with smaller tickets are not needed any more.
    released: Ticket,
    /// What was signed before the log was lost is not known again yet.
    history_lost: bool,
}

/// What the safety log remembered.
pub(crate) struct Remembered {
    pub records: Vec<(Ticket, Bytes)>,
    pub history_lost: bool,
    pub found: Found,
}

impl SafetyLog {
    /// `history_expected`: the directory has held a chain, so an absent log is a lost one.
    pub(crate) fn open(settings: Settings, history_expected: bool) -> Result<(Self, Remembered), StoreError> {
        let (log, found) = Log::open(settings, history_expected)?;
        let mut safety = Self { history_lost: log.history_lost(), log, greatest: BTreeMap::new(), released: Ticket(0) };
        let mut records = Vec::new();
        let mut stream = safety.log.reader().records_from(Position::default());
        while let Some(record) = stream.next()? {
            match SafetyRecord::read(&record.payload) {
                Some(SafetyRecord::Engine(ticket, bytes)) => {
                    safety.note(record.at.segment, ticket);
                    records.push((ticket, bytes));
                }
                Some(SafetyRecord::Released(ticket)) => safety.released = safety.released.max(ticket),
                // The header of a later segment says the same.
                Some(SafetyRecord::HistoryKnown) if record.at.segment == safety.log.sequence() => safety.history_lost = false,
                Some(SafetyRecord::HistoryKnown) => {}
                None => return Err(unreadable(&record, "a safety record of unknown kind")),
            }
        }
        records.retain(|(ticket, _)| *ticket >= safety.released);
        let remembered = Remembered { records, history_lost: safety.history_lost, found };
        Ok((safety, remembered))
    }

    fn note(&mut self, segment: u64, ticket: Ticket) {
        let greatest = self.greatest.entry(segment).or_insert(ticket);
        *greatest = ticket.max(*greatest);
    }

    pub(crate) fn append(&mut self, ticket: Ticket, bytes: &Bytes) -> Result<(), StoreError> {
        let (at, _) = self.log.append(0, self.history_lost, |out| SafetyRecord::write_engine(out, ticket, bytes))?;
        self.note(at.segment, ticket);
        Ok(())
    }

    pub(crate) fn append_history_known(&mut self) -> Result<(), StoreError> {
        self.log.append(0, self.history_lost, |out| SafetyRecord::HistoryKnown.write(out))?;
        self.history_lost = false;
        Ok(())
    }

    /// Remembers that smaller tickets are released (durable with the next group, and losing that is harmless), and deletes
    /// the oldest segments that hold nothing else.
    pub(crate) fn release_below(&mut self, ticket: Ticket) -> Result<(), StoreError> {
        if ticket <= self.released {
            return Ok(());
        }
        self.released = ticket;
        self.log.append(0, self.history_lost, |out| SafetyRecord::Released(ticket).write(out))?;
        let active = self.log.sequence();
        let first_needed =
            self.greatest.iter().find(|(_, greatest)| **greatest >= ticket).map_or(active, |(&segment, _)| segment);
        if let Some(last) = first_needed.min(active).checked_sub(1) {
            self.log.remove_through(last)?;
            self.greatest = self.greatest.split_off(&first_needed);
        }
        Ok(())
    }

    pub(crate) fn commit(&mut self) -> Result<(), StoreError> {
        self.log.commit()
    }

    pub(crate) fn pending_bytes(&self) -> usize {
        self.log.pending_bytes()
    }
}
