//! The decision rules D3–D5: pure verdicts on a DAG. Calling them again is harmless. When they are asked is the matter of
//! [`crate::decisions`].
//!
//! Every threshold counts distinct **authors**, never blocks: an equivocator's extra blocks must not forge a quorum (P2).

use crate::{
    dag::Dag,
    message::{BlockRef, Round},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::ValidatorIndex;
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

/// The shape of a protocol's waves: Mahi-Mahi's, or a baseline's to compare it with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waves {
    /// w: rounds from proposing to certifying, both included.
    pub length: u64,
    /// ℓ: leader slots of a round that has any.
    pub leaders: u16,
    /// One in so many rounds has leader slots, from round 1 on: 1 in Mahi-Mahi (M3), else the length.
    pub stride: u64,
    /// Whether D4 applies (M8).
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

    /// The propose round that has this vote round, if any.
    pub fn voted_in(&self, vote: Round) -> Option<Round> {
        self.propose_round(vote, self.length - 2)
    }

    /// The propose round that has this certify round, and whose leaders this round's coin elects (C2), if any.
    pub fn certified_in(&self, certify: Round) -> Option<Round> {
        self.propose_round(certify, self.length - 1)
    }

    fn propose_round(&self, later: Round, distance: u64) -> Option<Round> {
        let round = later.0.checked_sub(distance)?;
        (round.checked_sub(1)? % self.stride == 0).then_some(Round(round))
    }
}

/// What became of a slot. Final: it never changes as the DAG grows (D1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Commit(BlockRef),
    Skip,
}

/// Which rule decided a slot, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// D3: so many authors certify the block.
    Certified(usize),
    /// D4: the leader has no block, so nobody can vote for one.
    Empty,
    /// D4: at least so many authors do not vote, whichever sibling one looks at.
    Refused(usize),
    /// D5: the history of the block committed in this slot.
    Anchor(Slot),
}

/// A slot that was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub slot: Slot,
    pub leader: ValidatorIndex,
    pub verdict: Verdict,
    pub reason: Reason,
}

impl Decision {
    /// The rule in words; `committee_size` is what the counts are out of.
    pub fn why(&self, committee_size: usize) -> String {
        match (self.reason, self.verdict) {
            (Reason::Certified(authors), _) => format!("direct: {authors} of {committee_size} certify"),
            (Reason::Empty, _) => "skipped: no block".to_owned(),
            (Reason::Refused(authors), _) if authors == committee_size => "skipped: no votes".to_owned(),
            (Reason::Refused(authors), _) => format!("skipped: {authors} of {committee_size} do not vote for it"),
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

/// D3 and D4: what the certify and vote rounds say by themselves.
pub fn direct(dag: &Dag, waves: &Waves, round: Round, leader: ValidatorIndex) -> Option<(Verdict, Reason)> {
    let mut certified = dag.certified(round, leader).filter(|(_, authors)| *authors >= dag.quorum());
    match (certified.next(), certified.next()) {
        (Some((block, authors)), None) => Some((Verdict::Commit(block), Reason::Certified(authors))),
        // Lemma 6.4.2 is broken, so more validators are faulty than the committee stands; nothing may be output any more.
        (Some(_), Some(_)) => None,
        (None, _) if waves.direct_skip => directly_skipped(dag, waves, round, leader).map(|reason| (Verdict::Skip, reason)),
        (None, _) => None,
    }
}

/// D4: (i) a quorum of authors has voted, and (ii) **every** known block of the slot has a quorum of authors not voting
/// for it. The printed algorithm skips as soon as *one* sibling has, which forks (P1).
fn directly_skipped(dag: &Dag, waves: &Waves, round: Round, leader: ValidatorIndex) -> Option<Reason> {
    if dag.authors_at(waves.vote_round(round)) < dag.quorum() {
        return None;
    }
    match dag.refused(round, leader).map(|(_, authors)| authors).min() {
        None => Some(Reason::Empty),
        Some(fewest) => (fewest >= dag.quorum()).then_some(Reason::Refused(fewest)),
    }
}

/// D5, second half: a block of `leader` that one of `certifiers`, the certify round in an anchor's history, certifies. Depends
/// only on that history, so it is the same at every validator.
pub fn held_certificate<'a>(
    dag: &Dag,
    certifiers: impl Iterator<Item = &'a BlockRef>,
    leader: ValidatorIndex,
) -> Option<BlockRef> {
    certifiers.filter_map(|block| dag.certificate(block, leader)).min()
}
