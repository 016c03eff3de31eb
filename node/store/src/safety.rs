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
    /// Will be `released` once both logs are durable.
    releasing: Ticket,
    /// What was signed before the log was lost is not known again yet.
    history_lost: bool,
}

/// What the safety log remembered.
pub(crate) struct Remembered {
    pub records: Vec<(Ticket, Bytes)>,
    pub found: Found,
}

impl SafetyLog {
    /// `history_expected`: the directory has held a chain, so an absent log is a lost one.
    pub(crate) fn open(settings: Settings, history_expected: bool) -> Result<(Self, Remembered), StoreError> {
        let (log, found) = Log::open(settings, history_expected)?;
        let mut safety = Self {
            history_lost: log.history_lost(),
            log,
            greatest: BTreeMap::new(),
            released: Ticket(0),
            releasing: Ticket(0),
        };
        let records = safety.scan()?;
        Ok((safety, Remembered { records, found }))
    }

    /// Every record that is not released, from disk, oldest first. What is appended and not committed is not among them.
    pub(crate) fn scan(&mut self) -> Result<Vec<(Ticket, Bytes)>, StoreError> {
        let mut records = Vec::new();
        let mut stream = self.log.reader().records_from(Position::default());
        while let Some(record) = stream.next()? {
            match SafetyRecord::read(&record.payload) {
                Some(SafetyRecord::Engine(ticket, bytes)) => {
                    self.note(record.at.segment, ticket);
                    records.push((ticket, bytes));
                }
                Some(SafetyRecord::Released(ticket)) => self.released = self.released.max(ticket),
                // The header of a later segment says the same.
                Some(SafetyRecord::HistoryKnown) if record.at.segment == self.log.sequence() => self.history_lost = false,
                Some(SafetyRecord::HistoryKnown) => {}
                None => return Err(unreadable(&record, "a safety record of unknown kind")),
            }
        }
        records.retain(|(ticket, _)| *ticket >= self.released);
        Ok(records)
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

    /// Everything before is durable.
    pub(crate) fn end(&self) -> Position {
        self.log.end()
    }

    /// Forgets what is left of a log that lost its end. What is left would pass for everything that was signed; an engine
    /// without records asks a quorum.
    pub(crate) fn lose(&mut self) -> Result<(), StoreError> {
        self.log.begin_anew()?;
        self.greatest.clear();
        self.history_lost = true;
        Ok(())
    }

    pub(crate) fn is_history_lost(&self) -> bool {
        self.history_lost
    }

    pub(crate) fn append_history_known(&mut self) -> Result<(), StoreError> {
        self.log.append(0, self.history_lost, |out| SafetyRecord::HistoryKnown.write(out))?;
        self.history_lost = false;
        Ok(())
    }

    /// Smaller tickets are not needed any more. Takes effect with [`Self::apply_release`].
    pub(crate) fn release_below(&mut self, ticket: Ticket) {
        self.releasing = self.releasing.max(ticket);
    }

    /// Deletes the oldest segments that hold only released records, and remembers the release with the next group (losing
    /// that is harmless). To be called when both logs are durable: a record may have been released because of what was
    /// appended with it.
    pub(crate) fn apply_release(&mut self) -> Result<(), StoreError> {
        let ticket = self.releasing;
        if ticket <= self.released {
            return Ok(());
        }
        self.released = ticket;
        let active = self.log.sequence();
        let needed = self.greatest.iter().find(|(_, greatest)| **greatest >= ticket);
        let first_needed = needed.map_or(active, |(&segment, _)| segment);
        if let Some(last) = first_needed.checked_sub(1) {
            self.log.remove_through(last)?;
            self.greatest = self.greatest.split_off(&first_needed);
        }
        self.log.append(0, self.history_lost, |out| SafetyRecord::Released(ticket).write(out))?;
        Ok(())
    }

    pub(crate) fn commit(&mut self) -> Result<(), StoreError> {
        self.log.commit()
    }

    pub(crate) fn pending_bytes(&self) -> usize {
        self.log.pending_bytes()
    }
}
