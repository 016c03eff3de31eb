//! The decision rules D3–D5: pure verdicts on a DAG. Repeated calls are harmless. `decisions` chooses when to
//! call them.
//!
//! Every threshold weighs the votes of distinct **authors**, never of blocks: an equivocator's extra blocks must not forge a
//! quorum (P2).

use crate::{
    dag::Dag,
    message::{BlockRef, Round},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{ValidatorIndex, Votes};
use std::fmt;

/// A leader slot. Ordered by round, then rank (F6). May hold no block, one, or siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct Slot {
    pub round: Round,
    pub rank: u16,
}

impl Slot {
    pub const FIRST: Self = Self { round: Round(1), rank: 0 };
}

/// Shape of a protocol's waves: Mahi-Mahi's, or that of a baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waves {
    /// w: number of rounds from the propose round to the certify round, both included.
    pub length: u64,
    /// ℓ: leader slots per leader round.
    pub leaders: u16,
    /// Rounds between leader rounds, starting at round 1: 1 in Mahi-Mahi (M3), otherwise the length.
    pub stride: u64,
    /// True if D4 applies (M8).
    pub direct_skip: bool,
}

impl Waves {
    pub const fn mahi_mahi(length: u64, leaders: u16) -> Self {
        Self { length, leaders, stride: 1, direct_skip: true }
    }

    /// F6: the slot after this one.
    pub fn after(&self, slot: Slot) -> Slot {
        if slot.rank + 1 < self.leaders {
            Slot { rank: slot.rank + 1, ..slot }
        } else {
            Slot { round: slot.round + self.stride, rank: 0 }
        }
    }

    pub fn vote_round(&self, propose: Round) -> Round {
        propose + (self.length - 2)
    }

    pub fn certify_round(&self, propose: Round) -> Round {
        propose + (self.length - 1)
    }

    /// Propose round for this vote round, if any.
    pub fn propose_round_of_vote(&self, vote: Round) -> Option<Round> {
        self.propose_round(vote, self.length - 2)
    }

    /// Propose round for this certify round, if any. The certify round's coin elects its leaders (C2).
    pub fn propose_round_of_certify(&self, certify: Round) -> Option<Round> {
        self.propose_round(certify, self.length - 1)
    }

    fn propose_round(&self, later: Round, distance: u64) -> Option<Round> {
        let round = later.0.checked_sub(distance)?;
        (round.checked_sub(1)? % self.stride == 0).then_some(Round(round))
    }
}

/// Outcome of a slot. Final: it never changes as the DAG grows (D1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Commit(BlockRef),
    Skip,
}

/// The rule that decided a slot, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// D3: votes of the authors that certify the block.
    Certified(Votes),
    /// D4: the leader has no block, so no votes are possible.
    NoBlock,
    /// D4: minimum over all siblings of the votes of the authors that do not vote for it.
    NonVotes(Votes),
    /// D5: decided by the history of the block committed in this slot.
    Anchor(Slot),
}

/// A decided slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub slot: Slot,
    pub leader: ValidatorIndex,
    pub verdict: Verdict,
    pub reason: Reason,
}

impl Decision {
    /// Describes the rule; `total` is all votes.
    pub fn why(&self, total: Votes) -> String {
        match (self.reason, self.verdict) {
            (Reason::Certified(votes), _) => format!("direct: {votes} of {total} certify"),
            (Reason::NoBlock, _) => "skipped: no block".to_owned(),
            (Reason::NonVotes(votes), _) if votes == total => "skipped: no votes".to_owned(),
            (Reason::NonVotes(votes), _) => format!("skipped: {votes} of {total} do not vote for it"),
            (Reason::Anchor(anchor), Verdict::Commit(_)) => format!("anchor {anchor} holds a certificate"),
            (Reason::Anchor(anchor), Verdict::Skip) => format!("skipped: anchor {anchor} holds no certificate"),
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {})", self.round, self.rank)
    }
}

/// D3 and D4: verdicts from the certify and vote rounds alone.
pub fn direct(dag: &Dag, waves: &Waves, round: Round, leader: ValidatorIndex) -> Option<(Verdict, Reason)> {
    let mut certified = dag.certified(round, leader).filter(|(_, votes)| *votes >= dag.quorum());
    match (certified.next(), certified.next()) {
        (Some((block, votes)), None) => Some((Verdict::Commit(block), Reason::Certified(votes))),
        // Lemma 6.4.2 is violated: more than f validators are faulty. No further output is allowed.
        (Some(_), Some(_)) => None,
        (None, _) if waves.direct_skip => directly_skipped(dag, waves, round, leader).map(|reason| (Verdict::Skip, reason)),
        (None, _) => None,
    }
}

/// D4: (i) a quorum of authors has blocks in the vote round, and (ii) for **every** known block of the slot, a quorum
/// of authors does not vote for it. The printed algorithm skips as soon as *one* sibling has such a quorum, which forks
/// (P1).
fn directly_skipped(dag: &Dag, waves: &Waves, round: Round, leader: ValidatorIndex) -> Option<Reason> {
    if dag.votes_at(waves.vote_round(round)) < dag.quorum() {
        return None;
    }
    match dag.fewest_non_votes(round, leader) {
        None => Some(Reason::NoBlock),
        Some(fewest) => (fewest >= dag.quorum()).then_some(Reason::NonVotes(fewest)),
    }
}

/// D5, second half: the block of `leader` that one of `certifiers` certifies. `certifiers` are the blocks of the
/// certify round in an anchor's history. The result depends only on that history, so it is equal at every validator.
pub fn certificate_in_history<'a>(
    dag: &Dag,
    certifiers: impl Iterator<Item = &'a BlockRef>,
    leader: ValidatorIndex,
) -> Option<BlockRef> {
    certifiers.filter_map(|block| dag.certificate(block, leader)).min()
}
