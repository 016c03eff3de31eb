//! Decides which numbers to request from the node next. Pure: does no I/O.
//!
//! Under Mahi-Mahi everything has one number, the round; under NeoBFT it is the slot of the log. Under Autobahn
//! `corniche_getDag` uses one range of numbers for unrelated sequences: slots, and the cars of each lane. The owner of a
//! lane may be slower than others, or stop. Each sequence is a sequence with its own end. A response covers one range of
//! numbers, so nearby numbers share a request.

use super::{Form, Sequence, validation::HIGHEST};
use corniche_api::{Dag, SlotStatus};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of numbers in one request. A node with many validators allows fewer.
pub const MAX_RANGE: u64 = 64;

/// Maximum number of requests of one poll while catching up.
const CATCH_UP_REQUESTS: usize = 16;

/// Maximum number of extra ranges of one poll for sequences that may have unknown entries. A lane may be so far behind
/// all others that no other range includes its numbers.
const SCAN_REQUESTS: usize = 4;

/// Distances behind the end within which entries still change: vertices of slow validators arrive late.
const LATE_ROUNDS: u64 = 31;
const LATE_CARS: u64 = 7;

/// Distance beyond the end that is requested as well, because the end will have moved.
const AHEAD: u64 = 32;

/// Distance behind the end beyond which undecided entries are no longer requested, because the node has dropped them.
const MAX_UNDECIDED_AGE: u64 = 512;

/// One poll in this many requests older undecided entries.
const UNDECIDED_POLL_PERIOD: u64 = 8;

/// State of the requests; see the module.
#[derive(Debug)]
pub struct RangePlanner {
    form: Form,
    keep: u64,
    newest: u64,
    ends: BTreeMap<Sequence, u64>,
    /// Rounds or slots whose verdicts, or the commits of these, are not known yet.
    undecided: BTreeSet<u64>,
    /// `true` if this node reports the commit of a slot.
    reports_commits: bool,
    /// Next number of a walk over all numbers, which finds entries that the ends miss. The first walk runs at full
    /// speed. Without lanes it is the only one.
    walk: u64,
    catching_up: bool,
    width: u64,
    polls: u64,
}

impl RangePlanner {
    /// Starts from the node's newest number and the stored ends. At most `keep` numbers are requested.
    pub fn new(form: Form, keep: u64, newest: u64, ends: BTreeMap<Sequence, u64>) -> Self {
        let newest = newest.min(HIGHEST);
        // A stored end above the node's newest number gives no hint where the sequence is now.
        let known = ends.values().map(|end| if *end > newest { 0 } else { end.saturating_sub(MAX_UNDECIDED_AGE) });
        let first = known.min().unwrap_or(0);
        let walk = first.max((newest + 1).saturating_sub(keep)).min(newest);
        let ends = if form.has_lanes() { ends } else { BTreeMap::from([(Sequence::Rounds, newest)]) };
        Self {
            form,
            keep,
            newest,
            ends,
            undecided: BTreeSet::new(),
            reports_commits: false,
            walk,
            catching_up: true,
            width: MAX_RANGE,
            polls: 0,
        }
    }

    /// Returns the highest number of a sequence.
    pub fn end(&self, sequence: Sequence) -> Option<u64> {
        self.ends.get(&sequence).copied()
    }

    /// Returns the lowest number of a sequence that is kept.
    pub fn first_kept(&self, sequence: Sequence) -> u64 {
        self.end(sequence).map_or(0, |end| (end + 1).saturating_sub(self.keep))
    }

    /// Returns the highest number of a sequence that is kept. Entries above it are from a node with another numbering.
    pub fn last_kept(&self, sequence: Sequence) -> u64 {
        self.end(sequence).map_or(u64::MAX, |end| end.saturating_add(self.keep))
    }

    /// Returns `true` if there is more to request at once.
    pub fn is_catching_up(&self) -> bool {
        self.catching_up
    }

    /// Halves the width of requests after the node rejected one. Returns `false` if it is 1 already.
    pub fn halve_width(&mut self) -> bool {
        let may = self.width > 1;
        self.width = (self.width / 2).max(1);
        may
    }

    /// Schedules the numbers from here on again, because no response came.
    pub fn reschedule(&mut self, from: u64) {
        if self.catching_up || !self.has_lanes() {
            (self.walk, self.catching_up) = (self.walk.min(from), true);
        }
    }

    /// Returns the ranges to request in this poll, in ascending order: first and last number.
    pub fn next_ranges(&mut self) -> Vec<(u64, u64)> {
        self.polls += 1;
        let mut wanted = Vec::new();
        if self.catching_up {
            for _ in 0..CATCH_UP_REQUESTS {
                if self.walk > self.newest {
                    self.catching_up = false;
                    break;
                }
                wanted.push((self.walk, self.walk));
                self.walk += self.width;
            }
        } else {
            wanted.extend(self.ends.values().map(|end| (end.saturating_sub(self.late()), end + AHEAD)));
            if self.polls.is_multiple_of(UNDECIDED_POLL_PERIOD) {
                wanted.extend(self.undecided.iter().map(|number| (*number, *number)));
            }
            let unknown = if self.has_lanes() { SCAN_REQUESTS } else { 0 };
            for _ in 0..unknown {
                self.walk = if self.walk > self.newest { 0 } else { self.walk };
                wanted.push((self.walk, self.walk));
                self.walk += self.width;
            }
        }
        self.cover(wanted)
    }

    fn has_lanes(&self) -> bool {
        self.form.has_lanes()
    }

    fn late(&self) -> u64 {
        if self.has_lanes() { LATE_CARS } else { LATE_ROUNDS }
    }

    /// Returns ranges of the allowed width that cover all wanted numbers, up to the node's newest.
    fn cover(&self, mut wanted: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
        wanted.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (first, last) in wanted {
            let mut next = first;
            if let Some((_, covered)) = ranges.last().filter(|(_, covered)| *covered >= first) {
                next = covered + 1;
            }
            while next <= last.min(self.newest) {
                ranges.push((next, next + self.width - 1));
                next += self.width;
            }
        }
        ranges
    }

    /// Processes a validated response.
    pub fn record(&mut self, dag: &Dag) {
        let before = self.newest;
        self.newest = dag.newest_round;
        let newest = self.newest;
        let has_lanes = self.has_lanes();
        let mut raise = |sequence, number: u64| {
            let end = self.ends.entry(sequence).or_insert(number);
            // An end above the node's newest number is invalid.
            *end = if *end > newest { number } else { number.max(*end) };
        };
        if has_lanes {
            dag.vertices.iter().for_each(|car| raise(Sequence::Lane(car.author), car.round));
            dag.slots.iter().for_each(|slot| raise(Sequence::Rounds, slot.round));
        } else {
            self.ends = BTreeMap::from([(Sequence::Rounds, self.newest)]);
        }
        let end = self.end(Sequence::Rounds).unwrap_or(0);
        // Bounded by the request's size, regardless of the response.
        self.undecided.extend((dag.from_round..=dag.to_round.min(end)).take(MAX_RANGE as usize));
        self.reports_commits |= dag.slots.iter().any(|slot| slot.commit.is_some());
        for (round, known) in self.verdicts(dag) {
            if known {
                self.undecided.remove(&round);
            }
        }
        self.undecided = self.undecided.split_off(&end.saturating_sub(MAX_UNDECIDED_AGE));
        self.undecided.retain(|number| *number <= end);
        // The end moved further than one poll covers: the walk fetches the gap.
        if !has_lanes && !self.catching_up && self.newest > before + AHEAD {
            (self.walk, self.catching_up) = (before, true);
        }
        if self.catching_up {
            // Bounded by `keep`, regardless of the node's newest number.
            self.walk = self.walk.max((self.newest + 1).saturating_sub(self.keep));
        }
    }
    /// Returns the rounds or slots with known verdicts, and whether nothing about them is missing.
    fn verdicts(&self, dag: &Dag) -> BTreeMap<u64, bool> {
        let mut verdicts = BTreeMap::new();
        for slot in &dag.slots {
            *verdicts.entry(slot.round).or_insert(true) &= match slot.status {
                SlotStatus::Undecided => false,
                SlotStatus::Skipped if !self.form.is_log() => true,
                // A gap in a log is an empty commit.
                SlotStatus::Committed | SlotStatus::Skipped => !self.reports_commits || slot.commit.is_some(),
            };
        }
        verdicts
    }
}
