//! Short timers for distrusted leaders, so that a dead leader does not cost the full timer in each of its slots.
//!
//! A leader is distrusted while its connection is down. It is also distrusted after it led a view that ended without a commit,
//! until a slot that it leads commits in its first view.
//!
//! Safety does not rest on timers, and liveness does not rest on trust (`Desk::view_timeout`). While the connection is down the
//! leader's messages cannot arrive, so its timer is the shortest. Otherwise the short timer is twice the median duration of
//! recent views. A leader that came back commits within it and is trusted again.
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

    /// Returns the timer of a distrusted leader's view, ms. The caller limits it to the full timer. `None` for a trusted leader,
    /// and before the first measurement unless the connection is down.
    pub fn short_timeout(&self, leader: ValidatorIndex, view_timeout_ms: u64) -> Option<u64> {
        let least = view_timeout_ms.div_ceil(MIN_PART);
        if self.down.contains(&leader) {
            return Some(least);
        }
        self.judged.get(&leader).filter(|(_, committed)| !committed)?;
        let mut recent: Vec<u64> = self.recent.iter().copied().collect();
        recent.sort_unstable();
        let median = recent.get(recent.len() / 2)?;
        Some(median.saturating_mul(MEDIANS).max(least))
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
        leaders.short_timeout(leader, 1_000).is_some()
    }

    #[test]
    fn the_short_timer_follows_what_views_take() {
        let mut unmeasured = Leaders::new(4);
        unmeasured.judge(LEADER, Slot(1), false);
        assert_eq!(unmeasured.short_timeout(LEADER, 1_000), None, "nothing is known");
        for (duration, timer) in [(100, 200), (10, 125), (900, 1_800), (u64::MAX, u64::MAX)] {
            assert_eq!(measured(&[duration; 4]).short_timeout(LEADER, 1_000), Some(timer), "{duration} ms");
        }
        assert_eq!(measured(&[0; 4]).short_timeout(LEADER, 1), Some(1), "a timer of no time would never let anything happen");
    }

    #[test]
    fn f_leaders_cannot_change_what_is_measured_beyond_what_correct_ones_take() {
        for size in [4, 7, 10, 16] {
            let faulty = (size - 1) / 3;
            for extreme in [0, 1_000_000] {
                let mut durations = vec![100; size];
                durations[..faulty].fill(extreme);
                let timer = measured(&durations).short_timeout(LEADER, 1_000);
                assert_eq!(timer, Some(200), "{size} validators, {extreme} ms");
            }
        }
    }

    #[test]
    fn only_the_last_rotation_is_measured() {
        let mut leaders = measured(&[10; 4]);
        (0..3).for_each(|_| leaders.measure(300));
        assert_eq!((leaders.short_timeout(LEADER, 1_000), leaders.recent.len()), (Some(600), 4));
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
        assert_eq!(leaders.short_timeout(LEADER, 1_000), Some(125), "whatever views take");
        leaders.up(LEADER);
        assert!(!is_distrusted(&leaders, LEADER));
        // A new connection does not restore the trust that failed views cost.
        let mut leaders = measured(&[300; 4]);
        leaders.down(LEADER);
        leaders.up(LEADER);
        assert_eq!(leaders.short_timeout(LEADER, 1_000), Some(600));
    }
}
