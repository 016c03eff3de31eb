//! Timers that suspect someone (3.9): one for each number (M10), one for a missing configuration, one for a change of epochs.
//!
//! Numbers of absent leaders are overdue, and epochs of absent primaries are skipped ([`absence`](crate::absence)).

use crate::{
    config::Config,
    engine::Mir,
    epochs::MAX_AHEAD,
    message::{EpochNumber, Sn},
    rules,
};
use corniche_engine::Recipients;
use corniche_types::{TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

/// Periods of `epoch_length` numbers without a change of epochs, after which the timeout is halved although numbers were slow.
const SLOW_PERIODS: u64 = 16;
/// ecTimer(sn).
struct NumberTimer {
    started: TimestampMs,
    timeout_ms: u64,
    leader: ValidatorIndex,
}

impl NumberTimer {
    /// When its whole time is over.
    fn ends_at(&self) -> TimestampMs {
        TimestampMs(self.started.0.saturating_add(self.timeout_ms))
    }
}

#[derive(Default)]
pub(crate) struct Timers {
    numbers: BTreeMap<Sn, NumberTimer>,
    /// When the configuration of the next epoch is overdue, after this one was delivered.
    config: Option<TimestampMs>,
    /// When the epoch that this member moves to is overdue (U4).
    change: Option<TimestampMs>,
    /// The timeout is doubled so often (M25).
    doublings: u32,
    /// Numbers committed since the timeout changed, and the longest time that one of the current period took, ms.
    committed: u64,
    slowest_ms: u64,
    /// The suspicion is only about absent members, or helps one that lost its disk: nothing took a whole timeout.
    keeps_timeout: bool,
    /// The epoch that this member would move to, because something is overdue, or to help a member.
    suspicion: Option<EpochNumber>,
    /// The highest suspicion since this member is in its epoch. Others that counted it may have left for that epoch.
    announced: EpochNumber,
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
    /// short, or somebody is faulty.
    pub fn begin_change(&mut self, config: &Config) {
        if !self.keeps_timeout && self.timeout_ms(config) < config.max_timeout_ms {
            self.set_doublings(self.doublings + 1);
        }
        self.begin_epoch();
    }

    pub fn enter_epoch(&mut self) {
        self.begin_epoch();
        self.announced = EpochNumber(0);
    }

    fn begin_epoch(&mut self) {
        (self.config, self.change, self.suspicion, self.keeps_timeout) = (None, None, None, false);
        self.numbers.clear();
    }

    /// M25: halves the timeout after `epoch_length` numbers that would have been timely with two thirds of the half. A leader could
    /// slow its numbers down to keep the timeout large, so after many of such periods the time does not matter.
    fn note_commit(&mut self, sn: Sn, now: TimestampMs, config: &Config) {
        let started = self.numbers.remove(&sn).map_or(now, |timer| timer.started);
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

    pub fn describe(&self) -> String {
        let numbers: BTreeMap<_, _> = self.numbers.iter().map(|(sn, timer)| (sn, timer.ends_at())).collect();
        format!(
            "overdue at {numbers:?} {:?} {:?}, doublings {}, suspicion {:?}",
            self.config, self.change, self.doublings, self.suspicion
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
            let (leader, timeout_ms) = (self.leader(sn), self.timers.timeout_ms(&self.config));
            self.timers.numbers.entry(sn).or_insert(NumberTimer { started: self.now, timeout_ms, leader });
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
        let epoch = self.epoch.epoch;
        let is_finished = rules::is_finished(&self.epoch, self.order.sn());
        if is_finished && self.is_normal() && self.timers.config.is_none() {
            self.timers.config = Some(self.timers.after(self.now, &self.config));
        }
        if self.timers.change.is_none() && self.is_change_backed() {
            self.timers.change = Some(self.timers.after(self.now, &self.config));
        }
        // The epoch whose primary has to act now, and when that is overdue.
        let awaited = match self.promises.target {
            Some(target) => self.timers.change.map(|at| (target, at)),
            None => self.timers.config.map(|at| (epoch.plus(1), at)),
        };
        let is_late = awaited.is_some_and(|(_, at)| at <= self.now);
        let skipped =
            awaited.filter(|(awaited, _)| is_late || self.is_led_by_absent(*awaited)).map(|(awaited, _)| awaited.plus(1));
        let overdue = self.overdue_leaders().next().filter(|_| self.is_normal()).map(|_| epoch.plus(1));
        let suspicion = skipped.or(overdue).map(|least| self.next_led_by_present(least));
        let help = self.seeks().filter(|_| self.is_normal()).max(self.helped());
        let suspicion = suspicion.max(help);
        let is_timely = || !is_late && self.timers.numbers.values().all(|timer| timer.ends_at() > self.now);
        self.timers.keeps_timeout = suspicion.is_some() && is_timely();
        if suspicion != self.timers.suspicion {
            self.timers.suspicion = suspicion;
            self.timers.announced = self.timers.announced.max(suspicion.unwrap_or_default());
            self.send_status(Recipients::All, suspicion.is_some());
        }
    }

    /// The next time at which something becomes overdue. None while something is: the suspicion says so already.
    pub(crate) fn timers_deadline(&self) -> Option<TimestampMs> {
        let numbers = self.timers.numbers.values().map(|timer| self.overdue_at(timer));
        numbers.chain(self.timers.config).chain(self.timers.change).min().filter(|_| self.timers.suspicion.is_none())
    }

    /// When a number is overdue, unless its leader is heard meanwhile.
    fn overdue_at(&self, timer: &NumberTimer) -> TimestampMs {
        let absent = self.absence.begins_at(timer.leader, &self.config);
        absent.map_or(timer.ends_at(), |at| at.max(timer.started).min(timer.ends_at()))
    }

    /// M11: leaders of overdue numbers, lowest numbers first.
    fn overdue_leaders(&self) -> impl Iterator<Item = ValidatorIndex> {
        self.timers.numbers.values().filter(|timer| self.overdue_at(timer) <= self.now).map(|timer| timer.leader)
    }

    fn is_led_by_absent(&self, epoch: EpochNumber) -> bool {
        self.is_absent(rules::primary(epoch, &self.committee))
    }

    fn is_absent(&self, member: ValidatorIndex) -> bool {
        self.absence.begins_at(member, &self.config).is_some_and(|at| at <= self.now)
    }

    /// M30: the first epoch from this one on whose primary is not absent. Not far ahead, because a member that lost its disk assumes
    /// that it may have left for each of them (T3).
    fn next_led_by_present(&self, least: EpochNumber) -> EpochNumber {
        let farthest = self.epoch.epoch.max(self.promises.target.unwrap_or_default()).plus(MAX_AHEAD);
        let epochs = (least.0..=farthest.0).map(EpochNumber);
        epochs.into_iter().find(|epoch| !self.is_led_by_absent(*epoch)).unwrap_or(least)
    }

    /// The epoch that this member would move to.
    pub(crate) fn wants(&self) -> EpochNumber {
        let (epoch, target) = (self.epoch.epoch, self.promises.target.unwrap_or_default());
        let announced = if self.is_normal() { EpochNumber(0) } else { self.timers.announced };
        epoch.max(target).max(self.timers.suspicion.unwrap_or_default()).max(announced)
    }

    /// M11: leaders to be removed, first ones first: that of the lowest number that is not committed, if it is overdue, absent ones,
    /// that of the lowest number if half of its time is over, because others may have left a little earlier, and those of overdue
    /// numbers.
    pub(crate) fn suspects(&self) -> Vec<ValidatorIndex> {
        let lowest = self.timers.numbers.values().next();
        let overdue = lowest.filter(|timer| timer.ends_at() <= self.now).map(|timer| timer.leader);
        let is_half_over = |timer: &&NumberTimer| timer.started.0.saturating_add(timer.timeout_ms / 2) <= self.now.0;
        let late = lowest.filter(is_half_over).map(|timer| timer.leader);
        let absent = self.epoch.leaders.iter().copied().filter(|leader| self.is_absent(*leader));
        let mut suspects: Vec<ValidatorIndex> = Vec::new();
        for suspect in overdue.into_iter().chain(absent).chain(late).chain(self.overdue_leaders()) {
            if !suspects.contains(&suspect) {
                suspects.push(suspect);
            }
        }
        suspects
    }
}
