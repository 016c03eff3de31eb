//! Tracks which validators miss their turns, as seen by this node, and how long a turn must be.
//!
//! A validator is *silent* while it has debt. It gets [`PROMPT_PER_MISS`] of debt for every transaction that
//! this node sent it, that waited its whole turn, and that another validator then had ordered. It pays back
//! one with every transaction of its own senders that it has ordered. The others take a silent validator's
//! turn at once and still send it its transactions. So probing it costs users nothing, and it recovers as
//! soon as it proposes.
//!
//! Reports of other nodes do not count. A validator gets debt only for transactions that this node sent it,
//! so another node cannot cause debt by withholding. Users can, with a transaction that this node accepts and
//! the validator refuses. Each such transaction causes at most [`PROMPT_PER_MISS`] duplicate proposals. At
//! most f validators are silent at a time, so that an overloaded network does not propose everything twice. A
//! validator that is silent now and then delays at most one in [`PROMPT_PER_MISS`] transactions.

use corniche_admission::{MIN_TURN_MS, TURN_MS};
use corniche_types::{TimestampMs, ValidatorIndex};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of transactions that a validator must have ordered to make up for one missed turn.
const PROMPT_PER_MISS: u32 = 32;
const MAX_DEBT: u32 = 64 * PROMPT_PER_MISS;
/// A validator that did not order a copy in time may not have received it, and is sent all copies for this
/// long.
const SUSPECTED_MS: u64 = 10_000;
/// Number of latest ordering latencies kept, and the minimum number before a turn is shorter than the
/// longest.
const LATENCIES: usize = 64;
const LEAST_LATENCIES: usize = 16;
/// A turn is this multiple of the median latency, rounded up to [`TURN_STEP_MS`].
const TURN_LATENCIES: u64 = 3;
const TURN_STEP_MS: u64 = 100;

/// See the module documentation.
#[derive(Default)]
pub(super) struct Reputation {
    max_faulty: usize,
    debts: BTreeMap<ValidatorIndex, u32>,
    silent: BTreeSet<ValidatorIndex>,
    suspected: BTreeMap<ValidatorIndex, TimestampMs>,
    latencies: VecDeque<u64>,
}

impl Reputation {
    pub fn new(max_faulty: usize) -> Self {
        Self { max_faulty, ..Self::default() }
    }

    /// True if its turns are skipped.
    pub fn is_silent(&self, validator: ValidatorIndex) -> bool {
        self.silent.contains(&validator)
    }

    /// True if this node sends it copies of all its transactions.
    pub fn is_suspected(&self, validator: ValidatorIndex, now: TimestampMs) -> bool {
        self.suspected.get(&validator).is_some_and(|until| now < *until)
    }

    /// Records that a copy of a transaction waited its whole turn.
    pub fn suspect(&mut self, validator: ValidatorIndex, now: TimestampMs) {
        self.suspected.insert(validator, TimestampMs(now.0.saturating_add(SUSPECTED_MS)));
    }

    /// Records that it missed its turn for a transaction that this node sent it.
    pub fn missed(&mut self, validator: ValidatorIndex) {
        let debt = self.debts.entry(validator).or_default();
        *debt = debt.saturating_add(PROMPT_PER_MISS).min(MAX_DEBT);
        self.rank();
    }

    /// Records that it had a transaction of its own sender ordered.
    pub fn proposed(&mut self, validator: ValidatorIndex) {
        let Some(debt) = self.debts.get_mut(&validator) else { return };
        *debt -= 1;
        if *debt == 0 {
            self.debts.remove(&validator);
        }
        self.rank();
    }

    pub fn owes(&self, validator: ValidatorIndex) -> bool {
        self.debts.contains_key(&validator)
    }

    fn rank(&mut self) {
        let mut owing: Vec<_> = self.debts.iter().map(|(validator, debt)| (*debt, *validator)).collect();
        owing.sort_unstable();
        self.silent = owing.into_iter().rev().take(self.max_faulty).map(|(_, validator)| validator).collect();
    }

    /// Records the ordering latency of a transaction.
    pub fn ordered_after(&mut self, ms: u64) {
        if self.latencies.len() == LATENCIES {
            self.latencies.pop_front();
        }
        self.latencies.push_back(ms);
    }

    /// Length of a turn. Fewer than half of all validators are faulty, so they cannot control the median.
    pub fn turn(&self) -> u64 {
        if self.latencies.len() < LEAST_LATENCIES {
            return TURN_MS;
        }
        let mut sorted: Vec<u64> = self.latencies.iter().copied().collect();
        sorted.sort_unstable();
        let turn = sorted[sorted.len() / 2].saturating_mul(TURN_LATENCIES);
        turn.min(TURN_MS).next_multiple_of(TURN_STEP_MS).max(MIN_TURN_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ValidatorIndex = ValidatorIndex(1);
    const TWO: ValidatorIndex = ValidatorIndex(2);

    #[test]
    fn one_missed_turn_costs_as_many_prompt_ones_and_a_long_silence_is_bounded() {
        let mut reputation = Reputation::new(1);
        reputation.missed(ONE);
        for _ in 0..PROMPT_PER_MISS {
            assert!(reputation.is_silent(ONE));
            reputation.proposed(ONE);
        }
        assert!(!reputation.is_silent(ONE) && !reputation.owes(ONE));
        (0..1_000_000).for_each(|_| reputation.missed(ONE));
        (0..MAX_DEBT).for_each(|_| reputation.proposed(ONE));
        assert!(!reputation.is_silent(ONE));
    }

    #[test]
    fn no_more_are_silent_than_may_be_faulty() {
        let mut reputation = Reputation::new(1);
        reputation.missed(ONE);
        (0..2).for_each(|_| reputation.missed(TWO));
        assert!(reputation.is_silent(TWO) && !reputation.is_silent(ONE));
        (0..=PROMPT_PER_MISS).for_each(|_| reputation.proposed(TWO));
        assert!(reputation.is_silent(ONE) && !reputation.is_silent(TWO));
    }

    #[test]
    fn a_turn_follows_the_median_within_bounds() {
        let mut reputation = Reputation::default();
        (1..LEAST_LATENCIES).for_each(|_| reputation.ordered_after(10));
        assert_eq!(reputation.turn(), TURN_MS);
        reputation.ordered_after(10);
        assert_eq!(reputation.turn(), MIN_TURN_MS);
        // A third of the transactions wait for a silent validator.
        (0..LATENCIES).for_each(|number| reputation.ordered_after(if number % 3 == 0 { 2_000 } else { 160 }));
        assert_eq!(reputation.turn(), 500);
        (0..LATENCIES).for_each(|_| reputation.ordered_after(u64::MAX));
        assert_eq!(reputation.turn(), TURN_MS);
    }
}
