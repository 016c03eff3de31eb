//! Timers of leaders' views, so that a dead leader does not cost the full timer in each of its slots.
//!
//! A leader is distrusted while its connection is down. It is also distrusted after it led a view that ended without a commit,
//! until a slot that it leads commits in its first view.
//!
//! | leader | timer | at least |
//! |---|---|---|
//! | not connected: its messages cannot arrive | | an eighth of the full timer |
//! | distrusted | two medians of recent views | an eighth |
//! | trusted | eight medians | a quarter |
//!
//! Safety does not rest on timers, and liveness does not rest on trust (`SlotContext::view_timeout`). A leader that came back commits
//! within the short timer and is trusted again. A faulty leader can do so, too, and fail in every second slot. So a trusted
//! leader does not get the full timer either. The paper's proof needs ten message delays, and a view takes at least three.
//!
//! Committed views of all leaders are measured. If the network becomes slow, all leaders may lose trust. Commits of later views
//! then lengthen the short timer until first views commit within it again.

use crate::message::Slot;
use corniche_types::{ValidatorIndex, Votes};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The short timer is at least `view_timeout_ms` divided by this: fast networks have pauses, too.
const MIN_TIMEOUT_DIVISOR: u64 = 8;
/// Maximum number of measured views. A smaller number adapts faster when the network becomes slow.
const MAX_RECENT: usize = 16;
/// The short timer is so many medians of recent views. Leaders with the longest links need up to about 1.5.
const MEDIAN_FACTOR: u64 = 2;
/// Same for trusted leaders. Views may take four times as long as usual, and a pause of the leader as long again.
const TRUSTED_MIN_PART: u64 = 4;
const TRUSTED_MEDIANS: u64 = 8;

pub(crate) struct LeaderReputation {
    disconnected: BTreeSet<ValidatorIndex>,
    /// Last slot in which a validator led a view that failed, or a first view that committed. The flag is true for a commit.
    outcomes: BTreeMap<ValidatorIndex, (Slot, bool)>,
    /// Durations of the last committed views, ms: one rotation of the seats of a small committee, so less than a third have
    /// faulty leaders.
    recent: VecDeque<u64>,
    max_recent: usize,
}

impl LeaderReputation {
    /// `seats`: the votes of all members. Each leads in one slot of a rotation.
    pub fn new(seats: Votes) -> Self {
        Self {
            disconnected: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            recent: VecDeque::new(),
            max_recent: seats.as_usize().clamp(1, MAX_RECENT),
        }
    }

    pub fn peer_down(&mut self, peer: ValidatorIndex) {
        self.disconnected.insert(peer);
    }

    pub fn peer_up(&mut self, peer: ValidatorIndex) {
        self.disconnected.remove(&peer);
    }

    /// Records a failed view (`committed` is false) or a committed first view of a leader. Slots may come in any order; the last
    /// slot counts.
    pub fn record_outcome(&mut self, leader: ValidatorIndex, slot: Slot, committed: bool) {
        let last = self.outcomes.entry(leader).or_insert((slot, committed));
        if slot > last.0 {
            *last = (slot, committed);
        }
    }

    /// Records the duration of a view, ms, from the start of its timer to its commit.
    pub fn record_duration(&mut self, duration: u64) {
        if self.recent.len() == self.max_recent {
            self.recent.pop_front();
        }
        self.recent.push_back(duration);
    }

    /// Returns the timer of a leader's view, ms. The caller limits it to the full timer. `None` means the full timer: before the
    /// first measurement, and for trusted leaders before the first rotation is measured, unless the connection is down.
    pub fn timeout(&self, leader: ValidatorIndex, view_timeout_ms: u64) -> Option<u64> {
        if self.disconnected.contains(&leader) {
            return Some(view_timeout_ms.div_ceil(MIN_TIMEOUT_DIVISOR));
        }
        let is_trusted = self.outcomes.get(&leader).is_none_or(|(_, committed)| *committed);
        if is_trusted && self.recent.len() < self.max_recent {
            return None;
        }
        let (medians, part) =
            if is_trusted { (TRUSTED_MEDIANS, TRUSTED_MIN_PART) } else { (MEDIAN_FACTOR, MIN_TIMEOUT_DIVISOR) };
        let mut recent: Vec<u64> = self.recent.iter().copied().collect();
        recent.sort_unstable();
        let median = recent.get(recent.len() / 2)?;
        Some(median.saturating_mul(medians).max(view_timeout_ms.div_ceil(part)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEADER: ValidatorIndex = ValidatorIndex(1);

    fn new(seats: usize) -> LeaderReputation {
        LeaderReputation::new(Votes(u32::try_from(seats).unwrap()))
    }

    fn measured(durations: &[u64]) -> LeaderReputation {
        let mut leaders = new(durations.len());
        durations.iter().for_each(|duration| leaders.record_duration(*duration));
        leaders.record_outcome(LEADER, Slot(1), false);
        leaders
    }

    fn is_distrusted(leaders: &LeaderReputation, leader: ValidatorIndex) -> bool {
        leaders.outcomes.get(&leader).is_some_and(|(_, committed)| !committed)
    }

    #[test]
    fn short_timer_follows_view_durations() {
        let mut unmeasured = new(4);
        unmeasured.record_outcome(LEADER, Slot(1), false);
        assert_eq!(unmeasured.timeout(LEADER, 1_000), None, "nothing is known");
        for (duration, timer) in [(100, 200), (10, 125), (900, 1_800), (u64::MAX, u64::MAX)] {
            assert_eq!(measured(&[duration; 4]).timeout(LEADER, 1_000), Some(timer), "{duration} ms");
        }
        assert_eq!(measured(&[0; 4]).timeout(LEADER, 1), Some(1), "a timer of no time would never let anything happen");
    }

    #[test]
    fn a_trusted_leaders_timer_follows_what_a_rotation_takes() {
        let trusted = ValidatorIndex(2);
        let mut leaders = new(4);
        for duration in [20, 20, 20] {
            leaders.record_duration(duration);
            assert_eq!(leaders.timeout(trusted, 1_000), None, "less than a rotation is known");
        }
        leaders.record_duration(20);
        assert_eq!(leaders.timeout(trusted, 1_000), Some(250), "fast networks have pauses, too");
        for (duration, timer) in [(50, 400), (200, 1_600), (u64::MAX, u64::MAX)] {
            assert_eq!(measured(&[duration; 4]).timeout(trusted, 1_000), Some(timer), "{duration} ms");
        }
    }

    #[test]
    fn f_leaders_cannot_inflate_short_timer() {
        for size in [4, 7, 10, 16] {
            let faulty = (size - 1) / 3;
            for extreme in [0, 1_000_000] {
                let mut durations = vec![100; size];
                durations[..faulty].fill(extreme);
                let timer = measured(&durations).timeout(LEADER, 1_000);
                assert_eq!(timer, Some(200), "{size} validators, {extreme} ms");
            }
        }
    }

    #[test]
    fn only_last_rotation_is_measured() {
        let mut leaders = measured(&[10; 4]);
        (0..3).for_each(|_| leaders.record_duration(300));
        assert_eq!((leaders.timeout(LEADER, 1_000), leaders.recent.len()), (Some(600), 4));
    }

    #[test]
    fn latest_slot_decides_reputation() {
        let mut leaders = measured(&[10; 4]);
        leaders.record_outcome(LEADER, Slot(5), false);
        assert!(is_distrusted(&leaders, LEADER));
        leaders.record_outcome(LEADER, Slot(9), true);
        leaders.record_outcome(LEADER, Slot(2), false);
        assert!(!is_distrusted(&leaders, LEADER) && !is_distrusted(&leaders, ValidatorIndex(2)));
    }

    #[test]
    fn disconnected_leader_is_distrusted() {
        let mut leaders = new(4);
        leaders.peer_down(LEADER);
        assert_eq!(leaders.timeout(LEADER, 1_000), Some(125), "whatever views take");
        leaders.peer_up(LEADER);
        assert_eq!(leaders.timeout(LEADER, 1_000), None);
        // A new connection does not restore the trust that failed views cost.
        let mut leaders = measured(&[300; 4]);
        leaders.peer_down(LEADER);
        leaders.peer_up(LEADER);
        assert_eq!(leaders.timeout(LEADER, 1_000), Some(600));
    }
}
