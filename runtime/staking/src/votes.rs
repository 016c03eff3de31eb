//! Votes from stake, computed at the freeze.
//!
//! Each vote has the same price, the *unit*: the least multiple of `vote_wei` at which the committee keeps its limits. A
//! validator's votes are its stake over the unit, rounded down, and capped so that nobody alone is more than F. Fewer than four
//! members have one vote each. The rest of a validator's stake is idle. So more than F votes always put more than F units at
//! risk.
//!
//! Only the first candidates by stake count, as many as a committee has seats; of equal stakes, the lowest numbers. Checked
//! parameters then leave `min_validators` members whenever there are as many candidates: at the highest unit that leaves the
//! last of them a vote, those before it have at most `most_votes` each, and all others one.

use crate::ValidatorId;
use alloy_primitives::U256;
use corniche_types::{FaultModel, StakingParameters, Votes, Weights};
use std::cmp::Reverse;

/// A validator that may be a member of the next committee (S1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its number.
    pub id: ValidatorId,
    /// Its bonded stake, in wei.
    pub bonded: U256,
}

impl Candidate {
    /// Order of candidates: by stake descending, then by number ascending.
    pub(crate) fn rank(&self) -> (Reverse<U256>, ValidatorId) {
        (Reverse(self.bonded), self.id)
    }
}

/// The next committee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoteAllocation {
    /// Price of a vote, in wei.
    pub unit: U256,
    /// Members by ascending number, with at least one vote each (S5).
    pub members: Vec<(ValidatorId, Votes)>,
}

/// Computes the votes of candidates (S2 to S5). Their order does not matter.
pub fn allocate_votes(candidates: &[Candidate], parameters: &StakingParameters) -> VoteAllocation {
    let candidates = first_ranked(candidates, parameters);
    let unit = unit_of(least_multiple(&candidates, parameters), parameters);
    let mut members: Vec<(ValidatorId, Votes)> = candidates
        .iter()
        .map(|candidate| (candidate.id, whole_units(candidate.bonded, unit, parameters.most_votes)))
        .filter(|(_, votes)| *votes > Votes(0))
        .collect();
    members.sort_unstable_by_key(|(id, _)| *id);
    let cap = cap(&members, parameters.most_votes);
    members.iter_mut().for_each(|(_, votes)| *votes = cap.min(*votes));
    VoteAllocation { unit, members }
}

/// Returns the maximum number of candidates that votes are computed for: each one must be able to have a vote.
pub(crate) fn max_candidates(parameters: &StakingParameters) -> usize {
    parameters.max_validators.min(parameters.max_votes.0) as usize
}

/// Returns whether the sitting committee must be kept (S6): the next one is too small, or those of the sitting one who
/// announced are no quorum of it.
pub fn must_keep(next: &VoteAllocation, sitting: &Weights, announced: Votes, parameters: &StakingParameters) -> bool {
    let members = u32::try_from(next.members.len()).unwrap_or(u32::MAX);
    members < parameters.min_validators || announced < sitting.quorum()
}

/// The candidates that count, by rank.
fn first_ranked(candidates: &[Candidate], parameters: &StakingParameters) -> Vec<Candidate> {
    let mut candidates = candidates.to_vec();
    candidates.sort_unstable_by_key(Candidate::rank);
    candidates.truncate(max_candidates(parameters));
    candidates
}

/// The least m such that units of m · `vote_wei` keep the limit of votes (S2). A higher m makes no more votes, so a binary
/// search finds it.
fn least_multiple(candidates: &[Candidate], parameters: &StakingParameters) -> U256 {
    // The highest stake is below (high + 1) units, so nobody has a vote there.
    let highest = candidates.iter().map(|candidate| candidate.bonded).max().unwrap_or_default();
    let mut high = highest.checked_div(parameters.vote_wei).unwrap_or_default().saturating_add(U256::ONE);
    let mut low = U256::ONE;
    while low < high {
        let middle = low.saturating_add(high.saturating_sub(low) >> 1);
        if keeps_limit(candidates, unit_of(middle, parameters), parameters) {
            high = middle;
        } else {
            low = middle.saturating_add(U256::ONE);
        }
    }
    low
}

fn unit_of(multiple: U256, parameters: &StakingParameters) -> U256 {
    multiple.saturating_mul(parameters.vote_wei)
}

fn keeps_limit(candidates: &[Candidate], unit: U256, parameters: &StakingParameters) -> bool {
    let votes = |candidate: &Candidate| whole_units(candidate.bonded, unit, parameters.most_votes);
    candidates.iter().map(votes).sum::<Votes>() <= parameters.max_votes
}

/// Number of whole units in a stake, at most `most` (S3).
fn whole_units(stake: U256, unit: U256, most: Votes) -> Votes {
    let units = stake.checked_div(unit).unwrap_or_default();
    Votes(u32::try_from(units).unwrap_or(u32::MAX)).min(most)
}

/// The highest number of votes with which nobody is above F (S4); one if there is none. Fewer than four members never have
/// such a number, because F of 3c votes is below c.
fn cap(members: &[(ValidatorId, Votes)], most: Votes) -> Votes {
    let is_safe = |cap: &Votes| {
        let total: Votes = members.iter().map(|(_, votes)| *votes.min(cap)).sum();
        *cap <= FaultModel::Byzantine.faulty(total)
    };
    (1..=most.0).rev().map(Votes).find(is_safe).unwrap_or(Votes(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::{
        SplitMix64,
        rand_core::{Rng, SeedableRng},
    };

    const CASES: u64 = 20_000;

    struct Random(SplitMix64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0.next_u64() % bound
        }

        /// Small prices and limits, so that every rule matters in many cases.
        fn parameters(&mut self) -> StakingParameters {
            StakingParameters {
                vote_wei: U256::from(1 + self.below(20)),
                most_votes: Votes(1 + self.below(64) as u32),
                max_votes: Votes(1 + self.below(100) as u32),
                max_validators: 1 + self.below(20) as u32,
                ..StakingParameters::default()
            }
        }

        /// Small limits that [`StakingParameters::check`] accepts, often only just.
        fn checked_parameters(&mut self) -> StakingParameters {
            let max_validators = 1 + self.below(30) as u32;
            let min_validators = 1 + self.below(u64::from(max_validators)) as u32;
            let most_votes = 1 + self.below(16) as u32;
            let least = max_validators + (most_votes - 1) * (min_validators - 1);
            let max_votes = (least + self.below(4) as u32).min(512);
            let (most_votes, max_votes) = (Votes(most_votes), Votes(max_votes));
            let parameters =
                StakingParameters { most_votes, max_votes, max_validators, min_validators, ..StakingParameters::default() };
            assert_eq!(parameters.check(), Ok(()));
            parameters
        }

        /// Few different stakes of at least a vote, many of them whole votes.
        fn tied_candidates(&mut self, parameters: &StakingParameters) -> Vec<Candidate> {
            let stakes: Vec<U256> = (0..1 + self.below(4))
                .map(|_| {
                    let most = 1 << self.below(12);
                    let extra = U256::from(self.below(2)) * U256::from(self.below(1 << 40));
                    parameters.vote_wei * U256::from(1 + self.below(most)) + extra
                })
                .collect();
            let count = self.below(80);
            let mut stake = || stakes[self.below(stakes.len() as u64) as usize];
            (0..count).map(|id| Candidate { id: ValidatorId(id as u32), bonded: stake() }).collect()
        }

        fn candidates(&mut self) -> Vec<Candidate> {
            let most = 1 << self.below(12);
            let count = self.below(30);
            let mut stake = || U256::from(self.below(most) + 1);
            (0..count).map(|id| Candidate { id: ValidatorId(id as u32), bonded: stake() }).collect()
        }
    }

    fn cases() -> impl Iterator<Item = (StakingParameters, Vec<Candidate>)> {
        (0..CASES).map(|seed| {
            let mut random = Random(SplitMix64::seed_from_u64(seed));
            (random.parameters(), random.candidates())
        })
    }

    fn total(allocation: &VoteAllocation) -> Votes {
        allocation.members.iter().map(|(_, votes)| *votes).sum()
    }

    #[test]
    fn committees_keep_their_limits() {
        let (mut capped, mut small) = (0, 0);
        for (parameters, candidates) in cases() {
            let allocation = allocate_votes(&candidates, &parameters);
            if !allocation.members.is_empty() {
                let weights = Weights::new(allocation.members.iter().map(|(_, votes)| *votes), FaultModel::Byzantine);
                assert_eq!(weights.check(), Ok(()), "{parameters:?} {candidates:?} {allocation:?}");
            }
            let faulty = FaultModel::Byzantine.faulty(total(&allocation));
            assert!(total(&allocation) <= parameters.max_votes, "{parameters:?} {candidates:?}");
            assert!(allocation.members.len() <= parameters.max_validators as usize);
            assert!(allocation.members.iter().all(|(_, votes)| (Votes(1)..=parameters.most_votes).contains(votes)));
            assert!(allocation.members.is_sorted_by(|(one, _), (other, _)| one < other));
            if allocation.members.len() >= 4 {
                assert!(allocation.members.iter().all(|(_, votes)| *votes <= faulty), "{allocation:?} above {faulty}");
                capped += 1;
            } else {
                let paid = |candidate: &Candidate| whole_units(candidate.bonded, allocation.unit, parameters.most_votes);
                small += u64::from(candidates.iter().any(|candidate| paid(candidate) > Votes(1)));
            }
        }
        assert!(capped > CASES / 4, "{capped}");
        // Some of fewer than four members had stake for more than one vote.
        assert!(small > CASES / 20, "{small}");
    }

    #[test]
    fn unit_is_the_least_one() {
        let mut raised = 0;
        for (parameters, candidates) in cases() {
            let ranked = first_ranked(&candidates, &parameters);
            let mut linear = U256::ONE;
            while !keeps_limit(&ranked, linear * parameters.vote_wei, &parameters) {
                linear += U256::ONE;
            }
            assert_eq!(
                allocate_votes(&candidates, &parameters).unit,
                linear * parameters.vote_wei,
                "{parameters:?} {candidates:?}"
            );
            raised += u64::from(linear > U256::ONE);
        }
        assert!(raised > CASES / 4, "{raised}");
    }

    #[test]
    fn limit_stays_kept_for_higher_units() {
        for (parameters, candidates) in cases().take(2_000) {
            let kept: Vec<bool> = (1..60u64).map(|unit| keeps_limit(&candidates, U256::from(unit), &parameters)).collect();
            assert!(kept.is_sorted(), "{parameters:?} {candidates:?}: {kept:?}");
        }
    }

    #[test]
    fn more_stake_has_no_fewer_votes() {
        for (parameters, candidates) in cases() {
            let allocation = allocate_votes(&candidates, &parameters);
            let votes = |id| allocation.members.iter().find(|(member, _)| *member == id).map_or(Votes(0), |(_, votes)| *votes);
            for pair in candidates.windows(2) {
                let (one, other) = (pair[0], pair[1]);
                // Equal stakes differ where the seats end: the lower number has more.
                let (first, second) = if one.rank() < other.rank() { (one, other) } else { (other, one) };
                assert!(votes(first.id) >= votes(second.id), "{allocation:?}");
            }
        }
    }

    #[test]
    fn order_of_candidates_does_not_matter() {
        for (parameters, mut candidates) in cases().take(5_000) {
            let expected = allocate_votes(&candidates, &parameters);
            candidates.reverse();
            assert_eq!(allocate_votes(&candidates, &parameters), expected);
            candidates.sort_by_key(|candidate| candidate.bonded);
            assert_eq!(allocate_votes(&candidates, &parameters), expected);
        }
    }

    #[test]
    fn extreme_stakes() {
        let parameters = StakingParameters::default();
        assert_eq!(allocate_votes(&[], &parameters).members, []);
        let everything: Vec<_> = (0..5).map(|id| Candidate { id: ValidatorId(id), bonded: U256::MAX }).collect();
        let frozen = allocate_votes(&everything, &parameters);
        assert_eq!(frozen.members.len(), 5);
        assert!(frozen.members.iter().all(|(_, votes)| *votes == Votes(16)));
        // One is as rich as all others together: it is capped, so that four others can go on without it.
        let rich = (0..5)
            .map(|id| Candidate { id: ValidatorId(id), bonded: parameters.vote_wei * U256::from(1 + 99 * u32::from(id == 0)) });
        let votes: Vec<_> =
            allocate_votes(&rich.collect::<Vec<_>>(), &parameters).members.iter().map(|(_, votes)| votes.0).collect();
        assert_eq!(votes, [1, 1, 1, 1, 1]);
    }

    /// Equal stakes are taken by number, so a committee exists however many are equal.
    #[test]
    fn more_equal_stakes_than_seats() {
        let parameters = StakingParameters::default();
        let equal = |count: u32| (0..count).map(|id| Candidate { id: ValidatorId(id), bonded: parameters.vote_wei });
        let members = |candidates: Vec<Candidate>| -> Vec<u32> {
            allocate_votes(&candidates, &parameters).members.iter().map(|(id, _)| id.0).collect()
        };
        assert_eq!(members(equal(100).collect()), (0..100).collect::<Vec<_>>());
        assert_eq!(members(equal(101).collect()), (0..100).collect::<Vec<_>>());
        let doubled = Candidate { id: ValidatorId(101), bonded: parameters.vote_wei * U256::from(2) };
        assert_eq!(members(equal(101).chain([doubled]).collect()), (0..99).chain([101]).collect::<Vec<_>>());
    }

    /// Checked parameters leave enough members whenever there are enough candidates.
    #[test]
    fn checked_parameters_leave_enough_members() {
        let mut raised = 0;
        for seed in 0..CASES {
            let mut random = Random(SplitMix64::seed_from_u64(seed));
            let parameters = random.checked_parameters();
            let candidates = random.tied_candidates(&parameters);
            let allocation = allocate_votes(&candidates, &parameters);
            let least = (parameters.min_validators as usize).min(candidates.len());
            assert!(allocation.members.len() >= least, "{parameters:?} {candidates:?} {allocation:?}");
            raised += u64::from(allocation.unit > parameters.vote_wei);
        }
        assert!(raised > CASES / 4, "{raised}");
    }

    #[test]
    fn small_or_silent_committees_are_kept() {
        let parameters = StakingParameters::default();
        let members =
            |count| VoteAllocation { unit: U256::ONE, members: (0..count).map(|id| (ValidatorId(id), Votes(1))).collect() };
        let sitting = Weights::new([Votes(2), Votes(2), Votes(2), Votes(1)], FaultModel::Byzantine);
        assert!(must_keep(&members(3), &sitting, Votes(7), &parameters));
        assert!(must_keep(&members(4), &sitting, Votes(4), &parameters));
        assert!(!must_keep(&members(4), &sitting, Votes(5), &parameters));
    }
}
