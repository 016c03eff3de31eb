//! The safety log over epochs: which records belong to which epoch, and whether they are complete (E14, E15).
//!
//! An engine gets only the records of its own epoch. A validator that enters an epoch with a complete log says so in the log
//! ([`EpochRecord::Entered`]). So after a restart it knows that it signed nothing else in this epoch. One that lost records may
//! have signed in the epoch in which it finds the loss, and in the next one, which it may have entered before the others. It
//! enters neither as complete. A newcomer whose keys have signed nothing (decision 0021) has lost nothing.

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Resume, Ticket};
use corniche_types::{Bytes, Epoch, TimestampMs, wire};

/// Precedes an [`EpochRecord`]. Records of epoch 0 without a loss are stored as the engine made them, like all records before
/// there were epochs; every engine's record begins with [`wire::VERSION`].
const MARKER: u8 = 0xe0;
const _: () = assert!(MARKER != wire::VERSION);

#[derive(Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
enum EpochRecord {
    /// The log has everything that this validator signs in this epoch.
    Entered(Epoch),
    Engine {
        epoch: Epoch,
        /// Epoch in which this validator found that it had lost records, if it was this one or the one before.
        lost_in: Option<Epoch>,
        record: Bytes,
    },
}

/// A record with the ticket under which it is stored.
pub(crate) type StoredRecord = (Ticket, Bytes);

/// A validator's knowledge of what it signed in the running epoch.
#[derive(Debug)]
pub(crate) struct History {
    epoch: Epoch,
    /// True if the log says that it has everything signed in the epoch.
    has_entered: bool,
    /// True if the log has records of the epoch, from before this start or from entering it.
    has_records: bool,
    lost_in: Option<Epoch>,
    /// True if this validator has signed nothing in its life.
    never_signed: bool,
    /// Newest epoch of all records.
    newest_epoch: Option<Epoch>,
    newest_ticket: Ticket,
    /// Difference of stored tickets to the engine's: above 0 after the clock went back.
    offset: u64,
}

impl History {
    /// Reads the log of a validator that continues in `epoch`, and that has signed nothing in its life if `never_signed`. Also
    /// returns the engine's records of that epoch.
    ///
    /// # Panics
    ///
    /// A record cannot be decoded. The log verifies checksums.
    pub fn read(epoch: Epoch, log: &[StoredRecord], never_signed: bool) -> (Self, Vec<StoredRecord>) {
        let (has_entered, has_records, offset) = (false, false, 0);
        let mut history = Self {
            epoch,
            has_entered,
            has_records,
            lost_in: None,
            never_signed,
            newest_epoch: None,
            newest_ticket: Ticket(0),
            offset,
        };
        let mut records = Vec::new();
        for (ticket, stored) in log {
            history.newest_ticket = history.newest_ticket.max(*ticket);
            let of = match decode(stored) {
                EpochRecord::Entered(of) => {
                    history.has_entered |= of == epoch;
                    of
                }
                EpochRecord::Engine { epoch: of, lost_in, record } => {
                    if of == epoch {
                        history.lost_in = history.lost_in.max(lost_in);
                        records.push((*ticket, record));
                    }
                    of
                }
            };
            history.has_records |= of == epoch;
            history.newest_epoch = history.newest_epoch.max(Some(of));
        }
        (history, records)
    }

    /// True if the log has records of the epoch.
    pub fn has_records(&self) -> bool {
        self.has_records
    }

    /// True if this validator has signed nothing in its life.
    pub fn has_never_signed(&self) -> bool {
        self.never_signed
    }

    /// Prepares for an engine with these records, which resumes at `resume`. Returns true if the log has everything that this
    /// validator signed in the epoch: see [`EngineStart::has_all_records`](crate::EngineStart::has_all_records).
    pub fn start_engine(&mut self, records: &[StoredRecord], resume: &Resume, now: TimestampMs) -> bool {
        if !self.has_records && !self.never_signed && !resume.is_genesis() {
            self.lost_in = self.lost_in.or(Some(self.epoch));
        }
        // The engine's first ticket.
        let recovered = records.iter().map(|(ticket, _)| ticket.next()).max();
        let first = recovered.map_or(Ticket::first(now), |next| next.max(Ticket::first(now)));
        self.offset = self.newest_ticket.next().0.saturating_sub(first.0);
        self.has_entered || self.never_signed
    }

    /// Record of the running engine, as stored.
    pub fn record(&mut self, ticket: Ticket, record: Bytes) -> StoredRecord {
        let ticket = self.stored(ticket);
        self.newest_ticket = self.newest_ticket.max(ticket);
        self.newest_epoch = self.newest_epoch.max(Some(self.epoch));
        // A log that begins with a validator's first signature has everything.
        self.has_records |= self.never_signed;
        self.never_signed = false;
        let (epoch, lost_in) = (self.epoch, self.lost_in);
        if epoch == Epoch(0) && lost_in.is_none() {
            return (ticket, record);
        }
        (ticket, encode(&EpochRecord::Engine { epoch, lost_in, record }))
    }

    /// Ticket under which a record of the running engine is stored.
    pub fn stored(&self, ticket: Ticket) -> Ticket {
        Ticket(ticket.0.saturating_add(self.offset))
    }

    /// Ticket of the running engine for a stored record; none of its tickets for a record of an earlier engine.
    pub fn of_engine(&self, stored: Ticket) -> Ticket {
        Ticket(stored.0.saturating_sub(self.offset))
    }

    /// Enters the next epoch. `ended` is true if the engine delivered the end of the epoch before itself, so that it is no
    /// epoch of an earlier life. Returns the record to store, and the ticket below which no record is needed any more.
    pub fn enter(&mut self, next: Epoch, ended: bool, now: TimestampMs) -> (Option<StoredRecord>, Option<Ticket>) {
        let is_complete = (self.has_records || self.never_signed || ended) && self.lost_in.is_none_or(|lost| lost < self.epoch);
        let is_repeated = self.newest_epoch.is_some_and(|newest| newest >= next);
        self.lost_in = self.lost_in.filter(|lost| *lost == self.epoch);
        (self.epoch, self.has_entered, self.has_records) = (next, false, false);
        if is_repeated {
            // The chain is executed again beside an older log, whose newer records are still needed.
            return (None, None);
        }
        let ticket = Ticket::first(now).max(self.newest_ticket.next());
        if !is_complete {
            return (None, Some(ticket));
        }
        (self.has_entered, self.has_records, self.never_signed) = (true, true, false);
        (self.newest_ticket, self.newest_epoch) = (ticket, Some(next));
        (Some((ticket, encode(&EpochRecord::Entered(next)))), Some(ticket))
    }
}

fn encode(record: &EpochRecord) -> Bytes {
    let mut bytes = vec![MARKER];
    record.serialize(&mut bytes).expect("writing into memory cannot fail");
    bytes.into()
}

fn decode(record: &Bytes) -> EpochRecord {
    match record.strip_prefix(&[MARKER]) {
        Some(rest) => borsh::from_slice(rest).expect("invariant: this module wrote the record"),
        None => EpochRecord::Engine { epoch: Epoch(0), lost_in: None, record: record.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(byte: u8) -> Bytes {
        Bytes::from(vec![wire::VERSION, byte])
    }

    fn resume(epoch: u64, index: u64) -> Resume {
        Resume { epoch: Epoch(epoch), index: corniche_types::CommitIndex(index), checkpoint: Bytes::new() }
    }

    /// A log, as a disk keeps it.
    #[derive(Clone, Default)]
    struct Log(Vec<StoredRecord>);

    impl Log {
        /// Starts a node in an epoch, at a commit of it; returns its history and whether its engine has all records.
        fn start(&self, epoch: u64, index: u64, now: u64) -> (History, bool) {
            let (mut history, records) = History::read(Epoch(epoch), &self.0, false);
            let has_all = history.start_engine(&records, &resume(epoch, index), TimestampMs(now));
            (history, has_all)
        }

        /// Enters the next epoch and starts its engine; returns whether it has all records.
        fn enter(&mut self, history: &mut History, ended: bool, now: u64) -> bool {
            let next = history.epoch.next();
            let (entered, release) = history.enter(next, ended, TimestampMs(now));
            self.0.extend(entered);
            self.0.retain(|(ticket, _)| release.is_none_or(|below| *ticket >= below));
            history.start_engine(&[], &Resume::start_of(next), TimestampMs(now))
        }

        fn sign(&mut self, history: &mut History, ticket: Ticket) {
            let record = history.record(ticket, bytes(1));
            assert!(self.0.iter().all(|(before, _)| *before < record.0), "tickets ascend");
            self.0.push(record);
        }
    }

    #[test]
    fn records_belong_to_their_epoch() {
        let mut log = Log::default();
        let (mut history, has_all) = log.start(0, 0, 1_000);
        assert!(!has_all, "in epoch 0 others decide about it");
        log.sign(&mut history, Ticket::first(TimestampMs(1_000)));
        assert_eq!(log.0[0].1, bytes(1), "as before there were epochs");
        let before = log.clone();
        assert!(log.enter(&mut history, true, 2_000));
        assert_eq!(log.0.len(), 1, "records of the last epoch are released");
        let ticket = history.of_engine(log.0[0].0.next());
        log.sign(&mut history, ticket);
        let all = [before.0, log.0.clone()].concat();
        let of = |epoch| History::read(Epoch(epoch), &all, false).1.into_iter().map(|(_, record)| record).collect::<Vec<_>>();
        assert_eq!([of(0), of(1), of(2)], [vec![bytes(1)], vec![bytes(1)], vec![]]);
        let has_all = |epoch, log: &Log| log.start(epoch, 0, 3_000).1;
        assert!(has_all(1, &log) && !has_all(2, &log));
    }

    /// An intact log stays complete over epochs that the node only follows.
    #[test]
    fn follower_with_an_intact_log_stays_complete() {
        let mut log = Log::default();
        let (mut history, _) = log.start(0, 0, 1_000);
        log.sign(&mut history, Ticket::first(TimestampMs(1_000)));
        let (mut history, _) = log.start(0, 5, 9_000);
        assert!((1..4).all(|epoch| log.enter(&mut history, false, 10_000 * epoch)));
        // A fresh disk knows nothing, although the chain passes the same epochs.
        let (mut fresh, _) = Log::default().start(0, 0, 9_000);
        assert!((1..4).all(|epoch| !Log::default().enter(&mut fresh, false, 10_000 * epoch)));
    }

    /// A newcomer follows some epochs, and orders in the next one as if it had been there.
    #[test]
    fn newcomer_has_lost_nothing() {
        let mut log = Log::default();
        let (mut history, _) = History::read(Epoch(0), &log.0, true);
        assert!((1..3).all(|epoch| log.enter(&mut history, false, 10_000 * epoch)));
        assert!(!history.has_never_signed(), "the log has it from now on");
        assert!(log.start(2, 0, 30_000).1, "after a restart, too");
        // In its first epoch as well, once, before its engine has signed anything.
        let (mut history, records) = History::read(Epoch(4), &[], true);
        assert!(history.start_engine(&records, &resume(4, 7), TimestampMs(1_000)));
        log = Log::default();
        log.sign(&mut history, Ticket::first(TimestampMs(1_000)));
        assert!(!history.has_never_signed());
        assert!(log.enter(&mut history, true, 2_000));
    }

    /// A validator that signed for the first time and then follows to the end of the epoch has lost nothing. One that forgot what it
    /// signed before has, whatever it signs now.
    #[test]
    fn first_signature_begins_a_complete_log() {
        for (never_signed, complete) in [(true, true), (false, false)] {
            let mut log = Log::default();
            let (mut history, records) = History::read(Epoch(0), &[], never_signed);
            history.start_engine(&records, &resume(0, 0), TimestampMs(1_000));
            log.sign(&mut history, Ticket::first(TimestampMs(1_000)));
            assert_eq!(log.enter(&mut history, false, 9_000), complete);
        }
    }

    /// After a loss the epoch in which it is found and the next one are incomplete, also over restarts.
    #[test]
    fn loss_counts_for_two_epochs() {
        for restarts in [false, true] {
            let mut log = Log::default();
            let (mut history, has_all) = log.start(3, 7, 1_000);
            assert!(!has_all);
            log.sign(&mut history, Ticket::first(TimestampMs(1_000)));
            for (epoch, complete) in [(4, false), (5, true), (6, true)] {
                if restarts {
                    history = log.start(epoch - 1, 8, 1_000 * epoch).0;
                }
                assert_eq!(log.enter(&mut history, true, 10_000 * epoch), complete, "epoch {epoch}");
                let ticket = history.of_engine(history.newest_ticket.next());
                log.sign(&mut history, ticket);
            }
        }
    }

    /// `docs/operate.md` lets an operator delete the blocks and keep the safety log.
    #[test]
    fn chain_that_is_executed_again_keeps_newer_records() {
        let mut log = Log::default();
        let (mut history, _) = log.start(0, 0, 1_000);
        log.sign(&mut history, Ticket::first(TimestampMs(1_000)));
        log.enter(&mut history, true, 2_000);
        log.enter(&mut history, true, 3_000);
        log.sign(&mut history, Ticket(log.0.last().unwrap().0.0 + 1));
        let kept = log.0.clone();
        let (mut again, _) = log.start(0, 0, 4_000);
        assert!(!log.enter(&mut again, false, 5_000) && !log.enter(&mut again, false, 6_000));
        assert_eq!(log.0, kept);
        assert!(log.start(2, 0, 7_000).1, "in its newest epoch it remembers");
    }

    /// Tickets contain the time. They ascend in the log all the same.
    #[test]
    fn tickets_ascend_after_the_clock_went_back() {
        let mut log = Log::default();
        let (mut history, _) = log.start(0, 0, 9_000_000);
        log.sign(&mut history, Ticket::first(TimestampMs(9_000_000)));
        let (mut history, _) = log.start(0, 5, 1_000);
        let recovered = log.0[0].0.next();
        log.sign(&mut history, recovered);
        assert!(log.enter(&mut history, true, 2_000));
        let ticket = Ticket::first(TimestampMs(2_000));
        log.sign(&mut history, ticket);
        assert_eq!(history.of_engine(history.stored(ticket)), ticket);
    }
}
