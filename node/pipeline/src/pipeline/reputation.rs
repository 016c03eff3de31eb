//! Tracks which validators miss their turns, as seen by this node, and how long a turn must be.
//!
//! A validator is *silent* while it has debt. It gets [`PROPOSALS_PER_MISS`] of debt for every transaction that
//! this node sent it, that waited its whole turn, and that another validator then had ordered. It pays back
//! one with every transaction of its own senders that it has ordered. The others take a silent validator's
//! turn at once and still send it its transactions. So probing it costs users nothing, and it recovers as
//! soon as it proposes.
//!
//! Reports of other nodes do not count. A validator gets debt only for transactions that this node sent it,
//! so another node cannot cause debt by withholding. Users can, with a transaction that this node accepts and
//! the validator refuses. Each such transaction causes at most [`PROPOSALS_PER_MISS`] duplicate proposals. At
//! most validators with F votes are silent at a time, so that an overloaded network does not propose everything twice. A
//! validator that is silent now and then delays at most one in [`PROPOSALS_PER_MISS`] transactions.

use corniche_admission::{MIN_TURN_MS, TURN_MS};
use corniche_types::{TimestampMs, ValidatorIndex, Votes, Weights};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of transactions that a validator must have ordered to make up for one missed turn.
const PROPOSALS_PER_MISS: u32 = 32;
const MAX_DEBT: u32 = 64 * PROPOSALS_PER_MISS;
/// A validator that did not order a copy in time may not have received it, and is sent all copies for this
/// long.
const SUSPICION_MS: u64 = 10_000;
/// Number of latest ordering latencies kept, and the minimum number before a turn is shorter than the
/// longest.
const MAX_LATENCIES: usize = 64;
const MIN_LATENCIES: usize = 16;
/// A turn is twice the median latency, and three times the part above [`SHORT_LATENCY_MS`], rounded up to
/// [`TURN_STEP_MS`]. Queues cause a part of a long latency, so it varies more, and a turn that ends too early has
/// transactions proposed twice.
const SHORT_LATENCY_FACTOR: u64 = 2;
const LONG_LATENCY_FACTOR: u64 = 3;
const SHORT_LATENCY_MS: u64 = 200;
const TURN_STEP_MS: u64 = 50;

/// See the module documentation.
pub(super) struct Reputation {
    weights: Weights,
    debts: BTreeMap<ValidatorIndex, u32>,
    silent: BTreeSet<ValidatorIndex>,
    suspected: BTreeMap<ValidatorIndex, TimestampMs>,
    latencies: VecDeque<u64>,
}

impl Reputation {
    pub fn new(weights: &Weights) -> Self {
        Self {
            weights: weights.clone(),
            debts: BTreeMap::new(),
            silent: BTreeSet::new(),
            suspected: BTreeMap::new(),
            latencies: VecDeque::new(),
        }
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
        self.suspected.insert(validator, TimestampMs(now.0.saturating_add(SUSPICION_MS)));
    }

    /// Records that it missed its turn for a transaction that this node sent it.
    pub fn missed(&mut self, validator: ValidatorIndex) {
        let debt = self.debts.entry(validator).or_default();
        *debt = debt.saturating_add(PROPOSALS_PER_MISS).min(MAX_DEBT);
        self.update_silent();
    }

    /// Records that it had a transaction of its own sender ordered.
    pub fn proposed(&mut self, validator: ValidatorIndex) {
        let Some(debt) = self.debts.get_mut(&validator) else { return };
        *debt -= 1;
        if *debt == 0 {
            self.debts.remove(&validator);
        }
        self.update_silent();
    }

    pub fn has_debt(&self, validator: ValidatorIndex) -> bool {
        self.debts.contains_key(&validator)
    }

    fn update_silent(&mut self) {
        let mut debtors: Vec<_> = self.debts.iter().map(|(validator, debt)| (*debt, *validator)).collect();
        debtors.sort_unstable();
        let mut votes = Votes(0);
        let fits = |validator: &ValidatorIndex| {
            let with = votes + self.weights.of(*validator);
            let fits = with <= self.weights.max_faulty();
            if fits {
                votes = with;
            }
            fits
        };
        self.silent = debtors.into_iter().rev().map(|(_, validator)| validator).filter(fits).collect();
    }

    /// Records the ordering latency of a transaction.
    pub fn record_latency(&mut self, ms: u64) {
        if self.latencies.len() == MAX_LATENCIES {
            self.latencies.pop_front();
        }
        self.latencies.push_back(ms);
    }

    /// Length of a turn. Fewer than half of all validators are faulty, so they cannot control the median.
    pub fn turn(&self) -> u64 {
        if self.latencies.len() < MIN_LATENCIES {
            return TURN_MS;
        }
        let mut sorted: Vec<u64> = self.latencies.iter().copied().collect();
        sorted.sort_unstable();
        let median = sorted[sorted.len() / 2];
        let short = median.min(SHORT_LATENCY_MS) * SHORT_LATENCY_FACTOR;
        let long = median.saturating_sub(SHORT_LATENCY_MS).saturating_mul(LONG_LATENCY_FACTOR);
        long.saturating_add(short).min(TURN_MS).next_multiple_of(TURN_STEP_MS).max(MIN_TURN_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::FaultModel;

    const ONE: ValidatorIndex = ValidatorIndex(1);
    const TWO: ValidatorIndex = ValidatorIndex(2);

    #[test]
    fn missed_turn_debt_is_bounded() {
        let mut reputation = Reputation::new(&Weights::one_each(4, FaultModel::Byzantine));
        reputation.missed(ONE);
        for _ in 0..PROPOSALS_PER_MISS {
            assert!(reputation.is_silent(ONE));
            reputation.proposed(ONE);
        }
        assert!(!reputation.is_silent(ONE) && !reputation.has_debt(ONE));
        (0..1_000_000).for_each(|_| reputation.missed(ONE));
        (0..MAX_DEBT).for_each(|_| reputation.proposed(ONE));
        assert!(!reputation.is_silent(ONE));
    }

    #[test]
    fn silent_validators_are_at_most_faulty() {
        let mut reputation = Reputation::new(&Weights::one_each(4, FaultModel::Byzantine));
        reputation.missed(ONE);
        (0..2).for_each(|_| reputation.missed(TWO));
        assert!(reputation.is_silent(TWO) && !reputation.is_silent(ONE));
        (0..=PROPOSALS_PER_MISS).for_each(|_| reputation.proposed(TWO));
        assert!(reputation.is_silent(ONE) && !reputation.is_silent(TWO));
    }

    #[test]
    fn turn_follows_median_latency() {
        let mut reputation = Reputation::new(&Weights::one_each(4, FaultModel::Byzantine));
        (1..MIN_LATENCIES).for_each(|_| reputation.record_latency(10));
        assert_eq!(reputation.turn(), TURN_MS);
        reputation.record_latency(10);
        assert_eq!(reputation.turn(), MIN_TURN_MS);
        // A third of the transactions wait for a silent validator.
        (0..MAX_LATENCIES).for_each(|number| reputation.record_latency(if number % 3 == 0 { 2_000 } else { 160 }));
        assert_eq!(reputation.turn(), 350);
        (0..MAX_LATENCIES).for_each(|_| reputation.record_latency(300));
        assert_eq!(reputation.turn(), 700);
        (0..MAX_LATENCIES).for_each(|_| reputation.record_latency(u64::MAX));
        assert_eq!(reputation.turn(), TURN_MS);
    }
}
