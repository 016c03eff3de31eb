//! Timers that suspect someone (3.9): one for each number (M10), one for a missing configuration, one for a change of epochs.

use crate::{
    config::Config,
    engine::Mir,
    message::{EpochNumber, Sn},
    rules,
};
use corniche_engine::Recipients;
use corniche_types::{TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct Timers {
    /// ecTimer(sn): when the commit of a number is overdue.
    numbers: BTreeMap<Sn, TimestampMs>,
    /// When the configuration of the next epoch is overdue, after this one was delivered.
    config: Option<TimestampMs>,
    /// When the epoch that this member moves to is overdue (U4).
    change: Option<TimestampMs>,
    /// Ungracious changes in a row, which double the timeout (M25).
    failures: u32,
    /// The epoch that this member would move to, because something is overdue.
    suspicion: Option<EpochNumber>,
}

impl Timers {
    fn after(&self, now: TimestampMs, config: &Config) -> TimestampMs {
        let doubled = config.timeout_ms.saturating_mul(1 << self.failures.min(16));
        TimestampMs(now.0.saturating_add(doubled.min(config.max_timeout_ms.max(config.timeout_ms))))
    }

    /// U1: the member left its epoch.
    pub fn begin_change(&mut self, now: TimestampMs, config: &Config) {
        (self.config, self.suspicion) = (None, None);
        self.numbers.clear();
        self.failures = self.failures.saturating_add(1);
        self.change = Some(self.after(now, config));
    }

    pub fn begin_epoch(&mut self) {
        (self.config, self.change, self.suspicion) = (None, None, None);
        self.numbers.clear();
    }

    /// A gracious change, or a stable checkpoint.
    pub fn note_progress(&mut self) {
        self.failures = 0;
    }

    /// The next time at which something becomes overdue. None while something is: the suspicion says so already.
    pub fn deadline(&self) -> Option<TimestampMs> {
        let pending = self.numbers.values().copied().chain(self.config).chain(self.change);
        pending.min().filter(|_| self.suspicion.is_none())
    }

    /// M11: numbers that are overdue, lowest first.
    fn overdue(&self, now: TimestampMs) -> impl Iterator<Item = Sn> {
        self.numbers.iter().filter(move |(_, at)| **at <= now).map(|(sn, _)| *sn)
    }

    pub fn describe(&self) -> String {
        format!(
            "overdue at {:?} {:?} {:?}, failures {}, suspicion {:?}",
            self.numbers, self.config, self.change, self.failures, self.suspicion
        )
    }
}

impl Mir {
    /// Starts the timer of a number, if it is one of this epoch, and the number before it is committed (M10).
    fn start_timer(&mut self, sn: Sn) {
        let is_ours = sn > self.epoch.start && (sn < self.epoch.first || rules::is_fresh(&self.epoch, sn));
        // Not outside the window: its leader may not propose there.
        let is_due = is_ours && sn <= self.window_end() && !self.is_committed(sn) && self.committee.size() > 1;
        let before = sn.minus(1);
        if is_due && self.is_normal() && (before <= self.epoch.start || self.is_committed(before)) {
            let at = self.timers.after(self.now, &self.config);
            self.timers.numbers.entry(sn).or_insert(at);
        }
    }

    /// Starts the timers of all numbers that may have one: in a new epoch, or after a stable checkpoint.
    pub(crate) fn start_timers(&mut self) {
        let (from, to) = (self.epoch.start.max(self.order.sn()).next(), self.window_end());
        (from.0..=to.0).for_each(|sn| self.start_timer(Sn(sn)));
    }

    /// N6: the timer of a committed number ends, and that of the next one begins.
    pub(crate) fn handle_committed_timers(&mut self, sn: Sn) {
        self.timers.numbers.remove(&sn);
        self.start_timer(sn.next());
    }

    /// Compares the timers with the time. A suspicion ends when nothing is overdue any more.
    pub(crate) fn check_timers(&mut self) {
        if self.committee.size() == 1 {
            return;
        }
        let is_over = |at: &TimestampMs| *at <= self.now;
        let epoch = self.epoch.epoch;
        let is_finished = self.epoch.last.is_some_and(|last| last <= self.order.sn());
        if is_finished && self.is_normal() && self.timers.config.is_none() {
            self.timers.config = Some(self.timers.after(self.now, &self.config));
        }
        let suspicion = match self.promises.target {
            Some(target) => self.timers.change.filter(is_over).map(|_| target.plus(1)),
            // The primary of the next epoch sends no configuration: only the one after it can help.
            None if self.timers.config.as_ref().is_some_and(is_over) => Some(epoch.plus(2)),
            None => self.timers.overdue(self.now).next().map(|_| epoch.plus(1)),
        };
        if suspicion != self.timers.suspicion {
            self.timers.suspicion = suspicion;
            self.send_status(Recipients::All, suspicion.is_some());
        }
    }

    /// The epoch that this member would move to.
    pub(crate) fn wants(&self) -> EpochNumber {
        let (epoch, target) = (self.epoch.epoch, self.promises.target.unwrap_or_default());
        epoch.max(target).max(self.timers.suspicion.unwrap_or_default())
    }

    /// M11: the leader of the lowest number that is not committed, then those of overdue numbers.
    pub(crate) fn suspects(&self) -> Vec<ValidatorIndex> {
        let from = self.epoch.start.max(self.order.sn()).next();
        let lowest = (from.0..=self.window_end().0).map(Sn).find(|sn| !self.is_committed(*sn));
        let fresh = lowest.into_iter().chain(self.changes.overdue.iter().copied());
        let mut suspects: Vec<ValidatorIndex> = Vec::new();
        for suspect in fresh.filter_map(|sn| rules::leader(&self.epoch, sn, &self.committee)) {
            if !suspects.contains(&suspect) {
                suspects.push(suspect);
            }
        }
        suspects
    }

    /// Numbers that are overdue now.
    pub(crate) fn overdue_numbers(&self) -> Vec<Sn> {
        self.timers.overdue(self.now).collect()
    }
}
