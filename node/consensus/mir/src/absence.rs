//! Absent members (M30): nobody waits long for one that is not connected, or that is silent.
//!
//! Numbers of an absent leader are overdue, and epochs of an absent primary are skipped. A member decides this alone, and nothing
//! follows from it as long as members with F + 1 votes do not agree.

use crate::config::Config;
use corniche_types::{TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

/// A member is absent when its connection was down for this part of the timeout: its process may be back soon.
const TIMEOUT_PART: u64 = 8;
/// It is absent later if so many times `resend_ms` after `idle_ms` are later. Without a connection, an idle leader's numbers come from
/// others, who repeat them then.
const REPETITIONS: u64 = 2;
/// A connected member is absent when it was silent for so many `timeout_ms`. Also in a slow network, others send something more often.
const SILENT_TIMEOUTS: u64 = 2;

pub(crate) struct Absence {
    /// Time of the last message of each other member, or of the start.
    heard: BTreeMap<ValidatorIndex, TimestampMs>,
    /// Members without a connection. Messages that arrived before its end may be handled later.
    down: BTreeMap<ValidatorIndex, Down>,
}

struct Down {
    since: TimestampMs,
    patience_ms: u64,
}

impl Down {
    fn new(since: TimestampMs, config: &Config) -> Self {
        let idle_ms = config.idle_ms.saturating_add(config.resend_ms.saturating_mul(REPETITIONS));
        Self { since, patience_ms: (config.timeout_ms / TIMEOUT_PART).max(idle_ms).min(config.timeout_ms) }
    }
}

impl Absence {
    /// Nobody is connected yet.
    pub fn new(others: impl Iterator<Item = ValidatorIndex>, now: TimestampMs, config: &Config) -> Self {
        let heard: BTreeMap<_, _> = others.map(|member| (member, now)).collect();
        let down = heard.keys().map(|member| (*member, Down::new(now, config))).collect();
        Self { heard, down }
    }

    pub fn note_heard(&mut self, member: ValidatorIndex, now: TimestampMs) {
        self.heard.insert(member, now);
    }

    pub fn note_up(&mut self, member: ValidatorIndex, now: TimestampMs) {
        self.down.remove(&member);
        self.note_heard(member, now);
    }

    pub fn is_connected(&self, member: ValidatorIndex) -> bool {
        !self.down.contains_key(&member)
    }

    pub fn note_down(&mut self, member: ValidatorIndex, now: TimestampMs, config: &Config) {
        self.down.entry(member).or_insert_with(|| Down::new(now, config));
    }

    /// A new epoch begins with these leaders, after one with those `before`. If all disconnected leaders lead it still, the others do
    /// not miss them: perhaps only connections of this member are down. So it waits longer.
    pub fn begin_epoch(&mut self, [before, leaders]: [&[ValidatorIndex]; 2], now: TimestampMs, config: &Config) {
        if self.down.keys().any(|member| before.contains(member) && !leaders.contains(member)) {
            return;
        }
        for (_, down) in self.down.iter_mut().filter(|(member, _)| before.contains(member) && leaders.contains(member)) {
            *down = Down { since: now, patience_ms: down.patience_ms.saturating_mul(2).min(config.timeout_ms) };
        }
    }

    /// The time from which another member is absent, if nothing is heard from it until then.
    pub fn begins_at(&self, member: ValidatorIndex, config: &Config) -> Option<TimestampMs> {
        let after = |start: TimestampMs, ms: u64| TimestampMs(start.0.saturating_add(ms));
        let silent = after(*self.heard.get(&member)?, config.timeout_ms.saturating_mul(SILENT_TIMEOUTS));
        let down = self.down.get(&member).map(|down| after(down.since, down.patience_ms));
        Some(down.map_or(silent, |down| down.min(silent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: ValidatorIndex = ValidatorIndex(0);
    const OTHER: ValidatorIndex = ValidatorIndex(1);
    const THIRD: ValidatorIndex = ValidatorIndex(2);

    fn config() -> Config {
        Config { timeout_ms: 8_000, idle_ms: 100, resend_ms: 10, ..Config::default() }
    }

    /// All others are connected at the start.
    fn connected() -> Absence {
        let mut absence = Absence::new([OTHER, THIRD].into_iter(), TimestampMs(0), &config());
        [OTHER, THIRD].into_iter().for_each(|member| absence.note_up(member, TimestampMs(0)));
        absence
    }

    fn begins_at(absence: &Absence, member: ValidatorIndex) -> Option<u64> {
        absence.begins_at(member, &config()).map(|at| at.0)
    }

    #[test]
    fn connections_have_time_at_the_start() {
        let mut absence = Absence::new([OTHER].into_iter(), TimestampMs(0), &config());
        assert_eq!(begins_at(&absence, OTHER), Some(1_000));
        absence.note_up(OTHER, TimestampMs(500));
        assert_eq!(begins_at(&absence, OTHER), Some(16_500));
    }

    #[test]
    fn silence_takes_longer_than_a_lost_connection() {
        let mut absence = connected();
        assert_eq!([ME, OTHER].map(|member| begins_at(&absence, member)), [None, Some(16_000)]);
        absence.note_heard(OTHER, TimestampMs(100));
        assert_eq!(begins_at(&absence, OTHER), Some(16_100));
        absence.note_down(OTHER, TimestampMs(200), &config());
        // A message that arrived before the end of the connection.
        absence.note_heard(OTHER, TimestampMs(300));
        assert_eq!(begins_at(&absence, OTHER), Some(1_200));
        absence.note_up(OTHER, TimestampMs(5_000));
        assert_eq!(begins_at(&absence, OTHER), Some(21_000));
    }

    #[test]
    fn idle_leader_has_the_time_that_its_numbers_take() {
        let mut absence = connected();
        absence.note_down(OTHER, TimestampMs(0), &Config { idle_ms: 3_000, ..config() });
        assert_eq!(begins_at(&absence, OTHER), Some(3_020));
    }

    /// Only the connection of this member is down: it disturbs the others more and more seldom.
    #[test]
    fn patience_grows_with_a_leader_that_nobody_else_misses() {
        let mut absence = connected();
        [OTHER, THIRD].into_iter().for_each(|member| absence.note_down(member, TimestampMs(0), &config()));
        absence.begin_epoch([&[ME, OTHER, THIRD], &[ME, OTHER]], TimestampMs(2_000), &config());
        assert_eq!(begins_at(&absence, OTHER), Some(1_000), "one of the two was missed, so the other one may be next");
        for patience in [2_000, 4_000, 8_000, 8_000] {
            absence.begin_epoch([&[ME, OTHER], &[ME, OTHER]], TimestampMs(2_000), &config());
            assert_eq!(begins_at(&absence, OTHER), Some(2_000 + patience));
        }
        absence.begin_epoch([&[ME], &[ME, OTHER]], TimestampMs(9_000), &config());
        assert_eq!(begins_at(&absence, OTHER), Some(10_000), "it returned by its own turn");
    }
}
