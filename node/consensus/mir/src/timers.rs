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

/// Periods of `epoch_length` numbers without a change of epochs, after which the timeout is halved although numbers were slow.
const SLOW_PERIODS: u64 = 16;

#[derive(Default)]
pub(crate) struct Timers {
    /// ecTimer(sn): when it started, and when the commit of a number is overdue.
    numbers: BTreeMap<Sn, (TimestampMs, TimestampMs)>,
    /// When the configuration of the next epoch is overdue, after this one was delivered.
    config: Option<TimestampMs>,
    /// When the epoch that this member moves to is overdue (U4).
    change: Option<TimestampMs>,
    /// The timeout is doubled so often (M25).
    doublings: u32,
    /// Numbers committed since the timeout changed, and the longest time that one of the current period took, ms.
    committed: u64,
    slowest_ms: u64,
    /// Nothing is overdue, and a member that lost its disk seeks another epoch.
    is_helping: bool,
    /// The epoch that this member would move to, because something is overdue, or to help a member.
    suspicion: Option<EpochNumber>,
}

impl Timers {
    pub fn timeout_ms(&self, config: &Config) -> u64 {
        let doubled = config.timeout_ms.saturating_mul(1 << self.doublings.min(40));
        doubled.min(config.max_timeout_ms.max(config.timeout_ms))
    }

    fn after(&self, now: TimestampMs, config: &Config) -> TimestampMs {
        TimestampMs(now.0.saturating_add(self.timeout_ms(config)))
    }

    fn set_doublings(&mut self, doublings: u32) {
        (self.doublings, self.committed, self.slowest_ms) = (doublings, 0, 0);
    }

    /// U1: the member left its epoch. The timer of the change starts later (U4). The timeout doubles: it was too
    /// short, or somebody is faulty. Not if this member only helps one that lost its disk.
    pub fn begin_change(&mut self, config: &Config) {
        if !self.is_helping && self.timeout_ms(config) < config.max_timeout_ms {
            self.set_doublings(self.doublings + 1);
        }
        self.begin_epoch();
    }

    pub fn begin_epoch(&mut self) {
        (self.config, self.change, self.suspicion, self.is_helping) = (None, None, None, false);
        self.numbers.clear();
    }

    /// M25: halves the timeout after `epoch_length` numbers that would have been timely with two thirds of the half. A leader could
    /// slow its numbers down to keep the timeout large, so after many of such periods the time does not matter.
    fn note_commit(&mut self, sn: Sn, now: TimestampMs, config: &Config) {
        let started = self.numbers.remove(&sn).map_or(now, |(started, _)| started);
        self.slowest_ms = self.slowest_ms.max(now.0.saturating_sub(started.0));
        self.committed += 1;
        if self.committed.is_multiple_of(config.epoch_length) {
            let is_fast = 3 * self.slowest_ms <= self.timeout_ms(config);
            self.slowest_ms = 0;
            if self.doublings > 0 && (is_fast || self.committed >= SLOW_PERIODS * config.epoch_length) {
                self.set_doublings(self.doublings - 1);
            }
        }
    }

    /// The next time at which something becomes overdue. None while something is: the suspicion says so already.
    pub fn deadline(&self) -> Option<TimestampMs> {
        let pending = self.numbers.values().map(|(_, at)| *at).chain(self.config).chain(self.change);
        pending.min().filter(|_| self.suspicion.is_none())
    }

    /// M11: numbers that are overdue, lowest first.
    fn overdue(&self, now: TimestampMs) -> impl Iterator<Item = Sn> {
        self.numbers.iter().filter(move |(_, (_, at))| *at <= now).map(|(sn, _)| *sn)
    }

    pub fn describe(&self) -> String {
        format!(
            "overdue at {:?} {:?} {:?}, doublings {}, suspicion {:?}",
            self.numbers, self.config, self.change, self.doublings, self.suspicion
        )
    }
}

impl Mir {
    /// The last number whose leader may propose it now, even if the number before it is not delivered yet (M10).
    fn last_timed(&self) -> Sn {
        let before_fresh = self.epoch.first.minus(1).max(self.order.sn()).max(self.stable());
        before_fresh.plus(self.config.open_batches.saturating_mul(self.epoch.leaders.len() as u64)).min(self.window_end())
    }

    /// Starts the timer of a number, if it is one of this epoch, and the number before it is committed (M10).
    fn start_timer(&mut self, sn: Sn) {
        let is_ours = sn > self.epoch.start && (sn < self.epoch.first || rules::is_fresh(&self.epoch, sn));
        // Not where its leader may not propose yet: that would blame correct leaders.
        let is_open = self.stable() < sn && sn <= self.last_timed();
        let is_due = is_ours && is_open && !self.is_committed(sn) && self.committee.size() > 1;
        let before = sn.minus(1);
        if is_due && self.is_normal() && (before <= self.epoch.start.max(self.stable()) || self.is_committed(before)) {
            let at = self.timers.after(self.now, &self.config);
            self.timers.numbers.entry(sn).or_insert((self.now, at));
        }
    }

    /// Starts the timers of all numbers that may have one: in a new epoch, or after a stable checkpoint.
    pub(crate) fn start_timers(&mut self) {
        let (from, to) = (self.epoch.start.max(self.order.sn()).max(self.stable()).next(), self.last_timed());
        self.timers.numbers = self.timers.numbers.split_off(&self.stable().next());
        (from.0..=to.0).for_each(|sn| self.start_timer(Sn(sn)));
    }

    /// N6: the timer of a committed number ends, and that of the next one begins.
    pub(crate) fn handle_committed_timers(&mut self, sn: Sn) {
        self.timers.note_commit(sn, self.now, &self.config);
        self.start_timer(sn.next());
    }

    /// N7: a number was delivered, so its leader may propose another one.
    pub(crate) fn handle_delivered_timers(&mut self) {
        self.start_timer(self.last_timed());
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
        if self.timers.change.is_none() && self.is_change_backed() {
            self.timers.change = Some(self.timers.after(self.now, &self.config));
        }
        let suspicion = match self.promises.target {
            Some(target) => self.timers.change.filter(is_over).map(|_| target.plus(1)),
            // The primary of the next epoch sends no configuration: only the one after it can help.
            None if self.timers.config.as_ref().is_some_and(is_over) => Some(epoch.plus(2)),
            None => self.timers.overdue(self.now).next().map(|_| epoch.plus(1)),
        };
        let help = self.seeks().filter(|_| self.is_normal()).max(self.helped());
        self.timers.is_helping = suspicion.is_none() && help.is_some();
        let suspicion = suspicion.max(help);
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

    /// M11: leaders to be removed, first ones first. None if this member did not suspect any before it left its epoch.
    pub(crate) fn suspects(&self) -> Vec<ValidatorIndex> {
        let mut suspects: Vec<ValidatorIndex> = Vec::new();
        for suspect in self.changes.suspected.iter().filter_map(|sn| rules::leader(&self.epoch, *sn, &self.committee)) {
            if !suspects.contains(&suspect) {
                suspects.push(suspect);
            }
        }
        suspects
    }

    /// M11: the lowest number that is not committed, if half of its time is over: others may have left a little earlier. Then the
    /// overdue ones.
    pub(crate) fn suspected_numbers(&self) -> Vec<Sn> {
        let is_late = |started: TimestampMs, at: TimestampMs| self.now.0 >= started.0 + at.0.saturating_sub(started.0) / 2;
        let lowest = self.timers.numbers.iter().next().filter(|(_, (started, at))| is_late(*started, *at)).map(|(sn, _)| *sn);
        lowest.into_iter().chain(self.timers.overdue(self.now)).collect()
    }
}
