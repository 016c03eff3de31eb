//! Timers that suspect someone (3.9): one for each number (M10), one for a missing configuration, one for a change of epochs.
//!
//! Nobody waits a whole timeout for an absent member (M30): one that is not connected, or that sent nothing since it missed its
//! turn as primary. Its numbers are overdue after an eighth, and its epochs are skipped. A member is alone with such a suspicion if
//! only its own connection is down, and then nothing follows from it.

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
/// A number of an absent leader has this part of the timeout: its process may be back soon.
const ABSENT_DIVISOR: u64 = 8;

/// ecTimer(sn).
struct NumberTimer {
    started: TimestampMs,
    timeout_ms: u64,
    leader: ValidatorIndex,
}

impl NumberTimer {
    /// This part of its time after `start`.
    fn after(&self, start: TimestampMs, divisor: u64) -> TimestampMs {
        TimestampMs(start.0.saturating_add(self.timeout_ms / divisor))
    }
}

#[derive(Default)]
pub(crate) struct Timers {
    numbers: BTreeMap<Sn, NumberTimer>,
    /// Members that cannot be expected to do anything, and since when.
    absent: BTreeMap<ValidatorIndex, TimestampMs>,
    /// When the configuration of the next epoch is overdue, after this one was delivered.
    config: Option<TimestampMs>,
    /// When the epoch that this member moves to is overdue (U4).
    change: Option<TimestampMs>,
    /// The timeout is doubled so often (M25).
    doublings: u32,
    /// Numbers committed since the timeout changed, and the longest time that one of the current period took, ms.
    committed: u64,
    slowest_ms: u64,
    /// The suspicion is about absent members only, or helps one that lost its disk: the timeout was long enough.
    keeps_timeout: bool,
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
    /// short, or somebody is faulty.
    pub fn begin_change(&mut self, config: &Config) {
        if !self.keeps_timeout && self.timeout_ms(config) < config.max_timeout_ms {
            self.set_doublings(self.doublings + 1);
        }
        self.begin_epoch();
    }

    pub fn begin_epoch(&mut self) {
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

    /// The next time at which something becomes overdue. None while something is: the suspicion says so already.
    pub fn deadline(&self) -> Option<TimestampMs> {
        let pending = self.numbers.values().map(|timer| self.overdue_at(timer, 1)).chain(self.config).chain(self.change);
        pending.min().filter(|_| self.suspicion.is_none())
    }

    /// When this part of a number's time is over.
    fn overdue_at(&self, timer: &NumberTimer, divisor: u64) -> TimestampMs {
        let absent = self.absent.get(&timer.leader);
        let sooner = absent.map(|since| timer.after(timer.started.max(*since), divisor * ABSENT_DIVISOR));
        sooner.into_iter().fold(timer.after(timer.started, divisor), TimestampMs::min)
    }

    /// M11: numbers that are overdue, lowest first.
    fn overdue(&self, now: TimestampMs) -> impl Iterator<Item = Sn> {
        self.numbers.iter().filter(move |(_, timer)| self.overdue_at(timer, 1) <= now).map(|(sn, _)| *sn)
    }

    /// The member sent something, or is connected again.
    pub fn note_present(&mut self, member: ValidatorIndex) {
        self.absent.remove(&member);
    }

    pub fn note_absent(&mut self, member: ValidatorIndex, now: TimestampMs) {
        self.absent.entry(member).or_insert(now);
    }

    pub fn describe(&self) -> String {
        let numbers: BTreeMap<_, _> = self.numbers.iter().map(|(sn, timer)| (sn, self.overdue_at(timer, 1))).collect();
        format!(
            "overdue at {numbers:?} {:?} {:?}, absent {:?}, doublings {}, suspicion {:?}",
            self.config, self.change, self.absent, self.doublings, self.suspicion
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
        let is_finished = self.epoch.last.is_some_and(|last| last <= self.order.sn());
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
        let late = awaited.filter(|(_, at)| *at <= self.now).map(|(late, _)| rules::primary(late, &self.committee));
        late.filter(|late| *late != self.me).into_iter().for_each(|late| self.timers.note_absent(late, self.now));
        let is_skipped = |(awaited, _): &(EpochNumber, _)| late.is_some() || self.is_led_by_absent(*awaited);
        let skipped = awaited.filter(is_skipped).map(|(awaited, _)| awaited.plus(1));
        // M38: an epoch for each leader that has to go.
        let overdue = self.timers.overdue(self.now).next().filter(|_| self.is_normal());
        let without = overdue.map(|_| epoch.plus((self.absent_leaders().count() as u64).clamp(1, MAX_AHEAD)));
        let suspicion = skipped.or(without).map(|least| self.next_led_by_present(least));
        let help = self.seeks().filter(|_| self.is_normal()).max(self.helped());
        let suspicion = suspicion.max(help);
        let is_slow = self.timers.numbers.values().any(|timer| timer.after(timer.started, 1) <= self.now);
        self.timers.keeps_timeout = suspicion.is_some() && late.is_none() && !is_slow;
        if suspicion != self.timers.suspicion {
            self.timers.suspicion = suspicion;
            self.send_status(Recipients::All, suspicion.is_some());
        }
    }

    fn is_led_by_absent(&self, epoch: EpochNumber) -> bool {
        self.timers.absent.contains_key(&rules::primary(epoch, &self.committee))
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
        epoch.max(target).max(self.timers.suspicion.unwrap_or_default())
    }

    /// Leaders that have been absent for long enough.
    fn absent_leaders(&self) -> impl Iterator<Item = ValidatorIndex> {
        let patience = self.timers.timeout_ms(&self.config) / ABSENT_DIVISOR;
        let is_over = move |since: TimestampMs| since.0.saturating_add(patience) <= self.now.0;
        let absent = self.timers.absent.iter().filter(move |(_, since)| is_over(**since)).map(|(member, _)| *member);
        absent.filter(|member| self.epoch.leaders.contains(member))
    }

    /// M11: leaders to be removed, first ones first: that of the lowest number that is not committed, if half of its time is over,
    /// because others may have left a little earlier. Then those of overdue numbers, and absent ones.
    pub(crate) fn suspects(&self) -> Vec<ValidatorIndex> {
        let is_late = |timer: &NumberTimer| self.timers.overdue_at(timer, 2) <= self.now;
        let lowest = self.timers.numbers.iter().next().filter(|(_, timer)| is_late(timer)).map(|(sn, _)| *sn);
        let numbers = lowest.into_iter().chain(self.timers.overdue(self.now));
        let leaders = numbers.filter_map(|sn| rules::leader(&self.epoch, sn, &self.committee));
        let mut suspects: Vec<ValidatorIndex> = Vec::new();
        for suspect in leaders.chain(self.absent_leaders()) {
            if !suspects.contains(&suspect) {
                suspects.push(suspect);
            }
        }
        suspects
    }
}
