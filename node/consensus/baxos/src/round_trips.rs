//! RTT_max: the longest round trip between any two validators, which is the unit of back-off (P6, P9, X5).
//!
//! Each validator measures the round trips to the others, by answers and by status messages. It reports the longest one in its status.
//! The maximum of all reports is the diameter of the network. Reports are about own measurements only, so an old maximum cannot
//! circulate.

use corniche_types::{TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

/// Engines count time in ms. With a shorter unit, only few different back-offs would exist (X4).
const MIN_RTT_MS: u64 = 4;
/// Longer measurements are those of a stopped process, not of a network.
const MAX_RTT_MS: u64 = 10_000;

/// Round trips longer than this are those of a stall.
const STALL_MS: u64 = 1_000;

/// Round-trip times of the network.
#[derive(Debug)]
pub struct RoundTrips {
    initial_ms: u64,
    /// An older report does not count.
    fresh_ms: u64,
    /// Smoothed own measurements, µs.
    measured: BTreeMap<ValidatorIndex, u64>,
    /// Maxima that others measured, ms.
    reported: BTreeMap<ValidatorIndex, (u64, TimestampMs)>,
}

impl RoundTrips {
    /// `initial_ms` counts before the first measurement.
    pub fn new(initial_ms: u64, fresh_ms: u64) -> Self {
        Self { initial_ms, fresh_ms, measured: BTreeMap::new(), reported: BTreeMap::new() }
    }

    /// A round trip to this validator took so long. Longer ones count by half, shorter ones by an eighth: too short a timer ends tries
    /// that would succeed. Those of less than a half end a stall; below it, status messages
    /// are faster than answers, which wait for disks.
    pub fn measure(&mut self, peer: ValidatorIndex, ms: u64) {
        let us = ms.min(MAX_RTT_MS) * 1_000;
        let smoothed = self.measured.entry(peer).or_insert(us);
        let is_over = *smoothed > 1_000 * STALL_MS && us < *smoothed / 2;
        *smoothed = if us > *smoothed || is_over { (*smoothed + us).div_ceil(2) } else { (7 * *smoothed + us) / 8 };
    }

    /// The maximum that this validator measured itself, 0 if it measured none.
    pub fn report(&mut self, peer: ValidatorIndex, ms: u64, now: TimestampMs) {
        self.reported.insert(peer, (ms.min(MAX_RTT_MS), now));
    }

    /// Forgets a validator whose connection ended: a dead one does not slow down the others.
    pub fn forget(&mut self, peer: ValidatorIndex) {
        self.measured.remove(&peer);
        self.reported.remove(&peer);
    }

    /// The longest own round trip, ms. 0 before the first measurement.
    pub fn own_max_ms(&self) -> u64 {
        self.measured.values().copied().max().unwrap_or(0).div_ceil(1_000)
    }

    /// The validator with the longest own round trip, if it stalls or did so: it is measured more often.
    pub fn slowest(&self) -> Option<ValidatorIndex> {
        let stalled = self.measured.iter().filter(|(_, us)| **us > 1_000 * STALL_MS);
        stalled.max_by_key(|(_, us)| **us).map(|(peer, _)| *peer)
    }

    /// RTT_max, ms.
    pub fn max_ms(&self, now: TimestampMs) -> u64 {
        let is_fresh = |at: TimestampMs| at.0.saturating_add(self.fresh_ms) >= now.0;
        let reported = self.reported.values().filter(|(_, at)| is_fresh(*at)).map(|(ms, _)| *ms);
        let longest = reported.chain([self.own_max_ms()]).max().unwrap_or(0);
        if longest == 0 { self.initial_ms } else { longest }.max(MIN_RTT_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: ValidatorIndex = ValidatorIndex(1);

    #[test]
    fn maximum_is_that_of_the_network() {
        let mut trips = RoundTrips::new(100, 1_000);
        assert_eq!(trips.max_ms(TimestampMs(0)), 100, "nothing is measured");
        trips.measure(FAR, 20);
        trips.report(ValidatorIndex(2), 70, TimestampMs(10));
        assert_eq!((trips.own_max_ms(), trips.max_ms(TimestampMs(10))), (20, 70), "X5: not only the own ones");
        assert_eq!(trips.max_ms(TimestampMs(1_011)), 20, "old reports do not count");
        trips.report(ValidatorIndex(2), 70, TimestampMs(1_011));
        trips.forget(ValidatorIndex(2));
        assert_eq!(trips.max_ms(TimestampMs(1_011)), 20);
    }

    #[test]
    fn measurements_rise_fast_and_fall_slowly_but_after_a_stall() {
        let mut trips = RoundTrips::new(100, 1_000);
        for (ms, expected) in [(20, 20), (40, 30), (40, 35), (20, 34), (3, 30)] {
            trips.measure(FAR, ms);
            assert_eq!(trips.own_max_ms(), expected);
        }
        trips.measure(FAR, 60_000);
        assert_eq!(trips.slowest(), Some(FAR));
        (0..4).for_each(|_| trips.measure(FAR, 20));
        assert!(trips.own_max_ms() < STALL_MS, "{} ms", trips.own_max_ms());
        assert_eq!(trips.slowest(), None);
        (0..100).for_each(|_| trips.measure(FAR, 1));
        assert_eq!(trips.max_ms(TimestampMs(0)), MIN_RTT_MS);
    }
}
