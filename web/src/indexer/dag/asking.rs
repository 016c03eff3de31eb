//! Which numbers a node is asked for next. Pure: it is told what came, and says what to ask.
//!
//! Under Mahi-Mahi everything has one number, its round. Under Autobahn `corniche_getDag` counts several things by numbers that have
//! nothing to do with each other: slots, and cars of each lane, whose owner may be slower than the others or stand still. Each of these is a
//! strand with an end of its own. A node answers for one stretch of numbers at a time, so what lies close together is asked for together.

use super::{Strand, believed::HIGHEST};
use corniche_api::{Dag, SlotStatus};
use std::collections::{BTreeMap, BTreeSet};

/// Numbers of one request at most. A node with many validators answers fewer.
pub const AT_ONCE: u64 = 64;

/// Requests of one look while there is more to catch up with.
const PASS_AT_ONCE: usize = 16;

/// Stretches of one look that are asked for because something unknown may be there. A lane may be so far behind all others that nothing else
/// comes by it.
const BEHIND_AT_ONCE: usize = 4;

/// What is so far behind the end still changes: a slow validator's vertex comes late.
const LATE_ROUNDS: u64 = 31;
const LATE_CARS: u64 = 7;

/// Above the end so much is asked for as well, for it will have grown.
const AHEAD: u64 = 32;

/// What is undecided so far behind the end is asked for no more: the node let go what it had to say of it.
const GIVEN_UP: u64 = 512;

/// Of so many looks one asks for what is undecided further back.
const OPEN_EVERY: u64 = 8;

/// See the module.
#[derive(Debug)]
pub struct Asking {
    lanes: bool,
    keep: u64,
    newest: u64,
    ends: BTreeMap<Strand, u64>,
    /// Rounds, or slots, whose verdicts are not known, or not the commits that these led to.
    open: BTreeSet<u64>,
    /// Whether this node says which commit a slot led to.
    tells_commits: bool,
    /// A walk over all numbers, which finds what the ends pass over. The first one is done at once, and the only one without lanes.
    walk: u64,
    catching_up: bool,
    width: u64,
    looks: u64,
}

impl Asking {
    /// `newest` is the node's newest number, `ends` is what was kept before. No more than `keep` numbers are asked for.
    pub fn new(lanes: bool, keep: u64, newest: u64, ends: BTreeMap<Strand, u64>) -> Self {
        let newest = newest.min(HIGHEST);
        // What was kept of numbers that the node does not have says nothing of where it is.
        let known = ends.values().map(|end| if *end > newest { 0 } else { end.saturating_sub(GIVEN_UP) });
        let first = known.min().unwrap_or(0);
        let walk = first.max((newest + 1).saturating_sub(keep)).min(newest);
        let ends = if lanes { ends } else { BTreeMap::from([(Strand::Rounds, newest)]) };
        Self {
            lanes,
            keep,
            newest,
            ends,
            open: BTreeSet::new(),
            tells_commits: false,
            walk,
            catching_up: true,
            width: AT_ONCE,
            looks: 0,
        }
    }

    /// The highest number of a strand.
    pub fn end(&self, strand: Strand) -> Option<u64> {
        self.ends.get(&strand).copied()
    }

    /// The first number of a strand that is kept.
    pub fn first_kept(&self, strand: Strand) -> u64 {
        self.end(strand).map_or(0, |end| (end + 1).saturating_sub(self.keep))
    }

    /// The last one. Above it is what a node said that has other numbers now.
    pub fn last_kept(&self, strand: Strand) -> u64 {
        self.end(strand).map_or(u64::MAX, |end| end.saturating_add(self.keep))
    }

    /// Whether there is more at once.
    pub fn is_catching_up(&self) -> bool {
        self.catching_up
    }

    /// A node refused so many numbers at once. False: it can be asked for no fewer.
    pub fn narrower(&mut self) -> bool {
        let may = self.width > 1;
        self.width = (self.width / 2).max(1);
        may
    }

    /// No answer came for what begins here: it is asked for again.
    pub fn again(&mut self, from: u64) {
        if self.catching_up || !self.lanes {
            (self.walk, self.catching_up) = (self.walk.min(from), true);
        }
    }

    /// First and last numbers to ask for, in order.
    pub fn look(&mut self) -> Vec<(u64, u64)> {
        self.looks += 1;
        let mut wanted = Vec::new();
        if self.catching_up {
            for _ in 0..PASS_AT_ONCE {
                if self.walk > self.newest {
                    self.catching_up = false;
                    break;
                }
                wanted.push((self.walk, self.walk));
                self.walk += self.width;
            }
        } else {
            wanted.extend(self.ends.values().map(|end| (end.saturating_sub(self.late()), end + AHEAD)));
            if self.looks.is_multiple_of(OPEN_EVERY) {
                wanted.extend(self.open.iter().map(|number| (*number, *number)));
            }
            let unknown = if self.lanes { BEHIND_AT_ONCE } else { 0 };
            for _ in 0..unknown {
                self.walk = if self.walk > self.newest { 0 } else { self.walk };
                wanted.push((self.walk, self.walk));
                self.walk += self.width;
            }
        }
        self.cover(wanted)
    }

    fn late(&self) -> u64 {
        if self.lanes { LATE_CARS } else { LATE_ROUNDS }
    }

    /// Stretches of the width that hold all that is wanted and that the node may have.
    fn cover(&self, mut wanted: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
        wanted.sort_unstable();
        let mut stretches: Vec<(u64, u64)> = Vec::new();
        for (first, last) in wanted {
            let mut next = first;
            if let Some((_, covered)) = stretches.last().filter(|(_, covered)| *covered >= first) {
                next = covered + 1;
            }
            while next <= last.min(self.newest) {
                stretches.push((next, next + self.width - 1));
                next += self.width;
            }
        }
        stretches
    }

    /// What the node answered for a stretch, as far as it is believed.
    pub fn told(&mut self, dag: &Dag) {
        let before = self.newest;
        self.newest = dag.newest_round;
        let newest = self.newest;
        let mut raise = |strand, number: u64| {
            let end = self.ends.entry(strand).or_insert(number);
            // An end that the node does not have any more is none.
            *end = if *end > newest { number } else { number.max(*end) };
        };
        if self.lanes {
            dag.vertices.iter().for_each(|car| raise(Strand::Lane(car.author), car.round));
            dag.slots.iter().for_each(|slot| raise(Strand::Rounds, slot.round));
        } else {
            self.ends = BTreeMap::from([(Strand::Rounds, self.newest)]);
        }
        let end = self.end(Strand::Rounds).unwrap_or(0);
        // No more than was asked for, whatever the node says.
        self.open.extend((dag.from_round..=dag.to_round.min(end)).take(AT_ONCE as usize));
        self.tells_commits |= dag.slots.iter().any(|slot| slot.commit.is_some());
        for (round, known) in verdicts(dag, self.tells_commits) {
            if known {
                self.open.remove(&round);
            }
        }
        self.open = self.open.split_off(&end.saturating_sub(GIVEN_UP));
        self.open.retain(|number| *number <= end);
        // More came at once than a look reaches: nothing between is left out.
        if !self.lanes && !self.catching_up && self.newest > before + AHEAD {
            (self.walk, self.catching_up) = (before, true);
        }
        if self.catching_up {
            // However far the node says that it is.
            self.walk = self.walk.max((self.newest + 1).saturating_sub(self.keep));
        }
    }
}

/// Rounds, or slots, of which something is known, and whether that is all.
fn verdicts(dag: &Dag, with_commits: bool) -> BTreeMap<u64, bool> {
    let mut verdicts = BTreeMap::new();
    for slot in &dag.slots {
        *verdicts.entry(slot.round).or_insert(true) &= match slot.status {
            SlotStatus::Committed => !with_commits || slot.commit.is_some(),
            SlotStatus::Skipped => true,
            SlotStatus::Undecided => false,
        };
    }
    verdicts
}
