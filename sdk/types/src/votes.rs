//! Votes, the unit of quorums.
//!
//! A committee of validators with several votes each behaves as one of as many validators with a single vote, some of which
//! always act alike. So each threshold of a protocol for n validators, of which f are faulty, holds for W votes, of which
//! F are faulty. Votes have a type of their own, so that no threshold is compared with a number of validators.

use crate::{FaultModel, ValidatorIndex};
use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign, Sub},
};

/// Maximum votes of one validator, and so of its coin shares in one block.
pub const MAX_VOTES: Votes = Votes(64);
/// Maximum votes of a committee.
const MAX_TOTAL_VOTES: Votes = Votes(1_000);

/// A number of votes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Votes(pub u32);

impl Votes {
    /// Number of coin shares or seats of these votes.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).expect("a pointer has at least 32 bits")
    }
}

impl fmt::Display for Votes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Add for Votes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Votes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Saturates at zero.
impl Sub for Votes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for Votes {
    fn sum<I: Iterator<Item = Self>>(votes: I) -> Self {
        votes.fold(Self(0), Add::add)
    }
}

/// The votes of each member of a committee, and the quorums that they make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights {
    votes: Box<[Votes]>,
    total: Votes,
    max_faulty: Votes,
}

impl Weights {
    /// The votes of members 0, 1 and so on.
    pub fn new(votes: impl IntoIterator<Item = Votes>, fault_model: FaultModel) -> Self {
        let votes: Box<[Votes]> = votes.into_iter().collect();
        let total = votes.iter().copied().sum();
        Self { votes, total, max_faulty: fault_model.faulty(total) }
    }

    /// One vote for each of `members`.
    pub fn one_each(members: usize, fault_model: FaultModel) -> Self {
        Self::new(std::iter::repeat_n(Votes(1), members), fault_model)
    }

    /// Number of members.
    pub fn members(&self) -> usize {
        self.votes.len()
    }

    /// Indices of all members.
    pub fn indices(&self) -> impl Iterator<Item = ValidatorIndex> + use<> {
        (0u16..).map(ValidatorIndex).take(self.members())
    }

    /// Returns true if every member has one vote.
    pub fn are_one_each(&self) -> bool {
        self.votes.iter().all(|votes| *votes == Votes(1))
    }

    /// Votes of one member; none for an index outside of the committee.
    pub fn of(&self, member: ValidatorIndex) -> Votes {
        self.votes.get(member.as_usize()).copied().unwrap_or_default()
    }

    /// Checks that a committee may have these votes.
    ///
    /// # Errors
    /// The problem, as the rest of a sentence about the validators.
    pub fn check(&self) -> Result<(), String> {
        let votes = || self.votes.iter().enumerate();
        if let Some((index, votes)) = votes().find(|(_, votes)| !(Votes(1)..=MAX_VOTES).contains(votes)) {
            return Err(format!("have {votes} votes at index {index}, must be 1 to {MAX_VOTES}"));
        }
        let (most, total) = (self.max_faulty, self.total);
        if let Some((index, votes)) = votes().find(|(_, votes)| **votes > most).filter(|_| self.members() >= 4) {
            return Err(format!(
                "have {votes} of {total} votes at index {index}: it could stop the chain alone; give it at most {most}"
            ));
        }
        // With fewer members, F would be less than one member's votes, or one member would be a quorum.
        if self.members() < 4 && !self.are_one_each() {
            return Err(format!("are {}, with one vote each; several votes need at least 4 validators", self.members()));
        }
        if total > MAX_TOTAL_VOTES {
            return Err(format!("have {total} votes, must be at most {MAX_TOTAL_VOTES}"));
        }
        Ok(())
    }

    /// Votes of the member that has most.
    pub fn most(&self) -> Votes {
        self.votes.iter().copied().max().unwrap_or_default()
    }

    /// Votes of distinct members together.
    pub fn weigh(&self, members: impl IntoIterator<Item = ValidatorIndex>) -> Votes {
        members.into_iter().map(|member| self.of(member)).sum()
    }

    /// W: all votes.
    pub fn total(&self) -> Votes {
        self.total
    }

    /// F: most votes that faulty validators can have.
    pub fn max_faulty(&self) -> Votes {
        self.max_faulty
    }

    /// Q = W − F: most votes that a validator can wait for. Any two quorums share an honest validator.
    pub fn quorum(&self) -> Votes {
        self.total - self.max_faulty
    }

    /// F + 1: fewest votes of which some belong to an honest validator.
    pub fn validity(&self) -> Votes {
        self.max_faulty + Votes(1)
    }

    /// T − F: fewest votes that honest validators have among voters with T votes.
    pub fn overlap(&self, voters: Votes) -> Votes {
        voters - self.max_faulty
    }

    /// Highest value that members with at least `needed` votes reach. Each distinct member names one value.
    pub fn reached<T: Ord>(&self, named: impl IntoIterator<Item = (ValidatorIndex, T)>, needed: Votes) -> Option<T> {
        let mut named: Vec<_> = named.into_iter().map(|(member, value)| (value, self.of(member))).collect();
        named.sort_by(|one, other| other.cmp(one));
        let mut reached = Votes(0);
        named.into_iter().find_map(|(value, votes)| {
            reached += votes;
            (reached >= needed).then_some(value)
        })
    }

    /// Takes members, the first ones first, until they have `needed` votes; all if they have fewer.
    pub fn take_votes(&self, members: impl IntoIterator<Item = ValidatorIndex>, needed: Votes) -> Vec<ValidatorIndex> {
        let mut taken = Votes(0);
        let is_needed = |member: &ValidatorIndex| {
            let is_needed = taken < needed;
            taken += self.of(*member);
            is_needed
        };
        members.into_iter().take_while(is_needed).collect()
    }

    /// The coin's points of a member, numbered from 1: as many as it has votes, behind those of the members before it.
    pub fn points(&self, member: ValidatorIndex) -> std::ops::RangeInclusive<u32> {
        let before: Votes = self.votes.iter().take(member.as_usize()).copied().sum();
        before.0 + 1..=before.0 + self.of(member).0
    }

    /// The owner of each seat. A member has a seat for each vote, and its seats are spread evenly over the table: seat (i, k)
    /// is sorted by (2k + 1) / 2vᵢ, then by i. With one vote each, seat i belongs to member i.
    pub fn seats(&self) -> Vec<ValidatorIndex> {
        let seats_of = |(member, votes): (ValidatorIndex, &Votes)| {
            let votes = votes.0;
            (0..votes).map(move |seat| (2 * seat + 1, 2 * votes, member))
        };
        let mut seats: Vec<_> = (0u16..).map(ValidatorIndex).zip(&self.votes).flat_map(seats_of).collect();
        // a/b < c/d exactly if a·d < c·b.
        seats.sort_by_key(|(.., member)| *member);
        seats.sort_by(|(a, b, _), (c, d, _)| (u64::from(*a) * u64::from(*d)).cmp(&(u64::from(*c) * u64::from(*b))));
        seats.into_iter().map(|(.., member)| member).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(votes: &[u32]) -> Weights {
        Weights::new(votes.iter().copied().map(Votes), FaultModel::Byzantine)
    }

    #[test]
    fn quorums_share_an_honest_vote() {
        for total in 1..=512 {
            for model in [FaultModel::Byzantine, FaultModel::Crash] {
                let weights = Weights::new([Votes(total)], model);
                // Crashed validators do not lie, so one shared vote is enough for them.
                let liars = if model == FaultModel::Byzantine { weights.max_faulty() } else { Votes(0) };
                let shared = weights.quorum() + weights.quorum() - weights.total();
                assert!(shared > liars, "{total} votes, {model:?}: two quorums share {shared}");
                assert!(weights.quorum() >= weights.validity());
            }
        }
    }

    #[test]
    fn one_vote_each_is_the_unweighted_committee() {
        for members in 1..=50usize {
            let weights = Weights::one_each(members, FaultModel::Byzantine);
            let faulty = (members - 1) / 3;
            assert_eq!(weights.max_faulty().as_usize(), faulty);
            assert_eq!(weights.quorum().as_usize(), members - faulty);
            assert_eq!(weights.overlap(weights.quorum()).as_usize(), members - 2 * faulty);
            let seats: Vec<_> = weights.seats().iter().map(|member| member.as_usize()).collect();
            assert_eq!(seats, (0..members).collect::<Vec<_>>());
        }
    }

    #[test]
    fn seats_of_one_member_are_spread() {
        let owners: Vec<_> = weights(&[3, 2, 2, 1]).seats().iter().map(|member| member.0).collect();
        // Exact fractions: 1/6 (0), 1/4 (1, 2), 1/2 (0, 3), 3/4 (1, 2), 5/6 (0).
        assert_eq!(owners, [0, 1, 2, 0, 3, 1, 2, 0]);
        for votes in [&[3, 2, 2, 1][..], &[4, 3, 3, 2, 1], &[5, 5, 5, 1, 1, 1]] {
            let weights = weights(votes);
            let seats = weights.seats();
            assert_eq!(seats.len(), weights.total().as_usize());
            for (member, votes) in (0u16..).map(ValidatorIndex).zip(votes) {
                assert_eq!(seats.iter().filter(|owner| **owner == member).count(), *votes as usize);
            }
            assert!(seats.windows(2).all(|pair| pair[0] != pair[1]), "{votes:?}: two neighbours have one owner, {seats:?}");
        }
    }

    #[test]
    fn points_are_consecutive() {
        let weights = weights(&[2, 1, 3]);
        let points: Vec<Vec<u32>> = (0..3).map(|member| weights.points(ValidatorIndex(member)).collect()).collect();
        assert_eq!(points, [vec![1, 2], vec![3], vec![4, 5, 6]]);
    }
}
