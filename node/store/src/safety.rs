//! Safety log: records that this validator's engine needs after a crash, until it releases them.

use crate::StoreError;
use crate::log::{Found, Log, Position, Settings};
use crate::record::{SafetyRecord, unreadable};
use corniche_engine::Ticket;
use corniche_types::Bytes;
use std::collections::BTreeMap;

pub(crate) struct SafetyLog {
    log: Log,
    /// Highest ticket of each segment that has one.
    greatest: BTreeMap<u64, Ticket>,
    /// Records with smaller tickets are no longer needed.
    released: Ticket,
    /// Next value of `released`, once both logs are durable.
    releasing: Ticket,
    /// True while it is unknown what was signed before the log was lost.
    history_lost: bool,
}

/// Content of the safety log.
pub(crate) struct SafetyContent {
    pub records: Vec<(Ticket, Bytes)>,
    pub found: Found,
}

impl SafetyLog {
    /// `history_expected`: the directory has contained a chain, so a missing log means a lost log.
    pub(crate) fn open(settings: Settings, history_expected: bool) -> Result<(Self, SafetyContent), StoreError> {
        let (log, found) = Log::open(settings, 0, history_expected)?;
        let mut safety = Self {
            history_lost: log.history_lost(),
            log,
            greatest: BTreeMap::new(),
            released: Ticket(0),
            releasing: Ticket(0),
        };
        let records = safety.scan()?;
        Ok((safety, SafetyContent { records, found }))
    }

    /// Reads all records that are not released from disk, oldest first, without uncommitted ones.
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
                // Not needed for earlier segments: the header of the later segment has the same information.
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

    /// Everything before this position is durable.
    pub(crate) fn end(&self) -> Position {
        self.log.end()
    }

    /// Discards the rest of a log that lost its end. Otherwise the rest would count as everything that was
    /// signed. An engine without records asks a quorum.
    pub(crate) fn discard(&mut self) -> Result<(), StoreError> {
        self.log.restart_empty()?;
        self.greatest.clear();
        self.history_lost = true;
        Ok(())
    }

    /// True if the log contains a record of the engine, or contained one that was released.
    pub(crate) fn has_records(&self) -> bool {
        !self.greatest.is_empty() || self.released > Ticket(0)
    }

    pub(crate) fn is_history_lost(&self) -> bool {
        self.history_lost
    }

    pub(crate) fn append_history_known(&mut self) -> Result<(), StoreError> {
        self.log.append(0, self.history_lost, |out| SafetyRecord::HistoryKnown.write(out))?;
        self.history_lost = false;
        Ok(())
    }

    /// Releases records with smaller tickets. Takes effect with [`Self::apply_release`].
    pub(crate) fn release_below(&mut self, ticket: Ticket) {
        self.releasing = self.releasing.max(ticket);
    }

    /// Deletes the oldest segments that contain only released records, and stores the release with the next
    /// group (losing it is harmless). Call it when both logs are durable: a record may have been released
    /// because of data appended with it.
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
