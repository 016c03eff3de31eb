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
//! Safety does not rest on timers, and liveness does not rest on trust (`Desk::view_timeout`). A leader that came back commits
//! within the short timer and is trusted again. A faulty leader can do so, too, and fail in every second slot. So a trusted
//! leader does not get the full timer either. The paper's proof needs ten message delays, and a view takes at least three.
//!
//! Committed views of all leaders are measured. If the network becomes slow, all leaders may lose trust. Commits of later views
//! then lengthen the short timer until first views commit within it again.

use crate::message::Slot;
use corniche_types::ValidatorIndex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The short timer is at least `view_timeout_ms` divided by this: fast networks have pauses, too.
const MIN_PART: u64 = 8;
/// Maximum number of measured views. A smaller number adapts faster when the network becomes slow.
const MAX_RECENT: usize = 16;
/// The short timer is so many medians of recent views. Leaders with the longest links need up to about 1.5.
const MEDIANS: u64 = 2;
/// Same for trusted leaders. Views may take four times as long as usual, and a pause of the leader as long again.
const TRUSTED_MIN_PART: u64 = 4;
const TRUSTED_MEDIANS: u64 = 8;

pub(crate) struct Leaders {
    down: BTreeSet<ValidatorIndex>,
    /// Last slot in which a validator led a view that failed, or a first view that committed. The flag is true for a commit.
    judged: BTreeMap<ValidatorIndex, (Slot, bool)>,
    /// Durations of the last committed views, ms: one rotation of a small committee, so less than a third have faulty leaders.
    recent: VecDeque<u64>,
    most_recent: usize,
}

impl Leaders {
    pub fn new(committee_size: usize) -> Self {
        Self {
            down: BTreeSet::new(),
            judged: BTreeMap::new(),
            recent: VecDeque::new(),
            most_recent: committee_size.clamp(1, MAX_RECENT),
        }
    }

    pub fn down(&mut self, peer: ValidatorIndex) {
        self.down.insert(peer);
    }

    pub fn up(&mut self, peer: ValidatorIndex) {
        self.down.remove(&peer);
    }

    /// Records a failed view (`committed` is false) or a committed first view of a leader. Slots may come in any order; the last
    /// slot counts.
    pub fn judge(&mut self, leader: ValidatorIndex, slot: Slot, committed: bool) {
        let last = self.judged.entry(leader).or_insert((slot, committed));
        if slot > last.0 {
            *last = (slot, committed);
        }
    }

    /// Records the duration of a view, ms, from the start of its timer to its commit.
    pub fn measure(&mut self, duration: u64) {
        if self.recent.len() == self.most_recent {
            self.recent.pop_front();
        }
        self.recent.push_back(duration);
    }

    /// Returns the timer of a leader's view, ms. The caller limits it to the full timer. `None` means the full timer: before the
    /// first measurement, and for trusted leaders before the first rotation is measured, unless the connection is down.
    pub fn timeout(&self, leader: ValidatorIndex, view_timeout_ms: u64) -> Option<u64> {
        if self.down.contains(&leader) {
            return Some(view_timeout_ms.div_ceil(MIN_PART));
        }
        let is_trusted = self.judged.get(&leader).is_none_or(|(_, committed)| *committed);
        if is_trusted && self.recent.len() < self.most_recent {
            return None;
        }
        let (medians, part) = if is_trusted { (TRUSTED_MEDIANS, TRUSTED_MIN_PART) } else { (MEDIANS, MIN_PART) };
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

    fn measured(durations: &[u64]) -> Leaders {
        let mut leaders = Leaders::new(durations.len());
        durations.iter().for_each(|duration| leaders.measure(*duration));
        leaders.judge(LEADER, Slot(1), false);
        leaders
    }

    fn is_distrusted(leaders: &Leaders, leader: ValidatorIndex) -> bool {
        leaders.judged.get(&leader).is_some_and(|(_, committed)| !committed)
    }

    #[test]
    fn the_short_timer_follows_what_views_take() {
        let mut unmeasured = Leaders::new(4);
        unmeasured.judge(LEADER, Slot(1), false);
        assert_eq!(unmeasured.timeout(LEADER, 1_000), None, "nothing is known");
        for (duration, timer) in [(100, 200), (10, 125), (900, 1_800), (u64::MAX, u64::MAX)] {
            assert_eq!(measured(&[duration; 4]).timeout(LEADER, 1_000), Some(timer), "{duration} ms");
        }
        assert_eq!(measured(&[0; 4]).timeout(LEADER, 1), Some(1), "a timer of no time would never let anything happen");
    }

    #[test]
    fn a_trusted_leaders_timer_follows_what_a_rotation_takes() {
        let trusted = ValidatorIndex(2);
        let mut leaders = Leaders::new(4);
        for duration in [20, 20, 20] {
            leaders.measure(duration);
            assert_eq!(leaders.timeout(trusted, 1_000), None, "less than a rotation is known");
        }
        leaders.measure(20);
        assert_eq!(leaders.timeout(trusted, 1_000), Some(250), "fast networks have pauses, too");
        for (duration, timer) in [(50, 400), (200, 1_600), (u64::MAX, u64::MAX)] {
            assert_eq!(measured(&[duration; 4]).timeout(trusted, 1_000), Some(timer), "{duration} ms");
        }
    }

    #[test]
    fn f_leaders_cannot_change_what_is_measured_beyond_what_correct_ones_take() {
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
    fn only_the_last_rotation_is_measured() {
        let mut leaders = measured(&[10; 4]);
        (0..3).for_each(|_| leaders.measure(300));
        assert_eq!((leaders.timeout(LEADER, 1_000), leaders.recent.len()), (Some(600), 4));
    }

    #[test]
    fn the_last_slot_decides_in_whatever_order_they_commit() {
        let mut leaders = measured(&[10; 4]);
        leaders.judge(LEADER, Slot(5), false);
        assert!(is_distrusted(&leaders, LEADER));
        leaders.judge(LEADER, Slot(9), true);
        leaders.judge(LEADER, Slot(2), false);
        assert!(!is_distrusted(&leaders, LEADER) && !is_distrusted(&leaders, ValidatorIndex(2)));
    }

    #[test]
    fn a_connection_that_ends_costs_trust_until_it_is_back() {
        let mut leaders = Leaders::new(4);
        leaders.down(LEADER);
        assert_eq!(leaders.timeout(LEADER, 1_000), Some(125), "whatever views take");
        leaders.up(LEADER);
        assert_eq!(leaders.timeout(LEADER, 1_000), None);
        // A new connection does not restore the trust that failed views cost.
        let mut leaders = measured(&[300; 4]);
        leaders.down(LEADER);
        leaders.up(LEADER);
        assert_eq!(leaders.timeout(LEADER, 1_000), Some(600));
    }
}
